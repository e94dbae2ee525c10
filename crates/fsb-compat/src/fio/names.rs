//! Names in fio's reports: of fio, of its versions, and of jobs.

use std::collections::HashMap;

/// The name of the tool in lists and messages.
pub(super) const NAME: &str = "fio";

/// Returns whether a text is the name of a version: `fio-3.33`.
pub(super) fn is_version(text: &[u8]) -> bool {
    text.strip_prefix(b"fio-").is_some_and(|version| version.first().is_some_and(u8::is_ascii_digit))
}

/// Returns the workload of each job, from its name and group: the name, with a number if a later group repeats it.
pub(super) fn workload_names<'j>(jobs: impl Iterator<Item = (&'j str, i64)>) -> Vec<String> {
    let mut groups: HashMap<&str, Vec<i64>> = HashMap::new();
    let mut names = Vec::new();
    for (name, group) in jobs {
        let known = groups.entry(name).or_default();
        let round = known.iter().position(|known| *known == group).unwrap_or_else(|| {
            known.push(group);
            known.len() - 1
        });
        names.push(if round == 0 { name.to_owned() } else { format!("{name} #{}", round + 1) });
    }
    names
}
