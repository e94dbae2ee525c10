//! Requests for a limit, cgroups of version 2 on simulated trees, and cgroups of version 1 on this kernel if it has
//! them.

use std::fs;
use std::path::Path;
use std::process::Command;

use fsb_sys::Roots;
use fsb_sys::cgroup::{Hierarchy, MEMORY, PROCESSES, Version, free_name};
use proptest::prelude::*;

use super::hold::Cgroup;
use super::{LEAST, Limit, Mechanism};

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn machine(membership: &str) -> (tempfile::TempDir, Roots) {
    let tree = tempfile::tempdir().unwrap();
    let roots = Roots { proc: tree.path().join("proc"), sys: tree.path().join("sys") };
    write(&roots.proc.join("self/cgroup"), membership);
    (tree, roots)
}

#[test]
fn without_a_memory_controller_no_cgroup_is_offered() {
    let (_tree, roots) = machine("0::/\n");
    assert!(Hierarchy::find(&roots, MEMORY).unwrap_err().to_string().contains("neither"));
    // A unified hierarchy that has only other controllers does not work either.
    write(&roots.sys.join("fs/cgroup/cgroup.controllers"), "cpu pids\n");
    assert!(Hierarchy::find(&roots, MEMORY).is_err());
    write(&roots.sys.join("fs/cgroup/cgroup.subtree_control"), "pids\n");
    assert_eq!(Hierarchy::find(&roots, PROCESSES).unwrap().version, Version::V2);
}

#[test]
fn of_version_2_the_nearest_cgroup_that_hands_memory_down_is_the_place() {
    let (_tree, roots) = machine("0::/user.slice/session.scope\n");
    let root = roots.sys.join("fs/cgroup");
    write(&root.join("cgroup.controllers"), "cpu memory pids\n");
    write(&root.join("cgroup.subtree_control"), "cpu pids\n");
    write(&root.join("user.slice/cgroup.subtree_control"), "\n");
    write(&root.join("user.slice/session.scope/cgroup.procs"), "1\n");
    let found = Hierarchy::find(&roots, MEMORY).unwrap();
    assert_eq!((found.version, &found.parent), (Version::V2, &root), "nobody hands it down: the root can");
    let enable = found.enable.unwrap();
    assert_eq!(
        (enable.file, enable.on, enable.off),
        (root.join("cgroup.subtree_control"), "+memory".to_owned(), "-memory".to_owned())
    );

    write(&root.join("user.slice/cgroup.subtree_control"), "memory\n");
    let found = Hierarchy::find(&roots, MEMORY).unwrap();
    assert_eq!((found.parent, found.enable.is_none()), (root.join("user.slice"), true));
}

#[test]
fn of_version_1_our_own_cgroup_is_the_place_where_we_see_it() {
    let (_tree, roots) = machine("4:memory,hugetlb:/docker/abc\n0::/\n");
    let root = roots.sys.join("fs/cgroup/memory");
    write(&root.join("cgroup.procs"), "1\n");
    assert_eq!(Hierarchy::find(&roots, MEMORY).unwrap().parent, root, "a container sees another path");
    write(&root.join("docker/abc/cgroup.procs"), "1\n");
    let found = Hierarchy::find(&roots, MEMORY).unwrap();
    assert_eq!((found.version, found.parent.clone()), (Version::V1, root.join("docker/abc")));

    write(&root.join("memory.limit_in_bytes"), "9223372036854771712\n");
    write(&root.join("docker/memory.limit_in_bytes"), &(100 << 20).to_string());
    assert_eq!(found.allows(100 << 20), Ok(()));
    assert!(found.allows(101 << 20).unwrap_err().to_string().contains("has a limit of 100 MiB"));
}

#[test]
fn the_files_of_cgroup_version_2_are_read() {
    let (_tree, roots) = machine("0::/\n");
    let path = roots.sys.join("fs/cgroup/fsb-1");
    for (file, text) in [
        ("memory.peak", "33554432\n"),
        ("memory.stat", "anon 10\nfile 30000000\n"),
        ("memory.events", "low 0\nhigh 0\nmax 17\noom 0\noom_kill 1\n"),
        ("memory.reclaim", ""),
        ("cgroup.procs", ""),
    ] {
        write(&path.join(file), text);
    }
    let cgroup = Cgroup { version: Version::V2, path: path.clone(), limit: 32 << 20 };
    let usage = cgroup.usage();
    assert_eq!((usage.mechanism.as_str(), usage.limit_bytes), ("cgroup v2", 32 << 20));
    assert_eq!((usage.peak_bytes, usage.cache_bytes), (Some(32 << 20), Some(30_000_000)));
    assert_eq!((usage.reached, usage.oom_kills), (Some(true), Some(1)));
    cgroup.add(77).unwrap();
    assert_eq!(fs::read_to_string(path.join("cgroup.procs")).unwrap(), "77");
    // A directory that cannot be removed simulates a cgroup with a FUSE server in it. It is emptied in place.
    cgroup.empty().unwrap();
    assert_eq!(fs::read_to_string(path.join("memory.reclaim")).unwrap(), (32 << 20).to_string());
}

