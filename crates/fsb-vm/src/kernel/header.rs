//! Reads the release and the size from a kernel image.

use std::io::Read;
use std::path::Path;

use fsb_model::error::{INVALID_KERNEL, KERNEL_CUT_SHORT};

use crate::error::{VmError, refused};

/// Bytes to read. They contain the header of a PC's kernel and the text that it points to.
const BEGINNING: u64 = 64 * 1024;

/// Returns the release of a kernel image: from a PC's kernel itself, otherwise from a name like `vmlinuz-RELEASE`.
pub(super) fn release(image: &Path) -> Result<String, VmError> {
    let mut beginning = Vec::new();
    let file = crate::input::open(image).map_err(|error| refused("read the kernel", image, error))?;
    file.take(BEGINNING).read_to_end(&mut beginning).map_err(|error| refused("read the kernel", image, error))?;
    if let Some(release) = in_header(&beginning) {
        return Ok(release);
    }
    let named = image.file_name().and_then(|name| in_name(name.to_str()?));
    named.filter(|_| is_arm(&beginning)).ok_or_else(|| {
        VmError::request(format!("{} is not a kernel that can be booted here", image.display()))
            .coded(&INVALID_KERNEL)
            .advice("name a bzImage, or an arm64 Image called vmlinuz-RELEASE")
    })
}

/// Refuses a truncated PC's kernel, which would end at once without a message.
pub(super) fn check_whole(image: &Path) -> Result<(), VmError> {
    let mut beginning = Vec::new();
    let read = |error| refused("read the kernel", image, error);
    let mut file = crate::input::open(image).map_err(read)?;
    file.by_ref().take(BEGINNING).read_to_end(&mut beginning).map_err(read)?;
    let there = file.metadata().map_err(read)?.len();
    match size(&beginning) {
        Some(whole) if there < whole => {
            Err(VmError::machine(format!("the kernel image {} is cut short", image.display()))
                .coded(&KERNEL_CUT_SHORT)
                .field("path", image.to_string_lossy().into_owned())
                .tried(format!("it has {there} of {whole} bytes"))
                .advice("fetch it again, such as with fsb kernel fetch, or choose another one with --kernel"))
        }
        _ => Ok(()),
    }
}

/// Returns the minimum size in bytes according to a bzImage's setup header (Linux, Documentation/arch/x86/boot.rst:
/// `setup_sects`, and `syssize` in units of 16 bytes).
fn size(image: &[u8]) -> Option<u64> {
    const SECTOR: u64 = 512;
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let sectors = match *image.get(0x1f1)? {
        0 => 4,
        sectors => u64::from(sectors),
    };
    let paragraphs = u32::from_le_bytes(image.get(0x1f4..0x1f8)?.try_into().ok()?);
    Some((sectors + 1) * SECTOR + u64::from(paragraphs) * 16)
}

/// Returns the first word of the version that a bzImage's setup header points to (Linux,
/// Documentation/arch/x86/boot.rst).
fn in_header(image: &[u8]) -> Option<String> {
    const MAGIC: usize = 0x202;
    const POINTER: usize = 0x20e;
    /// The pointer is relative to this offset.
    const BASE: usize = 0x200;
    if image.get(MAGIC..MAGIC + 4)? != b"HdrS" {
        return None;
    }
    let pointer = u16::from_le_bytes(image.get(POINTER..POINTER + 2)?.try_into().ok()?);
    let text = image.get(BASE + usize::from(pointer)..)?;
    let text = text.split(|byte| *byte == 0).next()?;
    let word = std::str::from_utf8(text).ok()?.split_whitespace().next()?;
    is_release(word).then(|| word.to_owned())
}

/// Returns whether this may be an arm64 Image, plain or packed (gzip, or a zboot EFI program). None of them contains
/// its release in plain text.
fn is_arm(image: &[u8]) -> bool {
    image.get(0x38..0x3c) == Some(b"ARM\x64") || image.starts_with(b"\x1f\x8b") || image.starts_with(b"MZ")
}

/// Returns `6.1.0-56-arm64` for `vmlinuz-6.1.0-56-arm64`.
pub(super) fn in_name(name: &str) -> Option<String> {
    let release = ["vmlinuz-", "vmlinux-", "Image-", "kernel-", "bzImage-"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))?;
    is_release(release).then(|| release.to_owned())
}

/// Checks the characters of a release, because releases become names of directories.
fn is_release(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.len() < 128
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-+~".contains(c))
}

/// A PC's kernel with the fields that this module reads.
#[cfg(test)]
pub(super) fn fake(release: &str) -> Vec<u8> {
    let mut image = vec![0; 0x1000];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x20e..0x210].copy_from_slice(&0x300u16.to_le_bytes());
    let text = format!("{release} (someone@somewhere) #1 SMP\0");
    image[0x500..0x500 + text.len()].copy_from_slice(text.as_bytes());
    image
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pcs_kernel_says_its_release() {
        assert_eq!(in_header(&fake("6.1.0-56-amd64")).as_deref(), Some("6.1.0-56-amd64"));
        assert_eq!(in_header(&fake("6.12.117+deb12-amd64")).as_deref(), Some("6.12.117+deb12-amd64"));
        assert_eq!(in_header(&fake("../../etc")), None);
        assert_eq!(in_header(b"MZ"), None);
    }

    #[test]
    fn a_kernel_that_is_cut_short_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vmlinuz");
        let mut image = fake("6.1");
        let body = image.len() - 5 * 512;
        image[0x1f4..0x1f8].copy_from_slice(&(body as u32 / 16).to_le_bytes());
        std::fs::write(&path, &image).unwrap();
        check_whole(&path).unwrap();
        std::fs::write(&path, &image[..image.len() - 1]).unwrap();
        let error = check_whole(&path).unwrap_err().to_string();
        assert!(error.contains("cut short") && error.contains("4095 of 4096 bytes"), "{error}");
    }

    #[test]
    fn an_arm_kernel_is_called_by_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vmlinuz-6.1.0-56-arm64");
        let mut image = vec![0; 0x40];
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        std::fs::write(&path, &image).unwrap();
        assert_eq!(release(&path).unwrap(), "6.1.0-56-arm64");
        let other = directory.path().join("notes-6.1");
        std::fs::write(&other, "text").unwrap();
        assert!(release(&other).unwrap_err().to_string().contains("is not a kernel"));
    }

    proptest! {
        #[test]
        fn garbage_has_no_release(bytes in proptest::collection::vec(any::<u8>(), 0..2048), at: u16) {
            let _ = (in_header(&bytes), size(&bytes));
            let mut image = fake("6.1");
            image[0x20e..0x210].copy_from_slice(&at.to_le_bytes());
            let _ = in_header(&image);
        }
    }
}
