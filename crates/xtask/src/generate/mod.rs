//! Documentation that is generated from the source.

mod errors;
mod options;
mod plan_schema;
mod workloads;

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use clap::Args;
use fsb_model::{RunRecord, Trial, run, schema, trial};
use fsb_report::choice::{self, Choice};
use fsb_report::json;
use fsb_stats::compare::{self, Document};

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
    GeneratedFile { path: "errors.md", produce: errors::text },
    GeneratedFile { path: "options.md", produce: options::text },
    GeneratedFile { path: "workloads.md", produce: workloads::text },
    GeneratedFile { path: "schema/plan.json", produce: plan_schema::text },
    GeneratedFile { path: "schema/choice.json", produce: || schema::text::<Choice>(choice::SCHEMA) },
    GeneratedFile { path: "schema/comparison.json", produce: || schema::text::<Document>(compare::SCHEMA) },
    GeneratedFile { path: "schema/report.json", produce: json::schema },
    GeneratedFile { path: "schema/run.json", produce: || schema::text::<RunRecord>(run::SCHEMA) },
    GeneratedFile { path: "schema/trial.json", produce: || schema::text::<Trial>(trial::SCHEMA) },
];

/// Writes the files that are out of date, or lists them and fails.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut outdated = Vec::new();
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
    ensure!(!options.check || outdated.is_empty(), "out of date: {names}; run 'cargo xtask generate'");
    if !outdated.is_empty() {
        println!("written: {names}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_up_to_date() {
        run(&Options { check: true }).unwrap();
    }
}
