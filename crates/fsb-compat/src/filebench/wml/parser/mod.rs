//! Builds commands from tokens. The parser notes an unknown command and continues after it, so that one pass reports
//! all of them.

mod values;

use fsb_model::nearest::{shortened, unknown};

use super::Remark;
use super::lexer::{Piece, Token, Tokens};
use super::syntax::{At, Command, FlowOp, Parsed, Thread, Written};

/// The known commands, apart from those of `NOT_DONE`.
const COMMANDS: [&str; 14] = [
    "set", "define", "eventgen", "run", "psrun", "echo", "usage", "create", "debug", "version", "shutdown", "quit",
    "exit", "enable",
];
/// Commands of filebench that fsb does not execute, each with the reason or a remedy.
const NOT_DONE: [(&str, &str); 12] = [
    ("system", "fsb runs no shell commands"),
    ("load", "fsb loads no other files: put everything into one file"),
    ("foreach", "fsb has no loops: write one file for each value, or use a plan of 'fsb run'"),
    ("sleep", "'run' sets the duration: leave this command out"),
    ("stats", "fsb prints results after each run: leave this command out"),
    ("domultisync", "fsb runs on one machine only"),
    ("fscheck", "fsb checks no file systems"),
    ("fsflush", "fsb filebench drops no caches: use a cold workload of 'fsb run'"),
    ("log", "fsb writes no log: leave this command out"),
    ("list", "fsb lists nothing: leave this command out"),
    ("warmup", "fsb filebench does not warm up: use 'fsb run', which does"),
    ("vars", "fsb lists no variables: leave this command out"),
];

pub(super) fn parse(tokens: &Tokens) -> Parsed {
    let mut parser =
        Parser { tokens: &tokens.all, next: 0, last: tokens.last_line, depth: 0, parsed: Parsed::default() };
    // After a command that it does not understand, the parser skips to the next command without further reports.
    while parser.next < parser.tokens.len() {
        let line = parser.line();
        // These commands define nothing.
        let harmless = matches!(parser.peek(), Some(Token::Word(word))
            if !["load", "foreach"].contains(&word.as_str()) && NOT_DONE.iter().any(|(name, _)| name == word));
        match parser.command() {
            Ok(Some(command)) => parser.parsed.commands.push(At { line, value: command }),
            Ok(None) => {}
            Err(problem) => {
                parser.parsed.problems.push(problem);
                parser.parsed.incomplete |= !harmless;
                parser.skip_to_command();
            }
        }
    }
    parser.parsed
}

struct Parser<'t> {
    tokens: &'t [(usize, Token)],
    next: usize,
    last: usize,
    /// The nesting depth of the current value.
    depth: usize,
    parsed: Parsed,
}

type Read<T> = Result<T, Remark>;

