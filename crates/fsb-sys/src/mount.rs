//! Mounts through the kernel's mount API, with the driver's own error messages, and remounts
//! read-only and back. The remount is the one way in which every file system completes its deferred
//! work.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MountFlags, MoveMountFlags,
    UnmountFlags, fsconfig_create, fsconfig_reconfigure, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen, fspick, move_mount, unmount,
};

use crate::error::{TestbedError, Tried, attempt, describe};
use crate::poll_until;

/// Mounts `source` at `point` through `fsopen`. Unlike mount(2) it takes the options one by one and
/// keeps the driver's error messages. Messages that the driver writes only to the kernel log are
/// read from there.
pub fn mount(
    kind: &str,
    source: &Path,
    point: &Path,
    options: &[String],
) -> Result<(), TestbedError> {
    let mut log = KernelLog::open();
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).map_err(|errno| {
        TestbedError::machine(format!("the kernel cannot mount {kind}"))
            .tried(Tried::call(format!("fsopen {kind}"), &errno.into()))
            .advice("load its module (modprobe), or use a kernel that has it (--in vm)")
    })?;
    let result = configure_and_attach(&context, source, point, options);
    result.map_err(|(step, errno)| {
        let mut answers = context_messages(&context);
        answers.extend(log.new_messages());
        answers.insert(0, format!("{step}: {}", describe(&errno.into())));
        let tried = Tried {
            text: answers.join(" / "),
            errno: Some(errno.raw_os_error()),
        };
        TestbedError::trial(format!("{kind} could not be mounted")).tried(tried)
    })
}

/// Mounts `source` at `point` through mount(2), which takes longer options than `fsopen`: its limit
/// of 255 bytes is for each option, and here one page holds all of them. Messages of the driver are
/// read from the kernel log.
pub fn mount_at_once(
    kind: &str,
    source: &Path,
    point: &Path,
    options: &[String],
) -> Result<(), TestbedError> {
    let mut log = KernelLog::open();
    let flag = |option: &String| MOUNT_FLAGS.iter().find(|(name, _)| name == option);
    let flags = options
        .iter()
        .filter_map(flag)
        .fold(MountFlags::empty(), |all, (_, flag)| all | *flag);
    let data: Vec<&str> = options
        .iter()
        .filter(|option| flag(option).is_none())
        .map(String::as_str)
        .collect();
    let data = CString::new(data.join(","))
        .map_err(|_| TestbedError::request(format!("an option of {kind} holds a byte of zero")))?;
    rustix::mount::mount(source, point, kind, flags, data.as_c_str()).map_err(|errno| {
        let mut answers = log.new_messages();
        answers.insert(0, format!("mount: {}", describe(&errno.into())));
        TestbedError::trial(format!("{kind} could not be mounted")).tried(Tried {
            text: answers.join(" / "),
            errno: Some(errno.raw_os_error()),
        })
    })
}

/// Options of mount(8) that mount(2) takes as flags.
const MOUNT_FLAGS: [(&str, MountFlags); 14] = [
    ("defaults", MountFlags::empty()),
    ("rw", MountFlags::empty()),
    ("atime", MountFlags::empty()),
    ("diratime", MountFlags::empty()),
    ("suid", MountFlags::empty()),
    ("dev", MountFlags::empty()),
    ("exec", MountFlags::empty()),
    ("noatime", MountFlags::NOATIME),
    ("nodiratime", MountFlags::NODIRATIME),
    ("relatime", MountFlags::RELATIME),
    ("strictatime", MountFlags::STRICTATIME),
    ("nosuid", MountFlags::NOSUID),
    ("nodev", MountFlags::NODEV),
    ("noexec", MountFlags::NOEXEC),
];

/// Shows `directory` at `point`, too.
pub fn bind(directory: &Path, point: &Path) -> Result<(), TestbedError> {
    rustix::mount::mount_bind(directory, point).map_err(|errno| {
        TestbedError::trial(format!(
            "{} could not be shown at {}",
            directory.display(),
            point.display()
        ))
        .tried(attempt("mount --bind", directory, &errno.into()))
    })
}

type Refusal = (String, Errno);

