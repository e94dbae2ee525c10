//! The place where a plan runs: this machine, or a virtual machine with its own kernel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The place where targets are made and measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On this machine and its kernel.
    #[default]
    Host,
    /// In a virtual machine that lives as long as the run.
    Vm,
}

impl Place {
    /// All places, the default first.
    pub const ALL: [Place; 2] = [Place::Host, Place::Vm];

    /// Returns the name in plans and after `--in`.
    pub fn name(self) -> &'static str {
        match self {
            Place::Host => "host",
            Place::Vm => "vm",
        }
    }

    pub(crate) fn is_host(&self) -> bool {
        *self == Place::Host
    }
}

/// The requested size of a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VmSize {
    /// Bytes of memory. All of it is backed before the kernel starts.
    pub memory: Bytes,
    /// Virtual processors.
    pub cpus: u32,
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
    /// Its image on the host.
    pub image: String,
    /// The name of its initramfs, which is a hash of the content.
    pub initramfs: String,
    /// The first 128 bits of the image's SHA-256, in hexadecimal digits. Empty in older records.
    pub image_hash: String,
    /// The same hashes of the modules in the initramfs, by name.
    pub module_hashes: BTreeMap<String, String>,
}
