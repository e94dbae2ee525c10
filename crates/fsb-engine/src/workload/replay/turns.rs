//! How far each lane has come, for those that wait for it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;

/// Looks before a lane sleeps.
const LOOKS: u32 = 200;
/// The longest sleep without asking whether the others still live.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Calls that a lane has ended, on a cache line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Progress {
    ended: AtomicU32,
    sleepers: AtomicU32,
    /// When the last one did, and the one before it, by the parity of their numbers.
    ended_ns: [AtomicU64; 2],
}

/// When a call had ended that was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// At that time.
    At(u64),
    /// Some time before its lane was looked at, which had gone on.
    Before,
    /// While it was waited for; its lane has gone on since.
    Meanwhile,
}

/// All lanes.
#[derive(Debug)]
pub(super) struct Turns(Box<[Progress]>);

impl Turns {
    pub(super) fn new(lanes: u32) -> Turns {
        Turns((0..lanes.max(1)).map(|_| Progress::default()).collect())
    }

    /// One more call of the lane has ended, at that time.
    #[inline]
    pub(super) fn end(&self, lane: u32, number: u32, now_ns: u64) {
        let Some(progress) = self.0.get(lane as usize) else { return };
        progress.ended_ns[number as usize & 1].store(now_ns, Ordering::Release);
        progress.ended.store(number, Ordering::SeqCst);
        if progress.sleepers.load(Ordering::SeqCst) > 0 {
            let _ = futex::wake(&progress.ended, Flags::PRIVATE, i32::MAX as u32);
        }
    }

    /// Waits until the lane has ended so many calls; nothing where `given_up` said so first.
    #[inline]
    pub(super) fn wait(&self, lane: u32, number: u32, given_up: impl Fn() -> bool) -> Option<Ended> {
        let Some(progress) = self.0.get(lane as usize) else { return Some(Ended::Before) };
        let before = progress.ended.load(Ordering::Acquire);
        if before < number && !self.reach(progress, number, given_up) {
            return None;
        }
        let ended_ns = progress.ended_ns[number as usize & 1].load(Ordering::Acquire);
        // The time is written again by the next call but one only: where the lane stands at this one it is this one's.
        Some(match progress.ended.load(Ordering::Acquire) {
            ended if ended == number => Ended::At(ended_ns),
            _ if before < number => Ended::Meanwhile,
            _ => Ended::Before,
        })
    }

    #[inline]
    fn reach(&self, progress: &Progress, number: u32, given_up: impl Fn() -> bool) -> bool {
        for _ in 0..LOOKS {
            if progress.ended.load(Ordering::Acquire) >= number {
                return true;
            }
            std::hint::spin_loop();
        }
        progress.sleepers.fetch_add(1, Ordering::SeqCst);
        let reached = loop {
            let ended = progress.ended.load(Ordering::SeqCst);
            if ended >= number {
                break true;
            }
            if given_up() {
                break false;
            }
            let _ = futex::wait(&progress.ended, Flags::PRIVATE, ended, Some(&NAP));
        };
        progress.sleepers.fetch_sub(1, Ordering::SeqCst);
        reached
    }
}
