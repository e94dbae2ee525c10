//! Ranks that are threads of this process: for tests, and to simulate the bookkeeping of many
//! ranks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, RwLock};
use std::{io, thread};

use crate::communicator::{Communicator, CommunicatorError};

/// Bytes of the stack of a rank. The kernel provides what is touched.
const STACK: usize = 512 << 10;

/// Messages and bytes that all ranks sent.
#[derive(Debug, Default)]
pub struct Traffic {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    /// Returns the number of messages. A broadcast counts once per receiver.
    pub fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Returns the bytes of all messages.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A rank that is a thread. Messages pass only between rank 0 and another rank, as a run needs
/// them.
pub struct ThreadRank {
    rank: usize,
    size: usize,
    barrier: Arc<Barrier>,
    traffic: Arc<Traffic>,
    /// To rank 0, or from rank 0 to each rank.
    to: Vec<Sender<Vec<u8>>>,
    /// From rank 0, or from each rank to rank 0.
    from: Vec<Receiver<Vec<u8>>>,
}

/// Runs `work` on `size` ranks and returns the results in their order, and the traffic between
/// them.
///
/// # Errors
/// Fails if a thread cannot be started.
///
/// # Panics
/// Panics if a rank does.
pub fn run<T: Send>(
    size: usize,
    work: impl Fn(&ThreadRank) -> T + Sync,
) -> io::Result<(Vec<T>, Arc<Traffic>)> {
    let barrier = Arc::new(Barrier::new(size));
    let traffic = Arc::new(Traffic::default());
    let make = |rank, to, from| ThreadRank {
        rank,
        size,
        barrier: Arc::clone(&barrier),
        traffic: Arc::clone(&traffic),
        to,
        from,
    };
    let (mut to_all, mut from_all, mut ranks) = (Vec::new(), Vec::new(), Vec::new());
    for rank in 0..size {
        let (to, from_zero) = channel();
        let (to_zero, from) = channel();
        to_all.push(to);
        from_all.push(from);
        if rank > 0 {
            ranks.push(make(rank, vec![to_zero], vec![from_zero]));
        }
    }
    ranks.insert(0, make(0, to_all, from_all));
    // No rank begins before all have started: it would wait for the others forever.
    let all_started = RwLock::new(false);
    let results = thread::scope(|scope| {
        let mut gate = all_started.write().expect("no other thread has it");
        let started: io::Result<Vec<_>> = ranks
            .into_iter()
            .map(|rank: ThreadRank| {
                let (work, gate) = (&work, &all_started);
                thread::Builder::new()
                    .stack_size(STACK)
                    .spawn_scoped(scope, move || {
                        gate.read().is_ok_and(|all| *all).then(|| work(&rank))
                    })
            })
            .collect();
        *gate = started.is_ok();
        drop(gate);
        Ok::<_, io::Error>(
            started?
                .into_iter()
                .map(|rank| rank.join().ok().flatten().expect("the rank ended"))
                .collect(),
        )
    })?;
    Ok((results, traffic))
}

impl Communicator for ThreadRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn barrier(&self) -> Result<(), CommunicatorError> {
        self.barrier.wait();
        Ok(())
    }

    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<(), CommunicatorError> {
        if self.rank > 0 {
            *bytes = self.receive(0)?;
            return Ok(());
        }
        (1..self.size).try_for_each(|rank| self.send(rank, bytes))
    }

    fn send(&self, to: usize, bytes: &[u8]) -> Result<(), CommunicatorError> {
        self.traffic.messages.fetch_add(1, Ordering::Relaxed);
        self.traffic
            .bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.to[to]
            .send(bytes.to_vec())
            .map_err(|_| CommunicatorError::new("send", format!("rank {to} has ended")))
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, CommunicatorError> {
        self.from[from]
            .recv()
            .map_err(|_| CommunicatorError::new("receive", format!("rank {from} has ended")))
    }

    fn library(&self) -> String {
        "threads of one process".to_owned()
    }

    /// Panics, which ends the other ranks when they wait for this one.
    fn abort(&self, code: i32) {
        panic!("rank {} aborts with code {code}", self.rank);
    }
}
