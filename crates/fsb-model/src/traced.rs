//! Traced samples: the time of worker threads by kernel stack, and the table that makes classes of
//! stacks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The time of a trial's worker threads, from the first to the last timed call of each sample, by
/// what they did.
///
/// Tracing slows a sample down. Traced trials are therefore in a phase of their own and never
/// ranked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Traced {
    /// Nanoseconds of all threads together.
    pub thread_ns: u64,
    /// Operations finished.
    pub operations: u64,
    /// Nanoseconds in which a thread could run and another one had its processor.
    pub run_queue_ns: u64,
    /// Waits by stack, the longest first.
    pub waits: Vec<TracedStack>,
    /// CPU time by stack, as samples of the stack divide it; the largest first.
    pub runs: Vec<TracedStack>,
    /// Nanoseconds that the hypervisor gave to other guests, as far as these threads have neither
    /// waits nor CPU time.
    #[serde(skip_serializing_if = "is_zero")]
    pub stolen_ns: u64,
    /// Nanoseconds that fsb's eBPF programs ran on all processors within the timed samples: all of
    /// this time if they delay an operation wherever they run. Absent if the kernel does not count
    /// them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_ns: Option<u64>,
    /// Contended locks by stack, from the first attempt to the acquisition, asleep or spinning; the
    /// longest first. The time is in the waits and the CPU time as well. Absent if the kernel does
    /// not report contention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locks: Option<Vec<TracedStack>>,
    /// The kernel's own threads of file systems and devices. [`Traced::thread_ns`] does not include
    /// their time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel_threads: Vec<KernelThreads>,
    /// Requests that the target's device served, by kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestTotals>,
    /// Requests of the sample with the most of them, in the order of their completion: all, or
    /// evenly chosen ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shown_requests: Vec<TracedRequest>,
    /// Commits of the target's file system.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub commits: BTreeMap<CommitKind, u64>,
    /// Observations that the kernel had no room for.
    pub lost: u64,
    /// The reason why the trial has no such times; absent if it has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Time of threads with the same kernel stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TracedStack {
    /// The kernel's functions, the innermost first. Empty if the stack is not known, as that of
    /// rare stacks together.
    pub functions: Vec<String>,
    /// The class, if the functions were removed from a published page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<TimeClass>,
    /// Whether the threads ran in user mode and therefore had no kernel stack.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub user: bool,
    /// Whether outer functions are missing, because the stack has too many.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Waits or samples.
    pub count: u64,
    /// Nanoseconds.
    pub ns: u64,
    /// The part of it in which the target's device was flushing its cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub flush_ns: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Time of the kernel's threads of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelThreads {
    /// The kind.
    pub kind: ThreadKind,
    /// Nanoseconds in which they ran. The last run of each thread in a sample is missing.
    pub run_ns: u64,
    /// Nanoseconds in which they could run and another thread had the processor.
    pub run_queue_ns: u64,
    /// Waits within their work by stack, the longest first. Waits for work are left out.
    pub waits: Vec<TracedStack>,
}

/// A kind of kernel threads, by the begin of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThreadKind {
    /// Journals of ext3 and ext4.
    Jbd2,
    /// Writes the metadata of xfs that is in its log.
    Xfsaild,
    /// Transactions and the cleaner of btrfs.
    Btrfs,
    /// Checkpoints, flushes and the cleaner of F2FS.
    F2fs,
    /// Loop devices, before Linux 5.14.
    Loop,
    /// Work queues: writeback, file systems and loop devices, also of other devices.
    Kworker,
}

/// Every kind of kernel threads that is traced, with the begin of their names.
pub const THREAD_KINDS: [(ThreadKind, &str); 6] = [
    (ThreadKind::Jbd2, "jbd2"),
    (ThreadKind::Xfsaild, "xfsaild"),
    (ThreadKind::Btrfs, "btrfs"),
    (ThreadKind::F2fs, "f2fs"),
    (ThreadKind::Loop, "loop"),
    (ThreadKind::Kworker, "kworker"),
];

impl ThreadKind {
    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        THREAD_KINDS
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("", |(_, name)| name)
    }
}

/// The kind of a block request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Discards or zeroes a range without data.
    Discard,
    /// Flushes the device's cache.
    Flush,
}

