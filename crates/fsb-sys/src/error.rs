//! The error type of this crate, and the conversions of refusals into it.

use std::borrow::Cow;
use std::io;
use std::path::Path;

pub use fsb_model::errno::describe_io as describe;
pub use fsb_model::error::{Error as TestbedError, Kind, Tried};

/// The reason why an operation failed or is impossible here. It becomes the `tried` text of a
/// [`TestbedError`], or the reason that a record gives for an omission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The kernel refused a call: `open /dev/loop3: Permission denied (EACCES)`.
    #[error("{call}: {}", fsb_model::errno::describe(*errno))]
    Call {
        /// The call and its object.
        call: String,
        /// The error number.
        errno: i32,
    },
    /// Only root may do it.
    #[error("{0}")]
    NeedsRoot(Cow<'static, str>),
    /// There is nothing to do here.
    #[error("{0}")]
    NotNeeded(Cow<'static, str>),
    /// Any other reason.
    #[error("{0}")]
    Because(Cow<'static, str>),
}

impl Refusal {
    /// Makes a refusal of a failed call.
    pub fn call(call: impl Into<String>, error: &io::Error) -> Refusal {
        let call = call.into();
        match fsb_model::errno::number(error) {
            Some(errno) => Refusal::Call { call, errno },
            None => format!("{call}: {error}").into(),
        }
    }

    fn tried(&self) -> Tried {
        let errno = if let Refusal::Call { errno, .. } = self {
            Some(*errno)
        } else {
            None
        };
        Tried {
            text: self.to_string(),
            errno,
        }
    }

    /// Returns several refusals as one. Its error is that of the first of them that has one.
    pub fn all(refusals: &[Refusal]) -> Tried {
        let (texts, errors): (Vec<String>, Vec<Option<i32>>) = refusals
            .iter()
            .map(Refusal::tried)
            .map(|Tried { text, errno }| (text, errno))
            .unzip();
        Tried {
            text: texts.join("; "),
            errno: errors.into_iter().flatten().next(),
        }
    }

    /// Returns whether the operation would succeed with root's privileges.
    pub fn is_for_lack_of_root(&self) -> bool {
        matches!(
            self,
            Refusal::NeedsRoot(_)
                | Refusal::Call {
                    errno: libc::EACCES | libc::EPERM,
                    ..
                }
        )
    }
}

/// Makes a refusal of a failed call on a path: `open /dev/sdb: Permission denied (EACCES)`.
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

/// Converts an error with its advice into the reason of another failure.
impl From<TestbedError> for Refusal {
    fn from(error: TestbedError) -> Refusal {
        error.to_string().into()
    }
}

impl From<Refusal> for Tried {
    fn from(refusal: Refusal) -> Tried {
        refusal.tried()
    }
}

/// For the fields of a [`TestbedError`], and for printed reasons.
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
        let refused = attempt(
            "open",
            Path::new("/dev/sdb"),
            &io::Error::from_raw_os_error(libc::EACCES),
        );
        assert_eq!(
            refused.to_string(),
            "open /dev/sdb: Permission denied (EACCES)"
        );
        let other = attempt(
            "open",
            Path::new("/dev/sdb"),
            &io::Error::other("this is another device"),
        );
        assert_eq!(other.to_string(), "open /dev/sdb: this is another device");
        let error = TestbedError::machine("no device").tried(other.clone());
        assert_eq!(
            (error.tried, error.fields.len()),
            (String::from(other.clone()), 0)
        );
        let error = TestbedError::machine("no device").tried(Refusal::all(&[other, refused]));
        assert_eq!(error.fields["errno"], "EACCES", "{error}");
    }
}
