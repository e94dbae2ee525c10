//! From text to tokens. Lines end nothing: a command ends where the next one begins.

use super::Remark;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A name, a path, a keyword.
    Word(String),
    /// A number, with its suffix taken into account.
    Number(u64),
    /// `$name`, without the dollar.
    Variable(String),
    /// `"text"`, as its pieces.
    Text(Vec<Piece>),
    /// One of `{}(),=*+`.
    Symbol(char),
}

/// A piece of a text in quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Plain(String),
    Variable(String),
}

/// All tokens with their lines.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) all: Vec<(usize, Token)>,
    /// The line of the last one.
    pub(super) last_line: usize,
}

/// Bytes of the largest file that fsb reads.
const LARGEST: usize = 16 << 20;
const SYMBOLS: &str = "{}(),=*+";

pub(super) fn tokens(text: &str) -> Result<Tokens, Remark> {
    if text.len() > LARGEST {
        return Err(Remark { line: 1, message: "the file is larger than 16 MiB, the most that fsb reads".to_owned() });
    }
    let mut lexer = Lexer { rest: text.trim_start_matches('\u{feff}'), line: 1, all: Vec::new() };
    while lexer.next()? {}
    let last_line = lexer.all.last().map_or(1, |(line, _)| *line);
    Ok(Tokens { all: lexer.all, last_line })
}

struct Lexer<'t> {
    rest: &'t str,
    line: usize,
    all: Vec<(usize, Token)>,
}

impl<'t> Lexer<'t> {
    fn wrong(&self, message: impl Into<String>) -> Remark {
        Remark { line: self.line, message: message.into() }
    }

    /// Takes the characters up to the first that `wanted` rejects.
    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|letter| !wanted(letter)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn push(&mut self, token: Token) {
        self.all.push((self.line, token));
    }

    /// Takes one token, a comment or white space. Returns `false` at the end of the text.
    fn next(&mut self) -> Result<bool, Remark> {
        let Some(first) = self.rest.chars().next() else { return Ok(false) };
        let skip = |lexer: &mut Self| lexer.rest = &lexer.rest[first.len_utf8()..];
        match first {
            '\n' => {
                skip(self);
                self.line += 1;
            }
            '#' => drop(self.take(|letter| letter != '\n')),
            // A continued line. Line ends have no meaning anyway.
            '\\' if self.rest[1..].trim_start_matches([' ', '\t', '\r']).starts_with('\n') => skip(self),
            letter if letter.is_whitespace() => skip(self),
            letter if SYMBOLS.contains(letter) => {
                skip(self);
                self.push(Token::Symbol(letter));
            }
            '"' => {
                skip(self);
                self.text()?;
            }
            '$' => {
                skip(self);
                let name = self.variable()?;
                self.push(Token::Variable(name));
            }
            letter if letter.is_ascii_digit() => {
                let word = self.take(is_inner);
                let token = number(word).map_err(|message| self.wrong(message))?;
                self.push(token);
            }
            letter if is_inner(letter) => {
                let word = self.take(is_inner).to_owned();
                self.push(Token::Word(word));
            }
            letter => return Err(self.wrong(format!("unexpected '{}'", letter.escape_default()))),
        }
        Ok(true)
    }

