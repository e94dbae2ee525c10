//! Memory: /proc/meminfo, the limit of our cgroup, and mappings.

use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, mmap_anonymous, munmap};

use crate::Roots;
use crate::error::Refusal;

/// Bytes from which a block of memory is a mapping of its own; glibc begins with this number.
#[cfg(target_env = "gnu")]
const OWN_MAPPING: i32 = 128 << 10;

/// Lets each large block that is freed go back to the kernel. By default, glibc raises the size of
/// such blocks to that of the largest freed one, up to 32 MiB, and keeps smaller ones (mallopt(3)).
/// Must be called before other threads start.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: It sets a parameter of the allocator while no other thread runs.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING);
    }
}

/// Reads a line of /proc/meminfo, in bytes.
pub fn meminfo(roots: &Roots, key: &str) -> Option<u64> {
    meminfo_line(&roots.proc_text("meminfo")?, key)
}

fn meminfo_line(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.split(':').next() == Some(key))?;
    let number: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(if line.ends_with("kB") {
        number * 1024
    } else {
        number
    })
}

/// Returns the unused bytes of the memory limit: the minimum over our cgroup and its ancestors.
/// Returns `None` without a limit.
pub fn cgroup_headroom(roots: &Roots) -> Option<u64> {
    least_of_cgroups(roots, u64::saturating_sub)
}

/// Returns the memory limit in bytes: the minimum over our cgroup and its ancestors. Returns `None`
/// without a limit.
pub fn cgroup_limit(roots: &Roots) -> Option<u64> {
    least_of_cgroups(roots, |limit, _| limit)
}

