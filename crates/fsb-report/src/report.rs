//! The input of the formats: a run or a comparison.

use std::borrow::Cow;

use fsb_model::Trial;
use fsb_stats::compare::Document;

use crate::check::{self, Check};
use crate::compare::{self, Selection};
use crate::page::{DataFile, Opening, Section};
use crate::releases::Releases;
use crate::run;
use crate::summary::{CompactTrial, Summary};
use crate::view::View;

/// A run or a comparison, as the formats show it.
#[expect(clippy::large_enum_variant, reason = "there is one report at a time")]
#[derive(Debug, Clone)]
pub enum Report<'a> {
    /// A run with its trials.
    Run {
        /// The results of the run.
        summary: Cow<'a, Summary>,
        /// The trials that the results rest on.
        trials: Cow<'a, [CompactTrial]>,
        /// The answers of a gate; absent for those that the results imply.
        checks: Option<&'a [Check]>,
    },
    /// A comparison of sets.
    Comparison {
        /// The results of the comparison.
        document: Cow<'a, Document>,
        /// The operation, or the workload, that is shown size by size; absent for the overview of
        /// all.
        detail: Option<&'a str>,
        /// Files with the data of the comparison, which a page links to.
        files: &'a [DataFile],
        /// The answers of a gate; absent for those that the comparison implies.
        checks: Option<&'a [Check]>,
    },
}

impl<'a> Report<'a> {
    /// Returns the report of a run.
    pub fn of_run(summary: &'a Summary, trials: &'a [Trial]) -> Report<'a> {
        Report::Run {
            summary: Cow::Borrowed(summary),
            trials: Cow::Owned(CompactTrial::all(trials)),
            checks: None,
        }
    }

    /// Returns the report of a run whose trials were read for a report alone.
    pub fn of_shown(summary: &'a Summary, trials: &'a [CompactTrial]) -> Report<'a> {
        Report::Run {
            summary: Cow::Borrowed(summary),
            trials: Cow::Borrowed(trials),
            checks: None,
        }
    }

    /// Returns the report of a comparison, or of one operation in detail if `detail` names one.
    pub fn of_comparison(document: &'a Document, detail: Option<&'a str>) -> Report<'a> {
        Report::Comparison {
            document: Cow::Borrowed(document),
            detail,
            files: &[],
            checks: None,
        }
    }

    /// Names the files with the data of a comparison. A run has none.
    #[must_use]
    pub fn with_files(mut self, data: &'a [DataFile]) -> Report<'a> {
        if let Report::Comparison { files, .. } = &mut self {
            *files = data;
        }
        self
    }

    /// Adds the answers of a gate, which the formats for continuous integration print.
    #[must_use]
    pub fn with_checks(mut self, answers: &'a [Check]) -> Report<'a> {
        let (Report::Run { checks, .. } | Report::Comparison { checks, .. }) = &mut self;
        *checks = Some(answers);
        self
    }

    /// Returns the answers of the gate, or else those that the results imply.
    pub(crate) fn checks(&self) -> Cow<'_, [Check]> {
        match self {
            Report::Run {
                checks: Some(checks),
                ..
            }
            | Report::Comparison {
                checks: Some(checks),
                ..
            } => Cow::Borrowed(checks),
            Report::Run { summary, .. } => Cow::Owned(check::of_run(summary)),
            Report::Comparison { document, .. } => Cow::Owned(check::of_document(document)),
        }
    }

    /// Returns the smallest ratio that matters.
    pub(crate) fn theta(&self) -> f64 {
        match self {
            Report::Run { summary, .. } => summary.theta,
            Report::Comparison { document, .. } => document.settings.theta,
        }
    }

    /// Returns the report for people, with the kernel names that tables show.
    pub(crate) fn readable(&self) -> Readable<'_> {
        let (report, releases) = match self {
            Report::Run {
                summary,
                trials,
                checks,
            } => {
                let (summary, releases) = run::view::shortened(summary);
                (
                    Report::Run {
                        summary,
                        trials: Cow::Borrowed(trials),
                        checks: *checks,
                    },
                    releases,
                )
            }
            Report::Comparison {
                document,
                detail,
                files,
                checks,
            } => {
                let (document, releases) = compare::shortened(document);
                (
                    Report::Comparison {
                        document,
                        detail: *detail,
                        files,
                        checks: *checks,
                    },
                    releases,
                )
            }
        };
        Readable { report, releases }
    }
}

/// A report with shortened kernel names, and the names in full.
pub(crate) struct Readable<'a> {
    report: Report<'a>,
    releases: Releases,
}

impl Readable<'_> {
    /// Returns the view that every format for people shows.
    pub(crate) fn view(&self) -> View<'_> {
        match &self.report {
            Report::Run { summary, .. } => run::view::from_summary(summary, &self.releases),
            Report::Comparison {
                document, detail, ..
            } => {
                let mut view = compare::view(Selection {
                    document,
                    detail: *detail,
                });
                view.facts.extend(self.releases.definitions());
                view
            }
        }
    }

    /// Returns the answers of the gate with shortened kernel names.
    pub(crate) fn checks(&self) -> Vec<Check> {
        let mut checks = self.report.checks().into_owned();
        for check in &mut checks {
            let names = [&mut check.case, &mut check.candidate, &mut check.text];
            for text in names.into_iter().chain(&mut check.baseline) {
                *text = self.releases.shorten(text);
            }
        }
        checks
    }

    /// Returns the opening of the overview, which differs between a run and a comparison.
    pub(crate) fn opening(&self, view: &View<'_>) -> Opening {
        match &self.report {
            Report::Run { summary, .. } => run::sections::opening(summary),
            Report::Comparison { .. } => compare::sections::opening(view),
        }
    }

    /// Returns the sections of a page between its overview and the method.
    pub(crate) fn sections<'a>(
        &'a self,
        view: &'a View<'a>,
    ) -> Box<dyn Iterator<Item = Section> + 'a> {
        match &self.report {
            Report::Run { summary, .. } => Box::new(run::sections::list(summary, view)),
            Report::Comparison {
                document,
                detail,
                files,
                ..
            } => {
                let sections = compare::sections::list(
                    Selection {
                        document,
                        detail: *detail,
                    },
                    view,
                );
                Box::new(sections.into_iter().chain(compare::sections::data(files)))
            }
        }
    }

    /// Returns the trials that a page holds for programs. Returns `None` for a comparison.
    pub(crate) fn trials(&self) -> Option<&[CompactTrial]> {
        match &self.report {
            Report::Run { trials, .. } => Some(trials),
            Report::Comparison { .. } => None,
        }
    }
}
