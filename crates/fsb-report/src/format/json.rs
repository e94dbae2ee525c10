//! The view as JSON, for programs.

use serde::Serialize;

use super::Format;
use crate::View;

pub(super) const FORMAT: Format = Format {
    name: "json",
    extension: "json",
    about: "everything that the report shows, for programs (schema fsbench/report/1)",
    render: |view, _| render(view),
};

/// The schema that this version writes.
pub const SCHEMA: &str = "fsbench/report/1";

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    #[serde(flatten)]
    view: &'a View,
}

/// The whole document.
pub fn render(view: &View) -> String {
    let report = Report { schema: SCHEMA, view };
    let mut text = serde_json::to_string_pretty(&report).expect("a view has only text keys and finite numbers");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::view::samples;

    #[test]
    fn an_emulated_run_holds_values_and_no_comparison() {
        let (record, trials) = samples::emulated(&["reiserfs", "jfs", "ext4"], 6);
        let document: serde_json::Value = serde_json::from_str(&render(&View::of_run(&record, &trials))).expect("JSON");
        assert_eq!(
            (&document["emulated"], &document["unjudged"]),
            (&true.into(), &"emulated: a functional run".into())
        );
        assert!(document["overall"].as_array().unwrap().iter().all(serde_json::Value::is_null));
        assert!(document.get("findings").is_none());
        for row in document["rows"].as_array().unwrap() {
            assert_eq!(row["ranking"]["pairs"], serde_json::json!([]));
            assert_eq!(row["ranking"]["letters"], serde_json::json!([null, null, null]));
            for cell in row["cells"].as_array().unwrap().iter().filter(|cell| !cell["estimate"].is_null()) {
                assert!(cell["against"].is_null() && cell["mark"] == "" && cell["estimate"]["value"].is_number());
            }
        }
        let text = render(&View::of_run(&record, &trials));
        assert!(!text.contains("faster") && !text.contains("slower"), "{text}");
    }

    #[test]
    fn the_document_names_its_schema_and_holds_numbers_only() {
        let (record, trials) = sample::run(&["ext4", "xfs", "tmpfs"], 5);
        let view = View::of_run(&record, &trials);
        let document: serde_json::Value = serde_json::from_str(&render(&view)).unwrap();
        assert_eq!(document["schema"], SCHEMA);
        assert_eq!(document["rows"][0]["cells"][1]["against"]["method"], "paired");
        assert_eq!(document["rows"][0]["cells"][2]["state"]["state"], "not_applicable");
        assert_eq!(document["rows"][0]["unit"], "bytes_per_second");
        assert_eq!(document["rows"][0]["cells"][0]["estimate"]["n"], 5);
    }
}
