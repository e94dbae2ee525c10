//! Read-only file systems that a program builds from a directory: erofs and squashfs.
//!
//! The image is built from the files that a case prepares, into a file of the file system that
//! holds them, and mounted through a loop device past the page cache. It is built anew for each
//! case, and removed before the files are.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use fsb_model::Bytes;
use fsb_model::target::{DIRECTORY, MOUNT_POINT, last_value};
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::loopdev::{self, Mode, Window};
use fsb_sys::{mount as kernel, program};

use super::file_system::{MountRequest, Sealing, with_options};
use super::option_table::OptionTable;
use super::stacked::{Stacked, Upper};
use crate::declared::{DeclaredOption, key};

/// The directory in which files are prepared.
const FILES: &str = "files";
const IMAGE: &str = "image";

/// The size of a sector of the loop device. The smallest one fits the blocks of every image.
const SECTOR: u32 = 512;

/// Options that fsb reads. The driver gets the others.
const OF_PROGRAM: [&str; 2] = ["pack", "block"];

struct Image {
    name: &'static str,
    about: &'static str,
    /// The program that builds it, and its Debian package.
    program: (&'static str, &'static str),
    modules: &'static [&'static str],
    helpers: &'static [&'static str],
    options: &'static OptionTable,
    /// Returns the arguments of the program that build the image from a directory.
    arguments: fn(&Path, &Path, &[String]) -> Vec<String>,
}

pub(super) static EROFS: Stacked = Stacked::new(&EROFS_IMAGE);
pub(super) static SQUASHFS: Stacked = Stacked::new(&SQUASHFS_IMAGE);

static EROFS_IMAGE: Image = Image {
    name: "erofs",
    about: "A read-only image by mkfs.erofs of the files that a case prepares; only for cases that read.",
    program: ("mkfs.erofs", "erofs-utils"),
    modules: &["erofs", "loop"],
    helpers: &["lz4_decompress", "crc32c_generic"],
    options: &EROFS_OPTIONS,
    arguments: |files, image, options| {
        let pack = last_value(options, "pack").filter(|pack| *pack != "none");
        let pack = pack.map(|pack| format!("-z{pack}"));
        let paths = [image, files].map(|path| path.display().to_string());
        ["--quiet".to_owned()]
            .into_iter()
            .chain(pack)
            .chain(paths)
            .collect()
    },
};

static SQUASHFS_IMAGE: Image = Image {
    name: "squashfs",
    about: "A read-only image by mksquashfs of the files that a case prepares; only for cases that read.",
    program: ("mksquashfs", "squashfs-tools"),
    modules: &["squashfs", "loop"],
    helpers: &[],
    options: &SQUASHFS_OPTIONS,
    arguments: |files, image, options| {
        let mut words: Vec<String> = [files, image]
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        words.extend(["-noappend", "-no-progress", "-quiet"].map(str::to_owned));
        if let Some(pack) = last_value(options, "pack") {
            words.extend(["-comp".to_owned(), pack.to_owned()]);
        }
        if let Some(block) =
            last_value(options, "block").and_then(|text| text.parse::<Bytes>().ok())
        {
            words.extend(["-b".to_owned(), block.0.to_string()]);
        }
        words
    },
};

static EROFS_OPTIONS: OptionTable = OptionTable::new(include_str!("erofs.options"));
static SQUASHFS_OPTIONS: OptionTable = OptionTable::new(include_str!("squashfs.options"));