impl RequestKind {
    /// Returns its name in reports, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            RequestKind::Read => "reads",
            RequestKind::Write => "writes",
            RequestKind::Discard => "discards",
            RequestKind::Flush => "flushes",
        }
    }
}

/// The requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestTotals {
    /// The kind.
    pub kind: RequestKind,
    /// Their number. Flushes that overlap count as one.
    pub count: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Nanoseconds from issue to completion, added up.
    pub ns: u64,
}

/// A block request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracedRequest {
    /// The kind.
    pub kind: RequestKind,
    /// Nanoseconds from the first timed call of the sample to its issue.
    pub at_ns: u64,
    /// Nanoseconds from its issue to its completion.
    pub ns: u64,
    /// Its first byte on the device; 0 for a flush.
    pub offset: u64,
    /// Its bytes; 0 for a flush.
    pub bytes: u64,
}

/// A kind of commit, by the kernel's tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CommitKind {
    /// `jbd2_end_commit`: a transaction of ext3 or ext4.
    Jbd2,
    /// `ext4_fc_commit_stop`: a fast commit of ext4, or an attempt of one.
    Ext4Fast,
    /// `xfs_log_force`: the log of xfs is written up to some transaction.
    XfsLogForce,
    /// `btrfs_transaction_commit`: a transaction of btrfs.
    Btrfs,
}

impl CommitKind {
    /// Returns its name in reports, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            CommitKind::Jbd2 => "jbd2 commits",
            CommitKind::Ext4Fast => "ext4 fast commits",
            CommitKind::XfsLogForce => "xfs log forces",
            CommitKind::Btrfs => "btrfs commits",
        }
    }
}

/// A class of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TimeClass {
    /// The device flushes its cache.
    DeviceFlush,
    /// The kernel slows down a writer: too many dirty pages, or too many writes under way.
    Throttling,
    /// The queue of the device is full.
    Queue,
    /// Another thread allocates space or inodes.
    AllocatorLock,
    /// Another thread uses the same directory.
    DirectoryLock,
    /// Another thread uses the same file.
    InodeLock,
    /// Another lock of the kernel.
    OtherLock,
    /// The journal has no room, or is between two transactions.
    LogSpace,
    /// The journal commits.
    JournalCommit,
    /// Direct I/O.
    DirectIo,
    /// Pages or metadata are read.
    PageRead,
    /// Pages or metadata are written.
    Writeback,
    /// A FUSE or NFS server answers.
    Server,
    /// The program itself waits: for its threads, or for a time.
    Program,
    /// Another thread has the processor.
    RunQueue,
    /// The hypervisor gave the processor to another guest.
    Stolen,
    /// CPU: copying and clearing memory.
    CpuCopy,
    /// CPU: block layer and drivers.
    CpuBlock,
    /// CPU: file system and page cache.
    CpuFileSystem,
    /// CPU: the program, and the rest of the kernel.
    CpuElsewhere,
    /// Waits of no class.
    Unexplained,
}

/// The activity of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// The thread waits for something else than a processor.
    Waits,
    /// The thread runs.
    Runs,
}

/// A row of the table of classes. A stack has the class of the first row that it matches.
#[derive(Debug)]
pub struct ClassRule {
    /// The class.
    pub class: TimeClass,
    /// The activity, or `None` for both: a lock is waited for on the processor, too.
    pub activity: Option<Activity>,
    /// The code that has such functions.
    pub code: &'static str,
    /// The stacks.
    pub pattern: StackPattern,
}

