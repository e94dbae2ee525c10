//! Workloads that read and write records: `write`, `read`, `append`, the operations of IOzone, and
//! `cache-warm-up`.

use fsb_model::{Access, CacheState};

use super::records::{Before, RecordAction, RecordWorkload};

/// Writes records into new files, or over fully written files.
///
/// The two are different work: the file system has to find space for new data, but replaces old
/// data in place. Random writes are always of the second kind, or they would measure how holes are
/// filled.
pub(super) static WRITE: RecordWorkload = RecordWorkload {
    name: "write",
    operation: "write",
    about: "write records: into new files, or at random (or with overwrite) over fully written ones",
    action: RecordAction::Write,
    before: Before::Asked,
    access: &[Access::Sequential, Access::Random],
    ..RecordWorkload::BASE
};

/// Reads records of a file, or of a set of files.
pub(super) static READ: RecordWorkload = RecordWorkload {
    name: "read",
    operation: "read",
    about: "read records that were fully written, in sequence or at random, warm or cold; sets are opened file by file",
    access: &[Access::Sequential, Access::Random],
    ..RecordWorkload::BASE
};

/// A log: adds records at the end of a file that starts empty. Records of a log are small: the
/// default record of a stream is too large for one.
pub(super) static APPEND: RecordWorkload = RecordWorkload {
    name: "append",
    operation: "append",
    about: "add records to the end of a log that starts empty and grows to file_size",
    action: RecordAction::Append,
    before: Before::New,
    file_size: "min(size/64, 64M)",
    block_size: Some("4K"),
    ..RecordWorkload::BASE
};

// The operations of IOzone (W. Norcott and D. Capps, iozone.org), one constant each.
//
// Names and order are those of its table. docs/methods/iozone.md describes the intended differences
// from IOzone.

/// C's buffered streams.
const STREAMS: &[&str] = &["stdio"];
/// One call with an offset a record.
const CALLS: &[&str] = &["psync", "direct", "osync", "dsync"];
/// One call with an offset and a list of parts a record.
const VECTORS: &[&str] = &["psyncv"];

const OVER: RecordWorkload = RecordWorkload {
    action: RecordAction::Write,
    ..RecordWorkload::BASE
};
const INTO: RecordWorkload = RecordWorkload {
    action: RecordAction::Write,
    before: Before::New,
    ..RecordWorkload::BASE
};
const AGAIN: RecordWorkload = RecordWorkload {
    again: true,
    ..RecordWorkload::BASE
};

pub(super) static REWRITE: RecordWorkload = RecordWorkload {
    name: "rewrite",
    operation: "rewrite",
    about: "write records in sequence over what a fully written file holds: nothing is allocated",
    ..OVER
};

pub(super) static REREAD: RecordWorkload = RecordWorkload {
    name: "reread",
    operation: "reread",
    about: "read records in sequence that were read once before through the same open file",
    ..AGAIN
};

pub(super) static RANDOM_READ: RecordWorkload = RecordWorkload {
    name: "random-read",
    operation: "random_read",
    about: "read every record of a file once, in random order",
    access: &[Access::Random],
    ..RecordWorkload::BASE
};

pub(super) static RANDOM_WRITE: RecordWorkload = RecordWorkload {
    name: "random-write",
    operation: "random_write",
    about: "write every record of a fully written file once, in random order",
    access: &[Access::Random],
    ..OVER
};

pub(super) static RANDOM_MIX: RecordWorkload = RecordWorkload {
    name: "random-mix",
    operation: "random_mix",
    about: "visit every record of a file once, in random order: reads and writes in a given ratio (mix)",
    action: RecordAction::Mix,
    access: &[Access::Random],
    ..RecordWorkload::BASE
};

pub(super) static SEQUENTIAL_MIX: RecordWorkload = RecordWorkload {
    name: "sequential-mix",
    operation: "sequential_mix",
    about: "read and write a file in sequence, each direction from a place of its own, in a given ratio (mix)",
    action: RecordAction::Mix,
    ..RecordWorkload::BASE
};

pub(super) static SPARSE_READ: RecordWorkload = RecordWorkload {
    name: "sparse-read",
    operation: "sparse_read",
    about: "read records of files that have their size but no data: holes",
    before: Before::Holes,
    access: &[Access::Sequential, Access::Random],
    cache: Some(&[CacheState::Any, CacheState::Cold]),
    ..RecordWorkload::BASE
};

pub(super) static SPARSE_WRITE: RecordWorkload = RecordWorkload {
    name: "sparse-write",
    operation: "sparse_write",
    about: "write records into files that have their size but no data, at random or in sequence: holes are filled",
    action: RecordAction::Write,
    before: Before::Holes,
    access: &[Access::Random, Access::Sequential],
    cache: Some(&[CacheState::Any]),
    ..RecordWorkload::BASE
};

pub(super) static READ_MODIFY_WRITE: RecordWorkload = RecordWorkload {
    name: "read-modify-write",
    operation: "read_modify_write",
    about: "read each record of a file and write it again at its place, or a share of the records (updates)",
    action: RecordAction::Update,
    access: &[Access::Sequential, Access::Random],
    ..RecordWorkload::BASE
};

