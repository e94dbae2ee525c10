//! Checks of a run before anything is changed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fsb_compat::postmark::{Settings, pool, source};
use fsb_model::postmark::{Act, Operation};
use rustix::fs::Access;

use crate::result_owner::{self, Rights};
use crate::space::{Need, Room};
use crate::{code, exit};

/// The units in which file systems allocate space: blocks of data, and metadata of each file.
const BLOCK: u64 = 4096;
const NOTE: u64 = 512;

/// Returns the directories that the settings name for the files of a run.
pub fn locations(settings: &Settings) -> Vec<PathBuf> {
    settings.locations.iter().map(|location| PathBuf::from(&location.path)).collect()
}

/// Returns the user whose privileges create the files.
pub fn rights(settings: &Settings) -> anyhow::Result<Rights> {
    let locations = locations(settings);
    let here = locations.is_empty().then_some(Path::new("."));
    Ok(Rights::over(locations.iter().map(PathBuf::as_path).chain(here))?)
}

/// Checks that the directories can hold the files, that the names are free, and that the files fit.
pub fn check(settings: &Settings) -> anyhow::Result<()> {
    let directories = directories(settings);
    rights(settings)?;
    for directory in &directories {
        check_directory(directory, settings)?;
    }
    check_space(settings, &directories)
}

/// Checks that the report can be appended to the file.
pub fn report(file: Option<&str>) -> anyhow::Result<()> {
    let Some(path) = file.map(Path::new) else { return Ok(()) };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = path.display();
    if path.is_dir() {
        return Err(exit::failure(&code::UNWRITABLE, format!("cannot add a report to {shown}: it is a directory")));
    }
    if !parent.is_dir() {
        return Err(exit::failure(
            &code::UNWRITABLE,
            format!("cannot add a report to {shown}: no directory {}", parent.display()),
        ));
    }
    result_owner::check(path).map_err(|error| {
        exit::failure(&code::UNWRITABLE, format!("cannot add a report to {shown}: {}", result_owner::reason(error)))
    })?;
    let writable = if path.exists() { path } else { parent };
    let denied =
        |_| exit::failure(&code::OUTPUT_FAILED, format!("cannot add a report to {shown}: it may not be written"));
    rustix::fs::access(writable, Access::WRITE_OK).map_err(denied)
}

fn check_directory(directory: &Path, settings: &Settings) -> anyhow::Result<()> {
    let shown = directory.display();
    if !directory.is_dir() {
        return Err(exit::failure(
            &code::DIRECTORY,
            format!("location {shown} is not a directory: make it first, or name another one"),
        ));
    }
    rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| {
        exit::failure(&code::DIRECTORY_NOT_WRITABLE, format!("location {shown} cannot be written to: {errno}"))
    })?;
    let entries = std::fs::read_dir(directory).map_err(|error| {
        exit::failure(&code::DIRECTORY_NOT_WRITABLE, format!("location {shown} cannot be read: {error}"))
    })?;
    let taken = entries.flatten().map(|entry| entry.file_name()).find(|name| is_ours(name, settings));
    match taken {
        None => Ok(()),
        Some(name) => Err(exit::failure_about(
            &code::DIRECTORY,
            [("path", shown.to_string().into()), ("name", name.to_string_lossy().into())],
            format!(
                "'{}' is in {shown} already, and a run makes and removes a file or directory of that name: \
             name another location, or remove it",
                name.to_string_lossy()
            ),
        )),
    }
}

/// Removes the files of a run whose worker could not remove them. Their names were free when the run began.
pub fn remove_left(settings: &Settings) -> io::Result<()> {
    for directory in directories(settings) {
        for entry in std::fs::read_dir(directory)?.flatten().filter(|entry| is_ours(&entry.file_name(), settings)) {
            if !entry.file_type()?.is_dir() {
                std::fs::remove_file(entry.path())?;
                continue;
            }
            // A run makes only numbered files in it. `remove_dir` reports a directory that holds anything else, which
            // stays.
            for file in std::fs::read_dir(entry.path())?.flatten() {
                if file.file_name().to_str().is_some_and(|name| name.parse::<u64>().is_ok()) {
                    std::fs::remove_file(file.path())?;
                }
            }
            std::fs::remove_dir(entry.path())?;
        }
    }
    Ok(())
}

/// Returns the directories of the files: the working directory if the settings name none.
fn directories(settings: &Settings) -> Vec<PathBuf> {
    let named = locations(settings);
    if named.is_empty() { vec![PathBuf::from(".")] } else { named }
}

/// Returns whether a run would create a file or directory of that name.
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

fn check_space(settings: &Settings, directories: &[PathBuf]) -> anyhow::Result<()> {
    let (mut rooms, mut devices) = (BTreeMap::new(), Vec::new());
    for path in directories {
        let Some((metadata, room)) = std::fs::metadata(path).ok().zip(Room::of(path)) else { return Ok(()) };
        devices.push(metadata.dev());
        rooms.entry(metadata.dev()).or_insert(room);
    }
    let shape = &settings.shape;
    // No pool holds more; most hold far less, and then it is worth going through the operations.
    let places = 2 * u64::from(shape.number);
    let subdirectories = if shape.subdirectories > 1 { u64::from(shape.subdirectories) } else { 0 };
    let directories_made = subdirectories * directories.len() as u64;
    let most =
        Need { bytes: places * taken(shape.size_high) + directories_made * BLOCK, files: places + directories_made };
    if rooms.values().all(|room| room.holds(most)) {
        return Ok(());
    }
    // If not even the first files fit, the operations, which may be many, need not be simulated.
    let least = u64::from(shape.number) * taken(shape.size_low);
    if least > rooms.values().map(|room| room.bytes).sum() {
        let need = Need { bytes: least, files: u64::from(shape.number) };
        return rooms.values().next().map_or(Ok(()), |room| Err(too_much(need, room)));
    }
    for (device, mut need) in peaks(settings, &devices) {
        need.bytes += directories_made * BLOCK;
        need.files += directories_made;
        if !rooms[&device].holds(need) {
            return Err(too_much(need, &rooms[&device]));
        }
    }
    Ok(())
}

fn too_much(need: Need, room: &Room) -> anyhow::Error {
    exit::failure(
        &code::NO_SPACE,
        format!("this run {}: 'set number' and 'set size' make it smaller", room.lacks(need)),
    )
}

/// Returns the space that a file of that size takes.
fn taken(size: u32) -> u64 {
    u64::from(size).next_multiple_of(BLOCK) + NOTE
}

/// Returns the peak need on each device. The operations of a run follow from its settings alone.
fn peaks(settings: &Settings, devices: &[u64]) -> BTreeMap<u64, Need> {
    let mut pool = pool(settings, source(settings).1);
    let mut now: BTreeMap<u64, Need> = devices.iter().map(|device| (*device, Need::default())).collect();
    let mut most = now.clone();
    let mut follow = |operation: Option<Operation>| {
        let Some(Operation { act, file, bytes }) = operation else { return };
        let device = devices[file.location as usize];
        let (Some(need), Some(peak)) = (now.get_mut(&device), most.get_mut(&device)) else { return };
        match act {
            Act::Create => *need = Need { bytes: need.bytes + taken(bytes), files: need.files + 1 },
            Act::Append { at } => need.bytes = need.bytes + taken(at + bytes) - taken(at),
            Act::Delete => *need = Need { bytes: need.bytes - taken(bytes), files: need.files - 1 },
            Act::Read => {}
        }
        *peak = Need { bytes: peak.bytes.max(need.bytes), files: peak.files.max(need.files) };
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
