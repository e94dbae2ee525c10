//! Documentation that is generated from the source.

mod five_works;
mod options;
mod parts;
mod plan_schema;
mod programs;
mod workloads;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use clap::Args;
use fsb_history::series::{self, Document as History};
use fsb_history::{COMPARISON_SCHEMA, RunsCompared};
use fsb_model::notice::{self, Notice};
use fsb_model::publication::{self, Publication};
use fsb_model::{ErrorCode, RunRecord, run, schema, trial};
use fsb_report::bisection::{self, Bisection};
use fsb_report::choice::{self, Choice};
use fsb_report::fleet::{self, Fleet};
use fsb_report::json;
use fsb_stats::compare::{self, Document};
use fsb_trace::document;

/// The arguments of `xtask generate`.
#[derive(Debug, Args)]
pub struct Options {
    /// Write nothing; fail if a file is out of date
    #[arg(long)]
    check: bool,
}

/// A generated file.
struct GeneratedFile {
    /// The path below `docs`.
    path: &'static str,
    /// Returns the content.
    produce: fn() -> String,
}

/// All generated files.
const FILES: &[GeneratedFile] = &[
    GeneratedFile {
        path: "errors.md",
        produce: errors_page,
    },
    GeneratedFile {
        path: "five-works.md",
        produce: five_works::page,
    },
    GeneratedFile {
        path: "options.md",
        produce: options::page,
    },
    GeneratedFile {
        path: "programs.md",
        produce: programs::page,
    },
    GeneratedFile {
        path: "workloads.md",
        produce: workloads::page,
    },
    GeneratedFile {
        path: "schema/plan.json",
        produce: plan_schema::text,
    },
    GeneratedFile {
        path: "schema/bisect.json",
        produce: || schema::text::<Bisection>(bisection::SCHEMA),
    },
    GeneratedFile {
        path: "schema/choice.json",
        produce: || schema::text::<Choice>(choice::SCHEMA),
    },
    GeneratedFile {
        path: "schema/comparison.json",
        produce: || schema::text::<Document>(compare::SCHEMA),
    },
    GeneratedFile {
        path: "schema/fleet.json",
        produce: || schema::text::<Fleet>(fleet::SCHEMA),
    },
    GeneratedFile {
        path: "schema/history.json",
        produce: || schema::text::<History>(series::SCHEMA),
    },
    GeneratedFile {
        path: "schema/history-diff.json",
        produce: || schema::text::<RunsCompared>(COMPARISON_SCHEMA),
    },
    GeneratedFile {
        path: "schema/openapi.json",
        produce: fsb_serve::openapi,
    },
    GeneratedFile {
        path: "schema/publication.json",
        produce: || schema::text::<Publication>(publication::SCHEMA),
    },
    GeneratedFile {
        path: "schema/report.json",
        produce: json::schema,
    },
    GeneratedFile {
        path: "schema/run.json",
        produce: || schema::text::<RunRecord>(run::SCHEMA),
    },
    GeneratedFile {
        path: "schema/trace.json",
        produce: || schema::text::<document::Document>(document::SCHEMA),
    },
    GeneratedFile {
        path: "schema/trial.json",
        produce: || schema::text::<trial::JournalLine>(trial::SCHEMA),
    },
];

/// Writes the files that are out of date, or lists them and fails.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = root.join("docs");
    let mut outdated = Vec::new();
    for part in parts::PARTS {
        let path = root.join(part.path);
        let found =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = part.replace(&found)?;
        if found == text {
            continue;
        }
        outdated.push(part.path.to_owned());
        if !options.check {
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    for file in FILES {
        let (path, text) = (docs.join(file.path), (file.produce)());
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            continue;
        }
        outdated.push(format!("docs/{}", file.path));
        if !options.check {
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let names = outdated.join(", ");
    ensure!(
        !options.check || outdated.is_empty(),
        "out of date: {names}; run 'cargo xtask generate'"
    );
    if !outdated.is_empty() {
        println!("written: {names}");
    }
    Ok(())
}

// `docs/errors.md`: every error code, and the codes of warnings and notes.

/// Returns the page.
fn errors_page() -> String {
    let mut page = include_str!("errors.md").to_owned();
    let mut codes: Vec<&ErrorCode> = fsb_model::codes().chain(fsb_runner::codes()).collect();
    for of_crate in [
        fsb_compat::CODES,
        fsb_history::CODES,
        fsb_store::CODES,
        fsb_trace::CODES,
    ] {
        codes.extend(of_crate);
    }
    codes.sort_by_key(|code| code.name);
    for ErrorCode {
        name,
        exit,
        meaning,
        help,
    } in codes
    {
        // Such a remedy says nothing without the message.
        let help = if help.contains("the message") {
            String::new()
        } else {
            format!(" {help}")
        };
        let _ = writeln!(page, "* `{name}` ({exit}): {meaning}{help}");
    }
    page.push_str(include_str!("notices.md"));
    let mut notices: Vec<&Notice> = notice::ALL.to_vec();
    notices.sort_by_key(|notice| notice.name);
    for Notice {
        name,
        meaning,
        fields,
    } in notices
    {
        let fields: Vec<String> = fields
            .split(", ")
            .filter(|name| !name.is_empty())
            .map(|name| format!("`{name}`"))
            .collect();
        let fields = match &fields[..] {
            [] => String::new(),
            fields => format!(" ({})", fields.join(", ")),
        };
        let _ = writeln!(page, "* `{name}`: {meaning}{fields}");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_up_to_date() {
        run(&Options { check: true }).unwrap();
    }
}
