//! The formats that a view can be shown in. A new one is a file and a line in [`FORMATS`].

pub mod csv;
pub mod html;
pub mod json;
pub mod markdown;
pub mod terminal;

use fsb_model::Trial;

use crate::View;

/// A member of the registry of formats.
#[derive(Debug)]
pub struct Format {
    /// The name that `--format` takes.
    pub name: &'static str,
    /// The file-name extension that implies it, without the dot.
    pub extension: &'static str,
    /// One line for `fsb list formats`.
    pub about: &'static str,
    /// Makes the whole text.
    pub render: fn(&View, &[Trial]) -> String,
}

/// Every format.
pub static FORMATS: &[Format] = &[terminal::FORMAT, csv::FORMAT, json::FORMAT, markdown::FORMAT, html::FORMAT];

/// The format of that name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn formats_have_names_of_their_own_and_show_any_run() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 5);
        let view = View::of_run(&record, &trials);
        for (index, format) in FORMATS.iter().enumerate() {
            let earlier = &FORMATS[..index];
            assert!(earlier.iter().all(|other| other.name != format.name && other.extension != format.extension));
            assert!(!format.about.is_empty() && !format.about.contains('\n'));
            assert!(std::ptr::eq(find(format.name).unwrap(), format));
            assert!((format.render)(&view, &trials).ends_with('\n'), "{}", format.name);
        }
        assert!(find("pdf").is_none());
    }
}
