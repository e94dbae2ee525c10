//! Commands that attack the machine, other users or the measurement. `docs/methods/ownership.md`
//! states the promises that these tests check.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::*;

/// Returns a directory that every user may enter, and a program in it that is compiled from
/// `source`.
pub(crate) fn attacker(source: &str) -> (tempfile::TempDir, String) {
    let directory = scratch();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = compile(directory.path(), "attack", source);
    (directory, program.to_str().unwrap().to_owned())
}

pub(crate) fn compile(directory: &Path, name: &str, source: &str) -> PathBuf {
    let (code, program) = (directory.join(format!("{name}.c")), directory.join(name));
    fs::write(&code, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-D_GNU_SOURCE", "-pthread", "-w", "-o"])
        .arg(&program)
        .arg(&code)
        .arg("-lrt");
    let output = compiler.output().expect("a C compiler");
    assert!(output.status.success(), "{}", stderr(&output));
    program
}

/// Returns the arguments that measure one block of a command on `targets`.
pub(crate) fn arguments<'a>(
    targets: &[&'a str],
    options: &[&'a str],
    command: &[&'a str],
) -> Vec<&'a str> {
    let common = words("--blocks 1 --durable no --control guest-memory=off --out run");
    [&["run"], targets, &common, options, &["--"], command].concat()
}

/// Returns the output of a command in a directory of an ordinary user who runs fsb.
fn printed_without_root(options: &[&str], command: &[&str]) -> Vec<String> {
    let (directory, binary) = (scratch(), public_copy());
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let output = as_nobody(
        binary.path(),
        directory.path(),
        &arguments(&["."], options, command),
    );
    printed(directory.path(), &output)
}

/// Returns the output of each measured trial. All of them must have succeeded.
fn printed(directory: &Path, output: &Output) -> Vec<String> {
    expect_code(output, 0);
    let measured = measured(&directory.join("run"));
    let text = |trial: &Value| {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        trial["observed"]["output"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(!measured.is_empty(), "{}", stderr(output));
    measured.iter().map(text).collect()
}

const FORKS: &str = r#"
#include <stdio.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
static void *wait_for_ever(void *unused) { pause(); return unused; }
int main(void) {
    struct rlimit all = { 30000, 30000 };
    int raised = setrlimit(RLIMIT_NPROC, &all) == 0, made = 1;
    pthread_attr_t small; pthread_t thread;
    pthread_attr_init(&small); pthread_attr_setstacksize(&small, 16384);
    while (made < 30000 && pthread_create(&thread, &small, wait_for_ever, 0) == 0) made++;
    while (made < 30000) {
        int child = fork();
        if (child < 0) break;
        if (child == 0) { pause(); _exit(0); }
        made++;
    }
    printf("raised %d made %d\n", raised, made);
    fflush(stdout);
    _exit(0);
}"#;

/// The limit counts processes and threads of one worker, and cannot be raised; two workers do not
/// share it.
#[test]
fn a_command_cannot_use_up_the_process_numbers_of_the_machine() {
    needs!(root);
    needs!(program "cc");
    let (directory, attack) = attacker(FORKS);
    let before = traces();
    for options in [
        &["--process-limit", "200"][..],
        &["--process-limit", "200", "--control", "memory-limit=512M"],
    ] {
        let _ = fs::remove_dir_all(directory.path().join("run"));
        let targets = ["one=tmpfs", "two=tmpfs"];
        let output = fsb(directory.path(), &arguments(&targets, options, &[&attack]));
        let all = printed(directory.path(), &output);
        assert_eq!(all.len(), 2);
        for text in all {
            let made: u32 = text
                .trim()
                .strip_prefix("raised 0 made ")
                .expect(&text)
                .parse()
                .unwrap();
            assert!((150..=208).contains(&made), "{text}");
        }
        expect_no_traces(&before);
    }
    let text = printed_without_root(&["--process-limit", "200"], &[&attack]).concat();
    let made: u32 = text
        .trim()
        .strip_prefix("raised 0 made ")
        .expect(&text)
        .parse()
        .unwrap();
    assert!(made <= 208, "{text}");
}

/// A tree deeper than a path can name, below directories without permissions.
const DEEP_TREE: &str = r#"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
int main(void) {
    int depth = 0;
    while (depth < 5000 && mkdir("d", 0700) == 0 && chdir("d") == 0) depth++;
    while (chdir("..") == 0 && --depth > 4000) chmod("d", depth % 2 ? 0 : 0644);
    printf("deep\n");
    return 0;
}"#;

/// Root and an ordinary user remove it; the limit on open files does not matter.
#[test]
fn a_tree_of_any_depth_and_permissions_is_removed_after_its_trial() {
    needs!(root);
    needs!(program "cc");
    let (directory, attack) = attacker(DEEP_TREE);
    let before = traces();
    fs::create_dir(directory.path().join("target")).unwrap();
    let output = fsb(directory.path(), &arguments(&["./target"], &[], &[&attack]));
    assert_eq!(printed(directory.path(), &output), ["deep\n"]);
    assert_eq!(
        fs::read_dir(directory.path().join("target"))
            .unwrap()
            .count(),
        0,
        "{}",
        stderr(&output)
    );
    expect_no_traces(&before);
    let (own, binary) = (scratch(), public_copy());
    fs::create_dir(own.path().join("target")).unwrap();
    for path in [own.path().to_owned(), own.path().join("target")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let output = as_nobody(
        binary.path(),
        own.path(),
        &arguments(&["./target"], &[], &[&attack]),
    );
    assert_eq!(printed(own.path(), &output), ["deep\n"]);
    assert_eq!(
        fs::read_dir(own.path().join("target")).unwrap().count(),
        0,
        "{}",
        stderr(&output)
    );
}

/// A program that gives itself a key readable by every process with this session keyring, and a
/// writable descriptor, and then executes fsb.
const ROOTS_SHELL: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    syscall(SYS_keyctl, 1, "fsb-test");
    long key = syscall(SYS_add_key, "user", "fsb-test-secret", "hunter2", 7, -3);
    if (key < 0 || syscall(SYS_keyctl, 5, key, 0x3f3f3f3f)) { perror("key"); return 1; }
    int file = open(words[1], O_RDWR);
    for (int fd = 3; fd < 40; fd++) dup2(file, fd);
    execv(words[2], words + 2);
    return 1;
}"#;

const STEALS: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    char secret[64] = "";
    long key = syscall(SYS_request_key, "user", "fsb-test-secret", 0, 0);
    if (key > 0) syscall(SYS_keyctl, 11, key, secret, sizeof secret);
    int open = 0;
    for (int fd = 3; fd < 1024; fd++) if (write(fd, "stolen", 6) == 6) open++;
    long left = syscall(SYS_add_key, "user", words[1], "x", 1, -4);
    printf("key %s descriptors %d left %d\n", *secret ? secret : "none", open, left > 0);
    return 0;
}"#;

#[test]
fn a_command_has_neither_the_keys_nor_the_open_files_of_roots_shell() {
    needs!(root);
    needs!(program "cc");
    let (directory, attack) = attacker(STEALS);
    let shell = compile(directory.path(), "shell", ROOTS_SHELL);
    let secret = directory.path().join("secret");
    fs::write(&secret, "untouched").unwrap();
    let left = format!("fsb-test-left-{}", std::process::id());
    let words = arguments(&["tmpfs"], &[], &[&attack, &left]);
    let mut command = Command::new(shell);
    command
        .arg(&secret)
        .arg(FSB)
        .args(&words)
        .current_dir(directory.path())
        .env("COLUMNS", "10000");
    let output = command.env_remove("SUDO_UID").output().unwrap();
    assert_eq!(
        printed(directory.path(), &output),
        ["key none descriptors 0 left 1\n"]
    );
    assert_eq!(fs::read_to_string(secret).unwrap(), "untouched");
    // The kernel removes keyrings with their user namespace: no key of the trial is among those of
    // the worker's user.
    let keys = || {
        let mut keys = Command::new("setpriv");
        keys.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "cat",
            "/proc/keys",
        ]);
        stdout(&keys.output().unwrap())
    };
    // The kernel collects them some time later.
    wait_until(
        "the kernel to collect keys",
        Duration::from_secs(60),
        || !keys().contains(&left),
    );
}

/// Leaves a process that holds a lock, under a name that ends in the middle of a character.
const UNDEAD: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int count, char **words) {
    int lock = open(words[1], O_RDWR | O_CREAT, 0666);
    if (flock(lock, LOCK_EX | LOCK_NB)) { puts("an earlier one lives"); return 1; }
    int ready[2]; char byte; pipe(ready);
    if (fork() == 0) {
        setsid();
        prctl(PR_SET_NAME, "caf\xc3) S 1 1 \xff");
        if (fork() == 0) { write(ready[1], "", 1); close(0); close(1); close(2); pause(); }
        _exit(0);
    }
    read(ready[0], &byte, 1);
    /* Long enough to be run once a sample. */
    usleep(400000);
    return 0;
}"#;

