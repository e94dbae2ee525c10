//! Reports of runs as pages. They are made from run directories for each request, because another
//! user could have written a stored page.

use std::path::{Path, PathBuf};

use fsb_model::setting::THETA;
use fsb_report::choice::Choice;
use fsb_report::{Report, html};
use fsb_results::comparison::{Choices, Comparison};
use fsb_results::{Latencies, StoredRun, sets, summary};
use fsb_stats::compare::Single;

/// Returns the report of a run as a page.
///
/// # Errors
///
/// The reason why there is none, for the reader of the page.
pub fn run(source: &Path) -> Result<String, String> {
    let run = StoredRun::read(source, Latencies::Added).map_err(|error| error.to_string())?;
    if Choice::from_run(&run.record, &run.trials).is_some() {
        return Err(format!(
            "A race has no page: fsb report {} prints it.",
            source.display()
        ));
    }
    let summary = summary::of_stored(&run);
    Ok(html::render(&Report::of_shown(&summary, &run.trials)))
}

/// Returns the comparison of two sets of runs as a page; the first set is the baseline.
///
/// # Errors
///
/// The reason why there is none, for the reader of the page.
pub fn comparison(before: &[PathBuf], after: &[PathBuf]) -> Result<String, String> {
    let page = || -> anyhow::Result<String> {
        let read = sets::read_named(&[("before", before), ("after", after)])?;
        let choices = Choices {
            theta: THETA,
            between: None,
            baseline: 0,
            single: Single::Lone,
        };
        let Ok(comparison) = Comparison::new(read, &choices)? else {
            anyhow::bail!("nothing to compare: the runs share no operation");
        };
        Ok(html::render(&Report::of_comparison(
            &comparison.document,
            None,
        )))
    };
    page().map_err(|error| format!("{error:#}"))
}
