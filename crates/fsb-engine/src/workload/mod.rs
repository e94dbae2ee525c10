//! The workloads.
//!
//! A [`Workload`] is a member of the registry: it reads its own parameters and makes a [`Job`],
//! which knows its profile and does the three steps. A new workload is a file next to this one
//! (copy `skeleton.rs`) and a line in [`REGISTRY`].

mod aged;
mod command;
#[cfg(test)]
mod conformance;
mod create;
mod data;
mod fallocate;
mod filetree;
mod flow;
mod job;
mod kernel_calls;
mod label;
mod listing;
mod lookup;
mod maintenance;
mod measure;
mod micro;
mod missing_call;
mod name_calls;
mod names;
pub mod parameter;
mod params;
mod postmark;
mod read_write;
mod records;
#[cfg(feature = "traces")]
mod replay;
#[cfg(test)]
mod skeleton;
mod spec;
#[cfg(test)]
pub(crate) mod testing;
mod truncate;
mod untar_build;
mod xattr;

pub use job::{Job, WorkUnit, Workload};

use fsb_model::WorkloadSpec;
use fsb_model::nearest::unknown;

use crate::error::ParamError;
use crate::task::Sizing;

/// All workloads.
pub static REGISTRY: &[&dyn Workload] = &[
    &read_write::WRITE,
    &read_write::READ,
    &read_write::APPEND,
    &create::CREATE,
    &name_calls::STAT,
    &kernel_calls::STATX,
    &kernel_calls::OPENAT2,
    &listing::READDIR,
    &listing::SCAN,
    &name_calls::STATFS,
    &lookup::Lookup,
    &name_calls::RENAME,
    &name_calls::MOVE,
    &name_calls::DELETE,
    &name_calls::COPY_UP,
    &name_calls::MKDIR,
    &name_calls::RMDIR,
    &name_calls::LINK,
    &name_calls::SYMLINK,
    &name_calls::READLINK,
    &name_calls::REFLINK,
    &kernel_calls::REFLINK_RANGE,
    &kernel_calls::COPY_RANGE,
    &kernel_calls::EXCHANGE,
    &kernel_calls::UNNAMED,
    &kernel_calls::WRITE_HINT,
    &kernel_calls::VERITY,
    &name_calls::CHMOD,
    &name_calls::CHOWN,
    &name_calls::UTIMENS,
    &xattr::Xattr::Set,
    &xattr::Xattr::Get,
    &xattr::Xattr::List,
    &xattr::Xattr::SetAccess,
    &xattr::Xattr::GetAccess,
    &truncate::Truncate,
    &fallocate::Fallocate,
    &maintenance::FSCK,
    &maintenance::FREEZE,
    &maintenance::SUBVOLUME,
    &maintenance::SNAPSHOT,
    &maintenance::SNAPSHOT_WRITABLE,
    &maintenance::SNAPSHOT_DELETE,
    &maintenance::SEND,
    &maintenance::SEND_INCREMENTAL,
    &maintenance::SHRINK,
    &maintenance::DEFRAGMENT,
    &maintenance::SCRUB,
    &read_write::REWRITE,
    &read_write::REREAD,
    &read_write::RANDOM_READ,
    &read_write::RANDOM_WRITE,
    &read_write::RANDOM_MIX,
    &read_write::SEQUENTIAL_MIX,
    &read_write::SPARSE_READ,
    &read_write::SPARSE_WRITE,
    &read_write::READ_MODIFY_WRITE,
    &read_write::BACKWARD_READ,
    &read_write::RECORD_REWRITE,
    &read_write::STRIDE_READ,
    &read_write::STRIDE_WRITE,
    &read_write::FWRITE,
    &read_write::FREWRITE,
    &read_write::FREAD,
    &read_write::FREREAD,
    &read_write::PWRITE,
    &read_write::REPWRITE,
    &read_write::PREAD,
    &read_write::REPREAD,
    &read_write::PWRITEV,
    &read_write::REPWRITEV,
    &read_write::PREADV,
    &read_write::REPREADV,
    &read_write::CACHE_WARM_UP,
    &aged::AgedRead,
    &micro::MICRO_CREATE,
    &micro::MICRO_READ,
    &micro::MICRO_WRITE,
    &postmark::Postmark,
    &filetree::FileTree,
    &flow::FILESERVER,
    &flow::WEBSERVER,
    &flow::WEBPROXY,
    &flow::VARMAIL,
    &flow::OLTP,
    &flow::VIDEOSERVER,
    &flow::AnyFlow,
    &untar_build::UntarBuild,
    &command::Command,
    #[cfg(feature = "traces")]
    &replay::AnyTrace,
    #[cfg(test)]
    &skeleton::SKELETON,
];

/// Returns the recordings that are part of the program, such as `recording:sqlite-wal-full`.
pub fn recordings() -> Vec<String> {
    #[cfg(feature = "traces")]
    return fsb_trace::recordings::texts();
    #[cfg(not(feature = "traces"))]
    Vec::new()
}

/// Parses the job that a plan describes.
pub fn parse(spec: &WorkloadSpec, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
    let known: Vec<_> = REGISTRY.iter().map(|workload| workload.name()).collect();
    match REGISTRY
        .iter()
        .find(|workload| workload.name() == spec.name)
    {
        Some(workload) => data::parse(*workload, &spec.params, sizing),
        None => Err(ParamError {
            workload: spec.name.clone(),
            key: None,
            message: unknown("workload", &spec.name, known),
        }),
    }
}
