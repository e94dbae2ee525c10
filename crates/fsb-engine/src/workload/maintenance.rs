//! Maintenance of a whole file system that holds a set of files: a check, a freeze, snapshots,
//! shrinking, defragmentation.
//!
//! These operations need root, which workers do not have: the worker makes and removes the files,
//! and the agent measures the operation itself ([`Profile::maintenance`]). A worker measures it
//! only on the null backend.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsb_model::metric::MAINTENANCE_TIME;
use fsb_model::{CacheState, Maintenance, Params};

use super::job::{Job, Workload};
use super::label;
use super::measure::{Subject, measure_set};
use super::parameter::{self, Parameter, ParameterGroup, ParameterKind, group};
use super::params::{self, Reader};
use crate::backend::{Backend, CALLS};
use crate::clock::OperationKind;
use crate::data::{Data, DataSource};
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, Content, Layout, MOST_DIRECTORIES, MOST_FILES};
use crate::io_loop::OpenFileSet;
use crate::profile::{Profile, Renewal};
use crate::task::{Context, Gate, Measurement, Preparing, Sizing};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;

/// Checks the unmounted file system with its own program.
pub(super) static FSCK: MaintenanceWorkload = MaintenanceWorkload {
    operation: Maintenance::Check,
    about: "check the unmounted file system that holds the files, without repairs: e2fsck, xfs_repair, btrfs check; \
            begins with empty caches",
};

/// Freezes the mounted file system and thaws it.
pub(super) static FREEZE: MaintenanceWorkload = MaintenanceWorkload {
    operation: Maintenance::Freeze,
    about: "freeze and thaw the idle file system that holds the files (FIFREEZE and FITHAW), as before a snapshot of \
            its device",
};

/// Creates an empty subvolume.
pub(super) static SUBVOLUME: MaintenanceWorkload = MaintenanceWorkload {
    operation: Maintenance::Subvolume,
    about: "create a subvolume in the file system that holds the files (btrfs subvolume create)",
};

/// Creates a snapshot of all files.
pub(super) static SNAPSHOT: MaintenanceWorkload = MaintenanceWorkload {
    operation: Maintenance::Snapshot,
    about: "create a read-only snapshot of all files (btrfs subvolume snapshot -r)",
};

/// Creates a snapshot of all files that can be written.
pub(super) static SNAPSHOT_WRITABLE: MaintenanceWorkload = MaintenanceWorkload {
    operation: Maintenance::SnapshotWritable,
    about: "create a snapshot of all files that can be written (btrfs subvolume snapshot)",
};

/// Deletes a snapshot of all files.
pub(super) static SNAPSHOT_DELETE: MaintenanceWorkload = MaintenanceWorkload {
    operation: Maintenance::SnapshotDelete,
    about: "delete a snapshot of all files and commit that (btrfs subvolume delete -c)",
};

/// Writes a snapshot of all files as a stream.
pub(super) static SEND: MaintenanceWorkload = MaintenanceWorkload {
    operation: Maintenance::Send,
    about: "write a snapshot of all files as a stream to /dev/null (btrfs send)",
};

/// Writes the changes since an older snapshot as a stream.
pub(super) static SEND_INCREMENTAL: MaintenanceWorkload = MaintenanceWorkload {
    operation: Maintenance::SendIncremental,
    about: "write the changes since an older snapshot, in which all files had other permissions, as a stream to \
            /dev/null (btrfs send -p)",
};

/// Makes the file system smaller.
pub(super) static SHRINK: MaintenanceWorkload = MaintenanceWorkload {
    operation: Maintenance::Shrink,
    about: "shrink the mounted file system that holds the files by a quarter (btrfs filesystem resize); it grows again \
            outside the clock",
};

/// Defragments files whose blocks alternate.
pub(super) static DEFRAGMENT: MaintenanceWorkload = MaintenanceWorkload {
    operation: Maintenance::Defragment,
    about: "defragment the mounted file system, whose files were written a block at a time in turn (e4defrag, xfs_fsr, \
            btrfs filesystem defragment)",
};

/// Reads everything on the device and checks the checksums.
pub(super) static SCRUB: MaintenanceWorkload = MaintenanceWorkload {
    operation: Maintenance::Scrub,
    about: "check the checksums of everything in the mounted file system that holds the files, without repairs (the \
            system call of btrfs scrub -r)",
};

/// Bytes of the writes that fragment a file.
const FRAGMENT: u64 = 4096;

/// A member: one operation, and the files that the file system holds meanwhile.
pub(super) struct MaintenanceWorkload {
    operation: Maintenance,
    about: &'static str,
}

impl Workload for MaintenanceWorkload {
    fn name(&self) -> &'static str {
        self.operation.name()
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn example(&self) -> Params {
        params::from_pairs([("files", 12.into()), ("files_per_directory", 5.into())])
    }

    fn parameters(&self) -> Vec<Parameter> {
        use ParameterKind::{Number, Size};
        // A sync follows each block of a fragmented file.
        let (files, file_size) = match self.operation {
            Maintenance::Defragment => ("64", "256K"),
            _ => ("min(10000, size/64K)", "4K"),
        };
        let files = [
            Parameter::new("files", Number(1..=MOST_FILES), files, "number of files"),
            Parameter::new(
                "file_size",
                Size(0..=1 << 60),
                file_size,
                "size of each file",
            ),
            Parameter::new(
                "files_per_directory",
                Number(1..=MOST_FILES),
                "1000",
                "files of each directory",
            ),
            parameter::data(),
        ];
        let mut all = group(ParameterGroup::Files, files);
        all.extend(group(ParameterGroup::Results, [parameter::label()]));
        all
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        let mut reader = Reader::new(self.name(), self.parameters(), params, sizing)?;
        let layout = Layout {
            files: reader.number("files")?,
            file_size: reader.number("file_size")?,
            files_per_directory: reader.number("files_per_directory")?,
        };
        if layout.directories() > MOST_DIRECTORIES {
            let message = format!(
                "{} files make more than {MOST_DIRECTORIES} directories",
                layout.files
            );
            return Err(reader.error("files_per_directory", message));
        }
        if layout
            .files
            .checked_mul(layout.file_size)
            .is_none_or(|bytes| bytes > 1 << 60)
        {
            return Err(reader.error("file_size", "the files are too large for any file system"));
        }
        let label = reader.text("label")?;
        reader.finish();
        Ok(Box::new(MaintenanceJob {
            operation: self.operation,
            layout,
            label,
        }))
    }
}

