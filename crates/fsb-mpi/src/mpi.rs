//! Ranks of an MPI job. `mpi.c` has the calls.

#![expect(unsafe_code, reason = "MPI is a C library")]

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::communicator::{Communicator, CommunicatorError};

unsafe extern "C" {
    safe fn fsb_mpi_start() -> c_int;
    safe fn fsb_mpi_finish() -> c_int;
    fn fsb_mpi_place(rank: *mut c_int, size: *mut c_int) -> c_int;
    safe fn fsb_mpi_barrier() -> c_int;
    fn fsb_mpi_broadcast(bytes: *mut c_void, length: c_int) -> c_int;
    fn fsb_mpi_send(bytes: *const c_void, length: c_int, to: c_int) -> c_int;
    fn fsb_mpi_probe(from: c_int, length: *mut c_int) -> c_int;
    fn fsb_mpi_receive(bytes: *mut c_void, length: c_int, from: c_int) -> c_int;
    safe fn fsb_mpi_abort(code: c_int);
    fn fsb_mpi_error_text(code: c_int, to: *mut c_char, room: c_int);
    fn fsb_mpi_library(to: *mut c_char, room: c_int);
}

type Result<T> = std::result::Result<T, CommunicatorError>;

/// This rank of the job. Dropping it ends its part in MPI.
pub struct MpiRank {
    rank: usize,
    size: usize,
    /// MPI is called by the thread that started it only.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl MpiRank {
    /// Joins the job: `MPI_Init_thread`. A process may do so once.
    ///
    /// # Errors
    /// Fails with the error of the library. Without a launcher such as `mpirun` the job has one
    /// rank.
    pub fn start() -> Result<MpiRank> {
        check("MPI_Init_thread", fsb_mpi_start())?;
        let (mut rank, mut size) = (0, 0);
        // SAFETY: both pointers are valid for the call.
        check("MPI_Comm_rank", unsafe {
            fsb_mpi_place(&raw mut rank, &raw mut size)
        })?;
        Ok(MpiRank {
            rank: rank as usize,
            size: size as usize,
            _not_send: std::marker::PhantomData,
        })
    }
}

impl Drop for MpiRank {
    fn drop(&mut self) {
        // The process ends anyway.
        let _ = fsb_mpi_finish();
    }
}

impl Communicator for MpiRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn barrier(&self) -> Result<()> {
        check("MPI_Barrier", fsb_mpi_barrier())
    }

    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut length = (bytes.len() as u64).to_ne_bytes();
        // SAFETY: the pointer is valid for the 8 bytes during the call.
        check("MPI_Bcast", unsafe {
            fsb_mpi_broadcast(length.as_mut_ptr().cast(), 8)
        })?;
        bytes.resize(u64::from_ne_bytes(length) as usize, 0);
        let count = count(bytes.len())?;
        // SAFETY: the pointer is valid for all bytes of the vector during the call.
        check("MPI_Bcast", unsafe {
            fsb_mpi_broadcast(bytes.as_mut_ptr().cast(), count)
        })
    }

    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        // SAFETY: the pointer is valid for all bytes of the slice during the call.
        check("MPI_Send", unsafe {
            fsb_mpi_send(bytes.as_ptr().cast(), count(bytes.len())?, to as c_int)
        })
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        let mut length = 0;
        // SAFETY: the pointer is valid for the call.
        check("MPI_Probe", unsafe {
            fsb_mpi_probe(from as c_int, &raw mut length)
        })?;
        let mut bytes = vec![0; length as usize];
        // SAFETY: the pointer is valid for `length` bytes during the call.
        check("MPI_Recv", unsafe {
            fsb_mpi_receive(bytes.as_mut_ptr().cast(), length, from as c_int)
        })?;
        Ok(bytes)
    }

    fn library(&self) -> String {
        // SAFETY: the function writes a text of at most that length with its final zero.
        let text = text(|to, room| unsafe { fsb_mpi_library(to, room) });
        // Open MPI: `Open MPI v5.0.7, package: …`; MPICH: `MPICH Version:      4.2.1`, and lines
        // about its build.
        let first = text.lines().next().unwrap_or_default();
        let name = first.split(',').next().unwrap_or_default();
        name.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn abort(&self, code: i32) {
        fsb_mpi_abort(code);
    }
}

/// Returns the length as MPI counts.
fn count(length: usize) -> Result<c_int> {
    c_int::try_from(length)
        .map_err(|_| CommunicatorError::new("count", format!("{length} bytes are too many")))
}

fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: the function writes a text of at most that length with its final zero.
    Err(CommunicatorError::new(
        call,
        text(|to, room| unsafe { fsb_mpi_error_text(code, to, room) }),
    ))
}

fn text(fill: impl FnOnce(*mut c_char, c_int)) -> String {
    let mut bytes = [0u8; 512];
    fill(bytes.as_mut_ptr().cast(), bytes.len() as c_int);
    CStr::from_bytes_until_nul(&bytes)
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default()
}
