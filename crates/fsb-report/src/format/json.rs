//! The JSON format: a run with the schema `fsbench/report/1`, a comparison with
//! `fsbench/comparison/1`.

use std::io::{self, Write};

use fsb_stats::compare::Document;
use serde::Serialize;

use super::member::Format;
use crate::compare::Selection;
use crate::report::Report;
use crate::summary::Summary;

pub(super) const FORMAT: Format = Format {
    name: "json",
    extension: "json",
    about: "everything that the report shows, for programs (schema fsbench/report/1)",
    binary: false,
    checks: false,
    write,
};

/// The schema of a run that this version writes; that of a comparison is part of it.
pub const SCHEMA: &str = "fsbench/report/1";

/// The output of `fsb report --format json`: everything that the report of a run shows.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Contract<'a> {
    /// The name and version of the schema.
    schema: &'static str,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// Returns the JSON Schema of a run's report.
#[cfg(feature = "schema")]
pub fn schema() -> String {
    fsb_model::schema::text::<Contract<'_>>(SCHEMA)
}

/// Writes the whole document, or of one operation in detail that operation alone.
fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    match report {
        Report::Run { summary, .. } => {
            serde_json::to_writer_pretty(
                &mut *output,
                &Contract {
                    schema: SCHEMA,
                    summary,
                },
            )?;
        }
        Report::Comparison {
            document,
            detail: None,
            ..
        } => serde_json::to_writer_pretty(&mut *output, document)?,
        Report::Comparison {
            document, detail, ..
        } => {
            let narrowed = narrowed(Selection {
                document,
                detail: *detail,
            });
            serde_json::to_writer_pretty(&mut *output, &narrowed)?;
        }
    }
    output.write_all(b"\n")
}

fn narrowed(selection: Selection<'_>) -> Document {
    let shown = |operation: &str, workload: Option<&str>| {
        selection
            .operations()
            .any(|other| other.operation == operation && other.workload.as_deref() == workload)
    };
    let findings = selection.document.findings.iter();
    Document {
        operations: selection.operations().cloned().collect(),
        findings: findings
            .filter(|found| shown(&found.operation, found.workload.as_deref()))
            .cloned()
            .collect(),
        by_target: selection.by_target().into_owned(),
        ..selection.document.clone()
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::{RunRecord, Trial};

    use super::*;
    use crate::report::Report;
    use crate::sample;
    use crate::summary::Summary;
    use crate::summary::headline::samples;

    fn shown((record, trials): &(RunRecord, Vec<Trial>)) -> String {
        FORMAT.render(&Report::of_run(&Summary::of_run(record, trials), trials))
    }

    #[test]
    fn an_emulated_run_holds_values_and_no_comparison() {
        let text = shown(&samples::emulated(&["reiserfs", "jfs", "ext4"], 6));
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            (&document["emulated"], &document["unjudged"]),
            (&true.into(), &"emulated: a functional run".into())
        );
        assert!(
            document["overall"]
                .as_array()
                .unwrap()
                .iter()
                .all(serde_json::Value::is_null)
        );
        assert!(document.get("findings").is_none());
        for row in document["cases"].as_array().unwrap() {
            assert_eq!(row["ranking"]["pairs"], serde_json::json!([]));
            assert_eq!(
                row["ranking"]["letters"],
                serde_json::json!([null, null, null])
            );
            for cell in row["cells"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|cell| !cell["estimate"].is_null())
            {
                assert!(
                    cell["against"].is_null()
                        && cell["mark"] == ""
                        && cell["estimate"]["value"].is_number()
                );
            }
        }
        assert!(
            !text.contains("faster") && !text.contains("slower"),
            "{text}"
        );
    }

    #[test]
    fn the_document_names_its_schema_and_holds_numbers_only() {
        let text = shown(&sample::run(&["ext4", "xfs", "tmpfs"], 5));
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["schema"], SCHEMA);
        assert_eq!(
            document["cases"][0]["cells"][1]["against"]["method"],
            "paired"
        );
        assert_eq!(
            document["cases"][0]["cells"][2]["state"]["state"],
            "not_applicable"
        );
        assert_eq!(document["cases"][0]["unit"], "bytes_per_second");
        assert_eq!(document["cases"][0]["cells"][0]["estimate"]["n"], 5);
    }
}
