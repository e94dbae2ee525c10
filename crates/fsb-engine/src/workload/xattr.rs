//! Setting, reading and listing extended attributes of files, in the namespace `user`, and POSIX
//! access control lists, which the kernel takes and returns as the attribute
//! `system.posix_acl_access`.
//!
//! The calls take whole paths, because Linux before 6.13 has no form of them that takes a
//! directory.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use fsb_model::{CacheState, Durability, Params};
use rustix::io::Errno;

use super::job::{Job, WorkUnit, Workload};
use super::label;
use super::missing_call;
use super::names::{self, Changes, NameCall, Turn};
use super::parameter::{Parameter, ParameterGroup, ParameterKind, group};
use super::params::{self, Reader};
use super::spec::{self, Change, Rules, Spec};
use crate::backend::{Backend, KernelNamespace, Namespace};
use crate::clock::OperationKind;
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, Names, WholePaths};
use crate::profile::Profile;
use crate::task::{Context, Gate, Measurement, Preparing, Sizing};

/// The name of the attribute.
const NAME: &CStr = c"user.fsb";
/// XATTR_NAME_POSIX_ACL_ACCESS of linux/xattr.h.
const ACCESS_LIST: &CStr = c"system.posix_acl_access";
/// The maximum number of named users in a list. Those of ext4 have a block of 4 KiB, which holds
/// fewer.
const MOST_USERS: u64 = 1000;
/// XATTR_SIZE_MAX of linux/limits.h.
const LARGEST_VALUE: usize = 65_536;
/// Names of attributes that the system adds, such as `security.selinux`, fit as well.
const NAMES: usize = 1024;

/// A member of the registry: one of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Xattr {
    Set,
    Get,
    List,
    SetAccess,
    GetAccess,
}

impl Xattr {
    /// Returns whether it changes the attribute.
    fn sets(self) -> bool {
        matches!(self, Xattr::Set | Xattr::SetAccess)
    }

    /// Returns whether the attribute is an access control list.
    fn is_access_list(self) -> bool {
        matches!(self, Xattr::SetAccess | Xattr::GetAccess)
    }

    fn attribute(self) -> &'static CStr {
        if self.is_access_list() {
            ACCESS_LIST
        } else {
            NAME
        }
    }

    fn rules(self) -> Rules {
        let cache = &[CacheState::Warm, CacheState::Cold, CacheState::Any];
        let reads = Rules {
            name: self.name(),
            durability: &[Durability::None],
            cache,
            ..Rules::NAMES
        };
        match self.sets() {
            true => Rules {
                durability: Durability::ALL,
                cache: &[CacheState::Any, CacheState::Cold],
                ..reads
            },
            false => reads,
        }
    }
}

impl Workload for Xattr {
    fn name(&self) -> &'static str {
        match self {
            Xattr::Set => "setxattr",
            Xattr::Get => "getxattr",
            Xattr::List => "listxattr",
            Xattr::SetAccess => "setfacl",
            Xattr::GetAccess => "getfacl",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Xattr::Set => {
                "set an extended attribute of every file; where each is durable, with fsync of the file"
            }
            Xattr::Get => "read an extended attribute of every file",
            Xattr::List => "list the names of the extended attributes of every file",
            Xattr::SetAccess => {
                "set the POSIX access control list of every file; where each is durable, with fsync of the file"
            }
            Xattr::GetAccess => "read the POSIX access control list of every file",
        }
    }

    fn example(&self) -> Params {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("threads", 2.into()),
        ])
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut all = self.rules().parameters();
        let content = if self.is_access_list() {
            Parameter::new(
                "users",
                ParameterKind::Number(1..=MOST_USERS),
                "1",
                "named users in each list",
            )
        } else {
            let range = ParameterKind::Size(1..=LARGEST_VALUE as u64);
            Parameter::new(
                "value_size",
                range,
                "32",
                "size of the value of each attribute",
            )
        };
        all.extend(group(ParameterGroup::Work, [content]));
        if self.sets() {
            let about = match self.is_access_list() {
                true => "replace a list that every file has, instead of adding it",
                false => "replace an attribute that every file has, instead of adding it",
            };
            all.extend(group(
                ParameterGroup::Work,
                [Parameter::flag("overwrite", about)],
            ));
        }
        all
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(XattrJob::parse(*self, params, sizing)?))
    }
}

