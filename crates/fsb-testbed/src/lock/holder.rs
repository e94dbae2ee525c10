//! The runs that measure: as they identify themselves, and as the kernel shows their processes.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use fsb_sys::sandbox;
use serde::{Deserialize, Serialize};

use crate::ledger::Owner;

/// The largest size of a file that is read, in bytes.
pub(super) const LARGEST: u64 = 64 << 10;

/// The length of a command line in messages, in characters.
const TOLD: usize = 256;

/// A run that measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    #[serde(flatten)]
    pub owner: Owner,
    command: String,
    /// The user of the run, if only the kernel showed the run.
    #[serde(skip)]
    user: Option<u32>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.user {
            None => write!(f, "process {} ({})", self.owner.pid, self.command),
            Some(user) => write!(f, "process {} of user {user} ({})", self.owner.pid, self.command),
        }
    }
}

impl Holder {
    /// Returns this process, which runs `command`.
    pub fn current(command: &str) -> Holder {
        Holder { owner: Owner::current(), command: plain(command), user: None }
    }

    /// Formats it as one line of JSON.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Parses a line. Returns `None` if it is invalid.
    pub fn of_line(line: &str) -> Option<Holder> {
        let holder: Holder = serde_json::from_str(line).ok()?;
        Some(Holder { command: plain(&holder.command), ..holder })
    }

    pub fn is_alive(&self) -> bool {
        self.owner.is_alive()
    }
}

/// Removes control characters and shortens the text, for output on a terminal.
fn plain(command: &str) -> String {
    command.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TOLD).collect()
}

/// Reads the runs that a file lists.
pub(super) fn read(file: &mut File) -> Vec<Holder> {
    let mut text = Vec::new();
    let _ = file.rewind();
    let _ = file.take(LARGEST).read_to_end(&mut text);
    String::from_utf8_lossy(&text).lines().filter_map(Holder::of_line).collect()
}

/// Returns the runs of other users, by their supervisors. Any process can have that name, so this justifies a warning
/// only. A run without a supervisor (`fsb postmark`, `fsb filebench`) is not found.
pub(super) fn users(own: &Holder) -> Vec<Holder> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit));
    let me = rustix::process::geteuid().as_raw();
    // Reading a status takes ten times as long as a name, and there may be thousands of processes.
    let supervisors = pids.map(|entry| entry.path()).filter(|process| is_supervisor(process));
    let found = supervisors.filter_map(|process| of_supervisor(&fsb_sys::read_text(process.join("status")).ok()?));
    found.filter(|holder| holder.user != Some(me) && holder.owner.pid != own.owner.pid).collect()
}

/// Returns whether a process has the supervisor's name, by its directory in /proc.
fn is_supervisor(process: &Path) -> bool {
    let mut name = [0; 32];
    let length = File::open(process.join("comm")).and_then(|mut file| file.read(&mut name)).unwrap_or(0);
    name[..length].trim_ascii_end() == sandbox::SUPERVISOR.to_bytes()
}

/// Returns the run of a supervisor, from the supervisor's `/proc/PID/status`.
fn of_supervisor(status: &str) -> Option<Holder> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    if field("Name")?.as_bytes() != sandbox::SUPERVISOR.to_bytes()
        || field("State").is_some_and(|state| state.starts_with('Z'))
    {
        return None;
    }
    let user = field("Uid")?.split('\t').next()?.parse().ok()?;
    let owner = Owner { pid: field("PPid")?.parse().ok()?, start_time: 0 };
    Some(Holder { owner, command: "fsb".to_owned(), user: Some(user) })
}