#[test]
fn a_process_whose_name_is_not_utf8_ends_with_its_sample() {
    needs!(root);
    needs!(program "cc");
    let (directory, attack) = attacker(UNDEAD);
    let open = directory.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let lock = open.join("lock");
    let options = ["--writable", open.to_str().unwrap(), "--size", "400M"];
    let output = fsb(
        directory.path(),
        &arguments(&["ext4"], &options, &[&attack, lock.to_str().unwrap()]),
    );
    printed(directory.path(), &output);
    fs::remove_file(&lock).unwrap();
    printed_without_root(&options[..2], &[&attack, lock.to_str().unwrap()]);
}

const SHARES: &str = r#"
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
int main(void) {
    int made = shmget(0x46534253, 1 << 20, IPC_CREAT | 0666) >= 0;
    made += semget(0x46534253, 1, IPC_CREAT | 0666) >= 0;
    made += msgget(0x46534253, IPC_CREAT | 0666) >= 0;
    made += mq_open("/fsb-test-queue", O_CREAT | O_RDWR, 0666, 0) >= 0;
    printf("made %d\n", made);
    return 0;
}"#;

#[test]
fn ipc_objects_of_a_command_end_with_its_worker() {
    needs!(root);
    needs!(program "cc");
    let (directory, attack) = attacker(SHARES);
    let objects = || {
        ["shm", "sem", "msg"]
            .map(|kind| fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap())
    };
    let before = objects();
    let output = fsb(directory.path(), &arguments(&["tmpfs"], &[], &[&attack]));
    assert_eq!(printed(directory.path(), &output), ["made 4\n"]);
    assert_eq!(objects(), before);
    assert_eq!(printed_without_root(&[], &[&attack]), ["made 4\n"]);
    assert_eq!(objects(), before);
}