struct XattrJob {
    call: Xattr,
    spec: Spec,
    content: Content,
    overwrite: bool,
}

/// The content of the attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// A value of this number of bytes.
    Bytes(usize),
    /// An access control list with this number of named users.
    Users(u64),
}

impl Content {
    /// Returns the bytes of a value.
    fn size(self) -> usize {
        match self {
            Content::Bytes(bytes) => bytes,
            Content::Users(users) => HEADER + ENTRY * (users as usize + UNNAMED),
        }
    }

    /// Returns a value. Another number makes another value.
    fn value(self, number: u8) -> Vec<u8> {
        match self {
            Content::Bytes(bytes) => vec![number; bytes],
            Content::Users(users) => access_list(users, number),
        }
    }

    /// Returns its text in labels: `32`, or `2 users`.
    fn label(self) -> String {
        match self {
            Content::Bytes(bytes) => label::size(bytes as u64),
            Content::Users(1) => "1 user".to_owned(),
            Content::Users(users) => format!("{users} users"),
        }
    }
}

// struct posix_acl_xattr_header and struct posix_acl_xattr_entry of linux/posix_acl_xattr.h, in
// little endian.

/// Bytes of the header.
const HEADER: usize = 4;
/// Bytes of an entry: tag, permissions and id.
const ENTRY: usize = 8;
/// The entries of the owner, the group, the mask and the others.
const UNNAMED: usize = 4;
/// The first of the named users. They need not exist.
const FIRST_USER: u64 = 10_000;
/// The number of the value that files have before the clock starts. Its named users have no
/// permissions.
const BEFORE: u8 = u8::MAX;

/// Returns an access control list. Two numbers below [`BEFORE`] that follow each other give
/// different permissions to the named users.
fn access_list(users: u64, number: u8) -> Vec<u8> {
    const VERSION: u32 = 2;
    const NO_ID: u32 = u32::MAX;
    let [owner, named, group, mask, others] = [0x01u16, 0x02, 0x04, 0x10, 0x20];
    let permissions = if number == BEFORE {
        0
    } else {
        1 + u16::from(number % 7)
    };
    let named = (FIRST_USER..FIRST_USER + users).map(|user| (named, permissions, user as u32));
    let entries = [(owner, 6, NO_ID)].into_iter().chain(named);
    let entries = entries.chain([(group, 4, NO_ID), (mask, 7, NO_ID), (others, 4, NO_ID)]);
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

impl XattrJob {
    fn parse(call: Xattr, params: &Params, sizing: &Sizing) -> Result<XattrJob, ParamError> {
        let mut reader = Reader::new(call.name(), call.parameters(), params, sizing)?;
        let spec = Spec::read(call.rules(), &mut reader)?;
        let content = match call.is_access_list() {
            true => Content::Users(reader.number("users")?),
            false => Content::Bytes(reader.number("value_size")? as usize),
        };
        let overwrite = call.sets() && reader.flag("overwrite")?;
        reader.finish();
        Ok(XattrJob {
            call,
            spec,
            content,
            overwrite,
        })
    }

    /// Returns whether every file has the attribute before the clock starts.
    fn begins_with_attribute(&self) -> bool {
        !self.call.sets() || self.overwrite
    }

    /// Gives a file that is removed again the attribute.
    fn probe(&self, context: &Context, value: &[u8]) -> Result<(), EngineError> {
        let path = context.set().join("probe");
        std::fs::write(&path, []).map_err(|error| EngineError::io("create", &path, &error))?;
        let tried = rustix::fs::setxattr(
            &path,
            self.call.attribute(),
            value,
            rustix::fs::XattrFlags::empty(),
        );
        std::fs::remove_file(&path).map_err(|error| EngineError::io("remove", &path, &error))?;
        let why = match tried {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if self.call.is_access_list() => {
                "this file system has no POSIX access control lists".to_owned()
            }
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::NOSYS) => {
                "this file system has no extended attributes of users".to_owned()
            }
            Err(Errno::NOSPC | Errno::TOOBIG | Errno::RANGE) => {
                let kind = if self.call.is_access_list() {
                    "access control list"
                } else {
                    "extended attribute"
                };
                format!(
                    "this file system stores no {kind} of {}",
                    self.content.label()
                )
            }
            Err(errno) => {
                return Err(missing_call::of_server(&context.set(), "setxattr", errno)
                    .unwrap_or_else(|| EngineError::call("setxattr", &path, errno)));
            }
        };
        Err(EngineError {
            inapplicable: true,
            ..EngineError::new(why)
        })
    }
}