/// The stacks of a class. Names of functions are separated by spaces, and a `*` in one matches any
/// text.
#[derive(Debug)]
pub enum StackPattern {
    /// Stacks with one of these functions.
    Has(&'static str),
    /// Stacks of threads that take a lock which one of these functions requested.
    LockOf(&'static str),
    /// Stacks of threads that take any lock.
    AnyLock,
}

/// Functions that take locks. Those below them, such as the scheduler's, are not looked at.
const LOCKS: &str = "rwsem_down_* down_read* down_write* __down_read* __down_write* __down* down \
    down_interruptible down_killable down_timeout __mutex_lock* mutex_lock* percpu_down_* __percpu_down_read \
    percpu_rwsem_wait osq_lock rwsem_spin_on_owner mutex_spin_on_owner native_queued_spin_lock_slowpath \
    queued_spin_lock_slowpath pv_queued_spin_lock_slowpath __pv_queued_spin_lock_slowpath \
    queued_read_lock_slowpath queued_write_lock_slowpath _raw_spin_lock* _raw_read_lock* _raw_write_lock*";

const fn waits(class: TimeClass, code: &'static str, functions: &'static str) -> ClassRule {
    ClassRule {
        class,
        activity: Some(Activity::Waits),
        code,
        pattern: StackPattern::Has(functions),
    }
}

const fn runs(class: TimeClass, code: &'static str, functions: &'static str) -> ClassRule {
    ClassRule {
        class,
        activity: Some(Activity::Runs),
        code,
        pattern: StackPattern::Has(functions),
    }
}

const fn lock(class: TimeClass, code: &'static str, pattern: StackPattern) -> ClassRule {
    ClassRule {
        class,
        activity: None,
        code,
        pattern,
    }
}

/// The table of classes: the first row that a stack matches decides.
pub static RULES: &[ClassRule] = &[
    waits(
        TimeClass::DeviceFlush,
        "block layer",
        "blkdev_issue_flush xfs_flush_bdev* f2fs_issue_flush",
    ),
    waits(TimeClass::Throttling, "page cache", "balance_dirty_pages*"),
    waits(
        TimeClass::Throttling,
        "block layer",
        "wbt_wait rq_qos_wait blk_throtl_*",
    ),
    waits(
        TimeClass::Queue,
        "block layer",
        "blk_mq_get_tag __blk_mq_get_tag blk_queue_enter __bio_queue_enter",
    ),
    lock(
        TimeClass::AllocatorLock,
        "ext4",
        StackPattern::LockOf(
            "ext4_mb_* ext4_new_inode __ext4_new_inode ext4_free_blocks ext4_lock_group",
        ),
    ),
    lock(
        TimeClass::AllocatorLock,
        "xfs",
        StackPattern::LockOf("xfs_buf_lock xfs_buf_find_lock xfs_alloc_* xfs_dialloc* xfs_perag_*"),
    ),
    lock(
        TimeClass::AllocatorLock,
        "btrfs",
        StackPattern::LockOf(
            "btrfs_reserve_* find_free_extent* btrfs_find_free_* btrfs_add_reserved_*",
        ),
    ),
    lock(
        TimeClass::AllocatorLock,
        "f2fs",
        StackPattern::LockOf("f2fs_allocate_* f2fs_alloc_nid* f2fs_build_free_nids"),
    ),
    lock(
        TimeClass::DirectoryLock,
        "names",
        StackPattern::LockOf(
            "path_openat open_last_lookups filename_create filename_unlinkat filename_rmdir do_unlinkat do_rmdir \
             do_renameat2 lock_rename* lock_two_directories start_dirop __start_dirop start_creating* \
             start_removing* start_renaming* __start_renaming* walk_component lookup_slow __lookup_slow \
             iterate_dir lookup_one* vfs_rename vfs_unlink vfs_rmdir",
        ),
    ),
    lock(
        TimeClass::InodeLock,
        "files",
        StackPattern::LockOf(
            "*_file_write_iter *_file_read_iter *_buffered_write* *_buffered_read* *_dio_write* *_dio_read* \
             *_file_fsync *_sync_file *_fallocate *_setattr notify_change do_truncate chmod_common \
             chown_common vfs_setxattr* xfs_ilock* btrfs_inode_lock ext4_map_blocks ext4_da_map_blocks \
             inode_lock*",
        ),
    ),
    lock(TimeClass::OtherLock, "any", StackPattern::AnyLock),
    waits(
        TimeClass::LogSpace,
        "ext4, ext3",
        "start_this_handle add_transaction_credits wait_transaction_* __jbd2_log_wait_for_space \
         jbd2_log_do_checkpoint",
    ),
    waits(
        TimeClass::LogSpace,
        "xfs",
        "xlog_grant_head_* xfs_log_reserve xfs_log_regrant xlog_state_get_iclog_space",
    ),
    waits(
        TimeClass::LogSpace,
        "btrfs",
        "handle_reserve_ticket wait_reserve_ticket wait_current_trans",
    ),
    waits(TimeClass::LogSpace, "f2fs", "f2fs_balance_fs*"),
    waits(
        TimeClass::JournalCommit,
        "ext4, ext3",
        "jbd2_log_wait_commit jbd2_complete_transaction jbd2_journal_*commit* jbd2_fc_* ext4_fc_commit* \
         ext4_force_commit do_get_write_access jbd2_journal_get_*_access",
    ),
    waits(
        TimeClass::JournalCommit,
        "xfs",
        "xlog_wait_on_iclog xlog_cil_force* xlog_force_* xfs_log_force* xlog_cil_push* xfs_file_fsync \
         xfs_buf_wait_unpin __xfs_iunpin_wait xfs_iunpin_wait xfs_qm_dqunpin_wait",
    ),
    waits(
        TimeClass::JournalCommit,
        "btrfs",
        "btrfs_sync_log btrfs_commit_transaction* wait_for_commit btrfs_wait_tree_log_extents wait_log_commit",
    ),
    waits(
        TimeClass::JournalCommit,
        "f2fs",
        "f2fs_issue_checkpoint f2fs_write_checkpoint f2fs_fsync_node_pages f2fs_wait_on_node_pages_writeback",
    ),
    waits(
        TimeClass::JournalCommit,
        "jfs, nilfs2, reiserfs",
        "lmGroupCommit nilfs_construct_* nilfs_segctor_* do_journal_end flush_commit_list",
    ),
    waits(
        TimeClass::DirectIo,
        "files",
        "__iomap_dio_rw iomap_dio_rw __blockdev_direct_IO *_direct_IO",
    ),
    waits(
        TimeClass::PageRead,
        "page cache",
        "filemap_read* filemap_get_pages filemap_fault do_read_cache_folio read_cache_* filemap_update_page",
    ),
    waits(
        TimeClass::PageRead,
        "metadata",
        "__bread_gfp bh_read* __bh_read* ext4_bread* ext4_read_* ext4_sb_bread* ext4_get_inode_loc \
         __ext4_get_inode_loc* xfs_buf_read_map xfs_buf_iowait read_extent_buffer* btrfs_read_* \
         f2fs_get_node_* __get_node_folio f2fs_get_meta_*",
    ),
    waits(
        TimeClass::Writeback,
        "page cache",
        "folio_wait_writeback* folio_wait_stable __filemap_fdatawait_range filemap_fdatawait* \
         file_write_and_wait_range __sync_dirty_buffer sync_dirty_buffer fsync_buffers_list __wait_on_buffer \
         do_writepages submit_bio_wait",
    ),
    waits(
        TimeClass::Writeback,
        "btrfs, f2fs",
        "btrfs_wait_ordered_* btrfs_start_ordered_extent* btrfs_sync_file f2fs_wait_on_* f2fs_do_sync_file",
    ),
    waits(
        TimeClass::Server,
        "FUSE, NFS",
        "request_wait_answer __fuse_simple_request rpc_wait_bit_killable rpc_execute nfs_wait_*",
    ),
    waits(
        TimeClass::Program,
        "the program",
        "futex_* __futex_wait hrtimer_nanosleep do_epoll_wait do_poll do_sys_poll pipe_read anon_pipe_read \
         pipe_write anon_pipe_write do_wait io_cqring_wait read_events do_sigtimedwait",
    ),
    runs(
        TimeClass::CpuCopy,
        "memory",
        "_copy_* copy_*_iter* copy_folio_* copy_page* rep_movs* __memcpy* memcpy* memset* clear_page* clear_folio* \
         zero_user* copy_user_* fault_in_*",
    ),
    runs(
        TimeClass::CpuBlock,
        "block layer",
        "submit_bio* __submit_bio blk_* __blk_* blkdev_* bio_* virtio_queue_rq virtblk_* loop_* nvme_* scsi_* dm_* \
         md_*",
    ),
    runs(
        TimeClass::CpuFileSystem,
        "file systems",
        "ext4_* __ext4_* ext2_* ext3_* jbd2_* __jbd2_* start_this_handle xfs_* xlog_* btrfs_* f2fs_* nilfs_* jfs_* \
         reiserfs_* ntfs_* fat_* exfat_* minix_* fuse_* nfs_* shmem_* iomap_* generic_* filemap_* __filemap_* \
         file_write_and_wait_range vfs_* do_writepages writeback_* path_* link_path_walk filename_* \
         do_filp_open do_unlinkat do_mkdirat do_rmdir do_renameat2 iterate_dir d_* __d_* dput iput evict* \
         ksys_* do_fsync __x64_sys_* __arm64_sys_*",
    ),
];

/// Returns whether a function is one of these names, which are separated by spaces. A `*` matches
/// any text.
fn is_among(name: &str, patterns: &str) -> bool {
    patterns.split(' ').any(|pattern| matches(name, pattern))
}

fn matches(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }

    rest.ends_with(last)
}

/// The outermost functions of a system call, which depend on the processor and the kernel's
/// release.
const ENTRY: &str =
    "entry_* do_syscall_64 x64_sys_call el0* do_el0_* invoke_syscall* ret_from_fork*";

/// The functions in which kernel threads wait for work.
const FOR_WORK: &str = "kjournald2 xfsaild transaction_kthread cleaner_kthread issue_checkpoint_thread issue_flush_thread \
    issue_discard_thread gc_thread_func loop_thread kthread_worker_fn worker_thread rescuer_thread kthread";

/// Functions of the scheduler and of interrupts, which may be inside of a lock's.
const SCHEDULER: &str =
    "__schedule schedule* io_schedule* preempt_schedule* asm_* sysvec_* irq* __irq*";

/// Returns the function that called the innermost lock: the first one that is neither the
/// scheduler's nor a lock. Returns `None` if the thread is not in a lock.
fn caller_of_lock(functions: &[String]) -> Option<&str> {
    let begin = functions
        .iter()
        .position(|name| !is_among(name, SCHEDULER))?;
    let locks = functions[begin..]
        .iter()
        .take_while(|name| is_among(name, LOCKS))
        .count();
    (locks > 0).then(|| functions.get(begin + locks).map_or("", String::as_str))
}

impl ClassRule {
    fn matches(&self, functions: &[String], activity: Activity) -> bool {
        if self.activity.is_some_and(|own| own != activity) {
            return false;
        }
        match self.pattern {
            StackPattern::Has(names) => functions.iter().any(|name| is_among(name, names)),
            StackPattern::LockOf(names) => {
                caller_of_lock(functions).is_some_and(|caller| is_among(caller, names))
            }
            StackPattern::AnyLock => caller_of_lock(functions).is_some(),
        }
    }
}

impl TimeClass {
    /// Returns the class of a stack.
    pub fn of_stack(stack: &TracedStack, activity: Activity) -> TimeClass {
        if let Some(class) = stack.class {
            return class;
        }
        let rule = RULES
            .iter()
            .find(|rule| rule.matches(&stack.functions, activity));
        rule.map_or_else(
            || match activity {
                Activity::Runs => TimeClass::CpuElsewhere,
                Activity::Waits => TimeClass::Unexplained,
            },
            |rule| rule.class,
        )
    }