fn configure_and_attach(
    context: &OwnedFd,
    source: &Path,
    point: &Path,
    options: &[String],
) -> Result<(), Refusal> {
    fsconfig_set_string(context.as_fd(), "source", source)
        .map_err(|errno| ("source".to_owned(), errno))?;
    let mut attributes = MountAttrFlags::empty();
    for option in options {
        set_option(context, option, &mut attributes)
            .map_err(|errno| (format!("option '{option}'"), errno))?;
    }
    fsconfig_create(context.as_fd()).map_err(|errno| ("mount".to_owned(), errno))?;
    let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .map_err(|errno| ("fsmount".to_owned(), errno))?;
    move_mount(
        mount.as_fd(),
        "",
        CWD,
        point,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .map_err(|errno| (format!("mount at {}", point.display()), errno))
}

/// Sets an option, which is an attribute of the mount, a flag of the superblock (`ro` is both) or
/// the file system's own.
fn set_option(
    context: &OwnedFd,
    option: &str,
    attributes: &mut MountAttrFlags,
) -> Result<(), Errno> {
    use MountAttrFlags as A;
    let times = A::MOUNT_ATTR__ATIME;
    let (clear, set) = match option {
        "defaults" | "rw" => return Ok(()),
        "noatime" => (times, A::MOUNT_ATTR_NOATIME),
        "strictatime" => (times, A::MOUNT_ATTR_STRICTATIME),
        "relatime" => (times, A::MOUNT_ATTR_RELATIME),
        "atime" => (A::empty(), A::empty()),
        "nodiratime" => (A::empty(), A::MOUNT_ATTR_NODIRATIME),
        "diratime" => (A::MOUNT_ATTR_NODIRATIME, A::empty()),
        "nosuid" => (A::empty(), A::MOUNT_ATTR_NOSUID),
        "suid" => (A::MOUNT_ATTR_NOSUID, A::empty()),
        "nodev" => (A::empty(), A::MOUNT_ATTR_NODEV),
        "dev" => (A::MOUNT_ATTR_NODEV, A::empty()),
        "noexec" => (A::empty(), A::MOUNT_ATTR_NOEXEC),
        "exec" => (A::MOUNT_ATTR_NOEXEC, A::empty()),
        _ => {
            if option == "ro" {
                attributes.insert(A::MOUNT_ATTR_RDONLY);
            }
            return match option.split_once('=') {
                Some((key, value)) => fsconfig_set_string(context.as_fd(), key, value),
                None => fsconfig_set_flag(context.as_fd(), option),
            };
        }
    };
    attributes.remove(clear);
    attributes.insert(set);
    Ok(())
}

/// Checks that the driver knows these options, before there is a device. A driver that reads its
/// options only when it mounts reports nothing here, and neither does one that this process may not
/// use. `suggest` returns the known option that is nearest to a refused one.
pub fn check_options(
    kind: &str,
    options: &[String],
    suggest: &dyn Fn(&str) -> Option<String>,
) -> Result<(), TestbedError> {
    let Ok(context) = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC) else {
        return Ok(());
    };
    let mut attributes = MountAttrFlags::empty();
    for option in options {
        if let Err(errno @ Errno::INVAL) = set_option(&context, option, &mut attributes) {
            let mut answers = vec![format!("option '{option}': {}", describe(&errno.into()))];
            answers.extend(context_messages(&context));
            let advice = match suggest(option) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("see mount(8) and the manual of {kind}"),
            };
            return Err(TestbedError::request(format!(
                "{kind} refuses the mount option '{option}'"
            ))
            .coded(&fsb_model::error::UNKNOWN_OPTION)
            .field("option", option.as_str())
            .tried(Tried {
                text: answers.join(" / "),
                errno: Some(errno.raw_os_error()),
            })
            .advice(advice));
        }
    }
    Ok(())
}

/// Reads the driver's messages about the options. Each read returns one, as `e message`.
fn context_messages(context: &OwnedFd) -> Vec<String> {
    let mut messages = Vec::new();
    let mut buffer = [0u8; 1024];
    while let Ok(length) = rustix::io::read(context, &mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..length]);
        let text = text.trim();
        messages.push(
            text.get(2..)
                .filter(|_| text.get(1..2) == Some(" "))
                .unwrap_or(text)
                .to_owned(),
        );
    }
    messages
}

/// The kernel log from the opening on. It yields no messages if it may not be read.
struct KernelLog(Option<File>);

impl KernelLog {
    fn open() -> Self {
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .ok();
        KernelLog(file.and_then(|mut file| {
            io::Seek::seek(&mut file, io::SeekFrom::End(0))
                .ok()
                .map(|_| file)
        }))
    }

