//! Setting, reading and listing extended attributes of files, in the namespace `user`.
//!
//! The calls take whole paths, because Linux before 6.13 has no form of them that takes a directory.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use fsb_model::{Bytes, CacheState, Durability, Params};
use rustix::io::Errno;

use super::job::{Job, WorkUnit, Workload};
use super::names::{self, Changes, NameCall, Turn};
use super::parameter::{Parameter, ParameterGroup, ParameterKind, group};
use super::params::{self, Reader};
use super::spec::{self, Change, Rules, Spec};
use crate::backend::{Backend, KernelNamespace, Namespace};
use crate::clock::OperationKind;
use crate::fileset::{self, Content, Names, WholePaths};
use crate::profile::Profile;
use crate::task::{Context, Gate, Measurement, Preparing};
use crate::{EngineError, ParamError, Sizing};

/// The name of the attribute.
const NAME: &CStr = c"user.fsb";
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
}

impl Xattr {
    fn rules(self) -> Rules {
        let cache = &[CacheState::Warm, CacheState::Cold, CacheState::Any];
        let reads = Rules { name: self.name(), durability: &[Durability::None], cache, ..Rules::NAMES };
        match self {
            Xattr::Set => Rules { durability: Durability::ALL, cache: &[CacheState::Any, CacheState::Cold], ..reads },
            Xattr::Get | Xattr::List => reads,
        }
    }
}

impl Workload for Xattr {
    fn name(&self) -> &'static str {
        match self {
            Xattr::Set => "setxattr",
            Xattr::Get => "getxattr",
            Xattr::List => "listxattr",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Xattr::Set => "set an extended attribute of every file; where each is durable, with fsync of the file",
            Xattr::Get => "read an extended attribute of every file",
            Xattr::List => "list the names of the extended attributes of every file",
        }
    }

    fn example(&self) -> Params {
        params::from_pairs([("files", 12.into()), ("files_per_directory", 5.into()), ("threads", 2.into())])
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut all = self.rules().parameters();
        let range = ParameterKind::Size(1..=LARGEST_VALUE as u64);
        all.extend(group(
            ParameterGroup::Work,
            [Parameter::new("value_size", range, "32", "size of the value of each attribute")],
        ));
        if *self == Xattr::Set {
            let about = "replace an attribute that every file has, instead of adding it";
            all.extend(group(ParameterGroup::Work, [Parameter::flag("overwrite", about)]));
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
    value_size: usize,
    overwrite: bool,
}

impl XattrJob {
    fn parse(call: Xattr, params: &Params, sizing: &Sizing) -> Result<XattrJob, ParamError> {
        let mut reader = Reader::new(call.name(), call.parameters(), params, sizing)?;
        let spec = Spec::read(call.rules(), &mut reader)?;
        let value_size = reader.number("value_size")? as usize;
        let overwrite = call == Xattr::Set && reader.flag("overwrite")?;
        reader.finish();
        Ok(XattrJob { call, spec, value_size, overwrite })
    }

    /// Returns whether every file has the attribute before the clock starts.
    fn begins_with_attribute(&self) -> bool {
        self.call != Xattr::Set || self.overwrite
    }

    /// Gives a file that is removed again the attribute.
    fn probe(&self, context: &Context, value: &[u8]) -> Result<(), EngineError> {
        let path = context.set().join("probe");
        std::fs::write(&path, []).map_err(|error| EngineError::io("create", &path, &error))?;
        let tried = rustix::fs::setxattr(&path, NAME, value, rustix::fs::XattrFlags::empty());
        std::fs::remove_file(&path).map_err(|error| EngineError::io("remove", &path, &error))?;
        let why = match tried {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::NOSYS) => {
                "this file system has no extended attributes of users".to_owned()
            }
            Err(Errno::NOSPC | Errno::TOOBIG | Errno::RANGE) => {
                format!("this file system stores no extended attribute of {}", Bytes(self.value_size as u64))
            }
            Err(errno) => return Err(EngineError::call("setxattr", &path, errno)),
        };
        Err(EngineError { inapplicable: true, ..EngineError::new(why) })
    }

    fn value(&self, byte: u8) -> Vec<u8> {
        vec![byte; self.value_size]
    }
}

