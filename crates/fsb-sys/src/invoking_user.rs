//! The invoking user behind `sudo`, `pkexec` or `doas`, and operations with that user's file
//! privileges.
//!
//! Only the *file system* identity of the calling thread changes (setfsuid, setfsgid and its
//! groups), around a few calls, and is always restored. Real and effective ids stay root's: the
//! user can neither signal nor trace this process.

use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use nix::unistd::{self, User};
use rustix::fs::Gid;
use rustix::process::{getegid, geteuid, getuid};
use rustix::thread::set_thread_groups;

/// The invoking user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvokingUser {
    /// The user id, never 0.
    pub uid: u32,
    /// The user's primary group.
    pub gid: u32,
    /// All groups of the user.
    groups: Vec<u32>,
}

impl InvokingUser {
    /// Returns the user behind sudo, pkexec or doas. Returns `None` if this process does not run as
    /// root: any other user could set the environment variables freely.
    pub fn current() -> Option<&'static InvokingUser> {
        static CALLER: OnceLock<Option<InvokingUser>> = OnceLock::new();
        CALLER.get_or_init(InvokingUser::find).as_ref()
    }

    fn find() -> Option<InvokingUser> {
        if !getuid().is_root() || !geteuid().is_root() {
            return None;
        }
        let (uid, gid) = named(&|name: &str| std::env::var(name).ok(), &|name: &str| {
            User::from_name(name)
                .ok()?
                .map(|user| (user.uid.as_raw(), user.gid.as_raw()))
        })?;
        let user = User::from_uid(uid.into()).ok().flatten();
        let gid = gid
            .or(user.as_ref().map(|user| user.gid.as_raw()))
            .unwrap_or(uid);
        let groups = user.map_or_else(|| vec![gid], |user| groups_of(&user, gid));
        Some(InvokingUser { uid, gid, groups })
    }

    /// Makes a command run as this user, with this user's groups, home and name.
    pub fn run(&self, command: &mut Command) {
        let (uid, gid, groups) = (self.uid, self.gid, self.groups.clone());
        let become_user = move || {
            // SAFETY: system calls on our own process, with a list that lives as long as this
            // function. `Command` would take the groups away.
            let results = unsafe {
                [
                    libc::setgroups(groups.len(), groups.as_ptr()),
                    libc::setresgid(gid, gid, gid),
                    libc::setresuid(uid, uid, uid),
                ]
            };
            match results.contains(&-1) {
                true => Err(io::Error::last_os_error()),
                false => Ok(()),
            }
        };
        // SAFETY: between fork and exec nothing but these calls; nothing is allocated.
        unsafe { command.pre_exec(become_user) };
        if let Ok(Some(user)) = User::from_uid(self.uid.into()) {
            command.env("HOME", user.dir);
            command.env("USER", &user.name).env("LOGNAME", user.name);
        }
    }

    /// Runs `work` with this user's file privileges. They end with `work`, even if it panics.
    ///
    /// # Errors
    /// Fails if the kernel refuses the privileges. `work` did not run then.
    pub fn act<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let acting = Acting::begin(self)?;
        let answer = work();
        drop(acting);
        Ok(answer)
    }

    /// Calls [`InvokingUser::adopt`] if the process `parent`, which started this one, has the
    /// invoking user's file privileges.
    ///
    /// # Errors
    /// Fails if the status of `parent` cannot be read, or if the kernel refuses the privileges.
    pub fn adopt_as_in(parent: u32) -> io::Result<()> {
        let Some(invoking_user) = InvokingUser::current() else {
            return Ok(());
        };
        let status = crate::read_text(format!("/proc/{parent}/status"))?;
        // Real, effective, saved, and that of files.
        let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let of_files = ids.and_then(|ids| ids.split_whitespace().nth(3)?.parse().ok());
        if of_files == Some(invoking_user.uid) {
            invoking_user.adopt()
        } else {
            Ok(())
        }
    }

    /// Gives this thread, and the threads that it starts, this user's file privileges from now on.
    /// A program that is executed has root's privileges again.
    ///
    /// # Errors
    /// Fails if the kernel refuses the privileges.
    pub fn adopt(&self) -> io::Result<()> {
        Acting::begin(self)?.keep();
        Ok(())
    }
}

