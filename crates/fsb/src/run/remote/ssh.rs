//! A connection to a host through the user's own ssh, with its configuration. Prompts for passwords
//! and unknown hosts appear once, while the connection is made. Afterwards ssh keeps it in the
//! background, and a session on it cannot prompt.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use fsb_model::{ErrorCode, Failure, code, failure};
use fsb_store::input::LARGEST_RECORD;
use tempfile::TempDir;

/// The longest wait for a login. sshd itself waits two minutes for a password.
const LOGIN: Duration = Duration::from_secs(150);
/// The longest wait for the end of an ssh whose session has ended.
const END: Duration = Duration::from_secs(10);
/// The number of lines of ssh's errors that a message quotes.
const QUOTED: usize = 3;
/// The prefix of the names of directories that hold a connection.
const DIRECTORY: &str = "fsb-ssh-";
/// The file in such a directory that the errors of ssh are written to. It is locked as long as the
/// connection is held.
const ERRORS: &str = "errors";
/// The shell commands that describe a host. They change nothing.
const FACTS: &str = include_str!("facts.sh");
/// The shell commands that store fsb on a host in a directory of its own, run it, and remove the
/// directory. They read the size of the program from a line, or 0 for the fsb that is installed
/// there, then the program.
const START: &str = include_str!("start.sh");

/// The properties of a host that decide whether fsb can run there.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `uname -s`, `-r` and `-m`.
    pub system: String,
    pub release: String,
    pub architecture: String,
    /// The answer of the host's own `fsb --version`; empty without one.
    pub own: String,
    /// The answer of sudo if it does not run commands without a password.
    pub refused_sudo: Option<String>,
    /// The file systems of its kernel and of its modules; `None` if it does not list its modules.
    pub drivers: Option<BTreeSet<String>>,
    /// The programs whose names begin with `mk`, those of mkfs among them.
    pub programs: BTreeSet<String>,
}

/// A host on which the user is logged in. Dropping it logs out.
#[derive(Debug)]
pub struct Connection {
    /// The host, as the user named it.
    pub host: String,
    pub facts: Facts,
    /// Holds the socket of the connection; no other user can enter it.
    directory: TempDir,
    /// Locked while this process lives, so that no other one removes the directory.
    _errors: File,
}

