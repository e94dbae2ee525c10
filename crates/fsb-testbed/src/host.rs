//! The host manifest. It is read once, from /proc and /sys; tests replace both.

use std::collections::BTreeMap;
use std::path::Path;

use fsb_model::host::{DeviceId, DeviceManifest, HostManifest, ProcessorCache};
use fsb_model::units::{Bytes, show_bytes};
use fsb_sys::block::{self, DeviceNumber};
pub use fsb_sys::boot_id;
use fsb_sys::error::TestbedError;
use fsb_sys::mountinfo::Mount;
use fsb_sys::{Roots, memory, read_trimmed};

use crate::storage;

/// Returns the bytes of memory of the machine, if the kernel reports them.
pub fn memory_bytes() -> Option<u64> {
    memory::meminfo(&Roots::default(), "MemTotal")
}

/// With less memory than this, the kernel kills the processes of a run, or keeps reading their code
/// again.
const LEAST_MEMORY: u64 = 32 << 20;

/// Checks that the memory cgroup leaves enough room for the run's own processes. The memory of the
/// workload comes on top.
///
/// # Errors
/// Fails if it does not.
pub fn check_memory_limit() -> Result<(), TestbedError> {
    check_memory_limit_at(&Roots::default())
}

fn check_memory_limit_at(roots: &Roots) -> Result<(), TestbedError> {
    match memory::cgroup_limit(roots) {
        Some(limit) if limit < LEAST_MEMORY => {
            let (limit, least) = (show_bytes(limit as f64), show_bytes(LEAST_MEMORY as f64));
            let what = format!(
                "the memory cgroup allows {limit}, and the processes of a run need {least}"
            );
            Err(TestbedError::machine(what).advice(
                "raise memory.max or memory.limit_in_bytes of the cgroup, or run outside it",
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the number of processes that the kernel has killed for lack of memory since it booted.
/// If it has grown when a process is found killed, lack of memory is the likely reason.
pub fn oom_kills() -> Option<u64> {
    memory::oom_kills(&Roots::default())
}

/// Returns the device of that number, with the devices beneath it.
pub fn device(id: DeviceId) -> DeviceManifest {
    device_manifest(&Roots::default(), (id.major, id.minor))
}

/// Returns the current state of the machine.
pub fn manifest() -> HostManifest {
    manifest_at(&Roots::default())
}

/// Returns whether the machine runs under a hypervisor, which may not back all memory.
pub(crate) fn is_virtual_machine(roots: &Roots) -> bool {
    hypervisor(roots).is_some()
}

/// Returns the state of the machine from the trees under `roots`.
pub(crate) fn manifest_at(roots: &Roots) -> HostManifest {
    let kernel = |file: &str| roots.proc_text(&format!("sys/kernel/{file}"));
    HostManifest {
        kernel: kernel("osrelease").unwrap_or_default(),
        kernel_build: kernel("version").unwrap_or_default(),
        command_line: roots.proc_text("cmdline"),
        distribution: distribution(),
        architecture: std::env::consts::ARCH.to_owned(),
        cpu: cpu_name(&roots.proc_text("cpuinfo").unwrap_or_default()),
        board: board(roots),
        bios: bios(roots),
        caches: caches(roots),
        cpus: count_list(
            &roots
                .sys_text("devices/system/cpu/online")
                .unwrap_or_default(),
        )
        .unwrap_or(1),
        numa_nodes: count_list(
            &roots
                .sys_text("devices/system/node/online")
                .unwrap_or_default(),
        ),
        memory_bytes: memory::meminfo(roots, "MemTotal").unwrap_or(0),
        swap_bytes: memory::meminfo(roots, "SwapTotal").unwrap_or(0),
        governor: roots.sys_text("devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        turbo: turbo(roots),
        mitigations: files(roots, "devices/system/cpu/vulnerabilities"),
        clock_source: roots.sys_text("devices/system/clocksource/clocksource0/current_clocksource"),
        hypervisor: hypervisor(roots),
        container: container(roots),
        cgroup_limits: cgroup_limits(roots),
        sysctls: sysctls(roots),
        fsb_version: env!("CARGO_PKG_VERSION").to_owned(),
        fsb_commit: option_env!("FSB_COMMIT").map(str::to_owned),
    }
}

fn distribution() -> Option<String> {
    let text = ["/etc/os-release", "/usr/lib/os-release"]
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok())?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

/// Returns the processor's name. x86 prints `model name`, Arm `Processor` or a part number, others
/// `cpu`.
fn cpu_name(text: &str) -> Option<String> {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.split_once(':').filter(|(name, _)| name.trim() == key))
            .map(|(_, value)| value)
    };
    let name = [
        "model name",
        "Processor",
        "cpu model",
        "uarch",
        "cpu",
        "CPU part",
    ]
    .iter()
    .find_map(|key| value(key))?;
    Some(name.trim().to_owned())
}

/// Returns whether frequency boost is on. acpi-cpufreq and others have `boost`, intel_pstate has
/// the inverse.
fn turbo(roots: &Roots) -> Option<bool> {
    let cpu = |file: &str| roots.sys_text(&format!("devices/system/cpu/{file}"));
    cpu("cpufreq/boost")
        .map(|text| text == "1")
        .or_else(|| cpu("intel_pstate/no_turbo").map(|text| text == "0"))
}

/// Returns all readable small files of a directory below /sys, by name.
fn files(roots: &Roots, directory: &str) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(roots.sys.join(directory))
        .into_iter()
        .flatten();
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((
                entry.file_name().to_string_lossy().into_owned(),
                fsb_sys::read_trimmed(&entry.path())?,
            ))
        })
        .collect()
}

/// Returns the limits of this process's cgroups, by controller and file.
fn cgroup_limits(roots: &Roots) -> BTreeMap<String, String> {
    const FILES: [(&str, &[&str]); 4] = [
        (
            "",
            &[
                "memory.max",
                "memory.high",
                "memory.swap.max",
                "cpu.max",
                "cpuset.cpus.effective",
                "io.max",
                "pids.max",
            ],
        ),
        (
            "memory",
            &["memory.limit_in_bytes", "memory.soft_limit_in_bytes"],
        ),
        ("cpu", &["cpu.cfs_quota_us", "cpu.cfs_period_us"]),
        ("cpuset", &["cpuset.effective_cpus"]),
    ];
    let mut limits = BTreeMap::new();
    for line in roots.proc_text("self/cgroup").unwrap_or_default().lines() {
        let fields: Vec<&str> = line.splitn(3, ':').collect();
        let [_, controllers, path] = fields[..] else {
            continue;
        };
        for (controller, names) in FILES {
            if !controllers.split(',').any(|known| known == controller) {
                continue;
            }
            let directory = roots
                .sys
                .join("fs/cgroup")
                .join(controller)
                .join(path.trim_start_matches('/'));
            for name in names {
                if let Some(text) = fsb_sys::read_trimmed(&directory.join(name)) {
                    limits.insert((*name).to_owned(), text);
                }
            }
        }
    }
    limits
}

/// Reads the sysctls that control writeback and memory reclaim.
fn sysctls(roots: &Roots) -> BTreeMap<String, String> {
    const NAMES: [&str; 11] = [
        "dirty_ratio",
        "dirty_bytes",
        "dirty_background_ratio",
        "dirty_background_bytes",
        "dirty_expire_centisecs",
        "dirty_writeback_centisecs",
        "dirtytime_expire_seconds",
        "swappiness",
        "vfs_cache_pressure",
        "min_free_kbytes",
        "laptop_mode",
    ];
    let read = |name: &str| {
        Some((
            format!("vm.{name}"),
            roots.proc_text(&format!("sys/vm/{name}"))?,
        ))
    };
    NAMES.iter().filter_map(|name| read(name)).collect()
}

/// Returns the hypervisor's name, or `yes` if it is unknown.
fn hypervisor(roots: &Roots) -> Option<String> {
    let cpuinfo = roots.proc_text("cpuinfo").unwrap_or_default();
    let flagged = cpuinfo.lines().any(|line| {
        line.split_once(':').is_some_and(|(key, flags)| {
            key.trim() == "flags" && flags.split_whitespace().any(|flag| flag == "hypervisor")
        })
    });
    let kind = roots.sys_text("hypervisor/type");
    if !flagged && kind.is_none() {
        return named_machine(roots)
            .filter(|name| KNOWN.iter().any(|known| name.starts_with(known)));
    }
    kind.or_else(|| named_machine(roots))
        .or_else(|| Some("yes".to_owned()))
}

/// Vendor names of virtual machines. Arm processors have no flag for a hypervisor.
const KNOWN: [&str; 6] = ["QEMU", "VMware", "innotek", "Xen", "KVM", "Amazon EC2"];

fn named_machine(roots: &Roots) -> Option<String> {
    let vendor = roots.sys_text("class/dmi/id/sys_vendor")?;
    Some(match roots.sys_text("class/dmi/id/product_name") {
        Some(product) => format!("{vendor} {product}"),
        None => vendor,
    })
}

/// Returns the container manager of this process.
fn container(roots: &Roots) -> Option<String> {
    let environment = std::fs::read(roots.proc.join("1/environ")).unwrap_or_default();
    let declared = environment
        .split(|byte| *byte == 0)
        .find_map(|variable| variable.strip_prefix(b"container="));
    if let Some(name) = declared {
        return Some(String::from_utf8_lossy(name).into_owned());
    }
    let cgroup = roots.proc_text("self/cgroup").unwrap_or_default();
    let names = [
        ("docker", "docker"),
        ("kubepods", "kubernetes"),
        ("libpod", "podman"),
        ("lxc", "lxc"),
    ];
    if let Some((_, name)) = names
        .iter()
        .find(|(mark, _)| cgroup.contains(&format!("/{mark}")))
    {
        return Some((*name).to_owned());
    }
    marked(roots).filter(|_| !has_first_uts_namespace(roots))
}

/// Looks for files that container managers leave in the root directory, which contains /proc.
fn marked(roots: &Roots) -> Option<String> {
    let root = roots.proc.parent()?;
    let marks = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
    marks
        .iter()
        .find(|(mark, _)| root.join(mark).exists())
        .map(|(_, name)| (*name).to_owned())
}

/// Returns whether this process is in the first UTS namespace, which has a fixed number
/// (PROC_UTS_INIT_INO). Images of containers are also booted as virtual machines, marker files
/// included, but containers have their own host name.
fn has_first_uts_namespace(roots: &Roots) -> bool {
    std::fs::read_link(roots.proc.join("self/ns/uts"))
        .is_ok_and(|link| link == Path::new("uts:[4026531838]"))
}

/// The files of `queue` that affect performance.
const QUEUE: [&str; 19] = [
    "scheduler",
    "rotational",
    "write_cache",
    "fua",
    "nr_requests",
    "read_ahead_kb",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "logical_block_size",
    "physical_block_size",
    "minimum_io_size",
    "optimal_io_size",
    "discard_granularity",
    "discard_max_bytes",
    "nomerges",
    "rq_affinity",
    "wbt_lat_usec",
    "io_poll",
    "iostats",
];

/// Returns the device of that number (major, minor), with the devices beneath it down to the disks.
pub(crate) fn device_manifest(roots: &Roots, number: (u32, u32)) -> DeviceManifest {
    match DeviceNumber(number.0, number.1).directory(roots) {
        Some(directory) => of_directory(roots, &directory, block::MOST_LAYERS),
        None => DeviceManifest {
            name: format!("{}:{}", number.0, number.1),
            ..DeviceManifest::default()
        },
    }
}

fn of_directory(roots: &Roots, directory: &Path, depth: u32) -> DeviceManifest {
    let text = |file: &str| read_trimmed(&directory.join(file));
    let first = |files: &[&str]| files.iter().find_map(|file| text(file));
    let queue = QUEUE
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), text(&format!("queue/{name}"))?)));
    let backing_file = text("loop/backing_file");
    let holder = backing_file
        .as_ref()
        .map(|_| storage::holder_of_loop(directory, roots))
        .unwrap_or_default();
    let mut beneath = Vec::new();
    if depth > 0 {
        let disk = directory
            .parent()
            .filter(|_| text("partition").is_some())
            .map(Path::to_owned);
        let below = disk
            .into_iter()
            .chain(holder.device)
            .chain(block::members(directory));
        beneath.extend(below.map(|device| of_directory(roots, &device, depth - 1)));
    }
    let Attachment {
        controller,
        interface,
        rotations_per_minute,
        buffer_bytes,
    } = attachment(directory);
    DeviceManifest {
        controller,
        interface,
        rotations_per_minute,
        buffer_bytes,
        name: directory
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        model: first(&["device/model", "dm/name", "md/level"]),
        serial: first(&[
            "serial",
            "device/serial",
            "wwid",
            "device/wwid",
            "dm/uuid",
            "md/uuid",
        ]),
        size_bytes: block::size(directory).unwrap_or(0),
        partition_start: text("start").and_then(|number| number.parse().ok()),
        queue: queue.collect::<BTreeMap<_, _>>(),
        backing: backing_file.map(|file| backing_of(&file, holder.mount.as_ref())),
        beneath,
    }
}

