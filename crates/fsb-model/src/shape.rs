//! The shape of a tree of files: its directories and the sizes of its files, without names and
//! contents.
//!
//! Its text form fits a plan and the record of a run. Parents come before their children. Each
//! directory is written as `parent:size,size`, and `;` separates directories. The first one is the
//! tree itself and has no parent: `-:100,200;0:;1:4096`.

use std::fmt;
use std::str::FromStr;

/// The maximum number of files and directories. Larger shapes are refused, so that a record stays
/// readable.
pub const MOST_ENTRIES: usize = 1_000_000;

/// A directory of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory {
    /// The number of the parent directory; without meaning for the first one.
    pub parent: usize,
    /// Bytes of each of its files.
    pub files: Vec<u64>,
}

/// The shape of a tree: never empty, and parents come before their children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    directories: Vec<Directory>,
}

/// The error of a text that is not a shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}; a shape is written as '-:100,200;0:;1:4096'")]
pub struct ShapeError(String);

impl Default for Shape {
    fn default() -> Self {
        Shape {
            directories: vec![Directory::default()],
        }
    }
}

impl Shape {
    /// Returns all directories, the tree itself first.
    pub fn directories(&self) -> &[Directory] {
        &self.directories
    }

    /// Adds a directory to an existing one and returns its number.
    ///
    /// # Panics
    ///
    /// Panics if the directory `parent` does not exist.
    pub fn add_directory(&mut self, parent: usize) -> usize {
        assert!(
            parent < self.directories.len(),
            "directory {parent} is there"
        );
        self.directories.push(Directory {
            parent,
            files: Vec::new(),
        });
        self.directories.len() - 1
    }

    /// Adds a file of `size` bytes to an existing directory.
    ///
    /// # Panics
    ///
    /// Panics if the directory does not exist.
    pub fn add_file(&mut self, directory: usize, size: u64) {
        self.directories[directory].files.push(size);
    }

    /// Adds another tree as a directory.
    pub fn add_tree(&mut self, tree: &Shape) {
        let base = self.directories.len();
        for (number, directory) in tree.directories.iter().enumerate() {
            let parent = if number == 0 {
                0
            } else {
                base + directory.parent
            };
            self.directories.push(Directory {
                parent,
                files: directory.files.clone(),
            });
        }
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.sizes().fold(0, u64::saturating_add)
    }

    /// Returns the number of files.
    pub fn files(&self) -> u64 {
        self.directories
            .iter()
            .map(|directory| directory.files.len() as u64)
            .sum()
    }

    /// Returns the number of files and directories, without the tree itself.
    pub fn entries(&self) -> u64 {
        self.files() + self.directories.len() as u64 - 1
    }

    /// Returns the sizes of all files, directory by directory.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.directories
            .iter()
            .flat_map(|directory| directory.files.iter().copied())
    }

    /// Returns the same tree with files of other sizes.
    pub fn with_sizes(mut self, change: impl Fn(u64) -> u64) -> Shape {
        for size in self
            .directories
            .iter_mut()
            .flat_map(|directory| &mut directory.files)
        {
            *size = change(*size);
        }
        self
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, directory) in self.directories.iter().enumerate() {
            match number {
                0 => write!(f, "-:")?,
                _ => write!(f, ";{}:", directory.parent)?,
            }
            for (number, size) in directory.files.iter().enumerate() {
                write!(f, "{}{size}", if number == 0 { "" } else { "," })?;
            }
        }
        Ok(())
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Shape, ShapeError> {
        let mut directories: Vec<Directory> = Vec::new();
        let mut entries = 0;
        for part in text.split(';') {
            let number = directories.len();
            let wrong = |what: &str| {
                ShapeError(format!(
                    "directory {number} of the shape, '{part:.40}', {what}"
                ))
            };
            let (parent, sizes) = part.split_once(':').ok_or_else(|| wrong("has no ':'"))?;
            let parent = match (number, parent) {
                (0, "-") => 0,
                (0, _) => return Err(wrong("is the tree itself and begins with '-:'")),
                _ => parent
                    .parse()
                    .ok()
                    .filter(|parent| *parent < number)
                    .ok_or_else(|| {
                        wrong("does not begin with the number of a directory before it")
                    })?,
            };
            let sizes = sizes.split(',').filter(|_| !sizes.is_empty());
            let files = sizes.map(|size| size.parse().ok().filter(|size: &u64| *size <= 1 << 50));
            let files: Option<Vec<u64>> = files.collect();
            let files = files.ok_or_else(|| wrong("has a file whose size is none"))?;
            entries += files.len() + 1;
            if entries > MOST_ENTRIES {
                return Err(ShapeError(format!(
                    "more than {MOST_ENTRIES} files and directories are too many"
                )));
            }
            directories.push(Directory { parent, files });
        }
        Ok(Shape { directories })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_read_as_it_is_written() {
        let mut shape = Shape::default();
        shape.add_file(0, 100);
        let inner = shape.add_directory(0);
        let empty = shape.add_directory(inner);
        shape.add_file(inner, 0);
        shape.add_file(inner, 4096);
        assert_eq!(
            (shape.to_string().as_str(), empty),
            ("-:100;0:0,4096;1:", 2)
        );
        assert_eq!("-:100;0:0,4096;1:".parse(), Ok(shape.clone()));
        assert_eq!(
            (shape.files(), shape.entries(), shape.bytes()),
            (3, 5, 4196)
        );
        let mut both = Shape::default();
        both.add_tree(&shape);
        both.add_tree(&shape);
        assert_eq!(both.to_string(), "-:;0:100;1:0,4096;2:;0:100;4:0,4096;5:");
        assert_eq!(both.with_sizes(|size| size / 2).bytes(), 4196);
        assert_eq!(Shape::default().to_string().parse(), Ok(Shape::default()));
    }

    #[test]
    fn an_invalid_shape_is_reported_with_its_position() {
        for (text, said) in [
            ("", "has no ':'"),
            ("0:1", "begins with '-:'"),
            (
                "-:1;1:2",
                "directory 1 of the shape, '1:2', does not begin with the number",
            ),
            ("-:1,,2", "size is none"),
            ("-:1;0:-3", "size is none"),
            ("-:99999999999999999999", "size is none"),
        ] {
            let error = text.parse::<Shape>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