impl Connection {
    /// Logs in, and asks for the properties of the host. ssh may prompt on the terminal.
    pub fn open(host: &str, sudo: bool) -> anyhow::Result<Connection> {
        let parent = std::env::var_os("XDG_RUNTIME_DIR").filter(|parent| !parent.is_empty());
        // The path of a socket has at most 108 bytes, and ssh adds 17 of its own.
        let parent = parent
            .filter(|parent| parent.len() < 60)
            .unwrap_or_else(|| "/tmp".into());
        sweep(Path::new(&parent));
        let directory = tempfile::Builder::new()
            .prefix(DIRECTORY)
            .tempdir_in(parent);
        let directory = directory.context("cannot make a directory for the connection")?;
        // A file, not a pipe: the ssh in the background may keep it open.
        let errors = directory.path().join(ERRORS);
        let held = locked(&errors).context("cannot make a file for the errors of ssh")?;
        let file = held
            .try_clone()
            .context("cannot open the file for the errors of ssh")?;
        let mut connection = Connection {
            host: host.to_owned(),
            facts: Facts::default(),
            directory,
            _errors: held,
        };
        let mut command = connection.ssh();
        command.args([
            "-o",
            "ControlMaster=yes",
            "-o",
            "ControlPersist=60",
            "-o",
            "ConnectTimeout=20",
        ]);
        command.args([
            "-o",
            "ServerAliveInterval=10",
            "-o",
            "ServerAliveCountMax=4",
        ]);
        command
            .args(["-n", "--", host])
            .arg(script(FACTS, sudo_word(sudo)));
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn();
        let mut child = child.map_err(|error| not_installed(&error))?;
        let mut answer = String::new();
        let (sender, lines) = channel();
        read_lines(child.stdout.take(), sender, |line| line);
        let started = Instant::now();
        loop {
            match lines.recv_timeout(LOGIN.saturating_sub(started.elapsed())) {
                Ok(line) => answer += &line,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(unreachable(
                        host,
                        "the login did not end within 150 s; a mount of the host may hang",
                    ));
                }
            }
        }
        let status = child.wait()?;
        let said = std::fs::read_to_string(&errors).unwrap_or_default();
        match Facts::parse(&answer) {
            Some(facts) => connection.facts = facts,
            None if status.success() => {
                return Err(unreachable(
                    host,
                    "its login shell did not run the command of fsb",
                ));
            }
            None => return Err(unreachable(host, &quote(said.lines()))),
        }
        Ok(connection)
    }

    /// Returns the command for ssh with the options that all uses share.
    fn ssh(&self) -> Command {
        let mut command = Command::new("ssh");
        let mut socket = std::ffi::OsString::from("ControlPath=");
        socket.push(self.directory.path().join("socket"));
        command.arg("-o").arg(socket);
        // A session carries nothing but its input and output, whatever the user's configuration
        // adds to a login.
        for option in [
            "RequestTTY=no",
            "RemoteCommand=none",
            "ClearAllForwardings=yes",
            "ForwardAgent=no",
            "ForwardX11=no",
        ] {
            command.args(["-o", option]);
        }
        command
    }

    /// Starts the session of a run. The host changes nothing before it has read a line with the
    /// size of a program.
    pub fn session(&self, sudo: bool) -> anyhow::Result<Session> {
        let mut command = self.ssh();
        // A session uses the connection or fails: it never makes one of its own.
        command.args([
            "-o",
            "ControlMaster=no",
            "-o",
            "BatchMode=yes",
            "-o",
            "ProxyCommand=false",
            "--",
            &self.host,
        ]);
        command.arg(script(START, sudo_word(sudo)));
        // Ctrl-C is for fsb, which then ends the session.
        command.process_group(0);
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|error| not_installed(&error))?;
        let (sender, heard) = channel();
        read_lines(child.stderr.take(), sender.clone(), Heard::Message);
        read_lines(child.stdout.take(), sender, Heard::Line);
        Ok(Session {
            stdin: child.stdin.take(),
            child,
            heard,
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut command = self.ssh();
        command.args(["-O", "exit", "--", &self.host]);
        let _ = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// Creates a locked file. It has its name only when it is locked.
fn locked(path: &Path) -> io::Result<File> {
    let unlocked = path.with_extension("new");
    let file = File::create(&unlocked)?;
    // Without locks here, a directory that a killed process leaves stays.
    let _ = file.try_lock();
    std::fs::rename(unlocked, path)?;
    Ok(file)
}

/// Removes the directories of this user's connections that killed processes left.
fn sweep(parent: &Path) {
    /// No directory takes this long to be made.
    const MAKING: Duration = Duration::from_secs(3600);
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Ok(found) = entry.metadata() else {
            continue;
        };
        let is_connection = name.as_encoded_bytes().starts_with(DIRECTORY.as_bytes());
        if !is_connection || !found.is_dir() || found.uid() != own {
            continue;
        }
        let is_left = match File::open(entry.path().join(ERRORS)) {
            Ok(errors) => errors.try_lock().is_ok(),
            // It is being made, or its process was killed meanwhile.
            Err(_) => {
                let age = found.modified().ok().and_then(|made| made.elapsed().ok());
                age.is_some_and(|age| age > MAKING)
            }
        };
        if is_left {
            let _ = fsb_store::remove_tree(&entry.path());
        }
    }
}

impl Facts {
    /// Parses the lines of the script. A login shell may print other lines.
    fn parse(answer: &str) -> Option<Facts> {
        let line = |name: &str| {
            answer
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        let mut words = line("fsb-host ")?.split_whitespace().map(str::to_owned);
        let all = |name: &str| {
            let values = answer.lines().filter_map(|line| line.strip_prefix(name));
            values
                .map(|value| value.trim().to_owned())
                .collect::<BTreeSet<String>>()
        };
        let drivers = all("fsb-driver ");
        Some(Facts {
            system: words.next()?,
            release: words.next()?,
            architecture: words.next()?,
            own: line("fsb-own").unwrap_or_default().to_owned(),
            refused_sudo: line("fsb-sudo").map(str::to_owned),
            drivers: Some(drivers)
                .filter(|drivers| !drivers.is_empty() && line("fsb-drivers ").is_some()),
            programs: all("fsb-program "),
        })
    }
}

/// A line of a session.
#[derive(Debug)]
pub enum Heard {
    /// A line of standard output.
    Line(String),
    /// A line of standard error: of fsb there, or of ssh here.
    Message(String),
}

/// A running session. Dropping it ends it: the host notices the end of its input.
#[derive(Debug)]
pub struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<Heard>,
}

impl Session {
    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(bytes)
    }

    /// Ends the input of the session.
    pub fn finish_input(&mut self) {
        self.stdin = None;
    }

    /// Waits for a line. Returns `None` when the session has ended.
    ///
    /// # Errors
    ///
    /// If no line comes within `limit`.
    pub fn hear(&self, limit: Duration) -> Result<Option<Heard>, RecvTimeoutError> {
        match self.heard.recv_timeout(limit) {
            Ok(heard) => Ok(Some(heard)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(timeout) => Err(timeout),
        }
    }

    /// Returns the exit code of the command on the host; `None` if the connection has ended before
    /// it.
    pub fn status(&mut self) -> Option<u8> {
        /// The exit code with which ssh reports an error of its own.
        const OF_SSH: i32 = 255;
        self.finish_input();
        let started = Instant::now();
        let status: Option<ExitStatus> = loop {
            match self.child.try_wait() {
                Ok(None) if started.elapsed() < END => thread::sleep(Duration::from_millis(20)),
                ended => break ended.ok().flatten(),
            }
        };
        let code = status.filter(|status| status.signal().is_none())?.code()?;
        u8::try_from(code).ok().filter(|_| code != OF_SSH)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends each line of a stream from a thread of its own.
fn read_lines<T: Send + 'static>(
    stream: Option<impl Read + Send + 'static>,
    to: Sender<T>,
    wrap: fn(String) -> T,
) {
    let Some(stream) = stream else { return };
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            let read = (&mut stream)
                .take(LARGEST_RECORD)
                .read_until(b'\n', &mut line);
            let is_end = !matches!(read, Ok(1..))
                || to
                    .send(wrap(String::from_utf8_lossy(&line).into_owned()))
                    .is_err();
            if is_end {
                return;
            }
        }
    });
}