pub(super) static BACKWARD_READ: RecordWorkload = RecordWorkload {
    name: "backward-read",
    operation: "backward_read",
    about: "read a file from its last record to its first",
    access: &[Access::Backward],
    ..RecordWorkload::BASE
};

pub(super) static RECORD_REWRITE: RecordWorkload = RecordWorkload {
    name: "record-rewrite",
    operation: "record_rewrite",
    about: "write one record of a file again and again: a hot spot",
    access: &[Access::Same],
    ..OVER
};

pub(super) static STRIDE_READ: RecordWorkload = RecordWorkload {
    name: "stride-read",
    operation: "stride_read",
    about: "read every 17th record of a file (stride), then every 17th from the second on, until all were read",
    access: &[Access::Strided],
    ..RecordWorkload::BASE
};

pub(super) static STRIDE_WRITE: RecordWorkload = RecordWorkload {
    name: "stride-write",
    operation: "stride_write",
    about: "write every 17th record of files without data (stride), then every 17th from the second on, until all are written",
    action: RecordAction::Write,
    before: Before::Holes,
    access: &[Access::Strided],
    cache: Some(&[CacheState::Any]),
    ..RecordWorkload::BASE
};

pub(super) static FWRITE: RecordWorkload = RecordWorkload {
    name: "fwrite",
    operation: "fwrite",
    about: "write records into a new file with fwrite of C's library, which buffers them",
    backends: STREAMS,
    ..INTO
};

pub(super) static FREWRITE: RecordWorkload = RecordWorkload {
    name: "frewrite",
    operation: "frewrite",
    about: "write records over what a file holds with fwrite of C's library, which buffers them",
    backends: STREAMS,
    ..OVER
};

pub(super) static FREAD: RecordWorkload = RecordWorkload {
    name: "fread",
    operation: "fread",
    about: "read records in sequence with fread of C's library, which buffers them",
    backends: STREAMS,
    ..RecordWorkload::BASE
};

pub(super) static FREREAD: RecordWorkload = RecordWorkload {
    name: "freread",
    operation: "freread",
    about: "read records with fread that were read once before through the same stream",
    backends: STREAMS,
    ..AGAIN
};

pub(super) static PWRITE: RecordWorkload = RecordWorkload {
    name: "pwrite",
    operation: "pwrite",
    about: "write records into a new file, one pwrite each",
    backends: CALLS,
    ..INTO
};

pub(super) static REPWRITE: RecordWorkload = RecordWorkload {
    name: "repwrite",
    operation: "repwrite",
    about: "write records over what a file holds, one pwrite each",
    backends: CALLS,
    ..OVER
};

pub(super) static PREAD: RecordWorkload = RecordWorkload {
    name: "pread",
    operation: "pread",
    about: "read records in sequence, one pread each",
    backends: CALLS,
    ..RecordWorkload::BASE
};

pub(super) static REPREAD: RecordWorkload = RecordWorkload {
    name: "repread",
    operation: "repread",
    about: "read records with pread that were read once before through the same open file",
    backends: CALLS,
    ..AGAIN
};

pub(super) static PWRITEV: RecordWorkload = RecordWorkload {
    name: "pwritev",
    operation: "pwritev",
    about: "write records into a new file, each gathered from sixteen parts by one pwritev",
    backends: VECTORS,
    ..INTO
};

pub(super) static REPWRITEV: RecordWorkload = RecordWorkload {
    name: "repwritev",
    operation: "repwritev",
    about: "write records over what a file holds, each gathered from sixteen parts by one pwritev",
    backends: VECTORS,
    ..OVER
};

pub(super) static PREADV: RecordWorkload = RecordWorkload {
    name: "preadv",
    operation: "preadv",
    about: "read records in sequence, each scattered into sixteen parts by one preadv",
    backends: VECTORS,
    ..RecordWorkload::BASE
};

pub(super) static REPREADV: RecordWorkload = RecordWorkload {
    name: "repreadv",
    operation: "repreadv",
    about: "read records with preadv that were read once before through the same open file",
    backends: VECTORS,
    ..AGAIN
};

// `cache-warm-up`: random reads of files that are not in memory, until the page cache holds them.
//
// The records are drawn with replacement, so that a read finds its record in memory with the share
// of the records that were drawn before. After b bytes of a set of size S this share is 1 −
// exp(−b/S). The time of a byte falls from that of the device to that of memory with the same
// exponential, from which the report estimates the time constant.

/// Reads for each record of the set. A share of exp(−5), 0.7 %, of the records is then still
/// unread.
const READS: u64 = 5;

/// The member of the registry. The backend must use the page cache.
pub(super) static CACHE_WARM_UP: RecordWorkload = RecordWorkload {
    name: "cache-warm-up",
    operation: "warm_up_read",
    about: "read records that are drawn at random from cold files, five reads for each record, until memory holds them",
    access: &[Access::Random],
    cache: Some(&[CacheState::Cold]),
    draws: Some(READS),
    backends: &["psync"],
    ..RecordWorkload::BASE
};
