//! The forms of a report, of a run and of a comparison alike. A new one is a file and a line in [`FORMATS`].

pub mod csv;
pub mod html;
pub mod json;
pub mod markdown;
mod member;
pub mod text;

pub use member::Format;

/// Every format.
pub static FORMATS: &[Format] = &[text::FORMAT, csv::FORMAT, json::FORMAT, markdown::FORMAT, html::FORMAT];

/// The format of that name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{PLOTLY, PLOTLY_3D};
    use crate::report::Report;
    use crate::run::Summary;
    use crate::sample;
    use crate::sample_sets::{compared, iozone, workloads};

    #[test]
    fn formats_have_names_of_their_own_and_show_any_run_and_comparison() {
        let documents = [
            compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 20)),
            compared(&iozone(&["xfs"], 1, 2, 1 << 18)),
            compared(&workloads(&["ext4", "xfs", "btrfs"], 6)),
        ];
        let (record, trials) = sample::run(&["ext4", "xfs"], 5);
        let summary = Summary::of_run(&record, &trials);
        let details = [None, Some("write"), Some("no such operation")];
        let comparisons =
            documents.iter().flat_map(|document| details.map(|detail| Report::of_comparison(document, detail)));
        let reports: Vec<Report<'_>> = comparisons.chain([Report::of_run(&summary, &trials)]).collect();
        for (index, format) in FORMATS.iter().enumerate() {
            let earlier = &FORMATS[..index];
            assert!(earlier.iter().all(|other| other.name != format.name && other.extension != format.extension));
            assert!(!format.about.is_empty() && !format.about.contains('\n'));
            assert!(std::ptr::eq(find(format.name).unwrap(), format));
            for report in &reports {
                let text = format.render(report);
                assert!(text.ends_with('\n'), "{}", format.name);
                let own = text.replace(PLOTLY.as_str(), "").replace(PLOTLY_3D.as_str(), "");
                assert!(!own.contains("NaN"), "{}", format.name);
            }
        }
        assert!(find("pdf").is_none());
    }
}