/// A program that sends its current directory to a listening process, by path and by abstract name,
/// and tries a port.
const ACCOMPLICE: &str = r#"
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
static int reach(int family, void *address, int length) {
    int socket_ = socket(family, SOCK_STREAM, 0);
    return connect(socket_, address, length) == 0;
}
int main(int count, char **words) {
    struct sockaddr_un path = { AF_UNIX }, name = { AF_UNIX };
    strcpy(path.sun_path, words[1]);
    strcpy(name.sun_path + 1, words[2]);
    struct sockaddr_in port = { AF_INET, htons(atoi(words[3])), { htonl(INADDR_LOOPBACK) } };
    int by_name = reach(AF_UNIX, &name, sizeof(sa_family_t) + 1 + strlen(words[2]));
    printf("path %d name %d port %d", reach(AF_UNIX, &path, sizeof path), by_name, reach(AF_INET, &port, sizeof port));
    /* A server of its own can be reached. */
    struct sockaddr_un own = { AF_UNIX };
    snprintf(own.sun_path, sizeof own.sun_path, "%s/socket", getenv("TMPDIR"));
    unlink(own.sun_path);
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(server, (void *)&own, sizeof own); listen(server, 1);
    struct sockaddr_in any = { AF_INET, 0, { htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof any;
    int inet = socket(AF_INET, SOCK_STREAM, 0);
    bind(inet, (void *)&any, sizeof any); listen(inet, 1); getsockname(inet, (void *)&any, &length);
    printf(" own %d %d\n", reach(AF_UNIX, &own, sizeof own), reach(AF_INET, &any, sizeof any));
    return 0;
}"#;

/// A descriptor of the target in another process would keep its loop device and image in use.
#[test]
fn a_command_reaches_no_socket_of_others() {
    needs!(root);
    needs!(program "cc");
    let (directory, attack) = attacker(ACCOMPLICE);
    let path = directory.path().join("socket");
    let by_path = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    let name = format!("fsb-test-{}", std::process::id());
    let by_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    // A full queue of connections would block the next one.
    std::thread::spawn(move || by_path.incoming().for_each(drop));
    std::thread::spawn(move || by_name.incoming().for_each(drop));
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let words = [attack.as_str(), path.to_str().unwrap(), &name, &port];
    let before = traces();
    let output = fsb(
        directory.path(),
        &arguments(&["ext4"], &["--size", "400M"], &words),
    );
    assert_eq!(
        printed(directory.path(), &output),
        ["path 0 name 0 port 0 own 1 1\n"]
    );
    fs::remove_dir_all(directory.path().join("run")).unwrap();
    let output = fsb(
        directory.path(),
        &arguments(&["tmpfs"], &["--network"], &words),
    );
    assert_eq!(
        printed(directory.path(), &output),
        ["path 0 name 1 port 1 own 1 1\n"]
    );
    expect_no_traces(&before);
    // A user's own sockets stay reachable by path: a user namespace may not arrange the mounts of
    // the machine.
    assert_eq!(
        printed_without_root(&[], &words),
        ["path 1 name 0 port 0 own 1 1\n"]
    );
}

/// Returns the workers that run programs, which are the processes below a monitor.
fn monitored_workers() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let is_worker = |pid: i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"__worker")
    };
    let parent = |pid: i32| -> Option<i32> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let after = stat.iter().rposition(|byte| *byte == b')')?;
        String::from_utf8_lossy(&stat[after + 1..])
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()
    };
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| is_worker(*pid) && parent(*pid).is_some_and(is_worker))
        .collect()
}

