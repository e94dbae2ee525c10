//! The published JSON Schemas, generated from the types of the records.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use clap::Args;

/// Options of `xtask schemas`.
#[derive(Args)]
pub struct Options {
    /// Fail if a file differs from its types, and write nothing
    #[arg(long)]
    check: bool,
}

/// Writes the schemas, or compares them with the files.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    for (name, schema) in fsb_model::schema::all() {
        let path = directory.join(name);
        let text = serde_json::to_string_pretty(&schema)? + "\n";
        if options.check {
            let found = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            ensure!(found == text, "docs/schema/{name} differs from its types: cargo run -p xtask -- schemas");
        } else {
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_published_schemas_are_those_of_the_types() {
        super::run(&super::Options { check: true }).unwrap();
    }
}
