//! Compiling: what the Andrew benchmark's last phase did. It measures the processor before any file system.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use super::index::Item;
use crate::EngineError;

/// More sources than this are not compiled.
pub(super) const MOST: u64 = 200;

/// The compiler that the system calls cc.
pub(super) fn find() -> Option<PathBuf> {
    which::which("cc").ok()
}

/// The name of what a source becomes.
pub(super) fn object(source: &Item) -> OsString {
    let mut name = OsStr::from_bytes(source.name.as_bytes()).to_owned();
    name.push(".o");
    name
}

/// Compiles all sources below `set`, `jobs` at once: nanoseconds that each took.
pub(super) fn run(sources: &[&Item], jobs: u32, set: &Path) -> Result<Vec<u64>, EngineError> {
    let compiler = find().ok_or_else(|| EngineError::new("no program cc in PATH, which compiles"))?;
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let taken = Mutex::new(Ok(Vec::with_capacity(sources.len())));
    let one_job = || {
        while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
            if failed.load(Ordering::Relaxed) {
                break;
            }
            let begun = Instant::now();
            let result = compile(&compiler, source, set);
            let ns = begun.elapsed().as_nanos() as u64;
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            let mut taken = taken.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match (result, taken.as_mut()) {
                (Ok(()), Ok(taken)) => taken.push(ns),
                (Err(error), Ok(_)) => *taken = Err(error),
                (_, Err(_)) => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            std::thread::Builder::new().spawn_scoped(scope, one_job).map_err(|error| {
                failed.store(true, Ordering::Relaxed);
                EngineError::spawn("start a thread that compiles", &error)
            })?;
        }
        Ok::<_, EngineError>(())
    })?;
    taken.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn compile(compiler: &Path, source: &Item, set: &Path) -> Result<(), EngineError> {
    let name = OsStr::from_bytes(source.name.as_bytes());
    let mut command = Command::new(compiler);
    // Whatever it keeps for a while lies on the target too.
    command.current_dir(set).env("TMPDIR", set).args(["-O1", "-w", "-c"]).arg(name).arg("-o").arg(object(source));
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output();
    let output = output.map_err(|error| EngineError::io("run", compiler, &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    let path = set.join(name);
    let message = format!("compile {}: {} ({})", path.display(), said.trim(), output.status);
    Err(EngineError { path: Some(path), ..EngineError::new(message) })
}
