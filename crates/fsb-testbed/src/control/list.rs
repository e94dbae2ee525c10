//! Lists of processors and nodes as the kernel writes them: `0-3,5`.

pub(super) use crate::declared::list as parse;

/// The shortest form.
pub(super) fn show(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let show = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(show).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        assert_eq!(parse("0-3,5"), Some(vec![0, 1, 2, 3, 5]));
        assert_eq!(parse("5,1,1-2\n"), Some(vec![1, 2, 5]));
        for text in ["", ",", "1-", "3-1", "a", "+1", "0-4294967295", "1, 2", "-1"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(show(&[0, 1, 2, 3, 5]), "0-3,5");
        assert_eq!(show(&[]), "");
    }
}
