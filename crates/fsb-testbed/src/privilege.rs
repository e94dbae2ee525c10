//! Advice for users who lack a privilege, and the user that workers run as.

use std::io;
use std::path::Path;

use fsb_model::Identity;
use fsb_sys::error::TestbedError;
use fsb_sys::invoking_user::{InvokingUser, own};
use fsb_sys::program;

/// The text of the error for a request that needs root. The command line adds the command that
/// would work.
pub const NEEDS_ROOT: &str = "formatting needs root";

/// Returns advice on how to get root's privileges on this machine. Root in a container gets other
/// advice than to become root.
pub fn advice() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "root lacks this privilege here, as in most containers: run fsb outside, or in a virtual machine (fsb run --in vm)"
    } else if program::find("sudo").is_some() {
        "run with sudo"
    } else {
        "run as root: sudo is not installed"
    }
}

/// Returns advice for a directory that fsb may not write to. If root may not, the server or the
/// owner of the mount refuses root.
pub fn advice_on_directory(error: &io::Error) -> String {
    advice_on_refused_directory(rustix::process::geteuid().is_root(), error)
}

fn advice_on_refused_directory(is_root: bool, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied if is_root => {
            "root may not write there, as on NFS with root_squash: run fsb as a user who may"
                .to_owned()
        }
        _ => format!("name a writable directory, or {}", advice()),
    }
}

/// Returns the prefix of a command that needs root's privileges. Returns `None` for root, and if
/// sudo is missing.
pub fn prefix() -> Option<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    (!is_root && program::find("sudo").is_some()).then_some("sudo")
}

/// The uid and gid of `nobody` on every distribution, for machines whose user list lacks the name.
const NOBODY: u32 = 65534;

/// Returns the user and group that workers run as, the least privileged that fit the invocation:
/// `--uid/--gid`, else the user who called sudo, pkexec or doas, else `nobody`. If this process
/// does not run as root, they are its own. Returns root only with `--force-root-user`.
pub fn worker_identity(identity: &Identity) -> Result<(u32, u32), TestbedError> {
    let invoking_user = InvokingUser::current();
    let users = std::fs::read_to_string(Path::new("/etc/passwd")).unwrap_or_default();
    choose(
        identity,
        own(),
        invoking_user.map(|invoking_user| invoking_user.uid),
        invoking_user.map(|invoking_user| invoking_user.gid),
        &users,
    )
}

fn choose(
    identity: &Identity,
    own: (u32, u32),
    sudo_uid: Option<u32>,
    sudo_gid: Option<u32>,
    users: &str,
) -> Result<(u32, u32), TestbedError> {
    let (own_uid, own_gid) = own;
    if own_uid != 0 {
        let asked = (
            identity.uid.unwrap_or(own_uid),
            identity.gid.unwrap_or(own_gid),
        );
        if identity.force_root || asked != own {
            return Err(
                TestbedError::machine("only root can run workers as another user")
                    .tried(format!(
                        "user {own_uid} asked for user {}, group {}",
                        asked.0, asked.1
                    ))
                    .advice(format!(
                        "{}, or leave out --uid, --gid and --force-root-user",
                        advice()
                    )),
            );
        }
        return Ok(own);
    }
    if identity.force_root {
        return match (identity.uid, identity.gid) {
            (None | Some(0), gid) => Ok((0, gid.unwrap_or(0))),
            (Some(uid), _) => Err(TestbedError::request(format!(
                "--force-root-user contradicts --uid {uid}"
            ))
            .advice("give one of them")),
        };
    }
    let (uid, gid) = match sudo_uid {
        Some(uid) if uid != 0 => (uid, sudo_gid.unwrap_or(uid)),
        _ => nobody(users),
    };
    let chosen = (identity.uid.unwrap_or(uid), identity.gid.unwrap_or(gid));
    if chosen.0 == 0 {
        return Err(TestbedError::request("workers would run as root")
            .advice("add --force-root-user to allow that, or give another --uid"));
    }
    Ok(chosen)
}

/// Returns user and group of `nobody` in the text of `/etc/passwd`.
fn nobody(users: &str) -> (u32, u32) {
    let entry = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != "nobody" {
            return None;
        }
        Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    entry
        .filter(|(uid, _)| *uid != 0)
        .unwrap_or((NOBODY, NOBODY))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:99:98:nobody:/:/bin/false\n";

    fn identity(uid: Option<u32>, gid: Option<u32>, force_root: bool) -> Identity {
        Identity {
            uid,
            gid,
            force_root,
        }
    }

    #[test]
    fn a_directory_that_refuses_root_is_not_a_lack_of_privileges() {
        let of = |is_root: bool, errno: i32| {
            advice_on_refused_directory(is_root, &io::Error::from_raw_os_error(errno))
        };
        assert!(
            of(true, libc::EACCES).contains("root_squash")
                && of(true, libc::EPERM).contains("root_squash")
        );
        assert!(of(true, libc::EROFS).starts_with("name a writable directory"));
        assert!(of(false, libc::EACCES).starts_with("name a writable directory"));
    }

    #[test]
    fn root_hands_work_to_somebody_else() {
        let none = identity(None, None, false);
        assert_eq!(
            choose(&none, (0, 0), Some(1000), Some(1001), USERS).unwrap(),
            (1000, 1001)
        );
        assert_eq!(
            choose(&none, (0, 0), Some(0), Some(0), USERS).unwrap(),
            (99, 98)
        );
        assert_eq!(choose(&none, (0, 0), None, None, USERS).unwrap(), (99, 98));
        assert_eq!(
            choose(&none, (0, 0), None, None, "").unwrap(),
            (NOBODY, NOBODY)
        );
        let asked = identity(Some(7), Some(8), false);
        assert_eq!(
            choose(&asked, (0, 0), Some(1000), Some(1001), USERS).unwrap(),
            (7, 8)
        );
    }

    #[test]
    fn root_itself_only_when_forced() {
        assert!(choose(&identity(Some(0), None, false), (0, 0), None, None, USERS).is_err());
        assert_eq!(
            choose(&identity(None, None, true), (0, 0), Some(1000), None, USERS).unwrap(),
            (0, 0)
        );
        assert!(choose(&identity(Some(5), None, true), (0, 0), None, None, USERS).is_err());
    }

    #[test]
    fn others_stay_themselves() {
        assert_eq!(
            choose(&identity(None, None, false), (5, 6), None, None, USERS).unwrap(),
            (5, 6)
        );
        assert_eq!(
            choose(
                &identity(Some(5), Some(6), false),
                (5, 6),
                None,
                None,
                USERS
            )
            .unwrap(),
            (5, 6)
        );
        assert!(choose(&identity(Some(7), None, false), (5, 6), None, None, USERS).is_err());
        assert!(choose(&identity(None, None, true), (5, 6), None, None, USERS).is_err());
    }
}
