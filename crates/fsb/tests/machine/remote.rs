//! Runs on another host: Debian's sshd in a mount and a network namespace of its own, behind a
//! proxy that delays, throttles and cuts.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tempfile::TempDir;

use crate::common::*;

/// A host that runs sshd, and this side's configuration of ssh for it. Its name is `box`, another
/// one is `other`. Its network is a loopback device of its own, which only the proxy enters.
struct Host {
    /// The files of both sides. They are in /run, because the host has a /tmp of its own.
    files: TempDir,
    /// The directory on a disk in which the host measures.
    data: TempDir,
    sshd: Running,
    proxy: Proxy,
}

/// Commands that prepare the mounts of an ordinary host.
const ROOMY: &str = "mount -t tmpfs tmpfs /tmp";

/// Commands that also give the host a run lock of its own, so that it measures beside another one.
const APART: &str =
    "mount -t tmpfs tmpfs /tmp && mkdir -p /run/fsb && mount -t tmpfs -o mode=755 tmpfs /run/fsb";

/// Commands that leave a host ext4 alone, without modules.
const ONLY_EXT4: &str = "mount -t tmpfs tmpfs /tmp && printf 'nodev\\ttmpfs\\n\\text4\\n' >FILES/filesystems && \
    mount --bind FILES/filesystems /proc/filesystems && if [ -d /lib/modules ]; then mount -t tmpfs tmpfs /lib/modules && \
    mkdir /lib/modules/$(uname -r) && touch /lib/modules/$(uname -r)/modules.alias; fi";

/// Commands that also let the user nobody log in and use sudo.
const USERS: &str = "mount -t tmpfs tmpfs /tmp && sed 's|^nobody:.*|nobody:x:65534:65534::/var/tmp:/bin/sh|' /etc/passwd >FILES/passwd && \
    mount --bind FILES/passwd /etc/passwd && echo 'nobody ALL=(ALL) NOPASSWD: ALL' >FILES/sudoers && \
    chmod 440 FILES/sudoers && mount --bind FILES/sudoers /etc/sudoers";

