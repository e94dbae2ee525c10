//! The hardware of the machine as firmware and drivers describe it in /sys: the board, the caches of a processor, and
//! the controller and the mechanics of a disk.

use std::path::Path;

use fsb_model::host::ProcessorCache;
use fsb_model::units::Bytes;
use fsb_sys::{Roots, read_trimmed};

/// Returns the words of DMI fields that are filled in. Firmware has phrases for fields without a value.
fn dmi(roots: &Roots, fields: &[&str]) -> Option<String> {
    const PHRASES: [&str; 6] = ["to be filled", "default string", "not specified", "system version", "none", "x.x"];
    let text = |field: &&str| roots.sys_text(&format!("class/dmi/id/{field}"));
    let is_set = |text: &String| !PHRASES.iter().any(|phrase| text.to_ascii_lowercase().starts_with(phrase));
    let words: Vec<String> = fields.iter().filter_map(text).filter(is_set).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Returns the vendor, the name and the version of the board.
pub(crate) fn board(roots: &Roots) -> Option<String> {
    dmi(roots, &["board_vendor", "board_name", "board_version"])
}

/// Returns the vendor, the version and the date of the firmware.
pub(crate) fn bios(roots: &Roots) -> Option<String> {
    dmi(roots, &["bios_vendor", "bios_version", "bios_date"])
}

/// Returns the caches of the first processor, nearest first.
pub(crate) fn caches(roots: &Roots) -> Vec<ProcessorCache> {
    let cache = |index: u32| {
        let file = |name: &str| roots.sys_text(&format!("devices/system/cpu/cpu0/cache/index{index}/{name}"));
        Some(ProcessorCache {
            level: file("level")?.parse().ok()?,
            kind: file("type")?.to_lowercase(),
            size_bytes: file("size")?.parse::<Bytes>().ok()?.0,
            shared_by: file("shared_cpu_list").and_then(|list| count_list(&list)),
        })
    };
    (0..16).map_while(cache).collect()
}

/// Returns the count of the numbers in a list such as `0-3,8`.
pub(crate) fn count_list(text: &str) -> Option<u32> {
    text.split(',')
        .map(|range| {
            let (first, last) = range.trim().split_once('-').unwrap_or((range.trim(), range.trim()));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            last.checked_sub(first)?.checked_add(1)
        })
        .sum()
}

/// The connection of a disk to the machine, and its mechanics.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) controller: Option<String>,
    pub(crate) interface: Option<String>,
    pub(crate) rotations_per_minute: Option<u32>,
    pub(crate) buffer_bytes: Option<u64>,
}

/// Returns the attachment of the disk with this directory below /sys. Partitions and virtual devices have none.
pub(crate) fn attachment(disk: &Path) -> Attachment {
    if read_trimmed(&disk.join("partition")).is_some() {
        return Attachment::default();
    }
    let page = |name: &str| std::fs::read(disk.join("device").join(name)).unwrap_or_default();
    Attachment {
        controller: disk.ancestors().find_map(controller),
        interface: disk.ancestors().find_map(interface),
        rotations_per_minute: rotations(&page("vpd_pgb1")),
        buffer_bytes: buffer(&page("vpd_pg89")),
    }
}

/// Returns the driver and the identity of the PCI function with this directory.
fn controller(directory: &Path) -> Option<String> {
    let text = |file: &str| read_trimmed(&directory.join(file));
    let number = |file: &str| Some(text(file)?.trim_start_matches("0x").to_owned());
    text("class")?;
    let identity = format!("PCI {}:{}", number("vendor")?, number("device")?);
    let driver = std::fs::read_link(directory.join("driver")).ok();
    Some(match driver.as_deref().and_then(Path::file_name) {
        Some(driver) => format!("{}, {identity}", driver.to_string_lossy()),
        None => identity,
    })
}

