//! What a report is made of: a run, or a comparison.

use std::borrow::Cow;

use crate::compare::{self, Selection};
use crate::page::block::{Opening, Section};
use crate::releases::Releases;
use crate::run::{self, ShownTrial, Summary};
use crate::view::View;
use fsb_model::Trial;
use fsb_stats::compare::Document;

/// What the formats show.
#[expect(clippy::large_enum_variant, reason = "there is one report at a time")]
#[derive(Debug, Clone)]
pub enum Report<'a> {
    /// A run with its trials.
    Run {
        /// What it found.
        summary: Cow<'a, Summary>,
        /// What that rests on.
        trials: Cow<'a, [ShownTrial]>,
    },
    /// A comparison of sets.
    Comparison {
        /// What it found.
        document: Cow<'a, Document>,
        /// The operation, or the workload, that is shown size by size; absent for the overview of all.
        detail: Option<&'a str>,
    },
}

impl<'a> Report<'a> {
    /// Of a run.
    pub fn of_run(summary: &'a Summary, trials: &'a [Trial]) -> Report<'a> {
        Report::Run { summary: Cow::Borrowed(summary), trials: Cow::Owned(ShownTrial::all(trials)) }
    }

    /// Of a run whose trials were read for a report alone.
    pub fn of_shown(summary: &'a Summary, trials: &'a [ShownTrial]) -> Report<'a> {
        Report::Run { summary: Cow::Borrowed(summary), trials: Cow::Borrowed(trials) }
    }

    /// Of a comparison; of one operation in detail, where one is named.
    pub fn of_comparison(document: &'a Document, detail: Option<&'a str>) -> Report<'a> {
        Report::Comparison { document: Cow::Borrowed(document), detail }
    }

    /// The same for people: with kernels as tables show them.
    pub(crate) fn readable(&self) -> Readable<'_> {
        let (report, releases) = match self {
            Report::Run { summary, trials } => {
                let (summary, releases) = run::view::shortened(summary);
                (Report::Run { summary, trials: Cow::Borrowed(trials) }, releases)
            }
            Report::Comparison { document, detail } => {
                let (document, releases) = compare::view::shortened(document);
                (Report::Comparison { document, detail: *detail }, releases)
            }
        };
        Readable { report, releases }
    }
}

/// A report with short names of kernels, and what they are short for.
pub(crate) struct Readable<'a> {
    report: Report<'a>,
    releases: Releases,
}

impl Readable<'_> {
    /// What is shown in every form that people read.
    pub(crate) fn view(&self) -> View<'_> {
        let mut view = match &self.report {
            Report::Run { summary, .. } => run::view::of(summary),
            Report::Comparison { document, detail } => compare::view::of(Selection { document, detail: *detail }),
        };
        self.releases.explain(&mut view.facts);
        view
    }

    /// What the overview of a page says in words of its own.
    pub(crate) fn opening(&self, view: &View<'_>) -> Opening {
        match &self.report {
            Report::Run { summary, .. } => run::sections::opening(summary),
            Report::Comparison { .. } => compare::sections::opening(view),
        }
    }

    /// What a page shows between its overview and the method.
    pub(crate) fn sections<'a>(&'a self, view: &'a View<'a>) -> Box<dyn Iterator<Item = Section> + 'a> {
        match &self.report {
            Report::Run { summary, .. } => Box::new(run::sections::of(summary, view)),
            Report::Comparison { document, detail } => {
                Box::new(compare::sections::of(Selection { document, detail: *detail }, view).into_iter())
            }
        }
    }

    /// The trials that a page holds for programs.
    pub(crate) fn trials(&self) -> Option<&[ShownTrial]> {
        match &self.report {
            Report::Run { trials, .. } => Some(trials),
            Report::Comparison { .. } => None,
        }
    }
}
