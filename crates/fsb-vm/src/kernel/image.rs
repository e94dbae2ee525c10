//! A kernel: its image, its modules and its origin.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fsb_model::error::{INVALID_KERNEL, KERNEL_CUT_SHORT};
use object::LittleEndian;
use object::elf::{FileHeader64, NoteType, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::error::{VmError, refused};
use crate::modules::{Index, normal};

/// The place where a kernel was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The kernel runs on this host.
    Host,
    /// The kernel is installed on this host: in /boot or in its directory of modules.
    Installed,
    /// The kernel was unpacked into the user's cache.
    Fetched,
    /// The request named the kernel's files.
    Named,
}

impl Origin {
    /// Returns one word for a table.
    pub fn word(self) -> &'static str {
        match self {
            Origin::Host => "host",
            Origin::Installed => "installed",
            Origin::Fetched => "fetched",
            Origin::Named => "named",
        }
    }
}

/// A kernel image with its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The release as `uname -r` prints it: `6.1.0-56-amd64`.
    pub release: String,
    /// The image that QEMU boots.
    pub image: PathBuf,
    /// The directory that holds `kernel/` and `modules.builtin`, or the directory in which the
    /// kernel was built.
    pub modules: PathBuf,
    pub origin: Origin,
}

impl Kernel {
    /// Checks that a guest can use the kernel: the image can be read and is complete, and the
    /// modules exist.
    pub fn usable(&self) -> Result<(), VmError> {
        readable(&self.image)?;
        check_whole(&self.image)?;
        match look_for_modules(&self.modules) {
            Ok(true) => Ok(()),
            Ok(false) => Err(VmError::machine(format!(
                "the kernel {} has no modules in {}",
                self.release,
                self.modules.display()
            ))
            .advice(FETCH)),
            Err(error) => Err(unreadable(&self.modules, error)),
        }
    }

    /// Returns those of `names` that the kernel has neither as a module nor built in.
    pub fn lacking<'n>(&self, names: &[&'n str]) -> Result<Vec<&'n str>, VmError> {
        let index = Index::read(&self.modules)?;
        let has = |name: &str| {
            let name = normal(name);
            index.modules.contains_key(&name) || index.builtin.contains(&name)
        };
        Ok(names.iter().copied().filter(|name| !has(name)).collect())
    }
}

/// The advice if no kernel of this host is usable.
pub(crate) const FETCH: &str = "fetch one: fsb kernel fetch linux-image-amd64";

/// Checks that the image can be opened.
pub(super) fn readable(image: &Path) -> Result<(), VmError> {
    let Err(error) = crate::input::open(image) else {
        return Ok(());
    };
    let advice = if error.kind() == io::ErrorKind::PermissionDenied {
        format!(
            "make it readable for all users (sudo chmod 0644 {}), or {FETCH}",
            image.display()
        )
    } else {
        FETCH.to_owned()
    };
    Err(refused("read the kernel", image, error).advice(advice))
}

/// Returns whether the directory holds modules. A kernel may have only built-in ones.
pub(super) fn look_for_modules(directory: &Path) -> io::Result<bool> {
    for name in ["kernel", "modules.dep", "modules.builtin"] {
        match directory.join(name).try_exists() {
            Ok(true) => return Ok(true),
            Err(error) if error.kind() != io::ErrorKind::NotADirectory => return Err(error),
            _ => {}
        }
    }
    Ok(false)
}

/// Calls [`look_for_modules`] and ignores errors, so that the next candidate is tried.
pub(super) fn has_modules(directory: &Path) -> bool {
    look_for_modules(directory).unwrap_or(false)
}

fn unreadable(modules: &Path, error: io::Error) -> VmError {
    refused("read the modules in", modules, error)
        .advice(format!("make them readable for all users, or {FETCH}"))
}

// Reads the release and the size from a kernel image.

/// Bytes to read. They contain the header of a PC's kernel and the text that it points to.
const BEGINNING: u64 = 64 * 1024;

