//! The pages as files for any web server, without what needs a server: search, comparisons and
//! other rules.

use std::io;

use crate::answer::{Place, answer};
use crate::problem::Problem;
use crate::query::Query;
use crate::site::Site;

/// Passes each file to `write`, with its path below the directory. Returns the number of files, and
/// the reports that cannot be made with the reasons.
///
/// # Errors
///
/// The store cannot be read, or `write` fails.
pub fn write_files(
    site: &Site,
    write: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
) -> Result<(usize, Vec<String>), WriteError> {
    let snapshot = site.snapshot().map_err(WriteError::Page)?;
    let fixed = [
        Place::Home,
        Place::Style,
        Place::AllSeries,
        Place::AllRuns,
        Place::Matrix,
        Place::ApiOverview,
        Place::ApiAllSeries,
        Place::ApiAllRuns,
        Place::ApiMatrix,
        Place::ApiDescription,
    ];
    let series = snapshot
        .document
        .series
        .iter()
        .map(|series| series.id.clone());
    let series = series.flat_map(|id| [Place::Series(id.clone()), Place::ApiSeries(id)]);
    let runs = snapshot.runs.keys().cloned();
    let runs = runs.flat_map(|id| {
        [
            Place::Run(id.clone()),
            Place::ApiRun(id.clone()),
            Place::Report(id),
        ]
    });
    let (mut files, mut left_out) = (0, Vec::new());
    for place in fixed.into_iter().chain(series).chain(runs) {
        let Some(path) = place.file() else { continue };
        match answer(site, &place, &Query::default(), true) {
            Ok(answer) => {
                write(&path, &answer.content).map_err(WriteError::File)?;
                files += 1;
            }
            Err(Problem::NotFound(why)) => left_out.push(why),
            Err(problem) => return Err(WriteError::Page(problem)),
        }
    }
    Ok((files, left_out))
}

/// The reason why files are incomplete.
#[derive(Debug)]
pub enum WriteError {
    /// A page cannot be made.
    Page(Problem),
    /// A file cannot be written.
    File(io::Error),
}
