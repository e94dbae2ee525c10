//! Allocates a file's blocks and releases them: fallocate(2) in five of its modes, one call per
//! record.
//!
//! The prepare step detects a mode that the file system does not support (tmpfs: zero and collapse,
//! btrfs: collapse; most: write-zeroes), and reports it as not applicable.

use fsb_model::metric::OPERATION_RATE;
use fsb_model::{Access, Params};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::job::{Job, Workload};
use super::measure::{ItemThreads, Subject, measure_set};
use super::missing_call;
use super::parameter::{Parameter, ParameterGroup, group};
use super::params::{self, Reader};
use super::spec::{Records, Rules, Spec};
use crate::backend::{self, Backend, OpenFlags, Purpose, SessionSetup, Verb};
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, Content, Interest, Layout};
use crate::io_loop::{IoLoop, OpenFileSet};
use crate::profile::Profile;
use crate::task::{Context, Gate, Measurement, Sizing};

/// Backends whose sessions make the call on the file itself; the default first.
const BACKENDS: &[&str] = &["psync", "direct", "osync", "dsync"];

const RULES: Rules = Rules {
    name: "fallocate",
    files: "1",
    file_size: "min(size/64, 64M)",
    block_size: Some("64K"),
    records: Records::Each,
    backends: BACKENDS,
    ..Rules::BASE
};

/// FALLOC_FL_WRITE_ZEROES of Linux 6.17 (include/uapi/linux/falloc.h).
const WRITE_ZEROES: FallocateFlags = FallocateFlags::from_bits_retain(0x80);

/// The operation on a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Reserves blocks; the file grows.
    Allocate,
    /// Releases blocks; the range reads as zeros.
    Punch,
    /// Makes the range read as zeros; it keeps its blocks.
    Zero,
    /// Makes the range read as zeros that are on the device, in blocks that need no conversion when
    /// they are written.
    WriteZeroes,
    /// Removes the range and moves the rest of the file up: always at the start of the file.
    Collapse,
}

impl Mode {
    const ALL: [Mode; 5] = [
        Mode::Allocate,
        Mode::Punch,
        Mode::Zero,
        Mode::WriteZeroes,
        Mode::Collapse,
    ];

    fn name(self) -> &'static str {
        match self {
            Mode::Allocate => "allocate",
            Mode::Punch => "punch",
            Mode::Zero => "zero",
            Mode::WriteZeroes => "write-zeroes",
            Mode::Collapse => "collapse",
        }
    }

    fn flags(self) -> FallocateFlags {
        match self {
            Mode::Allocate => FallocateFlags::empty(),
            Mode::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            Mode::Zero => FallocateFlags::ZERO_RANGE,
            Mode::WriteZeroes => WRITE_ZEROES,
            Mode::Collapse => FallocateFlags::COLLAPSE_RANGE,
        }
    }
}

/// The member.
pub(super) struct Fallocate;

impl Workload for Fallocate {
    fn name(&self) -> &'static str {
        RULES.name
    }

    fn about(&self) -> &'static str {
        "fallocate, a call a record: allocate, punch holes, zero or write zeroes to ranges, or collapse them (mode)"
    }

    fn example(&self) -> Params {
        params::from_pairs([
            ("file_size", "64K".into()),
            ("block_size", "4K".into()),
            ("durability", "end".into()),
        ])
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut all = RULES.parameters();
        let mode = Parameter::word(
            "mode",
            &Mode::ALL,
            Mode::name,
            "what fallocate does to each record",
        );
        all.extend(group(ParameterGroup::Work, [mode]));
        all
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        let mut reader = Reader::new(RULES.name, self.parameters(), params, sizing)?;
        let spec = Spec::read(RULES, &mut reader)?;
        let mode = reader.word("mode", &Mode::ALL, Mode::name)?;
        if mode == Mode::Collapse && spec.access == Access::Random {
            let message = "what is collapsed is always at the start of the file: leave it out, or take another mode";
            return Err(reader.error("access", message));
        }
        reader.finish();
        Ok(Box::new(FallocateJob { spec, mode }))
    }
}

struct FallocateJob {
    spec: Spec,
    mode: Mode,
}