struct MaintenanceJob {
    operation: Maintenance,
    layout: Layout,
    label: Option<String>,
}

impl MaintenanceJob {
    fn label(&self) -> String {
        let Layout {
            files, file_size, ..
        } = self.layout;
        let size = if file_size == 0 {
            "empty".to_owned()
        } else {
            label::size(file_size)
        };
        let cache = if self.operation == Maintenance::Check {
            ", cold"
        } else {
            ""
        };
        format!("{} of {files} {size} files{cache}", self.operation.name())
    }
}

impl Job for MaintenanceJob {
    fn profile(&self) -> Profile {
        let Layout {
            files, file_size, ..
        } = self.layout;
        let inodes = files + self.layout.directories() + 1;
        let label = self.label.clone().unwrap_or_else(|| self.label());
        let base = Profile {
            files,
            file_size,
            reaches_device: true,
            space: files * file_size.next_multiple_of(fileset::BLOCK) + inodes * fileset::NOTE,
            inodes,
            maintenance: Some(self.operation),
            ..Profile::base(self.operation.name(), &MAINTENANCE_TIME, label)
        };
        match self.operation {
            Maintenance::Check => Profile {
                cache: CacheState::Cold,
                renewal: Renewal::Remount,
                // A check reads every inode in use; the smallest ones, of xfs without names, take
                // up less than this.
                cold_bytes_per_operation: files * 64,
                ..base
            },
            // Defragmented files have nothing to defragment.
            Maintenance::Defragment => Profile {
                renewal: Renewal::Recreate,
                operations: 1,
                ..base
            },
            _ => Profile {
                renewal: Renewal::Never,
                operations: 10,
                divisible: true,
                repeats_in_place: true,
                ..base
            },
        }
    }

    fn params(&self) -> Params {
        let Layout {
            files,
            file_size,
            files_per_directory,
        } = self.layout;
        let mut params = params::from_pairs([
            ("files", files.into()),
            ("file_size", file_size.into()),
            ("files_per_directory", files_per_directory.into()),
        ]);
        if let Some(label) = &self.label {
            params.insert("label".to_owned(), label.as_str().into());
        }
        params
    }

    fn backend(&self) -> &'static dyn Backend {
        CALLS
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        match context.preparing {
            Preparing::Settling => Ok(()),
            _ if self.operation == Maintenance::Defragment => {
                fileset::make(&context.set(), &self.layout, Content::Empty, context.data())?;
                scatter(&context.set(), &self.layout, context.data())
            }
            Preparing::All => fileset::build(
                &context.set(),
                &self.layout,
                Content::Full,
                false,
                context.data(),
            ),
            Preparing::Files => {
                fileset::make(&context.set(), &self.layout, Content::Full, context.data())
            }
        }
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let set = OpenFileSet::open(context.backend(CALLS), context, self.layout)?;
        if set.backend.capabilities().real {
            let why = format!(
                "{} needs a file system that fsb makes and mounts",
                self.operation.name()
            );
            return Err(EngineError {
                inapplicable: true,
                ..EngineError::new(why)
            });
        }
        let subject = Subject {
            content: Content::Directories,
            ..Subject::NAMES
        };
        Ok(measure_set(
            &Simulated { context },
            &set,
            subject,
            &self.profile(),
            context,
            gate,
        )?
        .0)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

/// Writes the files a block at a time, one block of each in turn. A file is closed and synced after
/// each block, so the file system neither keeps space for the next one nor sees several blocks of a
/// file together.
fn scatter(set: &Path, layout: &Layout, data: DataSource) -> Result<(), EngineError> {
    let mut data = Data::new(data, FRAGMENT.min(layout.file_size) as usize);
    for offset in (0..layout.file_size).step_by(FRAGMENT as usize) {
        for number in 0..layout.files {
            let path = set.join(layout.path(number));
            let length = FRAGMENT.min(layout.file_size - offset) as usize;
            let file = OpenOptions::new().write(true).open(&path);
            let file = file.map_err(|error| EngineError::io("open", &path, &error))?;
            let bytes = data.window(layout.address(number) + offset, length);
            file.write_all_at(bytes, offset)
                .map_err(|error| EngineError::io("write to", &path, &error))?;
            file.sync_data()
                .map_err(|error| EngineError::io("fdatasync of", &path, &error))?;
        }
    }
    Ok(())
}

/// The operations on the null backend, which take only the time of its clock.
struct Simulated<'a> {
    context: &'a Context,
}

impl ThreadJob for Simulated<'_> {
    type ThreadState = ();
    type Report = ();

    fn init(&self, _rank: u32) -> Result<(), EngineError> {
        Ok(())
    }

    fn run(&self, (): &mut (), recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        recorder.start();
        for _ in 0..self.context.operations {
            if !recorder.lap(OperationKind::Sync, 0) {
                break;
            }
        }
        Ok(())
    }

    fn report(&self, (): ()) {}
}
