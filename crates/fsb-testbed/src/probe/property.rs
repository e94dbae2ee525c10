//! The answer to one question about a file system.

use std::borrow::Cow;

use fsb_model::errno;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::surroundings::Surroundings;

/// Whether the file system has a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PropertyState {
    /// It has the property: the call works.
    Yes,
    /// It does not have it: the call is refused or does something else.
    No,
    /// The probe cannot find out.
    Unknown,
    /// The property is a number.
    Number,
}

/// One property of the file system of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Property {
    /// Its name in JSON: `open_direct`.
    pub name: String,
    /// The call or feature, in a few words.
    pub label: String,
    /// Whether the file system has it.
    pub state: PropertyState,
    /// The error of the kernel or of the server: `EINVAL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<String>,
    /// The value of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The answer in words.
    pub text: String,
    /// The consequence for a measurement in the directory. Empty if there is none.
    pub consequence: String,
}

/// A question: one row of the table.
pub(super) struct Cell {
    pub name: &'static str,
    pub label: &'static str,
    /// The consequence of the answer "no", unless the answer has its own.
    pub consequence: &'static str,
    /// Finds the answer. An error means that the file system refused the call.
    pub probe: fn(&Surroundings) -> Result<Answer, Errno>,
}

/// The answer of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    state: PropertyState,
    errno: Option<Errno>,
    number: Option<u64>,
    text: Cow<'static, str>,
    consequence: Option<Cow<'static, str>>,
}

impl Answer {
    fn new(state: PropertyState, text: impl Into<Cow<'static, str>>) -> Answer {
        Answer {
            state,
            errno: None,
            number: None,
            text: text.into(),
            consequence: None,
        }
    }

    /// The call works.
    pub fn works() -> Answer {
        Answer::new(PropertyState::Yes, "works")
    }

    pub fn yes(text: impl Into<Cow<'static, str>>) -> Answer {
        Answer::new(PropertyState::Yes, text)
    }

    pub fn no(text: impl Into<Cow<'static, str>>) -> Answer {
        Answer::new(PropertyState::No, text)
    }

    pub fn unknown(text: impl Into<Cow<'static, str>>) -> Answer {
        Answer::new(PropertyState::Unknown, text)
    }

    pub fn number(number: u64, text: impl Into<Cow<'static, str>>) -> Answer {
        Answer {
            number: Some(number),
            ..Answer::new(PropertyState::Number, text)
        }
    }

    /// The call was refused. A full disk refuses calls that otherwise work.
    pub fn refused(errno: Errno) -> Answer {
        let state = match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::NOMEM | Errno::MFILE | Errno::NFILE => {
                PropertyState::Unknown
            }
            _ => PropertyState::No,
        };
        Answer {
            errno: Some(errno),
            ..Answer::new(state, errno::describe(errno.raw_os_error()))
        }
    }

    /// Adds what the answer means for a measurement.
    pub fn so(self, consequence: impl Into<Cow<'static, str>>) -> Answer {
        Answer {
            consequence: Some(consequence.into()),
            ..self
        }
    }
}

impl Cell {
    /// Returns the property that an answer describes.
    pub fn property(&self, answer: Answer) -> Property {
        let name_of = |errno: Errno| {
            let number = errno.raw_os_error();
            errno::name(number).map_or_else(|| number.to_string(), str::to_owned)
        };
        let consequence = match (answer.consequence, answer.state) {
            (Some(own), _) => own,
            (None, PropertyState::No) => self.consequence.into(),
            (None, _) => "".into(),
        };
        Property {
            name: self.name.to_owned(),
            label: self.label.to_owned(),
            state: answer.state,
            errno: answer.errno.map(name_of),
            number: answer.number,
            text: answer.text.into_owned(),
            consequence: consequence.into_owned(),
        }
    }

    /// Probes the property.
    pub fn find(&self, surroundings: &Surroundings) -> Property {
        let answer = (self.probe)(surroundings).unwrap_or_else(Answer::refused);
        self.property(answer)
    }
}
