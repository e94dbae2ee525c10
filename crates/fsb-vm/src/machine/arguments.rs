//! QEMU's command line.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use command_fds::FdMapping;

use super::qemu::{self, Aio, Architecture};
use super::{Acceleration, MachineSpec};
use crate::error::VmError;
use crate::guest;
use crate::kernel::Kernel;

/// The descriptor of the protocol in QEMU. Those of the heartbeat and the disks follow.
const PROTOCOL: i32 = 3;
const HEARTBEAT: i32 = PROTOCOL + 1;

/// The contents of QEMU's command line.
#[derive(Debug)]
pub(super) struct Plan {
    pub architecture: Architecture,
    pub acceleration: Acceleration,
    pub memory: u64,
    pub cpus: u32,
    /// The name that lists of processes show.
    pub name: String,
    pub kernel: String,
    pub initramfs: String,
    /// Additional words for the guest kernel's command line.
    pub words: Vec<String>,
    pub protocol: bool,
    /// The directory of the host that the guest sees.
    pub root: Option<String>,
    /// Driver, serial number and I/O mode of each disk.
    pub disks: Vec<(&'static str, String, Aio)>,
}

impl Plan {
    pub fn of(spec: &MachineSpec<'_>, aio: &[Aio]) -> Result<Plan, VmError> {
        let mut disks = Vec::new();
        for (disk, aio) in spec.disks.iter().zip(aio) {
            if disk.serial.is_empty()
                || disk.serial.len() > 20
                || !disk.serial.bytes().all(|b| b.is_ascii_alphanumeric())
            {
                return Err(VmError::request(format!("a disk cannot have the serial number {:?}", disk.serial)));
            }
            disks.push((qemu::driver(disk)?, disk.serial.clone(), *aio));
        }
        let root = spec.root.as_deref().map(text).transpose()?;
        if let Some(root) = root.as_ref().filter(|root| root.contains(',')) {
            return Err(VmError::request(format!("{root}: QEMU shares no directory with a comma in its name")));
        }
        Ok(Plan {
            architecture: Architecture::HERE,
            acceleration: spec.acceleration,
            memory: spec.memory,
            cpus: spec.cpus.max(1),
            name: name(spec.kernel),
            kernel: text(&spec.initramfs.kernel)?,
            initramfs: text(&spec.initramfs.path)?,
            words: [guest::WORD, "quiet"]
                .into_iter()
                .chain(root.as_ref().map(|_| guest::ROOT_WORD))
                .map(str::to_owned)
                .collect(),
            root,
            protocol: true,
            disks,
        })
    }

