//! /proc/meminfo and the memory limit of our cgroup.

use super::Roots;

/// Reads a line of /proc/meminfo, in bytes.
pub fn meminfo(roots: &Roots, key: &str) -> Option<u64> {
    meminfo_line(&roots.proc_text("meminfo")?, key)
}

fn meminfo_line(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split(':').next() == Some(key))?;
    let number: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(if line.ends_with("kB") { number * 1024 } else { number })
}

/// Returns the unused bytes of the memory limit: the minimum over our cgroup and its ancestors. Returns `None` without
/// a limit.
pub fn cgroup_headroom(roots: &Roots) -> Option<u64> {
    least_of_cgroups(roots, u64::saturating_sub)
}

/// Returns the memory limit in bytes: the minimum over our cgroup and its ancestors. Returns `None` without a limit.
pub fn cgroup_limit(roots: &Roots) -> Option<u64> {
    least_of_cgroups(roots, |limit, _| limit)
}

/// Returns the number of processes in all cgroups that the kernel has killed for lack of memory since it booted.
pub fn oom_kills(roots: &Roots) -> Option<u64> {
    let text = roots.proc_text("vmstat")?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

fn least_of_cgroups(roots: &Roots, of: fn(u64, u64) -> u64) -> Option<u64> {
    let membership = roots.proc_text("self/cgroup")?;
    membership.lines().filter_map(|line| least_of_line(roots, line, of)).min()
}

fn least_of_line(roots: &Roots, line: &str, of: fn(u64, u64) -> u64) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (mount, limit, usage) = if controllers.is_empty() {
        ("fs/cgroup", "memory.max", "memory.current")
    } else if controllers.split(',').any(|controller| controller == "memory") {
        ("fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
    } else {
        return None;
    };
    let mut directory = std::path::Path::new(path.trim_start_matches('/'));
    let mut least: Option<u64> = None;
    loop {
        let number = |file: &str| -> Option<u64> {
            super::read_trimmed(&roots.sys.join(mount).join(directory).join(file))?.parse().ok()
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
        let roots = Roots { proc: tree.path().join("proc"), sys: tree.path().join("sys") };
        let write = |path: &str, text: &str| {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/self/cgroup", "4:memory,cpu:/a/b\n1:name=systemd:/\n0::/c\n");
        assert_eq!(cgroup_headroom(&roots), None);
        write("sys/fs/cgroup/c/memory.max", "max\n");
        write("sys/fs/cgroup/c/memory.current", "10\n");
        assert_eq!(cgroup_headroom(&roots), None);
        write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        write("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "12\n");
        write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "100\n");
        write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "40\n");
        assert_eq!((cgroup_headroom(&roots), cgroup_limit(&roots)), (Some(60), Some(100)));
        assert_eq!(oom_kills(&roots), None);
        write("proc/vmstat", "oom_killer_disabled 9\noom_kill 3\npgfault 5\n");
        assert_eq!(oom_kills(&roots), Some(3));
    }
}
