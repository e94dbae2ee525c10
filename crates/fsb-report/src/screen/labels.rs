//! Row labels short enough for one line.

/// Replacements, in order. The result stays readable without a legend: `randread` and `randwrite` are fio's words, and an
/// fsync follows each operation that is durable on its own.
const SHORT: [(&str, &str); 4] =
    [("random read", "randread"), ("random write", "randwrite"), (", durable each", ", fsync"), ("4K files", "4K")];

/// Returns a label with its long words abbreviated: `randwrite 4K, fsync` for `random write 4K, durable each`.
pub(super) fn abbreviate(label: &str) -> String {
    let label = SHORT.iter().fold(label.to_owned(), |label, (long, short)| label.replace(long, short));
    match label.strip_suffix(" threads").and_then(|rest| rest.rsplit_once(", ")) {
        Some((rest, threads)) => format!("{rest} ×{threads}"),
        None => label,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_the_default_suite_stay_apart() {
        let labels = [
            ("write 1M, durable", "write 1M, durable"),
            ("random write 4K, durable each", "randwrite 4K, fsync"),
            ("create 4K files, durable", "create 4K, durable"),
            ("create 4K files, durable, 2 threads", "create 4K, durable ×2"),
            ("readdir + stat, cold", "readdir + stat, cold"),
        ];
        labels.iter().for_each(|(long, short)| assert_eq!(abbreviate(long), *short));
    }
}