impl Upper for Image {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn modules(&self) -> &'static [&'static str] {
        self.modules
    }

    fn helper_modules(&self) -> &'static [&'static str] {
        self.helpers
    }

    fn program(&self) -> Option<(&'static str, &'static str)> {
        Some(self.program)
    }

    fn options(&self) -> &'static [DeclaredOption] {
        self.options
    }

    fn note(&self) -> Option<&'static str> {
        Some("an image in a file, through a loop device of its own")
    }

    fn sealing(&self) -> Sealing {
        // The files, and the image of them.
        Sealing {
            copies: 2,
            read_only: true,
        }
    }

    fn change(&self, request: &MountRequest<'_>, directory: &Path) -> Result<(), TestbedError> {
        let image = directory.join(IMAGE);
        match std::fs::remove_file(&image) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(self, "remove", &image, &error));
            }
            _ => {}
        }
        if request.sealed {
            self.build(&directory.join(FILES), &image, request.options)?;
        }
        Ok(())
    }

    fn by_hand(&self, options: &[String]) -> Vec<Vec<String>> {
        let [files, image] = [FILES, IMAGE].map(|name| Path::new(DIRECTORY).join(name));
        let build = [self.program.0.to_owned()].into_iter();
        let build = build.chain((self.arguments)(&files, &image, options));
        let own = options
            .iter()
            .filter(|option| !OF_PROGRAM.contains(&key(option)));
        let own: Vec<String> = ["loop", "ro"]
            .map(str::to_owned)
            .into_iter()
            .chain(own.cloned())
            .collect();
        let mount = with_options(&["mount", "-t", self.name], &own);
        let places = [image.display().to_string(), MOUNT_POINT.to_owned()];
        vec![
            vec!["mkdir".to_owned(), files.display().to_string()],
            build.collect(),
            mount.into_iter().chain(places).collect(),
        ]
    }

    fn mount(&self, request: &MountRequest<'_>, directory: &Path) -> Result<(), TestbedError> {
        if !request.sealed {
            let files = directory.join(FILES);
            match std::fs::create_dir(&files) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(failed(self, "make", &files, &error));
                }
                _ => return kernel::bind(&files, request.point),
            }
        }
        let image = directory.join(IMAGE);
        let file = File::open(&image).map_err(|error| failed(self, "open", &image, &error))?;
        let device = loopdev::attach(file.as_fd(), Window::WHOLE, Mode::Direct, SECTOR).map_err(
            |refusal| {
                TestbedError::trial(format!("the {} image has no loop device", self.name))
                    .tried(refusal)
            },
        )?;
        let own = request
            .options
            .iter()
            .filter(|option| !OF_PROGRAM.contains(&key(option)));
        let options: Vec<String> = own.cloned().chain(["ro".to_owned()]).collect();
        // The device detaches itself after the unmount.
        kernel::mount(
            self.name,
            &loopdev::path(device.index),
            request.point,
            &options,
        )
    }
}

impl Image {
    /// Builds the image, and writes it to the device: it is read past the page cache.
    fn build(&self, files: &Path, image: &PathBuf, options: &[String]) -> Result<(), TestbedError> {
        let (name, package) = self.program;
        let path = program::require(name, package)?;
        let arguments = (self.arguments)(files, image, options);
        let beneath = files.parent().unwrap_or(files);
        let output = program::run_alone(&path, &arguments, beneath)?;
        if !output.status.success() {
            let complaint = [output.stdout, output.stderr].concat();
            return Err(
                TestbedError::trial(format!("{name} failed ({})", output.status)).tried(format!(
                    "{name} {}: {}",
                    arguments.join(" "),
                    program::last_lines(&complaint)
                )),
            );
        }
        File::open(image)
            .and_then(|file| file.sync_all())
            .map_err(|error| failed(self, "fsync", image, &error))
    }
}

fn failed(image: &Image, verb: &str, path: &Path, error: &std::io::Error) -> TestbedError {
    TestbedError::trial(format!("the {} image could not be made", image.name))
        .tried(attempt(verb, path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_the_options_of_the_image() {
        let words = |image: &Image, options: &[&str]| {
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            (image.arguments)(Path::new("/f"), Path::new("/i"), &options).join(" ")
        };
        assert_eq!(words(&EROFS_IMAGE, &[]), "--quiet /i /f");
        assert_eq!(
            words(&EROFS_IMAGE, &["pack=lz4hc"]),
            "--quiet -zlz4hc /i /f"
        );
        assert_eq!(
            words(
                &SQUASHFS_IMAGE,
                &["pack=zstd", "block=64K", "threads=multi"]
            ),
            "/f /i -noappend -no-progress -quiet -comp zstd -b 65536"
        );
        let by_hand: Vec<String> = SQUASHFS_IMAGE
            .by_hand(&["threads=multi".to_owned()])
            .iter()
            .map(|words| words.join(" "))
            .collect();
        assert_eq!(by_hand[0], "mkdir {dir}/files");
        assert_eq!(
            by_hand[2],
            "mount -t squashfs -o loop,ro,threads=multi {dir}/image {mnt}"
        );
    }
}
