//! Users and groups by name, as the C library finds them.

use nix::errno::Errno;
use nix::unistd::{Group, User};

use crate::error::Refusal;

/// Returns the number of a user that is given by number or name.
///
/// # Errors
///
/// If this machine lacks the user, or the user database cannot be read.
pub fn uid(text: &str) -> Result<u32, Refusal> {
    if is_number(text) {
        return number(text, "user");
    }
    match User::from_name(text) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(format!("this machine has no user '{text}'").into()),
        Err(errno) => Err(not_looked_up("user", text, errno)),
    }
}

/// Returns the number of a group that is given by number or name.
///
/// # Errors
///
/// If this machine lacks the group, or the group database cannot be read.
pub fn gid(text: &str) -> Result<u32, Refusal> {
    if is_number(text) {
        return number(text, "group");
    }
    match Group::from_name(text) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(format!("this machine has no group '{text}'").into()),
        Err(errno) => Err(not_looked_up("group", text, errno)),
    }
}

fn not_looked_up(kind: &str, text: &str, errno: Errno) -> Refusal {
    Refusal::call(format!("look up the {kind} '{text}'"), &errno.into())
}

fn is_number(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit()) && text.parse::<u64>().is_ok()
}

fn number(text: &str, kind: &str) -> Result<u32, Refusal> {
    // The largest number means "no change" to the kernel.
    const MOST: u32 = u32::MAX - 1;
    match text.parse() {
        Ok(number) if number <= MOST => Ok(number),
        _ => Err(format!("{text} is not the number of a {kind}: at most {MOST}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_number_and_name() {
        assert_eq!((uid("root"), gid("root")), (Ok(0), Ok(0)));
        assert_eq!(
            (uid("1001"), gid("4294967294")),
            (Ok(1001), Ok(4_294_967_294))
        );
        for (answer, word) in [
            (uid("no-such-user"), "no user 'no-such-user'"),
            (gid("no-such-group"), "no group 'no-such-group'"),
            (uid("4294967295"), "at most 4294967294"),
            (uid(""), "no user ''"),
        ] {
            let error = answer.unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