impl Job for XattrJob {
    fn profile(&self) -> Profile {
        let name = self.call.name();
        let overwrite = if self.overwrite { "overwrite " } else { "" };
        let preposition = if self.call.sets() { "on" } else { "of" };
        let words = format!("{name} {overwrite}{} {preposition}", self.content.label());
        let profile = self.spec.profile(name, self.spec.files_label(&words));
        let space = profile.space
            + profile.files * (self.content.size() as u64).next_multiple_of(fileset::BLOCK);
        if self.begins_with_attribute() {
            return Profile {
                space,
                reads_only: !self.call.sets(),
                ..profile
            };
        }
        Profile {
            space,
            ..profile.consuming()
        }
    }

    fn params(&self) -> Params {
        let mut params = self.spec.params();
        match self.content {
            Content::Bytes(bytes) => params.insert("value_size".to_owned(), bytes.into()),
            Content::Users(users) => params.insert("users".to_owned(), users.into()),
        };
        if self.call.sets() {
            params.insert("overwrite".to_owned(), self.overwrite.into());
        }
        params
    }

    fn backend(&self) -> &'static dyn Backend {
        self.spec.backend
    }

    fn unit(&self) -> Option<WorkUnit> {
        let change = if self.overwrite {
            Change::Overwritten
        } else {
            Change::Nothing
        };
        spec::unit_of_set(self, &self.spec, change, |params| {
            XattrJob::parse(self.call, params, &Sizing { size: 0, cpus: 1 }).ok()
        })
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.spec.prepare(context, fileset::Content::Full)?;
        if context.preparing == Preparing::Settling {
            return Ok(());
        }
        let (value, set, layout) = (self.content.value(BEFORE), context.set(), &self.spec.layout);
        self.probe(context, &value)?;
        if self.begins_with_attribute() {
            let paths = WholePaths::new(&set, &Names::new(layout), layout);
            for file in 0..layout.files {
                let given =
                    KernelNamespace.set_attribute(paths.path(file), self.call.attribute(), &value);
                given.map_err(|errno| {
                    EngineError::call("setxattr", set.join(layout.path(file)), errno)
                })?;
            }
        }
        if context.preparing == Preparing::All {
            fileset::sync(&set)
        } else {
            Ok(())
        }
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let layout = &self.spec.layout;
        let paths = WholePaths::new(&context.set(), &Names::new(layout), layout);
        // ext4 skips a value that does not change, so each pass sets another one than the last pass
        // of the sample before.
        let values = [0, 1].map(|pass| {
            self.content
                .value(((2 * context.repetition + pass) % 251) as u8)
        });
        let (size, attribute) = (self.content.size(), self.call.attribute());
        let set = |turn: &mut Turn<'_>| {
            let value = &values[turn.pass as usize % 2];
            turn.calls()
                .set_attribute(paths.path(turn.file), attribute, value)
        };
        let get = |turn: &mut Turn<'_>| {
            let mut value = [MaybeUninit::uninit(); LARGEST_VALUE];
            let length =
                turn.calls()
                    .get_attribute(paths.path(turn.file), attribute, &mut value, size)?;
            if length == size {
                Ok(())
            } else {
                Err(Errno::NODATA)
            }
        };
        let list = |turn: &mut Turn<'_>| {
            let (mut names, least) = ([MaybeUninit::uninit(); NAMES], NAME.count_bytes() + 1);
            let length = turn
                .calls()
                .list_attributes(paths.path(turn.file), &mut names, least)?;
            if length >= least {
                Ok(())
            } else {
                Err(Errno::NODATA)
            }
        };
        let name = self.call.name();
        let call = match self.call {
            Xattr::Set | Xattr::SetAccess => {
                NameCall::new(name, OperationKind::Attributes, Changes::File, &set)
            }
            Xattr::Get | Xattr::GetAccess => NameCall {
                warm: Some(&get),
                ..NameCall::new(name, OperationKind::Stat, Changes::Nothing, &get)
            },
            Xattr::List => NameCall {
                warm: Some(&list),
                ..NameCall::new(name, OperationKind::Stat, Changes::Nothing, &list)
            },
        };
        names::measure(&self.spec, call, &self.profile(), context, gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{run_once, with};

    #[test]
    fn every_file_gets_its_attribute_or_none_applies() {
        let root = tempfile::tempdir().unwrap();
        for overwrite in [false, true] {
            let pairs = [
                ("files", 7.into()),
                ("value_size", 50.into()),
                ("overwrite", overwrite.into()),
            ];
            match run_once(&with("setxattr", &pairs), root.path(), |_| {}) {
                Err(error) => assert!(error.inapplicable, "{error}"),
                Ok(measured) => {
                    assert_eq!(measured.operations, 7);
                    for file in 0..7 {
                        let path = root.path().join(format!("fsb-set/d00000/f{file:08}"));
                        let mut value = [0; 64];
                        let length = rustix::fs::getxattr(&path, NAME, &mut value).unwrap();
                        assert_eq!(&value[..length], [0; 50], "{overwrite}");
                    }
                }
            }
        }
    }

    #[test]
    fn access_lists_are_those_of_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        for (name, overwrite) in [
            ("setfacl", Some(false)),
            ("setfacl", Some(true)),
            ("getfacl", None),
        ] {
            let mut pairs = vec![("files", 5.into()), ("users", 3.into())];
            pairs.extend(overwrite.map(|overwrite| ("overwrite", overwrite.into())));
            match run_once(&with(name, &pairs), root.path(), |_| {}) {
                Err(error) => assert!(error.inapplicable, "{error}"),
                Ok(measured) => {
                    assert_eq!(measured.operations, 5, "{name}");
                    let path = root.path().join("fsb-set/d00000/f00000004");
                    let mut found = [0; 256];
                    let length = rustix::fs::getxattr(&path, ACCESS_LIST, &mut found).unwrap();
                    let number = if overwrite.is_some() { 0 } else { BEFORE };
                    assert_eq!(
                        found[..length],
                        access_list(3, number),
                        "{name}, {overwrite:?}"
                    );
                    assert_eq!(length, Content::Users(3).size());
                }
            }
        }
    }

    #[test]
    fn values_that_follow_each_other_differ() {
        for content in [Content::Bytes(3), Content::Users(2)] {
            for number in 0..=u8::MAX {
                assert_eq!(content.value(number).len(), content.size());
            }
            // The last number of a sample, and the first of the next one.
            for (number, next) in (0..250)
                .map(|number| (number, number + 1))
                .chain([(250, 0), (BEFORE, 0)])
            {
                assert_ne!(content.value(number), content.value(next), "{number}");
            }
        }
    }

    #[test]
    fn values_that_the_file_system_cannot_store_do_not_apply() {
        let root = tempfile::tempdir().unwrap();
        for name in ["setxattr", "getxattr", "listxattr"] {
            let spec = with(name, &[("files", 3.into()), ("value_size", "64K".into())]);
            match run_once(&spec, root.path(), |_| {}) {
                Err(error) => assert!(error.inapplicable, "{error}"),
                // xfs stores values of this size.
                Ok(measured) => assert_eq!(measured.operations, 3),
            }
        }
    }
}
