//! Reads Debian packages: an `ar` archive of two packed `tar` archives, `control` and `data`. This
//! needs no dpkg, so that it works on any distribution.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::path::Path;

use fsb_model::units::show_bytes;

use crate::error::{VmError, refused};

/// The control fields that fsb uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Control {
    pub package: String,
    /// Names of the packages that it depends on. Of alternatives, only the first.
    pub depends: Vec<String>,
}

/// Limits for a package. The largest kernels of distributions have ten thousand files and two
/// gigabytes.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Files, directories and links.
    members: u64,
    /// Bytes of their headers and names.
    names: u64,
    /// Bytes of the files.
    contents: u64,
}

const BOUNDS: Bounds = Bounds {
    members: 1 << 16,
    names: 64 << 20,
    contents: 8 << 30,
};

/// Reads the control file of a package.
pub(super) fn control(package: &Path) -> Result<Control, VmError> {
    let mut control = None;
    with_member(package, "control.tar", BOUNDS, |path, content| {
        if control.is_none() && path.rsplit('/').next() == Some("control") {
            let mut text = Vec::new();
            // A real control file has a few hundred bytes.
            content.take(1 << 20).read_to_end(&mut text)?;
            control = Some(parse_control(&String::from_utf8_lossy(&text)));
        }
        Ok(())
    })?;
    control.ok_or_else(|| bad(package, "it holds no file control"))
}

/// Passes each file of `data` to `take`, with its path without the leading `./`.
pub(super) fn each_file(
    package: &Path,
    take: impl FnMut(&str, &mut dyn Read) -> io::Result<()>,
) -> Result<(), VmError> {
    with_member(package, "data.tar", BOUNDS, take)
}

fn with_member(
    package: &Path,
    wanted: &str,
    bounds: Bounds,
    mut take: impl FnMut(&str, &mut dyn Read) -> io::Result<()>,
) -> Result<(), VmError> {
    let file = crate::input::open(package).map_err(|error| refused("read", package, error))?;
    let mut archive = ar::Archive::new(BufReader::new(file));
    while let Some(member) = archive.next_entry() {
        let member = member.map_err(|error| bad(package, &error.to_string()))?;
        let name = String::from_utf8_lossy(member.header().identifier())
            .trim_end_matches('/')
            .to_owned();
        if let Some(packing) = name.strip_prefix(wanted) {
            let unpacked =
                unpacking(packing, member).map_err(|error| bad(package, &error.to_string()))?;
            return unpack(unpacked, bounds, &mut take)
                .map_err(|error| bad(package, &error.to_string()));
        }
    }
    Err(bad(package, &format!("it holds no {wanted}")))
}

/// Passes each file of a tar archive to `take`, within the bounds.
fn unpack(
    archive: Box<dyn Read + '_>,
    bounds: Bounds,
    take: &mut impl FnMut(&str, &mut dyn Read) -> io::Result<()>,
) -> io::Result<()> {
    let too_many = || {
        io::Error::other(format!(
            "it has more than {} members: this is not a kernel package",
            bounds.members
        ))
    };
    let (names, contents, in_content) = (
        Cell::new(bounds.names),
        Cell::new(bounds.contents),
        Cell::new(false),
    );
    let mut tar = tar::Archive::new(Bounded {
        archive,
        bounds,
        names: &names,
        contents: &contents,
        in_content: &in_content,
    });
    for (before, entry) in (0..).zip(tar.entries()?) {
        let mut entry = entry?;
        if before >= bounds.members {
            return Err(too_many());
        }
        in_content.set(true);
        if entry.header().entry_type().is_file() {
            let path = entry.path()?.to_string_lossy().into_owned();
            take(
                path.trim_start_matches("./").trim_start_matches('/'),
                &mut entry,
            )?;
        }
        // The rest of the content must not count as the name of the next member.
        io::copy(&mut entry, &mut io::sink())?;
        in_content.set(false);
    }
    Ok(())
}

/// An unpacked archive that fails beyond its bounds. A few kilobytes can hold packed names of
/// gigabytes, which the reader of archives would keep in memory.
struct Bounded<'a, R> {
    archive: R,
    bounds: Bounds,
    names: &'a Cell<u64>,
    contents: &'a Cell<u64>,
    in_content: &'a Cell<bool>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.archive.read(buffer)?;
        let (left, what, most) = match self.in_content.get() {
            true => (self.contents, "its files", self.bounds.contents),
            false => (self.names, "the names of its members", self.bounds.names),
        };
        let most = show_bytes(most as f64);
        left.set(left.get().checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(format!(
                "{what} have more than {most}: this is not a kernel package"
            ))
        })?);
        Ok(read)
    }
}

fn unpacking<'a>(packing: &str, member: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let member = BufReader::new(member);
    Ok(match packing {
        ".xz" => Box::new(lzma_rust2::XzReader::new(member, true)),
        ".zst" => {
            Box::new(ruzstd::decoding::StreamingDecoder::new(member).map_err(io::Error::other)?)
        }
        ".gz" => Box::new(flate2::bufread::MultiGzDecoder::new(member)),
        "" => Box::new(member),
        other => {
            return Err(io::Error::other(format!(
                "it is packed in an unknown way ({other})"
            )));
        }
    })
}

