//! The files that the program found, made anew: directories, sizes, holes, links. Their contents are ours.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fsb_trace::{Initial, Skimmed, State, is_inside};

use crate::EngineError;
use crate::context::Context;
use crate::data::Data;

/// Bytes that are written at once.
const PIECE: u64 = 1 << 20;

/// Makes all of them below a directory that is empty.
pub(super) fn make(set: &Path, skimmed: &Skimmed, context: &Context) -> Result<(), EngineError> {
    check_room(set, skimmed)?;
    let mut data = Data::new(context.data(), PIECE as usize);
    let mut address = 0;
    let path = |name: u32| {
        let name = skimmed.names.get(name);
        // The reader has refused others; nothing here may lead out all the same.
        is_inside(name).then(|| set.join(OsStr::from_bytes(name)))
    };
    // Links last: no name of the trace leads through one while files are made.
    let later = |initial: &Initial| matches!(initial.state, State::Link { .. } | State::Same { .. });
    let (last, first): (Vec<_>, Vec<_>) = skimmed.initial.iter().partition(|initial| later(initial));
    for Initial { name, state } in first.into_iter().chain(last) {
        let Some(path) = path(*name).filter(|path| path != set) else { continue };
        let made = above(&path).and_then(|()| match state {
            State::Directory => fs::create_dir_all(&path),
            State::File { size, data: pieces } => file(&path, *size, pieces.as_deref(), &mut data, &mut address),
            State::Link { to } => std::os::unix::fs::symlink(OsStr::from_bytes(to), &path),
            State::Same { name } => {
                self::path_of(set, skimmed, *name).map_or(Ok(()), |first| fs::hard_link(first, &path))
            }
        });
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(EngineError::io("make", &path, &error));
            }
            _ => context.progress.add(1),
        }
    }
    Ok(())
}

fn path_of(set: &Path, skimmed: &Skimmed, name: u32) -> Option<PathBuf> {
    let name = skimmed.names.get(name);
    is_inside(name).then(|| set.join(OsStr::from_bytes(name)))
}

/// The directories above a file: another tool's trace does not always tell them.
fn above(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

fn file(path: &Path, size: u64, pieces: Option<&[(u64, u64)]>, data: &mut Data, address: &mut u64) -> io::Result<()> {
    let file: File =
        OpenOptions::new().write(true).create_new(true).mode(0o644).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let whole = [(0, size)];
    for (offset, length) in pieces.unwrap_or(&whole) {
        let mut at = 0;
        while at < *length {
            let piece = (length - at).min(PIECE);
            file.write_all_at(data.window(*address, piece as usize), offset + at)?;
            at += piece;
            *address += piece.next_multiple_of(4096);
        }
    }
    file.set_len(size)
}

/// Sizes that no file system has, or this one has no room for, are told before anything is made.
fn check_room(set: &Path, skimmed: &Skimmed) -> Result<(), EngineError> {
    let mut needed: u64 = 0;
    for Initial { state, .. } in &skimmed.initial {
        if let State::File { size, data } = state {
            if *size > i64::MAX as u64 {
                return Err(EngineError::new(format!(
                    "the trace has a file of {size} bytes, larger than any file can be"
                )));
            }
            let held = data.as_ref().map_or(*size, |data| data.iter().map(|(_, length)| *length).sum());
            needed = needed.saturating_add(held);
        }
    }
    let free = rustix::fs::statvfs(set).map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize));
    if needed > free {
        let shown = fsb_model::units::show_bytes;
        return Err(EngineError::new(format!(
            "the files of the trace hold {}, but the target has room for {}: use a larger --size",
            shown(needed as f64),
            shown(free as f64)
        )));
    }
    Ok(())
}