impl Host {
    /// Starts sshd after the commands `mounts` in a mount namespace. They may use the directory
    /// `FILES`.
    fn start(mounts: &str) -> Result<Host, String> {
        fsb_testkit::root()?;
        fsb_testkit::programs(&["sshd", "ssh", "ssh-keygen", "unshare", "ip", "mkfs.ext4"])?;
        let files = tempfile::Builder::new()
            .prefix("fsb-ssh-test-")
            .tempdir_in("/run")
            .map_err(|error| error.to_string())?;
        // sshd reads the keys of a user with the rights of the user.
        fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755))
            .expect("a directory of ours");
        let path = |name: &str| files.path().join(name);
        for key in ["host_key", "id", "other_key"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(path(key))
                .status();
            assert!(made.expect("ssh-keygen runs").success());
        }
        // The directory in which sshd separates its privileges.
        fs::create_dir_all("/run/sshd").expect("root makes directories");
        fs::create_dir_all(path("programs")).expect("a new directory");
        fs::create_dir_all(path("bin")).expect("a new directory");
        fs::create_dir_all(path("runtime")).expect("a new directory");
        fs::copy(path("id.pub"), path("authorized_keys")).expect("the key is there");
        let here = files.path().display();
        let server = format!(
            "Port {PORT}\nListenAddress 127.0.0.1\nHostKey {here}/host_key\nAuthorizedKeysFile {here}/authorized_keys\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n\
             SetEnv PATH={here}/programs:/usr/sbin:/usr/bin:/sbin:/bin\n"
        );
        fs::write(path("sshd_config"), server).expect("a new file");
        let mounts = mounts.replace("FILES", &here.to_string());
        // The mounts may hide the directory of fsb.
        let shown = format!("touch {here}/fsb && mount --bind {FSB} {here}/fsb");
        let command = format!(
            "ip link set lo up && {shown} && {mounts} && exec /usr/sbin/sshd -D -e -f {here}/sshd_config"
        );
        let data = tempfile::Builder::new()
            .prefix("fsb-test-")
            .tempdir_in("/var/tmp")
            .map_err(|error| error.to_string())?;
        let mut unshare = Command::new("unshare");
        unshare
            .args([
                "--mount",
                "--propagation",
                "private",
                "--net",
                "sh",
                "-c",
                &command,
            ])
            .current_dir("/");
        let errors = fs::File::create(path("sshd.log")).expect("a new file");
        let sshd = unshare
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .expect("unshare runs");
        // unshare becomes the shell, and the shell becomes sshd: all of them have one process id.
        let server = sshd.id();
        let proxy = Proxy::start(server);
        let client = format!(
            "Host box other\nHostName 127.0.0.1\nPort {}\nUser root\nIdentityFile {here}/id\nIdentitiesOnly yes\n\
             HostKeyAlias box\nUserKnownHostsFile {here}/known_hosts\nGlobalKnownHostsFile /dev/null\n\
             StrictHostKeyChecking yes\n",
            proxy.port
        );
        fs::write(path("config"), client).expect("a new file");
        let host = Host {
            files,
            data,
            sshd: Running::from_child(sshd),
            proxy,
        };
        host.know("host_key.pub");
        host.program(
            "bin/ssh",
            &format!(
                "exec /usr/bin/ssh -F {}/config \"$@\"",
                host.files.path().display()
            ),
        );
        wait_until("sshd listens", Duration::from_secs(20), || {
            connect(server).is_some()
        });
        Ok(host)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Makes ssh expect that key of the host.
    fn know(&self, key: &str) {
        let key = fs::read_to_string(self.path(key)).expect("the key is there");
        fs::write(self.path("known_hosts"), format!("box {key}")).expect("it can be written");
    }

    /// Writes a program. Those in `programs` are found first on the host, those in `bin` here.
    fn program(&self, name: &str, script: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("it can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    }

    /// Installs this fsb on the host.
    fn install_fsb(&self) {
        self.program(
            "programs/fsb",
            &format!("exec {} \"$@\"", self.path("fsb").display()),
        );
    }

    /// Returns a command that runs fsb here, with this ssh.
    fn fsb(&self, directory: &Path, arguments: &[&str]) -> Command {
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let mut command = command(directory, arguments);
        command
            .env("PATH", path)
            .env("XDG_RUNTIME_DIR", self.path("runtime"))
            .env("FSB_MESSAGE_FORMAT", "json")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, directory: &Path, arguments: &[&str]) -> Output {
        self.fsb(directory, arguments)
            .output()
            .expect("the program starts")
    }

    fn spawn(&self, directory: &Path, arguments: &[&str]) -> Running {
        let mut command = self.fsb(directory, arguments);
        Running::from_child(
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program starts"),
        )
    }

    /// Returns the arguments of a run on the host, of `blocks` blocks, that is stored in `run`.
    fn arguments(&self, blocks: &'static str) -> Vec<String> {
        let data = self.data.path().display().to_string();
        let fixed = [
            "run",
            "tiny.toml",
            "ext4",
            "--size",
            "64M",
            "--out",
            "run",
            "--on",
            "box",
            "--blocks",
            blocks,
        ];
        fixed
            .into_iter()
            .map(str::to_owned)
            .chain(["--dir".to_owned(), data])
            .collect()
    }

    /// Returns the programs and directories that fsb has left on the host, which it removes when
    /// its run has ended.
    fn left(&self) -> Vec<String> {
        let root = PathBuf::from(format!("/proc/{}/root", self.sshd.id()));
        let mut left = Vec::new();
        for directory in ["tmp", "var/tmp", "root"] {
            let entries = fs::read_dir(root.join(directory))
                .into_iter()
                .flatten()
                .flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            // Directories of tests have a second hyphen.
            left.extend(names.filter(|name| {
                name.strip_prefix("fsb-")
                    .is_some_and(|rest| !rest.contains('-'))
            }));
        }
        left.extend(
            fs::read_dir(self.data.path())
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| format!("{entry:?}")),
        );
        left.extend(
            ["__remote", "__remote-run"]
                .into_iter()
                .flat_map(processes_of),
        );
        left
    }

    fn expect_nothing_left(&self) {
        let mut left = Vec::new();
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            left = self.left();
            if left.is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("left on the host: {left:?}");
    }
}

/// The port of sshd in the network of a host.
const PORT: u16 = 22;

/// Connects to sshd in the network of the process `server`.
fn connect(server: u32) -> Option<TcpStream> {
    // The thread that enters the other network ends there.
    let connect = move || {
        let network = format!("/proc/{server}/ns/net");
        // The process has not left the network of this machine, which may have an sshd of its own.
        if fs::read_link(&network).ok()? == fs::read_link("/proc/self/ns/net").ok()? {
            return None;
        }
        let network = fs::File::open(network).ok()?;
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).ok()?;
        TcpStream::connect(("127.0.0.1", PORT)).ok()
    };
    thread::spawn(connect).join().ok().flatten()
}

/// Returns the directories in /proc of processes whose first argument is `role`.
fn processes_of(role: &str) -> Vec<String> {
    let paths = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let has_role = |path: &PathBuf| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(role.as_bytes())
    };
    paths
        .filter(has_role)
        .map(|path| path.display().to_string())
        .collect()
}

/// Returns whether a process with that role waits for the answer of a FUSE server.
fn waits_for_fuse(role: &str) -> bool {
    let place = |path: String| fs::read_to_string(format!("{path}/wchan")).unwrap_or_default();
    processes_of(role)
        .into_iter()
        .any(|path| place(path).contains("request_wait"))
}

