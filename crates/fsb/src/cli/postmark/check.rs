//! What may be wrong with a run, asked before anything is touched.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fsb_compat::postmark::{Settings, pool, source};
use fsb_model::postmark::{Act, Operation};
use fsb_model::units::show_bytes;
use rustix::fs::{Access, StatVfs};

use crate::author::{self, Rights};
use crate::exit;

/// File systems give out space in blocks, and note each file somewhere.
const BLOCK: u64 = 4096;
const NOTE: u64 = 512;

/// Where the files of a run lie.
pub fn locations(settings: &Settings) -> Vec<PathBuf> {
    settings.locations.iter().map(|location| PathBuf::from(&location.path)).collect()
}

/// With whose rights the files are made.
pub fn rights(settings: &Settings) -> anyhow::Result<Rights> {
    let locations = locations(settings);
    let here = locations.is_empty().then_some(Path::new("."));
    Ok(Rights::over(locations.iter().map(PathBuf::as_path).chain(here))?)
}

/// Directories that cannot hold the files, names that are taken, and what does not fit.
pub fn check(settings: &Settings) -> anyhow::Result<()> {
    let mut directories = locations(settings);
    if directories.is_empty() {
        directories.push(PathBuf::from("."));
    }
    rights(settings)?;
    for directory in &directories {
        check_directory(directory, settings)?;
    }
    check_space(settings, &directories)
}

/// A file that a report shall be added to.
pub fn report(file: Option<&str>) -> anyhow::Result<()> {
    let Some(path) = file.map(Path::new) else { return Ok(()) };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = path.display();
    if path.is_dir() {
        return Err(exit::request(format!("cannot add a report to {shown}: it is a directory")));
    }
    if !parent.is_dir() {
        return Err(exit::request(format!(
            "cannot add a report to {shown}: there is no directory {}",
            parent.display()
        )));
    }
    author::check(path)
        .map_err(|error| exit::request(format!("cannot add a report to {shown}: {}", author::reason(error))))?;
    let writable = if path.exists() { path } else { parent };
    let denied = |_| exit::machine(format!("cannot add a report to {shown}: it may not be written"));
    rustix::fs::access(writable, Access::WRITE_OK).map_err(denied)
}

fn check_directory(directory: &Path, settings: &Settings) -> anyhow::Result<()> {
    let shown = directory.display();
    if !directory.is_dir() {
        return Err(exit::request(format!("location {shown} is no directory: make it first, or name another one")));
    }
    rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|errno| exit::machine(format!("location {shown} cannot be written to: {errno}")))?;
    let entries = std::fs::read_dir(directory)
        .map_err(|error| exit::machine(format!("location {shown} cannot be read: {error}")))?;
    let taken = entries.flatten().map(|entry| entry.file_name()).find(|name| is_ours(name, settings));
    match taken {
        None => Ok(()),
        Some(name) => Err(exit::request(format!(
            "'{}' is in {shown} already, and a run makes and removes a file or directory of that name: \
             name another location, or remove it",
            name.to_string_lossy()
        ))),
    }
}

/// Whether a run would make something of that name.
fn is_ours(name: &OsStr, settings: &Settings) -> bool {
    let shape = &settings.shape;
    let number = |text: &str| {
        let plain = text == "0" || !text.starts_with(['0', '+']);
        text.parse::<u64>().ok().filter(|_| plain)
    };
    let Some(name) = name.to_str() else { return false };
    if shape.subdirectories > 1 {
        return name.strip_prefix('s').and_then(number).is_some_and(|number| number < u64::from(shape.subdirectories));
    }
    let most = u64::from(shape.number) + u64::from(shape.transactions);
    number(name).is_some_and(|number| (1..=most).contains(&number))
}

/// What a file system must hold at once.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    bytes: u64,
    files: u64,
}

/// A file system that some locations lie on.
struct Room {
    /// One of them.
    path: PathBuf,
    free: StatVfs,
}