/// Returns the user and group that the environment names, unless it names root.
fn named(
    variable: &dyn Fn(&str) -> Option<String>,
    by_name: &dyn Fn(&str) -> Option<(u32, u32)>,
) -> Option<(u32, Option<u32>)> {
    let number = |name: &str| variable(name)?.parse::<u32>().ok();
    let found = if variable("SUDO_UID").is_some() {
        (number("SUDO_UID")?, number("SUDO_GID"))
    } else if variable("PKEXEC_UID").is_some() {
        (number("PKEXEC_UID")?, None)
    } else {
        let (uid, gid) = by_name(&variable("DOAS_USER")?)?;
        (uid, Some(gid))
    };
    (found.0 != 0 && found.0 != u32::MAX).then_some(found)
}

/// Returns the groups of a user, or only `gid` if the machine's user database does not list them.
fn groups_of(user: &User, gid: u32) -> Vec<u32> {
    let name = CString::new(user.name.as_str()).ok();
    let groups = name.and_then(|name| unistd::getgrouplist(&name, gid.into()).ok());
    groups.map_or_else(
        || vec![gid],
        |groups| groups.into_iter().map(unistd::Gid::as_raw).collect(),
    )
}

/// The identity of the thread before it took another user's privileges. Dropping the value restores
/// it.
struct Acting {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
    traits: Traits,
    /// Whether [`Acting::keep`] was called.
    kept: bool,
}

impl Acting {
    fn begin(invoking_user: &InvokingUser) -> io::Result<Acting> {
        let traits = Traits::now();
        let before = Acting {
            uid: file_uid(),
            gid: file_gid(),
            groups: rustix::process::getgroups()?,
            traits,
            kept: false,
        };
        let groups: Vec<Gid> = invoking_user
            .groups
            .iter()
            .map(|gid| Gid::from_raw(*gid))
            .collect();
        // Groups first: with the user's privileges no groups can be set. Dropping `before` undoes a
        // partial change.
        set_thread_groups(&groups)?;
        if set_file_gid(invoking_user.gid) && set_file_uid(invoking_user.uid) {
            return Ok(before);
        }
        let why = format!("this process may not act as user {}", invoking_user.uid);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

impl Acting {
    /// Keeps the user's privileges for this thread, and restores the attributes that the kernel
    /// reset with the identity.
    fn keep(mut self) {
        self.kept = true;
        self.traits.restore();
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // The user first: only root can restore the rest.
        let back = set_file_uid(self.uid)
            && set_file_gid(self.gid)
            && set_thread_groups(&self.groups).is_ok();
        // A thread that silently keeps another user's identity must not continue.
        assert!(
            back,
            "the rights of user {} could not be taken back",
            self.uid
        );
        self.traits.restore();
    }
}

/// Attributes that the kernel resets whenever a thread's identity changes.
struct Traits {
    death_signal: libc::c_int,
    parent: libc::pid_t,
    dumpable: libc::c_int,
}

impl Traits {
    fn now() -> Traits {
        let mut death_signal = 0;
        // SAFETY: prctl writes an int through the pointer; the other calls take and give numbers.
        let (parent, dumpable) = unsafe {
            libc::prctl(libc::PR_GET_PDEATHSIG, &mut death_signal);
            (libc::getppid(), libc::prctl(libc::PR_GET_DUMPABLE))
        };
        Traits {
            death_signal,
            parent,
            dumpable,
        }
    }

    fn restore(&self) {
        // SAFETY: calls that take and give numbers.
        unsafe {
            if self.dumpable == 1 {
                libc::prctl(libc::PR_SET_DUMPABLE, 1);
            }
            if self.death_signal != 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, self.death_signal);
                // The parent may have died while no signal was set.
                if libc::getppid() != self.parent {
                    libc::raise(self.death_signal);
                }
            }
        }
    }
}

/// An id that no process has. Setting it fails and returns the current id.
const NO_ID: u32 = u32::MAX;

fn file_uid() -> u32 {
    // SAFETY: takes and gives a number.
    unsafe { libc::setfsuid(NO_ID) as u32 }
}

