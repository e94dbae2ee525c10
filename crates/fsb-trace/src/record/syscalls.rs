//! The watched calls and the meaning of their arguments: a table of numbers and functions.

use crate::{CallKind, RawCall, Unseen, flags};
use fsb_sys::trace::Rule;

/// The effect of a call, apart from files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// A call of the trace.
    File,
    /// Another working directory.
    ChangeDirectory,
    /// Descriptors from the first to the second, with flags.
    CloseRange(i32, i32, u32),
    /// Whether exec closes the descriptor.
    CloseOnExec(bool),
    /// A new task: its flags, or their address in memory.
    Clone(u64, Option<u64>),
    /// unshare(2), with its flags.
    Unshare(u64),
    /// Waits for a child.
    Wait,
    /// Success means that calls may follow that no tracer sees.
    Hides(Unseen),
    /// Nothing that concerns files.
    Nothing,
}

/// A call as its registers describe it. Paths are in the memory of the calling process.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The effect of the call.
    pub act: Act,
    /// Everything but paths.
    pub raw: RawCall<'static>,
    pub path: Option<u64>,
    /// The address of the second path.
    pub second: Option<u64>,
    /// The address and the number of the pieces. The requested length is the sum of their lengths.
    pub pieces: Option<(u64, u64)>,
    /// An empty path means the descriptor.
    pub empty_path: bool,
    /// The address of `struct open_how`.
    pub how: Option<u64>,
    /// The addresses of the offsets of a copy, in the source and in the destination.
    pub offsets: [Option<u64>; 2],
    /// The address of the structure of FICLONERANGE or FIDEDUPERANGE.
    pub range: Option<u64>,
}

/// Returns the meaning of a call that began, or `None` if it is not watched.
pub fn seen(number: u64, arguments: [u64; 6]) -> Option<Seen> {
    let watched = CALLS
        .iter()
        .find(|watched| watched.rule.number as u64 == number)?;
    let chosen = |at: u8| arguments[usize::from(at)] as u32;
    let fits = watched
        .rule
        .only
        .is_none_or(|(at, values)| values.contains(&chosen(at)))
        && watched
            .rule
            .except
            .is_none_or(|(at, value)| chosen(at) != value);
    fits.then(|| (watched.read)(Arguments(arguments)))
}

/// Returns whether a call can be watched without a stop: its registers alone hold its meaning, and
/// it changes the meaning of no name and of no descriptor number.
fn needs_no_stop(watched: &Watched) -> bool {
    /// Kinds of calls on descriptors that need no stop.
    const KINDS: [CallKind; 11] = [
        CallKind::Read,
        CallKind::Write,
        CallKind::ReadAt,
        CallKind::WriteAt,
        CallKind::Seek,
        CallKind::Sync,
        CallKind::DataSync,
        CallKind::SyncRange,
        CallKind::Truncate,
        CallKind::Allocate,
        CallKind::Stat,
    ];
    let plain = watched.rule.only.is_none() && watched.rule.except.is_none();
    let seen = (watched.read)(Arguments([1; 6]));
    let in_registers =
        seen.path.is_none() && seen.second.is_none() && seen.pieces.is_none() && seen.how.is_none();
    plain && seen.act == Act::File && in_registers && KINDS.contains(&seen.raw.kind)
}

/// Returns the rules of the calls that stop: all of them, or those that must.
pub fn rules(all: bool) -> Vec<Rule> {
    CALLS
        .iter()
        .filter(|watched| all || !needs_no_stop(watched))
        .map(|watched| watched.rule)
        .collect()
}

/// Returns the numbers of the calls without a stop, and of calls that show only which task waits
/// for which.
pub fn numbers_to_watch() -> Vec<i32> {
    let waits = WAITS.iter().map(|number| *number as i32);
    numbers_without_stop().into_iter().chain(waits).collect()
}

/// Returns the numbers of the calls that need no stop.
fn numbers_without_stop() -> Vec<i32> {
    CALLS
        .iter()
        .filter(|watched| needs_no_stop(watched))
        .map(|watched| watched.rule.number as i32)
        .collect()
}

