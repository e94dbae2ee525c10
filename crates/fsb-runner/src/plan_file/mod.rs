//! Plans as people write them: TOML in which everything is optional. They resolve to plans that can
//! be run.
//!
//! The written form (a plan file, a suite, the command line) and its meaning ([`fsb_model::Plan`])
//! are two types. Written plans are merged. Only the resolved plan is ever run.

mod needs;
mod resolve;
mod text;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use fsb_model::code::{self, Coded, ErrorCode};
use fsb_model::error::{Error, Kind};
use fsb_model::setting::SettingValue;
use fsb_model::{Background, Settings, WorkloadSpec, error_codes};
use serde_json::{Map, Value};
use toml::Spanned;

use crate::target_file::TargetFile;

pub use needs::{Need, Needed};
pub use resolve::{Resolved, print};
pub use text::{parse, write};

/// A plan as written: everything may be missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanFile {
    /// The settings of [`fsb_model::setting::SETTINGS`] that it gives.
    pub settings: Settings,
    /// Targets, each as on the command line, or as a table with controls of its own.
    pub targets: Vec<Spanned<TargetFile>>,
    /// The race that chooses one of the targets. Only the command line sets it.
    pub race: Option<fsb_model::Race>,
    /// Whether every workload that can do so compares the data that it reads with the data that was
    /// written. Only the command line sets it. In a printed plan, the workloads have the parameter.
    pub verify: bool,
    /// The background of every workload without one of its own. In a printed plan, the workloads
    /// have it.
    pub background: Option<Background>,
    /// Controls by name.
    pub controls: BTreeMap<String, String>,
    /// Workloads, unless the settings name a suite.
    pub workloads: Vec<WorkloadSpec>,
    /// The programs that workloads need, and what came of it.
    pub needed: Vec<Needed>,
    /// The text that this came from and its name, so that late errors can point into it.
    pub source: Option<(String, String)>,
}

impl PlanFile {
    /// Merges this plan over another one. The values of this plan take precedence.
    pub fn over(self, under: PlanFile) -> PlanFile {
        let mut beneath = under.settings;
        let (workloads, needed) = if !self.workloads.is_empty() || self.settings.has("suite") {
            beneath.unset("suite");
            (self.workloads, self.needed)
        } else {
            (under.workloads, under.needed)
        };
        let mut controls = under.controls;
        controls.extend(self.controls);
        PlanFile {
            settings: self.settings.over(beneath),
            targets: if self.targets.is_empty() {
                under.targets
            } else {
                self.targets
            },
            race: self.race.or(under.race),
            verify: self.verify || under.verify,
            background: self.background.or(under.background),
            controls,
            workloads,
            needed,
            source: under.source.or(self.source),
        }
    }

    /// Permits the plan to overwrite these devices, and no others.
    pub fn allow_wipe(&mut self, devices: &[PathBuf]) {
        let paths = devices.iter();
        let paths = paths.map(|path| path.to_string_lossy().into_owned());
        self.settings
            .set("wipe", SettingValue::List(paths.collect()));
    }

    fn error_at(&self, span: Range<usize>, message: &str) -> PlanError {
        match &self.source {
            Some((text, origin)) if span != (0..0) => {
                at(text, origin, Some(span), message, &PLAN_VALUE)
            }
            _ => PlanError::Request(message.to_owned()),
        }
    }

    /// Returns the error of a text that has a code of its own. In a plan file the place is more
    /// useful than that code.
    fn coded_at(&self, span: Range<usize>, error: &(impl Coded + ToString)) -> PlanError {
        match self.error_at(span, &error.to_string()) {
            PlanError::Request(message) => PlanError::known(error.code(), message),
            placed => placed,
        }
    }
}

/// Returns a value from the command line, which has no place in a file.
pub fn typed<T: From<String>>(text: &str) -> Spanned<T> {
    Spanned::new(0..0, text.to_owned().into())
}