/// Returns the command that runs a script, for any login shell.
fn script(text: &str, arguments: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    format!("exec sh -c '{}' fsb {arguments}", lines.join(" "))
}

fn sudo_word(sudo: bool) -> &'static str {
    if sudo { "sudo" } else { "" }
}

/// Returns the last lines of a program's errors in one line.
pub fn quote<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let lines: Vec<&str> = lines
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines[lines.len().saturating_sub(QUOTED)..].join(" | ")
}

fn not_installed(error: &io::Error) -> anyhow::Error {
    failure::advised_call(
        &code::UNREACHABLE,
        error,
        format!("cannot run ssh: {error}"),
        "install the package openssh-client",
    )
}

fn unreachable(host: &str, why: &str) -> anyhow::Error {
    let help = login_help(host, why);
    about(
        &code::UNREACHABLE,
        host,
        &format!("cannot log in: {why}"),
        &help,
    )
}

/// Returns an error about a host, with its remedy.
pub fn about(code: &'static ErrorCode, host: &str, message: &str, help: &str) -> anyhow::Error {
    let fields = fsb_model::code::fields([("host", host.into())]);
    let failure = Failure::new(code, format!("{host}: {message}; {help}"));
    Failure {
        fields,
        help: Some(help.to_owned()),
        ..failure
    }
    .into()
}

/// Returns the remedy for an answer of ssh.
fn login_help(host: &str, answer: &str) -> String {
    let name = host.rsplit('@').next().unwrap_or(host);
    if answer.contains("Host key verification failed") {
        return format!(
            "compare its key with that of its administrator, then log in once with: ssh {host}"
        );
    }
    if answer.contains("Permission denied") {
        return format!("install your key there: ssh-copy-id {host}");
    }
    format!("check the name, and that {name} runs sshd: ssh {host} true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_between_other_lines() {
        let answer = "Welcome!\nfsb-host Linux 6.1.0-56-amd64 x86_64\nfsb-own fsb 0.1.0\nfsb-driver ext4\nfsb-driver xfs\n\
                      fsb-drivers all\nfsb-program mkfs.ext4\nfsb-program mktemp\nfsb-sudo sudo: a password is required\n";
        let facts = Facts::parse(answer).unwrap();
        assert_eq!(
            (facts.release.as_str(), facts.architecture.as_str()),
            ("6.1.0-56-amd64", "x86_64")
        );
        assert_eq!(
            (facts.own.as_str(), facts.refused_sudo.as_deref()),
            ("fsb 0.1.0", Some("sudo: a password is required"))
        );
        assert_eq!(
            facts.drivers,
            Some(["ext4", "xfs"].map(str::to_owned).into())
        );
        assert_eq!(
            facts.programs,
            ["mkfs.ext4", "mktemp"].map(str::to_owned).into()
        );
        // A host with modules that it does not list may have every driver.
        let bare = Facts::parse("fsb-host Linux 6.1 aarch64\nfsb-own \nfsb-driver ext4\n").unwrap();
        assert_eq!(
            (bare.own.as_str(), bare.refused_sudo, bare.drivers),
            ("", None, None)
        );
        assert_eq!(Facts::parse("This account is not available.\n"), None);
    }

    #[test]
    fn scripts_survive_every_login_shell() {
        for text in [FACTS, START] {
            // A single quote would end the word, and csh knows no line breaks within one.
            assert!(
                !text.contains('\'') && !script(text, "").contains('\n'),
                "{text}"
            );
        }
    }
}
