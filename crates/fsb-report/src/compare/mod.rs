//! Comparisons of sets: a document assembled into a view once, and its formats.
//!
//! The numbers are those of [`fsb_analysis::compare`]. The members of [`FORMATS`] lay them out; a new one is a file
//! and a line.

pub mod csv;
pub mod html;
pub mod json;
pub mod markdown;
mod short;
pub mod text;
pub mod view;

use fsb_analysis::compare::{Document, Operation};

pub use view::View;

/// What is shown: a comparison, or one operation of it in detail.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The comparison.
    pub document: &'a Document,
    /// The operation, or the workload, that is shown size by size; absent for the overview of all.
    pub detail: Option<&'a str>,
}

impl<'a> Page<'a> {
    /// Everything at a glance.
    pub fn overview(document: &'a Document) -> Page<'a> {
        Page { document, detail: None }
    }

    /// What belongs on the page, in the document's order.
    pub fn operations(&self) -> impl Iterator<Item = &'a Operation> + use<'a> {
        let detail = self.detail;
        self.document.operations.iter().filter(move |operation| {
            detail.is_none_or(|name| operation.operation == name || operation.workload.as_deref() == Some(name))
        })
    }
}

/// A member of the registry of formats.
#[derive(Debug)]
pub struct Format {
    /// The name that `--format` takes.
    pub name: &'static str,
    /// The file-name extension that implies it, without the dot.
    pub extension: &'static str,
    /// One line for `fsb list`.
    pub about: &'static str,
    /// Makes the whole text.
    pub render: fn(&Page<'_>) -> String,
}

/// Every format.
pub static FORMATS: &[Format] = &[text::FORMAT, csv::FORMAT, json::FORMAT, markdown::FORMAT, html::FORMAT];

/// The format of that name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_sets::{compared, iozone, workloads};

    #[test]
    fn formats_have_names_of_their_own_and_show_any_comparison() {
        let documents = [
            compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 20)),
            compared(&iozone(&["xfs"], 1, 2, 1 << 18)),
            compared(&workloads(&["ext4", "xfs", "btrfs"], 6)),
        ];
        for (index, format) in FORMATS.iter().enumerate() {
            let earlier = &FORMATS[..index];
            assert!(earlier.iter().all(|other| other.name != format.name && other.extension != format.extension));
            assert!(!format.about.is_empty() && !format.about.contains('\n'));
            assert!(std::ptr::eq(find(format.name).unwrap(), format));
            for document in &documents {
                for detail in [None, Some("write"), Some("no such operation")] {
                    let text = (format.render)(&Page { document, detail });
                    assert!(text.ends_with('\n'), "{} {detail:?}", format.name);
                    let own = text.replace(crate::page::PLOTLY, "").replace(crate::page::PLOTLY_3D, "");
                    assert!(!own.contains("NaN"), "{} {detail:?}", format.name);
                }
            }
        }
        assert!(find("pdf").is_none());
    }

    #[test]
    fn sets_with_nothing_in_common_are_shown_as_such() {
        let mut sets = iozone(&["xfs", "ext4"], 5, 1, 1 << 18);
        sets[1].runs.iter_mut().flat_map(|run| &mut run.series).for_each(|series| series.operation = "read".to_owned());
        let document = compared(&sets);
        for format in FORMATS {
            let text = (format.render)(&Page::overview(&document));
            assert!(format.name == "csv" || text.contains("only xfs measured"), "{}", format.name);
        }
        assert!(text::screen(&Page::overview(&document), 80, false).starts_with("There is nothing to compare"));
    }
}
