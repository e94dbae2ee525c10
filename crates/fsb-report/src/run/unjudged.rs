//! Runs that give numbers and judge nothing: on an emulated machine, on an array whose members share one disk.

use fsb_stats::{Outcome, Ranking};

use super::summary::{Summary, TargetSummary};
use crate::show::Paragraph;
use crate::show::{capital, counted, listed_or_counted};

/// Removes the comparisons of targets: ranks, letters, ratios, overall results. Measured values remain.
pub(super) fn strip(summary: &mut Summary) {
    for row in &mut summary.rows {
        let outcome = match row.ranking.outcome {
            Outcome::Nothing => Outcome::Nothing,
            _ => Outcome::NotJudged,
        };
        row.ranking = Ranking::without_pairs(row.cells.len(), outcome);
        row.resolution = None;
        for cell in &mut row.cells {
            (cell.against, cell.scatter) = (None, None);
            cell.mark.clear();
            cell.secondary.iter_mut().for_each(|secondary| secondary.against = None);
        }
    }
    summary.overall.fill(None);
}

/// Returns the headline.
pub(super) fn headline(summary: &Summary, why: &str) -> String {
    let names: Vec<String> = summary.targets.iter().map(TargetSummary::label).collect();
    let (workloads, blocks) = (counted(summary.rows.len(), "workload"), counted(summary.blocks as usize, "block"));
    let targets = listed_or_counted(&names, "target");
    format!("{}. {workloads} in {blocks} on {targets}: numbers, nothing is judged.", capital(why))
}

/// Returns the note beside the table.
pub(super) fn advice(why: &str) -> String {
    format!("Values, without ranks or verdicts: {why}.")
}

/// Returns the paragraph on the reason, for the methods.
pub(super) fn method(summary: &Summary, why: &str) -> Paragraph {
    let more = if summary.emulated {
        " Emulated processors multiply the time that code takes, but not that of the device, so the order of targets \
         says nothing about a real machine. Such numbers show that a plan runs and how much it writes; fsb never \
         compares them with native ones."
    } else {
        " All members share one disk, so the run cannot measure what an array gains."
    };
    Paragraph { title: "Why nothing is judged", text: format!("{}.{more}", capital(why)) }
}

/// Runs of this kind, for the tests of all formats.
#[cfg(test)]
pub(crate) mod samples {
    use fsb_model::run::MediumRecord;
    use fsb_model::{RunRecord, Trial};

    use crate::sample;

    /// On emulated processors.
    pub(crate) fn emulated(targets: &[&str], blocks: u32) -> (RunRecord, Vec<Trial>) {
        let (mut record, trials) = sample::run(targets, blocks);
        record.emulated = true;
        (record, trials)
    }

    /// With an array whose members share one disk.
    pub(crate) fn one_disk(targets: &[&str], blocks: u32) -> (RunRecord, Vec<Trial>) {
        let (mut record, trials) = sample::run(targets, blocks);
        let why = "members of raid0:loop+loop share one disk".to_owned();
        let medium = MediumRecord { unjudged: Some(why), ..record.media["loop"].clone() };
        record.media = [("raid0:loop+loop".to_owned(), medium)].into();
        (record, trials)
    }
}
