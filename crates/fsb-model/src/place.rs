//! Where a plan is carried out: on this machine, or in a virtual machine with a kernel of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Where targets are made and measured.
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

    /// Its name in plans and after `--in`.
    pub fn name(self) -> &'static str {
        match self {
            Place::Host => "host",
            Place::Vm => "vm",
        }
    }

    /// Whether it is this machine.
    pub(crate) fn is_host(&self) -> bool {
        *self == Place::Host
    }
}

/// A virtual machine as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VmSize {
    /// Bytes of memory, all of them backed before the kernel starts.
    pub memory: Bytes,
    /// Virtual processors.
    pub cpus: u32,
}

/// The virtual machine that a run was made in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VmRecord {
    /// What QEMU says of its version.
    pub qemu: String,
    /// `kvm`, or `tcg` where processors are emulated.
    pub accelerator: String,
    /// How that was found out.
    pub acceleration: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Virtual processors.
    pub cpus: u32,
    /// `uname -r` of the machine around it.
    pub host_kernel: String,
    /// The kernels that were booted, by their release.
    pub kernels: BTreeMap<String, VmKernel>,
}

/// A kernel of a virtual machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VmKernel {
    /// Its image on the machine around.
    pub image: String,
    /// The name of its initramfs, which is a hash of what that holds.
    pub initramfs: String,
    /// The first 128 bits of the image's SHA-256, in hexadecimal digits. (Empty in records that are older.)
    pub image_hash: String,
    /// Those of the modules in the initramfs, by name.
    pub module_hashes: BTreeMap<String, String>,
}