#[test]
fn a_worker_cannot_be_stopped_from_inside_and_is_killed_if_stopped_from_outside() {
    needs!(root);
    let directory = scratch();
    let before = traces();
    let line = "kill -STOP $PPID; kill -STOP 1; kill -KILL 1; echo $PPID";
    let output = fsb(
        directory.path(),
        &arguments(&["tmpfs"], &["--time-limit", "60s"], &[line]),
    );
    assert_eq!(printed(directory.path(), &output), ["1\n"]);

    fs::remove_dir_all(directory.path().join("run")).unwrap();
    let words = arguments(&["tmpfs"], &["--time-limit", "1h"], &["sleep", "3600"]);
    let mut coordinator = Running::start(directory.path(), &words);
    while coordinator.is_running() {
        for worker in monitored_workers() {
            // A worker that has ended by now needs no signal.
            let _ = kill_process(Pid::from_raw(worker).unwrap(), Signal::STOP);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = stderr(&coordinator.wait());
    let trials = trials(&directory.path().join("run"));
    assert!(!trials.is_empty(), "{said}");
    for trial in trials {
        assert_eq!(trial["error_code"], "trial/worker-ended", "{trial:#}");
    }
    expect_no_traces(&before);
}

const TRACES: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
int main(void) {
    int worker = getppid(), reached = 0;
    reached += ptrace(PTRACE_SEIZE, worker, 0, 0) == 0;
    char path[64], byte;
    sprintf(path, "/proc/%d/mem", worker);
    reached += open(path, O_RDWR) >= 0;
    struct iovec own = { &byte, 1 }, other = { (void *)main, 1 };
    reached += process_vm_readv(worker, &own, 1, &other, 1, 0) == 1;
    int handle = syscall(SYS_pidfd_open, worker, 0);
    for (int fd = 0; fd < 64; fd++) reached += syscall(SYS_pidfd_getfd, handle, fd, 0) >= 0;
    printf("reached %d\n", reached);
    return 0;
}"#;

#[test]
fn a_command_cannot_trace_its_worker() {
    needs!(root);
    needs!(program "cc");
    let (directory, attack) = attacker(TRACES);
    assert_eq!(printed_without_root(&[], &[&attack]), ["reached 0\n"]);
    let output = fsb(directory.path(), &arguments(&["tmpfs"], &[], &[&attack]));
    assert_eq!(printed(directory.path(), &output), ["reached 0\n"]);
}

#[test]
fn limits_of_a_command_are_in_force_and_temporary_files_share_half_of_the_memory() {
    needs!(root);
    let directory = scratch();
    let line =
        "df -B1 --output=size /dev/shm | tail -n 1; ulimit -H -n; ulimit -S -n; ulimit -H -d";
    let options = words("--file-limit 777 --memory-limit 1T --size 700M");
    let output = fsb(
        directory.path(),
        &arguments(&["one=ext4", "two=ext4"], &options, &[line]),
    );
    let memory = fs::read_to_string("/proc/meminfo").unwrap();
    let total: u64 = memory.split_whitespace().nth(1).unwrap().parse().unwrap();
    let mut scratch = 0;
    let all = printed(directory.path(), &output);
    assert_eq!(all.len(), 2);
    for text in all {
        let numbers: Vec<u64> = text
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect();
        assert_eq!(numbers[1..], [777, 777, 1 << 30]);
        scratch += numbers[0];
    }
    assert!(
        scratch <= total / 2 * 1024 + 2 * 4096,
        "{scratch} of {total} KiB"
    );

    let words = words("run null --print-plan --process-limit 7 --network -- true");
    let plan = stdout(&fsb(directory.path(), &words));
    for line in [
        "process_limit = 7",
        "file_limit = 65536",
        "time_limit = \"3600s\"",
        "network = true",
    ] {
        assert!(plan.contains(line), "{line}: {plan}");
    }
    for (option, value) in [
        ("--process-limit", "0"),
        ("--file-limit", "3"),
        ("--memory-limit", "1M"),
    ] {
        let output = fsb(
            directory.path(),
            &["run", "null", option, value, "--", "true"],
        );
        expect_code(&output, 2);
        let name = option[2..].replace('-', "_");
        assert!(stderr(&output).contains(&name), "{}", stderr(&output));
    }
}
