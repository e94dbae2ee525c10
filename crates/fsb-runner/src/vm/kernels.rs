//! The kernels of a run, each with its initramfs.

use std::collections::BTreeMap;

use fsb_model::place::VmKernel;
use fsb_model::units::show_bytes;
use fsb_model::{Coded, Place, Plan, Target};
use fsb_testbed::optional::{self, Available};
use fsb_testbed::vm::needs;
use fsb_testbed::{Setup, TestbedError};
use fsb_vm::{Contents, Initramfs, Kernel, Origin, initramfs, kernel, machine};

/// A kernel and its initramfs.
#[derive(Debug, Clone)]
pub(super) struct Bootable {
    pub kernel: Kernel,
    pub initramfs: Initramfs,
}

/// All kernels of a run, the first the default of targets that name none.
#[derive(Debug, Clone, Default)]
pub(super) struct Kernels(Vec<Bootable>);

/// Returns the releases that the texts name, in their order. Without texts, returns that of the default kernel.
pub fn releases(texts: &[String]) -> Result<Vec<String>, TestbedError> {
    Ok(resolve(texts)?.into_iter().map(|kernel| kernel.release).collect())
}

/// Replaces the kernels of the plan by the releases that they mean today. A run that is resumed later then boots the
/// same ones, even if newer ones were fetched. Names of files stay as they are.
pub fn pin(plan: &mut Plan) -> Result<(), TestbedError> {
    if plan.place == Place::Vm {
        let qemu = machine::find_qemu(machine::Architecture::HERE);
        let kernels = match (qemu, resolve(&plan.kernels)) {
            (Err(qemu), Err(kernel)) => return Err(both_missing(&qemu, &kernel)),
            (_, kernels) => kernels?,
        };
        plan.kernels.resize(kernels.len(), String::new());
        for (text, kernel) in plan.kernels.iter_mut().zip(&kernels) {
            pin_text(text, kernel);
        }
    }
    Ok(())
}

/// The error for a machine that has neither QEMU nor a kernel for it, with the commands for both.
fn both_missing(qemu: &TestbedError, kernel: &TestbedError) -> TestbedError {
    let commands: Vec<String> = [qemu, kernel].into_iter().filter_map(Coded::help).collect();
    TestbedError::machine("a virtual machine needs QEMU and a kernel, and this machine has neither")
        .coded(qemu.code())
        .advice(commands.join(", then "))
}

fn pin_text(text: &mut String, kernel: &Kernel) {
    if kernel.origin != Origin::Named && !text.ends_with(".deb") {
        text.clone_from(&kernel.release);
    }
}

fn resolve(texts: &[String]) -> Result<Vec<Kernel>, TestbedError> {
    if texts.is_empty() {
        return Ok(vec![kernel::resolve(None)?]);
    }
    texts.iter().map(|text| kernel::resolve(Some(text))).collect()
}

/// Returns the setup without the optional targets that this machine cannot make in any guest. The coordinator and the
/// agent both call it, so the result must not depend on anything that changes in between.
pub(super) fn on_this_machine(setup: &Setup) -> Result<Available, TestbedError> {
    optional::available(setup, fsb_testbed::vm::check_targets)
}

impl Kernels {
    /// Finds the kernels of a setup, and builds each initramfs that is not in the cache. Leaves out optional targets if
    /// their kernel has no driver for them, and kernels without remaining targets.
    pub fn prepare(available: Available) -> Result<(Kernels, Available), TestbedError> {
        let kernels = resolve(&available.setup.kernels)?;
        let available = available.and(|alone| check(&kernels, alone))?;
        let cache = kernel::cache()?;
        let bootable = |kernel: Kernel| {
            let contents = contents(&available.setup, &kernel.release)?;
            let initramfs = initramfs::build(&kernel, &contents, &cache)?;
            Ok(Bootable { kernel, initramfs })
        };
        let kernels = wanted(kernels, &available.setup.targets);
        let kernels = kernels.into_iter().map(bootable).collect::<Result<_, _>>().map(Kernels)?;
        Ok((kernels, available))
    }

    /// Returns the kernel of that release, or the default one for `None`.
    pub fn find(&self, release: Option<&str>) -> Result<&Bootable, TestbedError> {
        let found = match release {
            None => self.0.first(),
            Some(release) => self.0.iter().find(|bootable| bootable.kernel.release == release),
        };
        found.ok_or_else(|| {
            TestbedError::machine(format!("the run has no kernel {}", release.unwrap_or_default()))
                .advice("begin a new run")
        })
    }

    /// Returns the oldest release, or `None` if there is only one.
    pub fn oldest(&self) -> Option<String> {
        let oldest = self.0.iter().map(|bootable| &bootable.kernel.release).min_by_key(|release| version(release));
        oldest.filter(|_| self.0.len() > 1).cloned()
    }

    /// Returns the kernels for the record of the run.
    pub fn record(&self) -> BTreeMap<String, VmKernel> {
        let record = |Bootable { kernel, initramfs }: &Bootable| {
            let name = initramfs.path.file_stem().map(|name| name.to_string_lossy().into_owned());
            let image = kernel.image.display().to_string();
            let (image_hash, module_hashes) = (initramfs.image_hash.clone(), initramfs.module_hashes.clone());
            let initramfs = name.unwrap_or_default();
            (kernel.release.clone(), VmKernel { image, initramfs, image_hash, module_hashes })
        };
        self.0.iter().map(record).collect()
    }