/// A TCP proxy between ssh and sshd.
struct Proxy {
    port: u16,
    rules: Arc<Rules>,
}

struct Rules {
    /// The connection is cut when the client has sent more bytes, and no new one is accepted.
    limit: AtomicU64,
    sent: AtomicU64,
    /// Nothing is forwarded any more, and nothing is closed.
    silent: AtomicBool,
    /// Milliseconds by which each chunk is delayed.
    delay: AtomicU64,
    /// The largest number of bytes that pass in each direction per second.
    rate: AtomicU64,
}

impl Proxy {
    /// Starts a proxy for the host whose sshd is the process `server`.
    fn start(server: u32) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let rules = Arc::new(Rules {
            limit: AtomicU64::new(u64::MAX),
            sent: AtomicU64::new(0),
            silent: AtomicBool::new(false),
            delay: AtomicU64::new(0),
            rate: AtomicU64::new(u64::MAX),
        });
        let shared = Arc::clone(&rules);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Some(server) = connect(server) else {
                    continue;
                };
                let (back, forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (one, two) = (Arc::clone(&shared), Arc::clone(&shared));
                thread::spawn(move || forward(client, forth, &one, true));
                thread::spawn(move || forward(server, back, &two, false));
            }
        });
        Proxy { port, rules }
    }

    /// Cuts the connection when the client has sent `bytes` more.
    fn cut_after(&self, bytes: u64) {
        let now = self.rules.sent.load(Ordering::SeqCst);
        self.rules
            .limit
            .store(now.saturating_add(bytes), Ordering::SeqCst);
    }

    /// Lets new connections pass.
    fn mend(&self) {
        self.rules.limit.store(u64::MAX, Ordering::SeqCst);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, rules: &Rules, is_client: bool) {
    let mut buffer = [0; 16 << 10];
    // A cut must not wait for the next byte of the other side.
    let _ = from.set_read_timeout(Some(Duration::from_millis(20)));
    loop {
        if rules.sent.load(Ordering::SeqCst) >= rules.limit.load(Ordering::SeqCst) {
            break;
        }
        if rules.silent.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(20));
            continue;
        }
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => break,
        };
        thread::sleep(Duration::from_millis(rules.delay.load(Ordering::SeqCst)));
        thread::sleep(Duration::from_secs_f64(
            count as f64 / rules.rate.load(Ordering::SeqCst) as f64,
        ));
        if is_client {
            rules.sent.fetch_add(count as u64, Ordering::SeqCst);
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn texts(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn a_run_on_a_host_is_stored_here_and_leaves_nothing_there() {
    let host = needs!(Host::start(ROOMY));
    let before = traces();
    let scratch = scratch();
    tiny_plan(scratch.path());
    host.proxy.rules.delay.store(2, Ordering::SeqCst);
    let output = host.run(scratch.path(), &texts(&host.arguments("2")));
    expect_code(&output, 0);
    let run = scratch.path().join("run");
    let record = record(&run);
    assert_eq!(record["on"], "box");
    assert_eq!(
        record["plan"]["dir"],
        host.data.path().display().to_string()
    );
    assert!(
        !record["stop_reason"].is_null() && !record["segments"][0]["ended"].is_null(),
        "{record:#}"
    );
    assert_eq!(
        counting(&run)
            .iter()
            .filter(|trial| trial["block"] != 0)
            .count(),
        14
    );
    assert!(run.join("report.html").is_file() && run.join("trials.csv").is_file());
    assert!(
        has_message(&output, "note/stopping-rule"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains("ext4"), "{}", stdout(&output));
    host.expect_nothing_left();
    expect_no_traces(&before);
}

#[test]
fn a_host_that_ssh_cannot_enter_is_an_error_with_the_answer_of_ssh() {
    let host = needs!(Host::start(ROOMY));
    let scratch = scratch();
    tiny_plan(scratch.path());
    let fails = |host: &Host, part: &str, help: &str| {
        let error = expect_error(
            &host.run(scratch.path(), &texts(&host.arguments("1"))),
            3,
            "remote/unreachable",
        );
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
        assert!(error["help"].as_str().unwrap().contains(help), "{error}");
        assert!(!scratch.path().join("run").exists());
    };
    host.know("other_key.pub");
    fails(&host, "Host key verification failed", "compare its key");
    host.know("host_key.pub");
    fs::write(host.path("authorized_keys"), "").unwrap();
    fails(&host, "Permission denied", "ssh-copy-id box");
    host.proxy.cut_after(0);
    fails(&host, "closed", "ssh box true");
    host.expect_nothing_left();
}

#[test]
fn a_host_that_cannot_run_fsb_is_refused_before_anything_is_copied() {
    let host = needs!(Host::start(ROOMY));
    let scratch = scratch();
    tiny_plan(scratch.path());
    let refused = |host: &Host, more: &[&str], part: &str| {
        let arguments = host.arguments("1");
        let error = expect_error(
            &host.run(scratch.path(), &[&texts(&arguments), more].concat()),
            3,
            "remote/unfit",
        );
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
        assert!(!scratch.path().join("run").exists());
        assert_eq!(host.left(), Vec::<String>::new());
    };
    host.program(
        "programs/sudo",
        "echo 'sudo: a password is required' >&2; exit 1",
    );
    refused(&host, &["--sudo"], "a password is required");
    host.program("programs/uname", "echo Linux 6.1.0 s390x");
    refused(&host, &[], "it is s390x with no fsb");
    host.program("programs/fsb", "echo fsb 0.0.9");
    refused(&host, &[], "it is s390x with fsb 0.0.9");
    host.program("programs/uname", "echo FreeBSD 14.1 amd64");
    refused(&host, &[], "it runs FreeBSD");
}

#[test]
fn a_host_whose_kernel_lacks_a_file_system_is_refused_before_anything_is_copied() {
    let host = needs!(Host::start(ONLY_EXT4));
    let scratch = scratch();
    tiny_plan(scratch.path());
    let mut arguments = host.arguments("1");
    arguments[2] = "minix".to_owned();
    let output = host.run(scratch.path(), &texts(&arguments));
    let error = expect_error(&output, 3, "remote/unfit");
    assert!(
        error["message"].as_str().unwrap().contains(" has no minix"),
        "{error}"
    );
    assert!(!has_message(&output, "note/copying"), "{}", stderr(&output));
    assert!(!scratch.path().join("run").exists());
    assert_eq!(host.left(), Vec::<String>::new());
    expect_code(&host.run(scratch.path(), &texts(&host.arguments("1"))), 0);
    host.expect_nothing_left();
}

#[test]
fn a_host_without_a_mkfs_program_is_refused_before_anything_is_copied() {
    let hidden = "mount -t tmpfs tmpfs /tmp && mount --bind /dev/null $(command -v mkfs.ext4)";
    let host = needs!(Host::start(hidden));
    let scratch = scratch();
    tiny_plan(scratch.path());
    let output = host.run(scratch.path(), &texts(&host.arguments("1")));
    let error = expect_error(&output, 3, "remote/unfit");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("mkfs.ext4 is missing"),
        "{error}"
    );
    assert!(
        error["help"].as_str().unwrap().contains("e2fsprogs"),
        "{error}"
    );
    assert!(!has_message(&output, "note/copying"), "{}", stderr(&output));
    host.expect_nothing_left();
}

#[test]
fn a_slow_connection_loses_no_result() {
    let host = needs!(Host::start(ROOMY));
    let scratch = scratch();
    tiny_plan(scratch.path());
    // The host has fsb, so that only results pass.
    host.program("programs/uname", "echo Linux 6.1.0 s390x");
    host.install_fsb();
    host.proxy.rules.rate.store(16 << 10, Ordering::SeqCst);
    expect_code(&host.run(scratch.path(), &texts(&host.arguments("2"))), 0);
    let run = scratch.path().join("run");
    assert_eq!(
        counting(&run)
            .iter()
            .filter(|trial| trial["block"] != 0)
            .count(),
        14
    );
    assert!(run.join("report.html").is_file() && !record(&run)["stop_reason"].is_null());
    host.expect_nothing_left();
}

#[test]
fn a_host_of_another_architecture_uses_its_own_fsb_of_the_same_version() {
    let host = needs!(Host::start(ROOMY));
    let scratch = scratch();
    tiny_plan(scratch.path());
    host.program("programs/uname", "echo Linux 6.1.0 s390x");
    host.install_fsb();
    let output = host.run(scratch.path(), &texts(&host.arguments("1")));
    expect_code(&output, 0);
    assert!(
        messages(&output)
            .iter()
            .all(|message| message["code"] != "note/copying"),
        "{}",
        stderr(&output)
    );
    host.expect_nothing_left();
}

#[test]
fn a_host_without_room_or_rights_for_the_program_is_refused() {
    let full = "mount -t tmpfs -o size=1M tmpfs /tmp && mount --bind /tmp /var/tmp && mount --bind /tmp /root";
    let no_programs = "mount -t tmpfs -o noexec tmpfs /tmp && mount --bind /tmp /var/tmp && mount --bind /tmp /root";
    for (mounts, part, help) in [
        (full, "No space left", "make room"),
        (no_programs, "Permission denied", "TMPDIR"),
    ] {
        let host = needs!(Host::start(mounts));
        let scratch = scratch();
        tiny_plan(scratch.path());
        let error = expect_error(
            &host.run(scratch.path(), &texts(&host.arguments("1"))),
            3,
            "remote/unfit",
        );
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
        assert!(error["help"].as_str().unwrap().contains(help), "{error}");
        assert!(!scratch.path().join("run").exists());
        host.expect_nothing_left();
    }
}

#[test]
fn errors_of_the_run_keep_their_codes() {
    let host = needs!(Host::start(ROOMY));
    let scratch = scratch();
    let missing = host.path("missing").display().to_string();
    let output = host.run(
        scratch.path(),
        &["run", &missing, "--on", "box", "--out", "run"],
    );
    let error = expect_error(&output, 2, "target/no-directory");
    assert_eq!(error["fields"]["host"], "box");
    assert!(!scratch.path().join("run").exists());
    host.expect_nothing_left();
}

#[test]
fn a_cut_before_the_run_leaves_nothing() {
    let host = needs!(Host::start(ROOMY));
    let scratch = scratch();
    tiny_plan(scratch.path());
    // In the login, and in the copy of the program.
    for (bytes, code) in [
        (1000, "remote/unreachable"),
        (1 << 20, "remote/connection-lost"),
    ] {
        host.proxy.mend();
        host.proxy.cut_after(bytes);
        expect_error(
            &host.run(scratch.path(), &texts(&host.arguments("1"))),
            3,
            code,
        );
        assert!(!scratch.path().join("run").exists());
        host.expect_nothing_left();
    }
}

/// Starts a long run on the host and waits for some trials.
fn start_long(host: &Host, directory: &Path) -> Running {
    tiny_plan(directory);
    let child = host.spawn(directory, &texts(&host.arguments("50")));
    wait_until(
        "trials of the first block",
        Duration::from_secs(120),
        || trials(&directory.join("run")).len() >= 10,
    );
    child
}

#[test]
fn a_cut_in_the_run_keeps_its_trials_and_the_run_goes_on() {
    let host = needs!(Host::start(ROOMY));
    let before = traces();
    let scratch = scratch();
    let child = start_long(&host, scratch.path());
    host.proxy.cut_after(0);
    let error = expect_error(&child.wait(), 3, "remote/connection-lost");
    let run = scratch.path().join("run");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .ends_with("fsb run --resume run --on box"),
        "{error}"
    );
    assert!(run.join("report.html").is_file());
    host.expect_nothing_left();
    expect_no_traces(&before);
    let saved = trials(&run);
    // The host that made the run makes the rest, and no other one.
    host.proxy.mend();
    fails(scratch.path(), "run --resume run", 2, "remote/other-host");
    expect_error(
        &host.run(scratch.path(), &["run", "--resume", "run", "--on", "other"]),
        2,
        "remote/other-host",
    );
    let mut record = record(&run);
    let last = saved
        .iter()
        .map(|trial| trial["block"].as_u64().unwrap())
        .max()
        .unwrap();
    record["blocks_planned"] = (last + 1).into();
    fs::write(run.join("run.json"), record.to_string()).unwrap();
    expect_code(
        &host.run(scratch.path(), &["run", "--resume", "run", "--on", "box"]),
        0,
    );
    let all = counting(&run);
    for block in 1..=last + 1 {
        assert_eq!(
            all.iter().filter(|trial| trial["block"] == block).count(),
            7,
            "block {block}"
        );
    }
    host.expect_nothing_left();
    expect_no_traces(&before);
}

#[test]
fn a_signal_ends_the_run_on_the_host() {
    let host = needs!(Host::start(ROOMY));
    let before = traces();
    let scratch = scratch();
    let child = start_long(&host, scratch.path());
    child.signal(Signal::INT);
    let output = child.wait();
    expect_code(&output, 130);
    assert_eq!(
        error_of(&output)["code"],
        "run/interrupted",
        "{}",
        stderr(&output)
    );
    assert!(trials(&scratch.path().join("run")).len() >= 10);
    host.expect_nothing_left();
    expect_no_traces(&before);
}

#[test]
fn a_run_that_waits_for_a_hanging_mount_can_be_ended() {
    needs!(program "mkntfs", "ntfs-3g");
    let mounts = "mount -t tmpfs tmpfs /tmp && mkdir FILES/hang && truncate -s 64M FILES/image && \
                  mkntfs -FQ FILES/image >/dev/null && ntfs-3g FILES/image FILES/hang";
    let host = needs!(Host::start(mounts));
    let scratch = scratch();
    let line = |line: &String| line.contains(&*host.path("image").to_string_lossy());
    let servers = || processes().into_iter().filter(line).collect::<Vec<_>>();
    let server: i32 = servers()[0].split(' ').next().unwrap().parse().unwrap();
    let server = rustix::process::Pid::from_raw(server).unwrap();
    rustix::process::kill_process(server, Signal::STOP).unwrap();
    let hang = host.path("hang").display().to_string();
    let child = host.spawn(
        scratch.path(),
        &["run", &hang, "--on", "box", "--out", "run"],
    );
    wait_until(
        "a call that does not return",
        Duration::from_secs(60),
        || waits_for_fuse("__remote-run"),
    );
    child.signal(Signal::INT);
    expect_code(&child.wait(), 130);
    host.expect_nothing_left();
    rustix::process::kill_process(server, Signal::KILL).unwrap();
    wait_until("the server's end", Duration::from_secs(20), || {
        servers().is_empty()
    });
}

#[test]
fn a_killed_fsb_ends_the_run_on_the_host() {
    let host = needs!(Host::start(ONLY_EXT4));
    let before = traces();
    let scratch = scratch();
    let child = start_long(&host, scratch.path());
    child.signal(Signal::KILL);
    child.wait();
    host.expect_nothing_left();
    expect_no_traces(&before);
    let connections = || {
        let entries = fs::read_dir(host.path("runtime")).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("fsb-ssh-")).count()
    };
    assert_eq!(connections(), 1);
    // The next connection removes what the killed process could not.
    let mut next = host.arguments("1");
    next[2] = "minix".to_owned();
    next[6] = "next".to_owned();
    expect_error(&host.run(scratch.path(), &texts(&next)), 3, "remote/unfit");
    assert_eq!(connections(), 0);
}

