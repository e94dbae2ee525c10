//! The interface through which pages start runs, and the data of these pages.

use fsb_report::live::LiveRun;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// Names and values of a form, in its order.
pub type Answers = Vec<(String, String)>;

/// Plans, starts, watches and stops runs, one at a time. This crate cannot make a run.
pub trait Runs: Send + Sync {
    /// Returns the form with the answers that were given so far.
    fn form(&self, answers: &Answers) -> Vec<Section>;

    /// Returns the resolved plan of a form.
    ///
    /// # Errors
    ///
    /// The form makes no plan, the plan is not permitted, or this machine cannot run it.
    fn plan(&self, answers: &Answers) -> Result<Planned, Problem>;

    /// Starts a run of the plan with that digest, which [`Runs::plan`] returned.
    ///
    /// # Errors
    ///
    /// A run is measured already, or the plan is not known any more.
    fn start(&self, digest: &str) -> Result<(), Problem>;

    /// Stops the run, as Ctrl-C does. Does nothing without one.
    ///
    /// # Errors
    ///
    /// The process that makes runs does not answer.
    fn stop(&self) -> Result<(), Problem>;

    /// Returns the state of the last run.
    ///
    /// # Errors
    ///
    /// The process that makes runs does not answer.
    fn status(&self) -> Result<RunStatus, Problem>;

    /// Returns the report of the last run as a page.
    ///
    /// # Errors
    ///
    /// There is none.
    fn report(&self) -> Result<String, Problem>;
}

/// A part of the form, under a heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// An explanation below the heading; empty if none is needed.
    pub about: String,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// A field of the form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The name of its answer.
    pub name: String,
    /// The visible name.
    pub label: String,
    /// The effect, and the values that it accepts.
    pub about: String,
    /// The way in which it is answered.
    pub kind: FieldKind,
    /// The answers that were given; several only for [`FieldKind::Several`].
    pub given: Vec<String>,
}

/// The way in which a field is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldKind {
    /// A line of text. The text is shown while the field is empty: the default.
    Text(String),
    /// A box to check.
    Flag,
    /// One of these values. The first one is the default.
    One(Vec<String>),
    /// Any number of these values.
    Several(Vec<String>),
}

/// A plan that can be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// The digest of the text, by which it is started.
    pub digest: String,
    /// The complete plan in TOML.
    pub text: String,
    /// The cases that it measures on each target.
    pub cases: Vec<String>,
    /// The targets.
    pub targets: Vec<String>,
    /// The expected time.
    pub time: String,
    /// Conditions that the user must know.
    pub warnings: Vec<String>,
}

/// The state of the last run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStatus {
    /// Whether its process runs.
    pub is_running: bool,
    /// Its directory; empty if no run was started.
    pub directory: String,
    /// Its results so far. `None` until it has a directory.
    pub live: Option<LiveRun>,
    /// The error that ended it; empty if there is none.
    pub error: String,
}
