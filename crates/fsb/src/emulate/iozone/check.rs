//! Checks whether a request can be served, before anything is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use fsb_compat::iozone::Options;
use fsb_compat::iozone::options::Means;
use fsb_compat::iozone::sequence::{self, MatrixRow, Operation, Piece};
use fsb_engine::classic::{self, Existing};
use fsb_model::storage::Promise;
use fsb_model::{Bytes, code, errno, failure, notice};
use fsb_store::owner::{self, Rights};
use fsb_testbed::access::{self, Obstacle};
use rustix::fs::Access;

use super::remount;
use crate::emulate::promises;
use crate::message::{notify, say_warning};
use crate::run::space::FreeSpace;

/// The largest memory of all asynchronous requests together.
const MOST_MEMORY: u64 = 4 << 30;

/// Refuses impossible requests: with exit code 2 if other options would help, with 3 if the machine
/// cannot perform them.
pub fn check(options: &Options) -> anyhow::Result<Rights> {
    let rows = sequence::rows(options);
    let files: Vec<PathBuf> = sequence::files(options).into_iter().collect();
    let rights = Rights::over(files.iter().map(|file| directory(file)))?;
    rights
        .act(|| check_with(options, &rows, rights))
        .context("the tests")??;
    Ok(rights)
}

fn check_with(options: &Options, rows: &[MatrixRow], rights: Rights) -> anyhow::Result<()> {
    let mut existing = BTreeMap::new();
    for path in sequence::files(options) {
        let found = classic::examine(&path).map_err(|error| {
            let is_device =
                std::fs::metadata(&path).is_ok_and(|found| found.file_type().is_block_device());
            let kind = is_device.then_some("block_device");
            let fields = [
                ("path", path.to_string_lossy().into()),
                ("kind", kind.into()),
            ];
            let place = directory(&path);
            let unreachable = std::fs::metadata(place)
                .err()
                .and_then(|error| access::obstacle(place, &error));
            let message = match unreachable {
                Some(Obstacle { why, advice }) => {
                    let shown = place.display();
                    format!("the directory {shown} cannot be used: {why}: {advice}")
                }
                None => error.message,
            };
            failure::about(&code::INVALID_IOZONE, fields, message)
        })?;
        existing.insert(path, found);
    }
    one_file_each(&existing)?;
    for (path, found) in &existing {
        something_to_read(options, rows, *found)?;
        permitted(path, *found, writes(options))?;
        if *found != Existing::Nothing && writes(options) {
            owner::check_existing(path, rights)?;
        }
    }
    memory(options, rows)?;
    processors(options)?;
    for output in options
        .sheet
        .iter()
        .chain(options.latency_files.then_some(&PathBuf::from("wol.dat")))
    {
        writable(output)?;
        apart(output, existing.keys())?;
    }
    not_whole(rows);
    if let Some(point) = &options.remount {
        remount::check(point, &options.file)?;
    }
    space(options, rows, &existing)?;
    if options.sync || options.data_sync || options.include_flush {
        let directories: BTreeSet<&Path> = existing.keys().map(|path| directory(path)).collect();
        for parent in directories {
            promises::warn_not_durable(parent, &[Promise::SyncedFiles]);
        }
    }
    direct(options, rows, existing.keys())
}

/// Refuses two names of one file, which would be measured against each other.
fn one_file_each(existing: &BTreeMap<PathBuf, Existing>) -> anyhow::Result<()> {
    let mut seen = BTreeMap::new();
    for path in existing.keys() {
        let Ok(metadata) = std::fs::metadata(path) else {
            continue;
        };
        if let Some(other) = seen.insert((metadata.dev(), metadata.ino()), path) {
            return Err(failure::error(
                &code::INVALID_IOZONE,
                format!("{} and {} are one file", other.display(), path.display()),
            ));
        }
    }
    Ok(())
}

/// Checks that each reading operation of the first row finds its file complete.
fn something_to_read(
    options: &Options,
    rows: &[MatrixRow],
    existing: Existing,
) -> anyhow::Result<()> {
    let largest = rows.iter().map(|row| row.file << 10).max().unwrap_or(0);
    let mut size = match existing {
        Existing::File(size) => size,
        Existing::Nothing => 0,
    };
    for operation in operations(options) {
        if operation.needs_file() && size < largest {
            let wanted = Bytes(largest);
            let found = if existing == Existing::Nothing {
                "there is none".to_owned()
            } else {
                format!("it has {size} bytes")
            };
            return Err(failure::error(
                &code::INVALID_IOZONE,
                format!(
                    "the tests read a file of {wanted} first, but {found}: add -i 0, which writes the file, or write \
                     it beforehand with -i 0 -w and the same sizes"
                ),
            ));
        }
        if operation.makes_file() {
            size = largest;
        }
    }
    Ok(())
}