impl Room {
    fn bytes(&self) -> u64 {
        self.free.f_bavail.saturating_mul(self.free.f_frsize)
    }

    /// Some file systems make inodes as they need them and report none.
    fn holds(&self, load: Load) -> bool {
        load.bytes <= self.bytes() && (self.free.f_files == 0 || load.files <= self.free.f_favail)
    }
}

fn check_space(settings: &Settings, directories: &[PathBuf]) -> anyhow::Result<()> {
    let (mut rooms, mut devices) = (BTreeMap::new(), Vec::new());
    for path in directories {
        let known = std::fs::metadata(path).ok().zip(rustix::fs::statvfs(path).ok());
        let Some((metadata, free)) = known else { return Ok(()) };
        devices.push(metadata.dev());
        rooms.entry(metadata.dev()).or_insert_with(|| Room { path: path.clone(), free });
    }
    let shape = &settings.shape;
    // No pool holds more; most hold far less, and then it is worth going through the operations.
    let places = 2 * u64::from(shape.number);
    let subdirectories = if shape.subdirectories > 1 { u64::from(shape.subdirectories) } else { 0 };
    let directories_made = subdirectories * directories.len() as u64;
    let most =
        Load { bytes: places * taken(shape.size_high) + directories_made * BLOCK, files: places + directories_made };
    if rooms.values().all(|room| room.holds(most)) {
        return Ok(());
    }
    // Where not even the first files fit, nobody need go through operations that may be many.
    let least = u64::from(shape.number) * taken(shape.size_low);
    if least > rooms.values().map(Room::bytes).sum() {
        let load = Load { bytes: least, files: u64::from(shape.number) };
        return rooms.values().next().map_or(Ok(()), |room| Err(too_much(load, room)));
    }
    for (device, mut load) in peaks(settings, &devices) {
        load.bytes += directories_made * BLOCK;
        load.files += directories_made;
        if !rooms[&device].holds(load) {
            return Err(too_much(load, &rooms[&device]));
        }
    }
    Ok(())
}

fn too_much(load: Load, room: &Room) -> anyhow::Error {
    let (needed, there) = (show_bytes(load.bytes as f64), show_bytes(room.bytes() as f64));
    exit::machine(format!(
        "this run needs {needed} and {} files at once, and {} has {there} free and room for {} files: \
         'set number' and 'set size' make it smaller",
        load.files,
        room.path.display(),
        room.free.f_favail
    ))
}

/// What a file of that size takes.
fn taken(size: u32) -> u64 {
    u64::from(size).next_multiple_of(BLOCK) + NOTE
}

/// The most that lies on each device at once: the operations of a run follow from its settings alone.
fn peaks(settings: &Settings, devices: &[u64]) -> BTreeMap<u64, Load> {
    let mut pool = pool(settings, source(settings).1);
    let mut now: BTreeMap<u64, Load> = devices.iter().map(|device| (*device, Load::default())).collect();
    let mut most = now.clone();
    let mut follow = |operation: Option<Operation>| {
        let Some(Operation { act, file, bytes }) = operation else { return };
        let device = devices[file.location as usize];
        let (Some(load), Some(peak)) = (now.get_mut(&device), most.get_mut(&device)) else { return };
        match act {
            Act::Create => *load = Load { bytes: load.bytes + taken(bytes), files: load.files + 1 },
            Act::Append { at } => load.bytes = load.bytes + taken(at + bytes) - taken(at),
            Act::Delete => *load = Load { bytes: load.bytes - taken(bytes), files: load.files - 1 },
            Act::Read => {}
        }
        *peak = Load { bytes: peak.bytes.max(load.bytes), files: peak.files.max(load.files) };
    };
    for _ in 0..settings.shape.number {
        follow(pool.create());
    }
    for _ in 0..settings.shape.transactions {
        if pool.is_exhausted() {
            break;
        }
        follow(pool.use_one());
        follow(pool.exchange());
    }
    most
}
