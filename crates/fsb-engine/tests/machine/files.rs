//! Files on real file systems: no holes after preparation, and errors of full file systems.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use fsb_engine::Step;
use serde_json::json;

use crate::common::{measure, perform};

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
    // SAFETY: the kernel writes at most `extent_count` extents behind the head, and the struct has
    // space for that many.
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
        let file =
            File::open(root.path().join(format!("fsb-set/d00000/f{index:08}"))).expect("the file");
        assert_eq!(file.metadata().expect("attributes").len(), 3 << 20);
        let extents = needs!(extents(&file).ok_or("a file system with FIEMAP"));
        let mut end = 0;
        for extent in &extents {
            assert_eq!(extent.logical, end, "a hole before {}", extent.logical);
            assert_eq!(
                extent.flags & NOT_WRITTEN,
                0,
                "flags {:#x} at {}",
                extent.flags,
                extent.logical
            );
            end = extent.logical + extent.length;
        }
        assert_eq!(end, 3 << 20);
    }
    perform(Step::Cleanup, root.path(), &workload).expect("cleaned up");
    assert_eq!(std::fs::read_dir(root.path()).expect("the root").count(), 0);
}

/// A small tmpfs, unmounted when dropped.
pub struct Small(tempfile::TempDir);

impl Small {
    pub fn mount(size: &str) -> Option<Small> {
        let directory = tempfile::tempdir().expect("a directory");
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(directory.path())
            .status();
        mounted
            .is_ok_and(|status| status.success())
            .then_some(Small(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: a process that another test starts at this moment holds copies of all open files
        // until its exec.
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.0.path())
            .status();
    }
}

#[test]
fn no_space_is_an_error_with_call_and_file() {
    needs!(root);
    let small = needs!(Small::mount("1m").ok_or("a tmpfs that can be mounted"));
    let prepare = perform(
        Step::Prepare,
        small.path(),
        &json!({"name": "read", "file_size": "4M"}),
    )
    .unwrap_err();
    assert_eq!(prepare.errno, Some(libc::ENOSPC));
    for workload in [
        json!({"name": "write", "file_size": "4M", "block_size": "64K"}),
        json!({"name": "write", "file_size": "4M", "block_size": "64K", "threads": 4, "durability": "end"}),
        json!({"name": "append", "file_size": "4M", "block_size": "64K"}),
        json!({"name": "write", "file_size": "4M", "block_size": "64K", "backend": "mmap"}),
        json!({"name": "write", "file_size": "4M", "block_size": "64K", "backend": "stdio"}),
        json!({"name": "write", "file_size": "4M", "block_size": "64K", "backend": "posix-aio", "depth": 4}),
        json!({"name": "create", "files": 64, "file_size": "64K", "threads": 2}),
        json!({"name": "micro-write", "block_size": "64K", "block_count": 64, "threads": 2}),
    ] {
        perform(Step::Prepare, small.path(), &workload).expect("empty files fit");
        let operations = if workload["name"] == "micro-write" {
            300
        } else {
            64
        };
        let error = measure(small.path(), operations, &workload).unwrap_err();
        assert_eq!(error.errno, Some(libc::ENOSPC), "{workload}: {error}");
        assert!(error.message.starts_with("write to /"), "{error}");
        assert!(
            error.message.ends_with("No space left on device (ENOSPC)"),
            "{error}"
        );
        perform(Step::Cleanup, small.path(), &workload).expect("cleaned up");
        assert_eq!(
            std::fs::read_dir(small.path()).expect("the root").count(),
            0
        );
    }
}
