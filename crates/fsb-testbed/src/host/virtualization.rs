//! What is beneath the kernel, and what is around us.

use std::path::Path;

use crate::sys::Roots;

/// The hypervisor: its name, or `yes` where it does not say.
pub(super) fn hypervisor(roots: &Roots) -> Option<String> {
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

/// Vendors of machines that are none; Arm processors have no flag for it.
const KNOWN: [&str; 6] = ["QEMU", "VMware", "innotek", "Xen", "KVM", "Amazon EC2"];

fn named_machine(roots: &Roots) -> Option<String> {
    let vendor = roots.sys_text("class/dmi/id/sys_vendor")?;
    Some(match roots.sys_text("class/dmi/id/product_name") {
        Some(product) => format!("{vendor} {product}"),
        None => vendor,
    })
}

/// The container manager around us.
pub(super) fn container(roots: &Roots) -> Option<String> {
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

/// The files that managers leave in the root directory, which is where /proc is.
fn marked(roots: &Roots) -> Option<String> {
    let root = roots.proc.parent()?;
    let marks = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
    marks.iter().find(|(mark, _)| root.join(mark).exists()).map(|(_, name)| (*name).to_owned())
}

/// Images of containers are also booted as virtual machines, marks and all. But containers have their own host name,
/// and the first UTS namespace has a fixed number (PROC_UTS_INIT_INO).
fn has_first_uts_namespace(roots: &Roots) -> bool {
    std::fs::read_link(roots.proc.join("self/ns/uts")).is_ok_and(|link| link == Path::new("uts:[4026531838]"))
}