impl Parser<'_> {
    fn line(&self) -> usize {
        self.tokens.get(self.next).map_or(self.last, |(line, _)| *line)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn take(&mut self) -> Option<&Token> {
        self.next += 1;
        self.tokens.get(self.next - 1).map(|(_, token)| token)
    }

    fn wrong<T>(&self, message: impl Into<String>) -> Read<T> {
        Err(Remark { line: self.line(), message: message.into() })
    }

    /// Reports the token that the parser found instead of the expected one.
    fn expected<T>(&self, what: &str) -> Read<T> {
        let found = match self.peek() {
            None => "the end of the file".to_owned(),
            Some(Token::Word(word)) => format!("'{}'", shortened(word)),
            Some(Token::Number(number)) => format!("'{number}'"),
            Some(Token::Variable(name)) => format!("'${}'", shortened(name)),
            Some(Token::Text(_)) => "a text in quotes".to_owned(),
            Some(Token::Symbol(symbol)) => format!("'{symbol}'"),
        };
        self.wrong(format!("expected {what}, found {found}"))
    }

    fn is_symbol(&self, symbol: char) -> bool {
        self.peek() == Some(&Token::Symbol(symbol))
    }

    fn symbol(&mut self, symbol: char) -> Read<()> {
        if self.is_symbol(symbol) {
            self.next += 1;
            return Ok(());
        }
        self.expected(&format!("'{symbol}'"))
    }

    fn word(&mut self, what: &str) -> Read<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.next += 1;
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    fn skip_to_command(&mut self) {
        // The first token may be the command that was not understood.
        self.next += 1;
        while self.next < self.tokens.len() && !self.begins_command() {
            self.next += 1;
        }
    }

    /// Returns whether a command begins here: a known command, or the first word of a line that does not continue the
    /// line before.
    fn begins_command(&self) -> bool {
        const INNER: [&str; 2] = ["thread", "flowop"];
        let Some((line, Token::Word(word))) = self.tokens.get(self.next) else { return false };
        if COMMANDS.contains(&word.as_str()) {
            return true;
        }
        let before = self.next.checked_sub(1).and_then(|before| self.tokens.get(before));
        let goes_on = before.is_some_and(|(other, token)| {
            other == line || matches!(token, Token::Symbol(symbol) if *symbol != '}' && *symbol != ')')
        });
        let after = self.tokens.get(self.next + 1);
        let is_attribute = after.is_some_and(|(_, token)| matches!(token, Token::Symbol('=' | ',')));
        !goes_on && !is_attribute && !INNER.contains(&word.as_str())
    }

    fn command(&mut self) -> Read<Option<Command>> {
        let line = self.line();
        let word = self.word("a command")?;
        let command = match word.as_str() {
            "set" => self.set()?,
            "define" => return self.define(line).map(Some),
            "eventgen" => Command::EventGenerator(self.attributes()?),
            "echo" => Command::Echo(self.text()?),
            // For users at filebench's prompt.
            "usage" => {
                self.text()?;
                Command::Nothing
            }
            "run" => Command::Run(self.seconds(line)?),
            "psrun" => {
                let period = self.period();
                Command::PeriodicRun(period, self.seconds(line)?)
            }
            "create" => {
                self.word("'files' or 'processes'")?;
                Command::Nothing
            }
            "shutdown" => {
                self.word("'processes'")?;
                Command::Nothing
            }
            "debug" => {
                if matches!(self.peek(), Some(Token::Number(_))) {
                    self.next += 1;
                }
                Command::Nothing
            }
            "version" => Command::Nothing,
            "quit" | "exit" => Command::Quit,
            "enable" => match self.word("'lathist'")?.as_str() {
                // Latencies are always recorded.
                "lathist" => Command::Nothing,
                other => {
                    self.next -= 1;
                    return self.wrong(format!("enable {}: fsb runs on one machine only", shortened(other)));
                }
            },
            other => {
                self.next -= 1;
                return match NOT_DONE.iter().find(|(name, _)| *name == other) {
                    Some((name, why)) => self.wrong(format!("{name} is not supported: {why}")),
                    None => self.wrong(unknown("command", other, COMMANDS)),
                };
            }
        };
        Ok(Some(command))
    }

    fn text(&mut self) -> Read<Vec<Piece>> {
        match self.peek() {
            Some(Token::Text(pieces)) => {
                let pieces = pieces.clone();
                self.next += 1;
                Ok(pieces)
            }
            _ => self.expected("a text in quotes"),
        }
    }

    /// Parses the seconds of a `run` on this line. Returns `None` if it has none.
    fn seconds(&mut self, line: usize) -> Read<Option<Written>> {
        let seconds = match self.peek() {
            Some(Token::Number(number)) => Written::Number(*number),
            Some(Token::Variable(name)) => Written::Variable(name.clone()),
            Some(Token::Word(word)) if self.line() == line && !COMMANDS.contains(&word.as_str()) => {
                return self.expected("a number of seconds such as 60");
            }
            _ => return Ok(None),
        };
        self.next += 1;
        Ok(Some(seconds))
    }

    /// Parses `-10` or `10`.
    fn period(&mut self) -> Option<u64> {
        let period = match self.peek()? {
            Token::Number(number) => *number,
            Token::Word(word) => word.strip_prefix('-')?.parse().ok()?,
            _ => return None,
        };
        self.next += 1;
        Some(period)
    }

    fn set(&mut self) -> Read<Command> {
        match self.peek() {
            Some(Token::Variable(name)) => {
                let name = name.clone();
                self.next += 1;
                self.symbol('=')?;
                Ok(Command::Set(name, self.value()?))
            }
            Some(Token::Word(word)) if word == "mode" => {
                self.next += 1;
                match self.word("'quit'")?.as_str() {
                    "quit" => Ok(Command::Mode(self.word("'timeout', 'alldone' or 'firstdone'")?)),
                    // Processor use is not printed anyway.
                    "nousestats" => Ok(Command::Nothing),
                    other => self.wrong(format!("mode {} is not known: known is quit", shortened(other))),
                }
            }
            _ => self.expected("a variable such as $dir, or 'mode'"),
        }
    }

    fn define(&mut self, line: usize) -> Read<Command> {
        let what = self.word("'fileset', 'file', 'process', 'flowop' or 'randvar'")?;
        match what.as_str() {
            "file" | "files" | "fileset" | "filesets" => Ok(Command::Files {
                one: what.starts_with("file") && !what.contains("set"),
                attributes: self.attributes()?,
            }),
            "process" | "processes" => {
                let attributes = self.attributes()?;
                self.symbol('{')?;
                let mut threads = Vec::new();
                while !self.is_symbol('}') {
                    threads.push(self.thread(line)?);
                }
                self.symbol('}')?;
                Ok(Command::Process(attributes, threads))
            }
            "flowop" => {
                let attributes = self.attributes()?;
                Ok(Command::Composite(attributes, self.block(line)?))
            }
            "randvar" => {
                let mut attributes = self.attributes()?;
                let named = attributes.iter().position(|attribute| attribute.name == "name");
                let name = named.map(|at| attributes.remove(at));
                match name.and_then(|name| name.value) {
                    Some(Written::Variable(name)) => Ok(Command::Set(name, Written::Random(attributes))),
                    _ => Err(Remark { line, message: "a randvar needs a name such as name=$iosize".to_owned() }),
                }
            }
            other => {
                self.next -= 1;
                let known = ["fileset", "file", "process", "flowop", "randvar"];
                self.wrong(format!("define: {}", unknown("kind", other, known)))
            }
        }
    }

    fn thread(&mut self, begun: usize) -> Read<Thread> {
        let line = self.line();
        match self.peek() {
            Some(Token::Word(word)) if word == "thread" => self.next += 1,
            None => {
                return Err(Remark {
                    line: begun,
                    message: "the process that begins here has no closing '}'".to_owned(),
                });
            }
            _ => return self.expected("'thread' or '}'"),
        }
        let attributes = self.attributes()?;
        Ok(Thread { line, attributes, steps: self.block(line)? })
    }

    /// Parses `{ flowop … flowop … }`.
    fn block(&mut self, begun: usize) -> Read<Vec<FlowOp>> {
        self.symbol('{')?;
        let mut steps = Vec::new();
        while !self.is_symbol('}') {
            let line = self.line();
            match self.peek() {
                Some(Token::Word(word)) if word == "flowop" => self.next += 1,
                None => {
                    return Err(Remark {
                        line: begun,
                        message: "the block that begins here has no closing '}'".to_owned(),
                    });
                }
                _ => return self.expected("'flowop' or '}'"),
            }
            let kind = self.word("the kind of a flowop")?;
            let begins = matches!(self.peek(), Some(Token::Word(word)) if word != "flowop");
            let attributes =
                if begins || matches!(self.peek(), Some(Token::Variable(_))) { self.attributes()? } else { Vec::new() };
            steps.push(FlowOp { line, kind, attributes });
        }
        self.symbol('}')?;
        Ok(steps)
    }
}
