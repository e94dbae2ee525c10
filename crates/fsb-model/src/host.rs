//! The host manifest: what a reader in ten years needs to know about the machine, and about a
//! virtual one on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Facts about the machine when the run started. Every field holds the kernel's own value, and is
/// absent if the kernel reports none.
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
    /// The vendor, the name and the version of the board, as the firmware describes it.
    pub board: Option<String>,
    /// The vendor, the version and the date of the firmware.
    pub bios: Option<String>,
    /// The caches of the first processor, nearest first.
    pub caches: Vec<ProcessorCache>,
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
    /// The hypervisor, if there is one: its name, or `yes` if it does not report a name.
    pub hypervisor: Option<String>,
    /// The container manager, if there is one.
    pub container: Option<String>,
    /// Memory and CPU limits of the program's cgroup, by file, as the files hold them.
    pub cgroup_limits: BTreeMap<String, String>,
    /// `vm.dirty_*` and relatives.
    pub sysctls: BTreeMap<String, String>,
    /// This program's version.
    pub fsb_version: String,
    /// The commit it was built from, if known.
    pub fsb_commit: Option<String>,
}

/// A cache of a processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessorCache {
    /// 1 is the nearest.
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Bytes.
    pub size_bytes: u64,
    /// The number of logical processors that share it, if the kernel reports it.
    pub shared_by: Option<u32>,
}

/// The block device that a name led to. A name is a link, which may lead elsewhere a moment later,
/// and the kernel reuses numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceId {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// The kernel's sequence number of the disk. It changes when the kernel gives the device number
    /// to another disk, or a loop device another file. Absent before Linux 5.15.
    pub sequence: Option<u64>,
}

/// The rates of a raw device with one request at a time, past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceRates {
    /// Bytes per second of sequential reads of 1 MiB.
    pub read: f64,
    /// Bytes per second of sequential writes of 1 MiB that are not flushed.
    pub write: f64,
    /// Random reads of 4 KiB per second.
    pub random_reads: f64,
    /// Random writes of 4 KiB per second, each of them flushed.
    pub flushed_writes: f64,
}

/// A block device, with the devices beneath it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct DeviceManifest {
    /// Kernel name: `sda1`, `loop3`.
    pub name: String,
    /// Model and serial number, if the device reports them.
    pub model: Option<String>,
    /// Serial number or WWID, which a resume compares.
    pub serial: Option<String>,
    /// Driver and PCI identity of the controller: `ahci, PCI 8086:8c82`.
    pub controller: Option<String>,
    /// The interface with its speed: `ATA, 6.0 Gbps`.
    pub interface: Option<String>,
    /// Rotations per minute, if the disk reports them.
    pub rotations_per_minute: Option<u32>,
    /// Bytes of the disk's buffer, if the disk reports them.
    pub buffer_bytes: Option<u64>,
    /// Bytes.
    pub size_bytes: u64,
    /// First sector of a partition, in 512-byte sectors.
    pub partition_start: Option<u64>,
    /// Files of its `queue` directory that affect speed, by name.
    pub queue: BTreeMap<String, String>,
    /// The file system that holds a loop image: `ext4 on /dev/vda`.
    pub backing: Option<String>,
    /// Devices beneath: the partition's disk, the members, the device that holds the loop image.
    pub beneath: Vec<DeviceManifest>,
}

/// The place of a partition on its disk. The outer tracks of a rotating disk are faster than the
/// inner ones (zone constant angular velocity), so results hold only for this place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartitionPlace<'d> {
    /// The kernel name of the disk.
    pub disk: &'d str,
    /// First and last sector, of 512 bytes.
    pub sectors: [u64; 2],
    /// Start and end as shares of the disk: 0 is its beginning, 1 its end.
    pub shares: [f64; 2],
}

impl DeviceManifest {
    /// Returns the place of the partition that the device is, or that it is on; of several devices
    /// beneath, that of the first. Returns `None` without a partition, or if its disk is of unknown
    /// size or too small for it.
    pub fn partition_place(&self) -> Option<PartitionPlace<'_>> {
        const SECTOR: u64 = 512;
        let beneath = self.beneath.first()?;
        let Some(start) = self.partition_start else {
            return beneath.partition_place();
        };
        // The numbers of a record may be anything.
        let end = start
            .checked_add(self.size_bytes / SECTOR)
            .filter(|end| *end > start)?;
        end.checked_mul(SECTOR)
            .filter(|bytes| *bytes <= beneath.size_bytes)?;

        Some(PartitionPlace {
            disk: &beneath.name,
            sectors: [start, end - 1],
            shares: [start, end].map(|sector| (sector * SECTOR) as f64 / beneath.size_bytes as f64),
        })
    }
}

/// The virtual machine in which a run was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VmRecord {
    /// The version that QEMU prints.
    pub qemu: String,
    /// `kvm`, or `tcg` if processors are emulated.
    pub accelerator: String,
    /// The evidence for the accelerator.
    pub acceleration: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Virtual processors.
    pub cpus: u32,
    /// `uname -r` of the host.
    pub host_kernel: String,
    /// The kernels that were booted, by their release.
    pub kernels: BTreeMap<String, VmKernel>,
}

/// A kernel of a virtual machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VmKernel {
    /// The image on the host.
    pub image: String,
    /// The name of its initramfs, which is a hash of the content.
    pub initramfs: String,
    /// The first 128 bits of the image's SHA-256, in hexadecimal digits.
    pub image_hash: String,
    /// The first 128 bits of the SHA-256 of each module in the initramfs, by name.
    pub module_hashes: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_beyond_the_disk_is_unknown() {
        let place = |start: u64, size_bytes: u64| {
            let disk = DeviceManifest {
                size_bytes: 1 << 20,
                ..DeviceManifest::default()
            };
            let beneath = vec![disk];
            let device = DeviceManifest {
                size_bytes,
                partition_start: Some(start),
                beneath,
                ..DeviceManifest::default()
            };
            device
                .partition_place()
                .map(|place| (place.sectors, place.shares))
        };
        assert_eq!(place(512, 1 << 18), Some(([512, 1023], [0.25, 0.5])));
        for (start, size_bytes) in [
            (2048, 512),
            (1024, 1 << 20),
            (u64::MAX, 1 << 18),
            (1 << 60, 1 << 18),
            (0, 0),
        ] {
            assert_eq!(place(start, size_bytes), None, "{start} {size_bytes}");
        }
    }
}
