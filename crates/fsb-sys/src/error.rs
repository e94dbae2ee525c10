//! The one error of this crate, under its name, and what goes into its parts.

use std::borrow::Cow;
use std::io;
use std::path::Path;

pub use fsb_model::errno::describe_io as describe;
pub use fsb_model::error::{Error as TestbedError, Kind};

/// Why something was not done, or cannot be done here: what a [`TestbedError`] says was tried, and what a record says of
/// what was left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The kernel refused a call: `open /dev/loop3: Permission denied (EACCES)`.
    #[error("{call}: {}", fsb_model::errno::describe(*errno))]
    Call {
        /// The call and what it was made on.
        call: String,
        /// The kernel's answer.
        errno: i32,
    },
    /// Anything else, in words.
    #[error("{0}")]
    Because(Cow<'static, str>),
}

impl Refusal {
    /// A call that failed, without a path.
    pub fn call(call: impl Into<String>, error: &io::Error) -> Refusal {
        let call = call.into();
        match error.raw_os_error() {
            Some(errno) => Refusal::Call { call, errno },
            None => format!("{call}: {error}").into(),
        }
    }
}

/// `open /dev/sdb: Permission denied (EACCES)`.
pub fn attempt(verb: &str, path: &Path, error: &io::Error) -> Refusal {
    Refusal::call(format!("{verb} {}", path.display()), error)
}

impl From<&'static str> for Refusal {
    fn from(why: &'static str) -> Refusal {
        Refusal::Because(why.into())
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal::Because(why.into())
    }
}

/// An error with its advice, where it is but the reason of something else.
impl From<TestbedError> for Refusal {
    fn from(error: TestbedError) -> Refusal {
        error.to_string().into()
    }
}

/// For the parts of a [`TestbedError`], and for what is told.
impl From<Refusal> for String {
    fn from(refusal: Refusal) -> String {
        refusal.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_says_what_was_tried_and_the_answer() {
        let refused = attempt("open", Path::new("/dev/sdb"), &io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(refused.to_string(), "open /dev/sdb: Permission denied (EACCES)");
        let other = attempt("open", Path::new("/dev/sdb"), &io::Error::other("this is another device"));
        assert_eq!(other.to_string(), "open /dev/sdb: this is another device");
        assert_eq!(TestbedError::machine("no device").tried(other.clone()).tried, String::from(other));
    }
}
