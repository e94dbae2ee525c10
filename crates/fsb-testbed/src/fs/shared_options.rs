//! Mount options that several file systems share.

use crate::declared::OptionGroup::Access;
use crate::declared::{DeclaredOption, OptionKind};

pub(super) const USER_QUOTA: DeclaredOption = DeclaredOption::flag(Access, "usrquota", "limits space by user");
pub(super) const GROUP_QUOTA: DeclaredOption = DeclaredOption::flag(Access, "grpquota", "limits space by group");
pub(super) const ACL: DeclaredOption = DeclaredOption::flag(Access, "acl", "POSIX access control lists");
pub(super) const ACL_BY_DEFAULT: DeclaredOption =
    DeclaredOption::flag(Access, "acl", "POSIX access control lists (default)");
pub(super) const USER_XATTR: DeclaredOption =
    DeclaredOption::flag(Access, "user_xattr", "extended attributes of users");
pub(super) const USER_XATTR_BY_DEFAULT: DeclaredOption =
    DeclaredOption::flag(Access, "user_xattr", "extended attributes of users (default)");
pub(super) const NO_USER_XATTR: DeclaredOption =
    DeclaredOption::flag(Access, "nouser_xattr", "no extended attributes of users");
pub(super) const RESERVED_USER: DeclaredOption = DeclaredOption::value(
    Access,
    "resuid",
    OptionKind::Number(0..=4294967295),
    "0",
    "user who may use reserved blocks",
);
pub(super) const RESERVED_GROUP: DeclaredOption = DeclaredOption::value(
    Access,
    "resgid",
    OptionKind::Number(0..=4294967295),
    "0",
    "group that may use reserved blocks",
);
