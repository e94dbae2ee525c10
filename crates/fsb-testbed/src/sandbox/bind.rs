//! Binding a worker to processors and to NUMA nodes. What it starts inherits both.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{TestbedError, describe};

/// linux/mempolicy.h: allocate from these nodes, or fail.
const MPOL_BIND: libc::c_int = 2;

/// Runs this process on `cpus` alone; anywhere where the list is empty.
pub(super) fn to_processors(cpus: &[u32]) -> Result<(), TestbedError> {
    if cpus.is_empty() {
        return Ok(());
    }
    let fail = |tried: String| TestbedError::trial("the worker cannot be bound to its processors").tried(tried);
    let known = |cpu: &u32| (*cpu as usize) < CpuSet::MAX_CPU;
    if !cpus.iter().all(known) {
        return Err(fail(format!("fsb binds to the first {} at most", CpuSet::MAX_CPU)));
    }
    let mut wanted = CpuSet::new();
    cpus.iter().for_each(|cpu| wanted.set(*cpu as usize));
    sched_setaffinity(None, &wanted)
        .map_err(|errno| fail(format!("sched_setaffinity: {}", describe(&errno.into()))))?;
    // A cpuset may leave fewer than were asked for, without an error.
    match sched_getaffinity(None) {
        Ok(bound) if bound == wanted => Ok(()),
        Ok(bound) => Err(fail(format!("only {} of {} are allowed here", bound.count(), wanted.count()))),
        Err(errno) => Err(fail(format!("sched_getaffinity: {}", describe(&errno.into())))),
    }
}

/// Takes this process's memory from `nodes` alone; from anywhere where the list is empty.
pub(super) fn to_memory(nodes: &[u32]) -> Result<(), TestbedError> {
    let Some(last) = nodes.iter().max() else { return Ok(()) };
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mut mask = vec![0 as libc::c_ulong; *last as usize / BITS + 1];
    nodes.iter().for_each(|node| mask[*node as usize / BITS] |= 1 << (*node as usize % BITS));
    // The kernel takes one bit less than it is told of.
    let bits = mask.len() * BITS + 1;
    // SAFETY: a mask of at least that many bits less one, read only.
    let answer = unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_BIND, mask.as_ptr(), bits) };
    if answer == 0 {
        return Ok(());
    }
    Err(TestbedError::trial("the worker's memory cannot be bound to its NUMA nodes")
        .tried(format!("set_mempolicy: {}", describe(&io::Error::last_os_error()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread of its own: both concern the calling thread.
    fn apart<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(look).join().unwrap()
    }

    #[test]
    fn a_processor_that_is_there_can_be_chosen() {
        let first = apart(|| {
            let all = sched_getaffinity(None).unwrap();
            let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
            to_processors(&[first as u32]).unwrap();
            let bound = sched_getaffinity(None).unwrap();
            (bound.count(), bound.is_set(first))
        });
        assert_eq!(first, (1, true));
        assert!(apart(|| to_processors(&[CpuSet::MAX_CPU as u32 - 1])).is_err());
        assert!(apart(|| to_processors(&[1 << 15])).is_err());
    }

    #[test]
    fn no_binding_changes_nothing() {
        apart(|| {
            let before = sched_getaffinity(None).unwrap();
            to_processors(&[]).unwrap();
            to_memory(&[]).unwrap();
            assert!(sched_getaffinity(None).unwrap() == before);
        });
    }
}
