//! How calls reach the kernel.
//!
//! All file work of workloads goes through here, and a new call is a method of [`Session`] or [`Namespace`]: the
//! default is the kernel's, `null` has one that does nothing, and no workload asks whether files are touched.
//!
//! A backend is asked two things. Its [`Session`], one a thread, opens files and moves data: a request is *queued*, queued requests are
//! *committed* to the kernel together, and finished ones are *reaped*. A synchronous backend finishes a request as it is
//! queued and needs neither of the other two. Its [`Namespace`] makes the calls on names (stat, rename, …), which most
//! backends leave to the kernel's usual calls. What a backend can do stands in its [`Capabilities`] and is checked
//! against a workload in one place, the function `check`, before anything runs; what only the file system can tell is
//! found out by [`Backend::examine`], before the clock.
//!
//! A new backend is a file beside this one (copy `skeleton.rs`) and a line in [`REGISTRY`].

pub(crate) mod aio;
#[cfg(test)]
mod conformance;
mod direct;
pub(crate) mod files;
pub(crate) mod map;
mod mmap;
mod namespace;
mod null;
mod probe_file;
mod psync;
mod psyncv;
mod session;
pub(crate) mod sigbus;
#[cfg(test)]
mod skeleton;
pub(crate) mod stdio;
pub(crate) mod uring;

pub use fsb_model::observed::Direct;
use std::path::Path;

use fsb_model::nearest::unknown;
use fsb_model::{Bytes, CacheState};

use crate::EngineError;
use crate::memory::PAGE;
pub use namespace::{KernelNamespace, Namespace};
pub use session::{
    Completion, Directory, Flush, IoRequest, OpenFlags, Purpose, Queued, RangeLock, Session, Setup, Slot, Verb,
};

/// All backends.
pub static REGISTRY: &[&dyn Backend] = &[
    &psync::PSYNC,
    &psync::DIRECT,
    &psync::OSYNC,
    &psync::DSYNC,
    &psyncv::Psyncv,
    &mmap::MMAP,
    &mmap::MMAP_ASYNC,
    &mmap::MMAP_SYNC,
    &stdio::Stdio,
    &aio::PosixAio,
    &uring::URING,
    &uring::URING_DIRECT,
    &null::Null,
    #[cfg(test)]
    &skeleton::Skeleton,
];

/// Plain calls.
pub(crate) const CALLS: &dyn Backend = &psync::PSYNC;
/// The C library's streams.
pub(crate) const STREAMS: &dyn Backend = &stdio::Stdio;

/// The backend of that name, or a sentence that offers the nearest one.
pub fn find(name: &str) -> Result<&'static dyn Backend, EngineError> {
    let known = REGISTRY.iter().map(|backend| backend.name());
    REGISTRY
        .iter()
        .find(|backend| backend.name() == name)
        .copied()
        .ok_or_else(|| EngineError::new(unknown("backend", name, known.collect::<Vec<_>>())))
}

/// What a backend can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// It touches files. One that does not is for testing, and nothing is prepared or removed for it.
    pub real: bool,
    /// The most requests under way at once; 1 is synchronous.
    pub depth: u32,
    /// It goes past the page cache: data is never warm, and timed calls wait for the device.
    pub direct: bool,
    /// What it wrote is on the device when the call returns.
    pub synced: bool,
    /// It can write at the end of a file, wherever that is.
    pub appends: bool,
    /// Bytes that records must be multiples of.
    pub granule: u64,
    /// An open file is quicker the second time, for it remembers what was used: a mapping keeps its pages.
    pub remembers: bool,
    /// Other threads of this process make the calls for it: a descriptor must mean the same file in all of them.
    pub helped: bool,
    /// All calls of a session are its own, those at a file's own position too, and others see at once what they did: it
    /// serves workloads that make any call.
    pub sequential: bool,
}

impl Capabilities {
    /// Those of plain calls through the page cache: the base that others are told from.
    pub const PLAIN: Capabilities = Capabilities {
        real: true,
        depth: 1,
        direct: false,
        synced: false,
        appends: true,
        granule: 1,
        remembers: false,
        helped: false,
        sequential: true,
    };
}

/// Where records will be moved.
#[derive(Debug, Clone, Copy)]
pub struct ProbeTarget<'p> {
    /// The directory that all files lie below. A file may be made in it for a trial, if it is removed again.
    pub directory: &'p Path,
    /// One of the files, unless all of them are yet to be made.
    pub file: Option<&'p Path>,
    /// The direction.
    pub verb: Verb,
    /// Bytes of a record.
    pub record_size: u64,
}

/// A member of the registry.
pub trait Backend: Sync {
    /// The name in plans, records and tables.
    fn name(&self) -> &'static str;

