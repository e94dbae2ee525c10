//! `--tree`: converts the shape of a directory, or the shape that another run recorded, to workloads.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fsb_model::shape::{MOST_ENTRIES, Shape};
use fsb_model::units::show_bytes;
use fsb_model::{Bytes, RunRecord, WorkloadSpec};
use fsb_store::input::LARGEST_RECORD;
use fsb_sys::InvokingUser;
use serde_json::Value;

use crate::{code, exit, result_owner};

const WORKLOAD: &str = "filetree";
/// The smallest size of the image, unless the user chooses another.
const USUAL_IMAGE: u64 = 2 << 30;

/// Returns the workloads on the tree, and the size of an image that has room for the tree twice.
pub(super) fn workloads(tree: &Path) -> anyhow::Result<(Vec<WorkloadSpec>, Bytes)> {
    // Messages quote names of the tree, or text of a file that is not a run record: read with the invoking user's
    // privileges.
    let read = || if tree.is_dir() { recorded(tree) } else { of_run(tree) };
    let (name, shape) = result_owner::result_owner().act(read).map_err(|error| failed(tree, &error))??;
    if shape.files() == 0 {
        return Err(exit::failure(&code::INVALID_INPUT, format!("--tree {}: the tree has no files", tree.display())));
    }
    let text = shape.to_string();
    let one = |operation: &str, copy: Option<&str>| {
        let params = [("operation", Some(operation)), ("copy", copy), ("tree", Some(&name)), ("shape", Some(&text))];
        let params = params.into_iter().filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?))));
        WorkloadSpec::new(WORKLOAD, params.collect())
    };
    let workloads = vec![
        one("copy-into", None),
        one("copy-within", None),
        one("copy-within", Some("copy_file_range")),
        one("copy-within", Some("reflink")),
        one("delete", None),
    ];
    // Blocks, inodes and the file system's own metadata.
    let needed: u64 = shape.sizes().map(|size| size.next_multiple_of(4096)).sum::<u64>() + shape.entries() * 4096;
    let image = (needed * 3).next_multiple_of(1 << 20).max(USUAL_IMAGE);
    Ok((workloads, Bytes(image)))
}

fn failed(path: &Path, error: &io::Error) -> anyhow::Error {
    exit::failure(&code::UNREADABLE, format!("--tree: cannot read {}: {error}{}", path.display(), whose_rights(error)))
}

/// Explains a refusal: root could read the file, but the invoking user cannot.
fn whose_rights(error: &io::Error) -> String {
    match InvokingUser::current().filter(|_| error.kind() == io::ErrorKind::PermissionDenied) {
        Some(invoking_user) => format!(
            " to the invoking user {}: fsb reads --tree with that user's rights; name a tree that this user can read",
            invoking_user.uid
        ),
        None => String::new(),
    }
}

/// Returns the name and the shape of a directory; follows no links, and counts a file with several names once.
fn recorded(root: &Path) -> anyhow::Result<(String, Shape)> {
    use std::os::unix::fs::MetadataExt;
    let mut shape = Shape::default();
    let mut left: Vec<(PathBuf, usize)> = vec![(root.to_owned(), 0)];
    // Copy programs that detect hard links copy a file with several names once; it is counted once here.
    let mut known: HashMap<(u64, u64), ()> = HashMap::new();
    while let Some((path, number)) = left.pop() {
        let entries = fs::read_dir(&path).map_err(|error| failed(&path, &error))?;
        let mut entries: Vec<_> = entries.collect::<Result<_, _>>().map_err(|error| failed(&path, &error))?;
        // Sort, so that the shape does not depend on the order of the directory entries.
        entries.sort_by_key(fs::DirEntry::file_name);
        let mut inner = Vec::new();
        for entry in entries {
            let path = entry.path();
            let metadata = entry.metadata().map_err(|error| failed(&path, &error))?;
            if metadata.is_dir() {
                inner.push((path, shape.add_directory(number)));
            } else if metadata.is_file() {
                let seen = metadata.nlink() > 1 && known.insert((metadata.dev(), metadata.ino()), ()).is_some();
                if !seen {
                    shape.add_file(number, metadata.len());
                }
            }
            if shape.entries() > MOST_ENTRIES as u64 {
                let message = "holds more than a million files and directories: name a smaller directory";
                return Err(exit::failure(&code::INVALID_INPUT, format!("--tree {}: it {message}", root.display())));
            }
        }
        // Reverse, so that the first one is popped next.
        left.extend(inner.into_iter().rev());
    }
    let whole = fs::canonicalize(root).map_err(|error| failed(root, &error))?;
    let name = whole.file_name().map_or_else(|| "the root".to_owned(), |name| name.to_string_lossy().into_owned());
    // Messages print the name on one line.
    let name: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let name = format!("{name} ({} files, {})", shape.files(), show_bytes(shape.bytes() as f64));
    Ok((name, shape))
}

/// Returns the shape in the record of a run.
fn of_run(path: &Path) -> anyhow::Result<(String, Shape)> {
    let failed = |why: String| exit::failure(&code::INVALID_INPUT, format!("--tree {}: {why}", path.display()));
    let read = fsb_store::input::read(path, LARGEST_RECORD);
    let text = read.map_err(|error| failed(format!("cannot be read: {error}")))?;
    let record: RunRecord = serde_json::from_slice(&text)
        .map_err(|_| failed("neither a directory nor the run.json of a run".to_owned()))?;
    let found = record.cells.iter().find_map(|cell| {
        let text = |key: &str| cell.workload.params.get(key).and_then(Value::as_str);
        Some((text("tree").unwrap_or("a tree").to_owned(), text("shape")?))
    });
    let (name, shape) = found.ok_or_else(|| failed("that run recorded no shape of a tree".to_owned()))?;
    Ok((name, shape.parse().map_err(|error| failed(format!("{error}")))?))
}
