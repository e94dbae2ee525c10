//! Files that are generated from the registries: the page of all workloads and the JSON Schema of plans.

mod page;
mod schema;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The arguments of `xtask tables`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Write nothing; fail if a file is not current
    #[arg(long)]
    check: bool,
}

/// Writes the files, or checks them.
pub fn run(options: &Options) -> anyhow::Result<()> {
    for (path, text) in files() {
        let current = std::fs::read_to_string(&path).unwrap_or_default() == text;
        match (current, options.check) {
            (true, _) => {}
            (false, true) => bail!("{} is not current: run 'cargo run -p xtask -- tables'", path.display()),
            (false, false) => std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?,
        }
    }
    Ok(())
}

/// Every generated file with its content.
fn files() -> [(PathBuf, String); 2] {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    [(docs.join("workloads.md"), page::text()), (docs.join("schema/plan.json"), schema::text())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_current() {
        run(&Options { check: true }).unwrap();
    }
}