    /// One line on what it does.
    fn about(&self) -> &'static str;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// The backend that makes plain calls on the same files, for what is not measured.
    fn plain(&self) -> &'static dyn Backend {
        &psync::PSYNC
    }

    /// The calls on names.
    fn namespace(&self) -> &'static dyn Namespace {
        &KernelNamespace
    }

    /// Refuses a place that it cannot serve, and says why. Asked once, before the clock. The answer is what a direct
    /// backend found out; others have none.
    fn examine(&self, _place: &ProbeTarget<'_>) -> Result<Option<Direct>, EngineError> {
        Ok(None)
    }

    /// What one thread moves its data through. Called in that thread, before the clock.
    fn session(&self, setup: &Setup) -> Result<Box<dyn Session>, EngineError>;
}

/// What a workload asks of a backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demands {
    pub(crate) depth: u32,
    pub(crate) cache: CacheState,
    pub(crate) appends: bool,
    pub(crate) record_size: u64,
    /// Bytes of a file that is moved to its last byte, whether that fills a record or not.
    pub(crate) whole_file: Option<u64>,
}

/// Bytes that all requests of a thread may point into: as much as io_uring registers as one piece.
const LARGEST_ARENA: u64 = 1 << 30;

/// Whether the backend can do it: the parameter at fault and the reason, where it cannot.
pub(crate) fn check(backend: &dyn Backend, demands: Demands) -> Result<(), (&'static str, String)> {
    let Capabilities { depth, direct, appends, granule, .. } = backend.capabilities();
    let Demands { record_size, whole_file, .. } = demands;
    let name = backend.name();
    if demands.depth > depth {
        return Err(("depth", format!("{} is more than backend {name} can do: at most {depth}", demands.depth)));
    }
    if u64::from(demands.depth) * record_size.next_multiple_of(PAGE as u64) > LARGEST_ARENA && demands.depth > 1 {
        let (records, most) = (Bytes(record_size), Bytes(LARGEST_ARENA));
        return Err(("depth", format!("{} records of {records} at once are more than {most}", demands.depth)));
    }
    if demands.appends && demands.depth > 1 {
        return Err(("depth", "one record is added after the other, so it cannot be more than 1".to_owned()));
    }
    if direct && matches!(demands.cache, CacheState::Warm | CacheState::Out) {
        let cannot =
            if demands.cache == CacheState::Warm { "data cannot be warm" } else { "it has no cache to be out of" };
        return Err(("cache", format!("backend {name} goes past the page cache: {cannot}")));
    }
    if demands.appends && !appends {
        return Err(("backend", format!("{name} cannot append")));
    }
    let odd = |bytes: u64| format!("{bytes} is no multiple of {granule} bytes, as backend {name} needs");
    if !record_size.is_multiple_of(granule) {
        return Err(("block_size", odd(record_size)));
    }
    match whole_file {
        Some(bytes) if !bytes.is_multiple_of(granule) => Err(("file_size", odd(bytes))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_names_of_their_own_and_a_line_about_them() {
        for (index, backend) in REGISTRY.iter().enumerate() {
            assert!(!backend.about().is_empty() && !backend.about().contains('\n'), "{}", backend.name());
            assert!(REGISTRY[..index].iter().all(|other| other.name() != backend.name()), "{}", backend.name());
            assert_eq!(find(backend.name()).ok().map(Backend::name), Some(backend.name()));
            assert!(backend.capabilities().depth >= 1 && backend.capabilities().granule >= 1);
        }
        assert!(find("psinc").err().unwrap().message.contains("did you mean 'psync'"));
    }

    #[test]
    fn what_a_backend_cannot_do_is_refused_with_the_parameter() {
        let usual = Demands { depth: 1, cache: CacheState::Any, appends: false, record_size: 4096, whole_file: None };
        let psync = find("psync").unwrap();
        assert_eq!(check(psync, usual), Ok(()));
        let (key, message) = check(psync, Demands { depth: 32, ..usual }).unwrap_err();
        assert_eq!((key, message.as_str()), ("depth", "32 is more than backend psync can do: at most 1"));
        let skeleton = find("skeleton").unwrap();
        assert_eq!(check(skeleton, Demands { cache: CacheState::Warm, ..usual }).unwrap_err().0, "cache");
        assert_eq!(check(skeleton, Demands { appends: true, ..usual }).unwrap_err().0, "backend");
        assert_eq!(check(skeleton, Demands { record_size: 1000, ..usual }).unwrap_err().0, "block_size");
        assert_eq!(check(skeleton, Demands { whole_file: Some(1000), ..usual }).unwrap_err().0, "file_size");
        assert_eq!(check(skeleton, Demands { depth: 4, record_size: 1 << 29, ..usual }).unwrap_err().0, "depth");
        assert_eq!(check(skeleton, Demands { depth: 2, appends: true, ..usual }).unwrap_err().0, "depth");
    }
}
