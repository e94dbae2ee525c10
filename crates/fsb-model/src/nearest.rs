//! "Did you mean": finds the known name nearest to an unknown one.

/// Returns the known name that is closest to `name`, or `None` if none is close enough.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&lower, candidate),
                version_distance(&lower, candidate),
                candidate,
            )
        })
        .min()
        .filter(|(distance, _, candidate)| *distance <= (candidate.len() / 2).clamp(1, 3))
        .map(|(_, _, candidate)| candidate)
}

/// Returns the difference between the first digits in which two names differ, or `u32::MAX` if they
/// differ in a letter. The nearest name to `ext5` is `ext4`, not `ext2`.
fn version_distance(a: &str, b: &str) -> u32 {
    let different = a.chars().zip(b.chars()).find(|(a, b)| a != b);
    let digits = different.and_then(|(a, b)| Some((a.to_digit(10)?, b.to_digit(10)?)));
    digits.map_or(u32::MAX, |(a, b)| a.abs_diff(b))
}

/// Returns `unknown WHAT 'name'` with the nearest known name, or with all known names if none is
/// near.
pub fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    let shown = shortened(name);
    match nearest(name, known.clone()) {
        Some(near) => format!("unknown {what} '{shown}': did you mean '{near}'?"),
        None => {
            let all: Vec<_> = known.into_iter().collect();
            if all.is_empty() {
                return format!("unknown {what} '{shown}': there is none");
            }
            // Names of workloads have commas of their own.
            let all = match all.iter().any(|name| name.contains(',')) {
                true => format!("'{}'", all.join("', '")),
                false => all.join(", "),
            };
            format!("unknown {what} '{shown}': known are {all}")
        }
    }
}

/// The maximum number of characters of user input that a message repeats.
const LONGEST: usize = 40;

/// Returns user input as a message repeats it: long input is cut to its beginning.
pub fn shortened(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_name() {
        let known = ["ext4", "xfs", "btrfs"];
        assert_eq!(nearest("btfrs", known), Some("btrfs"));
        assert_eq!(nearest("XFS", known), Some("xfs"));
        assert_eq!(nearest("hammer2", known), None);
        assert_eq!(
            nearest("ext5", ["ext2", "ext3", "ext4", "xfs"]),
            Some("ext4")
        );
        assert_eq!(
            unknown("fileset", "s", []),
            "unknown fileset 's': there is none"
        );
        assert_eq!(shortened(&"ä".repeat(50)), format!("{}…", "ä".repeat(40)));
        assert!(unknown("file system", "zzzzzz", known).contains("known are ext4, xfs, btrfs"));
        let with_commas = ["read 1M, cold", "rename"];
        assert!(
            unknown("operation", "zzzzzz", with_commas)
                .ends_with("known are 'read 1M, cold', 'rename'")
        );
    }
}