    /// Refuses less memory than a guest boots with.
    pub fn check_memory(&self, setup: &Setup) -> Result<(), TestbedError> {
        let Some(vm) = setup.vm else { return Ok(()) };
        let least = self.0.iter().map(|bootable| machine::least_memory(&bootable.initramfs)).max().unwrap_or(0);
        if vm.memory.0 >= least {
            return Ok(());
        }
        let show = |bytes: u64| show_bytes(bytes as f64);
        let mebibytes = least.div_ceil(1 << 20);
        Err(TestbedError::machine("too little memory for the virtual machine")
            .coded(&fsb_model::error::NO_MEMORY)
            .field("needed_bytes", least)
            .tried(format!("{} asked for, {} needed to boot", show(vm.memory.0), show(least)))
            .advice(format!("give --memory {mebibytes}M or more")))
    }
}

/// Checks that the kernels have the drivers of their targets.
fn check(kernels: &[Kernel], setup: &Setup) -> Result<(), TestbedError> {
    let mut kernels =
        kernels.iter().filter(|kernel| setup.targets.iter().any(|target| target.runs_on(&kernel.release)));
    kernels.try_for_each(|kernel| initramfs::check(kernel, &contents(setup, &kernel.release)?))
}

/// Returns the kernels that the targets are measured on. Targets that name none use the first.
fn wanted(kernels: Vec<Kernel>, targets: &[Target]) -> Vec<Kernel> {
    let is_wanted = |index: usize, kernel: &Kernel| {
        targets.iter().any(|target| target.kernel.as_ref().map_or(index == 0, |release| *release == kernel.release))
    };
    let kernels = kernels.into_iter().enumerate().filter(|(index, kernel)| is_wanted(*index, kernel));
    kernels.map(|(_, kernel)| kernel).collect()
}

/// Returns the contents of the initramfs for the targets of that kernel. Another kernel may lack the driver of another
/// target.
fn contents(setup: &Setup, release: &str) -> Result<Contents, TestbedError> {
    let mut own = setup.clone();
    own.targets.retain(|target| target.runs_on(release));
    let needs = needs(&own)?;
    let init = std::env::current_exe().map_err(|error| {
        TestbedError::machine("the program's own file is unknown").tried(format!("/proc/self/exe: {error}"))
    })?;
    let mut modules = needs.modules;
    if setup.root.is_some() {
        modules.extend(["9p", "9pnet_virtio"].map(str::to_owned));
    }
    let own_path = |path: std::path::PathBuf| (path.to_string_lossy().into_owned(), path);
    Ok(Contents {
        init,
        programs: needs.programs,
        modules,
        optional_modules: needs.optional_modules,
        files: needs.files.into_iter().map(own_path).collect(),
    })
}

/// Returns the key by which versions are ordered: the numbers at the beginning of a release.
fn version(release: &str) -> Vec<u64> {
    let parts = release.split(['.', '-']).map_while(|part| part.parse().ok());
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(release: &str, origin: Origin) -> Kernel {
        Kernel { release: release.into(), image: "/v".into(), modules: "/m".into(), origin }
    }

    #[test]
    fn kernels_whose_targets_were_all_left_out_are_not_booted() {
        let left = |on: &[Option<&str>]| -> Vec<String> {
            let target =
                |release: &Option<&str>| Target { kernel: release.map(str::to_owned), .."ext4".parse().unwrap() };
            let kernels = ["6.12", "6.1"].map(|release| kernel(release, Origin::Named)).to_vec();
            let targets: Vec<Target> = on.iter().map(target).collect();
            wanted(kernels, &targets).into_iter().map(|kernel| kernel.release).collect()
        };
        assert_eq!(left(&[Some("6.1"), Some("6.12")]), ["6.12", "6.1"]);
        assert_eq!(left(&[Some("6.1"), Some("6.1")]), ["6.1"]);
        assert_eq!(left(&[None]), ["6.12"]);
        assert_eq!(left(&[None, Some("6.1")]), ["6.12", "6.1"]);
    }

    #[test]
    fn a_plan_names_the_release_that_was_found() {
        let pinned = |text: &str, origin: Origin| {
            let kernel = kernel("6.1.0-56-amd64", origin);
            let mut text = text.to_owned();
            pin_text(&mut text, &kernel);
            text
        };
        for text in ["", "6.1", "linux-image-6.1.0-56-amd64"] {
            assert_eq!(pinned(text, Origin::Fetched), "6.1.0-56-amd64");
        }
        assert_eq!(pinned("/boot/vmlinuz:/lib/m", Origin::Named), "/boot/vmlinuz:/lib/m");
        assert_eq!(pinned("/tmp/linux.deb", Origin::Fetched), "/tmp/linux.deb");
    }

    #[test]
    fn releases_are_ordered_by_their_numbers() {
        let mut releases = ["6.12.90+deb12-amd64", "6.1.0-56-amd64", "5.10.0-9-amd64", "6.1.0-9-amd64"];
        releases.sort_by_key(|release| version(release));
        assert_eq!(releases, ["5.10.0-9-amd64", "6.1.0-9-amd64", "6.1.0-56-amd64", "6.12.90+deb12-amd64"]);
    }
}