/// The numbers of calls on no file in which tasks wait for each other and wake each other. Reads
/// and writes of pipes and similar files are watched like those of regular files.
pub static WAITS: &[libc::c_long] = &[
    libc::SYS_futex,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_shutdown,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_flock,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pause,
];

const fn call(number: libc::c_long, read: fn(Arguments) -> Seen) -> Watched {
    Watched {
        rule: Rule {
            number,
            only: None,
            except: None,
        },
        read,
    }
}

const CLONE: u32 = 0x4004_9409;
const CLONE_RANGE: u32 = 0x4020_940d;
const DEDUPLICATE: u32 = 0xc018_9436;
/// The requests FICLONE, FICLONERANGE, FIDEDUPERANGE, FIONCLEX and FIOCLEX.
const REQUESTS: &[u32] = &[
    CLONE,
    CLONE_RANGE,
    DEDUPLICATE,
    libc::FIONCLEX as u32,
    libc::FIOCLEX as u32,
];
/// F_DUPFD, F_SETFD, F_DUPFD_CLOEXEC.
const DESCRIPTORS: &[u32] = &[0, 2, 1030];
/// SECCOMP_SET_MODE_FILTER.
const FILTERS: &[u32] = &[1];

/// The calls that are recorded. A new one is one entry.
pub static CALLS: &[Watched] = &[
    call(libc::SYS_read, |a| a.moves(CallKind::Read)),
    call(libc::SYS_write, |a| a.moves(CallKind::Write)),
    call(libc::SYS_pread64, |a| a.moves(CallKind::ReadAt)),
    call(libc::SYS_pwrite64, |a| a.moves(CallKind::WriteAt)),
    call(libc::SYS_readv, |a| a.moves_pieces(CallKind::Read)),
    call(libc::SYS_writev, |a| a.moves_pieces(CallKind::Write)),
    call(libc::SYS_preadv, |a| a.moves_pieces(CallKind::ReadAt)),
    call(libc::SYS_pwritev, |a| a.moves_pieces(CallKind::WriteAt)),
    call(libc::SYS_preadv2, |a| {
        a.moves_pieces_or_on(CallKind::ReadAt, CallKind::Read)
    }),
    call(libc::SYS_pwritev2, |a| {
        a.moves_pieces_or_on(CallKind::WriteAt, CallKind::Write)
            .with(|raw| raw.flags = write_flags(a.int(5)))
    }),
    call(libc::SYS_lseek, |a| {
        a.on(CallKind::Seek)
            .with(|raw| (raw.offset, raw.flags) = (Some(a.0[1]), a.0[2] as u32))
    }),
    call(libc::SYS_close, |a| a.on(CallKind::Close)),
    call(libc::SYS_close_range, |a| {
        let most = |number: u64| i32::try_from(number as u32).unwrap_or(i32::MAX);
        a.act(Act::CloseRange(most(a.0[0]), most(a.0[1]), a.0[2] as u32))
    }),
    call(libc::SYS_dup, |a| a.on(CallKind::Duplicate)),
    call(libc::SYS_dup3, |a| {
        a.on(CallKind::Duplicate)
            .with(|raw| raw.close_on_exec = a.0[2] as i32 & libc::O_CLOEXEC != 0)
    }),
    Watched {
        rule: Rule {
            number: libc::SYS_fcntl,
            only: Some((1, DESCRIPTORS)),
            except: None,
        },
        read: |a| match a.0[1] as i32 {
            libc::F_SETFD => a.act(Act::CloseOnExec(a.0[2] as i32 & libc::FD_CLOEXEC != 0)),
            command => a
                .on(CallKind::Duplicate)
                .with(|raw| raw.close_on_exec = command == libc::F_DUPFD_CLOEXEC),
        },
    },
    call(libc::SYS_openat, |a| {
        a.open(a.name_at(CallKind::Open), 2, 3)
    }),
    call(libc::SYS_openat2, |a| Seen {
        how: Some(a.0[2]),
        ..a.name_at(CallKind::Open)
    }),
    call(libc::SYS_fsync, |a| a.on(CallKind::Sync)),
    call(libc::SYS_fdatasync, |a| a.on(CallKind::DataSync)),
    call(libc::SYS_syncfs, |a| a.on(CallKind::SyncFileSystem)),
    call(libc::SYS_sync, |a| {
        a.on(CallKind::SyncFileSystem)
            .with(|raw| raw.fd = crate::AT_CWD)
    }),
    call(libc::SYS_sync_file_range, |a| {
        a.on(CallKind::SyncRange)
            .with(|raw| (raw.offset, raw.length, raw.flags) = (Some(a.0[1]), a.0[2], a.0[3] as u32))
    }),
    call(libc::SYS_ftruncate, |a| {
        a.on(CallKind::Truncate).with(|raw| raw.length = a.0[1])
    }),
    call(libc::SYS_truncate, |a| {
        a.name(CallKind::TruncateName, 0)
            .with(|raw| raw.length = a.0[1])
    }),
    call(libc::SYS_fallocate, |a| {
        a.on(CallKind::Allocate)
            .with(|raw| (raw.flags, raw.offset, raw.length) = (a.0[1] as u32, Some(a.0[2]), a.0[3]))
    }),
    call(libc::SYS_fadvise64, |a| {
        a.on(CallKind::Advise)
            .with(|raw| (raw.offset, raw.length, raw.flags) = (Some(a.0[1]), a.0[2], a.0[3] as u32))
    }),
    call(libc::SYS_renameat2, |a| {
        a.names(CallKind::Rename, [Some(0), Some(1), Some(2), Some(3)])
            .with(|raw| raw.flags = a.0[4] as u32 & 3)
    }),
    call(libc::SYS_unlinkat, |a| {
        let kind = if a.0[2] as i32 & libc::AT_REMOVEDIR != 0 {
            CallKind::RemoveDirectory
        } else {
            CallKind::Unlink
        };
        a.name_at(kind).does_not_follow()
    }),
    call(libc::SYS_mkdirat, |a| {
        a.name_at(CallKind::MakeDirectory)
            .does_not_follow()
            .with(|raw| raw.length = a.0[2] & 0o7777)
    }),
    call(libc::SYS_linkat, |a| {
        a.names(CallKind::Link, [Some(0), Some(1), Some(2), Some(3)])
            .with(|raw| raw.follows = a.int(4) & libc::AT_SYMLINK_FOLLOW != 0)
    }),
    call(libc::SYS_mknodat, |a| a.makes_node(2)),
    call(libc::SYS_symlinkat, |a| {
        a.names(CallKind::SymbolicLink, [Some(1), Some(2), None, Some(0)])
    }),
    call(libc::SYS_readlinkat, |a| {
        a.name_at(CallKind::ReadLink).does_not_follow()
    }),
    call(libc::SYS_fstat, |a| a.on(CallKind::Stat)),
    call(libc::SYS_newfstatat, |a| {
        a.name_with(CallKind::StatName, CallKind::Stat, 3)
    }),
    call(libc::SYS_statx, |a| {
        a.name_with(CallKind::StatName, CallKind::Stat, 2)
    }),
    call(libc::SYS_faccessat, |a| a.name_at(CallKind::StatName)),
    call(libc::SYS_faccessat2, |a| {
        a.name_with(CallKind::StatName, CallKind::Stat, 3)
    }),
    call(libc::SYS_getdents64, |a| {
        a.on(CallKind::List).with(|raw| raw.length = a.0[2])
    }),
    call(libc::SYS_copy_file_range, |a| {
        a.copies([0, 2], [Some(1), Some(3)], 4, 0)
    }),
    call(libc::SYS_splice, |a| {
        a.copies([0, 2], [Some(1), Some(3)], 4, 0)
    }),
    call(libc::SYS_sendfile, |a| {
        a.copies([1, 0], [Some(2), None], 3, flags::SEND)
    }),
    Watched {
        rule: Rule {
            number: libc::SYS_ioctl,
            only: Some((1, REQUESTS)),
            except: None,
        },
        read: |a| match a.0[1] as u32 {
            CLONE => a
                .copies([2, 0], [None; 2], 3, flags::CLONE)
                .with(|raw| raw.length = 0),
            CLONE_RANGE => a.clones_range(flags::CLONE_RANGE),
            DEDUPLICATE => a.clones_range(flags::DEDUPLICATE),
            request => a.act(Act::CloseOnExec(request == libc::FIOCLEX as u32)),
        },
    },
    call(libc::SYS_setxattr, |a| a.sets_attribute(false)),
    call(libc::SYS_lsetxattr, |a| {
        a.sets_attribute(false).does_not_follow()
    }),
    call(libc::SYS_fsetxattr, |a| a.sets_attribute(true)),
    call(libc::SYS_removexattr, |a| {
        a.sets_attribute(false).removing()
    }),
    call(libc::SYS_lremovexattr, |a| {
        a.sets_attribute(false).does_not_follow().removing()
    }),
    call(libc::SYS_fremovexattr, |a| {
        a.sets_attribute(true).removing()
    }),
    call(libc::SYS_msync, |a| {
        let wait = if a.0[2] as i32 & libc::MS_SYNC != 0 {
            flags::WAIT
        } else {
            0
        };
        a.on(CallKind::SyncMapping)
            .with(|raw| (raw.offset, raw.length, raw.flags) = (Some(a.0[0]), a.0[1], wait))
    }),
    Watched {
        rule: Rule {
            number: libc::SYS_mmap,
            only: None,
            except: Some((4, u32::MAX)),
        },
        read: |a| {
            let shared = a.0[3] as i32 & libc::MAP_TYPE != libc::MAP_PRIVATE;
            let stores = shared && a.0[2] as i32 & libc::PROT_WRITE != 0;
            let flags = if stores { flags::SHARED_WRITABLE } else { 0 };
            a.on(CallKind::Map).with(|raw| {
                (raw.fd, raw.offset, raw.length, raw.flags) =
                    (a.0[4] as i32, Some(a.0[5]), a.0[1], flags);
            })
        },
    },
    call(libc::SYS_fchmod, |a| {
        a.on(CallKind::Attributes)
            .with(|raw| raw.flags = flags::MODE)
    }),
    call(libc::SYS_fchmodat, |a| {
        a.name_at(CallKind::AttributesName)
            .with(|raw| raw.flags = flags::MODE)
    }),
    call(libc::SYS_fchown, |a| {
        a.on(CallKind::Attributes)
            .with(|raw| raw.flags = flags::OWNER)
    }),
    call(libc::SYS_fchownat, |a| {
        a.name_with(CallKind::AttributesName, CallKind::Attributes, 4)
            .with(|raw| raw.flags = flags::OWNER)
    }),
    call(libc::SYS_utimensat, |a| {
        a.name_with(CallKind::AttributesName, CallKind::Attributes, 3)
            .with(|raw| raw.flags = flags::TIMES)
    }),
    call(libc::SYS_chdir, |a| {
        Seen {
            path: Some(a.0[0]),
            ..a.name(CallKind::StatName, 0)
        }
        .changing_directory()
    }),
    call(libc::SYS_fchdir, |a| a.act(Act::ChangeDirectory)),
    call(libc::SYS_clone, |a| a.act(Act::Clone(a.0[0], None))),
    call(libc::SYS_clone3, |a| a.act(Act::Clone(0, Some(a.0[0])))),
    call(libc::SYS_unshare, |a| a.act(Act::Unshare(a.0[0]))),
    call(libc::SYS_wait4, |a| a.act(Act::Wait)),
    call(libc::SYS_io_uring_setup, |a| {
        a.act(Act::Hides(Unseen::Uring))
    }),
    call(libc::SYS_io_submit, |a| {
        a.act(Act::Hides(Unseen::Asynchronous))
    }),
    call(libc::SYS_chroot, |a| a.act(Act::Hides(Unseen::OtherRoot))),
    call(libc::SYS_pivot_root, |a| {
        a.act(Act::Hides(Unseen::OtherRoot))
    }),
    Watched {
        rule: Rule {
            number: libc::SYS_seccomp,
            only: Some((0, FILTERS)),
            except: None,
        },
        read: |a| {
            let has_supervisor = a.0[1] & libc::SECCOMP_FILTER_FLAG_NEW_LISTENER != 0;
            a.act(if has_supervisor {
                Act::Hides(Unseen::Supervised)
            } else {
                Act::Nothing
            })
        },
    },
    call(libc::SYS_renameat, |a| {
        a.names(CallKind::Rename, [Some(0), Some(1), Some(2), Some(3)])
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_open, |a| a.open(a.name(CallKind::Open, 0), 1, 2)),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_creat, |a| {
        let mut seen = a.open(a.name(CallKind::Open, 0), 1, 1);
        seen.set_open_flags(libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC);
        seen
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_stat, |a| a.name(CallKind::StatName, 0)),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_lstat, |a| {
        a.name(CallKind::StatName, 0).does_not_follow()
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_access, |a| a.name(CallKind::StatName, 0)),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_readlink, |a| {
        a.name(CallKind::ReadLink, 0).does_not_follow()
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_dup2, |a| a.on(CallKind::Duplicate)),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_rename, |a| {
        a.names(CallKind::Rename, [None, Some(0), None, Some(1)])
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_unlink, |a| {
        a.name(CallKind::Unlink, 0).does_not_follow()
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_rmdir, |a| {
        a.name(CallKind::RemoveDirectory, 0).does_not_follow()
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_mkdir, |a| {
        a.name(CallKind::MakeDirectory, 0)
            .does_not_follow()
            .with(|raw| raw.length = a.0[1] & 0o7777)
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_link, |a| {
        a.names(CallKind::Link, [None, Some(0), None, Some(1)])
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_mknod, |a| a.makes_node(1)),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_symlink, |a| {
        a.names(CallKind::SymbolicLink, [None, Some(1), None, Some(0)])
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_chmod, |a| {
        a.name(CallKind::AttributesName, 0)
            .with(|raw| raw.flags = flags::MODE)
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_chown, |a| {
        a.name(CallKind::AttributesName, 0)
            .with(|raw| raw.flags = flags::OWNER)
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_lchown, |a| {
        a.name(CallKind::AttributesName, 0)
            .does_not_follow()
            .with(|raw| raw.flags = flags::OWNER)
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_utime, |a| {
        a.name(CallKind::AttributesName, 0)
            .with(|raw| raw.flags = flags::TIMES)
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_utimes, |a| {
        a.name(CallKind::AttributesName, 0)
            .with(|raw| raw.flags = flags::TIMES)
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_getdents, |a| {
        a.on(CallKind::List).with(|raw| raw.length = a.0[2])
    }),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_fork, |a| a.act(Act::Clone(0, None))),
    #[cfg(target_arch = "x86_64")]
    call(libc::SYS_vfork, |a| a.act(Act::Clone(0, None))),
];

impl Seen {
    fn changing_directory(mut self) -> Seen {
        self.act = Act::ChangeDirectory;
        self
    }
}

/// A call that is watched.
#[derive(Debug)]
pub struct Watched {
    /// The number of the call on this machine, and the condition under which it stops.
    pub rule: Rule,
    /// Interprets its arguments.
    pub read: fn(Arguments) -> Seen,
}

/// The registers of a call.
#[derive(Debug, Clone, Copy)]
pub struct Arguments(pub [u64; 6]);

impl Arguments {
    fn int(self, at: usize) -> i32 {
        self.0[at] as i32
    }

    /// Returns a call of that kind on the descriptor in the first register.
    fn on(self, kind: CallKind) -> Seen {
        Seen {
            act: Act::File,
            raw: RawCall {
                fd: self.int(0),
                ..RawCall::new(kind)
            },
            path: None,
            second: None,
            pieces: None,
            empty_path: false,
            how: None,
            offsets: [None; 2],
            range: None,
        }
    }

    /// Returns a call that moves data from one descriptor to another, which are in these registers.
    /// Others contain the addresses of their offsets, and the length.
    fn copies(
        self,
        [from, to]: [usize; 2],
        offsets: [Option<usize>; 2],
        length: usize,
        flags: u32,
    ) -> Seen {
        let address = |register: Option<usize>| {
            register
                .map(|at| self.0[at])
                .filter(|address| *address != 0)
        };
        let mut seen = self.on(CallKind::Copy);
        (seen.raw.fd, seen.raw.other) = (self.int(from), self.int(to));
        (seen.raw.length, seen.raw.flags) = (self.0[length], flags);
        Seen {
            offsets: offsets.map(address),
            ..seen
        }
    }

    /// Returns an ioctl whose structure contains a range.
    fn clones_range(self, flags: u32) -> Seen {
        let seen = self.on(CallKind::Copy);
        Seen {
            range: Some(self.0[2]),
            ..seen.with(|raw| (raw.other, raw.flags) = (raw.fd, flags))
        }
    }

    /// Returns a call that sets an extended attribute of a descriptor or of a name.
    fn sets_attribute(self, of_descriptor: bool) -> Seen {
        let kind = if of_descriptor {
            CallKind::SetAttribute
        } else {
            CallKind::SetAttributeName
        };
        let mut seen = if of_descriptor {
            self.on(kind)
        } else {
            self.name(kind, 0)
        };
        seen.second = Some(self.0[1]);
        seen.with(|raw| (raw.length, raw.flags) = (self.0[3], self.0[4] as u32 & 3))
    }

    /// Returns a call that is not about files themselves.
    fn act(self, act: Act) -> Seen {
        Seen {
            act,
            ..self.on(CallKind::Stat)
        }
    }

    /// Returns a call that moves bytes, at an offset or at the position of the descriptor.
    fn moves(self, kind: CallKind) -> Seen {
        let mut seen = self.on(kind);
        seen.raw.length = self.0[2];
        if matches!(kind, CallKind::ReadAt | CallKind::WriteAt) {
            seen.raw.offset = Some(self.0[3]);
        }
        seen
    }

    /// Like [`Arguments::moves`], in pieces.
    fn moves_pieces(self, kind: CallKind) -> Seen {
        let mut seen = self.moves(kind);
        (seen.raw.length, seen.pieces) = (0, Some((self.0[1], self.0[2])));
        seen
    }

    /// Returns preadv2 and pwritev2, whose offset of -1 means the position of the descriptor.
    fn moves_pieces_or_on(self, at: CallKind, on: CallKind) -> Seen {
        self.moves_pieces(if self.0[3] as i64 == -1 { on } else { at })
    }

    /// Returns a call on a name that begins in the working directory. The path is in that register.
    fn name(self, kind: CallKind, at: usize) -> Seen {
        let mut seen = self.on(kind);
        seen.raw.fd = crate::AT_CWD;
        seen.path = Some(self.0[at]);
        seen
    }

    /// Returns a call on a name that begins in the directory in the first register.
    fn name_at(self, kind: CallKind) -> Seen {
        Seen {
            path: Some(self.0[1]),
            ..self.on(kind)
        }
    }

    /// Like [`Arguments::name_at`], with the flags AT_* in that register.
    fn name_with(self, kind: CallKind, on: CallKind, at: usize) -> Seen {
        let mut seen = self.name_at(kind);
        seen.raw.follows = self.int(at) & libc::AT_SYMLINK_NOFOLLOW == 0;
        if self.int(at) & libc::AT_EMPTY_PATH != 0 {
            seen.empty_path = true;
        }
        // Without a path the call is about the descriptor.
        if self.0[1] == 0 {
            (seen.raw.kind, seen.path) = (on, None);
        }
        seen
    }

    /// Returns a call on two names, with the directories that they begin in.
    fn names(self, kind: CallKind, [at, path, other, second]: [Option<usize>; 4]) -> Seen {
        let directory = |register: Option<usize>| register.map_or(crate::AT_CWD, |at| self.int(at));
        let mut seen = self.on(kind);
        (seen.raw.fd, seen.raw.other, seen.raw.follows) = (directory(at), directory(other), false);
        (seen.path, seen.second) = (path.map(|at| self.0[at]), second.map(|at| self.0[at]));
        seen
    }

    /// Returns a mknod, with the mode in that register. A trace has no call that makes a regular
    /// file without opening it.
    fn makes_node(self, mode: usize) -> Seen {
        let is_file = matches!(self.0[mode] as u32 & libc::S_IFMT, 0 | libc::S_IFREG);
        self.act(if is_file {
            Act::Hides(Unseen::Outside)
        } else {
            Act::Nothing
        })
    }

    /// Returns an open, with the open flags and the mode in these registers.
    fn open(self, mut seen: Seen, flags_at: usize, mode: usize) -> Seen {
        seen.set_open_flags(self.int(flags_at));
        seen.raw.length = self.0[mode] & 0o7777;
        seen
    }
}

impl Seen {
    fn does_not_follow(mut self) -> Seen {
        self.raw.follows = false;
        self
    }

    /// Returns the call that removes an extended attribute, which has neither a value nor flags.
    fn removing(self) -> Seen {
        self.with(|raw| (raw.length, raw.flags) = (0, flags::REMOVE))
    }

    fn with(mut self, change: impl FnOnce(&mut RawCall<'static>)) -> Seen {
        change(&mut self.raw);
        self
    }

    /// Sets the meaning of the flags O_*.
    pub fn set_open_flags(&mut self, given: i32) {
        self.raw.flags = open_flags(given);
        self.raw.close_on_exec = given & libc::O_CLOEXEC != 0;
        self.raw.follows = given & libc::O_NOFOLLOW == 0
            && given & (libc::O_CREAT | libc::O_EXCL) != libc::O_CREAT | libc::O_EXCL;
    }
}

/// Translates the flags RWF_* of a write to those of a trace.
fn write_flags(given: i32) -> u32 {
    let known = [
        (libc::RWF_DSYNC, flags::DATA_SYNC),
        (libc::RWF_SYNC, flags::SYNC),
        (libc::RWF_APPEND, flags::APPEND),
    ];
    known
        .iter()
        .filter(|(bits, _)| given & bits != 0)
        .fold(0, |all, (_, flag)| all | flag)
}

/// Translates the flags of open(2) from this machine's values to those of a trace.
pub fn open_flags(given: i32) -> u32 {
    let access = match given & libc::O_ACCMODE {
        libc::O_RDONLY => flags::READ,
        libc::O_WRONLY => flags::WRITE,
        _ => flags::READ | flags::WRITE,
    };
    let known = [
        (libc::O_CREAT, flags::CREATE),
        (libc::O_EXCL, flags::EXCLUSIVE),
        (libc::O_TRUNC, flags::TRUNCATE),
        (libc::O_APPEND, flags::APPEND),
        (libc::O_DIRECT, flags::DIRECT),
        (libc::O_SYNC, flags::SYNC),
        (libc::O_DSYNC, flags::DATA_SYNC),
        (libc::O_DIRECTORY, flags::DIRECTORY),
        (libc::O_NOFOLLOW, flags::NO_FOLLOW),
        (libc::O_PATH, flags::PATH),
        (libc::O_TMPFILE, flags::TEMPORARY),
    ];
    known
        .iter()
        .filter(|(bits, _)| given & bits == *bits)
        .fold(access, |all, (_, flag)| all | flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_watched_once() {
        for (at, watched) in CALLS.iter().enumerate() {
            assert!(
                CALLS[..at]
                    .iter()
                    .all(|other| other.rule.number != watched.rule.number),
                "{}",
                watched.rule.number
            );
        }
    }

    #[test]
    fn calls_known_from_registers_need_no_stop() {
        let numbers = numbers_without_stop();
        for number in [
            libc::SYS_read,
            libc::SYS_pwrite64,
            libc::SYS_fdatasync,
            libc::SYS_lseek,
            libc::SYS_fstat,
        ] {
            assert!(numbers.contains(&(number as i32)), "{number}");
        }
        for number in [
            libc::SYS_openat,
            libc::SYS_close,
            libc::SYS_dup,
            libc::SYS_preadv,
            libc::SYS_getdents64,
        ] {
            assert!(!numbers.contains(&(number as i32)), "{number}");
        }
        assert_eq!(rules(true).len(), rules(false).len() + numbers.len());
        assert!(
            WAITS
                .iter()
                .all(|number| CALLS.iter().all(|watched| watched.rule.number != *number))
        );
    }

    #[test]
    fn copies_and_durable_writes_are_known_by_their_arguments() {
        let copy = seen(libc::SYS_copy_file_range as u64, [3, 0x1000, 4, 0, 500, 0]).unwrap();
        assert_eq!(
            (copy.raw.fd, copy.raw.other, copy.raw.length, copy.offsets),
            (3, 4, 500, [Some(0x1000), None])
        );
        let send = seen(libc::SYS_sendfile as u64, [4, 3, 0x1000, 500, 0, 0]).unwrap();
        assert_eq!(
            (send.raw.fd, send.raw.other, send.raw.length, send.raw.flags),
            (3, 4, 500, flags::SEND)
        );
        let clone = seen(libc::SYS_ioctl as u64, [4, u64::from(CLONE), 3, 0, 0, 0]).unwrap();
        assert_eq!(
            (clone.raw.fd, clone.raw.other, clone.raw.flags),
            (3, 4, flags::CLONE)
        );
        for (given, expected) in [
            (libc::RWF_DSYNC, flags::DATA_SYNC),
            (libc::RWF_SYNC, flags::SYNC),
            (libc::RWF_HIPRI, 0),
        ] {
            let write = seen(
                libc::SYS_pwritev2 as u64,
                [3, 0x1000, 1, 0, 0, given as u64],
            )
            .unwrap();
            assert_eq!(write.raw.flags, expected, "{given}");
        }
        // O_SYNC contains O_DSYNC.
        assert_eq!(open_flags(libc::O_DSYNC), flags::READ | flags::DATA_SYNC);
        assert_eq!(
            open_flags(libc::O_SYNC),
            flags::READ | flags::DATA_SYNC | flags::SYNC
        );
    }

    #[test]
    fn links_of_open_files_and_nodes_are_known_by_their_arguments() {
        let link = |flags: i32| {
            seen(
                libc::SYS_linkat as u64,
                [3, 0x1000, 4, 0x2000, flags as u64, 0],
            )
            .unwrap()
        };
        assert!(
            link(libc::AT_SYMLINK_FOLLOW).raw.follows && !link(libc::AT_EMPTY_PATH).raw.follows
        );
        let node = |mode: u32| {
            seen(
                libc::SYS_mknodat as u64,
                [0, 0x1000, u64::from(mode), 0, 0, 0],
            )
            .unwrap()
            .act
        };
        assert_eq!(
            [node(0o644), node(libc::S_IFREG)],
            [Act::Hides(Unseen::Outside); 2]
        );
        assert_eq!(node(libc::S_IFIFO | 0o600), Act::Nothing);
    }

    #[test]
    fn locks_and_memory_without_a_file_are_let_alone() {
        assert!(
            seen(
                libc::SYS_fcntl as u64,
                [3, libc::F_SETLK as u64, 0, 0, 0, 0]
            )
            .is_none()
        );
        assert!(
            seen(
                libc::SYS_fcntl as u64,
                [3, libc::F_DUPFD_CLOEXEC as u64, 0, 0, 0, 0]
            )
            .is_some()
        );
        assert!(
            seen(
                libc::SYS_mmap as u64,
                [0, 4096, 3, 2, u64::from(u32::MAX), 0]
            )
            .is_none()
        );
        assert!(seen(libc::SYS_ioctl as u64, [3, libc::FIONREAD, 0, 0, 0, 0]).is_none());
        assert!(seen(libc::SYS_getpid as u64, [0; 6]).is_none());
    }
}