fn at(
    text: &str,
    origin: &str,
    span: Option<Range<usize>>,
    message: &str,
    code: &'static ErrorCode,
) -> PlanError {
    let start = span.map_or(0, |span| span.start).min(text.len());
    let before = &text.as_bytes()[..start];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[line_start..])
        .chars()
        .count()
        + 1;
    PlanError::At {
        origin: origin.to_owned(),
        line,
        column,
        message: message.trim_end().to_owned(),
        code,
    }
}

/// The error of an invalid plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An invalid text, with the place.
    #[error("{origin}, line {line}, column {column}: {message}")]
    At {
        /// The file, or the suite.
        origin: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// The mistake.
        message: String,
        /// The kind of mistake.
        code: &'static ErrorCode,
    },
    /// A mistake of a known kind in a plan or on the command line.
    #[error("{message}")]
    Known {
        /// The kind.
        code: &'static ErrorCode,
        /// The mistake in words.
        message: String,
        /// The remedy, if it is more specific than that of the kind. The message ends with it.
        help: Option<String>,
    },
    /// An invalid request.
    #[error("{0}")]
    Request(String),
    /// A kernel is named wrongly, or this machine does not have it.
    #[error("{0}")]
    Kernel(Error),
}

error_codes! {
    PLAN_INVALID = "plan/invalid", code::REQUEST, "The plan, or an option that is part of it, is invalid.", "Correct what the message names; fsb run --print-plan shows a plan as it is understood.";
    PLAN_VALUE = "plan/invalid-value", code::REQUEST, "A value in the plan file is wrong.", "Correct the value at the line and column of the fields.";
    UNKNOWN_KEY = "plan/unknown-key", code::REQUEST, "The plan file has a key that fsb does not know.", "Use the key that the message proposes.";
    UNKNOWN_SUITE = "plan/unknown-suite", code::REQUEST, "No suite has that name.", "Use a name of fsb list suites.";
    PLAN_CONFLICT = "plan/conflict", code::REQUEST, "Two parts of the plan exclude each other.", "Remove one of them.";
    PLAN_NO_TARGET = "plan/no-target", code::REQUEST, "The plan has no target.", "Name file systems or a directory: fsb run ext4 xfs.";
    PLAN_MACHINE = "plan/machine", code::MACHINE, "This machine cannot run the plan.", "Install what the message names, or change the plan.";
}

impl PlanError {
    fn known(code: &'static ErrorCode, message: impl Into<String>) -> PlanError {
        PlanError::Known {
            code,
            message: message.into(),
            help: None,
        }
    }

    /// Returns the same about an unknown suite, with its remedy.
    pub(crate) fn unknown_suite(message: &str, help: &str) -> PlanError {
        let message = format!("{message}; {help}");
        PlanError::Known {
            code: &UNKNOWN_SUITE,
            message,
            help: Some(help.to_owned()),
        }
    }
}

