//! From text to commands: tokens, the syntax before evaluation, and the parser. The parser notes an
//! unknown command and continues after it, so that one pass reports all of them.

use std::fmt;
use std::path::PathBuf;

use fsb_model::flow::Flow;
use fsb_model::nearest::{shortened, unknown};

/// Seconds of a `run` that names none: filebench's default.
pub(crate) const USUAL_SECONDS: u64 = 60;

/// Something in a file that cannot be done, or is done otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// From 1.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// The content of a file, if fsb supports all of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The runs, in the order of the file.
    pub runs: Vec<Run>,
    /// The texts of the `echo` commands.
    pub said: Vec<String>,
    /// Differences from filebench.
    pub notes: Vec<Remark>,
}

/// One `run`, with the definitions that precede it.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The line in the file; `None` if it was requested without being in the file.
    pub line: Option<usize>,
    /// For how long.
    pub seconds: u64,
    /// The directory of its file sets, as written in the file.
    pub directory: PathBuf,
    /// The flow that it runs.
    pub flow: Flow,
}

/// The settings that a file is read with.
#[derive(Debug, Clone, Default)]
pub struct Reading<'r> {
    /// The name of its flows.
    pub name: &'r str,
    /// The length in seconds of the run that a file without `run` gets.
    pub implied: Option<u64>,
    /// Variables that have other values than the file sets, as the file would write them.
    pub values: &'r [(String, String)],
}

// The syntax of a file in the workload language, before evaluation.

/// A value with its line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct At<T> {
    pub(super) line: usize,
    pub(super) value: T,
}

/// A value after an `=`, as written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Written {
    Number(u64),
    Word(String),
    Text(Vec<Piece>),
    Variable(String),
    /// `$a * $b`.
    Sum(Box<Written>, char, Box<Written>),
    /// `randvar(…)` and 1.4's `define randvar`.
    Random(Vec<Attribute>),
    /// `cvar(…)`.
    Custom(Vec<Attribute>),
    /// A table `{{…}, …}`, whose content is ignored.
    Table,
}

/// `name`, or `name = value`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Attribute {
    pub(super) line: usize,
    /// The name of a variable has its dollar.
    pub(super) name: String,
    pub(super) value: Option<Written>,
}

/// `flowop KIND attributes`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FlowOp {
    pub(super) line: usize,
    pub(super) kind: String,
    pub(super) attributes: Vec<Attribute>,
}

/// `thread attributes { flowops }`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Thread {
    pub(super) line: usize,
    pub(super) attributes: Vec<Attribute>,
    pub(super) steps: Vec<FlowOp>,
}

/// A command of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Command {
    Set(String, Written),
    /// The variable of a `foreach` takes its next value.
    Next(String, Written),
    Mode(String),
    /// A `file` or a `fileset`.
    Files {
        one: bool,
        attributes: Vec<Attribute>,
    },
    Process(Vec<Attribute>, Vec<Thread>),
    /// A composite flow operation.
    Composite(Vec<Attribute>, Vec<FlowOp>),
    EventGenerator(Vec<Attribute>),
    Echo(Vec<Piece>),
    Run(Option<Written>),
    /// With the seconds between reports.
    PeriodicRun(Option<u64>, Option<Written>),
    Quit,
    /// Nothing that a run depends on.
    Nothing,
}

/// The result of the parser.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) commands: Vec<At<Command>>,
    pub(super) problems: Vec<Remark>,
    /// A command that was not understood may have defined something.
    pub(super) incomplete: bool,
}

// From text to tokens. Lines end nothing: a command ends where the next one begins.

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
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
    all: Vec<(usize, Token)>,
    /// The line of the last one.
    pub(super) last_line: usize,
}

/// Bytes of the largest file that fsb reads.
const LARGEST: usize = 16 << 20;
const SYMBOLS: &str = "{}(),=*+";

