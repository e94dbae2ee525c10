//! What files are called, as PostMark calls them: a number, in one of its directories, in one of its locations.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fsb_model::postmark::FileName;
use rustix::fs::Mode;

use crate::EngineError;

/// Of a directory that is made.
const DIRECTORY_MODE: Mode = Mode::RWXU;
/// Digits of a number of 32 bits.
const DIGITS: usize = 10;

/// Puts paths together, in memory that is reserved before.
#[derive(Debug)]
pub(crate) struct PoolNames {
    /// Each with its slash; a single empty one where files lie in the working directory.
    locations: Vec<Vec<u8>>,
    /// In each location; 0 where files lie in the location itself.
    subdirectories: u32,
    /// Directories that were made.
    made: Vec<PathBuf>,
    text: Vec<u8>,
}

impl PoolNames {
    /// Names in locations with subdirectories; a single subdirectory is none, as of PostMark.
    pub(crate) fn new(locations: &[PathBuf], subdirectories: u32) -> PoolNames {
        let with_slash = |path: &PathBuf| [path.as_os_str().as_bytes(), b"/"].concat();
        let mut locations: Vec<_> = locations.iter().map(with_slash).collect();
        if locations.is_empty() {
            locations.push(Vec::new());
        }
        let longest = locations.iter().map(Vec::len).max().unwrap_or(0);
        let subdirectories = if subdirectories > 1 { subdirectories } else { 0 };
        PoolNames { locations, subdirectories, made: Vec::new(), text: Vec::with_capacity(longest + 2 * DIGITS + 3) }
    }

    /// The path of a file. It stays right until the next call.
    #[inline]
    pub(crate) fn of(&mut self, file: FileName) -> &CStr {
        self.text.clear();
        self.text.extend_from_slice(&self.locations[file.location as usize]);
        if self.subdirectories > 0 {
            self.text.push(b's');
            self.push_number(file.subdirectory);
            self.text.push(b'/');
        }
        self.push_number(file.number);
        self.text.push(0);
        // The locations hold no zero: nobody can type one, and the command language refuses it.
        CStr::from_bytes_until_nul(&self.text).unwrap_or_default()
    }

    #[inline]
    fn push_number(&mut self, mut number: u32) {
        let mut digits = [0; DIGITS];
        let mut first = DIGITS;
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.text.extend_from_slice(&digits[first..]);
    }

    /// Makes the subdirectories of all locations. A location that is named twice has them once.
    pub(crate) fn make_directories(&mut self) -> Result<(), EngineError> {
        let mut known = Vec::new();
        for location in &self.locations {
            let location = if location.is_empty() { b"." } else { location.as_slice() };
            let location = Path::new(std::ffi::OsStr::from_bytes(location));
            let found = rustix::fs::stat(location).map_err(|errno| EngineError::call("stat", location, errno))?;
            let place = (found.st_dev, found.st_ino);
            if known.contains(&place) {
                continue;
            }
            known.push(place);
            for number in 0..self.subdirectories {
                let path = location.join(format!("s{number}"));
                rustix::fs::mkdir(&path, DIRECTORY_MODE)
                    .map_err(|errno| EngineError::call("make directory", &path, errno))?;
                self.made.push(path);
            }
        }
        Ok(())
    }

    /// Removes those that were made.
    pub(crate) fn remove_directories(&mut self) -> Result<(), EngineError> {
        for path in std::mem::take(&mut self.made) {
            rustix::fs::rmdir(&path).map_err(|errno| EngineError::call("remove directory", &path, errno))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_called_as_postmark_calls_them() {
        let file = FileName { number: 4_294_967_295, location: 1, subdirectory: 10 };
        let mut names = PoolNames::new(&["/a".into(), "b".into()], 11);
        assert_eq!(names.of(file), c"b/s10/4294967295");
        let capacity = names.text.capacity();
        names.of(FileName { number: 1, location: 0, subdirectory: 0 });
        assert_eq!((names.of(file), capacity), (c"b/s10/4294967295", capacity));
        let first = FileName { number: 1, location: 0, subdirectory: 0 };
        assert_eq!(PoolNames::new(&[], 1).of(first), c"1");
        assert_eq!(PoolNames::new(&["/x".into()], 0).of(first), c"/x/1");
    }
}
