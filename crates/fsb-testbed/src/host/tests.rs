use super::*;

/// A tree of files in a temporary directory.
fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let roots = Roots { proc: directory.path().join("proc"), sys: directory.path().join("sys") };
    (directory, roots)
}

#[test]
fn a_manifest_holds_what_the_kernel_says() {
    let (_keep, roots) = tree(&[
        ("proc/sys/kernel/osrelease", "6.12.1-test\n"),
        ("proc/sys/kernel/version", "#1 SMP\n"),
        ("proc/cmdline", "quiet splash\n"),
        ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 3GHz\nflags\t\t: fpu hypervisor sse\n"),
        ("proc/meminfo", "MemTotal: 2048 kB\nSwapTotal: 1024 kB\n"),
        ("proc/sys/vm/dirty_ratio", "20\n"),
        ("proc/self/cgroup", "4:memory:/box\n0::/unified\n"),
        ("proc/1/environ", ""),
        ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1000\n"),
        ("sys/fs/cgroup/unified/cpu.max", "max 100000\n"),
        ("sys/devices/system/cpu/online", "0-3,8\n"),
        ("sys/devices/system/node/online", "0\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        ("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ("sys/class/dmi/id/product_name", "Standard PC\n"),
    ]);
    let manifest = manifest_at(&roots);
    assert_eq!((manifest.kernel.as_str(), manifest.kernel_build.as_str()), ("6.12.1-test", "#1 SMP"));
    assert_eq!(manifest.command_line.as_deref(), Some("quiet splash"));
    assert_eq!(manifest.cpu.as_deref(), Some("Some CPU @ 3GHz"));
    assert_eq!((manifest.cpus, manifest.numa_nodes), (5, Some(1)));
    assert_eq!((manifest.memory_bytes, manifest.swap_bytes), (2 << 20, 1 << 20));
    assert_eq!(manifest.governor.as_deref(), Some("performance"));
    assert_eq!(manifest.turbo, Some(false));
    assert_eq!(manifest.mitigations["meltdown"], "Not affected");
    assert_eq!(manifest.clock_source.as_deref(), Some("tsc"));
    assert_eq!(manifest.hypervisor.as_deref(), Some("QEMU Standard PC"));
    assert_eq!(manifest.container, None);
    assert_eq!(manifest.cgroup_limits["memory.limit_in_bytes"], "1000");
    assert_eq!(manifest.cgroup_limits["cpu.max"], "max 100000");
    assert_eq!(manifest.sysctls["vm.dirty_ratio"], "20");
}

#[test]
fn an_empty_machine_has_an_empty_manifest() {
    let (_keep, roots) = tree(&[]);
    let manifest = manifest_at(&roots);
    assert_eq!((manifest.kernel.as_str(), manifest.cpus, manifest.memory_bytes), ("", 1, 0));
    assert_eq!((manifest.hypervisor, manifest.container, manifest.turbo), (None, None, None));
}

#[test]
fn this_machine_has_a_kernel_and_a_boot() {
    let manifest = manifest();
    assert!(!manifest.kernel.is_empty() && manifest.cpus > 0 && manifest.memory_bytes > 0);
    assert_eq!(boot_id().len(), 36);
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
fn a_partition_stands_on_its_disk() {
    let (keep, roots) = tree(&[
        ("sys/devices/pci/sda/size", "4096\n"),
        ("sys/devices/pci/sda/dev", "8:0\n"),
        ("sys/devices/pci/sda/queue/scheduler", "[none] mq-deadline\n"),
        ("sys/devices/pci/sda/queue/rotational", "0\n"),
        ("sys/devices/pci/sda/device/model", "Fast Disk   \n"),
        ("sys/devices/pci/sda/device/serial", "S123\n"),
        ("sys/devices/pci/sda/sda1/size", "1024\n"),
        ("sys/devices/pci/sda/sda1/partition", "1\n"),
        ("sys/devices/pci/sda/sda1/start", "2048\n"),
        ("sys/devices/virtual/block/dm-0/size", "512\n"),
        ("sys/devices/virtual/block/dm-0/dm/name", "vg-data\n"),
        ("sys/devices/virtual/block/dm-0/dm/uuid", "LVM-abc\n"),
        ("sys/dev/block/.keep", ""),
        ("sys/devices/virtual/block/dm-0/slaves/.keep", ""),
    ]);
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(keep.path().join("sys").join(target), keep.path().join("sys").join(name)).unwrap();
    };
    link("devices/pci/sda/sda1", "dev/block/8:1");
    link("devices/virtual/block/dm-0", "dev/block/253:0");
    link("devices/pci/sda/sda1", "devices/virtual/block/dm-0/slaves/sda1");
    let mapped = device_manifest(&roots, (253, 0));
    assert_eq!((mapped.name.as_str(), mapped.model.as_deref()), ("dm-0", Some("vg-data")));
    assert_eq!(mapped.serial.as_deref(), Some("LVM-abc"));
    let partition = &mapped.beneath[0];
    assert_eq!(
        (partition.name.as_str(), partition.partition_start, partition.size_bytes),
        ("sda1", Some(2048), 512 << 10)
    );
    let disk = &partition.beneath[0];
    assert_eq!(
        (disk.name.as_str(), disk.model.as_deref(), disk.serial.as_deref()),
        ("sda", Some("Fast Disk"), Some("S123"))
    );
    assert_eq!(disk.queue["scheduler"], "[none] mq-deadline");
    assert_eq!(disk.size_bytes, 2 << 20);
    let place = mapped.partition_place().unwrap();
    assert_eq!((place.disk, place.sectors, place.shares), ("sda", [2048, 3071], [0.5, 0.75]));
    assert_eq!(device_manifest(&roots, (9, 9)).name, "9:9");
}

#[test]
fn containers_show_by_their_traces() {
    for (path, text, expected) in [
        ("proc/1/environ", "PATH=/bin\0container=lxc\0", Some("lxc")),
        ("proc/self/cgroup", "0::/docker/abcdef\n", Some("docker")),
        ("proc/self/cgroup", "0::/kubepods.slice/x\n", Some("kubernetes")),
        ("proc/self/cgroup", "0::/user.slice\n", None),
        (".dockerenv", "", Some("docker")),
    ] {
        let (_keep, roots) = tree(&[(path, text)]);
        assert_eq!(container(&roots).as_deref(), expected, "{path} {text}");
    }
    let (keep, roots) = tree(&[(".dockerenv", ""), ("proc/self/ns/.keep", "")]);
    std::os::unix::fs::symlink("uts:[4026531838]", keep.path().join("proc/self/ns/uts")).unwrap();
    assert_eq!(container(&roots), None);
}

#[test]
fn hypervisors_show_by_flag_or_name() {
    let (_keep, roots) = tree(&[("proc/cpuinfo", "flags : fpu hypervisor\n")]);
    assert_eq!(hypervisor(&roots).as_deref(), Some("yes"));
    assert!(is_virtual_machine(&roots));
    let (_keep, roots) = tree(&[("proc/cpuinfo", "flags : fpu\n"), ("sys/hypervisor/type", "xen\n")]);
    assert_eq!(hypervisor(&roots).as_deref(), Some("xen"));
    let (_keep, roots) = tree(&[("proc/cpuinfo", "flags : fpu\nbugs : hypervisorish\n")]);
    assert_eq!(hypervisor(&roots), None);
}

#[test]
fn a_memory_cgroup_that_is_too_small_for_a_run_is_refused() {
    let check = |limit: &str| {
        let (_keep, roots) = tree(&[
            ("proc/self/cgroup", "0::/small\n"),
            ("sys/fs/cgroup/small/memory.current", "1000\n"),
            ("sys/fs/cgroup/small/memory.max", limit),
        ]);
        check_memory_limit_at(&roots)
    };
    assert_eq!((check("max\n"), check("33554432\n")), (Ok(()), Ok(())));
    let refused = check("16777216\n").unwrap_err();
    assert_eq!(refused.kind, crate::Kind::Machine);
    let text = refused.to_string();
    assert!(
        text.starts_with("the memory cgroup allows 16.0 MiB, and the processes of a run need 32.0 MiB; "),
        "{text}"
    );
}
