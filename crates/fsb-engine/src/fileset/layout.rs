//! Where the files of a set lie and what they are called: functions of their numbers alone.

use std::ffi::CStr;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The most files that names have digits for.
pub(crate) const MOST_FILES: u64 = 100_000_000;
/// The most directories that names have digits for.
pub(crate) const MOST_DIRECTORIES: u64 = 100_000;
/// `d00012/f00012345` and a NUL: all paths have one length, well below the 64 bytes a file that memory may cost.
const STRIDE: usize = 17;

/// The shape of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) files: u64,
    pub(crate) file_size: u64,
    pub(crate) files_per_directory: u64,
}

impl Layout {
    /// Directories in the set.
    pub(crate) fn directories(&self) -> u64 {
        self.files.div_ceil(self.files_per_directory)
    }

    /// The directory that a file lies in.
    pub(crate) fn directory_of(&self, file: u64) -> u64 {
        file / self.files_per_directory
    }

    /// The files that lie in a directory.
    pub(crate) fn files_in(&self, directory: u64) -> Range<u64> {
        let first = directory * self.files_per_directory;
        first..self.files.min(first + self.files_per_directory)
    }

    /// The address of a file's first byte among all bytes of the set: files begin on pages.
    pub(crate) fn address(&self, file: u64) -> u64 {
        file * self.file_size.next_multiple_of(4096)
    }

    /// The path of a file relative to the set.
    pub(crate) fn path(&self, file: u64) -> PathBuf {
        PathBuf::from(self.text(file, 'f'))
    }

    /// The name of a directory.
    pub(crate) fn directory_name(directory: u64) -> String {
        format!("d{directory:05}")
    }

    fn text(&self, file: u64, letter: char) -> String {
        format!("{}/{letter}{file:08}", Layout::directory_name(self.directory_of(file)))
    }
}

/// `d00012` and a NUL.
const DIRECTORY_STRIDE: usize = 7;

/// The name of one directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectoryName([u8; DIRECTORY_STRIDE]);

impl DirectoryName {
    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.0).expect("every name has the length of a stride")
    }
}

/// The paths of all files of a set, written out before the clock starts.
#[derive(Debug)]
pub(crate) struct Names {
    bytes: Vec<u8>,
}

impl Names {
    /// The names that files are made under.
    pub(crate) fn new(layout: &Layout) -> Names {
        Names::with(layout, 'f')
    }

    /// The names that files get when they are renamed.
    pub(crate) fn other(layout: &Layout) -> Names {
        Names::with(layout, 'r')
    }

    fn with(layout: &Layout, letter: char) -> Names {
        let mut bytes = Vec::with_capacity(layout.files as usize * STRIDE);
        for file in 0..layout.files {
            bytes.extend_from_slice(layout.text(file, letter).as_bytes());
            bytes.push(0);
        }
        Names { bytes }
    }

    /// The path of a file relative to the set.
    #[inline]
    pub(crate) fn path(&self, file: u64) -> &CStr {
        let bytes = &self.bytes[file as usize * STRIDE..][..STRIDE];
        CStr::from_bytes_with_nul(bytes).expect("every path has the length of a stride")
    }

    /// The name of a directory, without allocating: the front of the path of its first file.
    pub(crate) fn directory(&self, layout: &Layout, directory: u64) -> DirectoryName {
        let path = self.path(directory * layout.files_per_directory).to_bytes();
        let mut name = [0; DIRECTORY_STRIDE];
        name[..DIRECTORY_STRIDE - 1].copy_from_slice(&path[..DIRECTORY_STRIDE - 1]);
        DirectoryName(name)
    }

    /// The path for people, below `set`.
    pub(crate) fn show(&self, set: &Path, file: u64) -> PathBuf {
        set.join(self.path(file).to_string_lossy().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_have_one_length_up_to_the_last_number() {
        let layout = Layout { files: MOST_FILES, file_size: 0, files_per_directory: 1000 };
        assert_eq!(layout.directories(), MOST_DIRECTORIES);
        assert_eq!(layout.text(MOST_FILES - 1, 'f').len() + 1, STRIDE);
        assert_eq!(layout.text(0, 'f').len() + 1, STRIDE);
    }

    proptest! {
        #[test]
        fn every_file_lies_in_one_directory(files in 1u64..2000, files_per_directory in 1u64..300) {
            let layout = Layout { files, file_size: 1, files_per_directory };
            let all: Vec<u64> = (0..layout.directories()).flat_map(|d| layout.files_in(d)).collect();
            prop_assert_eq!(all, (0..files).collect::<Vec<_>>());
            for file in 0..files {
                prop_assert!(layout.files_in(layout.directory_of(file)).contains(&file));
            }
        }

        #[test]
        fn names_are_functions_of_the_number(files in 1u64..200, other in 1u64..200) {
            let of = |files| Names::new(&Layout { files, file_size: 1, files_per_directory: 7 });
            let (a, b) = (of(files), of(other));
            for file in 0..files.min(other) {
                prop_assert_eq!(a.path(file), b.path(file));
            }
            prop_assert!(a.bytes.len() as u64 <= 64 * files);
            let layout = Layout { files, file_size: 1, files_per_directory: 7 };
            for directory in 0..layout.directories() {
                let name = a.directory(&layout, directory).as_c_str().to_owned();
                prop_assert_eq!(name.into_string().unwrap(), Layout::directory_name(directory));
            }
        }
    }
}
