//! Debian packages: an `ar` archive of two packed `tar` archives, `control` and `data`. Read without dpkg, so that they
//! can be taken apart on any distribution.

use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::error::{VmError, refused};

/// Control fields that matter here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Control {
    pub package: String,
    /// Names of the packages that it depends on, the first of alternatives.
    pub depends: Vec<String>,
}

/// What `control` says.
pub(super) fn control(package: &Path) -> Result<Control, VmError> {
    let mut control = None;
    with_member(package, "control.tar", |tar| {
        for entry in tar.entries()? {
            let mut entry = entry?;
            if entry.path()?.file_name().is_some_and(|name| name == "control") {
                let mut text = Vec::new();
                // Such a file has a few hundred bytes.
                entry.by_ref().take(1 << 20).read_to_end(&mut text)?;
                control = Some(parse_control(&String::from_utf8_lossy(&text)));
                break;
            }
        }
        Ok(())
    })?;
    control.ok_or_else(|| bad(package, "it holds no file control"))
}

/// Hands each file of `data` to `take`, with its path without the leading `./`.
pub(super) fn each_file(
    package: &Path,
    mut take: impl FnMut(&str, &mut dyn Read) -> io::Result<()>,
) -> Result<(), VmError> {
    with_member(package, "data.tar", |tar| {
        for entry in tar.entries()? {
            let mut entry = entry?;
            if entry.header().entry_type().is_file() {
                let path = entry.path()?.to_string_lossy().into_owned();
                take(path.trim_start_matches("./").trim_start_matches('/'), &mut entry)?;
            }
        }
        Ok(())
    })
}

fn with_member(
    package: &Path,
    wanted: &str,
    mut read: impl FnMut(&mut tar::Archive<Box<dyn Read + '_>>) -> io::Result<()>,
) -> Result<(), VmError> {
    let file = crate::input::open(package).map_err(|error| refused("read", package, error))?;
    let mut archive = ar::Archive::new(BufReader::new(file));
    while let Some(member) = archive.next_entry() {
        let member = member.map_err(|error| bad(package, &error.to_string()))?;
        let name = String::from_utf8_lossy(member.header().identifier()).trim_end_matches('/').to_owned();
        if let Some(packing) = name.strip_prefix(wanted) {
            let unpacked = unpacking(packing, member).map_err(|error| bad(package, &error.to_string()))?;
            return read(&mut tar::Archive::new(unpacked)).map_err(|error| bad(package, &error.to_string()));
        }
    }
    Err(bad(package, &format!("it holds no {wanted}")))
}

fn unpacking<'a>(packing: &str, member: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let member = BufReader::new(member);
    Ok(match packing {
        ".xz" => Box::new(lzma_rust2::XzReader::new(member, true)),
        ".zst" => Box::new(ruzstd::decoding::StreamingDecoder::new(member).map_err(io::Error::other)?),
        ".gz" => Box::new(flate2::bufread::MultiGzDecoder::new(member)),
        "" => Box::new(member),
        other => return Err(io::Error::other(format!("it is packed in an unknown way ({other})"))),
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
            // A long field goes on in lines that begin with a space.
            _ => line,
        };
        match field {
            "Package" => control.package.push_str(value.trim()),
            "Depends" | "Pre-Depends" => control.depends.extend(value.split(',').filter_map(first_name)),
            _ => {}
        }
    }
    control
}

/// `linux-image-6.1.0-56-amd64 (= 6.1.192-2) | other` gives the name.
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
            builder.append_data(&mut header, format!("./{path}"), *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    /// A package with those files; its data is packed with gzip.
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
        package(&path, "Package: x\nDepends: a (= 1), b | c,\n d:any\n", &[("boot/vmlinuz-1", b"kernel")]);
        let control = control(&path).unwrap();
        assert_eq!((control.package.as_str(), control.depends), ("x", vec!["a".into(), "b".into(), "d".into()]));
        let mut files = Vec::new();
        each_file(&path, |name, bytes| {
            files.push((name.to_owned(), io::read_to_string(bytes)?));
            Ok(())
        })
        .unwrap();
        assert_eq!(files, [("boot/vmlinuz-1".to_owned(), "kernel".to_owned())]);
    }

    #[test]
    fn what_is_no_package_says_so() {
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
