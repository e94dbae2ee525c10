//! Backends: the ways in which calls reach the kernel.
//!
//! All file work of workloads goes through this module. A new call is a method of [`Session`] or
//! [`Namespace`]: the default makes the kernel's call, `null` has one that does nothing, and
//! workloads never check whether files are touched.
//!
//! A backend has two parts. Each thread has one [`Session`], which opens files and moves data: the
//! thread *queues* requests, *commits* queued requests to the kernel together, and *reaps* finished
//! ones. A synchronous backend finishes a request when it is queued and needs neither of the other
//! two calls. The [`Namespace`] makes the calls on names (stat, rename, …), which most backends
//! leave to the kernel's usual calls. The [`Capabilities`] describe a backend, and the function
//! `check` compares them with a workload before anything runs. [`Backend::examine`] asks the file
//! system for the rest, before the clock starts.
//!
//! A new backend is a file in this directory (copy `skeleton.rs`) and a line in [`REGISTRY`].

pub(crate) mod aio;
mod atomic;
mod call_flag;
#[cfg(test)]
mod conformance;
pub(crate) mod direct;
mod file_backend;
pub(crate) mod files;
mod libaio;
mod lseek;
pub(crate) mod mmap;
mod nowait;
mod null;
mod psync;
mod session;
#[cfg(test)]
mod skeleton;
pub(crate) mod stdio;
mod uncached;
pub(crate) mod uring;
mod vectored;

use fsb_model::nearest::unknown;
use fsb_model::{Bytes, CacheState};

use crate::error::EngineError;
use crate::memory::PAGE;
pub(crate) use file_backend::FileBackend;
pub use files::{
    Directory, FileSlot, Flush, FlushRange, OpenFlags, Purpose, RangeLock, SessionSetup,
};
pub use fsb_model::observed::Direct;
pub use session::{Backend, Capabilities, ProbeTarget};
pub use session::{Completion, IoRequest, Queued, Session, Verb};
pub use session::{KernelNamespace, Namespace};

/// All backends.
pub static REGISTRY: &[&dyn Backend] = &[
    &psync::PSYNC,
    &psync::DIRECT,
    &psync::OSYNC,
    &psync::DSYNC,
    &psync::Psyncv,
    &vectored::PREADV2,
    &vectored::PREADV2_DIRECT,
    &vectored::PREADV2_HIPRI,
    &vectored::UNCACHED,
    &vectored::ATOMIC,
    &vectored::NOWAIT,
    &lseek::LSEEK,
    &lseek::LSEEK_DIRECT,
    &mmap::MMAP,
    &mmap::MMAP_ASYNC,
    &mmap::MMAP_SYNC,
    &stdio::Stdio,
    &aio::PosixAio,
    &libaio::LIBAIO,
    &libaio::LIBAIO_DIRECT,
    &libaio::LIBAIO_UNCACHED,
    &libaio::LIBAIO_ATOMIC,
    &libaio::LIBAIO_NOWAIT,
    &uring::URING,
    &uring::URING_DIRECT,
    &uring::URING_UNCACHED,
    &uring::URING_ATOMIC,
    &uring::URING_NOWAIT,
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

/// Checks that this process may use a backend: it sets up a session, and ends it.
///
/// # Errors
/// Fails if the kernel lacks the interface of the backend or denies it.
pub fn check_available(backend: &dyn Backend) -> Result<(), EngineError> {
    backend.session(&SessionSetup::plain(1)).map(drop)
}

/// Returns the backend with that name. The error suggests the most similar name.
pub fn find(name: &str) -> Result<&'static dyn Backend, EngineError> {
    let known = REGISTRY.iter().map(|backend| backend.name());
    REGISTRY
        .iter()
        .find(|backend| backend.name() == name)
        .copied()
        .ok_or_else(|| EngineError::new(unknown("backend", name, known.collect::<Vec<_>>())))
}

/// The requirements of a workload on a backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demands {
    pub(crate) depth: u32,
    pub(crate) cache: CacheState,
    pub(crate) appends: bool,
    pub(crate) record_size: u64,
    /// Bytes of a file that is moved up to its last byte, even if that does not fill a record.
    pub(crate) whole_file: Option<u64>,
}

/// The limit of the memory that all requests of a thread may point into: the largest buffer that
/// io_uring registers.
const LARGEST_ARENA: u64 = 1 << 30;