/// Returns the interface that the directory of a port shows, with its speed if the kernel reports one.
fn interface(directory: &Path) -> Option<String> {
    let name = directory.file_name()?.to_str()?;
    let text = |file: &str| read_trimmed(&directory.join(file));
    let numbered = |prefix: &str| {
        let rest = name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let with =
        |kind: &str, speed: Option<String>| Some(speed.map_or(kind.to_owned(), |speed| format!("{kind}, {speed}")));
    match () {
        () if numbered("ata") => {
            let link = format!("link{}", &name[3..]);
            let speed = text(&format!("{link}/ata_link/{link}/sata_spd")).filter(|speed| speed.contains("Gbps"));
            with("ATA", speed)
        }
        () if numbered("nvme") => {
            let port = |file: &str| text(&format!("device/{file}"));
            let speed = port("current_link_speed").zip(port("current_link_width"));
            with("NVMe", speed.map(|(speed, width)| format!("{speed} x{width}")))
        }
        () if numbered("virtio") => with("virtio", None),
        () if numbered("mmc") => with("MMC", None),
        () if directory.join("busnum").exists() => with("USB", text("speed").map(|speed| format!("{speed} Mbit/s"))),
        () => None,
    }
}

/// Returns the rotations per minute of a disk, from its page of block device characteristics (SBC-4, 6.6.2). A disk
/// without rotating media, or one that reports no rate, has none.
fn rotations(page: &[u8]) -> Option<u32> {
    let rate = u16::from_be_bytes(page.get(4..6)?.try_into().ok()?);
    (0x0401..0xffff).contains(&rate).then_some(rate.into())
}

/// Returns the bytes of a disk's buffer, from its page of ATA information (SAT-4, 12.4.2): word 21 of the identity, in
/// sectors. Later versions of ATA made the word obsolete, and many disks leave it empty.
fn buffer(page: &[u8]) -> Option<u64> {
    const IDENTITY: usize = 60;
    const WORD: usize = IDENTITY + 2 * 21;
    let sectors = u16::from_le_bytes(page.get(WORD..WORD + 2)?.try_into().ok()?);
    (sectors != 0 && sectors != u16::MAX).then(|| u64::from(sectors) * 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Roots) {
        let directory = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = directory.path().join("sys").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let roots = Roots { proc: directory.path().join("proc"), sys: directory.path().join("sys") };
        (directory, roots)
    }

    #[test]
    fn boards_and_firmware_are_named_by_the_fields_that_are_filled_in() {
        let (_keep, roots) = tree(&[
            ("class/dmi/id/board_vendor", b"ASUSTeK COMPUTER INC.\n"),
            ("class/dmi/id/board_name", b"Z97-A\n"),
            ("class/dmi/id/board_version", b"To be filled by O.E.M.\n"),
            ("class/dmi/id/bios_vendor", b"American Megatrends Inc.\n"),
            ("class/dmi/id/bios_version", b"2801\n"),
            ("class/dmi/id/bios_date", b"11/11/2015\n"),
        ]);
        assert_eq!(board(&roots).as_deref(), Some("ASUSTeK COMPUTER INC. Z97-A"));
        assert_eq!(bios(&roots).as_deref(), Some("American Megatrends Inc. 2801 11/11/2015"));
        let (_keep, roots) = tree(&[("class/dmi/id/board_name", b"Default string\n")]);
        assert_eq!((board(&roots), bios(&roots)), (None, None));
    }

    #[test]
    fn caches_have_their_sizes_and_the_processors_that_share_them() {
        let (_keep, roots) = tree(&[
            ("devices/system/cpu/cpu0/cache/index0/level", b"1\n"),
            ("devices/system/cpu/cpu0/cache/index0/type", b"Data\n"),
            ("devices/system/cpu/cpu0/cache/index0/size", b"32K\n"),
            ("devices/system/cpu/cpu0/cache/index0/shared_cpu_list", b"0,4\n"),
            ("devices/system/cpu/cpu0/cache/index1/level", b"3\n"),
            ("devices/system/cpu/cpu0/cache/index1/type", b"Unified\n"),
            ("devices/system/cpu/cpu0/cache/index1/size", b"8192K\n"),
        ]);
        let cache = |level, kind: &str, size_bytes, shared_by| ProcessorCache {
            level,
            kind: kind.to_owned(),
            size_bytes,
            shared_by,
        };
        assert_eq!(caches(&roots), [cache(1, "data", 32 << 10, Some(2)), cache(3, "unified", 8 << 20, None)]);
        assert_eq!(caches(&tree(&[]).1), []);
    }

    #[test]
    fn processor_lists_are_counted() {
        assert_eq!(count_list("0"), Some(1));
        assert_eq!(count_list("0-1,4,6-7"), Some(5));
        for text in ["", "a", "3-1"] {
            assert_eq!(count_list(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_disk_is_attached_to_a_port_of_a_controller() {
        let mut identity = [0u8; 60 + 512];
        identity[60 + 42..60 + 44].copy_from_slice(&65_535u16.wrapping_sub(1).to_le_bytes());
        const SATA: &str = "devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda";
        const PORT: &str = "devices/pci0000:00/0000:00:1f.2";
        let (keep, roots) = tree(&[
            (&format!("{SATA}/device/vpd_pgb1"), &[0, 0xb1, 0, 60, 0x1c, 0x20, 0, 0]),
            (&format!("{SATA}/device/vpd_pg89"), &identity),
            (&format!("{SATA}/sda1/partition"), b"1\n"),
            (&format!("{PORT}/class"), b"0x010601\n"),
            (&format!("{PORT}/vendor"), b"0x8086\n"),
            (&format!("{PORT}/device"), b"0x8c82\n"),
            (&format!("{PORT}/ata1/link1/ata_link/link1/sata_spd"), b"6.0 Gbps\n"),
            ("bus/pci/drivers/ahci/.keep", b""),
        ]);
        let sys = keep.path().join("sys");
        std::os::unix::fs::symlink(sys.join("bus/pci/drivers/ahci"), sys.join(PORT).join("driver")).unwrap();
        let found = attachment(&roots.sys.join(SATA));
        assert_eq!(found.controller.as_deref(), Some("ahci, PCI 8086:8c82"));
        assert_eq!(found.interface.as_deref(), Some("ATA, 6.0 Gbps"));
        assert_eq!((found.rotations_per_minute, found.buffer_bytes), (Some(7200), Some(65_534 * 512)));
        // The disk beneath has the attachment.
        assert_eq!(attachment(&roots.sys.join(SATA).join("sda1")), Attachment::default());
    }

    #[test]
    fn interfaces_are_known_by_their_ports() {
        for (files, disk, expected) in [
            (
                [
                    ("devices/pci0/0000:01:00.0/nvme/nvme0/device/current_link_speed", "8.0 GT/s PCIe\n"),
                    ("devices/pci0/0000:01:00.0/nvme/nvme0/device/current_link_width", "4\n"),
                ],
                "devices/pci0/0000:01:00.0/nvme/nvme0/nvme0n1",
                Some("NVMe, 8.0 GT/s PCIe x4"),
            ),
            (
                [("devices/pci0/usb2/2-1/busnum", "2\n"), ("devices/pci0/usb2/2-1/speed", "5000\n")],
                "devices/pci0/usb2/2-1/2-1:1.0/host4/target4:0:0/4:0:0:0/block/sdb",
                Some("USB, 5000 Mbit/s"),
            ),
            (
                [("devices/pci0/virtio1/vendor", "0x1af4\n"), ("devices/pci0/virtio1/device", "0x0002\n")],
                "devices/pci0/virtio1/block/vda",
                Some("virtio"),
            ),
            ([("devices/virtual/block/dm-0/size", "8\n"), ("a/b", "")], "devices/virtual/block/dm-0", None),
        ] {
            let files = files.map(|(path, text)| (path, text.as_bytes()));
            let (_keep, roots) = tree(&files);
            let found = attachment(&roots.sys.join(disk));
            assert_eq!((found.interface.as_deref(), found.controller), (expected, None), "{disk}");
        }
    }

    #[test]
    fn pages_without_a_rate_or_a_buffer_have_none() {
        for page in [&[][..], &[0, 0xb1, 0, 60], &[0, 0xb1, 0, 60, 0, 0], &[0, 0xb1, 0, 60, 0, 1], &[0xff; 8]] {
            assert_eq!(rotations(page), None, "{page:?}");
        }
        assert_eq!((buffer(&[0; 60]), buffer(&[0; 572]), buffer(&[0xff; 572])), (None, None, None));
    }
}
