//! Traces of other tools: a registry. A new one is a file beside this one and a line in
//! [`REGISTRY`].
//!
//! These logs do not describe the files. The importers derive from the calls which files must have
//! existed.

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
    REGISTRY
        .iter()
        .find(|importer| (importer.recognise)(head))
        .ok_or_else(|| {
            let known: Vec<String> = REGISTRY
                .iter()
                .map(|importer| format!("{} ({})", importer.name, importer.about))
                .collect();
            TraceError::Unfit(format!("it is not a log of {}", known.join(", ")))
        })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::call::{Call, flags};
    use crate::{
        CallKind, Gap, Header, Initial, Names, Reader, State, Totals, TraceNote, TracePart, Unseen,
        Writer,
    };

    fn imported(text: &str, root: &str) -> (Vec<Call>, Vec<Initial>, Names, Imported) {
        let importer = find(text.as_bytes()).unwrap();
        let mut writer = Writer::new(
            Vec::new(),
            &Header {
                by: importer.name.to_owned(),
                ..Header::default()
            },
        )
        .unwrap();
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
        assert_eq!(
            calls[4].flags,
            flags::WRITE | flags::CREATE | flags::TRUNCATE
        );
        assert_eq!(calls[8].result, -2);
        assert_eq!((summary.outside, summary.tasks, summary.skipped), (1, 2, 0));
        let files: Vec<_> = initial
            .iter()
            .map(|initial| (names.get(initial.name), &initial.state))
            .collect();
        let size = State::File {
            size: 5000,
            data: None,
        };
        assert_eq!(
            files,
            [
                (&b"data"[..], &State::Directory),
                (&b"data/in\".txt"[..], &size)
            ]
        );
    }

    /// Returns the import of these lines of strace, each a call of one process that works in
    /// /srv/app.
    fn of_strace(lines: &[&str]) -> (Vec<Call>, Vec<Initial>, Names, Imported) {
        let line = |(at, line): (usize, &&str)| {
            format!("100 1700000000.{:06} {line} <0.000010>\n", at * 100)
        };
        imported(
            &lines.iter().enumerate().map(line).collect::<String>(),
            "/srv/app",
        )
    }

    /// The lines of strace 6.1 for cp of coreutils 9.1, sendfile and splice of Python 3.11.
    #[test]
    fn data_from_outside_the_root_is_written() {
        let (calls, _, names, summary) = of_strace(&[
            r#"openat(AT_FDCWD, "/elsewhere/big", O_RDONLY) = 3"#,
            r#"openat(AT_FDCWD, "big", O_RDWR|O_CREAT|O_EXCL, 0644) = 4"#,
            "ioctl(4, BTRFS_IOC_CLONE or FICLONE, 3) = -1 EOPNOTSUPP (Operation not supported)",
            "copy_file_range(3, NULL, 4, NULL, 9223372035781033984, 0) = 3000000",
            "copy_file_range(3, NULL, 4, NULL, 9223372035781033984, 0) = 0",
            "sendfile(4, 3, [0] => [1000], 1000) = 1000",
            "splice(5, NULL, 4, [8192], 4096, 0) = 4096",
            "sendfile(9, 4, NULL, 500) = 500",
        ]);
        let (write, write_at) = (CallKind::Write, CallKind::WriteAt);
        let expected = [
            (write, 0, 3_000_000),
            (write, 3_000_000, 1000),
            (write_at, 8192, 4096),
            (CallKind::Read, 3_001_000, 500),
        ];
        let moved: Vec<_> = calls[1..5]
            .iter()
            .map(|call| (call.kind, call.offset, call.result))
            .collect();
        assert_eq!(moved, expected);
        assert!(
            calls[1..5]
                .iter()
                .all(|call| call.handle == calls[0].handle && call.length == call.moved())
        );
        assert_eq!(names.get(calls[0].name), b"big");
        assert_eq!(summary.incomplete, []);
        assert!(
            summary.notes.contains(
                &TraceNote::Copied {
                    times: 4,
                    bytes: 3_005_596
                }
                .into()
            ),
            "{:?}",
            summary.notes
        );
    }

    #[test]
    fn a_clone_of_a_file_of_unknown_size_makes_a_trace_incomplete() {
        let (calls, _, _, summary) = of_strace(&[
            r#"openat(AT_FDCWD, "/elsewhere/big", O_RDONLY) = 3"#,
            r#"openat(AT_FDCWD, "big", O_RDWR|O_CREAT|O_EXCL, 0644) = 4"#,
            "ioctl(4, BTRFS_IOC_CLONE_RANGE or FICLONERANGE, {src_fd=3, src_offset=4096, src_length=8192, dest_offset=16384}) = 0",
            "ioctl(4, BTRFS_IOC_CLONE or FICLONE, 3) = 0",
        ]);
        assert_eq!(
            (calls[1].kind, calls[1].offset, calls[1].result),
            (CallKind::WriteAt, 16_384, 8192)
        );
        assert_eq!(summary.incomplete, [Gap::new(Unseen::Outside, 1).into()]);
        assert_eq!(calls.len(), 2);
    }

    #[test]
    fn copies_within_the_root_keep_their_names_and_offsets() {
        let (calls, initial, names, _) = of_strace(&[
            r#"openat(AT_FDCWD, "a", O_RDONLY) = 3"#,
            r#"openat(AT_FDCWD, "b", O_RDWR|O_CREAT, 0644) = 4"#,
            "copy_file_range(3, [10], 4, [20], 500, 0) = 500",
            "copy_file_range(3, NULL, 4, NULL, 700, 0) = 700",
            "sendfile(4, 3, [0] => [100], 100) = 100",
            "ioctl(4, BTRFS_IOC_CLONE or FICLONE, 3) = 0",
            "ioctl(4, BTRFS_IOC_CLONE_RANGE or FICLONERANGE, {src_fd=3, src_offset=0, src_length=4096, dest_offset=8192}) = 0",
            "ioctl(3, BTRFS_IOC_FILE_EXTENT_SAME or FIDEDUPERANGE, {src_offset=0, src_length=4096, dest_count=2, info=[{dest_fd=4, dest_offset=8192}, {dest_fd=4, dest_offset=0}]} => {info=[{bytes_deduped=4096, status=0}, {bytes_deduped=0, status=1}]}) = 0",
            "write(4, \"x\", 1) = 1",
        ]);
        let copies: Vec<_> = calls[2..9]
            .iter()
            .map(|call| (call.name(), call.offset, call.target, call.result))
            .collect();
        let expected = [
            ("copy_file_range", 10, 20, 500),
            ("copy_file_range", 0, 0, 700),
            ("sendfile", 0, 700, 100),
            ("FICLONE", 0, 0, 0),
            ("FICLONERANGE", 0, 8192, 0),
            ("FIDEDUPERANGE", 0, 8192, 0),
            ("FIDEDUPERANGE", 0, 0, 0),
        ];
        assert_eq!(copies, expected);
        assert_eq!(calls[9].offset, 800, "where the copies left it");
        let size = initial
            .iter()
            .find(|initial| names.get(initial.name) == b"a")
            .map(|initial| initial.state.clone());
        assert_eq!(
            size,
            Some(State::File {
                size: 4096,
                data: None
            })
        );
    }

    #[test]
    fn names_from_outside_the_root_begin_in_a_directory_of_their_own() {
        let (calls, initial, names, summary) = of_strace(&[
            r#"rename("/elsewhere/one", "one") = 0"#,
            r#"link("/elsewhere/two", "two") = 0"#,
            r#"rename("one", "/elsewhere/gone") = 0"#,
            r#"rename("/elsewhere/gone", "back") = 0"#,
            r#"renameat2(AT_FDCWD, "/elsewhere/x", AT_FDCWD, "x", 0) = -1 EXDEV (Invalid cross-device link)"#,
            r#"openat(AT_FDCWD, "back", O_RDONLY) = 3"#,
            "read(3, \"\"..., 4096) = 4096",
        ]);
        let made: Vec<_> = calls[..4]
            .iter()
            .map(|call| (call.kind, names.get(call.name), names.get(call.second)))
            .collect();
        let expected = [
            (CallKind::Rename, &b".fsb-outside/1"[..], &b"one"[..]),
            (CallKind::Link, b".fsb-outside/2", b"two"),
            (CallKind::Rename, b"one", b".fsb-outside/3"),
            (CallKind::Rename, b".fsb-outside/3", b"back"),
        ];
        assert_eq!(made, expected);
        assert_eq!(
            (calls[4].kind, summary.outside),
            (CallKind::Open, 1),
            "the failed rename is left out"
        );
        let states: Vec<_> = initial
            .iter()
            .map(|initial| (names.get(initial.name), &initial.state))
            .collect();
        let (read, empty) = (
            State::File {
                size: 4096,
                data: None,
            },
            State::File {
                size: 0,
                data: None,
            },
        );
        let expected = [
            (&b".fsb-outside"[..], &State::Directory),
            (b".fsb-outside/1", &read),
            (b".fsb-outside/2", &empty),
        ];
        assert_eq!(states, expected);
        assert!(
            summary
                .notes
                .contains(&TraceNote::Crossed { times: 4 }.into())
        );
    }

    /// The files of a renamed directory exist at the beginning below its old name.
    #[test]
    fn files_of_a_renamed_directory_begin_at_their_old_names() {
        let read = [
            r#"openat(AT_FDCWD, "new/f", O_RDONLY) = 3"#,
            "read(3, \"\"..., 4096) = 4096",
        ];
        let states = |rename: &str| {
            let (_, initial, names, _) = of_strace(&[&[rename][..], &read].concat());
            let mut states: Vec<_> = initial
                .into_iter()
                .map(|initial| (names.get(initial.name).to_vec(), initial.state))
                .collect();
            states.sort_by(|(one, _), (other, _)| one.cmp(other));
            states
        };
        let file = State::File {
            size: 4096,
            data: None,
        };
        let inside = states(r#"rename("old", "new") = 0"#);
        assert_eq!(
            inside,
            [
                (b"old".to_vec(), State::Directory),
                (b"old/f".to_vec(), file.clone())
            ]
        );
        let moved_in = states(r#"rename("/elsewhere/d", "new") = 0"#);
        let directories =
            [&b".fsb-outside"[..], b".fsb-outside/1"].map(|name| (name.to_vec(), State::Directory));
        assert_eq!(moved_in[..2], directories);
        assert_eq!(
            moved_in[2..],
            [(b".fsb-outside/1/f".to_vec(), file.clone())]
        );
        let exchange = r#"renameat2(AT_FDCWD, "old", AT_FDCWD, "new", RENAME_EXCHANGE) = 0"#;
        assert!(
            states(exchange).contains(&(b"old/f".to_vec(), file)),
            "{:?}",
            states(exchange)
        );
    }

    #[test]
    fn durable_writes_attributes_and_syncs_of_mappings_are_imported() {
        let (calls, _, names, summary) = of_strace(&[
            r#"openat(AT_FDCWD, "f", O_RDWR|O_CREAT|O_DSYNC, 0644) = 3"#,
            "pwritev2(3, [{iov_base=\"abc\", iov_len=3}], 1, 100, RWF_DSYNC) = 3",
            "pwritev2(3, [{iov_base=\"abc\", iov_len=3}], 1, -1, RWF_SYNC|RWF_APPEND) = 3",
            r#"setxattr("f", "user.a", "xx", 2, XATTR_CREATE) = 0"#,
            r#"fsetxattr(3, "user.b", "yyy", 3, 0) = 0"#,
            r#"removexattr("f", "user.a") = 0"#,
            "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 4096) = 0x7fc70cde4000",
            "msync(0x7fc70cde5000, 4096, MS_SYNC) = 0",
            r#"fchown(3, 0, 0) = 0"#,
            r#"utimensat(AT_FDCWD, "f", NULL, 0) = 0"#,
        ]);
        assert_eq!(
            calls[0].flags & (flags::DATA_SYNC | flags::SYNC),
            flags::DATA_SYNC
        );
        assert_eq!(
            (calls[1].kind, calls[1].offset, calls[1].flags),
            (CallKind::WriteAt, 100, flags::DATA_SYNC)
        );
        assert_eq!(
            (calls[2].kind, calls[2].flags),
            (CallKind::Write, flags::SYNC | flags::APPEND)
        );
        let named: Vec<_> = calls[3..6]
            .iter()
            .map(|call| (call.name(), names.get(call.second), call.length))
            .collect();
        assert_eq!(
            named,
            [
                ("setxattr", &b"user.a"[..], 2),
                ("fsetxattr", b"user.b", 3),
                ("removexattr", b"user.a", 0)
            ]
        );
        assert_eq!(
            (calls[7].name(), calls[7].offset, names.get(calls[7].name)),
            ("msync", 8192, &b"f"[..])
        );
        assert_eq!([calls[8].name(), calls[9].name()], ["fchown", "utimensat"]);
        let mapped = Gap {
            files: vec!["f".to_owned()],
            ..Gap::new(Unseen::SharedMapping, 1)
        };
        assert_eq!(summary.incomplete, [mapped.into()]);
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
        assert_eq!(
            calls.iter().map(|call| call.kind).collect::<Vec<_>>(),
            expected
        );
        assert_eq!(calls[4].start_ns, 100_000);
        assert_eq!(names.get(calls[0].name), b"data/f");
        assert!(initial.iter().any(|initial| initial.state
            == State::File {
                size: 12_288,
                data: None
            }));
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
        let apart = moves
            .windows(2)
            .map(|two| two[1].start_ns - two[0].start_ns);
        assert!(
            apart
                .clone()
                .all(|ns| (250_000_000..300_000_000).contains(&ns)),
            "{:?}",
            apart.collect::<Vec<_>>()
        );
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
        assert_eq!(
            kinds(&calls)[..3],
            [
                (0, CallKind::Open),
                (0, CallKind::WriteAt),
                (0, CallKind::Spawn)
            ]
        );
        assert_eq!(
            (
                calls[3].kind,
                calls[3].lane,
                calls[3].took_ns,
                calls[3].length
            ),
            (CallKind::ReadAt, 1, 2_000_000, 8192)
        );
        assert_eq!(calls[4].kind, CallKind::DataSync);
        assert!(calls[3].offset < 2 << 20, "{}", calls[3].offset);
        assert_eq!(
            (names.get(calls[0].name), summary.skipped),
            (&b"device-8-0"[..], 1)
        );
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
        assert!(
            calls.iter().all(|call| call.end_ns() < 1_000_000_000),
            "{calls:?}"
        );
        let waits = format!(
            "fio version 2 iolog\nf add\nf open\nf wait {0} 0\nf wait {0} 0\nf write 0 512\n",
            u64::MAX
        );
        let (calls, ..) = imported(&waits, "/");
        assert_eq!(
            calls.last().map(|call| call.start_ns),
            Some(super::importer::LATEST)
        );
    }

    #[test]
    fn text_of_no_known_tracer_is_refused() {
        assert!(
            find(b"hello world\n")
                .unwrap_err()
                .to_string()
                .contains("strace (-f -ttt -T), fio (")
        );
        assert!(find(b"").is_err());
    }
}
