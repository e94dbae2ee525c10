//! The workloads.
//!
//! A [`Workload`] is a member of the registry: it reads its own parameters and makes a [`Job`], which knows its profile
//! and does the three steps. A new workload is a file next to this one (copy `skeleton.rs`) and a line in [`REGISTRY`].

mod append;
mod attributes;
#[cfg(test)]
mod cells;
mod command;
#[cfg(test)]
mod conformance;
mod create;
mod data;
mod delete;
mod fallocate;
mod filetree;
mod flow;
mod iozone;
mod item_threads;
mod job;
mod label;
mod link;
mod listing;
mod lookup;
mod measure;
mod micro;
mod micro_create;
mod micro_read;
mod micro_write;
mod mkdir;
mod names;
pub mod parameter;
mod params;
mod phase_times;
mod postmark;
mod read;
mod readdir;
mod records;
mod reflink;
mod rename;
#[cfg(feature = "traces")]
mod replay;
mod scan;
mod simple;
#[cfg(test)]
mod skeleton;
mod spec;
mod stat;
mod statfs;
#[cfg(test)]
pub(crate) mod testing;
mod truncate;
mod unit;
mod untar_build;
mod write;
mod xattr;

pub use job::{Job, Unit, Workload};

use fsb_model::WorkloadSpec;
use fsb_model::nearest::unknown;

use crate::{ParamError, Sizing};

/// All workloads.
pub static REGISTRY: &[&dyn Workload] = &[
    &write::WRITE,
    &read::READ,
    &append::APPEND,
    &create::CREATE,
    &stat::STAT,
    &readdir::READDIR,
    &scan::SCAN,
    &statfs::STATFS,
    &lookup::Lookup,
    &rename::RENAME,
    &rename::MOVE,
    &delete::DELETE,
    &mkdir::MKDIR,
    &mkdir::RMDIR,
    &link::LINK,
    &link::SYMLINK,
    &link::READLINK,
    &reflink::REFLINK,
    &attributes::CHMOD,
    &attributes::CHOWN,
    &attributes::UTIMENS,
    &xattr::Xattr::Set,
    &xattr::Xattr::Get,
    &xattr::Xattr::List,
    &truncate::Truncate,
    &fallocate::Fallocate,
    &iozone::REWRITE,
    &iozone::REREAD,
    &iozone::RANDOM_READ,
    &iozone::RANDOM_WRITE,
    &iozone::RANDOM_MIX,
    &iozone::BACKWARD_READ,
    &iozone::RECORD_REWRITE,
    &iozone::STRIDE_READ,
    &iozone::FWRITE,
    &iozone::FREWRITE,
    &iozone::FREAD,
    &iozone::FREREAD,
    &iozone::PWRITE,
    &iozone::REPWRITE,
    &iozone::PREAD,
    &iozone::REPREAD,
    &iozone::PWRITEV,
    &iozone::REPWRITEV,
    &iozone::PREADV,
    &iozone::REPREADV,
    &micro_create::MICRO_CREATE,
    &micro_read::MICRO_READ,
    &micro_write::MICRO_WRITE,
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

/// Parses the job that a plan describes.
pub fn parse(spec: &WorkloadSpec, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
    let known: Vec<_> = REGISTRY.iter().map(|workload| workload.name()).collect();
    match REGISTRY.iter().find(|workload| workload.name() == spec.name) {
        Some(workload) => data::parse(*workload, &spec.params, sizing),
        None => {
            Err(ParamError { workload: spec.name.clone(), key: None, message: unknown("workload", &spec.name, known) })
        }
    }
}
