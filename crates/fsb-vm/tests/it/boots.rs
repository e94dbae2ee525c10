//! From a kernel to answers, and to every end.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsb_vm::{Acceleration, Contents, Disk, Initramfs, Kernel, Machine, MachineSpec, Stop, initramfs, kernel, machine};

tests! { a_guest_answers, }

const MIB: u64 = 1 << 20;

/// A kernel to boot, or nothing where there is none: then the test has nothing to say.
fn kernel() -> Option<Kernel> {
    let named = std::env::var("FSB_TEST_KERNEL").ok();
    let found = machine::find_qemu(machine::Architecture::HERE).and_then(|_| kernel::resolve(named.as_deref()));
    match found {
        Ok(kernel) => Some(kernel),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
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

/// A guest with its end of the protocol.
struct Guest {
    machine: Machine,
    answers: BufReader<UnixStream>,
}

impl Guest {
    fn boot(kernel: &Kernel, initramfs: &Initramfs, disks: Vec<Disk>) -> Guest {
        let (ours, protocol) = UnixStream::pair().expect("a pair");
        ours.set_read_timeout(Some(Duration::from_secs(120))).expect("a limit");
        let spec = MachineSpec {
            kernel,
            initramfs,
            memory: machine::least_memory(initramfs).max(256 * MIB),
            cpus: 2,
            disks,
            acceleration: Acceleration::Emulated,
            protocol,
            launcher: PathBuf::from("/proc/self/exe"),
        };
        let machine = Machine::boot(spec).expect("QEMU starts");
        Guest { machine, answers: BufReader::new(ours) }
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.answers.get_ref(), "{question}").expect("a question");
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.machine.console_tail(30)));
        line.trim_end().to_owned()
    }

    fn wait(&mut self) -> Stop {
        let start = Instant::now();
        loop {
            if let Some(stop) = self.machine.stopped() {
                return stop;
            }
            assert!(start.elapsed() < Duration::from_secs(120), "{:?}", self.machine.console_tail(30));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn a_guest_answers() {
    let Some(kernel) = kernel() else { return };
    let cache = tempfile::tempdir().unwrap();
    let initramfs = initramfs::build(&kernel, &contents(), cache.path()).unwrap();
    assert_eq!(initramfs.missing, ["no-such-module"]);
    assert!(initramfs::build(&kernel, &contents(), cache.path()).unwrap().reused);
    let image = tempfile::tempfile_in(Path::new("/var/tmp")).unwrap();
    image.set_len(16 * MIB).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&image, b"abcde", 0).unwrap();
    let disk = Disk { file: image.try_clone().unwrap().into(), serial: "fsb0".into() };
    let begin = Instant::now();
    let mut guest = Guest::boot(&kernel, &initramfs, vec![disk]);
    assert_eq!(guest.ask("read /proc/sys/kernel/osrelease"), kernel.release);
    eprintln!("booted in {:.2} s, {} MiB", begin.elapsed().as_secs_f64(), initramfs.size / MIB);
    assert!(guest.ask("read /proc/filesystems").contains("ext4"));
    assert_eq!(guest.ask("disk fsb0"), format!("{} abcde", 16 * MIB));
    let mut bytes = [0; 5];
    // Opened anew: our own description reads past the cache since QEMU has it.
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&image));
    std::io::Read::read_exact(&mut std::fs::File::open(path).unwrap(), &mut bytes).unwrap();
    assert_eq!(&bytes, b"edcba");
    assert_eq!(guest.ask("run /bin/cat /etc/hostname"), "exit status: 0 guest");
    assert_eq!(guest.ask("end"), "good bye");
    assert_eq!(guest.wait(), Stop::PoweredOff);
}
