//! Extracts the kernel from a PC's kernel image.
//!
//! A bzImage unpacks itself, which takes an emulated processor as long as the rest of its boot. QEMU starts the kernel
//! inside directly if it has the entry for that ("PVH", which distributions' kernels have).

use std::io::{self, Read};

use object::LittleEndian;
use object::elf::{FileHeader64, NoteType, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};

/// Maximum size of an unpacked kernel. No real kernel is larger.
const LARGEST: u64 = 1 << 30;

/// Returns the ELF file inside the image if it can be unpacked and started directly.
pub(crate) fn inside(image: &[u8]) -> Option<Vec<u8>> {
    let bare = unpack(payload(image)?).ok()??;
    has_entry(&bare).then_some(bare)
}

/// Returns the packed part (Linux, Documentation/arch/x86/boot.rst: `setup_sects`, `payload_offset`, `payload_length`).
fn payload(image: &[u8]) -> Option<&[u8]> {
    const SECTOR: usize = 512;
    /// The first version of the boot protocol that gives the offset of the payload.
    const VERSION: u16 = 0x208;
    let word = |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    if image.get(0x202..0x206)? != b"HdrS" || u16::from_le_bytes(image.get(0x206..0x208)?.try_into().ok()?) < VERSION {
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

/// Unpacks the payload, whose format the first bytes show. Returns `None` for formats that distributions no longer use.
/// The kernel unpacks those itself.
fn unpack(payload: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut bare = Vec::new();
    if payload.starts_with(b"\xfd7zXZ\0") {
        lzma_rust2::XzReader::new(payload, false).take(LARGEST).read_to_end(&mut bare)?;
    } else if payload.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder = ruzstd::decoding::StreamingDecoder::new(payload).map_err(io::Error::other)?;
        decoder.take(LARGEST).read_to_end(&mut bare)?;
    } else if payload.starts_with(&[0x1f, 0x8b]) {
        flate2::bufread::GzDecoder::new(payload).take(LARGEST).read_to_end(&mut bare)?;
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
        for segment in header.program_headers(endian, bare).ok()?.iter().filter(|s| s.p_type(endian) == PT_NOTE) {
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
    use crate::kernel::header;

    /// An ELF file with one note segment that holds one Xen note.
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
        let mut image = header::fake("6.1");
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
        for packed in [gzip(&elf(18)), ruzstd::encoding::compress_to_vec(elf(18).as_slice(), level)] {
            // The unpacked size follows, as in a real image.
            let packed = [packed, vec![144, 0, 0, 0]].concat();
            assert_eq!(inside(&image(&packed)), Some(elf(18)));
        }
    }

    #[test]
    fn images_that_cannot_be_started_are_not_unpacked() {
        assert_eq!(inside(&image(&gzip(&elf(17)))), None);
        assert_eq!(inside(&image(&gzip(b"no ELF file"))), None);
        assert_eq!(inside(&image(b"packed otherwise")), None);
        let mut long = image(&gzip(&elf(18)));
        long.pop();
        assert_eq!(inside(&long), None);
        assert_eq!(inside(&header::fake("6.1")), None);
        assert_eq!(inside(b""), None);
    }

    proptest! {
        #[test]
        fn garbage_breaks_nothing(bytes: Vec<u8>, at in 0usize..144, value: u8) {
            let _ = (inside(&bytes), inside(&image(&bytes)), has_entry(&bytes));
            let mut broken = elf(18);
            broken[at] = value;
            let _ = has_entry(&broken);
        }
    }
}
