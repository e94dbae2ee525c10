//! The other roles of this binary: it becomes QEMU, or answers questions in the guest.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use fsb_vm::{Initramfs, Kernel, Origin, guest, machine};

/// Runs the role that the arguments name. Returns `None` if they name none.
pub fn play(arguments: &[OsString]) -> Option<ExitCode> {
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
        let kernel =
            Kernel { release: "0".into(), image: nothing.clone(), modules: nothing.clone(), origin: Origin::Named };
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
        let (acceleration, how) = machine::probe(&kernel, &initramfs, Path::new("/proc/self/exe"), cache);
        println!("{acceleration:?}: {how}");
        return Some(ExitCode::SUCCESS);
    }
    if arguments.get(1)? == PARENT_ARGUMENT {
        let child = Command::new("/bin/cat").arg("/etc/hostname").stdout(std::process::Stdio::null()).spawn();
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

/// The first argument of a process that probes the acceleration of guests, with the QEMU on its own PATH.
pub const PROBE_ARGUMENT: &str = "__probe";

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
        "read" => {
            fs::read_to_string(argument).map_or_else(|error| error.to_string(), |text| text.trim_end().to_owned())
        }
        "write" => {
            let (path, text) = argument.split_once(' ').expect("path and text");
            fs::write(path, text).map_or_else(|error| error.to_string(), |()| "written".into())
        }
        "disk" => disk(argument),
        "run" => {
            let mut words = argument.split(' ');
            let output = Command::new(words.next().unwrap_or_default()).args(words).output();
            output.map_or_else(
                |error| error.to_string(),
                |output| {
                    let text = [output.stdout, output.stderr].concat();
                    format!("{} {}", output.status, String::from_utf8_lossy(&text).trim())
                },
            )
        }
        // The parent ends at once, and PID 1 inherits the child.
        "orphan" => {
            let output = Command::new("/proc/self/exe").arg(PARENT_ARGUMENT).output().expect("a child");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        "gone" => gone(argument).to_string(),
        "echo" => argument.to_owned(),
        "end" => "good bye".into(),
        other => format!("unknown: {other}"),
    }
}

/// Returns the size in bytes and the first bytes of the device with that serial number, and writes these bytes back
/// reversed.
fn disk(serial: &str) -> String {
    use std::os::unix::fs::FileExt;
    for entry in fs::read_dir("/sys/block").expect("sysfs").flatten() {
        let path = entry.path();
        if fs::read_to_string(path.join("serial")).is_ok_and(|text| text.trim() == serial) {
            let sectors: u64 = fs::read_to_string(path.join("size")).unwrap().trim().parse().unwrap();
            let device = Path::new("/dev").join(entry.file_name());
            let file = fs::File::options().read(true).write(true).open(device).expect("the device opens");
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