#[test]
fn a_silent_connection_ends_on_both_sides() {
    let host = needs!(Host::start(ROOMY));
    let before = traces();
    let scratch = scratch();
    let child = start_long(&host, scratch.path());
    // As after a pulled cable: nothing arrives, and no side closes the connection.
    host.proxy.rules.silent.store(true, Ordering::SeqCst);
    expect_error(&child.wait(), 3, "remote/connection-lost");
    assert!(trials(&scratch.path().join("run")).len() >= 10);
    host.expect_nothing_left();
    expect_no_traces(&before);
}

/// Writes a plan of two targets that a fleet can compare, and a file of three hosts, one of which
/// does not answer.
fn fleet(host: &Host, directory: &Path) {
    let plan = format!(
        "targets = ['plain=ext4', 'other=ext4,noatime']\nsize = '128M'\ndir = '{}'\n{}",
        host.data.path().display(),
        TINY.replace("blocks = 1", "blocks = 5")
    );
    fs::write(directory.join("plan.toml"), plan).unwrap();
    let config = fs::read_to_string(host.path("config")).unwrap();
    fs::write(
        host.path("config"),
        format!("Host gone\nHostName 127.0.0.1\nPort 1\n\n{config}"),
    )
    .unwrap();
    fs::write(
        directory.join("hosts"),
        "# a fleet\nbox\ngone\nother # the second one\n",
    )
    .unwrap();
}

