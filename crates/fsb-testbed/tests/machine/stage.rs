//! The common part of the tests: the actor, setups, loop devices of the tests, and checks that nothing is left.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use fsb_model::{Identity, Target};
use fsb_testbed::Setup;
use serde_json::Value;

use crate::actor::actor;

/// Returns a setup with these targets, as small as possible.
pub fn setup(targets: &[&str], size: u64, dir: &Path) -> Setup {
    let mut targets: Vec<Target> = targets.iter().map(|text| text.parse().expect("a target")).collect();
    fsb_model::target::make_names_unique(&mut targets);
    Setup {
        patience: None,
        memory_needed: None,
        targets,
        size,
        slices: 1,
        dir: dir.to_owned(),
        wipe: Vec::new(),
        devices: Default::default(),
        controls: [("guest-memory".to_owned(), "off".to_owned())].into(),
        identity: Identity { uid: Some(65534), gid: Some(65534), force_root: false },
        seed: 1,
        vm: None,
        root: None,
        kernels: Vec::new(),
        oldest_kernel: None,
        large_disk: Default::default(),
        fault: None,
    }
}

/// Returns a temporary directory on a disk, because /tmp may be in memory.
pub fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("fsb-it-").tempdir_in("/var/tmp").expect("/var/tmp can be written to")
}

/// A running coordinator process. Dropping it kills the process.
pub struct Coordinator {
    pub child: Child,
    pub lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Coordinator {
    pub fn start(setup: &Setup, scenario: &str, prepare: impl FnOnce(&mut Command)) -> Coordinator {
        let mut command = actor("coordinator");
        command.arg(serde_json::to_string(setup).expect("JSON")).arg(scenario).stdout(Stdio::piped());
        prepare(&mut command);
        let mut child = command.spawn().expect("the actor is built with the tests");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Coordinator { child, lines }
    }

    /// Returns the next line that has this key. An `error` line fails the test.
    pub fn wait_for(&mut self, key: &str) -> Value {
        for line in self.lines.by_ref() {
            let value: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
            assert!(value.get("error").is_none(), "{value}");
            if value.get(key).is_some() {
                return value;
            }
        }
        panic!("the coordinator ended before it said '{key}'");
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns every line of a whole run.
pub fn run(setup: &Setup, prepare: impl FnOnce(&mut Command)) -> Vec<Value> {
    play(setup, "sequential", prepare)
}

/// Like [`run`], in another scenario.
pub fn play(setup: &Setup, scenario: &str, prepare: impl FnOnce(&mut Command)) -> Vec<Value> {
    let mut coordinator = Coordinator::start(setup, scenario, prepare);
    let lines =
        coordinator.lines.by_ref().map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON")).collect();
    coordinator.child.wait().expect("the front ends");
    lines
}

/// Returns the first line with this key.
pub fn find<'a>(lines: &'a [Value], key: &str) -> &'a Value {
    let told = |key: &str| lines.iter().find_map(|line| line.get(key));
    told(key).unwrap_or_else(|| panic!("no '{key}'; error: {:?}; lines: {lines:?}", told("error")))
}

/// Waits for changes that the kernel makes after a process has ended.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "not so after 30 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the files behind attached loop devices, as the kernel names them.
pub fn backing_files() -> Vec<String> {
    let devices = std::fs::read_dir("/sys/block").expect("/sys").filter_map(Result::ok);
    devices.filter_map(|device| std::fs::read_to_string(device.path().join("loop/backing_file")).ok()).collect()
}

/// Checks that a run with its images in `dir` left nothing: no loop device on them, no mount of fsb, no directory.
pub fn nothing_is_left(dir: &Path) {
    let shown = dir.to_string_lossy().into_owned();
    eventually("no loop device", || backing_files().iter().all(|file| !file.contains(&shown)));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    assert!(!mounts.contains("/run/fsb"), "{mounts}");
    let left: Vec<_> = std::fs::read_dir(dir).expect("the directory").map(|entry| entry.unwrap().path()).collect();
    assert!(left.iter().all(|path| !path.to_string_lossy().contains(".fsb-")), "{left:?}");
}

/// A loop device that the test attached itself, over a sparse file.
pub struct TestDevice {
    pub path: PathBuf,
}

impl TestDevice {
    pub fn new(dir: &Path, size: u64, arguments: &[&str]) -> TestDevice {
        let image = dir.join(format!("device-{}", std::process::id()));
        std::fs::File::create(&image).and_then(|file| file.set_len(size)).expect("an image");
        let output =
            Command::new("losetup").args(arguments).args(["-f", "--show"]).arg(&image).output().expect("losetup");
        assert!(output.status.success(), "{output:?}");
        // Another program must not find it by name.
        std::fs::remove_file(&image).expect("the image");
        TestDevice { path: PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim()) }
    }

    /// Returns the names of its partitions in the kernel.
    pub fn partitions(&self) -> Vec<String> {
        let directory = Path::new("/sys/block").join(self.path.file_name().expect("a device"));
        let entries = std::fs::read_dir(directory).expect("/sys").map(|entry| entry.expect("an entry").path());
        let partitions = entries.filter(|path| path.join("partition").exists());
        partitions.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
    }
}

impl Drop for TestDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

/// Runs a program that must succeed.
pub fn must(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}