/// Returns the release of a kernel image: from a PC's kernel itself, otherwise from a name like
/// `vmlinuz-RELEASE`.
pub(super) fn release(image: &Path) -> Result<String, VmError> {
    let mut beginning = Vec::new();
    let file =
        crate::input::open(image).map_err(|error| refused("read the kernel", image, error))?;
    file.take(BEGINNING)
        .read_to_end(&mut beginning)
        .map_err(|error| refused("read the kernel", image, error))?;
    if let Some(release) = in_header(&beginning) {
        return Ok(release);
    }
    let named = image.file_name().and_then(|name| in_name(name.to_str()?));
    named.filter(|_| is_arm(&beginning)).ok_or_else(|| {
        VmError::request(format!(
            "{} is not a kernel that can be booted here",
            image.display()
        ))
        .coded(&INVALID_KERNEL)
        .advice("name a bzImage, or an arm64 Image called vmlinuz-RELEASE")
    })
}

/// Refuses a truncated PC's kernel, which would end at once without a message.
fn check_whole(image: &Path) -> Result<(), VmError> {
    let mut beginning = Vec::new();
    let read = |error| refused("read the kernel", image, error);
    let mut file = crate::input::open(image).map_err(read)?;
    file.by_ref()
        .take(BEGINNING)
        .read_to_end(&mut beginning)
        .map_err(read)?;
    let there = file.metadata().map_err(read)?.len();
    match size(&beginning) {
        Some(whole) if there < whole => Err(VmError::machine(format!(
            "the kernel image {} is cut short",
            image.display()
        ))
        .coded(&KERNEL_CUT_SHORT)
        .field("path", image.to_string_lossy().into_owned())
        .tried(format!("it has {there} of {whole} bytes"))
        .advice(
            "fetch it again, such as with fsb kernel fetch, or choose another one with --kernel",
        )),
        _ => Ok(()),
    }
}

/// Returns the minimum size in bytes according to a bzImage's setup header (Linux,
/// Documentation/arch/x86/boot.rst: `setup_sects`, and `syssize` in units of 16 bytes).
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

/// Returns whether this may be an arm64 Image, plain or packed (gzip, or a zboot EFI program). None
/// of them contains its release in plain text.
fn is_arm(image: &[u8]) -> bool {
    image.get(0x38..0x3c) == Some(b"ARM\x64")
        || image.starts_with(b"\x1f\x8b")
        || image.starts_with(b"MZ")
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
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-+~".contains(c))
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

// Extracts the kernel from a PC's kernel image.
//
// A bzImage unpacks itself, which takes an emulated processor as long as the rest of its boot. QEMU
// starts the kernel inside directly if it has the entry for that ("PVH", which distributions'
// kernels have).

/// Maximum size of an unpacked kernel. No real kernel is larger.
const LARGEST: u64 = 1 << 30;

/// Returns the ELF file inside the image if it can be unpacked and started directly.
pub(crate) fn bare_kernel(image: &[u8]) -> Option<Vec<u8>> {
    let bare = unpack(payload(image)?).ok()??;
    has_entry(&bare).then_some(bare)
}

/// Returns the packed part (Linux, Documentation/arch/x86/boot.rst: `setup_sects`,
/// `payload_offset`, `payload_length`).
fn payload(image: &[u8]) -> Option<&[u8]> {
    const SECTOR: usize = 512;
    /// The first version of the boot protocol that gives the offset of the payload.
    const VERSION: u16 = 0x208;
    let word =
        |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    if image.get(0x202..0x206)? != b"HdrS"
        || u16::from_le_bytes(image.get(0x206..0x208)?.try_into().ok()?) < VERSION
    {
        return None;
    }
    let sectors = match *image.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (sectors + 1) * SECTOR;
    let start = start.checked_add(word(0x248)?)?;
    image.get(start..start.checked_add(word(0x24c)?)?)
}

/// Unpacks the payload, whose format the first bytes show. Returns `None` for formats that
/// distributions no longer use. The kernel unpacks those itself.
fn unpack(payload: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut bare = Vec::new();
    if payload.starts_with(b"\xfd7zXZ\0") {
        lzma_rust2::XzReader::new(payload, false)
            .take(LARGEST)
            .read_to_end(&mut bare)?;
    } else if payload.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder = ruzstd::decoding::StreamingDecoder::new(payload).map_err(io::Error::other)?;
        decoder.take(LARGEST).read_to_end(&mut bare)?;
    } else if payload.starts_with(&[0x1f, 0x8b]) {
        flate2::bufread::GzDecoder::new(payload)
            .take(LARGEST)
            .read_to_end(&mut bare)?;
    } else {
        return Ok(None);
    }
    Ok(Some(bare))
}

