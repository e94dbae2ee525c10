//! Two runs at once: the second refuses, unless it insists; then both say so.

use super::*;

/// The other runs that warnings of a run name.
pub fn concurrent(run: &Path) -> Vec<String> {
    let record = record(run);
    let warnings = record["warnings"].as_array().unwrap().iter();
    let named = warnings.filter(|warning| warning["kind"] == "concurrent");
    named.map(|warning| warning["run"].as_str().unwrap().to_owned()).collect()
}