/// Returns why data that the page cache does not keep cannot begin in this state. Returns `None` if
/// it can.
fn never_cached(cache: CacheState) -> Option<&'static str> {
    match cache {
        CacheState::Warm => Some("its data is never warm"),
        CacheState::Out => Some("its data is never cached"),
        CacheState::Any | CacheState::Cold => None,
    }
}

/// Checks whether the backend meets the demands. The error holds the parameter at fault and the
/// reason.
pub(crate) fn check(backend: &dyn Backend, demands: Demands) -> Result<(), (&'static str, String)> {
    let Capabilities {
        depth,
        direct,
        appends,
        granule,
        ..
    } = backend.capabilities();
    let Demands {
        record_size,
        whole_file,
        ..
    } = demands;
    let name = backend.name();
    if demands.depth > depth {
        return Err((
            "depth",
            format!(
                "{} is more than backend {name} can do: at most {depth}",
                demands.depth
            ),
        ));
    }
    if u64::from(demands.depth) * record_size.next_multiple_of(PAGE as u64) > LARGEST_ARENA
        && demands.depth > 1
    {
        let (records, most) = (Bytes(record_size), Bytes(LARGEST_ARENA));
        return Err((
            "depth",
            format!(
                "{} records of {records} at once are more than {most}",
                demands.depth
            ),
        ));
    }
    if demands.appends && demands.depth > 1 {
        return Err((
            "depth",
            "appending adds one record after the other: use 1".to_owned(),
        ));
    }
    if let Some(cannot) =
        never_cached(demands.cache).filter(|_| backend.capabilities().keeps_nothing())
    {
        let does = match direct {
            true => "bypasses the page cache",
            false => "leaves nothing in the page cache",
        };
        return Err(("cache", format!("backend {name} {does}: {cannot}")));
    }
    if demands.appends && !appends {
        return Err(("backend", format!("{name} cannot append")));
    }
    let odd = |bytes: u64| {
        format!("{bytes} is not a multiple of {granule} bytes, as backend {name} needs")
    };
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
            assert!(
                !backend.about().is_empty() && !backend.about().contains('\n'),
                "{}",
                backend.name()
            );
            assert!(
                REGISTRY[..index]
                    .iter()
                    .all(|other| other.name() != backend.name()),
                "{}",
                backend.name()
            );
            assert_eq!(
                find(backend.name()).ok().map(Backend::name),
                Some(backend.name())
            );
            assert!(backend.capabilities().depth >= 1 && backend.capabilities().granule >= 1);
        }
        assert!(
            find("psinc")
                .err()
                .unwrap()
                .message
                .contains("did you mean 'psync'")
        );
    }

    #[test]
    fn unsupported_parameters_of_a_backend_are_refused_by_name() {
        let usual = Demands {
            depth: 1,
            cache: CacheState::Any,
            appends: false,
            record_size: 4096,
            whole_file: None,
        };
        let psync = find("psync").unwrap();
        assert_eq!(check(psync, usual), Ok(()));
        let (key, message) = check(psync, Demands { depth: 32, ..usual }).unwrap_err();
        assert_eq!(
            (key, message.as_str()),
            ("depth", "32 is more than backend psync can do: at most 1")
        );
        let skeleton = find("skeleton").unwrap();
        assert_eq!(
            check(
                skeleton,
                Demands {
                    cache: CacheState::Warm,
                    ..usual
                }
            )
            .unwrap_err()
            .0,
            "cache"
        );
        assert_eq!(
            check(
                skeleton,
                Demands {
                    appends: true,
                    ..usual
                }
            )
            .unwrap_err()
            .0,
            "backend"
        );
        assert_eq!(
            check(
                skeleton,
                Demands {
                    record_size: 1000,
                    ..usual
                }
            )
            .unwrap_err()
            .0,
            "block_size"
        );
        assert_eq!(
            check(
                skeleton,
                Demands {
                    whole_file: Some(1000),
                    ..usual
                }
            )
            .unwrap_err()
            .0,
            "file_size"
        );
        assert_eq!(
            check(
                skeleton,
                Demands {
                    depth: 4,
                    record_size: 1 << 29,
                    ..usual
                }
            )
            .unwrap_err()
            .0,
            "depth"
        );
        assert_eq!(
            check(
                skeleton,
                Demands {
                    depth: 2,
                    appends: true,
                    ..usual
                }
            )
            .unwrap_err()
            .0,
            "depth"
        );
    }
}
