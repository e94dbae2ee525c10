//! Boots guests, exchanges messages with them, and ends them in every way. The tests need QEMU and
//! a Debian kernel. `FSB_TEST_KERNEL` names a kernel as `--kernel` does; otherwise the default rule
//! finds one. Without a kernel the tests print that they are skipped, and fail in CI.
//!
//! The other roles of this binary: it becomes QEMU, or answers questions in the guest.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "guests answer on standard output"
)]

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use fsb_vm::machine::Patience;
use fsb_vm::{
    Acceleration, Contents, Disk, Initramfs, Kernel, Machine, MachineSpec, Origin, Stop, guest,
    initramfs, kernel, machine,
};

#[macro_use]
extern crate fsb_testkit;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = play(&arguments) {
        return code;
    }
    // Each guest uses all processors.
    fsb_testkit::run(tests())
}

tests! {
    a_guest_answers,
    every_driver_loads,
    a_panic_and_its_reason_reach_the_host,
    deaths_of_qemu_and_of_the_kernel_are_distinguished,
    a_guest_that_cannot_begin_says_why,
    acceleration_is_found_by_a_boot,
    an_accelerated_guest_that_hangs_is_given_up,
}

const MIB: u64 = 1 << 20;

/// Shorter time limits than those of a run. The heartbeat is checked only while a guest owes an
/// answer.
const PATIENCE: Patience = Patience {
    silence: Duration::from_secs(1),
    answer: Duration::from_secs(10),
};

/// Returns a kernel to boot.
fn kernel() -> Result<Kernel, String> {
    let named = std::env::var("FSB_TEST_KERNEL").ok();
    let found = machine::find_qemu(machine::Architecture::HERE)
        .and_then(|_| kernel::resolve(named.as_deref()));
    found.map_err(|error| error.to_string())
}

fn contents() -> Contents {
    Contents {
        init: std::env::current_exe().expect("this test has a name"),
        programs: vec![PathBuf::from("/bin/cat")],
        modules: vec!["ext4".into()],
        optional_modules: vec!["no-such-module".into(), "loop".into()],
        files: Vec::new(),
    }
}

/// A guest with the host's end of the protocol.
struct Guest {
    machine: Machine,
    answers: BufReader<UnixStream>,
}