/// Returns the file behind a loop device, with the file system that holds it.
fn backing_of(file: &str, mount: Option<&Mount>) -> String {
    match mount {
        Some(mount) => format!("{file}, {} on {}", mount.kind, mount.source.display()),
        None => file.to_owned(),
    }
}

// The hardware of the machine as firmware and drivers describe it in /sys: the board, the caches of
// a processor, and the controller, rotation rate and buffer of a disk.

/// Returns the texts of DMI fields, without the phrases that firmware has for fields without a
/// value. Returns `None` if no field has a value.
fn dmi(roots: &Roots, fields: &[&str]) -> Option<String> {
    const PHRASES: [&str; 6] = [
        "to be filled",
        "default string",
        "not specified",
        "system version",
        "none",
        "x.x",
    ];
    let words: Vec<String> = fields
        .iter()
        .filter_map(|field| roots.sys_text(&format!("class/dmi/id/{field}")))
        .filter(|text: &String| {
            !PHRASES
                .iter()
                .any(|phrase| text.to_ascii_lowercase().starts_with(phrase))
        })
        .collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Returns the vendor, the name and the version of the board.
fn board(roots: &Roots) -> Option<String> {
    dmi(roots, &["board_vendor", "board_name", "board_version"])
}

/// Returns the vendor, the version and the date of the firmware.
fn bios(roots: &Roots) -> Option<String> {
    dmi(roots, &["bios_vendor", "bios_version", "bios_date"])
}

/// Returns the caches of the first processor, nearest first.
fn caches(roots: &Roots) -> Vec<ProcessorCache> {
    let cache = |index: u32| {
        let file = |name: &str| {
            roots.sys_text(&format!(
                "devices/system/cpu/cpu0/cache/index{index}/{name}"
            ))
        };
        Some(ProcessorCache {
            level: file("level")?.parse().ok()?,
            kind: file("type")?.to_lowercase(),
            size_bytes: file("size")?.parse::<Bytes>().ok()?.0,
            shared_by: file("shared_cpu_list").and_then(|list| count_list(&list)),
        })
    };
    (0..16).map_while(cache).collect()
}

/// Returns the number of items in a list such as `0-3,8`. Returns `None` if the text is not such a
/// list.
fn count_list(text: &str) -> Option<u32> {
    text.split(',')
        .map(|range| {
            let (first, last) = range
                .trim()
                .split_once('-')
                .unwrap_or((range.trim(), range.trim()));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            last.checked_sub(first)?.checked_add(1)
        })
        .sum()
}

/// The connection of a disk to the machine, and its rotation rate and buffer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Attachment {
    controller: Option<String>,
    interface: Option<String>,
    rotations_per_minute: Option<u32>,
    buffer_bytes: Option<u64>,
}