/// Returns whether any operation of a run changes its files. Files that it only reads are not its
/// own to remove.
fn writes(options: &Options) -> bool {
    operations(options).into_iter().any(Operation::writes)
}

/// Returns the operations of the first row, or of the first number of processes.
fn operations(options: &Options) -> Vec<Operation> {
    if options.throughput() {
        return sequence::throughput(options);
    }
    let done = sequence::pieces(options)
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Do(operation, _) | Piece::Silently(operation) => Some(operation),
            Piece::Zero(_) | Piece::Blank(_) => None,
        });
    done.collect()
}

/// Checks the permissions: written files are created and removed repeatedly, others are only read.
fn permitted(path: &Path, found: Existing, writes: bool) -> anyhow::Result<()> {
    let may = |path: &Path, access| rustix::fs::access(path, access).map_err(io::Error::from);
    if found != Existing::Nothing {
        let (access, what) = match writes {
            true => (Access::READ_OK | Access::WRITE_OK, "write"),
            false => (Access::READ_OK, "read"),
        };
        may(path, access).map_err(|error| {
            failure::failed_call(
                &code::UNREADABLE,
                &error,
                format!("cannot {what} {}: {error}", path.display()),
            )
        })?;
    }
    if !writes {
        return Ok(());
    }
    let parent = directory(path);
    let shown = std::path::absolute(parent).unwrap_or_else(|_| parent.to_owned());
    may(parent, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
        let shown = shown.display();
        failure::about(
            &code::DIRECTORY,
            [("path", shown.to_string().into()), ("errno", errno::name_of(&error).into())],
            format!("no file can be made in {shown}: {error}. Name one in another directory with -f or -F"),
        )
    })
}

fn memory(options: &Options, rows: &[MatrixRow]) -> anyhow::Result<()> {
    let Means::Async { depth, .. } = options.means else {
        return Ok(());
    };
    let needed = rows
        .iter()
        .map(|row| (row.file / row.record).min(u64::from(depth)) * (row.record << 10))
        .max()
        .unwrap_or(0);
    if needed > MOST_MEMORY {
        let message = format!(
            "{depth} requests under way need {} of memory: choose a smaller depth or record",
            Bytes(needed)
        );
        return Err(failure::error(&code::INVALID_IOZONE, message));
    }
    Ok(())
}

fn processors(options: &Options) -> anyhow::Result<()> {
    let Some(first) = options.first_cpu else {
        return Ok(());
    };
    let next = "'taskset -cp $$' lists those that are";
    classic::processors(first, 1).map(|_| ()).ok_or_else(|| {
        failure::error(
            &code::INVALID_IOZONE,
            format!("-P {first}: this is not a processor for this process; {next}"),
        )
    })
}

/// Checks that a path can be written, before the measurement.
fn writable(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        return Err(failure::error(
            &code::UNWRITABLE,
            format!("{} is a directory: name a file in it", path.display()),
        ));
    }
    let failure = format!("cannot write {}", path.display());
    owner::check(path).map_err(|error| owner::unwritable(&failure, error))?;
    let allowed = rustix::fs::access(directory(path), Access::WRITE_OK | Access::EXEC_OK)
        .map_err(io::Error::from);
    allowed.map_err(|error| {
        failure::failed_call(&code::UNWRITABLE, &error, format!("{failure}: {error}"))
    })
}

/// Refuses to write the spreadsheet over the file under test.
fn apart<'p>(output: &Path, mut files: impl Iterator<Item = &'p PathBuf>) -> anyhow::Result<()> {
    let place = |path: &Path| {
        let parent = directory(path)
            .canonicalize()
            .unwrap_or_else(|_| directory(path).to_owned());
        (parent, path.file_name().map(ToOwned::to_owned))
    };
    let inode = |path: &Path| {
        std::fs::metadata(path)
            .ok()
            .map(|found| (found.dev(), found.ino()))
    };
    match files.find(|file| {
        place(file) == place(output) || inode(file).is_some_and(|one| inode(output) == Some(one))
    }) {
        None => Ok(()),
        Some(file) => Err(failure::error(
            &code::CONFLICT,
            format!(
                "the results in {} would overwrite {}, the file under test: name another file",
                output.display(),
                file.display()
            ),
        )),
    }
}