    /// Returns whether the device works while a thread waits in this class, so that the part with a
    /// flush under way is a wait for the flush.
    fn waits_for_device(self) -> bool {
        matches!(
            self,
            TimeClass::JournalCommit
                | TimeClass::LogSpace
                | TimeClass::Writeback
                | TimeClass::DirectIo
                | TimeClass::PageRead
        )
    }

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            TimeClass::DeviceFlush => "device flush",
            TimeClass::Throttling => "throttling",
            TimeClass::Queue => "device queue",
            TimeClass::AllocatorLock => "allocator lock",
            TimeClass::DirectoryLock => "directory lock",
            TimeClass::InodeLock => "inode lock",
            TimeClass::OtherLock => "other lock",
            TimeClass::LogSpace => "log space",
            TimeClass::JournalCommit => "journal commit",
            TimeClass::DirectIo => "direct I/O",
            TimeClass::PageRead => "page read",
            TimeClass::Writeback => "writeback",
            TimeClass::Server => "server",
            TimeClass::Program => "program waits",
            TimeClass::RunQueue => "run queue",
            TimeClass::Stolen => "stolen by the hypervisor",
            TimeClass::CpuCopy => "CPU copying",
            TimeClass::CpuBlock => "CPU block layer",
            TimeClass::CpuFileSystem => "CPU file system",
            TimeClass::CpuElsewhere => "CPU elsewhere",
            TimeClass::Unexplained => "unexplained",
        }
    }
}

