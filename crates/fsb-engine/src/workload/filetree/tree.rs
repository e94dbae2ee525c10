//! A tree on a file system and in memory: names, builds, warms and checks it.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fsb_model::shape::Shape;
use fsb_model::units::show_bytes;
use rustix::fs::MemfdFlags;

use crate::EngineError;
use crate::data::{Data, DataSource, Memory, PAGE};
use crate::fileset::EXAMINED_FILES;
use crate::memory::{check_room, resident_bytes};
use crate::task::Ready;

/// Bytes of one call outside the clock.
const CHUNK: u64 = 1 << 20;
/// Share of the source that must be in memory before it is copied.
const WARM: f64 = 0.99;

/// One file of a tree.
#[derive(Debug)]
pub(super) struct TreeFile {
    /// The number of its directory.
    pub(super) directory: usize,
    pub(super) size: u64,
    /// The address of its first byte among the bytes of the tree; files share no page.
    pub(super) address: u64,
}

/// Returns the files of a shape, directory by directory, and the end of their addresses.
pub(super) fn leaves(shape: &Shape) -> (Vec<TreeFile>, u64) {
    let mut address = 0;
    let mut leaves = Vec::new();
    for (directory, found) in shape.directories().iter().enumerate() {
        for &size in &found.files {
            leaves.push(TreeFile { directory, size, address });
            address += size.next_multiple_of(PAGE as u64);
        }
    }
    (leaves, address)
}

/// The paths of everything in a tree, relative to the directory that contains the tree.
#[derive(Debug)]
pub(super) struct TreeNames {
    pub(super) directories: Vec<CString>,
    pub(super) files: Vec<CString>,
}

impl TreeNames {
    /// Names everything in a tree whose top directory is called `root`.
    pub(super) fn new(shape: &Shape, root: &str) -> TreeNames {
        let mut paths: Vec<String> = Vec::with_capacity(shape.directories().len());
        let mut files = Vec::new();
        for (number, directory) in shape.directories().iter().enumerate() {
            let path = match number {
                0 => root.to_owned(),
                _ => format!("{}/d{number}", paths[directory.parent]),
            };
            files.extend((0..directory.files.len()).map(|file| c_string(format!("{path}/f{file}"))));
            paths.push(path);
        }
        TreeNames { directories: paths.into_iter().map(c_string).collect(), files }
    }

    pub(super) fn path(set: &Path, name: &CString) -> PathBuf {
        set.join(std::ffi::OsStr::from_bytes(name.as_bytes()))
    }
}

fn c_string(text: String) -> CString {
    CString::new(text).expect("names hold no zero")
}

/// Makes the tree with all its bytes.
pub(super) fn build(set: &Path, names: &TreeNames, leaves: &[TreeFile], source: DataSource) -> Result<(), EngineError> {
    for name in &names.directories {
        let path = TreeNames::path(set, name);
        fs::create_dir(&path).map_err(|error| EngineError::io("make directory", &path, &error))?;
    }
    let mut data = Data::new(source, CHUNK as usize);
    for (leaf, name) in leaves.iter().zip(&names.files) {
        let path = TreeNames::path(set, name);
        let file = File::create_new(&path).map_err(|error| EngineError::io("create", &path, &error))?;
        write(&file, leaf, 0, &mut data).map_err(|error| EngineError::io("write to", &path, &error))?;
    }
    Ok(())
}

/// Writes a file's bytes from `offset` on.
fn write(file: &File, leaf: &TreeFile, offset: u64, data: &mut Data) -> std::io::Result<()> {
    let mut done = 0;
    while done < leaf.size {
        let length = CHUNK.min(leaf.size - done);
        file.write_all_at(data.window(leaf.address + done, length as usize), offset + done)?;
        done += length;
    }
    Ok(())
}

/// Creates a file without a name on the kernel's own tmpfs (a memfd) that holds the bytes of all files, so that they
/// are in memory and nowhere else.
pub(super) fn in_memory(leaves: &[TreeFile], whole: u64, source: DataSource) -> Result<File, EngineError> {
    check_room("the source", whole)?;
    let refused = |errno| EngineError::system("make a file in memory", errno);
    let file = File::from(rustix::fs::memfd_create(c"fsb-source", MemfdFlags::CLOEXEC).map_err(refused)?);
    let failed = |error: std::io::Error| EngineError::new(format!("write the source into memory: {error}"));
    file.set_len(whole).map_err(failed)?;
    let mut data = Data::new(source, CHUNK as usize);
    leaves.iter().try_for_each(|leaf| write(&file, leaf, leaf.address, &mut data)).map_err(failed)?;
    Ok(file)
}