impl Coded for PlanError {
    fn code(&self) -> &'static ErrorCode {
        match self {
            PlanError::At { code, .. } | PlanError::Known { code, .. } => code,
            PlanError::Request(_) => &PLAN_INVALID,
            PlanError::Kernel(error) if error.kind == Kind::Request => error.code(),
            PlanError::Kernel(_) => &PLAN_MACHINE,
        }
    }

    fn fields(&self) -> Map<String, Value> {
        match self {
            PlanError::At {
                origin,
                line,
                column,
                ..
            } => code::fields([
                ("path", origin.as_str().into()),
                ("line", (*line).into()),
                ("column", (*column).into()),
            ]),
            PlanError::Kernel(error) => error.fields(),
            _ => Map::new(),
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            PlanError::Known { help, .. } => help.clone(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::Repetition;
    use fsb_model::setting::{SETTINGS, SettingKind, Stored};

    use super::*;

    fn plan(sample_time: &str) -> String {
        format!(
            "targets = ['null']\n[[workload]]\nname = 'write'\nfile_size = '1M'\n[[workload]]\nname = 'rename'\n\
             files = 10\nsample_time = {sample_time}\n"
        )
    }

    #[test]
    fn a_field_of_another_table_is_suggested_where_it_belongs() {
        let said = parse("[repetition]\nzzzzzz = 1\n", "p")
            .unwrap_err()
            .to_string();
        let (_, known) = said.split_once("expected one of ").unwrap();
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        assert_eq!(known, ["budget", "blocks", "precision", "sample_time"]);
        let said = parse("budget = '5m'\n", "p").unwrap_err().to_string();
        assert!(
            said.ends_with("unknown field `budget`: it belongs in [repetition]"),
            "{said}"
        );
    }

    #[test]
    fn a_workload_may_have_a_sample_time_of_its_own_which_a_printed_plan_keeps() {
        let resolved = parse(&plan("'10s'"), "p").unwrap().resolve(2, 7).unwrap();
        let samples: Vec<_> = resolved
            .plan
            .workloads
            .iter()
            .map(|workload| resolved.plan.sample_time_of(workload))
            .collect();
        assert_eq!(samples, [None, Some(10.0)]);
        let printed = print(&resolved.plan).unwrap();
        assert_eq!(
            parse(&printed, "printed")
                .unwrap()
                .resolve(2, 7)
                .unwrap()
                .plan,
            resolved.plan,
            "{printed}"
        );
    }

    #[test]
    fn blocks_may_have_a_bound_which_a_printed_plan_keeps() {
        let text = "targets = ['null']\n[[workload]]\nname = 'rename'\n[repetition]\nblocks = 9\nbudget = '60s'\n";
        let plan = parse(text, "p").unwrap().resolve(2, 7).unwrap().plan;
        assert_eq!(
            plan.repetition,
            Repetition::Blocks {
                blocks: 9,
                seconds: Some(60.0)
            }
        );
        let printed = print(&plan).unwrap();
        let again = parse(&printed, "printed")
            .unwrap()
            .resolve(2, 7)
            .unwrap()
            .plan;
        assert_eq!(again.repetition, plan.repetition, "{printed}");
        let unbounded = parse(&text.replace("budget = '60s'", ""), "p")
            .unwrap()
            .resolve(2, 7)
            .unwrap();
        assert_eq!(
            unbounded.plan.repetition,
            Repetition::Blocks {
                blocks: 9,
                seconds: None
            }
        );
    }

    #[test]
    fn work_may_be_held_where_it_can_go_on() {
        let of = |workload: &str| {
            let text = format!("targets = ['null']\n[[workload]]\n{workload}\nsustain = 4\n");
            parse(&text, "p").and_then(|plan| plan.resolve(2, 7))
        };
        let held = of("name = 'rename'\nfiles = 10").unwrap();
        assert_eq!(
            held.plan.sample_time_of(&held.plan.workloads[0]),
            Some(10.0)
        );
        assert_eq!(held.work.cells[0].cell.label, "rename 4K files, sustained");
        let printed = print(&held.plan).unwrap();
        assert_eq!(
            parse(&printed, "printed")
                .unwrap()
                .resolve(2, 7)
                .unwrap()
                .plan,
            held.plan,
            "{printed}"
        );
        for wrong in [
            "name = 'create'",
            "name = 'read'",
            "name = 'rename'\ndurability = 'end'",
            "name = 'postmark'",
        ] {
            let error = of(wrong).unwrap_err().to_string();
            assert!(
                error.contains("cannot be sustained: ") && error.contains("line "),
                "{wrong}: {error}"
            );
        }
        let short = of("name = 'rename'\nsample_time = '50ms'")
            .unwrap_err()
            .to_string();
        assert!(short.contains("a second or more"), "{short}");
        let text = "targets = ['null']\n[[workload]]\nname = 'rename'\nsustain = 0\n";
        let never = parse(text, "p")
            .and_then(|plan| plan.resolve(2, 7))
            .unwrap_err()
            .to_string();
        assert!(never.contains("0 times: give how often"), "{never}");
    }

    #[test]
    fn an_impossible_sample_time_is_refused_at_its_place() {
        for (wrong, word) in [
            ("'10ns'", "not a duration"),
            ("'10us'", "1 millisecond"),
            ("'2h'", "an hour"),
            ("7200", "an hour"),
            ("[10]", "a time"),
        ] {
            let error = parse(&plan(wrong), "p")
                .and_then(|plan| plan.resolve(2, 7))
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(word) && error.contains("line "),
                "{wrong}: {error}"
            );
        }
    }

    fn plan_with(head: &str, repetition: &str) -> String {
        format!(
            "targets = ['null']\n{head}\n[repetition]\n{repetition}\n[[workload]]\nname = 'write'\nfile_size = '1M'\n"
        )
    }

    #[test]
    fn numbers_and_truths_stand_for_the_texts_that_they_can_only_mean() {
        for (head, repetition, text_head, text_repetition) in [
            ("theta = 5", "budget = 300", "theta = '5%'", "budget = '5m'"),
            (
                "theta = 2.5",
                "budget = 90.5",
                "theta = '2.5%'",
                "budget = '90.5s'",
            ),
            (
                "scale = 0.5",
                "precision = 2",
                "scale = '1/2'",
                "precision = '2%'",
            ),
            ("scale = 1", "sample_time = 2", "", "sample_time = '2s'"),
            (
                "controls = { swap = false }",
                "blocks = 5",
                "controls = { swap = 'off' }",
                "blocks = 5",
            ),
        ] {
            let resolved = |head, rest| {
                parse(&plan_with(head, rest), "p")
                    .unwrap()
                    .resolve(2, 7)
                    .map(|found| found.plan)
            };
            assert_eq!(
                resolved(head, repetition).unwrap(),
                resolved(text_head, text_repetition).unwrap(),
                "{head}"
            );
        }
    }

    #[test]
    fn a_share_that_may_be_meant_in_two_ways_is_refused_with_the_likelier_one() {
        for (head, repetition) in [("theta = 0.05", ""), ("", "precision = 0.05")] {
            let error = parse(&plan_with(head, repetition), "p")
                .unwrap_err()
                .to_string();
            assert!(error.contains("such as \"5%\""), "{error}");
        }
        let error = parse(&plan_with("theta = [5]", ""), "p")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("line 2") && error.contains("expected a string"),
            "{error}"
        );
    }

    /// Returns a value of the setting in TOML that is not its default.
    fn sample(kind: SettingKind) -> String {
        match kind {
            SettingKind::Flag => "true".to_owned(),
            SettingKind::Size(..) => "'3G'".to_owned(),
            SettingKind::Whole(..) => "9".to_owned(),
            SettingKind::Share => "'7%'".to_owned(),
            SettingKind::Time(..) => "'90s'".to_owned(),
            SettingKind::Factor => "'1/2'".to_owned(),
            SettingKind::Word(words) => format!("'{}'", words[0]),
            SettingKind::Text | SettingKind::Path => "'/tmp'".to_owned(),
            SettingKind::Texts | SettingKind::Paths => "['/tmp']".to_owned(),
        }
    }

    #[test]
    fn every_copied_setting_reaches_the_plan_and_is_printed_again() {
        let workload = "targets = ['null']\n[[workload]]\nname = 'rename'\nfiles = 10\n";
        let resolve = |text: &str| parse(text, "p").unwrap().resolve(2, 7);
        let plain = resolve(workload).unwrap().plan;
        let mut seen = 0;
        for setting in SETTINGS.iter().filter(|setting| setting.is_written) {
            // Kernels need a virtual machine, and the first place is the default.
            let (Stored::Copied(pointer), false) =
                (setting.stored, ["kernel", "in"].contains(&setting.name))
            else {
                continue;
            };
            let value = format!("{} = {}", setting.name, sample(setting.kind));
            let text = match setting.table {
                Some(table) => format!("{workload}[{table}]\n{value}\n"),
                None => format!("{value}\n{workload}"),
            };
            let plan = resolve(&text)
                .unwrap_or_else(|error| panic!("{value}: {error}"))
                .plan;
            let [was, is] = [&plain, &plan].map(|plan| serde_json::to_value(plan).unwrap());
            assert_ne!(was.pointer(pointer), is.pointer(pointer), "{value}");
            assert_eq!(plain.requests_the_same(&plan), !setting.is_work, "{value}");
            let printed = print(&plan).unwrap();
            assert_eq!(resolve(&printed).unwrap().plan, plan, "{printed}");
            seen += 1;
        }
        assert!(seen > 8, "{seen}");
    }
}
