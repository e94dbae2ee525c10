//! Users and groups by name, as the C library finds them.

use nix::unistd::{Group, User};

/// Returns the number of a user that is given by number or name.
///
/// # Errors
///
/// If there is no such user, or the user database cannot be read.
pub fn uid(text: &str) -> Result<u32, String> {
    let find = |name: &str| User::from_name(name).map(|user| user.map(|user| user.uid.as_raw()));
    number(text, "user", find)
}

/// Returns the number of a group that is given by number or name.
///
/// # Errors
///
/// If there is no such group, or the group database cannot be read.
pub fn gid(text: &str) -> Result<u32, String> {
    let find =
        |name: &str| Group::from_name(name).map(|group| group.map(|group| group.gid.as_raw()));
    number(text, "group", find)
}

fn number(
    text: &str,
    kind: &str,
    find: impl Fn(&str) -> nix::Result<Option<u32>>,
) -> Result<u32, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // The largest number means "no change" to the kernel.
        let number = text.parse().ok().filter(|number| *number < u32::MAX);
        let most = u32::MAX - 1;
        return number
            .ok_or_else(|| format!("{text} is not the number of a {kind}: at most {most}"));
    }
    match find(text) {
        Ok(Some(number)) => Ok(number),
        Ok(None) => Err(format!("this machine has no {kind} '{text}'")),
        Err(error) => Err(format!("the {kind} '{text}' cannot be looked up: {error}")),
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
            let error = answer.unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