impl Traced {
    /// Replaces the functions of all stacks by their class.
    pub(crate) fn remove_functions(&mut self) {
        let of_threads = self
            .kernel_threads
            .iter_mut()
            .map(|threads| &mut threads.waits);
        let waits = [&mut self.waits]
            .into_iter()
            .chain(&mut self.locks)
            .chain(of_threads);
        let of_activity = waits
            .map(|stacks| (stacks, Activity::Waits))
            .chain([(&mut self.runs, Activity::Runs)]);
        for (stacks, activity) in of_activity {
            for stack in stacks {
                stack.class = Some(TimeClass::of_stack(stack, activity));
                stack.functions.clear();
            }
        }
    }

    /// Divides [`Traced::thread_ns`]. The parts add up to it, unless more was observed than that.
    pub fn parts(&self) -> Vec<TimePart<'_>> {
        let without_stack = |class: TimeClass, ns: u64| TimePart {
            class,
            stack: None,
            ns,
        };
        let mut parts = vec![
            without_stack(TimeClass::RunQueue, self.run_queue_ns),
            without_stack(TimeClass::Stolen, self.stolen_ns),
        ];
        parts.extend(self.waits.iter().flat_map(TimePart::of_wait));
        parts.extend(self.runs.iter().map(|stack| TimePart {
            class: TimeClass::of_stack(stack, Activity::Runs),
            stack: Some(stack),
            ns: stack.ns,
        }));
        // A record may come from elsewhere, with any numbers.
        let found = parts
            .iter()
            .fold(0u64, |sum, part| sum.saturating_add(part.ns));
        parts.push(without_stack(
            TimeClass::Unexplained,
            self.thread_ns.saturating_sub(found),
        ));
        parts.retain(|part| part.ns > 0);
        parts
    }

    /// Returns the nanoseconds of each class that occurs.
    pub fn classes(&self) -> Vec<(TimeClass, u64)> {
        let mut classes: BTreeMap<TimeClass, u64> = BTreeMap::new();
        for part in self.parts() {
            let sum = classes.entry(part.class).or_default();
            *sum = sum.saturating_add(part.ns);
        }
        classes.into_iter().collect()
    }
}