/// Returns whether the ELF file has an entry for virtual machines: the Xen note PHYS32_ENTRY.
fn has_entry(bare: &[u8]) -> bool {
    const PHYS32_ENTRY: NoteType = NoteType(18);
    let find = || -> Option<bool> {
        let header = FileHeader64::<LittleEndian>::parse(bare).ok()?;
        let endian = header.endian().ok()?;
        for segment in header
            .program_headers(endian, bare)
            .ok()?
            .iter()
            .filter(|s| s.p_type(endian) == PT_NOTE)
        {
            let mut notes = segment.notes(endian, bare).ok()??;
            while let Some(note) = notes.next().ok()? {
                if note.name() == b"Xen" && note.n_type(endian) == PHYS32_ENTRY {
                    return Some(true);
                }
            }
        }
        None
    };
    find().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pcs_kernel_says_its_release() {
        assert_eq!(
            in_header(&fake("6.1.0-56-amd64")).as_deref(),
            Some("6.1.0-56-amd64")
        );
        assert_eq!(
            in_header(&fake("6.12.117+deb12-amd64")).as_deref(),
            Some("6.12.117+deb12-amd64")
        );
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
        assert!(
            error.contains("cut short") && error.contains("4095 of 4096 bytes"),
            "{error}"
        );
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
        assert!(
            release(&other)
                .unwrap_err()
                .to_string()
                .contains("is not a kernel")
        );
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

    /// Returns an ELF file with one note segment that holds one Xen note.
    fn elf(note: u32) -> Vec<u8> {
        let mut file = vec![0; 64 + 56];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[16..20].copy_from_slice(&[2, 0, 62, 0]);
        file[20] = 1;
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[52..58].copy_from_slice(&[64, 0, 56, 0, 1, 0]);
        file[64..68].copy_from_slice(&4u32.to_le_bytes());
        file[72..80].copy_from_slice(&120u64.to_le_bytes());
        file[96..104].copy_from_slice(&24u64.to_le_bytes());
        file[112..120].copy_from_slice(&4u64.to_le_bytes());
        for word in [4u32, 8, note] {
            file.extend(word.to_le_bytes());
        }
        file.extend(b"Xen\0\0\0\0\x01\0\0\0\0");
        file
    }

    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = fake("6.1");
        image[0x206..0x208].copy_from_slice(&0x20fu16.to_le_bytes());
        image[0x1f1] = 7;
        image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.resize(8 * 512 + 16, 0);
        image.extend(payload);
        image
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn a_kernel_with_an_entry_is_taken_out() {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        for packed in [
            gzip(&elf(18)),
            ruzstd::encoding::compress_to_vec(elf(18).as_slice(), level),
        ] {
            // The unpacked size follows, as in a real image.
            let packed = [packed, vec![144, 0, 0, 0]].concat();
            assert_eq!(bare_kernel(&image(&packed)), Some(elf(18)));
        }
    }

    #[test]
    fn images_that_cannot_be_started_are_not_unpacked() {
        assert_eq!(bare_kernel(&image(&gzip(&elf(17)))), None);
        assert_eq!(bare_kernel(&image(&gzip(b"no ELF file"))), None);
        assert_eq!(bare_kernel(&image(b"packed otherwise")), None);
        let mut long = image(&gzip(&elf(18)));
        long.pop();
        assert_eq!(bare_kernel(&long), None);
        assert_eq!(bare_kernel(&fake("6.1")), None);
        assert_eq!(bare_kernel(b""), None);
    }

    proptest! {
        #[test]
        fn garbage_breaks_nothing(bytes: Vec<u8>, at in 0usize..144, value: u8) {
            let _ = (bare_kernel(&bytes), bare_kernel(&image(&bytes)), has_entry(&bytes));
            let mut broken = elf(18);
            broken[at] = value;
            let _ = has_entry(&broken);
        }
    }
}
