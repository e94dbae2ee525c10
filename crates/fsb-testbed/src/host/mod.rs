//! The host manifest. It is read once, from /proc and /sys; tests replace both.

mod device;

use std::collections::BTreeMap;
use std::path::Path;

use fsb_model::host::{DeviceId, DeviceManifest, HostManifest};
use fsb_model::units::show_bytes;
use fsb_sys::error::TestbedError;
use fsb_sys::{Roots, memory};

pub(crate) use device::{device_manifest, device_of_mount};

/// Returns the bytes of memory of the machine, if the kernel reports them.
pub fn memory_bytes() -> Option<u64> {
    memory::meminfo(&Roots::default(), "MemTotal")
}

/// With less memory than this, the kernel kills the processes of a run, or keeps reading their code again.
const LEAST_MEMORY: u64 = 32 << 20;

/// Checks that the memory cgroup leaves enough room for the run's own processes. The memory of the workload comes on
/// top.
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
            let what = format!("the memory cgroup allows {limit}, and the processes of a run need {least}");
            Err(TestbedError::machine(what)
                .advice("raise memory.max or memory.limit_in_bytes of the cgroup, or run outside it"))
        }
        _ => Ok(()),
    }
}

/// The number of processes that the kernel has killed for lack of memory since it booted. If it has grown when a process is found
/// killed, lack of memory is the likely reason.
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

/// Returns the kernel's boot id, or `unknown` if it has none.
pub fn boot_id() -> String {
    Roots::default().proc_text("sys/kernel/random/boot_id").unwrap_or_else(|| "unknown".to_owned())
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
        cpus: count_list(&roots.sys_text("devices/system/cpu/online").unwrap_or_default()).unwrap_or(1),
        numa_nodes: count_list(&roots.sys_text("devices/system/node/online").unwrap_or_default()),
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
    let text = ["/etc/os-release", "/usr/lib/os-release"].iter().find_map(|path| std::fs::read_to_string(path).ok())?;
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

/// Returns the processor's name. x86 prints `model name`, Arm `Processor` or a part number, others `cpu`.
fn cpu_name(text: &str) -> Option<String> {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.split_once(':').filter(|(name, _)| name.trim() == key))
            .map(|(_, value)| value)
    };
    let name =
        ["model name", "Processor", "cpu model", "uarch", "cpu", "CPU part"].iter().find_map(|key| value(key))?;
    Some(name.trim().to_owned())
}

/// Returns the count of the numbers in a list such as `0-3,8`.
fn count_list(text: &str) -> Option<u32> {
    text.split(',')
        .map(|range| {
            let (first, last) = range.trim().split_once('-').unwrap_or((range.trim(), range.trim()));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            last.checked_sub(first)?.checked_add(1)
        })
        .sum()
}

/// Returns whether frequency boost is on. acpi-cpufreq and others have `boost`, intel_pstate has the inverse.
fn turbo(roots: &Roots) -> Option<bool> {
    let cpu = |file: &str| roots.sys_text(&format!("devices/system/cpu/{file}"));
    cpu("cpufreq/boost").map(|text| text == "1").or_else(|| cpu("intel_pstate/no_turbo").map(|text| text == "0"))
}

/// Returns all readable small files of a directory below /sys, by name.
fn files(roots: &Roots, directory: &str) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(roots.sys.join(directory)).into_iter().flatten();
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), fsb_sys::read_trimmed(&entry.path())?))
        })
        .collect()
}

/// Returns the limits of this process's cgroups, by controller and file.
fn cgroup_limits(roots: &Roots) -> BTreeMap<String, String> {
    const FILES: [(&str, &[&str]); 4] = [
        (
            "",
            &["memory.max", "memory.high", "memory.swap.max", "cpu.max", "cpuset.cpus.effective", "io.max", "pids.max"],
        ),
        ("memory", &["memory.limit_in_bytes", "memory.soft_limit_in_bytes"]),
        ("cpu", &["cpu.cfs_quota_us", "cpu.cfs_period_us"]),
        ("cpuset", &["cpuset.effective_cpus"]),
    ];
    let mut limits = BTreeMap::new();
    for line in roots.proc_text("self/cgroup").unwrap_or_default().lines() {
        let fields: Vec<&str> = line.splitn(3, ':').collect();
        let [_, controllers, path] = fields[..] else { continue };
        for (controller, names) in FILES {
            if !controllers.split(',').any(|known| known == controller) {
                continue;
            }
            let directory = roots.sys.join("fs/cgroup").join(controller).join(path.trim_start_matches('/'));
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
    let read = |name: &str| Some((format!("vm.{name}"), roots.proc_text(&format!("sys/vm/{name}"))?));
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
        return named_machine(roots).filter(|name| KNOWN.iter().any(|known| name.starts_with(known)));
    }
    kind.or_else(|| named_machine(roots)).or_else(|| Some("yes".to_owned()))
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
    let declared = environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(b"container="));
    if let Some(name) = declared {
        return Some(String::from_utf8_lossy(name).into_owned());
    }
    let cgroup = roots.proc_text("self/cgroup").unwrap_or_default();
    let names = [("docker", "docker"), ("kubepods", "kubernetes"), ("libpod", "podman"), ("lxc", "lxc")];
    if let Some((_, name)) = names.iter().find(|(mark, _)| cgroup.contains(&format!("/{mark}"))) {
        return Some((*name).to_owned());
    }
    marked(roots).filter(|_| !has_first_uts_namespace(roots))
}

/// Looks for files that container managers leave in the root directory, which contains /proc.
fn marked(roots: &Roots) -> Option<String> {
    let root = roots.proc.parent()?;
    let marks = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
    marks.iter().find(|(mark, _)| root.join(mark).exists()).map(|(_, name)| (*name).to_owned())
}

/// Returns whether this process is in the first UTS namespace, which has a fixed number (PROC_UTS_INIT_INO). Images of
/// containers are also booted as virtual machines, marker files included, but containers have their own host name.
fn has_first_uts_namespace(roots: &Roots) -> bool {
    std::fs::read_link(roots.proc.join("self/ns/uts")).is_ok_and(|link| link == Path::new("uts:[4026531838]"))
}

#[cfg(test)]
mod tests;
