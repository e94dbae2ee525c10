//! The mechanisms that limit memory while a target is visited: a cgroup, or a process that locks memory.
//!
//! The cgroup is of version 1 or 2. All steps of a trial are in it, with a remount between them, and nothing else of
//! ours is. It is emptied between trials, so that no trial begins with what another left.
//!
//! The process locks memory until no more than the limit is left for everybody. This is the way of 2011, for machines
//! without a memory controller. It cannot tell the page cache of the target from that of the rest of the machine, so it
//! holds less well than a cgroup does. The kernel kills it first if memory runs out, and it dies with the process that
//! started it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsb_model::observed::MemoryUse;
use fsb_sys::ballast::MemoryBallast;
use fsb_sys::cgroup::{Version, write};
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::read_trimmed;
use serde::{Deserialize, Serialize};

/// A limit in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryHold {
    /// Whoever is in it is held.
    Cgroup(Cgroup),
    /// Everybody is.
    Ballast(Arc<MemoryBallast>),
}

impl MemoryHold {
    /// Bytes that may be in use, page cache included.
    pub fn limit(&self) -> u64 {
        match self {
            MemoryHold::Cgroup(cgroup) => cgroup.limit,
            MemoryHold::Ballast(ballast) => ballast.limit(),
        }
    }

    /// Makes ready for a trial: nothing of an earlier one is left, and the limit still holds.
    pub fn begin_trial(&self) -> Result<(), TestbedError> {
        match self {
            MemoryHold::Cgroup(cgroup) => cgroup.empty().map_err(|(file, error)| {
                TestbedError::trial("the memory limit is gone").tried(attempt("renew", &file, &error))
            }),
            MemoryHold::Ballast(ballast) => {
                ballast.holds().map_err(|why| TestbedError::trial("the memory limit is gone").tried(why))
            }
        }
    }

    /// Moves a process in, where the limit holds only those that are in it.
    pub fn add(&self, pid: u32) -> Result<(), TestbedError> {
        let MemoryHold::Cgroup(cgroup) = self else { return Ok(()) };
        cgroup.add(pid).map_err(|error| {
            TestbedError::trial("a process cannot be held to the memory limit").tried(attempt(
                "write to",
                &cgroup.processes(),
                &error,
            ))
        })
    }

    /// What it did since the trial began.
    pub fn usage(&self) -> MemoryUse {
        match self {
            MemoryHold::Cgroup(cgroup) => cgroup.usage(),
            MemoryHold::Ballast(ballast) => ballast.usage(),
        }
    }
}

/// The kernel charges at most so much at once: a limit is met before the last byte is in use.
const LARGEST_FOLIO: u64 = 2 << 20;

/// A cgroup that holds what measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    /// Which kind of hierarchy it is in.
    pub version: Version,
    /// Its directory.
    pub path: PathBuf,
    /// Its limit in bytes.
    pub limit: u64,
}

/// A number in a file, where it is one.
fn number(path: &Path) -> Option<u64> {
    read_trimmed(path)?.parse().ok()
}

/// The number behind a word: `memory.stat`, `memory.events`.
fn entry(path: &Path, word: &str) -> Option<u64> {
    let text = read_trimmed(path)?;
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(word))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

impl Cgroup {
    /// Makes it. The file that the kernel refused and its answer stand in the error; nothing is left then.
    pub(super) fn make(version: Version, path: PathBuf, limit: u64) -> Result<Cgroup, (PathBuf, io::Error)> {
        let cgroup = Cgroup { version, path, limit };
        cgroup.create().map(|()| cgroup)
    }

    fn create(&self) -> Result<(), (PathBuf, io::Error)> {
        // One that is there already is somebody else's.
        fs::create_dir(&self.path).map_err(|error| (self.path.clone(), error))?;
        self.limit_memory().inspect_err(|_| {
            // The first error is the one that explains.
            let _ = fs::remove_dir(&self.path);
        })
    }

    fn limit_memory(&self) -> Result<(), (PathBuf, io::Error)> {
        let limit = self.limit.to_string();
        // Where swap is counted it must not stand in for memory. The sum may not be below its part, hence the order.
        let files: &[(&str, &str, bool)] = match self.version {
            Version::V1 => &[("memory.limit_in_bytes", &limit, true), ("memory.memsw.limit_in_bytes", &limit, false)],
            Version::V2 => &[("memory.max", &limit, true), ("memory.swap.max", "0", false)],
        };
        for (name, value, required) in files {
            let file = self.path.join(name);
            match write(&file, value) {
                Err(error) if *required || error.kind() != io::ErrorKind::NotFound => return Err((file, error)),
                _ => {}
            }
        }
        let (file, _, _) = files[0];
        match number(&self.path.join(file)) {
            // The kernel rounds to pages.
            Some(held) if held.abs_diff(self.limit) < 1 << 16 => Ok(()),
            held => {
                let held = held.map_or_else(|| "none".to_owned(), |held| held.to_string());
                Err((self.path.join(file), io::Error::other(format!("the limit in force is {held}"))))
            }
        }
    }

    /// The file to which a process id is written to move it in; 0 is the writer itself.
    pub fn processes(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Moves a process in.
    pub(crate) fn add(&self, pid: u32) -> io::Result<()> {
        write(&self.processes(), &pid.to_string())
    }

    /// Gives back what earlier trials left, and counts from zero.
    pub(super) fn empty(&self) -> Result<(), (PathBuf, io::Error)> {
        match self.version {
            Version::V1 => {
                // Neither is a reason to stop: what stays is charged to the limit, and what is counted is compared.
                let _ = write(&self.path.join("memory.force_empty"), "0");
                let _ = write(&self.path.join("memory.max_usage_in_bytes"), "0");
                Ok(())
            }
            // Neither its peak nor its events can be reset: a new one has none. With a FUSE server in it, it stays.
            Version::V2 => match fs::remove_dir(&self.path) {
                Ok(()) => self.create(),
                Err(_) => {
                    let _ = write(&self.path.join("memory.reclaim"), &self.limit.to_string());
                    Ok(())
                }
            },
        }
    }

    /// What it held since it was last emptied.
    pub(super) fn usage(&self) -> MemoryUse {
        let at = |name: &str| self.path.join(name);
        let mut usage = MemoryUse {
            mechanism: self.version.mechanism().to_owned(),
            limit_bytes: self.limit,
            ..MemoryUse::default()
        };
        match self.version {
            Version::V1 => {
                usage.peak_bytes = number(&at("memory.max_usage_in_bytes"));
                usage.cache_bytes = entry(&at("memory.stat"), "total_cache").or(entry(&at("memory.stat"), "cache"));
                // Newer kernels do not count how often the limit was met, so the peak tells.
                usage.reached = usage.peak_bytes.map(|peak| peak + LARGEST_FOLIO > self.limit);
                usage.oom_kills = entry(&at("memory.oom_control"), "oom_kill");
            }
            Version::V2 => {
                usage.peak_bytes = number(&at("memory.peak"));
                usage.cache_bytes = entry(&at("memory.stat"), "file");
                usage.reached = entry(&at("memory.events"), "max").map(|times| times > 0);
                usage.oom_kills = entry(&at("memory.events"), "oom_kill");
            }
        }
        usage
    }
}