/// Returns the number of processes in all cgroups that the kernel has killed for lack of memory
/// since it booted.
pub fn oom_kills(roots: &Roots) -> Option<u64> {
    let text = roots.proc_text("vmstat")?;
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

fn least_of_cgroups(roots: &Roots, of: fn(u64, u64) -> u64) -> Option<u64> {
    let membership = roots.proc_text("self/cgroup")?;
    membership
        .lines()
        .filter_map(|line| least_of_line(roots, line, of))
        .min()
}

fn least_of_line(roots: &Roots, line: &str, of: fn(u64, u64) -> u64) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (mount, limit, usage) = if controllers.is_empty() {
        ("fs/cgroup", "memory.max", "memory.current")
    } else if controllers
        .split(',')
        .any(|controller| controller == "memory")
    {
        (
            "fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        )
    } else {
        return None;
    };
    let mut directory = std::path::Path::new(path.trim_start_matches('/'));
    let mut least: Option<u64> = None;
    loop {
        let number = |file: &str| -> Option<u64> {
            super::read_trimmed(&roots.sys.join(mount).join(directory).join(file))?
                .parse()
                .ok()
        };
        if let (Some(limit), Some(usage)) = (number(limit), number(usage)) {
            let found = of(limit, usage);
            least = Some(least.map_or(found, |known| known.min(found)));
        }
        match directory.parent() {
            Some(parent) => directory = parent,
            None => return least,
        }
    }
}

/// Anonymous memory. Dropping the value unmaps it.
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Maps memory, in huge pages if there are any.
    pub fn new(length: usize) -> Result<Mapping, Refusal> {
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let start = start.map_err(|errno| Refusal::call("mmap", &errno.into()))?;
        let start = NonNull::new(start.cast()).ok_or("mmap answered null")?;
        let mapping = Mapping { start, length };
        // SAFETY: exactly our mapping. This is only advice: without huge pages the kernel uses
        // small ones.
        let _ = unsafe { madvise(mapping.start.as_ptr().cast(), length, Advice::LinuxHugepage) };
        Ok(mapping)
    }

    /// Writes one byte per page, on all processors in parallel.
    pub fn touch(&mut self) {
        let page = rustix::param::page_size();
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        // SAFETY: the mapping is ours, of that length, readable and writable, and zeroed by the
        // kernel.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) };
        let share = (self.length / page).div_ceil(threads).max(1) * page;
        let parts = Mutex::new(bytes.chunks_mut(share));
        let work = || {
            loop {
                let Some(part) = parts.lock().unwrap_or_else(PoisonError::into_inner).next() else {
                    return;
                };
                part.iter_mut().step_by(page).for_each(|byte| *byte = 1);
            }
        };
        std::thread::scope(|scope| {
            // Fewer threads are sufficient: the calling thread works too.
            (1..threads).for_each(|_| drop(std::thread::Builder::new().spawn_scoped(scope, work)));
            work();
        });
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly our mapping, which nothing refers to any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Keeps the pages of this program and its libraries in the page cache until this process ends.
///
/// When the page cache is dropped before a cold sample, every process that fsb starts afterwards
/// would read the program again. This would be 12 MB per sample, from the disk that often holds the
/// target, and would be counted as other processes' I/O. The kernel does not drop mapped pages.
/// Parts that cannot be mapped are skipped.
pub fn keep_program_in_memory() {
    let maps = crate::read_text("/proc/self/maps").unwrap_or_default();
    maps.lines()
        .filter_map(FilePart::of_line)
        .for_each(|part| drop(part.map()));
}

/// A mapped part of a file.
#[derive(Debug, PartialEq, Eq)]
struct FilePart<'m> {
    path: &'m str,
    offset: u64,
    length: usize,
}

impl FilePart<'_> {
    /// Parses a line of /proc/PID/maps. Returns `None` for memory without a file.
    fn of_line(line: &str) -> Option<FilePart<'_>> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        fn number(text: &str) -> Option<u64> {
            u64::from_str_radix(text, 16).ok()
        }
        let length = usize::try_from(number(end)?.checked_sub(number(start)?)?).ok()?;
        let offset = number(words.nth(1)?)?;
        let path = words.nth(2)?.trim_start();
        path.starts_with('/').then_some(FilePart {
            path,
            offset,
            length,
        })
    }

    /// Maps the part with all its pages, and never unmaps it.
    fn map(&self) -> std::io::Result<()> {
        let file = std::fs::File::open(self.path)?;
        // SAFETY: a new mapping at an address of the kernel's choice. Nothing refers to it, and it
        // is never unmapped.
        unsafe {
            let flags = MapFlags::SHARED | MapFlags::POPULATE;
            let start = mmap(
                std::ptr::null_mut(),
                self.length,
                ProtFlags::READ,
                flags,
                &file,
                self.offset,
            )?;
            // mlock also protects the pages from reclaim. A user's limit may forbid it.
            let _ = mlock(start, self.length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_in_bytes() {
        let text = "MemTotal:       24684096 kB\nMemFree:  5 kB\nHugePages_Total:       7\n";
        assert_eq!(meminfo_line(text, "MemFree"), Some(5 * 1024));
        assert_eq!(meminfo_line(text, "HugePages_Total"), Some(7));
        assert_eq!(meminfo_line(text, "Mem"), None);
    }

    #[test]
    fn the_tightest_cgroup_counts() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::below(tree.path());
        let write = |path: &str, text: &str| {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "proc/self/cgroup",
            "4:memory,cpu:/a/b\n1:name=systemd:/\n0::/c\n",
        );
        assert_eq!(cgroup_headroom(&roots), None);
        write("sys/fs/cgroup/c/memory.max", "max\n");
        write("sys/fs/cgroup/c/memory.current", "10\n");
        assert_eq!(cgroup_headroom(&roots), None);
        write(
            "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        write("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "12\n");
        write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "100\n");
        write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "40\n");
        assert_eq!(
            (cgroup_headroom(&roots), cgroup_limit(&roots)),
            (Some(60), Some(100))
        );
        assert_eq!(oom_kills(&roots), None);
        write(
            "proc/vmstat",
            "oom_killer_disabled 9\noom_kill 3\npgfault 5\n",
        );
        assert_eq!(oom_kills(&roots), Some(3));
    }

    #[test]
    fn every_page_of_a_mapping_is_touched() {
        let mut mapping = Mapping::new(8 << 20).unwrap();
        mapping.touch();
        let mut resident = vec![0u8; (8 << 20) / rustix::param::page_size()];
        // SAFETY: our mapping, and a vector with one byte per page.
        let answer = unsafe {
            libc::mincore(
                mapping.start.as_ptr().cast(),
                mapping.length,
                resident.as_mut_ptr(),
            )
        };
        assert_eq!(answer, 0);
        assert!(resident.iter().all(|page| page & 1 == 1));
    }

    #[test]
    fn parts_of_files_are_told_from_other_memory() {
        let text = "55d0c0a00000-55d0c0a21000 r--p 00002000 fe:00 1234                       /usr/bin/a program";
        let part = FilePart {
            path: "/usr/bin/a program",
            offset: 0x2000,
            length: 0x21000,
        };
        assert_eq!(FilePart::of_line(text), Some(part));
        for other in [
            "7ffd0000-7ffe0000 rw-p 00000000 00:00 0                          [stack]",
            "1-2 rw-p 0 00:00 0 ",
            "",
        ] {
            assert_eq!(FilePart::of_line(other), None, "{other}");
        }
    }

    #[test]
    fn the_program_stays_in_memory() {
        let mapped = || {
            let status = crate::read_text("/proc/self/status").unwrap();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("RssFile:"))
                .unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let before = mapped();
        keep_program_in_memory();
        let program = std::fs::metadata("/proc/self/exe").unwrap().len() >> 10;
        assert!(mapped() > before, "{} of {program} KiB", mapped());
    }
}