/// Returns a hierarchy of version 1 on this machine, if there is one.
fn real() -> Option<Hierarchy> {
    const TESTS: &str = "what a real cgroup holds";
    if !fsb_testkit::root_for(TESTS) {
        return None;
    }
    let found = Hierarchy::find(&Roots::default(), MEMORY).ok().filter(|found| found.version == Version::V1);
    if found.is_none() {
        fsb_testkit::left_out(TESTS, "needs version 1 of cgroups, with memory");
    }
    found
}

#[test]
fn a_real_cgroup_holds_what_is_in_it_and_is_emptied() {
    let Some(place) = real() else { return };
    let path = place.parent.join(format!("fsb-test-{}", std::process::id()));
    let cgroup = Cgroup::make(Version::V1, path.clone(), 32 << 20).unwrap();
    assert_eq!(
        Cgroup::make(Version::V1, path.clone(), 32 << 20).unwrap_err().1.kind(),
        std::io::ErrorKind::AlreadyExists
    );
    // Four times the limit goes through the page cache of a process in the cgroup. Each piece is written out at once,
    // because version 1 kills a process that has more dirty pages than fit.
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let script = format!(
        "echo 0 > {} && exec dd if=/dev/zero of={}/file bs=1M count=128 oflag=dsync status=none",
        cgroup.processes().display(),
        directory.path().display()
    );
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let usage = cgroup.usage();
    assert_eq!(usage.reached, Some(true), "{usage:?}");
    assert!(usage.peak_bytes.unwrap() <= 32 << 20 && usage.peak_bytes.unwrap() > 24 << 20, "{usage:?}");
    assert_eq!((usage.mechanism.as_str(), usage.oom_kills), ("cgroup v1", Some(0)));
    cgroup.empty().unwrap();
    let usage = cgroup.usage();
    assert_eq!(usage.reached, Some(false), "{usage:?}");
    assert!(usage.cache_bytes.unwrap() < 4 << 20 && usage.peak_bytes.unwrap() < 8 << 20, "{usage:?}");
    fs::remove_dir(&path).unwrap();
}

#[test]
fn a_refused_limit_leaves_nothing() {
    let Some(place) = real() else { return };
    let path = place.parent.join(format!("fsb-none-{}/below", std::process::id()));
    assert!(Cgroup::make(Version::V1, path.clone(), 32 << 20).is_err());
    assert!(!path.exists());
}

#[test]
fn a_name_that_somebody_has_is_not_taken() {
    let parent = tempfile::tempdir().unwrap();
    let first = free_name(parent.path(), 7);
    assert_eq!(first, parent.path().join("fsb-7"));
    fs::create_dir(&first).unwrap();
    let second = free_name(parent.path(), 7);
    assert!(!second.exists() && second.file_name().unwrap().to_string_lossy().starts_with("fsb-7-"));
}

#[test]
fn a_size_and_who_holds_it() {
    let request = |text: &str| text.parse::<Limit>();
    assert_eq!(request("512M"), Ok(Limit { bytes: 512 << 20, mechanism: None }));
    assert_eq!(request("1g:cgroup"), Ok(Limit { bytes: 1 << 30, mechanism: Some(Mechanism::Cgroup) }));
    assert_eq!(request("64M:eater"), Ok(Limit { bytes: 64 << 20, mechanism: Some(Mechanism::Ballast) }));
    for text in ["", "half", "512M:", "512M:cat", "-1", ":eater", "9999999999999G"] {
        assert!(request(text).is_err(), "{text}");
    }
}

#[test]
fn absurd_limits_are_refused() {
    let check = |bytes| Limit { bytes, mechanism: None }.check(1 << 30);
    assert_eq!(check(LEAST), Ok(()));
    assert_eq!(check(1 << 30), Ok(()));
    assert!(check(LEAST - 1).unwrap_err().to_string().contains("too little"));
    assert!(check(2 << 30).unwrap_err().to_string().contains("more than this machine has (1.00 GiB)"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "[0-9kmgt:a-z-]{0,12}") {
        let _ = text.parse::<Limit>();
    }
}
