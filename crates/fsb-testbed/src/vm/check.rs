//! The checks of a run in a virtual machine that are possible on this machine before anything is changed.
//!
//! The guest checks the requirements on its kernel and processors when it has booted, before anything is made in it.

use fsb_model::units::show_bytes;
use fsb_model::{Target, Warning};
use fsb_sys::error::TestbedError;
use fsb_sys::{Roots, memory};

use super::disks;
use super::needs::needs;
use crate::control;
use crate::fs::{self, Home};
use crate::local;
use crate::medium;
use crate::testbed::Setup;

/// Checks for invalid requests first, then for missing features of this machine. Returns warnings.
pub fn check(setup: &Setup) -> Result<Vec<Warning>, TestbedError> {
    if setup.targets.is_empty() {
        return Err(TestbedError::request("there is nothing to measure")
            .coded(&fsb_model::error::NO_TARGET)
            .advice("name a target, such as ext4"));
    }
    let asked = setup.targets.iter().flat_map(|target| &target.controls);
    for (name, value) in setup.controls.iter().chain(asked) {
        check_control(name, value)?;
    }
    check_targets(setup)?;
    check_memory(setup)?;
    let sizes = disks::check(setup)?;
    local::check_sizes(setup, &sizes)?;
    let mut warnings = Vec::new();
    if sizes.len() > 1 {
        warnings.push(Warning::DifferentMedia);
    }
    Ok(warnings)
}

/// Checks whether the targets can be made in a guest, as far as requests and the programs of this machine decide. The
/// result does not depend on free memory and space, so it stays the same until the last boot.
pub fn check_targets(setup: &Setup) -> Result<(), TestbedError> {
    for target in &setup.targets {
        check_target(target).map_err(|error| local::naming(target, error))?;
    }
    needs(setup).map(drop)
}

/// Checks the free memory. A guest takes all of its memory at its start, and the hypervisor process takes some more.
fn check_memory(setup: &Setup) -> Result<(), TestbedError> {
    const BESIDE: u64 = 128 << 20;
    let Some(vm) = setup.vm else { return Ok(()) };
    let roots = Roots::default();
    let available = memory::meminfo(&roots, "MemAvailable").unwrap_or(u64::MAX);
    let available = memory::cgroup_headroom(&roots).map_or(available, |limit| available.min(limit));
    let needed = vm.memory.0.saturating_add(BESIDE);
    if available >= needed {
        return Ok(());
    }
    let show = |bytes: u64| show_bytes(bytes as f64);
    Err(TestbedError::machine("too little memory for the virtual machine")
        .coded(&fsb_model::error::NO_MEMORY)
        .field("needed_bytes", needed)
        .tried(format!(
            "{} available, {} needed: --memory {} and what QEMU takes",
            show(available),
            show(needed),
            vm.memory
        ))
        .advice("choose a smaller --memory, or end what uses memory here"))
}

/// Checks names and values by the tables. The guest checks what depends on its processors and devices.
fn check_control(name: &str, value: &str) -> Result<(), TestbedError> {
    control::check_declared(control::find(name)?, value)
}

fn check_target(target: &Target) -> Result<(), TestbedError> {
    let Some(spec) = target.file_system() else {
        return Err(TestbedError::request("a virtual machine does not see the directories of this one")
            .advice("name a file system such as ext4, or leave out --in vm"));
    };
    let member = fs::find(&spec.fs)?;
    fs::check(member, spec)?;
    local::check_foreign(spec)?;
    if member.home() == Home::Device {
        medium::check(&spec.medium)?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use fsb_model::Identity;

    pub fn setup(targets: &[&str]) -> Setup {
        let targets = targets.iter().map(|text| text.parse().expect("a target")).collect();
        Setup {
            targets,
            size: 64 << 20,
            parts: 1,
            dir: "/var/tmp".into(),
            wipe: Vec::new(),
            devices: Default::default(),
            controls: Default::default(),
            identity: Identity::default(),
            patience: None,
            memory_needed: None,
            seed: 1,
            vm: None,
            root: None,
            kernels: Vec::new(),
            oldest_kernel: None,
            large_disk: Default::default(),
            fault: None,
        }
    }

    #[test]
    fn errors_known_on_the_host_are_reported_before_a_boot() {
        let refusal = |targets: &[&str]| check(&setup(targets)).unwrap_err().to_string();
        assert!(refusal(&["/srv"]).contains("does not see the directories"));
        assert!(refusal(&["btfrs"]).contains("did you mean 'btrfs'"));
        assert!(refusal(&["ext4@/dev/null"]).contains("is not a block device"));
        assert!(refusal(&[r#"ext4,mkfs="-J device=/dev/null""#]).contains("reaches beyond"));
        let mut small = setup(&["xfs"]);
        small.size = 1 << 20;
        assert!(check(&small).unwrap_err().to_string().contains("needs at least"));
        let mut large = setup(&["ext4"]);
        large.vm = Some(fsb_model::place::VmSize { memory: fsb_model::Bytes(1 << 50), cpus: 1 });
        let error = check(&large).unwrap_err();
        assert!(error.kind == crate::Kind::Machine && error.to_string().contains("--memory 1P"), "{error}");
        assert_eq!(check_targets(&large), Ok(()), "what is left of memory says nothing about a target");
        assert!(check_targets(&setup(&["btfrs"])).is_err());
        let mut asked = setup(&["ext4"]);
        asked.controls = [("page-cache".to_owned(), "sideways".to_owned())].into();
        assert!(check(&asked).unwrap_err().to_string().contains("page-cache"));
    }
}
