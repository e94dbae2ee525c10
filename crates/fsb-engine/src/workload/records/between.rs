//! Work between the operations of a worker, as fio defines it: syncs after a number of writes and
//! after the last operation, think times, and waits that keep the bandwidth of each direction.

use fsb_model::{Durability, Params};

use crate::backend::Flush;
use crate::clock::OperationKind;
use crate::error::{EngineError, ParamError};
use crate::io_loop::{HELD_FILES, IoLoop};
use crate::thread_recorder::ThreadRecorder;
use crate::workload::label;
use crate::workload::parameter::ParameterDefault::Absent;
use crate::workload::parameter::{Needs, Parameter, ParameterGroup, ParameterKind, group};
use crate::workload::params::Reader;
use crate::workload::spec::Spec;

/// The name of the syncs in records.
pub(super) const SYNC: &str = "sync";

/// The maximum number of operations from one sync or think time to the next.
const MOST: u64 = 1 << 32;

/// The calls and pauses between operations, resolved.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Between {
    /// The call that precedes the next operation, and the number of writes before it.
    syncs: Option<(Flush, u64)>,
    /// Whether such a call also follows the last write.
    syncs_last: bool,
    /// Whether the syncs also belong to the end of each pass.
    syncs_passes: bool,
    /// The flags of sync_file_range, and the number of writes before it.
    ranges: Option<(u32, u64)>,
    /// Nanoseconds of a think time, and the operations before it.
    think_time: Option<(u64, u64)>,
    /// The call with which the worker syncs its files after the last operation.
    end: Option<Flush>,
    /// Bytes per second of reads and of writes. `None` if the direction does not wait.
    bandwidth: [Option<u64>; 2],
}

/// The steps of sync_file_range by their words in plans.
#[rustfmt::skip] // a table reads as one
const RANGE_STEPS: [(&str, u32); 7] = [
    ("write", libc::SYNC_FILE_RANGE_WRITE),
    ("wait_before", libc::SYNC_FILE_RANGE_WAIT_BEFORE),
    ("wait_after", libc::SYNC_FILE_RANGE_WAIT_AFTER),
    ("wait_before+write", libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE),
    ("write+wait_after", libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER),
    ("wait_before+wait_after", libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER),
    ("wait_before+write+wait_after", libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER),
];

/// The parameters of the bandwidth of reads and of writes.
const BANDWIDTH: [&str; 2] = ["read_bandwidth", "write_bandwidth"];

/// The parameters of the sync after the last operation.
const END: [(&str, Flush); 2] = [("end_fsync", Flush::All), ("end_fdatasync", Flush::Data)];

/// The index of a direction in [`Between::bandwidth`].
fn index(kind: OperationKind) -> usize {
    usize::from(kind != OperationKind::Read)
}

/// Returns the parameters of a workload that writes, or of one that only reads.
pub(super) fn parameters(writes: bool) -> Vec<Parameter> {
    use ParameterKind::{Duration, Number};
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::new(
                "think_time",
                Duration(1e-6..=3600.0),
                Absent,
                "pause of each worker after an operation, inside the clock",
            ),
            Parameter::new(
                "think_every",
                Number(1..=MOST),
                "1",
                "operations from one think time to the next",
            )
            .needs(Needs::Given("think_time")),
        ],
    );
    let about = "bytes of reads and of writes that each worker starts per second, at most";
    all.extend(group(
        ParameterGroup::Work,
        BANDWIDTH.map(|name| {
            Parameter::new(name, ParameterKind::Size(1..=1 << 60), Absent, about)
                .needs(Needs::Absent("rate"))
        }),
    ));
    if writes {
        let about = "sync the files after the last operation of a worker, inside the clock";
        let end = Parameter::flag("end_fsync", about);
        let about =
            "call fdatasync for the files after the last operation of a worker, inside the clock";
        let end_data = Parameter::flag("end_fdatasync", about).needs(Needs::Absent("end_fsync"));
        all.extend(group(ParameterGroup::State, [end, end_data]));
        let about = "writes of a worker after which it calls fsync before its next operation";
        let fsync = Parameter::new("fsync", Number(1..=MOST), Absent, about);
        let about = "writes of a worker after which it calls fdatasync before its next operation";
        let fdatasync = Parameter::new("fdatasync", Number(1..=MOST), Absent, about)
            .needs(Needs::Absent("fsync"));
        let about = "writes of a worker after which it calls sync_file_range for them before its next operation";
        let range = Parameter::new("sync_file_range", Number(1..=MOST), Absent, about)
            .needs(Needs::Absent("fsync"));
        let steps = Parameter::word(
            "range_steps",
            &RANGE_STEPS,
            |(name, _)| name,
            "steps of sync_file_range",
        );
        let steps = steps.needs(Needs::Given("sync_file_range"));
        let last = Parameter::flag(
            "sync_last",
            "call fsync or fdatasync also if the last write is due for it",
        );
        let about = "sync at the end of each pass too: the calls that are due, before and after it, and those of the end";
        let passes = Parameter::flag("sync_passes", about);
        all.extend(group(
            ParameterGroup::State,
            [fsync, fdatasync, last, passes, range, steps],
        ));
    }
    all
}

