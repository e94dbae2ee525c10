//! The list of all error codes.

use fsb_model::ErrorCode;

/// Returns every error code of fsb.
pub fn all_codes() -> impl Iterator<Item = &'static ErrorCode> {
    let crates = fsb_model::codes()
        .chain(fsb_store::CODES.iter().copied())
        .chain(fsb_runner::codes());
    #[cfg(feature = "traces")]
    let crates = crates.chain(fsb_trace::CODES.iter().copied());
    #[cfg(feature = "history")]
    let crates = crates.chain(fsb_history::CODES.iter().copied());
    crates.chain(fsb_compat::CODES.iter().copied())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_unique_and_in_kebab_case() {
        let mut names = BTreeSet::new();
        for ErrorCode {
            name,
            exit,
            meaning,
            help,
        } in all_codes()
        {
            assert!(names.insert(name), "{name} is defined twice");
            let is_kebab = |part: &str| {
                part.chars().all(|letter| {
                    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'
                })
            };
            assert!(
                name.split('/')
                    .all(|part| !part.is_empty() && is_kebab(part)),
                "{name}"
            );
            assert!([1, 2, 3, 4, 130].contains(exit), "{name}: {exit}");
            assert!(meaning.ends_with('.') && help.ends_with('.'), "{name}");
            assert!(!meaning.contains('|') && !help.contains('|'), "{name}");
        }
        assert!(names.len() > 80, "{}", names.len());
    }
}