impl FallocateJob {
    /// Returns the layout of the files beforehand. The end of a file cannot be collapsed, so
    /// collapse needs one more record.
    fn layout_before(&self) -> Layout {
        let more = if self.mode == Mode::Collapse {
            self.spec.block_size
        } else {
            0
        };
        Layout {
            file_size: self.spec.layout.file_size + more,
            ..self.spec.layout
        }
    }

    fn content(&self) -> Content {
        if self.mode == Mode::Allocate {
            Content::Empty
        } else {
            Content::Full
        }
    }

    /// Returns the size of a file in bytes after all calls.
    fn size_after(&self) -> u64 {
        if self.mode == Mode::Collapse {
            self.spec.block_size
        } else {
            self.spec.layout.file_size
        }
    }

    /// Makes the call once, on a file that is removed again.
    fn probe(&self, context: &Context) -> Result<(), EngineError> {
        let backend = backend::plain(context.backend(self.spec.backend));
        let (path, size) = (context.set(), self.spec.block_size);
        let root = fileset::open(&path)?;
        let mut session = backend.session(&SessionSetup::plain(1))?;
        let refused = |call, errno| EngineError::call(call, path.join("probe"), errno);
        let file = session.open(&root, c"probe", OpenFlags::WRITE.creating(0o644), 2 * size);
        let file = file.map_err(|errno| refused("create", errno))?;
        let tried = session
            .allocate(file, FallocateFlags::empty(), 0, 2 * size)
            .and_then(|()| session.allocate(file, self.mode.flags(), 0, size));
        drop(session);
        backend
            .namespace()
            .unlink(&root, c"probe")
            .map_err(|errno| refused("remove", errno))?;
        tried.map_err(|errno| {
            let explained = self.explain(errno, &refused("fallocate", errno));
            // EINVAL for collapse may be due to the parameters.
            if explained.inapplicable || (errno, self.mode) == (Errno::INVAL, Mode::Collapse) {
                return explained;
            }
            let call = format!("fallocate in the mode {}", self.mode.name());
            missing_call::of_server(&path, &call, errno).unwrap_or(explained)
        })
    }

    /// Marks a mode that the file system does not support as not applicable, and explains EINVAL
    /// for collapse.
    fn explain(&self, errno: Errno, error: &EngineError) -> EngineError {
        let mode = self.mode.name();
        match errno {
            Errno::OPNOTSUPP | Errno::NOSYS => EngineError {
                inapplicable: true,
                ..EngineError::new(format!(
                    "this file system does not support fallocate in the mode {mode}: {}",
                    fsb_model::errno::describe(errno.raw_os_error())
                ))
            },
            Errno::INVAL if self.mode == Mode::Collapse => EngineError {
                message: format!(
                    "{error}: block_size must be a multiple of the file system's block"
                ),
                ..error.clone()
            },
            _ => error.clone(),
        }
    }

    /// Checks the sizes of all files, so that a call that reports success has had its effect.
    fn check(&self, set: &OpenFileSet) -> Result<(), EngineError> {
        let mut session = backend::plain(set.backend).session(&SessionSetup::plain(1))?;
        for file in 0..set.layout.files {
            let expected = self.size_after();
            let slot = session.open(&set.root, set.names.path(file), OpenFlags::READ, expected);
            let found = slot.and_then(|slot| {
                session
                    .size(slot, expected)
                    .and_then(|found| session.close(slot).map(|()| found))
            });
            let found = found.map_err(|errno| set.refused("stat", file, errno))?;
            if found != expected {
                let path = set.names.show(&set.path, file);
                let message = format!(
                    "{} has {found} bytes instead of {expected} after fallocate",
                    path.display()
                );
                return Err(EngineError {
                    path: Some(path),
                    ..EngineError::new(message)
                });
            }
        }
        Ok(())
    }
}

impl Job for FallocateJob {
    fn profile(&self) -> Profile {
        let profile = self
            .spec
            .profile(RULES.name, self.spec.data_label(&self.words()));
        let grown = self.layout_before().file_size - self.spec.layout.file_size;
        Profile {
            record_size: 0,
            primary: &OPERATION_RATE,
            metadata_only: true,
            space: profile.space + profile.files * grown,
            cold_bytes_per_operation: 0,
            ..profile.consuming()
        }
    }

    fn params(&self) -> Params {
        let mut params = self.spec.params();
        params.insert("mode".to_owned(), self.mode.name().into());
        params
    }