/// Warns of file sizes that are not a multiple of the record size. Like IOzone, automatic mode
/// measures such pairs; a rate counts whole records only.
fn not_whole(rows: &[MatrixRow]) {
    let mut odd = rows.iter().filter(|row| !row.is_whole());
    let Some(first) = odd.next() else { return };
    let others = odd.count();
    let more = if others == 0 {
        String::new()
    } else {
        format!(" (and {others} more pairs)")
    };
    let text = format!(
        "warning: a file of {} kB is not a multiple of a record of {} kB{more}: as in IOzone its last bytes are not touched",
        first.file, first.record
    );
    let fields = [
        ("file_kb", first.file.into()),
        ("record_kb", first.record.into()),
        ("pairs", (others + 1).into()),
    ];
    notify(&notice::PARTIAL_RECORDS, fields, &text);
}

/// Returns the directory of a path.
pub(super) fn directory(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Checks that the largest files fit on each of their file systems.
fn space(
    options: &Options,
    rows: &[MatrixRow],
    existing: &BTreeMap<PathBuf, Existing>,
) -> anyhow::Result<()> {
    let largest = rows.iter().map(|row| row.file << 10).max().unwrap_or(0);
    let mut needs: BTreeMap<u64, (PathBuf, u64)> = BTreeMap::new();
    for (path, found) in existing {
        let parent = directory(path);
        let device = std::fs::metadata(parent)
            .with_context(|| format!("cannot examine {}", parent.display()))?
            .dev();
        let there = if let Existing::File(size) = found {
            *size
        } else {
            0
        };
        needs
            .entry(device)
            .or_insert_with(|| (parent.to_owned(), 0))
            .1 += largest.saturating_sub(there);
    }
    for (parent, needed) in needs.into_values() {
        let Some(room) = FreeSpace::at(&parent) else {
            continue;
        };
        if !room.holds_bytes(needed) {
            let (shown, files) = (
                parent.display(),
                if existing.len() > 1 {
                    "files need"
                } else {
                    "largest file needs"
                },
            );
            let option = if options.auto { "-g" } else { "-s" };
            return Err(failure::error(
                &code::NO_SPACE,
                format!(
                    "the file system of {shown} is too small for these tests: the {files} {} more, {} are available. \
                 Nothing was written; choose a smaller {option} or make room",
                    fsb_model::units::show_bytes(needed as f64),
                    fsb_model::units::show_bytes(room.bytes as f64),
                ),
            ));
        }
    }
    Ok(())
}

/// Warns of a layer beneath a directory that puts direct I/O into a page cache again.
fn warn_of_cache_beneath(directory: &Path) {
    let place = fsb_testbed::directory_record(directory).unwrap_or_default();
    let Some(reason) = promises::not_direct("-I", &place, None) else {
        return;
    };
    let text = format!("warning: {}: {reason}", directory.display());
    notify(&notice::NOT_DIRECT, [("reason", reason.into())], &text);
}

fn direct<'p>(
    options: &Options,
    rows: &[MatrixRow],
    paths: impl Iterator<Item = &'p PathBuf>,
) -> anyhow::Result<()> {
    if !options.direct {
        return Ok(());
    }
    let mut records: Vec<u64> = rows.iter().map(|row| row.record << 10).collect();
    records.sort_unstable();
    records.dedup();
    let mut directories: Vec<&Path> = paths.map(|path| directory(path)).collect();
    directories.dedup();
    for parent in &directories {
        for record in &records {
            let next = "leave -I out, or choose another record size or another file system";
            classic::check_direct(parent, *record).map_err(|why| {
                failure::error(&code::IOZONE_UNABLE, format!("-I: {why}; {next}"))
            })?;
        }
    }
    directories
        .iter()
        .for_each(|parent| warn_of_cache_beneath(parent));
    let streams = |operation: &Operation| operation.is_stream();
    if !options.throughput()
        && sequence::pieces(options)
            .iter()
            .any(|piece| matches!(piece, Piece::Do(operation, _) if streams(operation)))
        || options.throughput() && sequence::throughput(options).iter().any(streams)
    {
        say_warning(
            "fwrite and fread are C stdio, which opens files without O_DIRECT: these go through the page cache, as in IOzone",
        );
    }
    Ok(())
}