/// A part of the time of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimePart<'t> {
    /// Its class.
    pub class: TimeClass,
    /// The stack. `None` for time without one, such as that in the run queue.
    pub stack: Option<&'t TracedStack>,
    /// Nanoseconds.
    pub ns: u64,
}

impl TimePart<'_> {
    /// Divides a wait into that for a flush of the device and the rest.
    pub fn of_wait(stack: &TracedStack) -> [TimePart<'_>; 2] {
        let class = TimeClass::of_stack(stack, Activity::Waits);
        let flush_ns = if class.waits_for_device() {
            stack.flush_ns.min(stack.ns)
        } else {
            0
        };
        [
            (TimeClass::DeviceFlush, flush_ns),
            (class, stack.ns - flush_ns),
        ]
        .map(|(class, ns)| TimePart {
            class,
            stack: Some(stack),
            ns,
        })
    }
}

impl TracedStack {
    /// Returns the functions from the outermost to the innermost, without those of the entry into
    /// the kernel and of the scheduler. A thread in user mode has the function `user mode`.
    pub fn path(&self) -> Vec<&str> {
        if self.user {
            return vec!["user mode"];
        }
        let functions = self
            .functions
            .iter()
            .map(String::as_str)
            .skip_while(|name| is_among(name, SCHEDULER));
        let inner: Vec<&str> = functions.collect();
        inner
            .into_iter()
            .rev()
            .skip_while(|name| is_among(name, ENTRY))
            .collect()
    }

    /// Returns the function that requested a lock. Returns `None` if the stack is not that of a
    /// lock, or not known.
    pub fn lock_caller(&self) -> Option<&str> {
        caller_of_lock(&self.functions)
    }