    /// Returns the newest messages. Each read returns one record,
    /// `priority,sequence,time,flags;text`; continuation lines start with a blank.
    fn new_messages(&mut self) -> Vec<String> {
        const MOST: usize = 4;
        let Some(file) = &mut self.0 else {
            return Vec::new();
        };
        let mut messages = Vec::new();
        let mut buffer = [0u8; 8192];
        while let Ok(length) = file.read(&mut buffer) {
            let record = String::from_utf8_lossy(&buffer[..length]);
            if let Some((_, text)) = record.lines().next().unwrap_or_default().split_once(';') {
                messages.push(text.trim().to_owned());
            }
            if length == 0 || messages.len() > 64 {
                break;
            }
        }
        messages.split_off(messages.len().saturating_sub(MOST))
    }
}

/// Unmounts `point`. Tries again while it is busy, and unmounts it lazily after `limit`. Returns a
/// note if it unmounted lazily.
pub fn unmount_patiently(
    point: &Path,
    limit: std::time::Duration,
) -> Result<Option<String>, TestbedError> {
    let mut answer = Ok(());
    super::poll_until(limit, || {
        answer = unmount(point, UnmountFlags::NOFOLLOW);
        answer != Err(Errno::BUSY)
    });
    match answer {
        Ok(()) => Ok(None),
        Err(Errno::BUSY) => {
            unmount(point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)
                .map_err(|errno| refused(point, errno))?;
            Ok(Some(format!(
                "{} was busy for {} s and was unmounted lazily",
                point.display(),
                limit.as_secs()
            )))
        }
        Err(errno) => Err(refused(point, errno)),
    }
}

fn refused(point: &Path, errno: Errno) -> TestbedError {
    TestbedError::trial("the target could not be unmounted").tried(attempt(
        "umount",
        point,
        &errno.into(),
    ))
}

/// Makes the superblock mounted at `point` read-only and writable again, with `keep` among its
/// options both times.
///
/// Mounts, files that are open for reading, and caches stay as they are. A file system that a
/// killed process left read-only hangs no other process, unlike a frozen one, and no other process
/// sees this mount. A file system that cannot become read-only stays as it was.
///
/// # Errors
///
/// Fails if a file is still open for writing, because that work would continue into the next
/// measurement. Fails also if the file system cannot become writable again.
pub fn remount_read_only_and_back(point: &Path, keep: &[&str]) -> Result<(), TestbedError> {
    /// The kernel closes the files of an ended process with a short delay.
    const CLOSING: Duration = Duration::from_secs(2);
    let mut refused = None;
    poll_until(CLOSING, || {
        refused = reconfigure(point, keep, "ro").err();
        refused != Some(Errno::BUSY)
    });
    match refused {
        None => {}
        Some(Errno::BUSY) => {
            return Err(TestbedError::trial(
                "the target's background work cannot be ended: a file is open for writing",
            )
            .tried(attempt("remount read-only", point, &Errno::BUSY.into())));
        }
        Some(_) => return Ok(()),
    }
    reconfigure(point, keep, "rw").map_err(|errno| {
        TestbedError::trial("the target became read-only to end its background work, and stayed so")
            .tried(attempt("remount", point, &errno.into()))
    })
}

fn reconfigure(point: &Path, keep: &[&str], state: &str) -> Result<(), Errno> {
    let context = fspick(CWD, point, FsPickFlags::FSPICK_CLOEXEC)?;
    for option in keep.iter().chain([&state]) {
        fsconfig_set_flag(context.as_fd(), *option)?;
    }
    fsconfig_reconfigure(context.as_fd())
}

/// `EXT4_IOC_CHECKPOINT` of linux/ext4.h, since Linux 5.14.
const CHECKPOINT: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<u32>(b'f', 43);

/// Writes the blocks of the journal to their places and empties it. ext3 and ext4 delay this until
/// the journal is full.
pub fn checkpoint(point: &Path) {
    let Ok(directory) = std::fs::File::open(point) else {
        return;
    };
    let flags: u32 = 0;
    // SAFETY: reads one u32 of this function. Older kernels, and file systems without a journal,
    // refuse the call and change nothing.
    unsafe { libc::ioctl(directory.as_raw_fd(), CHECKPOINT as _, &flags) };
}

/// `FIFREEZE` and `FITHAW` of linux/fs.h, both with an argument that is not used.
const FREEZE: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<libc::c_int>(b'X', 119);
const THAW: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<libc::c_int>(b'X', 120);

