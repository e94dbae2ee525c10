//! A module's file: its name and its content.

use std::io::{self, Read};
use std::path::Path;

use fsb_input::LARGEST_BINARY;

use crate::error::{VmError, refused};

/// Returns the name of a module as the kernel spells it: `x_y` for the path `kernel/fs/x/x-y.ko.xz`.
pub(crate) fn name_of(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    let (name, rest) = file.split_once(".ko")?;
    matches!(rest, "" | ".xz" | ".zst" | ".gz").then(|| normal(name))
}

/// Replaces `-` by `_`, which the kernel treats as equal.
pub(crate) fn normal(name: &str) -> String {
    name.replace('-', "_")
}

/// Returns the module's ELF file, unpacked if it is compressed.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, VmError> {
    let bytes = crate::input::read(path, LARGEST_BINARY).map_err(|error| refused("read", path, error))?;
    unpack(&path.to_string_lossy(), bytes).map_err(|error| refused("unpack", path, error))
}

/// Unpacks a file whose format the extension of `name` shows.
pub(crate) fn unpack(name: &str, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if name.ends_with(".xz") {
        lzma_rust2::XzReader::new(bytes.as_slice(), true).read_to_end(&mut out)?;
    } else if name.ends_with(".zst") {
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(bytes.as_slice()).map_err(io::Error::other)?;
        decoder.read_to_end(&mut out)?;
    } else if name.ends_with(".gz") {
        flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut out)?;
    } else {
        return Ok(bytes);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_modules_are_the_kernels() {
        assert_eq!(name_of("kernel/drivers/md/dm-flakey.ko.xz").as_deref(), Some("dm_flakey"));
        assert_eq!(name_of("raid0.ko").as_deref(), Some("raid0"));
        for other in ["modules.dep", "x.ko.sig", "x.koi", ""] {
            assert_eq!(name_of(other), None, "{other}");
        }
    }

    #[test]
    fn every_packing_is_undone() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"module").unwrap();
        assert_eq!(unpack("x.ko.gz", gzip.finish().unwrap()).unwrap(), b"module");
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        assert_eq!(unpack("x.ko.zst", ruzstd::encoding::compress_to_vec(&b"module"[..], level)).unwrap(), b"module");
        // The output of `printf module | xz`.
        let xz = include_bytes!("testdata/module.xz");
        assert_eq!(unpack("x.ko.xz", xz.to_vec()).unwrap(), b"module");
        assert_eq!(unpack("x.ko", b"module".to_vec()).unwrap(), b"module");
    }

    proptest! {
        #[test]
        fn garbage_is_refused(bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
            for name in ["x.ko.xz", "x.ko.zst", "x.ko.gz"] {
                prop_assert!(unpack(name, bytes.clone()).is_err());
            }
        }
    }
}