fn bad(package: &Path, why: &str) -> VmError {
    VmError::machine(format!("cannot unpack {}", package.display())).tried(why.to_owned())
}

fn parse_control(text: &str) -> Control {
    let mut control = Control::default();
    let mut field = "";
    for line in text.lines() {
        let value = match line.split_once(':') {
            Some((name, value)) if !line.starts_with([' ', '\t']) => {
                field = name;
                value
            }
            // A long field continues in lines that start with a space.
            _ => line,
        };
        match field {
            "Package" => control.package.push_str(value.trim()),
            "Depends" | "Pre-Depends" => control
                .depends
                .extend(value.split(',').filter_map(first_name)),
            _ => {}
        }
    }
    control
}

/// Returns the name from `linux-image-6.1.0-56-amd64 (= 6.1.192-2) | other`.
fn first_name(alternatives: &str) -> Option<String> {
    let name = alternatives.trim().split([' ', '(', '|', ':']).next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder
                .append_data(&mut header, format!("./{path}"), *bytes)
                .unwrap();
        }
        builder.into_inner().unwrap()
    }

    /// Writes a package with those files. Its data is packed with gzip.
    pub fn package(path: &Path, control: &str, files: &[(&str, &[u8])]) {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar_of(files)).unwrap();
        let members: [(&str, Vec<u8>); 3] = [
            ("debian-binary", b"2.0\n".to_vec()),
            ("control.tar", tar_of(&[("control", control.as_bytes())])),
            ("data.tar.gz", gzip.finish().unwrap()),
        ];
        let mut builder = ar::Builder::new(std::fs::File::create(path).unwrap());
        for (name, bytes) in members {
            let header = ar::Header::new(name.into(), bytes.len() as u64);
            builder.append(&header, bytes.as_slice()).unwrap();
        }
    }

    #[test]
    fn a_package_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.deb");
        package(
            &path,
            "Package: x\nDepends: a (= 1), b | c,\n d:any\n",
            &[("boot/vmlinuz-1", b"kernel")],
        );
        let control = control(&path).unwrap();
        assert_eq!(
            (control.package.as_str(), control.depends),
            ("x", vec!["a".into(), "b".into(), "d".into()])
        );
        let mut files = Vec::new();
        each_file(&path, |name, bytes| {
            files.push((name.to_owned(), io::read_to_string(bytes)?));
            Ok(())
        })
        .unwrap();
        assert_eq!(files, [("boot/vmlinuz-1".to_owned(), "kernel".to_owned())]);
    }

    #[test]
    fn a_file_that_is_not_a_package_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.deb");
        for garbage in [
            &b""[..],
            b"garbage",
            b"!<arch>\n",
            b"!<arch>\ngarbage that is longer than any header of an archive is, so long",
        ] {
            std::fs::write(&path, garbage).unwrap();
            assert!(control(&path).unwrap_err().to_string().contains("x.deb"));
        }
        package(&path, "Package: x\n", &[]);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 30]).unwrap();
        assert!(each_file(&path, |_, _| Ok(())).is_err());
    }

    #[test]
    fn a_package_beyond_its_bounds_is_refused_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.deb");
        let long = format!("lib/{}", "n".repeat(5000));
        let files: [(&str, &[u8]); 3] = [("a", &[1; 3000]), ("b", b""), (&long, b"c")];
        package(&path, "Package: x\n", &files);
        let unpack = |bounds: Bounds| {
            let mut seen = 0;
            let unpacked = with_member(&path, "data.tar", bounds, |_, _| {
                seen += 1;
                Ok(())
            });
            (seen, unpacked.map_err(|error| error.to_string()))
        };
        let enough = Bounds {
            members: 3,
            names: 12 << 10,
            contents: 4 << 10,
        };
        assert_eq!(unpack(enough), (3, Ok(())));
        let refusal = |bounds: Bounds| unpack(bounds).1.unwrap_err();
        let few = refusal(Bounds {
            members: 2,
            ..enough
        });
        assert!(
            few.ends_with("x.deb: it has more than 2 members: this is not a kernel package"),
            "{few}"
        );
        let short = refusal(Bounds {
            names: 6 << 10,
            ..enough
        });
        assert!(
            short.contains("the names of its members have more than 6.00 KiB"),
            "{short}"
        );
        let small = refusal(Bounds {
            contents: 2 << 10,
            ..enough
        });
        assert!(
            small.contains("its files have more than 2.00 KiB"),
            "{small}"
        );
    }

    proptest! {
        #[test]
        fn garbage_breaks_nothing(text: String, bytes: Vec<u8>, cut in 0usize..900) {
            parse_control(&text);
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("x.deb");
            package(&path, "Package: x\n", &[("a", b"b")]);
            let mut all = std::fs::read(&path).unwrap();
            all.truncate(cut);
            all.extend(bytes);
            std::fs::write(&path, all).unwrap();
            let _ = (control(&path), each_file(&path, |_, _| Ok(())));
        }
    }
}