impl Job for XattrJob {
    fn profile(&self) -> Profile {
        let name = self.call.name();
        let overwrite = if self.overwrite { "overwrite " } else { "" };
        let preposition = if self.call == Xattr::Set { "on" } else { "of" };
        let words = format!("{name} {overwrite}{} {preposition}", Bytes(self.value_size as u64));
        let profile = self.spec.profile(name, self.spec.files_label(&words));
        let space = profile.space + profile.files * (self.value_size as u64).next_multiple_of(fileset::BLOCK);
        if self.begins_with_attribute() {
            return Profile { space, ..profile };
        }
        Profile { space, ..profile.consuming() }
    }

    fn params(&self) -> Params {
        let mut params = self.spec.params();
        params.insert("value_size".to_owned(), self.value_size.into());
        if self.call == Xattr::Set {
            params.insert("overwrite".to_owned(), self.overwrite.into());
        }
        params
    }

    fn backend(&self) -> &'static dyn Backend {
        self.spec.backend
    }

    fn unit(&self) -> Option<WorkUnit> {
        let change = if self.overwrite { Change::Overwritten } else { Change::Nothing };
        spec::unit_of_set(self, &self.spec, change, |params| {
            XattrJob::parse(self.call, params, &Sizing { size: 0, cpus: 1 }).ok()
        })
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.spec.prepare(context, Content::Full)?;
        if context.preparing == Preparing::Settling {
            return Ok(());
        }
        let (value, set, layout) = (self.value(u8::MAX), context.set(), &self.spec.layout);
        self.probe(context, &value)?;
        if self.begins_with_attribute() {
            let paths = WholePaths::new(&set, &Names::new(layout), layout);
            for file in 0..layout.files {
                let given = KernelNamespace.set_attribute(paths.path(file), NAME, &value);
                given.map_err(|errno| EngineError::call("setxattr", set.join(layout.path(file)), errno))?;
            }
        }
        if context.preparing == Preparing::All { fileset::sync(&set) } else { Ok(()) }
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let layout = &self.spec.layout;
        let paths = WholePaths::new(&context.set(), &Names::new(layout), layout);
        // ext4 skips a value that does not change, so each pass sets another one than the last pass of the sample before.
        let values = [0, 1].map(|pass| self.value(((2 * context.repetition + pass) % 251) as u8));
        let size = self.value_size;
        let set = |turn: &mut Turn<'_>| {
            let value = &values[turn.pass as usize % 2];
            turn.calls().set_attribute(paths.path(turn.file), NAME, value)
        };
        let get = |turn: &mut Turn<'_>| {
            let mut value = [MaybeUninit::uninit(); LARGEST_VALUE];
            let length = turn.calls().get_attribute(paths.path(turn.file), NAME, &mut value, size)?;
            if length == size { Ok(()) } else { Err(Errno::NODATA) }
        };
        let list = |turn: &mut Turn<'_>| {
            let (mut names, least) = ([MaybeUninit::uninit(); NAMES], NAME.count_bytes() + 1);
            let length = turn.calls().list_attributes(paths.path(turn.file), &mut names, least)?;
            if length >= least { Ok(()) } else { Err(Errno::NODATA) }
        };
        let name = self.call.name();
        let call = match self.call {
            Xattr::Set => NameCall::new(name, OperationKind::Attributes, Changes::File, &set),
            Xattr::Get => {
                NameCall { warm: Some(&get), ..NameCall::new(name, OperationKind::Stat, Changes::Nothing, &get) }
            }
            Xattr::List => {
                NameCall { warm: Some(&list), ..NameCall::new(name, OperationKind::Stat, Changes::Nothing, &list) }
            }
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
            let pairs = [("files", 7.into()), ("value_size", 50.into()), ("overwrite", overwrite.into())];
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
