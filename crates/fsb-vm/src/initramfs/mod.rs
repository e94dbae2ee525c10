//! What the guest starts from.

use std::path::{Path, PathBuf};

use crate::error::VmError;
use crate::kernel::Kernel;

/// What an initramfs is made of.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// The program that becomes `/init`: fsb itself.
    pub init: PathBuf,
    /// Other programs, at the same path in the guest, with the libraries that they need.
    pub programs: Vec<PathBuf>,
    /// Modules that must be there (or be built in), by name; what they depend on comes with them.
    pub modules: Vec<String>,
    /// Modules that are taken along where the kernel has them.
    pub optional_modules: Vec<String>,
    /// Other files: the path in the guest, the path here.
    pub files: Vec<(String, PathBuf)>,
}

/// An initramfs on disk.
#[derive(Debug, Clone)]
pub struct Initramfs {
    /// The archive that QEMU hands to the kernel.
    pub path: PathBuf,
    /// The modules in it, in the order in which the guest loads them.
    pub modules: Vec<String>,
    /// Those of the optional modules that this kernel does not have.
    pub missing: Vec<String>,
    /// The bytes that it takes of the guest's memory.
    pub size: u64,
    /// It was there already.
    pub reused: bool,
}

/// Makes the initramfs for that kernel below the directory `cache`, or finds it there.
pub fn build(kernel: &Kernel, contents: &Contents, cache: &Path) -> Result<Initramfs, VmError> {
    let _ = (kernel, contents, cache);
    Err(VmError::machine("no initramfs"))
}
