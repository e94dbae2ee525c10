//! Quotes words so that a shell reads them back.

/// Returns a word, in quotes only if it needs them.
///
/// Unlike [`shlex::try_quote`] it does not quote `=`, `,`, `:`, `%` and `@`. They have a meaning
/// only at the beginning of a command, where fsb puts no such word, and options such as `barrier=0`
/// are easier to read without quotes. A word with a zero byte cannot be an argument of a program,
/// and is returned unchanged.
pub fn word(text: &str) -> String {
    if !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_=,.@/+:%".contains(c))
    {
        return text.to_owned();
    }
    shlex::try_quote(text).map_or_else(|_| text.to_owned(), |quoted| quoted.into_owned())
}

/// Joins words with blanks.
pub fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_needs_quotes_gets_them() {
        assert_eq!(
            line(["mount", "-o", "barrier=0,commit=60", "a b", ""]),
            "mount -o barrier=0,commit=60 'a b' ''"
        );
    }

    proptest! {
        #[test]
        fn a_shell_takes_back_what_was_given(words in proptest::collection::vec("[^\0]*", 0..5)) {
            let taken = shlex::split(&line(words.iter().map(String::as_str)));
            prop_assert_eq!(taken, Some(words));
        }
    }
}