impl Guest {
    fn boot(kernel: &Kernel, initramfs: &Initramfs, disks: Vec<Disk>) -> Guest {
        let (ours, protocol) = UnixStream::pair().expect("a pair");
        ours.set_read_timeout(Some(Duration::from_secs(120)))
            .expect("a limit");
        let spec = MachineSpec {
            kernel,
            initramfs,
            // The least memory must be sufficient.
            memory: machine::least_memory(initramfs),
            cpus: 2,
            root: None,
            shares: Vec::new(),
            disks,
            acceleration: Acceleration::Emulated,
            protocol,
            patience: PATIENCE,
            launcher: PathBuf::from("/proc/self/exe"),
        };
        let machine = Machine::boot(spec).expect("QEMU starts");
        Guest {
            machine,
            answers: BufReader::new(ours),
        }
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.answers.get_ref(), "{question}").expect("a question");
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.machine.console_tail(30)));
        line.trim_end().to_owned()
    }

    /// Checks the heartbeat for longer than a dead guest would survive.
    fn is_silent_and_lives(&mut self) {
        self.machine.heard();
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE.silence + PATIENCE.answer + Duration::from_secs(3) {
            self.machine.look_after();
            assert_eq!(self.machine.stopped(), None, "after {:?}", begin.elapsed());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn wait(&mut self) -> Stop {
        let start = Instant::now();
        loop {
            if let Some(stop) = self.machine.stopped() {
                return stop;
            }
            assert!(
                start.elapsed() < Duration::from_secs(120),
                "{:?}",
                self.machine.console_tail(30)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the CPU time of a process in seconds. It is printed because any boot is slow on a busy
/// machine.
fn cpu_seconds(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

fn a_guest_answers() {
    let kernel = needs!(kernel());
    let cache = tempfile::tempdir().unwrap();
    let initramfs = initramfs::build(&kernel, &contents(), cache.path()).unwrap();
    assert_eq!(initramfs.missing, ["no-such-module"]);
    assert!(
        initramfs::build(&kernel, &contents(), cache.path())
            .unwrap()
            .reused
    );
    let image = tempfile::tempfile_in(Path::new("/var/tmp")).unwrap();
    image.set_len(16 * MIB).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&image, b"abcde", 0).unwrap();
    let disk = Disk {
        file: image.try_clone().unwrap().into(),
        serial: "fsb0".into(),
    };
    let begin = Instant::now();
    let mut guest = Guest::boot(&kernel, &initramfs, vec![disk]);
    assert_eq!(guest.ask("read /proc/sys/kernel/osrelease"), kernel.release);
    let spent = cpu_seconds(guest.machine.pid());
    eprintln!(
        "booted in {:.2} s, {spent:.2} s of CPU, {} MiB",
        begin.elapsed().as_secs_f64(),
        initramfs.size / MIB
    );
    assert!(guest.ask("read /proc/filesystems").contains("ext4"));
    assert_eq!(guest.ask("disk fsb0"), format!("{} abcde", 16 * MIB));
    let mut bytes = [0; 5];
    // Open the file again: our own description bypasses the cache since QEMU has it.
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&image));
    std::io::Read::read_exact(&mut std::fs::File::open(path).unwrap(), &mut bytes).unwrap();
    assert_eq!(&bytes, b"edcba");
    assert_eq!(
        guest.ask("run /bin/cat /etc/hostname"),
        "exit status: 0 guest"
    );
    let orphan = guest.ask("orphan");
    assert_eq!(guest.ask(&format!("gone /proc/{orphan}")), "true");
    guest.is_silent_and_lives();
    // Large messages in both directions.
    let long = "x".repeat(300_000);
    assert_eq!(guest.ask(&format!("echo {long}")), long);
    assert_eq!(guest.ask("end"), "good bye");
    assert_eq!(guest.wait(), Stop::PoweredOff);
}

/// The file systems of Debian's kernels that hosts often lack, and the drivers for RAID and fault
/// injection.
fn every_driver_loads() {
    let kernel = needs!(kernel());
    let cache = tempfile::tempdir().unwrap();
    let systems = [
        "ext4", "xfs", "btrfs", "jfs", "reiserfs", "f2fs", "nilfs2", "ntfs3",
    ];
    let others = ["raid0", "dm-flakey", "dm-log-writes", "loop"];
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let contents = Contents {
        modules: owned(&others),
        optional_modules: owned(&systems),
        ..contents()
    };
    let initramfs = initramfs::build(&kernel, &contents, cache.path()).unwrap();
    let mut guest = Guest::boot(&kernel, &initramfs, Vec::new());
    let known = guest.ask("read /proc/filesystems");
    let known: Vec<_> = known.split_whitespace().collect();
    // Not every kernel has all of them, but most.
    assert!(initramfs.missing.len() <= 2, "{:?}", initramfs.missing);
    for system in systems
        .iter()
        .filter(|system| !initramfs.missing.iter().any(|name| name == *system))
    {
        assert!(known.contains(system), "{system} is not in {known:?}");
    }
    assert!(guest.ask("read /proc/mdstat").contains("raid0"));
    // The soft dependencies were loaded. A driver cannot request a module in the guest, which has
    // no program to load it.
    assert!(guest.ask("read /proc/crypto").contains("crc32c"));
}

fn a_panic_and_its_reason_reach_the_host() {
    let kernel = needs!(kernel());
    let cache = tempfile::tempdir().unwrap();
    let initramfs = initramfs::build(&kernel, &contents(), cache.path()).unwrap();
    let mut guest = Guest::boot(&kernel, &initramfs, Vec::new());
    assert_eq!(guest.ask("read /etc/hostname"), "guest");
    writeln!(guest.answers.get_ref(), "write /proc/sysrq-trigger c").unwrap();
    let Stop::Panicked(why) = guest.wait() else {
        panic!("{:?}", guest.machine.console_tail(50))
    };
    assert!(why.contains("sysrq triggered crash"), "{why}");
    assert!(
        guest
            .machine
            .console_tail(50)
            .iter()
            .any(|line| line.contains("Call Trace"))
    );
    let mut line = String::new();
    assert_eq!(
        guest.answers.read_line(&mut line).unwrap_or(0),
        0,
        "the protocol has ended: {line}"
    );
}

fn deaths_of_qemu_and_of_the_kernel_are_distinguished() {
    let kernel = needs!(kernel());
    let cache = tempfile::tempdir().unwrap();
    let initramfs = initramfs::build(&kernel, &contents(), cache.path()).unwrap();
    // The agent ends without a request.
    let mut guest = Guest::boot(&kernel, &initramfs, Vec::new());
    writeln!(guest.answers.get_ref(), "crash").unwrap();
    let Stop::Refused(why) = guest.wait() else {
        panic!("{:?}", guest.machine.console_tail(50))
    };
    assert_eq!(why, "its agent ended: exit status 7");
    // Another process kills QEMU.
    let mut guest = Guest::boot(&kernel, &initramfs, Vec::new());
    assert_eq!(guest.ask("read /etc/hostname"), "guest");
    let pid = rustix::process::Pid::from_raw(i32::try_from(guest.machine.pid()).unwrap()).unwrap();
    assert_eq!(guest.machine.stopped(), None);
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(guest.wait(), Stop::Killed(9));
    // The thread that booted the guest ends, and QEMU ends with it.
    let boots = std::thread::spawn({
        let (kernel, initramfs) = (kernel.clone(), initramfs.clone());
        move || {
            let mut guest = Guest::boot(&kernel, &initramfs, Vec::new());
            guest.ask("read /etc/hostname");
            guest
        }
    });
    let mut guest = boots.join().unwrap();
    assert_eq!(guest.wait(), Stop::Killed(9));
}

fn a_guest_that_cannot_begin_says_why() {
    let kernel = needs!(kernel());
    let cache = tempfile::tempdir().unwrap();
    let missing = Contents {
        modules: vec!["no-such-driver".into()],
        ..contents()
    };
    let error = initramfs::build(&kernel, &missing, cache.path()).unwrap_err();
    assert_eq!(
        (error.code.as_str(), &error.fields["module"]),
        ("kernel/no-module", &"no_such_driver".into())
    );
    // A file that is not a module. The guest detects it.
    let broken = cache.path().join("broken");
    std::fs::write(&broken, "garbage").unwrap();
    let files = vec![("/usr/lib/modules/ext4.ko".to_owned(), broken)];
    let initramfs = initramfs::build(
        &kernel,
        &Contents {
            files,
            ..contents()
        },
        cache.path(),
    )
    .unwrap();
    let mut guest = Guest::boot(&kernel, &initramfs, Vec::new());
    let Stop::Refused(why) = guest.wait() else {
        panic!("{:?}", guest.machine.console_tail(50))
    };
    assert!(why.contains("/usr/lib/modules/ext4.ko"), "{why}");
}

fn acceleration_is_found_by_a_boot() {
    let kernel = needs!(kernel());
    let cache = tempfile::tempdir().unwrap();
    let initramfs = initramfs::build(&kernel, &contents(), cache.path()).unwrap();
    let own = Path::new("/proc/self/exe");
    let (acceleration, how) = machine::probe(&kernel, &initramfs, own, cache.path());
    eprintln!("{acceleration:?}: {how}");
    assert!(!how.is_empty());
    assert_eq!(
        machine::probe(&kernel, &initramfs, own, cache.path()),
        (acceleration, how)
    );
}

/// On some machines /dev/kvm exists and every guest hangs. This test simulates that with a QEMU
/// that prints nothing. On a machine without KVM, the probe reports that without a boot.
fn an_accelerated_guest_that_hangs_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["qemu-system-x86_64", "qemu-system-aarch64"] {
        let path = directory.path().join(name);
        std::fs::write(&path, "#!/bin/sh\nexec sleep 600\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    let path = format!(
        "{}:{}",
        directory.path().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([PROBE_ARGUMENT, directory.path().to_str().unwrap()])
        .env("PATH", path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("Emulated: "), "{text}");
    let kvm = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_ok();
    assert_eq!(
        directory.path().join("acceleration.json").exists(),
        kvm,
        "{text}"
    );
}

/// Runs the role that the arguments name. Returns `None` if they name none.
fn play(arguments: &[OsString]) -> Option<ExitCode> {
    if guest::is_guest(arguments) {
        let stream = guest::begin().expect("a port");
        let mut answers = stream.try_clone().expect("a second handle");
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { break };
            if line == "crash" {
                return Some(ExitCode::from(7));
            }
            let answer = answer(&line);
            if writeln!(answers, "{}", answer.replace('\n', " / ")).is_err() {
                break;
            }
            if line == "end" {
                return Some(ExitCode::SUCCESS);
            }
        }
        return Some(ExitCode::from(9));
    }
    if arguments.get(1)? == PROBE_ARGUMENT {
        let cache = Path::new(arguments.get(2)?);
        let nothing = PathBuf::from("/dev/null");
        let kernel = Kernel {
            release: "0".into(),
            image: nothing.clone(),
            modules: nothing.clone(),
            origin: Origin::Named,
        };
        let (path, kernel_image) = (nothing.clone(), nothing);
        let (modules, missing) = (Vec::new(), Vec::new());
        let held = Default::default();
        let (image_hash, module_hashes) = Default::default();
        let initramfs = Initramfs {
            path,
            kernel: kernel_image,
            modules,
            image_hash,
            module_hashes,
            missing,
            size: 0,
            reused: false,
            held,
        };
        let (acceleration, how) =
            machine::probe(&kernel, &initramfs, Path::new("/proc/self/exe"), cache);
        println!("{acceleration:?}: {how}");
        return Some(ExitCode::SUCCESS);
    }
    if arguments.get(1)? == PARENT_ARGUMENT {
        let child = Command::new("/bin/cat")
            .arg("/etc/hostname")
            .stdout(std::process::Stdio::null())
            .spawn();
        println!("{}", child.expect("a child").id());
        return Some(ExitCode::SUCCESS);
    }
    if arguments.get(1)? == machine::LAUNCH_ARGUMENT {
        eprintln!("{}", machine::launch_main(&arguments[2..]));
        return Some(ExitCode::FAILURE);
    }
    None
}

/// The first argument of a process that starts a child and ends.
const PARENT_ARGUMENT: &str = "__parent";

/// The first argument of a process that probes the acceleration of guests, with the QEMU on its own
/// PATH.
const PROBE_ARGUMENT: &str = "__probe";

/// Returns whether an ended process is reaped soon.
fn gone(path: &str) -> bool {
    (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        !Path::new(path).exists()
    })
}

/// Answers a question, which is a word and an argument.
fn answer(line: &str) -> String {
    let (word, argument) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "read" => fs::read_to_string(argument)
            .map_or_else(|error| error.to_string(), |text| text.trim_end().to_owned()),
        "write" => {
            let (path, text) = argument.split_once(' ').expect("path and text");
            fs::write(path, text).map_or_else(|error| error.to_string(), |()| "written".into())
        }
        "disk" => disk(argument),
        "run" => {
            let mut words = argument.split(' ');
            let output = Command::new(words.next().unwrap_or_default())
                .args(words)
                .output();
            output.map_or_else(
                |error| error.to_string(),
                |output| {
                    let text = [output.stdout, output.stderr].concat();
                    format!(
                        "{} {}",
                        output.status,
                        String::from_utf8_lossy(&text).trim()
                    )
                },
            )
        }
        // The parent ends at once, and PID 1 inherits the child.
        "orphan" => {
            let output = Command::new("/proc/self/exe")
                .arg(PARENT_ARGUMENT)
                .output()
                .expect("a child");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        "gone" => gone(argument).to_string(),
        "echo" => argument.to_owned(),
        "end" => "good bye".into(),
        other => format!("unknown: {other}"),
    }
}

/// Returns the size in bytes and the first bytes of the device with that serial number, and writes
/// these bytes back reversed.
fn disk(serial: &str) -> String {
    use std::os::unix::fs::FileExt;
    for entry in fs::read_dir("/sys/block").expect("sysfs").flatten() {
        let path = entry.path();
        if fs::read_to_string(path.join("serial")).is_ok_and(|text| text.trim() == serial) {
            let sectors: u64 = fs::read_to_string(path.join("size"))
                .unwrap()
                .trim()
                .parse()
                .unwrap();
            let device = Path::new("/dev").join(entry.file_name());
            let file = fs::File::options()
                .read(true)
                .write(true)
                .open(device)
                .expect("the device opens");
            let mut bytes = [0; 5];
            file.read_exact_at(&mut bytes, 0).unwrap();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            bytes.reverse();
            file.write_all_at(&bytes, 0).unwrap();
            file.sync_all().unwrap();
            return format!("{} {text}", sectors * 512);
        }
    }
    "no such disk".into()
}
