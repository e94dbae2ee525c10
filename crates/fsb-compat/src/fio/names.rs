//! Names in fio's reports: of fio, of its versions, and of jobs.

use std::collections::HashMap;

/// The name of the tool in lists and messages.
pub(super) const NAME: &str = "fio";

/// Returns whether a text is the name of a version: `fio-3.33`.
pub(super) fn is_version(text: &[u8]) -> bool {
    text.strip_prefix(b"fio-")
        .is_some_and(|version| version.first().is_some_and(u8::is_ascii_digit))
}

/// Characters of a job's name that are kept: a workload names its series, settings and failures.
const LONGEST: usize = 200;

/// Returns the workload of each job, from its name and group: the name, cut to its longest. A
/// number follows if a later group repeats the name. A number also follows if two names differ only
/// behind the cut.
pub(super) fn workload_names<'j>(jobs: impl Iterator<Item = (&'j str, i64)>) -> Vec<String> {
    let mut rounds: HashMap<(&str, i64), usize> = HashMap::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut names = Vec::new();
    for (name, group) in jobs {
        let end = name
            .char_indices()
            .nth(LONGEST)
            .map_or(name.len(), |(end, _)| end);
        let round = *rounds.entry((name, group)).or_insert_with(|| {
            let count = counts.entry(&name[..end]).or_default();
            *count += 1;
            *count
        });
        let cut = if end < name.len() { "…" } else { "" };
        let number = if round > 1 {
            format!(" #{round}")
        } else {
            String::new()
        };
        names.push(format!("{}{cut}{number}", &name[..end]));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_and_remain_different() {
        let long = "é".repeat(LONGEST);
        let [one, other] = ["1", "2"].map(|end| format!("{long}{end}"));
        let names = workload_names([(&*one, 0), (&*other, 0), (&*one, 0), (&*long, 1)].into_iter());
        assert_eq!(
            names,
            [
                format!("{long}…"),
                format!("{long}… #2"),
                format!("{long}…"),
                format!("{long} #3")
            ]
        );
    }
}
