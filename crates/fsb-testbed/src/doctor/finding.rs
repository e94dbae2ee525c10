//! A finding of the doctor.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, but results may suffer.
    Warning,
    /// It does not work here.
    Missing,
    /// The machine lacks it, and a run works without it.
    Absent,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The subject of the check, in a word or two.
    pub topic: String,
    pub state: State,
    pub text: String,
    /// The command or step that resolves it; empty if none is needed.
    pub advice: String,
}

pub(super) fn finding(topic: &str, state: State, text: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { topic: topic.to_owned(), state, text: text.into(), advice: advice.into() }
}