/// Freezes a mounted file system and thaws it. Returns the time that both calls took.
///
/// If the process is killed between the calls, the file system stays frozen and mounted.
///
/// # Errors
///
/// Fails with EOPNOTSUPP if the file system cannot be frozen. Nothing is frozen after an error of
/// the first call.
pub fn freeze_and_thaw(point: &Path) -> Result<Duration, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(point, flags, rustix::fs::Mode::empty())?;
    // SAFETY: the kernel does not access the argument.
    let call = |number: rustix::ioctl::Opcode| match unsafe {
        libc::ioctl(directory.as_raw_fd(), number as _, 0)
    } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    };
    let began = Instant::now();
    call(FREEZE)?;
    call(THAW)?;
    Ok(began.elapsed())
}

/// struct btrfs_ioctl_scrub_args of linux/btrfs.h.
#[repr(C)]
struct ScrubArguments {
    device: u64,
    start: u64,
    end: u64,
    flags: u64,
    progress: ScrubProgress,
    unused: [u64; 109],
}

/// struct btrfs_scrub_progress of linux/btrfs.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct ScrubProgress {
    /// Extents and bytes of data and of metadata.
    scrubbed: [u64; 4],
    read_errors: u64,
    checksum_errors: u64,
    verify_errors: u64,
    /// Blocks without a checksum, and stale copies of checksums: no errors.
    without_checksum: [u64; 2],
    super_errors: u64,
    malloc_errors: u64,
    uncorrectable_errors: u64,
    corrected_errors: u64,
    last_physical: u64,
    unverified_errors: u64,
}

/// `BTRFS_IOC_SCRUB` of linux/btrfs.h.
const SCRUB: rustix::ioctl::Opcode = rustix::ioctl::opcode::read_write::<ScrubArguments>(0x94, 27);
/// `BTRFS_SCRUB_READONLY`.
const READ_ONLY: u64 = 1;

/// Reads everything on the first device of a mounted Btrfs and checks the checksums, without
/// repairs. Returns the time and the number of errors.
///
/// # Errors
///
/// Fails with ENOTTY if the file system is not Btrfs.
pub fn scrub(point: &Path) -> Result<(Duration, u64), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(point, flags, rustix::fs::Mode::empty())?;
    let progress = ScrubProgress::default();
    let mut arguments = ScrubArguments {
        device: 1,
        start: 0,
        end: u64::MAX,
        flags: READ_ONLY,
        progress,
        unused: [0; 109],
    };
    let began = Instant::now();
    // SAFETY: the kernel reads and writes a structure of the size in the number of the call, and
    // the pointer is valid.
    if unsafe { libc::ioctl(directory.as_raw_fd(), SCRUB as _, &raw mut arguments) } != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    let found = arguments.progress;
    let errors = [
        found.read_errors,
        found.checksum_errors,
        found.verify_errors,
        found.super_errors,
        found.uncorrectable_errors,
        found.unverified_errors,
    ];
    Ok((began.elapsed(), errors.iter().sum()))
}

/// struct xfs_fs_eofblocks of xfs_fs.h.
#[repr(C)]
struct EofBlocks {
    version: u32,
    flags: u32,
    /// User, group and project of the files, if the flags select by them.
    owners: [u32; 3],
    pad32: u32,
    /// The smallest file, if the flags select by size.
    min_file_size: u64,
    pad64: [u64; 12],
}

/// `XFS_IOC_FREE_EOFBLOCKS`.
const FREE_EOFBLOCKS: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<EofBlocks>(b'X', 58);
/// `XFS_EOFBLOCKS_VERSION` and `XFS_EOF_FLAGS_SYNC`: of all files, and wait for it.
const ALL_FILES: EofBlocks = EofBlocks {
    version: 1,
    flags: 1,
    owners: [0; 3],
    pad32: 0,
    min_file_size: 0,
    pad64: [0; 12],
};

/// Frees the blocks that xfs has reserved behind the ends of files.
pub fn free_speculative_blocks(point: &Path) {
    let Ok(directory) = std::fs::File::open(point) else {
        return;
    };
    // SAFETY: the kernel reads a structure of the size in the number of the call. A kernel that
    // does not know the call refuses it.
    unsafe { libc::ioctl(directory.as_raw_fd(), FREE_EOFBLOCKS as _, &ALL_FILES) };
}
