//! Words as a shell takes them back.

/// A word, in quotes only where it needs them.
///
/// Unlike [`shlex::try_quote`] it leaves `=`, `,`, `:`, `%` and `@` alone: they mean something only at the beginning of
/// a command, where no word of ours stands, and options such as `barrier=0` read better bare. A word with a zero byte is
/// none that a program was ever given; it is shown as it is.
pub fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,.@/+:%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    shlex::try_quote(text).map_or_else(|_| text.to_owned(), |quoted| quoted.into_owned())
}

/// Words with a blank between them.
pub fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_needs_quotes_gets_them() {
        assert_eq!(line(["mount", "-o", "barrier=0,commit=60", "a b", ""]), "mount -o barrier=0,commit=60 'a b' ''");
    }

    proptest! {
        #[test]
        fn a_shell_takes_back_what_was_given(words in proptest::collection::vec("[^\0]*", 0..5)) {
            let taken = shlex::split(&line(words.iter().map(String::as_str)));
            prop_assert_eq!(taken, Some(words));
        }
    }
}