impl Between {
    /// Reads the parameters of a workload that writes, or of one that only reads.
    pub(super) fn read(
        writes: bool,
        spec: &Spec,
        reader: &mut Reader<'_>,
    ) -> Result<Between, ParamError> {
        let pause = reader.duration("think_time")?;
        let every = reader.number("think_every")?;
        let think_time = pause.map(|seconds| ((seconds * 1e9).round() as u64, every));
        let mut syncs = None;
        if writes {
            for (key, flush) in [("fsync", Flush::All), ("fdatasync", Flush::Data)] {
                if reader.take(key).is_none() {
                    continue;
                }
                syncs = Some((flush, reader.number(key)?));
                if spec.durability != Durability::None {
                    return Err(
                        reader.error(key, "the durability syncs too: leave one of them out")
                    );
                }
                if spec.files_per_process() > HELD_FILES {
                    let message = format!(
                        "the option keeps all files open at once: use at most {HELD_FILES} files"
                    );
                    return Err(reader.error(key, message));
                }
            }
        }
        let syncs_last = writes && reader.flag("sync_last")?;
        if syncs_last && syncs.is_none() {
            return Err(reader.error(
                "sync_last",
                "there are no syncs between the writes: add fsync or fdatasync",
            ));
        }
        let mut ranges = None;
        if writes && reader.take("sync_file_range").is_some() {
            let every = reader.number("sync_file_range")?;
            let (_, flags) = reader.word("range_steps", &RANGE_STEPS, |(name, _)| name)?;
            ranges = Some((flags, every));
            if spec.files_per_process() > 1 {
                return Err(reader.error(
                    "sync_file_range",
                    "the writes of one file have a range: use files = 1",
                ));
            }
        }
        let mut end = None;
        for (key, flush) in END {
            if !writes || !reader.flag(key)? {
                continue;
            }
            end = Some(flush);
            if spec.durability != Durability::None || spec.files_per_process() > HELD_FILES {
                let message = format!(
                    "the durability syncs too, or the files are more than {HELD_FILES}: leave it out"
                );
                return Err(reader.error(key, message));
            }
        }
        let syncs_passes = writes && reader.flag("sync_passes")?;
        if syncs_passes
            && (spec.depth > 1 || (syncs.is_none() && ranges.is_none() && end.is_none()))
        {
            let message =
                "only syncs between the writes or at the end, with depth = 1, belong to passes";
            return Err(reader.error("sync_passes", message));
        }
        let mut bandwidth = [None; 2];
        for (name, bytes) in BANDWIDTH.into_iter().zip(&mut bandwidth) {
            *bytes = reader
                .take(name)
                .is_some()
                .then(|| reader.number(name))
                .transpose()?;
        }
        Ok(Between {
            syncs,
            syncs_last,
            syncs_passes,
            ranges,
            think_time,
            end,
            bandwidth,
        })
    }

    /// Returns whether operations follow each other without anything in between.
    pub(super) fn is_nothing(&self) -> bool {
        !self.syncs()
            && !self.syncs_passes
            && self.think_time.is_none()
            && self.bandwidth == [None; 2]
    }

    /// Returns whether the call between writes also follows the last one if it is due.
    pub(super) fn syncs_last(&self) -> bool {
        self.syncs_last
    }

    /// Returns whether the syncs also belong to the end of each pass.
    pub(super) fn syncs_passes(&self) -> bool {
        self.syncs_passes
    }

    /// Returns whether a worker syncs its files after the last operation.
    pub(super) fn ends_with_sync(&self) -> bool {
        self.end.is_some()
    }

    /// Returns the call that syncs the files at the end. As in fio, none follows another sync.
    pub(super) fn end_sync(&self, turns: &Turns) -> Option<Flush> {
        self.end.filter(|_| !turns.is_synced)
    }

