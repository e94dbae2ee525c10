//! The mechanisms that limit memory while a target is ready: a cgroup, or a process that locks
//! memory.
//!
//! The cgroup is of version 1 or 2. It contains all steps of a trial, with a remount between them,
//! and no other process of fsb. It is emptied between trials, so that no trial starts with page
//! cache that another one left.
//!
//! The process locks memory until only the limit is left for all others. This is the method of
//! 2011, for machines without a memory controller. It cannot distinguish the page cache of the
//! target from that of the rest of the machine, so it is less exact than a cgroup. The kernel kills
//! it first if memory runs out, and it dies with the process that started it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use fsb_model::observed::MemoryUse;
use fsb_sys::ballast::MemoryBallast;
use fsb_sys::cgroup::{Version, write};
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::read_trimmed;
use serde::{Deserialize, Serialize};

/// A limit in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryHold {
    /// Limits the processes in the cgroup.
    Cgroup(Cgroup),
    /// Limits all processes of the machine.
    Ballast(Arc<MemoryBallast>),
}

impl MemoryHold {
    /// Returns the bytes that may be in use, page cache included.
    pub fn limit(&self) -> u64 {
        match self {
            MemoryHold::Cgroup(cgroup) => cgroup.limit,
            MemoryHold::Ballast(ballast) => ballast.limit(),
        }
    }

    /// Prepares for a trial: removes the remains of an earlier one and checks that the limit still
    /// holds.
    pub fn begin_trial(&self) -> Result<(), TestbedError> {
        match self {
            MemoryHold::Cgroup(cgroup) => cgroup.empty().map_err(|(file, error)| {
                TestbedError::trial("the memory limit is gone")
                    .tried(attempt("renew", &file, &error))
            }),
            MemoryHold::Ballast(ballast) => ballast
                .holds()
                .map_err(|why| TestbedError::trial("the memory limit is gone").tried(why)),
        }
    }

    /// Moves a process into the cgroup. Does nothing for a ballast, which limits all processes.
    pub fn add(&self, pid: u32) -> Result<(), TestbedError> {
        let MemoryHold::Cgroup(cgroup) = self else {
            return Ok(());
        };
        cgroup.add(pid).map_err(|error| {
            TestbedError::trial("a process cannot be held to the memory limit").tried(attempt(
                "write to",
                &cgroup.processes(),
                &error,
            ))
        })
    }

    /// Returns the memory use since the trial began.
    pub fn usage(&self) -> MemoryUse {
        match self {
            MemoryHold::Cgroup(cgroup) => cgroup.usage(),
            MemoryHold::Ballast(ballast) => ballast.usage(),
        }
    }
}

/// The kernel charges at most this many bytes at once, so a limit may be reached before the last
/// byte is in use.
const LARGEST_FOLIO: u64 = 2 << 20;

/// A cgroup for the processes that measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    /// The version of its hierarchy.
    pub version: Version,
    /// The directory.
    pub path: PathBuf,
    /// The limit in bytes.
    pub limit: u64,
}

/// Returns the number in a file. Returns `None` if the file holds no number.
fn number(path: &Path) -> Option<u64> {
    read_trimmed(path)?.parse().ok()
}

/// Returns the number behind a word, as in `memory.stat` and `memory.events`.
fn entry(path: &Path, word: &str) -> Option<u64> {
    let text = read_trimmed(path)?;
    let line = text
        .lines()
        .find(|line| line.split_whitespace().next() == Some(word))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

impl Cgroup {
    /// Creates the cgroup. An error contains the file that the kernel refused and the error of the
    /// kernel; the cgroup is removed then.
    pub(super) fn make(
        version: Version,
        path: PathBuf,
        limit: u64,
    ) -> Result<Cgroup, (PathBuf, io::Error)> {
        let cgroup = Cgroup {
            version,
            path,
            limit,
        };
        cgroup.create().map(|()| cgroup)
    }

    fn create(&self) -> Result<(), (PathBuf, io::Error)> {
        // Fails on an existing directory, which belongs to another program.
        fs::create_dir(&self.path).map_err(|error| (self.path.clone(), error))?;
        self.limit_memory().inspect_err(|_| {
            // The first error is the one that explains.
            let _ = fs::remove_dir(&self.path);
        })
    }

    fn limit_memory(&self) -> Result<(), (PathBuf, io::Error)> {
        let limit = self.limit.to_string();
        // If swap is counted, it must not replace memory. The sum may not be below the memory
        // limit, hence the order.
        let files: &[(&str, &str, bool)] = match self.version {
            Version::V1 => &[
                ("memory.limit_in_bytes", &limit, true),
                ("memory.memsw.limit_in_bytes", &limit, false),
            ],
            Version::V2 => &[
                ("memory.max", &limit, true),
                ("memory.swap.max", "0", false),
            ],
        };
        for (name, value, required) in files {
            let file = self.path.join(name);
            match write(&file, value) {
                Err(error) if *required || error.kind() != io::ErrorKind::NotFound => {
                    return Err((file, error));
                }
                _ => {}
            }
        }
        let (file, _, _) = files[0];
        match number(&self.path.join(file)) {
            // The kernel rounds to pages.
            Some(held) if held.abs_diff(self.limit) < 1 << 16 => Ok(()),
            held => {
                let held = held.map_or_else(|| "none".to_owned(), |held| held.to_string());
                Err((
                    self.path.join(file),
                    io::Error::other(format!("the limit in force is {held}")),
                ))
            }
        }
    }

    /// Returns the file to which a process id is written to move it in. 0 is the writing process
    /// itself.
    pub fn processes(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Moves a process in.
    pub(crate) fn add(&self, pid: u32) -> io::Result<()> {
        write(&self.processes(), &pid.to_string())
    }

    /// Frees the memory that earlier trials left charged, and resets the counters.
    pub(super) fn empty(&self) -> Result<(), (PathBuf, io::Error)> {
        match self.version {
            Version::V1 => {
                // Ignores errors: remaining memory is charged to the limit, and counters are only
                // compared.
                let _ = write(&self.path.join("memory.force_empty"), "0");
                let _ = write(&self.path.join("memory.max_usage_in_bytes"), "0");
                Ok(())
            }
            // Neither the peak nor the events can be reset, so the cgroup is replaced by a new one.
            // It stays if it contains a FUSE server.
            Version::V2 => match fs::remove_dir(&self.path) {
                Ok(()) => self.create(),
                Err(_) => {
                    let _ = write(&self.path.join("memory.reclaim"), &self.limit.to_string());
                    Ok(())
                }
            },
        }
    }

    /// Returns the memory use since it was last emptied.
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
                usage.cache_bytes =
                    entry(&at("memory.stat"), "total_cache").or(entry(&at("memory.stat"), "cache"));
                // Newer kernels do not count how often the limit was reached, so the peak decides.
                usage.reached = usage
                    .peak_bytes
                    .map(|peak| peak + LARGEST_FOLIO > self.limit);
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