    /// Returns whether a kernel thread with this stack waits for work.
    pub fn waits_for_work(&self) -> bool {
        let inner = self
            .functions
            .iter()
            .find(|name| !is_among(name, SCHEDULER));
        inner.is_some_and(|name| is_among(name, FOR_WORK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(activity: Activity, functions: &str) -> TimeClass {
        let functions = functions
            .split(' ')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        TimeClass::of_stack(
            &TracedStack {
                functions,
                ..TracedStack::default()
            },
            activity,
        )
    }

    /// Stacks of Linux 6.18.
    #[test]
    fn stacks_have_the_class_of_what_their_thread_waits_for() {
        for (functions, expected) in [
            (
                "__schedule schedule jbd2_log_wait_commit jbd2_complete_transaction ext4_sync_file do_fsync",
                TimeClass::JournalCommit,
            ),
            (
                "__schedule schedule schedule_timeout io_schedule_timeout wait_for_completion_io_timeout \
                 submit_bio_wait blkdev_issue_flush ext4_sync_file",
                TimeClass::DeviceFlush,
            ),
            (
                "__schedule schedule io_schedule folio_wait_bit folio_wait_writeback __filemap_fdatawait_range \
                 ext4_sync_file",
                TimeClass::Writeback,
            ),
            (
                "__schedule schedule xlog_wait_on_iclog xfs_log_force_seq xfs_file_fsync",
                TimeClass::JournalCommit,
            ),
            (
                "__schedule schedule io_schedule bit_wait_io __wait_on_bit out_of_line_wait_on_bit do_get_write_access \
                 jbd2_journal_get_write_access __ext4_journal_get_write_access do_journal_get_write_access ext4_write_begin",
                TimeClass::JournalCommit,
            ),
            (
                "__schedule schedule schedule_preempt_disabled rwsem_down_write_slowpath down_write \
                 open_last_lookups path_openat",
                TimeClass::DirectoryLock,
            ),
            (
                "__schedule schedule schedule_preempt_disabled rwsem_down_write_slowpath down_write \
                 ext4_buffered_write_iter vfs_write",
                TimeClass::InodeLock,
            ),
            (
                "__schedule schedule schedule_timeout __down_common down xfs_buf_lock xfs_buf_find_lock \
                 xfs_read_agf path_openat",
                TimeClass::AllocatorLock,
            ),
            (
                "__schedule schedule __mutex_lock btrfs_log_inode btrfs_sync_file",
                TimeClass::OtherLock,
            ),
            (
                "__schedule schedule io_schedule folio_wait_bit_common filemap_get_pages filemap_read",
                TimeClass::PageRead,
            ),
            (
                "__schedule schedule futex_do_wait __futex_wait futex_wait",
                TimeClass::Program,
            ),
            (
                "__schedule schedule a_function_of_tomorrow",
                TimeClass::Unexplained,
            ),
            ("", TimeClass::Unexplained),
        ] {
            assert_eq!(class(Activity::Waits, functions), expected, "{functions}");
        }
    }

    #[test]
    fn stacks_of_running_threads_have_a_class_of_cpu_time_unless_they_spin_for_a_lock() {
        for (functions, expected) in [
            (
                "rwsem_spin_on_owner rwsem_down_write_slowpath down_write filename_create do_mkdirat",
                TimeClass::DirectoryLock,
            ),
            (
                "generic_perform_write ext4_buffered_write_iter vfs_write",
                TimeClass::CpuFileSystem,
            ),
            (
                "_copy_from_iter generic_perform_write ext4_buffered_write_iter",
                TimeClass::CpuCopy,
            ),
            (
                "blk_mq_submit_bio __submit_bio ext4_io_submit",
                TimeClass::CpuBlock,
            ),
            (
                "jbd2_journal_dirty_metadata ext4_mark_iloc_dirty",
                TimeClass::CpuFileSystem,
            ),
            ("", TimeClass::CpuElsewhere),
        ] {
            assert_eq!(class(Activity::Runs, functions), expected, "{functions}");
        }
    }

    fn stack(functions: &[&str], ns: u64, flush_ns: u64) -> TracedStack {
        let functions = functions.iter().map(|name| (*name).to_owned()).collect();
        TracedStack {
            functions,
            ns,
            flush_ns,
            count: 1,
            ..TracedStack::default()
        }
    }

    #[test]
    fn a_star_in_a_name_matches_any_text() {
        for (name, pattern, expected) in [
            ("jbd2_log_wait_commit", "jbd2_log_wait_commit", true),
            ("jbd2_log_wait_commit", "jbd2_log", false),
            ("ext4_mb_new_blocks", "ext4_mb_*", true),
            ("xfs_file_write_iter", "*_file_write_iter", true),
            (
                "jbd2_journal_commit_transaction",
                "jbd2_journal_*commit*",
                true,
            ),
            ("jbd2_journal_start", "jbd2_journal_*commit*", false),
            ("_copy_from_iter", "_copy_*_iter", true),
            ("ab", "ab*b", false),
        ] {
            assert_eq!(is_among(name, pattern), expected, "{name} {pattern}");
        }
    }

    #[test]
    fn classes_add_up_and_a_flush_within_a_commit_is_a_flush() {
        let traced = Traced {
            thread_ns: 1000,
            run_queue_ns: 50,
            waits: vec![
                stack(&["schedule", "jbd2_log_wait_commit"], 600, 450),
                stack(
                    &[
                        "schedule",
                        "rwsem_down_write_slowpath",
                        "down_write",
                        "path_openat",
                    ],
                    100,
                    80,
                ),
            ],
            runs: vec![stack(&["ext4_sync_file"], 200, 0)],
            locks: Some(vec![stack(&["down_write", "path_openat"], 100, 0)]),
            ..Traced::default()
        };
        let classes = traced.classes();
        assert_eq!(
            classes,
            [
                (TimeClass::DeviceFlush, 450),
                (TimeClass::DirectoryLock, 100),
                (TimeClass::JournalCommit, 150),
                (TimeClass::RunQueue, 50),
                (TimeClass::CpuFileSystem, 200),
                (TimeClass::Unexplained, 50),
            ]
        );
        assert_eq!(classes.iter().map(|(_, ns)| ns).sum::<u64>(), 1000);
        let mut published = traced;
        published.remove_functions();
        let stacks = published
            .waits
            .iter()
            .chain(&published.runs)
            .chain(published.locks.iter().flatten());
        assert!(stacks.into_iter().all(|stack| stack.functions.is_empty()));
        assert_eq!(published.classes(), classes);
    }

    #[test]
    fn the_path_of_a_stack_begins_after_the_system_call_and_ends_before_the_scheduler() {
        let own = stack(
            &[
                "__schedule",
                "schedule",
                "jbd2_log_wait_commit",
                "ext4_sync_file",
                "do_syscall_64",
                "entry_SYSCALL_64",
            ],
            1,
            0,
        );
        assert_eq!(own.path(), ["ext4_sync_file", "jbd2_log_wait_commit"]);
        assert_eq!(
            TracedStack {
                user: true,
                ..TracedStack::default()
            }
            .path(),
            ["user mode"]
        );
        assert!(TracedStack::default().path().is_empty());
    }

    #[test]
    fn kernel_threads_wait_for_work_or_within_it() {
        assert!(stack(&["__schedule", "schedule", "kjournald2", "kthread"], 1, 0).waits_for_work());
        assert!(
            stack(
                &["__schedule", "schedule", "worker_thread", "kthread"],
                1,
                0
            )
            .waits_for_work()
        );
        let commit = [
            "__schedule",
            "schedule",
            "io_schedule",
            "jbd2_journal_commit_transaction",
            "kjournald2",
            "kthread",
        ];
        assert!(!stack(&commit, 1, 0).waits_for_work());
        assert!(!TracedStack::default().waits_for_work());
        assert_eq!(ThreadKind::Btrfs.name(), "btrfs");
    }

    #[test]
    fn stolen_time_is_a_class_and_a_part_of_the_whole() {
        let traced = Traced {
            thread_ns: 100,
            stolen_ns: 30,
            ..Traced::default()
        };
        assert_eq!(
            traced.classes(),
            [(TimeClass::Stolen, 30), (TimeClass::Unexplained, 70)]
        );
    }

    /// Returns the table as the documentation shows it.
    fn documented() -> String {
        let row = |rule: &ClassRule| {
            let names = |names: &str| format!("`{}`", names.replace(' ', "` `"));
            let activity = match rule.activity {
                Some(Activity::Waits) => "waits",
                Some(Activity::Runs) => "runs",
                None => "both",
            };
            let functions = match rule.pattern {
                StackPattern::Has(functions) => names(functions),
                StackPattern::LockOf(callers) => format!("a lock, called by {}", names(callers)),
                StackPattern::AnyLock => "a lock".to_owned(),
            };
            format!(
                "| {} | {activity} | {} | {functions} |\n",
                rule.class.name(),
                rule.code
            )
        };
        RULES.iter().map(row).collect()
    }

    #[test]
    fn the_documentation_has_the_table_of_classes() {
        let page = include_str!("../../../docs/methods/explain.md");
        assert!(
            page.contains(&documented()),
            "docs/methods/explain.md needs this table:\n{}",
            documented()
        );
    }
}
