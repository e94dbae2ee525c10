//! The forms of a report, of a run and of a comparison alike. A new one is a file and a line in
//! [`FORMATS`].

mod annotations;
mod bencher;
mod code_quality;
mod comment;
pub mod csv;
mod figure;
mod github_benchmark;
pub mod html;
pub mod json;
mod junit;
mod latex;
pub mod markdown;
mod member;
mod openmetrics;
mod summary_csv;
pub mod text;
mod xlsx;

pub use figure::{Figure, figures, fleet_figures};
pub use member::Format;

/// Every format.
pub static FORMATS: &[Format] = &[
    text::FORMAT,
    html::FORMAT,
    markdown::FORMAT,
    latex::FORMAT,
    json::FORMAT,
    csv::FORMAT,
    summary_csv::FORMAT,
    xlsx::FORMAT,
    figure::SVG,
    figure::PNG,
    figure::PDF,
    junit::FORMAT,
    comment::FORMAT,
    annotations::FORMAT,
    code_quality::FORMAT,
    bencher::FORMAT,
    github_benchmark::SMALLER,
    github_benchmark::BIGGER,
    openmetrics::FORMAT,
];

/// Returns the format of that name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// Returns the format that the end of a file name implies: of `trials.csv` it is csv, of
/// `xfs.summary.csv` summary-csv.
pub fn find_by_file_name(name: &str) -> Option<&'static Format> {
    FORMATS
        .iter()
        .filter(|format| {
            let stem = name.strip_suffix(format.extension);
            stem.is_some_and(|stem| stem.ends_with('.') || format.extension.contains('.'))
        })
        .max_by_key(|format| format.extension.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PLOTLY;
    use crate::report::Report;
    use crate::sample;
    use crate::sample_sets::{compared, iozone, workloads};
    use crate::summary::Summary;

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
        let comparisons = documents
            .iter()
            .flat_map(|document| details.map(|detail| Report::of_comparison(document, detail)));
        let reports: Vec<Report<'_>> = comparisons
            .chain([Report::of_run(&summary, &trials)])
            .collect();
        for (index, format) in FORMATS.iter().enumerate() {
            assert!(std::ptr::eq(
                find_by_file_name(&format!("a.{}", format.extension)).unwrap(),
                format
            ));
            let earlier = &FORMATS[..index];
            assert!(
                earlier
                    .iter()
                    .all(|other| other.name != format.name && other.extension != format.extension)
            );
            assert!(!format.about.is_empty() && !format.about.contains('\n'));
            assert!(std::ptr::eq(find(format.name).unwrap(), format));
            for report in &reports {
                let bytes = format.render_bytes(report);
                assert!(!bytes.is_empty());
                if format.binary {
                    continue;
                }
                let text = String::from_utf8(bytes).unwrap();
                assert!(text.ends_with('\n'), "{}", format.name);
                let own = text.replace(PLOTLY.as_str(), "");
                assert!(!own.contains("NaN"), "{}", format.name);
            }
        }
        assert!(find("docx").is_none());
        let of_name = |name| find_by_file_name(name).map(|format| format.name);
        assert_eq!(of_name("mysummary.csv"), Some("summary-csv"));
        assert_eq!(
            [
                of_name("summary.csv.txt"),
                of_name("csv"),
                of_name("a.xhtml")
            ],
            [Some("text"), None, None]
        );
    }
}