fn file_gid() -> u32 {
    // SAFETY: takes and gives a number.
    unsafe { libc::setfsgid(NO_ID) as u32 }
}

/// Sets the id and checks the result, because the call itself does not report errors.
fn set_file_uid(uid: u32) -> bool {
    // SAFETY: takes and gives a number, and changes this thread alone.
    unsafe { libc::setfsuid(uid) };
    file_uid() == uid
}

fn set_file_gid(gid: u32) -> bool {
    // SAFETY: takes and gives a number, and changes this thread alone.
    unsafe { libc::setfsgid(gid) };
    file_gid() == gid
}

/// Prepares every process of this program at its start. A file that reaches its limit (`ulimit -f`)
/// makes the write fail instead of ending the program. The owner of a new file can always read and
/// write it, whatever the shell's umask is.
pub fn prepare_process() {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let mask = rustix::process::umask(rustix::fs::Mode::RWXU);
    rustix::process::umask(mask - rustix::fs::Mode::RWXU);
}

/// Returns the effective user and group of this process.
pub fn own() -> (u32, u32) {
    (geteuid().as_raw(), getegid().as_raw())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn names(pairs: &[(&str, &str)]) -> Option<(u32, Option<u32>)> {
        let variable = |name: &str| {
            pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        named(&variable, &|name| (name == "ann").then_some((7, 8)))
    }

    #[test]
    fn who_asked_stands_in_the_environment() {
        assert_eq!(
            names(&[("SUDO_UID", "5"), ("SUDO_GID", "6"), ("PKEXEC_UID", "9")]),
            Some((5, Some(6)))
        );
        assert_eq!(names(&[("SUDO_UID", "5")]), Some((5, None)));
        assert_eq!(
            names(&[("PKEXEC_UID", "9"), ("DOAS_USER", "ann")]),
            Some((9, None))
        );
        assert_eq!(names(&[("DOAS_USER", "ann")]), Some((7, Some(8))));
        // Root that invoked root is not another user, and an unreadable value names no user.
        for pair in [
            ("SUDO_UID", "0"),
            ("SUDO_UID", "-1"),
            ("SUDO_UID", "4294967295"),
            ("DOAS_USER", "bob"),
        ] {
            assert_eq!(names(&[pair, ("PKEXEC_UID", "0")]), None, "{pair:?}");
        }
        assert_eq!(names(&[("SUDO_UID", "0"), ("PKEXEC_UID", "9")]), None);
    }

    #[test]
    fn users_and_their_groups_are_found() {
        let root = User::from_uid(0.into())
            .unwrap()
            .expect("every machine has root");
        assert!(groups_of(&root, 0).contains(&0));
    }

    #[test]
    fn rights_are_taken_for_a_while_and_by_one_thread() {
        if !fsb_testkit::root_for("rights_are_taken_for_a_while_and_by_one_thread") {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(directory.path(), Some(4711), Some(4712)).unwrap();
        let secret = directory.path().join("secret");
        std::fs::write(&secret, "root's").unwrap();
        std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let invoking_user = InvokingUser {
            uid: 4711,
            gid: 4712,
            groups: vec![4712, 4713],
        };
        let groups = rustix::process::getgroups().unwrap();
        let made = directory.path().join("made");
        invoking_user
            .act(|| {
                std::fs::write(&made, "").unwrap();
                assert!(std::fs::read(&secret).is_err());
                assert_eq!(rustix::process::getgroups().unwrap().len(), 2);
                let other = secret.clone();
                // Ids belong to a thread. A new thread inherits them; existing threads keep theirs.
                assert!(
                    std::thread::spawn(move || std::fs::read(other).is_err())
                        .join()
                        .unwrap()
                );
                assert!(geteuid().is_root());
            })
            .unwrap();
        let metadata = std::fs::metadata(&made).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (4711, 4712));
        assert!(std::fs::read(&secret).is_ok());
        assert_eq!(
            (
                file_uid(),
                file_gid(),
                rustix::process::getgroups().unwrap()
            ),
            (0, 0, groups)
        );
        let panicked = std::panic::catch_unwind(|| invoking_user.act(|| panic!("within")));
        assert!(panicked.is_err() && file_uid() == 0);
    }
}