/// Proves that the source is in memory, and returns its size and the resident bytes.
pub(super) fn prove_in_memory(file: &File, whole: u64, leaves: &[TreeFile]) -> Result<Ready, EngineError> {
    // Between files nothing was written, and there are no pages.
    let written: u64 = leaves.iter().map(|leaf| leaf.size.next_multiple_of(PAGE as u64)).sum();
    proved(resident_bytes(file, whole), written)
}

/// Reads a tree on the file system into the page cache, and proves that it is there by a sample of files.
pub(super) fn warm(set: &Path, names: &TreeNames, leaves: &[TreeFile]) -> Result<Ready, EngineError> {
    let mut memory = Memory::new(CHUNK as usize);
    for name in &names.files {
        let path = TreeNames::path(set, name);
        let read = |error: std::io::Error| EngineError::io("read from", &path, &error);
        let mut file = File::open(&path).map_err(|error| EngineError::io("open", &path, &error))?;
        while file.read(memory.as_mut()).map_err(read)? > 0 {}
    }
    let (mut resident, mut whole) = (Some(0), 0);
    let examined = (leaves.len() as u64).min(EXAMINED_FILES);
    for index in 0..examined {
        let at = (index * leaves.len() as u64 / examined) as usize;
        let path = TreeNames::path(set, &names.files[at]);
        let file = File::open(&path).map_err(|error| EngineError::io("open", &path, &error))?;
        resident = resident.zip(resident_bytes(&file, leaves[at].size)).map(|(sum, bytes)| sum + bytes);
        whole += leaves[at].size;
    }
    proved(resident, whole)
}

/// Returns an error if too little of the source is in memory. An unknown residency is accepted and recorded as unknown.
fn proved(resident: Option<u64>, whole: u64) -> Result<Ready, EngineError> {
    match resident {
        Some(bytes) if (bytes as f64) < whole as f64 * WARM => {
            let [bytes, whole] = [bytes, whole].map(|bytes| show_bytes(bytes as f64));
            Err(EngineError::new(format!("the source was not in memory: {bytes} of {whole} were cached at the start")))
        }
        _ => Ok(Ready { resident_bytes: resident, file_bytes: whole, direct: None }),
    }
}

/// Reads the attributes of everything in a tree, so that a deletion finds them in memory.
pub(super) fn look_at(set: &Path, names: &TreeNames) -> Result<(), EngineError> {
    names.directories.iter().chain(&names.files).try_for_each(|name| {
        let path = TreeNames::path(set, name);
        fs::symlink_metadata(&path).map(drop).map_err(|error| EngineError::io("stat", &path, &error))
    })
}

/// Checks that a copy has the directories and files of its source, with the same sizes. With `verify` it also compares
/// their contents.
pub(super) fn check(
    set: &Path,
    names: &TreeNames,
    leaves: &[TreeFile],
    source: DataSource,
    verify: bool,
) -> Result<(), EngineError> {
    for name in &names.directories {
        let path = TreeNames::path(set, name);
        fs::symlink_metadata(&path).map_err(|error| EngineError::io("stat", &path, &error))?;
    }
    let mut data = Data::new(source, CHUNK as usize);
    let mut memory = Memory::new(CHUNK as usize);
    for (leaf, name) in leaves.iter().zip(&names.files) {
        let path = TreeNames::path(set, name);
        let size = fs::symlink_metadata(&path).map_err(|error| EngineError::io("stat", &path, &error))?.len();
        if size != leaf.size {
            let message = format!("{} has {size} bytes, but its source has {}", path.display(), leaf.size);
            return Err(EngineError { path: Some(path), ..EngineError::new(message) });
        }
        if verify {
            compare(&path, leaf, &mut data, memory.as_mut())?;
        }
    }
    Ok(())
}

fn compare(path: &Path, leaf: &TreeFile, data: &mut Data, memory: &mut [u8]) -> Result<(), EngineError> {
    let file = File::open(path).map_err(|error| EngineError::io("open", path, &error))?;
    let mut offset = 0;
    while offset < leaf.size {
        let found = &mut memory[..CHUNK.min(leaf.size - offset) as usize];
        file.read_exact_at(found, offset).map_err(|error| EngineError::io("read from", path, &error))?;
        let expected = data.window(leaf.address + offset, found.len());
        if let Some(place) = Data::difference(expected, found) {
            return Err(EngineError::corrupted(path, offset + place as u64, expected[place], found[place]));
        }
        offset += found.len() as u64;
    }
    Ok(())
}
