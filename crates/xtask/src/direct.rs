//! Probes O_DIRECT on file systems in images, and writes the table of a page.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use fsb_model::errno;
use fsb_sys::file_mapping::FileMapping;
use rustix::fs::{Advice, AtFlags, OFlags, StatxFlags, fadvise, statx};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::peers;

/// The page, below the root of the repository.
const PAGE: &str = "docs/methods/direct.md";
/// The lines around the table.
const START: &str = "<!-- measured: direct -->\n";
const END: &str = "<!-- end: direct -->";

/// Bytes that each probe moves, in records.
const LENGTH: usize = 1 << 20;
const RECORD: usize = 4096;
/// The number of cells of a row that belong to the table of writes.
const WRITE_CELLS: usize = 5;
/// Bytes of an image. The smallest xfs has 300 MiB.
const IMAGE: u64 = 512 << 20;

/// A row of the table.
struct Case {
    label: &'static str,
    kind: Kind,
}

enum Kind {
    /// A file system on a loop device: the mkfs command, and mount options.
    Image(&'static [&'static str], &'static str),
    /// A read-only file system: the command that packs a directory into an image.
    Packed(&'static str, fn(&Path, &Path) -> Command),
    Tmpfs,
    /// An overlay whose layers are on ext4.
    Overlay,
    /// A FUSE server over a directory of ext4.
    Server(&'static str),
}

const CASES: &[Case] = &[
    image("ext4", &["mkfs.ext4", "-q", "-F"], "defaults"),
    image(
        "ext4, blocks of 1 KiB",
        &["mkfs.ext4", "-q", "-F", "-b", "1024"],
        "defaults",
    ),
    image(
        "ext4, bigalloc with clusters of 64 KiB",
        &["mkfs.ext4", "-q", "-F", "-O", "bigalloc", "-C", "65536"],
        "defaults",
    ),
    image(
        "ext4, data=journal",
        &["mkfs.ext4", "-q", "-F"],
        "data=journal",
    ),
    image("xfs", &["mkfs.xfs", "-q", "-f"], "defaults"),
    image(
        "xfs, blocks of 16 KiB",
        &["mkfs.xfs", "-q", "-f", "-b", "size=16k"],
        "defaults",
    ),
    image("btrfs", &["mkfs.btrfs", "-q", "-f"], "defaults"),
    image("btrfs, nodatasum", &["mkfs.btrfs", "-q", "-f"], "nodatasum"),
    image(
        "btrfs, compress-force=zstd",
        &["mkfs.btrfs", "-q", "-f"],
        "compress-force=zstd",
    ),
    Case {
        label: "tmpfs",
        kind: Kind::Tmpfs,
    },
    Case {
        label: "overlay over ext4",
        kind: Kind::Overlay,
    },
    Case {
        label: "erofs",
        kind: Kind::Packed("erofs", |from, image| {
            let mut command = Command::new("mkfs.erofs");
            command.arg(image).arg(from);
            command
        }),
    },
    Case {
        label: "squashfs",
        kind: Kind::Packed("squashfs", |from, image| {
            let mut command = Command::new("mksquashfs");
            command.arg(from).arg(image).args(["-noappend", "-quiet"]);
            command
        }),
    },
    Case {
        label: "bindfs (FUSE) over ext4",
        kind: Kind::Server("bindfs"),
    },
];

const fn image(label: &'static str, mkfs: &'static [&'static str], options: &'static str) -> Case {
    Case {
        label,
        kind: Kind::Image(mkfs, options),
    }
}

/// Probes all file systems, and writes the table into the page. Needs root.
pub fn run() -> anyhow::Result<()> {
    peers::leave_mounts()?;
    let scratch = TempDir::new().context("make a directory")?;
    let mut writes = String::from(
        "| file system | alignment (statx) | write 4 KiB | 100 bytes at 3 | bypasses | device wrote |\n|---|---|---|---|---|---|\n",
    );
    let mut reads = String::from(
        "| file system | read 4 KiB | pages left | device read | atomic writes (statx), 4 KiB |\n|---|---|---|---|---|\n",
    );
    for (index, case) in CASES.iter().enumerate() {
        let directory = scratch.path().join(index.to_string());
        fs::create_dir(&directory).context("make a directory")?;
        match case.probe(&directory) {
            Ok(cells) => {
                let (written, read) = cells.split_at(WRITE_CELLS);
                writeln!(writes, "| {} | {} |", case.label, written.join(" | "))?;
                writeln!(reads, "| {} | {} |", case.label, read.join(" | "))?;
            }
            Err(error) => println!("NOT RUN: {}: {error:#}", case.label),
        }
    }
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let today = jiff::Zoned::now().date();
    let section = format!(
        "Linux {}, {today}, {}.\n\n{writes}\n{reads}",
        kernel.trim(),
        std::env::consts::ARCH
    );
    print!("{section}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("read {PAGE}"))?;
    fs::write(&path, replaced(&page, &section)?).with_context(|| format!("write {PAGE}"))
}

/// Returns the page with a new section between its two lines.
fn replaced(page: &str, section: &str) -> anyhow::Result<String> {
    let (before, rest) = page
        .split_once(START)
        .with_context(|| format!("{PAGE} has no line '{}'", START.trim()))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("{PAGE} has no line '{END}'"))?;
    Ok(format!("{before}{START}\n{section}\n{END}{after}"))
}

impl Case {
    /// Makes the file system in a directory, probes it, and removes it.
    fn probe(&self, directory: &Path) -> anyhow::Result<Vec<String>> {
        match &self.kind {
            Kind::Image(mkfs, options) => {
                let mounted = Mounted::image(mkfs, options, directory)?;
                writable(&mounted.point, mounted.device.as_deref())
            }
            Kind::Tmpfs => {
                let mounted = Mounted::at(directory, &["-t", "tmpfs", "none"])?;
                writable(&mounted.point, None)
            }
            Kind::Overlay => {
                let below = Mounted::image(&["mkfs.ext4", "-q", "-F"], "defaults", directory)?;
                let mut layers = Vec::new();
                for layer in ["lower", "upper", "work"] {
                    let path = below.point.join(layer);
                    fs::create_dir(&path)?;
                    layers.push(format!("{layer}dir={}", path.display()));
                }
                let options = layers.join(",");
                let own = directory.join("overlay");
                fs::create_dir(&own)?;
                let over = Mounted::at(&own, &["-t", "overlay", "none", "-o", &options])?;
                writable(&over.point, below.device.as_deref())
            }
            Kind::Packed(name, pack) => {
                let (source, image) = (directory.join("source"), directory.join("image"));
                fs::create_dir(&source)?;
                fs::write(source.join("file"), incompressible(LENGTH))?;
                peers::run(&mut pack(&source, &image))?;
                let mounted = Mounted::attached(&image, &["-t", name, "-o", "ro"], directory)?;
                read_only(&mounted.point, mounted.device.as_deref())
            }
            Kind::Server(program) => {
                let below = Mounted::image(&["mkfs.ext4", "-q", "-F"], "defaults", directory)?;
                let point = directory.join("served");
                fs::create_dir(&point)?;
                peers::run(Command::new(program).arg(&below.point).arg(&point))?;
                let served = Mounted {
                    point,
                    device: None,
                };
                writable(&served.point, below.device.as_deref())
            }
        }
    }
}

/// A mount, and its loop device. Dropping it removes both.
struct Mounted {
    point: PathBuf,
    device: Option<PathBuf>,
}

impl Mounted {
    /// Makes and mounts a file system on a loop device with direct I/O.
    fn image(mkfs: &[&str], options: &str, directory: &Path) -> anyhow::Result<Mounted> {
        let image = directory.join("image");
        File::create_new(&image)?.set_len(IMAGE)?;
        peers::run(Command::new(mkfs[0]).args(&mkfs[1..]).arg(&image))?;
        Mounted::attached(&image, &["-o", options], directory)
    }

    fn attached(image: &Path, options: &[&str], directory: &Path) -> anyhow::Result<Mounted> {
        let mut losetup = Command::new("losetup");
        losetup.args(["--show", "--find", "--direct-io=on"]);
        let output = peers::run(losetup.arg(image))?;
        let device = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let point = directory.join("mount");
        let mut mounted = Mounted {
            point,
            device: Some(device.clone()),
        };
        fs::create_dir(&mounted.point)?;
        let mut mount = Command::new("mount");
        mount.args(options).arg(device).arg(&mounted.point);
        if let Err(error) = peers::run(&mut mount) {
            // Nothing is mounted there; dropping detaches the device alone.
            mounted.point = PathBuf::new();
            return Err(error);
        }
        Ok(mounted)
    }

    /// Mounts a file system without a device.
    fn at(directory: &Path, arguments: &[&str]) -> anyhow::Result<Mounted> {
        let point = directory.join("mount");
        fs::create_dir(&point)?;
        peers::run(Command::new("mount").args(arguments).arg(&point))?;
        Ok(Mounted {
            point,
            device: None,
        })
    }

    fn remove(&self) -> anyhow::Result<()> {
        if !self.point.as_os_str().is_empty() {
            peers::run(Command::new("umount").arg(&self.point))?;
        }
        match &self.device {
            Some(device) => peers::run(Command::new("losetup").arg("-d").arg(device)).map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("{} is left: {error:#}", self.point.display());
        }
    }
}

/// Returns the cells of a row for a file system that takes writes.
fn writable(directory: &Path, device: Option<&Path>) -> anyhow::Result<Vec<String>> {
    let path = directory.join("file");
    fs::write(&path, incompressible(LENGTH))?;
    let plain = OpenOptions::new().read(true).write(true).open(&path)?;
    plain.sync_all()?;
    fadvise(&plain, 0, None, Advice::DontNeed)?;
    let bytes = Aligned::new(LENGTH);
    let mut cells = vec![alignment(&plain)];
    let direct = match open_direct(&path, true) {
        Ok(direct) => direct,
        Err(errno) => {
            cells.push(format!("open: {}", errno_name(errno)));
            cells.resize(WRITE_CELLS, "–".to_owned());
            cells.extend(reads(&path, device)?);
            cells.push("–".to_owned());
            return Ok(cells);
        }
    };
    cells.push(answer(direct.write_at(&bytes.as_slice()[..RECORD], 0)));
    cells.push(answer(direct.write_at(&bytes.as_slice()[..100], 3)));
    cells.push(bypasses(&plain, &direct, &bytes.as_slice()[..RECORD]));
    let before = activity(device);
    for offset in (0..LENGTH).step_by(RECORD) {
        direct.write_at(&bytes.as_slice()[offset..][..RECORD], offset as u64)?;
    }
    cells.push(moved(before, activity(device), 1));
    plain.sync_all()?;
    cells.extend(reads(&path, device)?);
    cells.push(atomic(&direct, &bytes));
    Ok(cells)
}

/// Returns the cells of a row for a file system that takes no writes.
fn read_only(directory: &Path, device: Option<&Path>) -> anyhow::Result<Vec<String>> {
    let path = directory.join("file");
    let mut cells = vec![alignment(&File::open(&path)?)];
    cells.resize(WRITE_CELLS, "read-only".to_owned());
    cells.extend(reads(&path, device)?);
    cells.push("read-only".to_owned());
    Ok(cells)
}

/// Returns the answer to a read of a record, the pages that reading the file leaves in the page
/// cache, and the bytes that the device read.
fn reads(path: &Path, device: Option<&Path>) -> anyhow::Result<[String; 3]> {
    let plain = File::open(path)?;
    fadvise(&plain, 0, None, Advice::DontNeed)?;
    let direct = match open_direct(path, false) {
        Ok(direct) => direct,
        Err(errno) => {
            let refused = format!("open: {}", errno_name(errno));
            return Ok([refused, "–".to_owned(), "–".to_owned()]);
        }
    };
    let mut bytes = Aligned::new(LENGTH);
    let before = activity(device);
    let mut first = None;
    for offset in (0..LENGTH).step_by(RECORD) {
        let read = direct.read_at(&mut bytes.as_mut_slice()[..RECORD], offset as u64);
        first.get_or_insert_with(|| answer(read));
    }
    let read = moved(before, activity(device), 0);
    let pages = FileMapping::new(&plain, LENGTH)?.resident_pages()?;
    Ok([first.unwrap_or_default(), pages.to_string(), read])
}

fn open_direct(path: &Path, writes: bool) -> Result<File, Errno> {
    let mut options = OpenOptions::new();
    options.read(true).write(writes);
    options.custom_flags(OFlags::DIRECT.bits() as i32);
    options
        .open(path)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Overwrites a page that is mapped and touched. A direct write evicts it; a write through the page
/// cache leaves it there.
fn bypasses(plain: &File, direct: &File, record: &[u8]) -> String {
    let mapping = match FileMapping::new(plain, record.len()) {
        Ok(mapping) => mapping,
        Err(errno) => return format!("unknown: mmap: {}", errno_name(errno)),
    };
    mapping.touch();
    if let Err(error) = direct.write_at(record, 0) {
        return answer(Err(error));
    }
    match mapping.resident_pages() {
        Ok(0) => "yes".to_owned(),
        Ok(_) => "**no**".to_owned(),
        Err(errno) => format!("unknown: mincore: {}", errno_name(errno)),
    }
}

/// Returns the alignments of offsets and memory that statx reports.
fn alignment(file: &File) -> String {
    match statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(found) if found.stx_mask & StatxFlags::DIOALIGN.bits() == 0 => "not reported".to_owned(),
        Ok(found) if found.stx_dio_offset_align == 0 => "none: no direct I/O".to_owned(),
        Ok(found) => format!(
            "{}, memory {}",
            found.stx_dio_offset_align, found.stx_dio_mem_align
        ),
        Err(errno) => errno_name(errno),
    }
}

/// Returns the sizes of atomic writes that statx reports, and the answer to one of 4 KiB.
fn atomic(direct: &File, bytes: &Aligned) -> String {
    // STATX_WRITE_ATOMIC and RWF_ATOMIC of Linux 6.11.
    let mask = StatxFlags::from_bits_retain(0x1_0000);
    let flags = rustix::io::ReadWriteFlags::from_bits_retain(0x40);
    let sizes = match statx(direct, "", AtFlags::EMPTY_PATH, mask) {
        Ok(found) if found.stx_atomic_write_unit_max == 0 => "none".to_owned(),
        Ok(found) => format!(
            "{} to {}",
            found.stx_atomic_write_unit_min, found.stx_atomic_write_unit_max
        ),
        Err(errno) => errno_name(errno),
    };
    let record = &[std::io::IoSlice::new(&bytes.as_slice()[..RECORD])];
    match rustix::io::pwritev2(direct, record, 0, flags) {
        Ok(_) => format!("{sizes}, works"),
        Err(errno) => format!("{sizes}, {}", errno_name(errno)),
    }
}

fn answer(moved: std::io::Result<usize>) -> String {
    match moved {
        Ok(_) => "works".to_owned(),
        Err(error) => errno_name(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

fn errno_name(errno: Errno) -> String {
    let number = errno.raw_os_error();
    errno::name(number).map_or_else(|| number.to_string(), str::to_owned)
}

/// Returns the bytes that a device has read and written.
fn activity(device: Option<&Path>) -> Option<[u64; 2]> {
    let name = device?.file_name()?.to_str()?;
    let text = fs::read_to_string(format!("/sys/block/{name}/stat")).ok()?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    Some([*numbers.get(2)? * 512, *numbers.get(6)? * 512])
}

/// Returns the share of the bytes that a device moved between two readings: read (0) or written
/// (1).
fn moved(before: Option<[u64; 2]>, after: Option<[u64; 2]>, direction: usize) -> String {
    match (before, after) {
        (Some(before), Some(after)) => {
            format!("{} KiB", (after[direction] - before[direction]) / 1024)
        }
        _ => "no device".to_owned(),
    }
}

/// Bytes in memory that direct I/O can use.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
}

impl Aligned {
    fn new(length: usize) -> Aligned {
        let mut memory = incompressible(length + RECORD);
        let start = memory.as_ptr().align_offset(RECORD);
        memory.truncate(start + length);
        Aligned { memory, start }
    }

    fn as_slice(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }
}

/// Returns bytes that no file system can make smaller.
fn incompressible(length: usize) -> Vec<u8> {
    use rand::{RngExt as _, SeedableRng as _};
    let mut bytes = vec![0; length];
    rand_pcg::Pcg64Mcg::seed_from_u64(1).fill(bytes.as_mut_slice());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_place_for_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(PAGE);
        let page = fs::read_to_string(path).unwrap();
        let again = replaced(&page, "| table |\n").unwrap();
        assert!(again.contains("\n| table |\n"));
        assert_eq!(
            replaced(&again, "x").unwrap(),
            replaced(&page, "x").unwrap()
        );
        assert!(replaced("no such lines", "").is_err());
    }
}