    /// Returns whether the worker syncs between operations.
    pub(super) fn syncs(&self) -> bool {
        self.syncs.is_some() || self.ranges.is_some()
    }

    /// Returns the parts of the label, each with a comma in front.
    pub(super) fn label(&self) -> String {
        let mut label = String::new();
        match self.syncs {
            None => {}
            Some((flush, 1)) => label += &format!(", {} after each write", name(flush)),
            Some((flush, every)) => label += &format!(", {} after {every} writes", name(flush)),
        }
        match self.think_time {
            None => {}
            Some((ns, 1)) => label += &format!(", think time {}", duration(ns)),
            Some((ns, every)) => label += &format!(", think time {} after {every}", duration(ns)),
        }
        label += &self
            .ranges
            .map(|(_, every)| format!(", sync_file_range after {every} writes"))
            .unwrap_or_default();
        label += match self.end {
            _ if self.syncs_passes => ", synced after each pass",
            Some(_) => ", synced at the end",
            None => "",
        };
        for (name, bytes) in ["reads", "writes"].into_iter().zip(self.bandwidth) {
            label += &bytes
                .map(|bytes| format!(", {name} at {}/s", label::size(bytes)))
                .unwrap_or_default();
        }
        label
    }

    /// Adds the parameters that are set.
    pub(super) fn add_to(&self, params: &mut Params) {
        if let Some((flush, every)) = self.syncs {
            params.insert(name(flush).to_owned(), every.into());
        }
        if let Some((ns, every)) = self.think_time {
            params.insert("think_time".to_owned(), duration(ns).into());
            if every > 1 {
                params.insert("think_every".to_owned(), every.into());
            }
        }
        if let Some((flags, every)) = self.ranges {
            let steps = RANGE_STEPS
                .iter()
                .find(|(_, known)| *known == flags)
                .map_or("", |(name, _)| name);
            params.insert("sync_file_range".to_owned(), every.into());
            params.insert("range_steps".to_owned(), steps.into());
        }
        if self.syncs_last {
            params.insert("sync_last".to_owned(), true.into());
        }
        if self.syncs_passes {
            params.insert("sync_passes".to_owned(), true.into());
        }
        if let Some((name, _)) = END.iter().find(|(_, flush)| self.end == Some(*flush)) {
            params.insert((*name).to_owned(), true.into());
        }
        for (name, bytes) in BANDWIDTH.into_iter().zip(self.bandwidth) {
            params.extend(bytes.map(|bytes| (name.to_owned(), bytes.into())));
        }
    }
}

/// Returns the name of the call.
fn name(flush: Flush) -> &'static str {
    match flush {
        Flush::All => "fsync",
        Flush::Data => "fdatasync",
        Flush::Range(_) => "sync_file_range",
    }
}

/// Returns a time as plans write it.
fn duration(ns: u64) -> String {
    match ns {
        ns if ns.is_multiple_of(1_000_000_000) => format!("{}s", ns / 1_000_000_000),
        ns if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        ns => format!("{}us", ns as f64 / 1e3),
    }
}

/// A record that was moved.
#[derive(Debug, Clone, Copy)]
pub(super) struct MovedRecord {
    /// The first item.
    pub(super) item: u64,
    /// The number of items.
    pub(super) items: u64,
    pub(super) bytes: u64,
}

/// A sync before the next operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DueSync {
    /// The file of an item.
    File(u64, Flush),
    /// The first item, the end and the flags of a sync_file_range.
    Range(u64, u64, u32),
}

/// The operations of one worker so far.
#[derive(Debug, Default)]
pub(super) struct Turns {
    writes: u64,
    operations: u64,
    /// The last record that was written.
    last_written: Option<u64>,
    /// The first and the end of the items that were written since the last sync.
    written: Option<(u64, u64)>,
    /// Whether no operation followed the last sync.
    is_synced: bool,
    /// The time of the first operation, and the bytes of reads and of writes since then.
    begun: u64,
    moved: [u64; 2],
}

impl Turns {
    /// Returns the state of a worker that begins now.
    pub(super) fn begin(recorder: &ThreadRecorder<'_>) -> Turns {
        Turns {
            begun: recorder.last(),
            ..Turns::default()
        }
    }

    /// Begins a pass. As in fio, it can begin with the sync that ended the last one.
    pub(super) fn begin_pass(&mut self) {
        self.is_synced = false;
    }
}