    /// Returns the descriptors that the arguments refer to.
    pub fn descriptors(&self, spec: MachineSpec<'_>, heartbeat: UnixStream) -> Vec<FdMapping> {
        let disks = spec.disks.into_iter().map(|disk| disk.file);
        [OwnedFd::from(spec.protocol), OwnedFd::from(heartbeat)]
            .into_iter()
            .chain(disks)
            .zip(PROTOCOL..)
            .map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd })
            .collect()
    }

    pub fn arguments(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| all.extend(words.iter().map(|word| (*word).to_owned()));
        let machine = match self.architecture {
            Architecture::X86 => "q35,memory-backend=ram",
            Architecture::Arm => "virt,gic-version=max,memory-backend=ram",
        };
        let (acceleration, processor) = match self.acceleration {
            Acceleration::Kvm => ("kvm", "host"),
            Acceleration::Emulated => ("tcg,thread=multi", "max"),
        };
        let (mebibytes, cpus) = (self.memory >> 20, self.cpus);
        add(&["-name", &self.name, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        add(&["-machine", machine, "-accel", acceleration, "-cpu", processor, "-smp", &cpus.to_string()]);
        // Memory that is backed before the guest starts causes no page faults in the host during a sample.
        add(&["-m", &format!("{mebibytes}M"), "-object"]);
        add(&[&format!("memory-backend-ram,id=ram,size={mebibytes}M,prealloc=on,prealloc-threads={}", cpus.min(8))]);
        add(&["-kernel", &self.kernel, "-initrd", &self.initramfs, "-append", &self.command_line()]);
        add(&["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
        if self.protocol {
            add(&["-device", "virtio-serial-pci"]);
            for (name, fd, port) in
                [("protocol", PROTOCOL, guest::PORT), ("heartbeat", HEARTBEAT, guest::HEARTBEAT_PORT)]
            {
                add(&["-chardev", &format!("socket,id={name},fd={fd}")]);
                add(&["-device", &format!("virtserialport,chardev={name},name={port}")]);
            }
        }
        if let Some(root) = &self.root {
            add(&["-fsdev", &format!("local,id=root,path={root},security_model=none,readonly=on,multidevs=remap")]);
            add(&["-device", &format!("virtio-9p-pci,fsdev=root,mount_tag={}", guest::ROOT_TAG)]);
        }
        for (index, (driver, serial, aio)) in self.disks.iter().enumerate() {
            let set = index + 1;
            add(&["-add-fd", &format!("fd={},set={set}", HEARTBEAT as usize + set)]);
            add(&["-blockdev", &qemu::blockdev(driver, set, &format!("disk{index}"), *aio)]);
            // QEMU must not turn written blocks into holes: the next target would have to allocate them again.
            add(&[
                "-device",
                &format!("virtio-blk-pci,drive=disk{index},serial={serial},discard=off,write-zeroes=off"),
            ]);
        }
        all
    }

    /// Returns the guest's kernel command line. The guest ends itself when it panics. It panics on an oops, on a
    /// processor that does not schedule for two minutes, and on a task that waits for a disk for five minutes.
    fn command_line(&self) -> String {
        let console = match self.architecture {
            Architecture::X86 => "console=ttyS0",
            Architecture::Arm => "console=ttyAMA0",
        };
        let mut words = vec![console, "panic=-1", "oops=panic", "random.trust_cpu=on"];
        words.extend(["softlockup_panic=1", "hung_task_panic=1", "sysctl.kernel.watchdog_thresh=60"]);
        words.push("sysctl.kernel.hung_task_timeout_secs=300");
        if self.acceleration == Acceleration::Emulated && self.architecture == Architecture::X86 {
            // The kernel calibrates clocks against each other for a second. The emulated clocks are one clock.
            words.extend(["tsc=reliable", "no_timer_check"]);
        }
        words.extend(self.words.iter().map(String::as_str));
        words.join(" ")
    }
}

/// Returns the name of a guest, which contains the release of its kernel.
pub(super) fn name(kernel: &Kernel) -> String {
    format!("fsb-{}", kernel.release.replace(|c: char| !c.is_ascii_alphanumeric() && !"._-+".contains(c), "-"))
}

/// Converts a path to text. In most options of QEMU a comma starts the next property; `-kernel` and `-initrd` take it
/// literally.
pub(super) fn text(path: &std::path::Path) -> Result<String, VmError> {
    let text = path.to_str().ok_or_else(|| VmError::request(format!("{} is not a name in UTF-8", path.display())))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(architecture: Architecture, acceleration: Acceleration) -> Plan {
        let direct = Aio { direct: true, engine: "io_uring" };
        let disks = vec![("file", "fsb0".to_owned(), direct), ("host_device", "fsb1".to_owned(), direct)];
        let words = vec!["fsb.guest".to_owned(), "quiet".to_owned()];
        let name = "fsb-6.1".to_owned();
        let (kernel, initramfs) = ("/boot/vmlinuz".to_owned(), "/c/i.cpio".to_owned());
        Plan {
            architecture,
            acceleration,
            memory: 512 << 20,
            cpus: 2,
            name,
            kernel,
            initramfs,
            words,
            protocol: true,
            disks,
            root: None,
        }
    }

    fn after<'a>(arguments: &'a [String], option: &str) -> Vec<&'a str> {
        let pairs = arguments.windows(2).filter(|pair| pair[0] == option);
        pairs.map(|pair| pair[1].as_str()).collect()
    }

    #[test]
    fn a_pc() {
        let arguments = plan(Architecture::X86, Acceleration::Emulated).arguments();
        assert_eq!(after(&arguments, "-machine"), ["q35,memory-backend=ram"]);
        assert_eq!(after(&arguments, "-accel"), ["tcg,thread=multi"]);
        assert_eq!(after(&arguments, "-m"), ["512M"]);
        assert!(after(&arguments, "-object")[0].contains("size=512M,prealloc=on"));
        assert_eq!(after(&arguments, "-add-fd"), ["fd=5,set=1", "fd=6,set=2"]);
        let disks = after(&arguments, "-blockdev");
        assert_eq!(after(&arguments, "-chardev")[1..], ["socket,id=protocol,fd=3", "socket,id=heartbeat,fd=4"]);
        assert!(disks[0].starts_with("driver=file,node-name=disk0,filename=/dev/fdset/1,cache.direct=on,aio=io_uring"));
        assert!(disks[1].starts_with("driver=host_device,node-name=disk1,filename=/dev/fdset/2"));
        assert!(arguments.iter().any(|word| word.contains("drive=disk1,serial=fsb1,discard=off")));
        let line = after(&arguments, "-append")[0];
        assert!(line.starts_with("console=ttyS0 panic=-1 oops=panic") && line.contains(" tsc=reliable "), "{line}");
        assert!(line.ends_with(" fsb.guest quiet"), "{line}");
    }

    #[test]
    fn an_arm_host() {
        let arguments = plan(Architecture::Arm, Acceleration::Kvm).arguments();
        assert_eq!(after(&arguments, "-machine"), ["virt,gic-version=max,memory-backend=ram"]);
        assert_eq!(after(&arguments, "-accel"), ["kvm"]);
        assert_eq!(after(&arguments, "-cpu"), ["host"]);
        let line = after(&arguments, "-append")[0];
        assert!(line.starts_with("console=ttyAMA0 ") && !line.contains("tsc"), "{line}");
    }
}
