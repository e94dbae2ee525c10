//! The syntax of a file in the workload language, before evaluation.

use super::Remark;
use super::lexer::Piece;

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