impl Between {
    /// Syncs the file of the last write if its turn has come. Like fio, a worker syncs before the
    /// next operation, so nothing follows the last one.
    pub(super) fn before(
        &self,
        turns: &mut Turns,
        writer: &mut IoLoop<'_>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        match self.take_due(turns) {
            None => Ok(()),
            Some(DueSync::File(item, flush)) => {
                let every = self.syncs.map_or(1, |(_, every)| every);
                recorder.sync(every.saturating_mul(writer.record_size()), || {
                    writer.flush_file_of(item, flush)
                })
            }
            Some(DueSync::Range(first, end, flags)) => recorder
                .sync((end - first) * writer.record_size(), || {
                    writer.flush_range(first..end, flags)
                }),
        }
    }

    /// Returns the sync before the next operation. As in fio, one sync precedes an operation at
    /// most, and one before a read is due again before the operation that follows the read.
    pub(super) fn take_due(&self, turns: &mut Turns) -> Option<DueSync> {
        if !self.syncs() || turns.is_synced {
            return None;
        }
        let item = turns.last_written?;
        let file = self
            .syncs
            .filter(|(_, every)| turns.writes.is_multiple_of(*every));
        let range = self
            .ranges
            .filter(|(_, every)| turns.writes.is_multiple_of(*every));
        if file.is_none() && range.is_none() {
            return None;
        }
        turns.is_synced = true;
        let written = turns.written.take();
        match (file, range.zip(written)) {
            (Some((flush, _)), _) => Some(DueSync::File(item, flush)),
            (None, Some(((flags, _), (first, end)))) => Some(DueSync::Range(first, end, flags)),
            (None, None) => None,
        }
    }

    /// Returns the nanoseconds of a think time.
    pub(super) fn think_ns(&self) -> u64 {
        self.think_time.map_or(0, |(ns, _)| ns)
    }

    /// Returns the time at which the next operation of a direction is due.
    fn due(&self, turns: &Turns, kind: OperationKind) -> u64 {
        let moved = turns.moved[index(kind)];
        let apart = self.bandwidth[index(kind)].map_or(0, |rate| {
            u128::from(moved) * 1_000_000_000 / u128::from(rate)
        });
        turns.begun.saturating_add(apart as u64)
    }

    /// Returns the direction of the next operation and the time at which it is due. As in fio, the
    /// other direction of a mix goes first if it is due earlier.
    pub(super) fn next_due(
        &self,
        turns: &Turns,
        kind: OperationKind,
        is_mix: bool,
        now: u64,
    ) -> (OperationKind, u64) {
        let due = self.due(turns, kind);
        if self.bandwidth == [None; 2] || due <= now {
            return (kind, now);
        }
        let other = if kind == OperationKind::Read {
            OperationKind::Write
        } else {
            OperationKind::Read
        };
        match is_mix.then(|| self.due(turns, other)) {
            Some(earlier) if earlier < due => (other, earlier),
            _ => (kind, due),
        }
    }

    /// Waits until an operation is due. Returns its direction.
    pub(super) fn wait(
        &self,
        turns: &Turns,
        kind: OperationKind,
        is_mix: bool,
        recorder: &mut ThreadRecorder<'_>,
    ) -> OperationKind {
        let (kind, due) = self.next_due(turns, kind, is_mix, recorder.last());
        if due > recorder.last() {
            recorder.resume_at(due);
        }
        kind
    }

    /// Counts an operation on a record, and thinks if its turn has come. Returns whether to
    /// continue.
    pub(super) fn after(
        &self,
        turns: &mut Turns,
        record: MovedRecord,
        kind: OperationKind,
        recorder: &mut ThreadRecorder<'_>,
    ) -> bool {
        !self.count(turns, record, kind) || recorder.think(self.think_ns())
    }

    /// Counts an operation on a record. Returns whether a think time follows.
    pub(super) fn count(
        &self,
        turns: &mut Turns,
        record: MovedRecord,
        kind: OperationKind,
    ) -> bool {
        let MovedRecord { item, items, bytes } = record;
        turns.operations += 1;
        turns.is_synced = false;
        turns.moved[index(kind)] += bytes;
        if kind == OperationKind::Write {
            turns.writes += 1;
            turns.last_written = Some(item);
            let (first, end) = turns.written.unwrap_or((item, item));
            turns.written = Some((first.min(item), end.max(item + items)));
        }
        self.think_time
            .is_some_and(|(_, every)| turns.operations.is_multiple_of(every))
    }
}