#[test]
fn a_fleet_is_one_answer_and_a_host_that_does_not_answer_stops_no_other() {
    let host = needs!(Host::start(ROOMY));
    let before = traces();
    let scratch = scratch();
    fleet(&host, scratch.path());
    // Both names are of one machine, which makes one run at a time.
    let arguments =
        words("fleet run plan.toml --hosts hosts --at-once 1 --out fleet --format json");
    let make = |code: i32| {
        let output = host.run(scratch.path(), &arguments);
        expect_code(&output, code);
        let document: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        (output, document)
    };
    let (output, document) = make(3);
    assert_eq!(
        error_of(&output)["code"],
        "remote/unreachable",
        "{}",
        stderr(&output)
    );
    let names = |key: &str, name: &str| -> Vec<String> {
        let all = document[key].as_array().unwrap().iter();
        all.map(|host| host[name].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        (names("hosts", "name"), names("left_out", "host")),
        (vec!["box".into(), "other".into()], vec!["gone".into()])
    );
    // Cases that write are withheld in some virtual machines.
    let comparisons = document["comparisons"].as_array().unwrap();
    assert!(
        comparisons
            .iter()
            .any(|comparison| comparison["together"]["n"] == 2),
        "{document:#}"
    );
    // Once more: the finished runs are kept.
    let run = fs::read(scratch.path().join("fleet/box/trials.jsonl")).unwrap();
    let (output, again) = make(3);
    assert_eq!(
        messages(&output)
            .iter()
            .filter(|message| message["code"] == "note/host-kept")
            .count(),
        2
    );
    assert_eq!(again["comparisons"], document["comparisons"]);
    assert_eq!(
        fs::read(scratch.path().join("fleet/box/trials.jsonl")).unwrap(),
        run
    );
    host.expect_nothing_left();
    expect_no_traces(&before);
}

/// Writes the plan and the files of a fleet of two hosts, `box` and `second`, that measure side by
/// side.
fn fleet_of_two(directory: &Path, hosts: &[Host; 2], blocks: &str) {
    let plan = |host: &Host| host.data.path().display().to_string();
    let text = format!(
        "targets = ['plain=ext4', 'other=ext4,noatime']\nsize = '128M'\n{}",
        TINY.replace("blocks = 1", &format!("blocks = {blocks}"))
    );
    fs::write(directory.join("plan.toml"), text).unwrap();
    fs::write(
        directory.join("hosts"),
        format!("box {}\nsecond {}\n", plan(&hosts[0]), plan(&hosts[1])),
    )
    .unwrap();
    // The first Host line of the second configuration is that of its aliases.
    let second = fs::read_to_string(hosts[1].path("config"))
        .unwrap()
        .replace("Host box other", "Host second");
    let first = fs::read_to_string(hosts[0].path("config")).unwrap();
    fs::write(hosts[0].path("config"), format!("{first}\n{second}")).unwrap();
}

/// Returns the coordinator of the run on a host, whose mount namespace is that of its sshd.
fn coordinator_on(host: &Host) -> Option<rustix::process::Pid> {
    let mounts = |path: &str| fs::read_link(format!("{path}/ns/mnt")).ok();
    let own = mounts(&format!("/proc/{}", host.sshd.id()));
    let found = processes_of("__remote-run")
        .into_iter()
        .find(|path| mounts(path) == own)?;
    rustix::process::Pid::from_raw(found.rsplit('/').next()?.parse().ok()?)
}

#[test]
fn the_hosts_of_a_fleet_are_measured_at_once() {
    let hosts = [needs!(Host::start(APART)), needs!(Host::start(APART))];
    let before = traces();
    let scratch = scratch();
    fleet_of_two(scratch.path(), &hosts, "5");
    let arguments = words("fleet run plan.toml --hosts hosts --out fleet --format json");
    let child = hosts[0].spawn(scratch.path(), &arguments);
    let began = |name: &str| !trials(&scratch.path().join("fleet").join(name)).is_empty();
    wait_until("trials of the first host", Duration::from_secs(120), || {
        began("box")
    });
    // The run of the first host cannot end before the second one has begun.
    let first = coordinator_on(&hosts[0]).expect("a run on the first host");
    rustix::process::kill_process(first, Signal::STOP).unwrap();
    wait_until(
        "trials of the second host",
        Duration::from_secs(120),
        || began("second"),
    );
    rustix::process::kill_process(first, Signal::CONT).unwrap();
    let output = child.wait();
    expect_code(&output, 0);
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let names: Vec<&str> = document["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|host| host["name"].as_str())
        .collect();
    assert_eq!(names, ["box", "second"]);
    // Lines of the hosts say whose they are.
    let rules = messages(&output)
        .into_iter()
        .filter(|message| message["code"] == "note/stopping-rule");
    let rules: Vec<String> = rules
        .filter_map(|rule| Some(rule["message"].as_str()?.to_owned()))
        .collect();
    assert!(
        rules.len() == 2
            && names.iter().all(|name| rules
                .iter()
                .any(|rule| rule.starts_with(&format!("{name}: "))))
    );
    hosts.iter().for_each(Host::expect_nothing_left);
    expect_no_traces(&before);
}

#[test]
fn a_signal_ends_the_runs_of_all_hosts_of_a_fleet() {
    let hosts = [needs!(Host::start(APART)), needs!(Host::start(APART))];
    let before = traces();
    let scratch = scratch();
    fleet_of_two(scratch.path(), &hosts, "50");
    let child = hosts[0].spawn(
        scratch.path(),
        &words("fleet run plan.toml --hosts hosts --out fleet"),
    );
    for name in ["box", "second"] {
        let run = scratch.path().join("fleet").join(name);
        wait_until("trials of a host", Duration::from_secs(120), || {
            trials(&run).len() >= 10
        });
    }
    child.signal(Signal::INT);
    let output = child.wait();
    expect_code(&output, 130);
    let error = error_of(&output);
    assert_eq!(error["code"], "run/interrupted", "{}", stderr(&output));
    let message = error["message"].as_str().unwrap();
    for part in [
        "--resume fleet/box --on box",
        "--resume fleet/second --on second",
        "fsb fleet compare fleet",
    ] {
        assert!(message.contains(part), "{message}");
    }
    hosts.iter().for_each(Host::expect_nothing_left);
    expect_no_traces(&before);
}

#[test]
fn ansible_fetches_the_runs_of_hosts_and_a_host_that_does_not_answer_stops_no_other() {
    needs!(program "ansible-playbook", "python3");
    let hosts = [needs!(Host::start(ROOMY)), needs!(Host::start(ROOMY))];
    let scratch = scratch();
    let at = |name: &str| scratch.path().join(name);
    let plan = format!(
        "targets = ['plain=ext4', 'other=ext4,noatime']\nsize = '128M'\n{}",
        TINY.replace("blocks = 1", "blocks = 5")
    );
    fs::write(at("plan.toml"), plan).unwrap();
    let mut inventory = "[fsb_hosts]\ngone ansible_host=127.0.0.1 ansible_port=1\n".to_owned();
    for (number, host) in hosts.iter().enumerate() {
        let (config, data) = (host.path("config"), host.data.path().display());
        inventory += &format!(
            "web{number} ansible_host=box ansible_ssh_common_args='-F {}' fsb_arguments='[\"--dir\", \"{data}\"]'\n",
            config.display()
        );
    }
    inventory += "[all:vars]\nansible_python_interpreter=/usr/bin/python3\n";
    fs::write(at("inventory"), inventory).unwrap();
    let playbook = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../contrib/ansible/playbooks/fleet.yml"
    );
    let play = || {
        let mut command = Command::new("ansible-playbook");
        command
            .args(["-i", "inventory", playbook])
            .current_dir(scratch.path())
            .stdin(Stdio::null());
        for (name, value) in [
            ("fsb_plan", at("plan.toml")),
            ("fsb_results", at("results")),
            ("fsb_program", FSB.into()),
        ] {
            command.args(["-e", &format!("{name}={}", value.display())]);
        }
        // The two hosts have one name, and must not share a connection.
        command
            .env("ANSIBLE_SSH_ARGS", "-oControlMaster=no")
            .env("HOME", scratch.path())
            .env("ANSIBLE_NOCOLOR", "1");
        command.output().expect("ansible-playbook starts")
    };
    let output = play();
    let text = stdout(&output);
    // 4: a host was unreachable.
    assert_eq!(output.status.code(), Some(4), "{text}{}", stderr(&output));
    assert!(
        text.contains("2 hosts; baseline: plain") && text.contains("the mean of 2 hosts"),
        "{text}"
    );
    for name in ["web0", "web1"] {
        assert!(counting(&at("results").join(name)).len() >= 7 * 2 * 5);
    }
    let before = fs::read(at("results/web0/trials.jsonl")).unwrap();
    assert_eq!(play().status.code(), Some(4));
    assert_eq!(
        fs::read(at("results/web0/trials.jsonl")).unwrap(),
        before,
        "a finished run is kept"
    );
    hosts.iter().for_each(Host::expect_nothing_left);
}

#[test]
fn results_are_copied_after_the_run() {
    needs!(program "rsync");
    let host = needs!(Host::start(ROOMY));
    let scratch = scratch();
    tiny_plan(scratch.path());
    let arguments = host.arguments("1");
    let to = |place: &str| {
        host.run(
            scratch.path(),
            &[&texts(&arguments), &["--results", place][..]].concat(),
        )
    };
    expect_code(&to("copies"), 0);
    let same = |copy: &str| {
        for file in ["run.json", "trials.jsonl", "report.html", "trials.csv"] {
            let of = |run: &str| fs::read(scratch.path().join(run).join(file)).unwrap();
            assert_eq!(of("run"), of(copy), "{copy}/{file}");
        }
    };
    same("copies/run");
    fs::remove_dir_all(scratch.path().join("run")).unwrap();
    // The copy exists: this is found before the run.
    expect_error(&to("copies"), 2, "store/not-empty");
    assert!(!scratch.path().join("run").exists());
    fs::create_dir(scratch.path().join("synced")).unwrap();
    expect_code(
        &to(&format!(
            "rsync:{}/",
            scratch.path().join("synced").display()
        )),
        0,
    );
    same("synced/run");
    fs::remove_dir_all(scratch.path().join("run")).unwrap();
    // A destination that fails leaves the run complete.
    let error = expect_error(&to("rsync:/proc/fsb/none/"), 3, "remote/results-not-copied");
    assert_eq!(error["fields"]["path"], "run");
    assert!(scratch.path().join("run/report.html").is_file());
    host.expect_nothing_left();
}

#[test]
fn sudo_makes_the_run_as_root_for_the_user_who_logged_in() {
    needs!(program "sudo");
    let host = needs!(Host::start(USERS));
    let scratch = scratch();
    tiny_plan(scratch.path());
    let config = fs::read_to_string(host.path("config")).unwrap();
    fs::write(
        host.path("config"),
        config.replace("User root", "User nobody"),
    )
    .unwrap();
    let arguments = host.arguments("1");
    let error = expect_error(
        &host.run(scratch.path(), &texts(&arguments)),
        3,
        "testbed/needs-root",
    );
    assert!(
        error["help"].as_str().unwrap().starts_with("add --sudo"),
        "{error}"
    );
    expect_code(
        &host.run(
            scratch.path(),
            &[&texts(&arguments), &["--sudo"][..]].concat(),
        ),
        0,
    );
    host.expect_nothing_left();
}
