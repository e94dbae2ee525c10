//! The host manifest: what a reader in ten years needs to know about the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Facts about the machine when the run started. Every field is what the kernel said, or absent where it said nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HostManifest {
    /// `uname -r`.
    pub kernel: String,
    /// `uname -v`.
    pub kernel_build: String,
    /// `/proc/cmdline`.
    pub command_line: Option<String>,
    /// The distribution's pretty name.
    pub distribution: Option<String>,
    /// Machine hardware name: `x86_64`.
    pub architecture: String,
    /// The processor's own name.
    pub cpu: Option<String>,
    /// Online logical processors.
    pub cpus: u32,
    /// NUMA nodes that are online.
    pub numa_nodes: Option<u32>,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of swap that are on.
    pub swap_bytes: u64,
    /// Frequency governor of the first processor.
    pub governor: Option<String>,
    /// Whether frequencies may be boosted.
    pub turbo: Option<bool>,
    /// Mitigations by vulnerability.
    pub mitigations: BTreeMap<String, String>,
    /// The clock source in use.
    pub clock_source: Option<String>,
    /// The hypervisor, where there is one: a name, or `yes` where it does not say.
    pub hypervisor: Option<String>,
    /// The container manager, where there is one.
    pub container: Option<String>,
    /// Memory and CPU limits of our cgroup, as the files say them, by file.
    pub cgroup_limits: BTreeMap<String, String>,
    /// `vm.dirty_*` and relatives.
    pub sysctls: BTreeMap<String, String>,
    /// This program's version.
    pub fsb_version: String,
    /// The commit it was built from, where known.
    pub fsb_commit: Option<String>,
}

/// Which block device a name led to. Names are links and may lead elsewhere a moment later; numbers are given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceId {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// The kernel's count of disks: another one when the number was given to another disk, or a loop device to another
    /// file. Absent before Linux 5.15.
    pub sequence: Option<u64>,
}

/// What a raw device did, one request at a time, past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceRates {
    /// Bytes a second, read in 1 MiB one after the other.
    pub read: f64,
    /// Bytes a second, written in 1 MiB one after the other, not flushed.
    pub write: f64,
    /// Reads of 4 KiB a second, anywhere.
    pub random_reads: f64,
    /// Writes of 4 KiB a second, anywhere, each flushed.
    pub flushed_writes: f64,
}

/// A block device and what it stands on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DeviceManifest {
    /// Kernel name: `sda1`, `loop3`.
    pub name: String,
    /// Model and serial number, where the device tells them.
    pub model: Option<String>,
    /// Serial number or WWID: what a resume compares.
    pub serial: Option<String>,
    /// Bytes.
    pub size_bytes: u64,
    /// First sector of a partition, in 512-byte sectors.
    pub partition_start: Option<u64>,
    /// Files of its `queue` directory that bear on speed, by name.
    pub queue: BTreeMap<String, String>,
    /// The file system that holds a loop image: `ext4 on /dev/vda`.
    pub backing: Option<String>,
    /// Devices beneath (the partition's disk, members, what holds the loop image).
    pub beneath: Vec<DeviceManifest>,
}
