//! Parses values after an `=`, and lists of attributes.

use super::{Parser, Read};
use crate::filebench::wml::Remark;
use crate::filebench::wml::lexer::Token;
use crate::filebench::wml::syntax::{Attribute, Written};

/// The deepest nesting of values, and the most operators in one value.
const DEEPEST: usize = 16;

impl Parser<'_> {
    pub(super) fn value(&mut self) -> Read<Written> {
        if self.depth == DEEPEST {
            return self.wrong("values are nested too deeply");
        }
        self.depth += 1;
        let value = self.sum();
        self.depth -= 1;
        value
    }

    fn sum(&mut self) -> Read<Written> {
        let mut value = self.operand()?;
        for _ in 0..DEEPEST {
            let operator = match self.peek() {
                Some(Token::Symbol(operator @ ('*' | '+'))) => *operator,
                Some(Token::Word(word)) if word == "-" || word == "/" => word.as_str().chars().next().unwrap_or('-'),
                _ => return Ok(value),
            };
            self.next += 1;
            value = Written::Sum(Box::new(value), operator, Box::new(self.operand()?));
        }
        self.wrong("a value refers to too many others")
    }

    fn operand(&mut self) -> Read<Written> {
        let written = match self.peek() {
            Some(Token::Number(number)) => Written::Number(*number),
            Some(Token::Variable(name)) => Written::Variable(name.clone()),
            Some(Token::Text(pieces)) => Written::Text(pieces.clone()),
            Some(Token::Word(word)) if word == "randvar" || word == "cvar" => {
                let custom = word == "cvar";
                self.next += 1;
                self.symbol('(')?;
                let attributes = self.attributes()?;
                self.symbol(')')?;
                return Ok(if custom { Written::Custom(attributes) } else { Written::Random(attributes) });
            }
            Some(Token::Word(word)) => Written::Word(word.clone()),
            Some(Token::Symbol('{')) => {
                self.skip_braces()?;
                return Ok(Written::Table);
            }
            _ => return self.expected("a value"),
        };
        self.next += 1;
        Ok(written)
    }

    /// Skips a table such as `{{1, 2, 3}, …}`.
    fn skip_braces(&mut self) -> Read<()> {
        let begun = self.line();
        let mut depth = 0usize;
        loop {
            match self.take() {
                Some(Token::Symbol('{')) => depth += 1,
                Some(Token::Symbol('}')) => depth -= 1,
                Some(_) => {}
                None => return Err(Remark { line: begun, message: "the '{' has no closing '}'".to_owned() }),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Parses `name=value, name, $variable=value`.
    pub(super) fn attributes(&mut self) -> Read<Vec<Attribute>> {
        let mut attributes = Vec::new();
        loop {
            let line = self.line();
            let name = match self.peek() {
                Some(Token::Word(word)) => word.clone(),
                Some(Token::Variable(name)) => format!("${name}"),
                _ => return self.expected("an attribute"),
            };
            self.next += 1;
            let value = if self.is_symbol('=') {
                self.next += 1;
                Some(self.value()?)
            } else {
                None
            };
            attributes.push(Attribute { line, name, value });
            if !self.is_symbol(',') {
                return Ok(attributes);
            }
            self.next += 1;
        }
    }
}
