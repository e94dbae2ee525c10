//! Traces of other tools: a registry. A new one is a file beside this one and a line in [`REGISTRY`].
//!
//! These logs do not describe the files. The importers derive from the calls which files must have existed.

mod blkparse;
mod fio;
mod importer;
mod strace;

use crate::TraceError;

pub(crate) use importer::Any;
pub use importer::Read;
pub use importer::{Imported, Importer};

/// All importers. The first that recognizes a file reads it.
pub static REGISTRY: &[Importer] = &[strace::IMPORTER, fio::IMPORTER, blkparse::IMPORTER];

/// Bytes that decide which tool wrote a file.
pub const HEAD: usize = 4096;

/// Returns the importer of a file with this start.
///
/// # Errors
/// Fails if no importer recognizes it.
pub fn find(head: &[u8]) -> Result<&'static Importer, TraceError> {
    REGISTRY.iter().find(|importer| (importer.recognise)(head)).ok_or_else(|| {
        let known: Vec<String> =
            REGISTRY.iter().map(|importer| format!("{} ({})", importer.name, importer.about)).collect();
        TraceError::Unfit(format!("it is not a log of {}", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::call::{Call, flags};
    use crate::{CallKind, Header, Initial, Names, Reader, State, Totals, TracePart, Writer};

    fn imported(text: &str, root: &str) -> (Vec<Call>, Vec<Initial>, Names, Imported) {
        let importer = find(text.as_bytes()).unwrap();
        let mut writer =
            Writer::new(Vec::new(), &Header { by: importer.name.to_owned(), ..Header::default() }).unwrap();
        let told = (importer.read)(&mut Cursor::new(text), root.as_bytes(), &mut writer).unwrap();
        let (bytes, ..) = writer.finish(Totals::default()).unwrap();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let (mut calls, mut initial) = (Vec::new(), Vec::new());
        while let Some(part) = reader.next_part().unwrap() {
            match part {
                TracePart::Calls(block) => calls.extend(block),
                TracePart::Initial(block) => initial.extend(block),
                TracePart::End(_) => {}
            }
        }
        (calls, initial, reader.names().clone(), told)
    }

    fn kinds(calls: &[Call]) -> Vec<(u32, CallKind)> {
        calls.iter().map(|call| (call.lane, call.kind)).collect()
    }

    #[test]
    fn strace_is_followed_through_processes_and_interrupted_calls() {
        let log = r#"100 1700000000.000000 execve("/usr/bin/app", ["app"], 0x7f /* 9 vars */) = 0 <0.000300>
100 1700000000.001000 openat(AT_FDCWD, "data/in\".txt", O_RDONLY|O_CLOEXEC) = 3 <0.000020>
100 1700000000.001100 read(3, "abc"..., 4096) = 4096 <0.000010>
100 1700000000.001200 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f) = 101 <0.000100>
101 1700000000.001500 read(3, "abc"..., 4096) = 904 <0.000010>
100 1700000000.001600 openat(AT_FDCWD, "out", O_WRONLY|O_CREAT|O_TRUNC, 0644 <unfinished ...>
101 1700000000.001700 close(3)      = 0 <0.000010>
100 1700000000.001800 <... openat resumed>) = 4 <0.000200>
100 1700000000.001900 pwrite64(4, "x", 1, 8192) = 1 <0.000010>
100 1700000000.001950 openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 5 <0.000010>
101 1700000000.002000 +++ exited with 0 +++
100 1700000000.002100 wait4(-1, NULL, 0, NULL) = 101 <0.000500>
100 1700000000.002700 stat("missing", 0x7f) = -1 ENOENT (No such file or directory) <0.000010>
100 1700000000.002800 +++ exited with 0 +++
"#;
        let (calls, initial, names, summary) = imported(log, "/srv/app");
        let expected = [
            (0, CallKind::Open),
            (0, CallKind::Read),
            (0, CallKind::Spawn),
            (1, CallKind::Read),
            (0, CallKind::Open),
            (0, CallKind::WriteAt),
            (1, CallKind::Exit),
            (0, CallKind::Wait),
            (0, CallKind::StatName),
            (0, CallKind::Close),
            (0, CallKind::Close),
            (0, CallKind::Exit),
        ];
        assert_eq!(kinds(&calls), expected);
        assert_eq!(
            (calls[3].handle, calls[3].offset, calls[3].result),
            (calls[0].handle, 4096, 904),
            "they share the position"
        );
        assert_eq!((calls[4].start_ns, calls[4].took_ns), (1_600_000, 200_000));
        assert_eq!(calls[4].flags, flags::WRITE | flags::CREATE | flags::TRUNCATE);
        assert_eq!(calls[8].result, -2);
        assert_eq!((summary.outside, summary.tasks, summary.skipped), (1, 2, 0));
        let files: Vec<_> = initial.iter().map(|initial| (names.get(initial.name), &initial.state)).collect();
        let size = State::File { size: 5000, data: None };
        assert_eq!(files, [(&b"data"[..], &State::Directory), (&b"data/in\".txt"[..], &size)]);
    }

    #[test]
    fn fio_logs_are_calls_on_files_below_the_root() {
        let log = "fio version 2 iolog\n/data/f add\n/data/f open\n/data/f write 0 4096\n/data/f read 8192 4096\n\
                   /data/f datasync 0 0\n/data/f wait 100 0\n/data/f trim 0 4096\n/data/f close\n";
        let (calls, initial, names, _) = imported(log, "/");
        let expected = [
            CallKind::Open,
            CallKind::WriteAt,
            CallKind::ReadAt,
            CallKind::DataSync,
            CallKind::Allocate,
            CallKind::Close,
            CallKind::Exit,
        ];
        assert_eq!(calls.iter().map(|call| call.kind).collect::<Vec<_>>(), expected);
        assert_eq!(calls[4].start_ns, 100_000);
        assert_eq!(names.get(calls[0].name), b"data/f");
        assert!(initial.iter().any(|initial| initial.state == State::File { size: 12_288, data: None }));
        let wrong = "fio version 2 iolog\nf open\nf walk 1 2\n";
        let mut writer = Writer::new(Vec::new(), &Header::default()).unwrap();
        let error = (fio::IMPORTER.read)(&mut Cursor::new(wrong), b"/", &mut writer).unwrap_err();
        assert_eq!(error.to_string(), "line 3: it is not a line of an iolog");
    }

    /// The job has a think time of 250 ms before each of its eight reads and writes.
    #[test]
    fn times_of_a_log_that_fio_wrote_are_microseconds() {
        let (calls, _, names, _) = imported(include_str!("../golden/fio-3.33.iolog"), "/");
        let moves: Vec<&Call> = calls.iter().filter(|call| call.kind.moves()).collect();
        assert_eq!((moves.len(), moves[0].start_ns), (8, 121_000));
        let apart = moves.windows(2).map(|two| two[1].start_ns - two[0].start_ns);
        assert!(apart.clone().all(|ns| (250_000_000..300_000_000).contains(&ns)), "{:?}", apart.collect::<Vec<_>>());
        assert_eq!(names.get(calls[0].name), b"data");
        let count = |kind: CallKind| calls.iter().filter(|call| call.kind == kind).count();
        let syncs = [CallKind::Sync, CallKind::DataSync, CallKind::SyncRange].map(count);
        assert_eq!(syncs, [1, 2, 1], "fsync, fdatasync, sync_file_range");
    }

    #[test]
    fn blkparse_is_one_file_of_the_pieces_that_were_touched() {
        let log = "  8,0    1        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    1        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    1        3     0.000500000   697  C   W 223490 + 8 [0]
  8,0    0        4     0.001000000   800  Q  RS 900000000 + 16 [app]
  8,0    0        5     0.003000000     0  C  RS 900000000 + 16 [0]
  8,0    0        6     0.004000000   697  Q FWS [kjournald]
CPU0 (8,0):
";
        let (calls, initial, names, summary) = imported(log, "/");
        assert_eq!(kinds(&calls)[..3], [(0, CallKind::Open), (0, CallKind::WriteAt), (0, CallKind::Spawn)]);
        assert_eq!(
            (calls[3].kind, calls[3].lane, calls[3].took_ns, calls[3].length),
            (CallKind::ReadAt, 1, 2_000_000, 8192)
        );
        assert_eq!(calls[4].kind, CallKind::DataSync);
        assert!(calls[3].offset < 2 << 20, "{}", calls[3].offset);
        assert_eq!((names.get(calls[0].name), summary.skipped), (&b"device-8-0"[..], 1));
        assert_eq!(initial.len(), 1);
    }

    #[test]
    fn times_beyond_those_of_a_trace_are_not_written() {
        let blkparse = "  8,0    1        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    1        3     10000500000   697  C   W 223490 + 8 [0]
CPU0 (8,0):
";
        // The line is skipped: its time is none.
        let (calls, ..) = imported(blkparse, "/");
        assert!(calls.iter().all(|call| call.end_ns() < 1_000_000_000), "{calls:?}");
        let waits =
            format!("fio version 2 iolog\nf add\nf open\nf wait {0} 0\nf wait {0} 0\nf write 0 512\n", u64::MAX);
        let (calls, ..) = imported(&waits, "/");
        assert_eq!(calls.last().map(|call| call.start_ns), Some(super::importer::LATEST));
    }

    #[test]
    fn text_of_no_known_tracer_is_refused() {
        assert!(find(b"hello world\n").unwrap_err().to_string().contains("strace (-f -ttt -T), fio ("));
        assert!(find(b"").is_err());
    }
}