pub(super) fn tokens(text: &str) -> Result<Tokens, Remark> {
    if text.len() > LARGEST {
        return Err(Remark {
            line: 1,
            message: "the file is larger than 16 MiB, the most that fsb reads".to_owned(),
        });
    }
    let mut lexer = Lexer {
        rest: text.trim_start_matches('\u{feff}'),
        line: 1,
        all: Vec::new(),
    };
    while lexer.next()? {}
    let last_line = lexer.all.last().map_or(1, |(line, _)| *line);
    Ok(Tokens {
        all: lexer.all,
        last_line,
    })
}

struct Lexer<'t> {
    rest: &'t str,
    line: usize,
    all: Vec<(usize, Token)>,
}

impl<'t> Lexer<'t> {
    fn wrong(&self, message: impl Into<String>) -> Remark {
        Remark {
            line: self.line,
            message: message.into(),
        }
    }

    /// Takes the characters up to the first that `wanted` rejects.
    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'t str {
        let end = self
            .rest
            .find(|letter| !wanted(letter))
            .unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn push(&mut self, token: Token) {
        self.all.push((self.line, token));
    }

    /// Takes one token, a comment or white space. Returns `false` at the end of the text.
    fn next(&mut self) -> Result<bool, Remark> {
        let Some(first) = self.rest.chars().next() else {
            return Ok(false);
        };
        let skip = |lexer: &mut Self| lexer.rest = &lexer.rest[first.len_utf8()..];
        match first {
            '\n' => {
                skip(self);
                self.line += 1;
            }
            '#' => drop(self.take(|letter| letter != '\n')),
            // A continued line. Line ends have no meaning anyway.
            '\\' if self.rest[1..]
                .trim_start_matches([' ', '\t', '\r'])
                .starts_with('\n') =>
            {
                skip(self)
            }
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
        let name = self
            .take(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            .to_owned();
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
        if self.rest.starts_with('.')
            && self.rest[1..].starts_with(|letter: char| letter.is_ascii_alphabetic())
        {
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
            let letter = self.rest.chars().next().ok_or_else(|| Remark {
                line: begun,
                message: "the text that begins here has no closing '\"'".to_owned(),
            })?;
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
                '$' if self.rest.starts_with(|next: char| {
                    next.is_ascii_alphabetic() || "{(".contains(next)
                }) =>
                {
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

/// Returns whether a word can contain the character. The `:` and `;` occur in the parameters of
/// 1.5's variables.
fn is_inner(letter: char) -> bool {
    letter.is_alphanumeric() || "/._-:;~@%".contains(letter)
}

/// Parses a number such as `16k`. Other words that begin with a digit, such as a version, stay
/// words.
fn number(word: &str) -> Result<Token, String> {
    let digits = word
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(word.len());
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
    number
        .checked_mul(1 << shift)
        .map(Token::Number)
        .ok_or_else(too_large)
}

/// The known commands, apart from those of `NOT_DONE`.
const COMMANDS: [&str; 15] = [
    "set", "define", "eventgen", "run", "psrun", "echo", "usage", "create", "debug", "version",
    "shutdown", "quit", "exit", "enable", "foreach",
];
/// Commands of filebench that fsb does not execute, each with the reason or a remedy.
const NOT_DONE: [(&str, &str); 11] = [
    ("system", "fsb runs no shell commands"),
    (
        "load",
        "fsb loads no other files: put everything into one file",
    ),
    ("sleep", "'run' sets the duration: leave this command out"),
    (
        "stats",
        "fsb prints results after each run: leave this command out",
    ),
    ("domultisync", "fsb runs on one machine only"),
    ("fscheck", "fsb checks no file systems"),
    (
        "fsflush",
        "fsb filebench drops no caches: use a cold workload of 'fsb run'",
    ),
    ("log", "fsb writes no log: leave this command out"),
    ("list", "fsb lists nothing: leave this command out"),
    (
        "warmup",
        "fsb filebench does not warm up: use 'fsb run', which does",
    ),
    ("vars", "fsb lists no variables: leave this command out"),
];

/// The maximum number of commands that loops expand to, and of loops within loops.
const MOST_COMMANDS: usize = 10_000;
const DEEPEST_LOOP: usize = 4;

pub(super) fn parse(tokens: &Tokens) -> Parsed {
    parse_part(&tokens.all, tokens.last_line, 0)
}

/// Parses the commands of a file, or of the body of a loop within `loops` others.
fn parse_part(tokens: &[(usize, Token)], last: usize, loops: usize) -> Parsed {
    let mut parser = Parser {
        tokens,
        next: 0,
        last,
        depth: 0,
        parsed: Parsed::default(),
    };
    // After a command that it does not understand, the parser skips to the next command without
    // further reports.
    while parser.next < parser.tokens.len() {
        let line = parser.line();
        // These commands define nothing.
        let harmless = matches!(parser.peek(), Some(Token::Word(word))
            if word != "load" && NOT_DONE.iter().any(|(name, _)| name == word));
        let result = match parser.peek() {
            Some(Token::Word(word)) if word == "foreach" => {
                parser.repeat(line, loops).map(|()| None)
            }
            _ => parser.command(),
        };
        match result {
            Ok(Some(command)) => parser.parsed.commands.push(At {
                line,
                value: command,
            }),
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
        self.tokens
            .get(self.next)
            .map_or(self.last, |(line, _)| *line)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn take(&mut self) -> Option<&Token> {
        self.next += 1;
        self.tokens.get(self.next - 1).map(|(_, token)| token)
    }

    fn wrong<T>(&self, message: impl Into<String>) -> Read<T> {
        Err(Remark {
            line: self.line(),
            message: message.into(),
        })
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

    /// Returns whether a command begins here: a known command, or the first word of a line that
    /// does not continue the line before.
    fn begins_command(&self) -> bool {
        const INNER: [&str; 2] = ["thread", "flowop"];
        let Some((line, Token::Word(word))) = self.tokens.get(self.next) else {
            return false;
        };
        if COMMANDS.contains(&word.as_str()) {
            return true;
        }
        let before = self
            .next
            .checked_sub(1)
            .and_then(|before| self.tokens.get(before));
        let goes_on = before.is_some_and(|(other, token)| {
            other == line
                || matches!(token, Token::Symbol(symbol) if *symbol != '}' && *symbol != ')')
        });
        let after = self.tokens.get(self.next + 1);
        let is_attribute =
            after.is_some_and(|(_, token)| matches!(token, Token::Symbol('=' | ',')));
        !goes_on && !is_attribute && !INNER.contains(&word.as_str())
    }

    /// Parses `foreach $name in 1k,2k { commands }`, and adds the commands once for each value, as
    /// filebench performs them.
    fn repeat(&mut self, line: usize, loops: usize) -> Read<()> {
        let wrong = |message: String| Err(Remark { line, message });
        self.next += 1;
        let Some(Token::Variable(name)) = self.take().cloned() else {
            self.next -= 1;
            return self.expected("a variable such as $iosize");
        };
        if self.word("'in'")? != "in" {
            self.next -= 1;
            return self.expected("'in'");
        }
        let mut values = vec![self.value()?];
        while self.is_symbol(',') {
            self.next += 1;
            values.push(self.value()?);
        }
        self.symbol('{')?;
        let (first, mut open) = (self.next, 1);
        while open > 0 {
            match self.take() {
                Some(Token::Symbol('{')) => open += 1,
                Some(Token::Symbol('}')) => open -= 1,
                Some(_) => {}
                None => return wrong("the foreach that begins here has no closing '}'".to_owned()),
            }
        }
        if loops == DEEPEST_LOOP {
            return wrong(format!("more than {DEEPEST_LOOP} loops within each other"));
        }
        let tokens = self.tokens;
        let body = parse_part(&tokens[first..self.next - 1], self.last, loops + 1);
        self.parsed.problems.extend(body.problems);
        self.parsed.incomplete |= body.incomplete;
        if self.parsed.commands.len() + values.len() * (body.commands.len() + 1) > MOST_COMMANDS {
            return wrong(format!(
                "the foreach expands to more than {MOST_COMMANDS} commands"
            ));
        }
        for value in values {
            self.parsed.commands.push(At {
                line,
                value: Command::Next(name.clone(), value),
            });
            self.parsed.commands.extend(body.commands.iter().cloned());
        }
        Ok(())
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
                    return self.wrong(format!(
                        "enable {}: fsb runs on one machine only",
                        shortened(other)
                    ));
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
            Some(Token::Word(word))
                if self.line() == line && !COMMANDS.contains(&word.as_str()) =>
            {
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
                    "quit" => Ok(Command::Mode(
                        self.word("'timeout', 'alldone' or 'firstdone'")?,
                    )),
                    // Processor use is not printed anyway.
                    "nousestats" => Ok(Command::Nothing),
                    other => self.wrong(format!(
                        "mode {} is not known: known is quit",
                        shortened(other)
                    )),
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
                let named = attributes
                    .iter()
                    .position(|attribute| attribute.name == "name");
                let name = named.map(|at| attributes.remove(at));
                match name.and_then(|name| name.value) {
                    Some(Written::Variable(name)) => {
                        Ok(Command::Set(name, Written::Random(attributes)))
                    }
                    _ => Err(Remark {
                        line,
                        message: "a randvar needs a name such as name=$iosize".to_owned(),
                    }),
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
        Ok(Thread {
            line,
            attributes,
            steps: self.block(line)?,
        })
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
            let attributes = if begins || matches!(self.peek(), Some(Token::Variable(_))) {
                self.attributes()?
            } else {
                Vec::new()
            };
            steps.push(FlowOp {
                line,
                kind,
                attributes,
            });
        }
        self.symbol('}')?;
        Ok(steps)
    }
}

// Parses values after an `=`, and lists of attributes.

/// The deepest nesting of values, and the most operators in one value.
const DEEPEST: usize = 16;

impl Parser<'_> {
    fn value(&mut self) -> Read<Written> {
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
                Some(Token::Word(word)) if word == "-" || word == "/" => {
                    word.as_str().chars().next().unwrap_or('-')
                }
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
                return Ok(if custom {
                    Written::Custom(attributes)
                } else {
                    Written::Random(attributes)
                });
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
                None => {
                    return Err(Remark {
                        line: begun,
                        message: "the '{' has no closing '}'".to_owned(),
                    });
                }
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Parses `name=value, name, $variable=value`.
    fn attributes(&mut self) -> Read<Vec<Attribute>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Token> {
        tokens(text)
            .unwrap()
            .all
            .into_iter()
            .map(|(_, token)| token)
            .collect()
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
            [
                Token::Number(8),
                Token::Word("1.5".into()),
                Token::Word("-10".into()),
                Token::Variable("x".into())
            ]
        );
        let said = |pieces: &[(&str, bool)]| {
            let piece = |&(text, plain): &(&str, bool)| {
                if plain {
                    Piece::Plain(text.into())
                } else {
                    Piece::Variable(text.into())
                }
            };
            vec![Token::Text(pieces.iter().map(piece).collect())]
        };
        assert_eq!(
            words("\"a \\$dir=$dir.\""),
            said(&[("a $dir=", true), ("dir", false), (".", true)])
        );
    }

    #[test]
    fn lines_are_counted_through_texts_comments_and_continuations() {
        let lines = |text: &str| {
            tokens(text)
                .unwrap()
                .all
                .iter()
                .map(|(line, _)| *line)
                .collect::<Vec<_>>()
        };
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