    fn backend(&self) -> &'static dyn Backend {
        self.spec.backend
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        fileset::build(
            &context.set(),
            &self.layout_before(),
            self.content(),
            false,
            context.data(),
        )?;
        self.probe(context)?;
        fileset::sync(&context.set())
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let set = self.spec.open_set(context)?;
        let (mode, at_start) = (self.mode.flags(), self.mode == Mode::Collapse);
        let threads = ItemThreads {
            spec: &self.spec,
            set: &set,
            context,
            purpose: Purpose::Write,
            act: |io: &mut IoLoop<'_>, item| io.allocate(item, mode, at_start).map(|()| 0),
        };
        let subject = Subject {
            interest: Interest::Names,
            content: self.content(),
            verb: Some(Verb::Write),
        };
        let profile = self.profile();
        let (measurement, _) = measure_set(&threads, &set, subject, &profile, context, gate)?;
        if measurement.operations == profile.operations {
            self.check(&set)?;
        }
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

impl FallocateJob {
    /// Returns text such as `random punch`.
    fn words(&self) -> String {
        let random = if self.spec.access == Access::Random {
            "random "
        } else {
            ""
        };
        format!("{random}{}", self.mode.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::parse;
    use crate::workload::testing::{Pairs, SIZING, run_once, with};

    fn small(mode: &str, more: Pairs<'_>) -> fsb_model::WorkloadSpec {
        let pairs: [(&str, serde_json::Value); 4] = [
            ("mode", mode.into()),
            ("file_size", "64K".into()),
            ("block_size", "4K".into()),
            ("files", 2.into()),
        ];
        with("fallocate", &[&pairs, more].concat())
    }

    #[test]
    fn each_mode_does_its_calls_or_does_not_apply() {
        for directory in [std::env::temp_dir(), "/dev/shm".into()] {
            let Ok(root) = tempfile::tempdir_in(directory) else {
                continue;
            };
            for mode in Mode::ALL {
                for durability in ["none", "end", "each"] {
                    let spec = small(
                        mode.name(),
                        &[("durability", durability.into()), ("threads", 2.into())],
                    );
                    match run_once(&spec, root.path(), |_| {}) {
                        Ok(measured) => {
                            assert_eq!((measured.operations, measured.bytes), (32, 0), "{mode:?}")
                        }
                        Err(error) => assert!(error.inapplicable, "{mode:?}: {error}"),
                    }
                    assert_eq!(
                        std::fs::read_dir(root.path()).unwrap().count(),
                        1,
                        "nothing but the set"
                    );
                }
            }
        }
    }

    #[test]
    fn fallocate_calls_change_the_files() {
        let root = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let size = |mode: &str| {
            run_once(&small(mode, &[]), root.path(), |_| {}).unwrap();
            let file = root.path().join("fsb-set/d00000/f00000001");
            let (metadata, bytes) = (
                std::fs::metadata(&file).unwrap(),
                std::fs::read(&file).unwrap(),
            );
            use std::os::unix::fs::MetadataExt;
            (
                metadata.len(),
                metadata.blocks() > 0,
                bytes.iter().all(|&byte| byte == 0),
            )
        };
        assert_eq!(size("allocate"), (65_536, true, true));
        assert_eq!(size("punch"), (65_536, false, true));
    }

    #[test]
    fn labels_and_parameters_are_as_those_of_other_records() {
        let label = |pairs: Pairs<'_>| {
            parse(&small("punch", pairs), &SIZING).map(|job| job.profile().label)
        };
        assert_eq!(
            label(&[("files", 1.into()), ("access", "random".into())]).unwrap(),
            "random punch 4K"
        );
        for (pairs, key) in [
            (("mode", "pierce".into()), "mode"),
            (("backend", "mmap".into()), "backend"),
            (("depth", 4.into()), "depth"),
            (("durable", true.into()), "durable"),
        ] {
            let error = label(&[pairs]).unwrap_err();
            assert_eq!(error.key.as_deref(), Some(key), "{error}");
        }
        let random = with(
            "fallocate",
            &[("mode", "collapse".into()), ("access", "random".into())],
        );
        assert_eq!(
            parse(&random, &SIZING).err().unwrap().key.as_deref(),
            Some("access")
        );
    }
}
