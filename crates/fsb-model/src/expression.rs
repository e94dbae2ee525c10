//! The arithmetic of sizes in suites: `size/8`, `min(10000, size/64K)`.
//!
//! `size` is the size of the image. The language has whole numbers, `*` and `/` from left to right,
//! `min` and `max`. It has nothing else, so that a suite stays a table and not a program.

/// The error of an expression that has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a size: write a number such as 4K, or an expression such as size/8 or min(10000, size/64K)"
)]
pub struct ExpressionError {
    /// The whole expression.
    pub text: String,
}

/// Evaluates `text` for an image of `size` bytes.
pub fn evaluate(text: &str, size: u64) -> Result<u64, ExpressionError> {
    let mut parser = Parser { rest: text, size };
    let value = parser.product(0);
    match value {
        Some(value) if parser.rest.trim().is_empty() => Ok(value),
        _ => Err(ExpressionError {
            text: text.to_owned(),
        }),
    }
}

struct Parser<'a> {
    rest: &'a str,
    size: u64,
}

/// The deepest nesting. The parser rejects deeper input, which could overflow the stack.
const DEPTH: u32 = 16;

impl Parser<'_> {
    fn product(&mut self, depth: u32) -> Option<u64> {
        let mut value = self.term(depth)?;
        loop {
            if self.eat("/") {
                value = value.checked_div(self.term(depth)?)?;
            } else if self.eat("*") {
                value = value.checked_mul(self.term(depth)?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn term(&mut self, depth: u32) -> Option<u64> {
        if depth > DEPTH {
            return None;
        }
        for (name, pick) in [
            ("min(", u64::min as fn(u64, u64) -> u64),
            ("max(", u64::max),
        ] {
            if self.eat(name) {
                let left = self.product(depth + 1)?;
                let right = if self.eat(",") {
                    self.product(depth + 1)?
                } else {
                    return None;
                };
                return self.eat(")").then(|| pick(left, right));
            }
        }
        if self.eat("size") {
            return Some(self.size);
        }
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        let value: crate::units::Bytes = number.parse().ok()?;
        self.rest = rest;
        Some(value.0)
    }

    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn suites_scale_with_the_image() {
        assert_eq!(evaluate("4K", 0), Ok(4096));
        assert_eq!(evaluate("size/8", 2 << 30), Ok(256 << 20));
        assert_eq!(evaluate("min(10000, size/64K)", 2 << 30), Ok(10_000));
        assert_eq!(evaluate("min(10000, size/64K)", 64 << 20), Ok(1024));
        assert_eq!(evaluate("max(1, size / 1G) * 3", 1 << 20), Ok(3));
    }

    #[test]
    fn garbage_has_no_value() {
        for text in [
            "",
            "size/0",
            "size/",
            "min(1)",
            "min(1,2",
            "4X",
            "size size",
            "-1",
            "1..2",
        ] {
            assert!(evaluate(text, 1 << 30).is_err(), "{text}");
        }
        assert!(evaluate(&"min(".repeat(100_000), 1).is_err());
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[a-z0-9(),/* ]{0,24}", size in any::<u64>()) {
            let _ = evaluate(&text, size);
        }
    }
}
