//! Reads access written data: after preparation no file has a hole or an extent that was allocated but never written.

use std::fs::File;
use std::os::fd::AsRawFd;

use fsb_engine::Step;
use serde_json::json;

use crate::common::perform;

/// `struct fiemap` of linux/fiemap.h with space for `N` extents.
#[repr(C)]
struct Fiemap<const N: usize> {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; N],
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `_IOWR('f', 11, struct fiemap)`: the size counts the head alone.
const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;
/// FIEMAP_EXTENT_UNKNOWN, _DELALLOC and _UNWRITTEN: extents that exist but are not on the device.
const NOT_WRITTEN: u32 = 0x2 | 0x4 | 0x800;

/// Returns the file's extents, or `None` if the file system does not report them.
fn extents(file: &File) -> Option<Vec<Extent>> {
    let mut map: Fiemap<256> = Fiemap {
        start: 0,
        length: u64::MAX,
        flags: 0,
        mapped_extents: 0,
        extent_count: 256,
        reserved: 0,
        extents: [Extent::default(); 256],
    };
    // SAFETY: the kernel writes at most `extent_count` extents behind the head, and the struct has space for that many.
    let told = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) } == 0;
    told.then(|| map.extents[..map.mapped_extents as usize].to_vec())
}

#[test]
fn prepared_files_are_written_from_end_to_end() {
    // In the build directory: /tmp may be a tmpfs, which has no extents.
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let workload = json!({"name": "read", "files": 3, "file_size": "3M", "cache": "cold"});
    perform(Step::Prepare, root.path(), &workload).expect("prepared");
    for index in 0..3 {
        let file = File::open(root.path().join(format!("fsb-set/d00000/f{index:08}"))).expect("the file");
        assert_eq!(file.metadata().expect("attributes").len(), 3 << 20);
        let extents = needs!(extents(&file).ok_or("a file system with FIEMAP"));
        let mut end = 0;
        for extent in &extents {
            assert_eq!(extent.logical, end, "a hole before {}", extent.logical);
            assert_eq!(extent.flags & NOT_WRITTEN, 0, "flags {:#x} at {}", extent.flags, extent.logical);
            end = extent.logical + extent.length;
        }
        assert_eq!(end, 3 << 20);
    }
    perform(Step::Cleanup, root.path(), &workload).expect("cleaned up");
    assert_eq!(std::fs::read_dir(root.path()).expect("the root").count(), 0);
}
