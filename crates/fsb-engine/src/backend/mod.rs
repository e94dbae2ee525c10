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
mod arguments;
#[cfg(test)]
mod conformance;
mod direct;
pub(crate) mod files;
pub(crate) mod map;
mod mmap;
mod null;
mod psync;
mod psyncv;
mod session;
#[cfg(test)]
mod skeleton;
pub(crate) mod stdio;
pub(crate) mod uring;

use fsb_model::nearest::unknown;
pub use fsb_model::observed::Direct;
use fsb_model::{Bytes, CacheState};

use crate::EngineError;
use crate::memory::PAGE;
pub use arguments::{Directory, Flush, OpenFlags, Purpose, RangeLock, Setup, Slot};
pub use session::{Backend, Capabilities, ProbeTarget};
pub use session::{Completion, IoRequest, Queued, Session, Verb};
pub use session::{KernelNamespace, Namespace};

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

/// Returns the backend that makes calls on the same files for work that is not measured.
pub(crate) fn plain(backend: &dyn Backend) -> &'static dyn Backend {
    backend.plain().unwrap_or(CALLS)
}

/// The backend of that name, or a sentence that offers the nearest one.
pub fn find(name: &str) -> Result<&'static dyn Backend, EngineError> {
    let known = REGISTRY.iter().map(|backend| backend.name());
    REGISTRY
        .iter()
        .find(|backend| backend.name() == name)
        .copied()
        .ok_or_else(|| EngineError::new(unknown("backend", name, known.collect::<Vec<_>>())))
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
        return Err(("depth", "appending adds one record after the other: use 1".to_owned()));
    }
    if direct && matches!(demands.cache, CacheState::Warm | CacheState::Out) {
        let cannot =
            if demands.cache == CacheState::Warm { "its data is never warm" } else { "its data is never cached" };
        return Err(("cache", format!("backend {name} bypasses the page cache: {cannot}")));
    }
    if demands.appends && !appends {
        return Err(("backend", format!("{name} cannot append")));
    }
    let odd = |bytes: u64| format!("{bytes} is not a multiple of {granule} bytes, as backend {name} needs");
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