    /// Takes the name after a dollar, which may be in brackets.
    fn variable(&mut self) -> Result<String, Remark> {
        let close = match self.rest.chars().next() {
            Some('{') => Some('}'),
            Some('(') => Some(')'),
            _ => None,
        };
        if close.is_some() {
            self.rest = &self.rest[1..];
        }
        let name = self.take(|letter| letter.is_ascii_alphanumeric() || letter == '_').to_owned();
        if name.is_empty() {
            return Err(self.wrong("no name of a variable follows the '$'"));
        }
        if let Some(close) = close {
            self.rest = self
                .rest
                .strip_prefix(close)
                .ok_or_else(|| self.wrong(format!("the '{close}' after ${name} is missing")))?;
        }
        // Version 1.4 sets the properties of a random variable like this.
        if self.rest.starts_with('.') && self.rest[1..].starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            return Err(self.wrong(format!(
                "properties of ${name} cannot be set one by one: define the variable with \
                all of them"
            )));
        }
        Ok(name)
    }

    fn text(&mut self) -> Result<(), Remark> {
        let begun = self.line;
        let (mut pieces, mut plain) = (Vec::new(), String::new());
        loop {
            let unclosed =
                || Remark { line: begun, message: "the text that begins here has no closing '\"'".to_owned() };
            let letter = self.rest.chars().next().ok_or_else(unclosed)?;
            self.rest = &self.rest[letter.len_utf8()..];
            match letter {
                '"' => break,
                '\n' => {
                    self.line += 1;
                    plain.push('\n');
                }
                '\\' => match self.rest.chars().next() {
                    Some('n') => {
                        self.rest = &self.rest[1..];
                        plain.push('\n');
                    }
                    Some(escaped @ ('$' | '"' | '\\')) => {
                        self.rest = &self.rest[1..];
                        plain.push(escaped);
                    }
                    _ => plain.push('\\'),
                },
                '$' if self.rest.starts_with(|next: char| next.is_ascii_alphabetic() || "{(".contains(next)) => {
                    let name = self.variable()?;
                    pieces.push(Piece::Plain(std::mem::take(&mut plain)));
                    pieces.push(Piece::Variable(name));
                }
                other => plain.push(other),
            }
        }
        pieces.push(Piece::Plain(plain));
        self.all.push((begun, Token::Text(pieces)));
        Ok(())
    }
}

/// Returns whether a word can contain the character. The `:` and `;` occur in the parameters of 1.5's variables.
fn is_inner(letter: char) -> bool {
    letter.is_alphanumeric() || "/._-:;~@%".contains(letter)
}

/// Parses a number such as `16k`. Other words that begin with a digit, such as a version, stay words.
fn number(word: &str) -> Result<Token, String> {
    let digits = word.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(word.len());
    let (digits, suffix) = word.split_at(digits);
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Ok(Token::Word(word.to_owned())),
    };
    let too_large = || format!("{word} is too large a number");
    let number: u64 = digits.parse().map_err(|_| too_large())?;
    number.checked_mul(1 << shift).map(Token::Number).ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Token> {
        tokens(text).unwrap().all.into_iter().map(|(_, token)| token).collect()
    }

    #[test]
    fn words_numbers_variables_and_texts_are_told_apart() {
        assert_eq!(
            words("set $dir=/tmp/a-b\nset $n = 128k # no more\n"),
            [
                Token::Word("set".into()),
                Token::Variable("dir".into()),
                Token::Symbol('='),
                Token::Word("/tmp/a-b".into()),
                Token::Word("set".into()),
                Token::Variable("n".into()),
                Token::Symbol('='),
                Token::Number(128 << 10),
            ]
        );
        assert_eq!(
            words("08 1.5 -10 ${x}"),
            [Token::Number(8), Token::Word("1.5".into()), Token::Word("-10".into()), Token::Variable("x".into())]
        );
        let said = |pieces: &[(&str, bool)]| {
            let piece = |&(text, plain): &(&str, bool)| {
                if plain { Piece::Plain(text.into()) } else { Piece::Variable(text.into()) }
            };
            vec![Token::Text(pieces.iter().map(piece).collect())]
        };
        assert_eq!(words("\"a \\$dir=$dir.\""), said(&[("a $dir=", true), ("dir", false), (".", true)]));
    }

    #[test]
    fn lines_are_counted_through_texts_comments_and_continuations() {
        let lines = |text: &str| tokens(text).unwrap().all.iter().map(|(line, _)| *line).collect::<Vec<_>>();
        assert_eq!(lines("a # b\n\"c\nd\" e \\\n f\r\ng"), [1, 2, 3, 4, 5]);
        for (text, line, said) in [
            ("a\n\"b\nc", 2, "has no closing '\"'"),
            ("a\nset $=1", 2, "no name of a variable"),
            ("a\n\n^", 3, "unexpected '^'"),
            ("a 99999999999999999999k", 1, "too large a number"),
            ("a\n$x.gamma", 2, "properties of $x"),
            ("${x", 1, "'}' after $x is missing"),
        ] {
            let problem = tokens(text).unwrap_err();
            assert_eq!(problem.line, line, "{text}");
            assert!(problem.message.contains(said), "{problem}");
        }
    }
}
