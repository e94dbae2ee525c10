//! The options of a command line that a tool prints, as settings.

/// Splits a command line into options and their values. A word after an option that does not begin
/// with a dash is its value; a switch has the value `on`. Quotes are removed. Words before the
/// first option are left out: they are the program, and perhaps its launcher.
///
/// The tools that this is used for do not cluster switches.
pub(crate) fn split(command: &str) -> Vec<(String, String)> {
    let mut options: Vec<(String, String)> = Vec::new();
    for word in command
        .split_whitespace()
        .map(|word| word.trim_matches(['\'', '"']))
    {
        let is_option = word
            .strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|c: char| c == '-' || c.is_alphabetic()));
        if is_option {
            let (name, value) = word
                .split_once('=')
                .or_else(|| attached(word))
                .unwrap_or((word, "on"));
            options.push((name.to_owned(), value.to_owned()));
        } else if let Some((_, value)) = options.last_mut().filter(|(_, value)| value == "on") {
            word.clone_into(value);
        }
    }
    options
}

/// Splits `-n100` and `-d/mnt`: a letter with a value that does not begin with a letter.
fn attached(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_at_checked(2)?;
    (!name.ends_with('-') && value.starts_with(|c: char| c.is_ascii_digit() || "/.~".contains(c)))
        .then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_after_an_option_are_its_value() {
        let found = split(
            "./mdtest '-n' '1000' '-u' '-d' '/mnt/a' --posix.odirect -w=3901 -N -1 -i5 -d/b -wr",
        );
        let expected = [
            ("-n", "1000"),
            ("-u", "on"),
            ("-d", "/mnt/a"),
            ("--posix.odirect", "on"),
            ("-w", "3901"),
            ("-N", "-1"),
            ("-i", "5"),
            ("-d", "/b"),
            ("-wr", "on"),
        ];
        assert_eq!(
            found,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert_eq!(split("mpirun"), []);
    }
}
