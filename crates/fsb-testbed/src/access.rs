//! Obstacles to the use of a directory that exists: FUSE mounts that keep users out, and servers
//! that have died.

use std::io;
use std::path::Path;

use fsb_sys::invoking_user::own;
use fsb_sys::mountinfo::{self, Mount};

use crate::fuse::server::is_fuse;

/// The reason why a user cannot use a directory, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The reason, as a sentence without a full stop.
    pub why: String,
    /// The next command or option.
    pub advice: String,
}

/// Returns what the mount of `path` explains about the failure of a call on it. Returns `None` if
/// the mount does not explain it.
pub fn obstacle(path: &Path, error: &io::Error) -> Option<Obstacle> {
    let path = std::path::absolute(path).ok()?;
    let mount = mountinfo::holding(&mountinfo::read(), &resolve(&path))?;
    match error.raw_os_error()? {
        libc::ENOTCONN if is_fuse(&mount) => Some(died(&mount)),
        libc::EACCES => keeps_out(&mount, own()),
        _ => None,
    }
}

/// Returns the reason why the mount of `path` keeps workers of `user` (uid, gid) out. Returns
/// `None` if the mount lets them in; the permissions of the directory are not examined.
pub(crate) fn obstacle_of_workers(path: &Path, user: (u32, u32)) -> Option<Obstacle> {
    keeps_out(&mountinfo::holding(&mountinfo::read(), path)?, user)
}

/// Resolves the directories above the last component. They are not on a mount that cannot be
/// reached, unless the path leads further into it; then only its text is left to go by.
fn resolve(path: &Path) -> std::path::PathBuf {
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    match (parent, path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

fn died(mount: &Mount) -> Obstacle {
    let point = mount.point.display();
    Obstacle {
        why: format!("the server of {point} ({}) has died", mount.kind),
        advice: format!(
            "unmount it with 'fusermount -u {point}' or 'umount {point}', and mount it again"
        ),
    }
}

/// Returns the obstacle for a FUSE mount of another user. The kernel lets in only processes with
/// the user and group of the mount (`fuse_allow_current_process` of fs/fuse/dir.c), whatever the
/// permissions are, unless it is mounted with `allow_other`.
fn keeps_out(mount: &Mount, (uid, gid): (u32, u32)) -> Option<Obstacle> {
    let number = |name: &str| mount.super_option(name)?.parse::<u32>().ok();
    let has_allow_other = mount
        .super_options
        .iter()
        .any(|option| option == "allow_other");
    if !is_fuse(mount) || has_allow_other {
        return None;
    }
    let (owner, group) = (number("user_id")?, number("group_id")?);
    if (owner, group) == (uid, gid) {
        return None;
    }
    let (point, kind) = (mount.point.display(), &mount.kind);
    let kept_out = match uid {
        0 => "every other user, root included".to_owned(),
        _ => format!("every other user, here user {uid}"),
    };
    let as_owner = match (owner, uid) {
        (0, _) => "add --force-root-user: root mounted it".to_owned(),
        (_, 0) => format!("run fsb as user {owner}, without sudo"),
        _ => format!("run fsb as user {owner}"),
    };
    Some(Obstacle {
        why: format!(
            "{point} ({kind}) was mounted by user {owner} without allow_other, which keeps out {kept_out}"
        ),
        advice: format!("{as_owner}; or mount it with -o allow_other"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(options: &str) -> Mount {
        let line = format!("30 1 0:50 / /mnt/x rw - fuse.bindfs /src rw,{options}\n");
        mountinfo::parse(line.as_bytes()).remove(0)
    }

    #[test]
    fn mounts_without_allow_other_let_in_only_their_user() {
        let own = mount("user_id=1234,group_id=1234,default_permissions");
        assert_eq!(keeps_out(&own, (1234, 1234)), None);
        let root = keeps_out(&own, (0, 0)).unwrap();
        assert!(root.why.contains("user 1234") && root.why.contains("root included"));
        assert!(root.advice.contains("run fsb as user 1234, without sudo"));
        assert!(
            keeps_out(&own, (1234, 7)).is_some(),
            "the group counts, too"
        );
        let of_root = mount("user_id=0,group_id=0");
        let nobody = keeps_out(&of_root, (65534, 65534)).unwrap();
        assert!(
            nobody.advice.contains("--force-root-user") && nobody.advice.contains("allow_other")
        );
        assert_eq!(keeps_out(&of_root, (0, 0)), None);
        let open = mount("user_id=0,group_id=0,allow_other");
        assert_eq!(keeps_out(&open, (65534, 65534)), None);
    }
}