/// Returns the attachment of the disk with this directory below /sys. All fields are empty for
/// partitions and virtual devices.
fn attachment(disk: &Path) -> Attachment {
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

/// Returns the interface of the port with this directory, with its speed if the kernel reports one.
/// Returns `None` if the directory is not a port.
fn interface(directory: &Path) -> Option<String> {
    let name = directory.file_name()?.to_str()?;
    let text = |file: &str| read_trimmed(&directory.join(file));
    let numbered = |prefix: &str| {
        let rest = name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    fn with(kind: &str, speed: Option<String>) -> Option<String> {
        Some(speed.map_or(kind.to_owned(), |speed| format!("{kind}, {speed}")))
    }
    match () {
        () if numbered("ata") => {
            let link = format!("link{}", &name[3..]);
            let speed = text(&format!("{link}/ata_link/{link}/sata_spd"))
                .filter(|speed| speed.contains("Gbps"));
            with("ATA", speed)
        }
        () if numbered("nvme") => {
            let port = |file: &str| text(&format!("device/{file}"));
            let speed = port("current_link_speed").zip(port("current_link_width"));
            with(
                "NVMe",
                speed.map(|(speed, width)| format!("{speed} x{width}")),
            )
        }
        () if numbered("virtio") => with("virtio", None),
        () if numbered("mmc") => with("MMC", None),
        () if directory.join("busnum").exists() => {
            with("USB", text("speed").map(|speed| format!("{speed} Mbit/s")))
        }
        () => None,
    }
}

/// Returns the rotations per minute of a disk, from its page of block device characteristics
/// (SBC-4, 6.6.2). A disk without rotating media, or one that reports no rate, has none.
fn rotations(page: &[u8]) -> Option<u32> {
    let rate = u16::from_be_bytes(page.get(4..6)?.try_into().ok()?);
    (0x0401..0xffff).contains(&rate).then_some(rate.into())
}

/// Returns the bytes of a disk's buffer, from its page of ATA information (SAT-4, 12.4.2): word 21
/// of the identity, in sectors. Later versions of ATA made the word obsolete, and many disks leave
/// it empty.
fn buffer(page: &[u8]) -> Option<u64> {
    const IDENTITY: usize = 60;
    const WORD: usize = IDENTITY + 2 * 21;
    let sectors = u16::from_le_bytes(page.get(WORD..WORD + 2)?.try_into().ok()?);
    (sectors != 0 && sectors != u16::MAX).then(|| u64::from(sectors) * 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a tree of files in a temporary directory.
    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let roots = Roots::below(directory.path());
        (directory, roots)
    }

    #[test]
    fn a_manifest_holds_what_the_kernel_says() {
        let (_keep, roots) = tree(&[
            ("proc/sys/kernel/osrelease", "6.12.1-test\n"),
            ("proc/sys/kernel/version", "#1 SMP\n"),
            ("proc/cmdline", "quiet splash\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Some CPU @ 3GHz\nflags\t\t: fpu hypervisor sse\n",
            ),
            ("proc/meminfo", "MemTotal: 2048 kB\nSwapTotal: 1024 kB\n"),
            ("proc/sys/vm/dirty_ratio", "20\n"),
            ("proc/self/cgroup", "4:memory:/box\n0::/unified\n"),
            ("proc/1/environ", ""),
            ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1000\n"),
            ("sys/fs/cgroup/unified/cpu.max", "max 100000\n"),
            ("sys/devices/system/cpu/online", "0-3,8\n"),
            ("sys/devices/system/node/online", "0\n"),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "performance\n",
            ),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
            (
                "sys/devices/system/cpu/vulnerabilities/meltdown",
                "Not affected\n",
            ),
            (
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "tsc\n",
            ),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("sys/class/dmi/id/product_name", "Standard PC\n"),
        ]);
        let manifest = manifest_at(&roots);
        assert_eq!(
            (manifest.kernel.as_str(), manifest.kernel_build.as_str()),
            ("6.12.1-test", "#1 SMP")
        );
        assert_eq!(manifest.command_line.as_deref(), Some("quiet splash"));
        assert_eq!(manifest.cpu.as_deref(), Some("Some CPU @ 3GHz"));
        assert_eq!((manifest.cpus, manifest.numa_nodes), (5, Some(1)));
        assert_eq!(
            (manifest.memory_bytes, manifest.swap_bytes),
            (2 << 20, 1 << 20)
        );
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
        assert_eq!(
            (
                manifest.kernel.as_str(),
                manifest.cpus,
                manifest.memory_bytes
            ),
            ("", 1, 0)
        );
        assert_eq!(
            (manifest.hypervisor, manifest.container, manifest.turbo),
            (None, None, None)
        );
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_boot() {
        let manifest = manifest();
        assert!(!manifest.kernel.is_empty() && manifest.cpus > 0 && manifest.memory_bytes > 0);
        assert_eq!(boot_id().len(), 36);
    }

    #[test]
    fn a_partition_stands_on_its_disk() {
        let (keep, roots) = tree(&[
            ("sys/devices/pci/sda/size", "4096\n"),
            ("sys/devices/pci/sda/dev", "8:0\n"),
            (
                "sys/devices/pci/sda/queue/scheduler",
                "[none] mq-deadline\n",
            ),
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
            std::os::unix::fs::symlink(
                keep.path().join("sys").join(target),
                keep.path().join("sys").join(name),
            )
            .unwrap();
        };
        link("devices/pci/sda/sda1", "dev/block/8:1");
        link("devices/virtual/block/dm-0", "dev/block/253:0");
        link(
            "devices/pci/sda/sda1",
            "devices/virtual/block/dm-0/slaves/sda1",
        );
        let mapped = device_manifest(&roots, (253, 0));
        assert_eq!(
            (mapped.name.as_str(), mapped.model.as_deref()),
            ("dm-0", Some("vg-data"))
        );
        assert_eq!(mapped.serial.as_deref(), Some("LVM-abc"));
        let partition = &mapped.beneath[0];
        assert_eq!(
            (
                partition.name.as_str(),
                partition.partition_start,
                partition.size_bytes
            ),
            ("sda1", Some(2048), 512 << 10)
        );
        let disk = &partition.beneath[0];
        assert_eq!(
            (
                disk.name.as_str(),
                disk.model.as_deref(),
                disk.serial.as_deref()
            ),
            ("sda", Some("Fast Disk"), Some("S123"))
        );
        assert_eq!(disk.queue["scheduler"], "[none] mq-deadline");
        assert_eq!(disk.size_bytes, 2 << 20);
        let place = mapped.partition_place().unwrap();
        assert_eq!(
            (place.disk, place.sectors, place.shares),
            ("sda", [2048, 3071], [0.5, 0.75])
        );
        assert_eq!(device_manifest(&roots, (9, 9)).name, "9:9");
    }

    #[test]
    fn containers_show_by_their_traces() {
        for (path, text, expected) in [
            ("proc/1/environ", "PATH=/bin\0container=lxc\0", Some("lxc")),
            ("proc/self/cgroup", "0::/docker/abcdef\n", Some("docker")),
            (
                "proc/self/cgroup",
                "0::/kubepods.slice/x\n",
                Some("kubernetes"),
            ),
            ("proc/self/cgroup", "0::/user.slice\n", None),
            (".dockerenv", "", Some("docker")),
        ] {
            let (_keep, roots) = tree(&[(path, text)]);
            assert_eq!(container(&roots).as_deref(), expected, "{path} {text}");
        }
        let (keep, roots) = tree(&[(".dockerenv", ""), ("proc/self/ns/.keep", "")]);
        std::os::unix::fs::symlink("uts:[4026531838]", keep.path().join("proc/self/ns/uts"))
            .unwrap();
        assert_eq!(container(&roots), None);
    }

    #[test]
    fn hypervisors_show_by_flag_or_name() {
        let (_keep, roots) = tree(&[("proc/cpuinfo", "flags : fpu hypervisor\n")]);
        assert_eq!(hypervisor(&roots).as_deref(), Some("yes"));
        assert!(is_virtual_machine(&roots));
        let (_keep, roots) = tree(&[
            ("proc/cpuinfo", "flags : fpu\n"),
            ("sys/hypervisor/type", "xen\n"),
        ]);
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
            text.starts_with(
                "the memory cgroup allows 16.0 MiB, and the processes of a run need 32.0 MiB; "
            ),
            "{text}"
        );
    }

    fn sys_tree(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Roots) {
        let directory = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = directory.path().join("sys").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let roots = Roots::below(directory.path());
        (directory, roots)
    }

    #[test]
    fn boards_and_firmware_are_named_by_the_fields_that_are_filled_in() {
        let (_keep, roots) = sys_tree(&[
            ("class/dmi/id/board_vendor", b"ASUSTeK COMPUTER INC.\n"),
            ("class/dmi/id/board_name", b"Z97-A\n"),
            ("class/dmi/id/board_version", b"To be filled by O.E.M.\n"),
            ("class/dmi/id/bios_vendor", b"American Megatrends Inc.\n"),
            ("class/dmi/id/bios_version", b"2801\n"),
            ("class/dmi/id/bios_date", b"11/11/2015\n"),
        ]);
        assert_eq!(
            board(&roots).as_deref(),
            Some("ASUSTeK COMPUTER INC. Z97-A")
        );
        assert_eq!(
            bios(&roots).as_deref(),
            Some("American Megatrends Inc. 2801 11/11/2015")
        );
        let (_keep, roots) = sys_tree(&[("class/dmi/id/board_name", b"Default string\n")]);
        assert_eq!((board(&roots), bios(&roots)), (None, None));
    }

    #[test]
    fn caches_have_their_sizes_and_the_processors_that_share_them() {
        let (_keep, roots) = sys_tree(&[
            ("devices/system/cpu/cpu0/cache/index0/level", b"1\n"),
            ("devices/system/cpu/cpu0/cache/index0/type", b"Data\n"),
            ("devices/system/cpu/cpu0/cache/index0/size", b"32K\n"),
            (
                "devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
                b"0,4\n",
            ),
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
        assert_eq!(
            caches(&roots),
            [
                cache(1, "data", 32 << 10, Some(2)),
                cache(3, "unified", 8 << 20, None)
            ]
        );
        assert_eq!(caches(&sys_tree(&[]).1), []);
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
        const SATA: &str =
            "devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda";
        const PORT: &str = "devices/pci0000:00/0000:00:1f.2";
        let (keep, roots) = sys_tree(&[
            (
                &format!("{SATA}/device/vpd_pgb1"),
                &[0, 0xb1, 0, 60, 0x1c, 0x20, 0, 0],
            ),
            (&format!("{SATA}/device/vpd_pg89"), &identity),
            (&format!("{SATA}/sda1/partition"), b"1\n"),
            (&format!("{PORT}/class"), b"0x010601\n"),
            (&format!("{PORT}/vendor"), b"0x8086\n"),
            (&format!("{PORT}/device"), b"0x8c82\n"),
            (
                &format!("{PORT}/ata1/link1/ata_link/link1/sata_spd"),
                b"6.0 Gbps\n",
            ),
            ("bus/pci/drivers/ahci/.keep", b""),
        ]);
        let sys = keep.path().join("sys");
        std::os::unix::fs::symlink(
            sys.join("bus/pci/drivers/ahci"),
            sys.join(PORT).join("driver"),
        )
        .unwrap();
        let found = attachment(&roots.sys.join(SATA));
        assert_eq!(found.controller.as_deref(), Some("ahci, PCI 8086:8c82"));
        assert_eq!(found.interface.as_deref(), Some("ATA, 6.0 Gbps"));
        assert_eq!(
            (found.rotations_per_minute, found.buffer_bytes),
            (Some(7200), Some(65_534 * 512))
        );
        // The attachment belongs to the whole disk.
        assert_eq!(
            attachment(&roots.sys.join(SATA).join("sda1")),
            Attachment::default()
        );
    }

    #[test]
    fn interfaces_are_known_by_their_ports() {
        for (files, disk, expected) in [
            (
                [
                    (
                        "devices/pci0/0000:01:00.0/nvme/nvme0/device/current_link_speed",
                        "8.0 GT/s PCIe\n",
                    ),
                    (
                        "devices/pci0/0000:01:00.0/nvme/nvme0/device/current_link_width",
                        "4\n",
                    ),
                ],
                "devices/pci0/0000:01:00.0/nvme/nvme0/nvme0n1",
                Some("NVMe, 8.0 GT/s PCIe x4"),
            ),
            (
                [
                    ("devices/pci0/usb2/2-1/busnum", "2\n"),
                    ("devices/pci0/usb2/2-1/speed", "5000\n"),
                ],
                "devices/pci0/usb2/2-1/2-1:1.0/host4/target4:0:0/4:0:0:0/block/sdb",
                Some("USB, 5000 Mbit/s"),
            ),
            (
                [
                    ("devices/pci0/virtio1/vendor", "0x1af4\n"),
                    ("devices/pci0/virtio1/device", "0x0002\n"),
                ],
                "devices/pci0/virtio1/block/vda",
                Some("virtio"),
            ),
            (
                [("devices/virtual/block/dm-0/size", "8\n"), ("a/b", "")],
                "devices/virtual/block/dm-0",
                None,
            ),
        ] {
            let files = files.map(|(path, text)| (path, text.as_bytes()));
            let (_keep, roots) = sys_tree(&files);
            let found = attachment(&roots.sys.join(disk));
            assert_eq!(
                (found.interface.as_deref(), found.controller),
                (expected, None),
                "{disk}"
            );
        }
    }

    #[test]
    fn pages_without_a_rate_or_a_buffer_have_none() {
        for page in [
            &[][..],
            &[0, 0xb1, 0, 60],
            &[0, 0xb1, 0, 60, 0, 0],
            &[0, 0xb1, 0, 60, 0, 1],
            &[0xff; 8],
        ] {
            assert_eq!(rotations(page), None, "{page:?}");
        }
        assert_eq!(
            (buffer(&[0; 60]), buffer(&[0; 572]), buffer(&[0xff; 572])),
            (None, None, None)
        );
    }
}
