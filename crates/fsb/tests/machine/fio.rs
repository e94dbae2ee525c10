//! `fsb fio` beside fio: the same job file, and the same calls.

use std::path::Path;
use std::process::{Command, Output};

use fsb_testkit::wants;

use crate::common::{FSB, expect_code, fsb_json, has_message, in_memory, message, scratch};

/// The calls on data and the syncs, as strace prints them without the descriptor and the bytes:
/// name, size, offset.
type Calls = Vec<(String, u64, u64)>;

/// The job files of `testdata/fio-jobs`, and how their counts are compared.
#[rustfmt::skip] // a table reads as one
const JOBS: &[(&str, Counts)] = &[
    ("amounts-of-loops", Counts::Equal),
    ("backward-read", Counts::Equal),
    ("batches", Counts::Equal),
    ("block-ranges", Counts::SameBytes),
    ("commit-log", Counts::Equal),
    ("decimal-units", Counts::Equal),
    ("direct-by-buffered", Counts::Equal),
    ("environment", Counts::Equal),
    ("file-server", Counts::SameBytes),
    ("file-size-limits", Counts::Equal),
    ("four-phases", Counts::Equal),
    ("fsync-each-write", Counts::Equal),
    ("holes", Counts::Equal),
    ("included", Counts::Equal),
    ("journal", Counts::Equal),
    ("logs-and-formats", Counts::Equal),
    ("loops-over-files", Counts::Equal),
    ("many-files", Counts::Equal),
    ("many-new-files", Counts::Equal),
    ("mix-75-25", Counts::SameTotal),
    ("mix-synced", Counts::MixedSyncs),
    ("new-group", Counts::Equal),
    ("no-map-buffered", Counts::Equal),
    ("numjobs-group", Counts::Equal),
    ("pareto-timed", Counts::Timed),
    ("pinned", Counts::Equal),
    ("polled", Counts::Equal),
    ("queued-fsync", Counts::Equal),
    ("random-mix-buffered-shared", Counts::Timed),
    ("random-write-buffered", Counts::Equal),
    ("random-write-end-fsync", Counts::Equal),
    ("random-write-end-fsync-timed", Counts::Timed),
    ("random-write-timed", Counts::Timed),
    ("rate-iops-queued", Counts::Equal),
    ("rate-of-each-direction", Counts::SameTotal),
    ("read-timed-buffered", Counts::Timed),
    ("sequential-mix", Counts::SameTotal),
    ("sequential-read", Counts::Equal),
    ("slow-client", Counts::Equal),
    ("start-delay", Counts::Equal),
    ("sync-file-range", Counts::Equal),
    ("synced-random-write", Counts::Equal),
    ("syncs-in-turn", Counts::Equal),
    ("syncs-of-passes", Counts::Equal),
    ("thinktime", Counts::Equal),
    ("thinktime-queued", Counts::Equal),
    ("throughput-write", Counts::Timed),
    ("tiobench", Counts::Equal),
    ("two-block-sizes", Counts::SameBytes),
    ("unified-both", Counts::SameTotal),
    ("vectored", Counts::Equal),
    ("verify-random-write", Counts::WritesEqual),
    ("zipf-buffered", Counts::Equal),
];

/// The comparison of the counts of two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// Operations and bytes of each direction, and syncs.
    Equal,
    /// The same of writes. fio reports the reads of its verification, fsb does not.
    WritesEqual,
    /// Operations and bytes of both directions together: the generator decides the direction of
    /// each, or the clock.
    SameTotal,
    /// The same but syncs within a quarter: how often one is repeated depends on the directions.
    MixedSyncs,
    /// Bytes of both directions together, and the share of operations within a tenth: the generator
    /// decides each size.
    SameBytes,
    /// The time ends the job: jobs, directions, bytes of an operation and shares within a tenth.
    Timed,
}

/// The counts of a job: name, group, operations and bytes by direction, and syncs.
#[derive(Debug, Clone, PartialEq)]
struct JobCounts {
    name: String,
    group: u64,
    /// Of reads, writes and both together.
    operations: [u64; 3],
    bytes: [u64; 3],
    syncs: u64,
}

impl JobCounts {
    fn all(document: &serde_json::Value) -> Vec<JobCounts> {
        let field = |job: &serde_json::Value, direction: &str, field: &str| {
            job[direction][field].as_u64().unwrap_or(0)
        };
        let counts = |job: &serde_json::Value| JobCounts {
            name: job["jobname"].as_str().unwrap().to_owned(),
            group: job["groupid"].as_u64().unwrap(),
            operations: ["read", "write", "mixed"]
                .map(|direction| field(job, direction, "total_ios")),
            bytes: ["read", "write", "mixed"].map(|direction| field(job, direction, "io_bytes")),
            syncs: job["sync"]["lat_ns"]["N"].as_u64().unwrap_or(0),
        };
        document["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(counts)
            .collect()
    }

    /// Returns the share of writes among the operations.
    fn writes(&self) -> f64 {
        self.operations[1] as f64 / (self.operations[0] + self.operations[1]) as f64
    }

    /// Returns the mean bytes of the operations of each direction that has some.
    fn record(&self) -> [f64; 2] {
        [0, 1].map(|at| self.bytes[at] as f64 / self.operations[at].max(1) as f64)
    }
}

impl Counts {
    fn check(self, job: &str, fio: &JobCounts, fsb: &JobCounts) {
        let text = format!("{job}: fio {fio:?}, fsb {fsb:?}");
        assert_eq!((&fio.name, fio.group), (&fsb.name, fsb.group), "{text}");
        let total = |counts: [u64; 3]| counts[0] + counts[1];
        let about = |a: f64, b: f64| assert!((a - b).abs() <= 0.1 * a.max(b), "{a} {b}: {text}");
        match self {
            Counts::Equal => assert_eq!(fio, fsb),
            Counts::WritesEqual => {
                let writes = |one: &JobCounts| (one.operations[1], one.bytes[1], one.syncs);
                assert_eq!(writes(fio), writes(fsb), "{text}");
            }
            Counts::SameTotal => {
                let all = |one: &JobCounts| {
                    (
                        total(one.operations),
                        total(one.bytes),
                        one.operations[2],
                        one.syncs,
                    )
                };
                assert_eq!(all(fio), all(fsb), "{text}");
                assert!((fio.writes() - fsb.writes()).abs() < 0.1, "{text}");
            }
            Counts::MixedSyncs => {
                let all = |one: &JobCounts| (total(one.operations), total(one.bytes));
                assert_eq!(all(fio), all(fsb), "{text}");
                assert!(fio.syncs.abs_diff(fsb.syncs) * 4 < fio.syncs, "{text}");
            }
            Counts::SameBytes => {
                // Without a map, the last record of fio may end later.
                assert!(
                    total(fio.bytes).abs_diff(total(fsb.bytes)) < 64 << 10,
                    "{text}"
                );
                about(fio.writes(), fsb.writes());
                [0, 1]
                    .into_iter()
                    .for_each(|at| about(fio.record()[at], fsb.record()[at]));
            }
            Counts::Timed => {
                assert!(fsb.operations.iter().sum::<u64>() > 0, "{text}");
                assert!((fio.writes() - fsb.writes()).abs() < 0.1, "{text}");
                assert_eq!(fio.record(), fsb.record(), "{text}");
                assert_eq!(fio.syncs, fsb.syncs, "{text}");
            }
        }
    }
}

/// Runs a program under strace, and returns its output and the lines of these system calls. At most
/// `shown` bytes of texts and elements of arrays are in them. Job files take their size from the
/// environment.
fn under_strace(directory: &Path, program: &[&str], calls: &str, shown: usize) -> (Output, String) {
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o", "trace"])
        .args(["-s", &shown.to_string(), "-e", &format!("trace={calls}")])
        .args(program)
        .env("FIO_SIZE", "1m")
        .current_dir(directory)
        .output()
        .expect("strace runs");
    expect_code(&output, 0);
    let trace = std::fs::read_to_string(directory.join("trace")).unwrap();
    (output, trace)
}

/// The number of syncs of each kind on the files of a job under strace. The program itself makes
/// `own` calls of fsync for each directory that it makes.
fn syncs(directory: &Path, program: &[&str], own: usize) -> [usize; 3] {
    let (_, trace) = under_strace(directory, program, "fsync,fdatasync,sync_file_range", 0);
    let count = |call: &str| {
        trace
            .lines()
            .filter(|line| line.contains(&format!(" {call}(")))
            .count()
    };
    [
        count("fsync") - own,
        count("fdatasync"),
        count("sync_file_range"),
    ]
}

/// Returns a directory with all job files.
fn job_files() -> tempfile::TempDir {
    let directory = scratch();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fio-jobs");
    for entry in std::fs::read_dir(source).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
    }
    directory
}

#[test]
fn common_job_files_run_with_the_counts_of_fio() {
    needs!(program "fio");
    let directory = job_files();
    let files = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let files = files
        .filter(|name| name.to_string_lossy().ends_with(".fio"))
        .count();
    assert_eq!(files, JOBS.len(), "each job file has a row");
    for (job, counts) in JOBS {
        let file = format!("{job}.fio");
        let programs = [
            &["fio", "--output-format=json"][..],
            &[FSB, "fio", "-q", "--output-format", "json"],
        ];
        let [fio, fsb] = programs.map(|program| {
            let mut command = Command::new(program[0]);
            command
                .args(&program[1..])
                .arg(&file)
                .env("FIO_SIZE", "1m")
                .current_dir(directory.path());
            let output = command.output().expect("it runs");
            expect_code(&output, 0);
            JobCounts::all(&serde_json::from_slice(&output.stdout).expect("JSON"))
        });
        assert_eq!(fio.len(), fsb.len(), "{job}: {fio:?} {fsb:?}");
        fio.iter()
            .zip(&fsb)
            .for_each(|(fio, fsb)| counts.check(job, fio, fsb));
    }
}

#[test]
fn syncs_of_common_job_files_are_those_of_fio_under_strace() {
    needs!(program "fio", "strace");
    let directory = job_files();
    // A job without syncs shows the calls of fsb itself.
    let own = syncs(
        directory.path(),
        &[FSB, "fio", "-q", "random-write-buffered.fio"],
        0,
    )[0];
    for (job, _) in JOBS
        .iter()
        .filter(|(job, counts)| !job.contains("timed") && *counts != Counts::MixedSyncs)
    {
        let file = format!("{job}.fio");
        let text = std::fs::read_to_string(directory.path().join(&file)).unwrap();
        let is_sync = |line: &str| {
            ["fsync=", "fdatasync=", "sync_file_range=", "end_fsync="]
                .iter()
                .any(|name| line.starts_with(name))
        };
        if !text.lines().any(is_sync) {
            continue;
        }
        let fio = syncs(directory.path(), &["fio", &file], 0);
        let fsb = syncs(directory.path(), &[FSB, "fio", "-q", &file], own);
        assert_eq!(fio, fsb, "{job}");
    }
}

/// Runs a program under strace, and returns its calls on the files of jobs. Those of record size
/// are of the jobs: fio also reads and writes other files.
fn calls(directory: &Path, program: &[&str], record: u64) -> Calls {
    let names = "pread64,pwrite64,fsync,fdatasync,syncfs";
    let (_, text) = under_strace(directory, program, names, 0);
    let lines: Vec<&str> = text.lines().collect();
    let call = |(number, line): (usize, &&str)| {
        let (process, call) = line.split_once(' ')?;
        // A call during which another process made one is in two pieces.
        let mut joined = call.to_owned();
        if let Some(start) = call.strip_suffix("<unfinished ...>") {
            let resumed = |line: &&str| line.starts_with(process) && line.contains(" resumed>");
            let rest = lines[number + 1..]
                .iter()
                .copied()
                .find(resumed)?
                .split_once(" resumed>")?
                .1;
            joined = format!("{}{rest}", start.trim_end());
        }
        let call = joined.as_str();
        let (name, arguments) = call.trim_start().split_once('(')?;
        let (arguments, result) = arguments.split_once(") ")?;
        if name.ends_with("sync") || name == "syncfs" {
            return Some((name.to_owned(), 0, 0));
        }
        let mut numbers = arguments.rsplit(", ").map(|number| number.parse::<u64>());
        let (offset, size) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        assert!(
            result.trim_start().starts_with(&format!("= {size}")) || size != record,
            "{line}"
        );
        (size == record).then(|| (name.to_owned(), size, offset))
    };
    lines.iter().enumerate().filter_map(call).collect()
}

/// Returns the calls of both programs for a job whose options cause no note.
fn both(options: &str, record: u64) -> [Calls; 2] {
    let directory = scratch();
    let is_new = options.contains("rw=write");
    let grows = if is_new { "create_on_open=1" } else { "" };
    let text = format!(
        "[j]\nfadvise_hint=0\nfallocate=none\n{grows}\nsize=256k\nbs={record}\n{options}\n"
    );
    std::fs::write(directory.path().join("j.fio"), text).unwrap();
    // The files of fio are laid out before, so that the trace has the calls of the clock only.
    if !is_new {
        let made = Command::new("fio")
            .args(["--create_only=1", "j.fio"])
            .current_dir(directory.path())
            .output()
            .unwrap();
        expect_code(&made, 0);
    }
    [&["fio", "j.fio"][..], &[FSB, "fio", "-q", "j.fio"]]
        .map(|program| calls(directory.path(), program, record))
}

fn of_name(calls: &Calls, name: &str) -> Vec<u64> {
    calls
        .iter()
        .filter(|(found, _, _)| found == name)
        .map(|(_, _, offset)| *offset)
        .collect()
}

/// Returns the names of the writes and of one kind of sync, from the first write to the last.
fn within(calls: &Calls, sync: &str) -> Vec<String> {
    let is_write = |(name, ..): &&(String, u64, u64)| name == "pwrite64";
    let first = calls.iter().position(|call| is_write(&call)).unwrap();
    let last = calls.iter().rposition(|call| is_write(&call)).unwrap();
    let names = calls[first..=last].iter().map(|(name, ..)| name.clone());
    names
        .filter(|name| name == "pwrite64" || name == sync)
        .collect()
}

/// Returns the results of the first job of fio and of fsb.
fn results(options: &str) -> [serde_json::Value; 2] {
    results_of(&format!("[j]\nfadvise_hint=0\nsize=1m\nbs=4k\n{options}\n"))
}

/// Checks that temporary directories are on ext4 or xfs, which take all flags of reads.
fn flags_of_scratch() -> Result<(), String> {
    let directory = scratch();
    let output = Command::new("stat")
        .args(["-f", "-c", "%T"])
        .arg(directory.path())
        .output()
        .map_err(|error| error.to_string())?;
    let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match ["ext2/ext3", "xfs"].contains(&found.as_str()) {
        true => Ok(()),
        false => Err(format!("temporary files on ext4 or xfs, not {found}")),
    }
}

/// Returns the results of the first job of a file of fio and of fsb.
fn results_of(text: &str) -> [serde_json::Value; 2] {
    let directory = scratch();
    std::fs::write(directory.path().join("j.fio"), text).unwrap();
    [
        &["fio", "--output-format=json"][..],
        &[FSB, "fio", "-q", "--output-format", "json"],
    ]
    .map(|program| {
        let output = Command::new(program[0])
            .args(&program[1..])
            .arg("j.fio")
            .current_dir(directory.path())
            .output();
        let output = output.expect("it runs");
        expect_code(&output, 0);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        document["jobs"][0].clone()
    })
}

#[test]
fn fio_and_fsb_count_the_same_operations_bytes_and_syncs() {
    needs!(program "fio");
    for options in [
        "rw=read\nrate_iops=1000",
        "rw=read\nrate=4m",
        "rw=randread\nnorandommap\ninvalidate=0",
        "rw=write\nfallocate=none\ncreate_on_open=1\nfsync=16",
        "rw=write\nfallocate=none\ncreate_on_open=1\nfdatasync=7",
        "rw=randwrite\noverwrite=1\nfsync=100",
        "rw=read\nthinktime=1ms\nthinktime_blocks=16",
        "rw=read\nstartdelay=100ms",
        "rw=read\nnumjobs=3\ngroup_reporting",
        "rw=read\nioengine=libaio",
        "rw=randread\nioengine=libaio\ndirect=1\niodepth=8",
        "rw=randwrite\noverwrite=1\nioengine=libaio\ndirect=1\niodepth=4",
        "rw=randread\ninvalidate=0\npercentage_random=30",
        "rw=randread\nrandom_generator=lfsr",
        "rw=randread\ninvalidate=0\nrandom_distribution=zoned:80/20:20/80",
        "rw=read\nfallocate=keep\nopenfiles=4",
        "rw=read\nioengine=sync",
        "rw=randwrite\noverwrite=1\nioengine=sync\nfsync=50",
        "rw=write\nfallocate=none\ncreate_on_open=1\nbuffer_compress_percentage=50\ndedupe_percentage=20",
        "rw=trim\nioengine=falloc",
        "rw=randtrim\nioengine=falloc\nio_size=512k",
        "rw=write\nfallocate=none\ncreate_on_open=1\nfsync_on_close=1",
        "rw=randread\noffset=256k",
        "rw=randread\nfilesize=2m\nsize=25%",
        "rw=read\nnumjobs=3\noffset_increment=512k\ngroup_reporting",
        "rw=randread\nfilename=f\nnumjobs=3\noffset_increment=1m\ngroup_reporting",
        "rw=randread\nfilename=f\nnumjobs=2\ngroup_reporting",
        "rw=randwrite\noverwrite=1\nfilename=f\nnumjobs=2\noffset_increment=1m\ngroup_reporting",
    ] {
        let [fio, fsb] = results(options);
        for direction in ["read", "write", "trim"] {
            for field in ["total_ios", "io_bytes"] {
                let [theirs, ours] =
                    [&fio, &fsb].map(|job| job[direction][field].as_u64().unwrap_or_default());
                assert_eq!(theirs, ours, "{options}: {direction}.{field}");
            }
        }
        // fio's own total leaves out fdatasync.
        let [theirs, ours] =
            [&fio, &fsb].map(|job| job["sync"]["lat_ns"]["N"].as_u64().unwrap_or_default());
        assert_eq!(theirs, ours, "{options}: syncs");
        for direction in ["read", "write", "trim", "sync"] {
            // Each field of ours is one of fio's.
            let Some(fields) = fsb[direction].as_object() else {
                continue;
            };
            fields.keys().for_each(|key| {
                assert!(
                    fio[direction].get(key).is_some(),
                    "{options}: {direction}.{key}"
                )
            });
        }
    }
    // Both start the operations at the rate, and count the waits to the run time.
    for (options, least) in [
        ("rw=read\nrate_iops=1000", 250),
        ("rw=read\nthinktime=1ms\nthinktime_blocks=1", 256),
    ] {
        for job in results(options) {
            assert!(
                job["read"]["runtime"].as_u64().unwrap() >= least,
                "{options}: {job}"
            );
        }
    }
}

#[test]
fn the_directions_of_a_mix_add_up_to_fios_operations() {
    needs!(program "fio");
    for order in ["randrw", "rw"] {
        for job in results(&format!("rw={order}\nrwmixread=70")) {
            let [reads, writes] =
                ["read", "write"].map(|direction| job[direction]["total_ios"].as_u64().unwrap());
            assert_eq!(reads + writes, 256, "{job}");
            assert!((150..210).contains(&reads), "{job}");
        }
    }
}

#[test]
fn records_of_several_sizes_move_fios_bytes() {
    needs!(program "fio");
    for (sizes, order, mean, tolerance) in [
        ("bsrange=4k-16k", "rw=read", 10.0, 0.1),
        ("bssplit=4k/50:16k/50", "rw=read", 10.0, 0.1),
        // The standard error of the mean of 820 such records is 6 %.
        (
            "bssplit=4k/90:64k/10",
            "rw=write\nfallocate=none\ncreate_on_open=1",
            10.0,
            0.3,
        ),
        (
            "bsrange=4k-16k",
            "rw=randread\nnorandommap\ninvalidate=0",
            10.0,
            0.1,
        ),
        // At random, records end before others, so their mean is smaller.
        ("bsrange=4k-16k", "rw=randread", 8.2, 0.1),
    ] {
        let direction = if order.contains("write") {
            "write"
        } else {
            "read"
        };
        let [fio, fsb] = results(&format!("{order}\nsize=8m\n{sizes}")).map(|job| {
            ["io_bytes", "total_ios"].map(|field| job[direction][field].as_u64().unwrap() as f64)
        });
        assert_eq!(fsb[0], f64::from(8 << 20), "{sizes}, {order}");
        // Without a map, the last record of fio may end later.
        assert!(
            (fio[0] - fsb[0]).abs() < 64.0 * 1024.0,
            "{sizes}, {order}: {fio:?}, {fsb:?}"
        );
        for [bytes, records] in [fio, fsb] {
            let found = bytes / records / 1024.0;
            assert!(
                (found - mean).abs() < tolerance * mean,
                "{sizes}, {order}: {found} KiB a record"
            );
        }
    }
}

#[test]
fn verification_reads_what_was_written_past_the_cache() {
    needs!(program "fio");
    let options = "rw=write\ndirect=1\nfallocate=none\ncreate_on_open=1\nverify=crc32c";
    let [fio, fsb] = results(options);
    for field in ["total_ios", "io_bytes"] {
        assert_eq!(fio["write"][field], fsb["write"][field], "{field}");
    }
    // The reads of fio's verification are in its results; fsb has none, and says so.
    assert_eq!(fio["read"]["io_bytes"], 1 << 20);
    assert_eq!(fsb["read"]["io_bytes"].as_u64().unwrap_or_default(), 0);
}

#[test]
fn fio_and_fsb_make_the_same_calls_for_sequential_jobs() {
    needs!(program "fio", "strace");
    for options in [
        "rw=read",
        "rw=read\nnrfiles=4",
        "rw=read\ninvalidate=0\nio_size=128k",
        "rw=write",
        "rw=write\nio_size=64k",
    ] {
        for record in [16384, 8192] {
            let [fio, fsb] = both(options, record);
            let name = if options.contains("read") {
                "pread64"
            } else {
                "pwrite64"
            };
            let (theirs, ours) = (of_name(&fio, name), of_name(&fsb, name));
            assert_eq!(theirs, ours, "{options}, {record}");
            assert!(!ours.is_empty(), "{options}");
        }
    }
}

#[test]
fn parts_of_files_are_those_of_fio() {
    needs!(program "fio", "strace");
    for options in [
        "rw=read\noffset=64k",
        "rw=write\noffset=64k",
        "rw=randwrite\noverwrite=1\noffset=128k",
        "rw=read\nfilesize=512k\nsize=50%",
        "rw=read\nfilesize=512k\nsize=50%\noffset=384k",
        "rw=read\nnumjobs=3\noffset_increment=64k",
        "rw=read\nfilename=f\nnumjobs=3\noffset=16k\noffset_increment=256k",
        "rw=randread\nfilename=f\nnumjobs=2\noffset_increment=256k",
        "rw=write\nfilename=f\nnumjobs=2\noffset_increment=256k",
    ] {
        let name = if options.contains("read") {
            "pread64"
        } else {
            "pwrite64"
        };
        let [theirs, ours] = both(options, 16384).map(|calls| {
            let mut offsets = of_name(&calls, name);
            offsets.sort_unstable();
            offsets
        });
        assert_eq!(theirs, ours, "{options}");
        assert!(ours.len() >= 8, "{options}: {ours:?}");
    }
}

#[test]
fn jobs_that_share_a_file_beside_each_other_access_parts_of_one_file() {
    needs!(program "fio", "strace");
    let directory = scratch();
    let sections = "[a]\nrw=write\n[b]\nrw=write\noffset=256k\n";
    let text = format!(
        "[global]\nfilename=f\nsize=256k\nbs=16k\nfallocate=none\ncreate_on_open=1\n{sections}"
    );
    std::fs::write(directory.path().join("j.fio"), text).unwrap();
    for program in [&["fio", "j.fio"][..], &[FSB, "fio", "-q", "j.fio"]] {
        let mut offsets = of_name(&calls(directory.path(), program, 16384), "pwrite64");
        offsets.sort_unstable();
        assert_eq!(
            offsets,
            (0..32).map(|record| record * 16384).collect::<Vec<_>>(),
            "{program:?}"
        );
    }
}

#[test]
fn reads_and_writes_of_a_sequential_mix_have_places_of_their_own_as_in_fio() {
    needs!(program "fio", "strace");
    for calls in both("rw=rw", 8192) {
        for name in ["pread64", "pwrite64"] {
            let offsets = of_name(&calls, name);
            assert!(offsets.len() > 5, "{name}: {offsets:?}");
            let expected: Vec<u64> = (0..offsets.len() as u64)
                .map(|record| record * 8192)
                .collect();
            assert_eq!(offsets, expected, "{name}");
        }
    }
}

#[test]
fn a_share_of_the_visits_goes_on_in_sequence_as_in_fio() {
    needs!(program "fio", "strace");
    for calls in both("rw=randread\ninvalidate=0\npercentage_random=25", 1024) {
        let offsets = of_name(&calls, "pread64");
        assert_eq!(offsets.len(), 256);
        let in_sequence = offsets
            .windows(2)
            .filter(|pair| pair[1] == pair[0] + 1024)
            .count();
        assert!(
            (160..225).contains(&in_sequence),
            "{in_sequence} of 256 in sequence"
        );
    }
}

#[test]
fn libaio_submits_requests_to_the_kernel_as_in_fio() {
    needs!(program "fio", "strace");
    let directory = scratch();
    let text = "[j]\nsize=256k\nbs=8k\nrw=randread\nioengine=libaio\ndirect=1\niodepth=4\n";
    std::fs::write(directory.path().join("j.fio"), text).unwrap();
    for program in [&["fio", "j.fio"][..], &[FSB, "fio", "-q", "j.fio"]] {
        let names = "io_submit,pread64,io_uring_enter";
        let (_, trace) = under_strace(directory.path(), program, names, 32);
        let requests = trace.matches("aio_lio_opcode=IOCB_CMD_PREAD").count();
        assert_eq!(requests, 32, "{program:?}: {trace}");
    }
}

#[test]
fn fio_and_fsb_visit_every_record_once_at_random() {
    needs!(program "fio", "strace");
    for (options, name) in [
        ("rw=randread", "pread64"),
        ("rw=randwrite\noverwrite=1", "pwrite64"),
    ] {
        let [mut theirs, mut ours] = both(options, 8192).map(|calls| of_name(&calls, name));
        assert!(
            !theirs.is_sorted() && !ours.is_sorted(),
            "{options}: both are random"
        );
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(theirs, ours, "{options}");
    }
}

/// Returns how many calls of a job the description of its result says would have waited.
fn counted_as_waiting(job: &serde_json::Value) -> u64 {
    let description = job["desc"].as_str().expect("a description");
    description
        .strip_prefix("nowait=1: ")
        .and_then(|rest| {
            rest.strip_suffix(" of 256 calls would have waited (EAGAIN) and were made again")
        })
        .and_then(|number| number.parse::<u64>().ok())
        .unwrap_or_else(|| panic!("{description}"))
}

/// A job of 256 reads that do not wait.
const WITHOUT_WAITING: &str = "[j]\nrw=randread\nsize=1m\nbs=4k\nnowait=1\nignore_error=EAGAIN\n";

/// fio counts the calls as errors, fsb makes them again. The kernel begins to read what is not
/// cached before it checks whether the call would wait, and on a busy machine the data may be there
/// by then: the numbers differ between runs.
#[test]
fn calls_that_would_wait_are_counted_as_in_fio() {
    needs!(program "fio");
    wants!(flags_of_scratch());
    for engine in ["pvsync2", "libaio", "io_uring"] {
        for (state, expected) in [("", 1..=256), ("pre_read=1", 0..=0)] {
            let text = format!("{WITHOUT_WAITING}ioengine={engine}\n{state}\n");
            let [theirs, ours] = results_of(&text);
            let found = theirs["total_err"].as_u64().expect("a number");
            assert!(expected.contains(&found), "{engine} {state}: {found}");
            let counted = counted_as_waiting(&ours);
            assert!(expected.contains(&counted), "{engine} {state}: {counted}");
            assert_eq!(ours["read"]["io_bytes"], 1 << 20, "{engine} {state}");
        }
    }
}

#[test]
fn calls_that_would_wait_are_those_that_the_kernel_refused() {
    needs!(program "strace");
    wants!(flags_of_scratch());
    // Results of io_uring are no system calls.
    for (engine, refused) in [("pvsync2", "-1 EAGAIN"), ("libaio", "res=-11,")] {
        let directory = scratch();
        let text = format!("{WITHOUT_WAITING}ioengine={engine}\n");
        std::fs::write(directory.path().join("j.fio"), text).unwrap();
        let program = [FSB, "fio", "-q", "--output-format", "json", "j.fio"];
        let names = "fadvise64,preadv2,io_getevents";
        let (output, trace) = under_strace(directory.path(), &program, names, 32);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let (_, timed) = trace.split_once("POSIX_FADV_RANDOM").expect("the clock");
        let counted = counted_as_waiting(&document["jobs"][0]);
        assert!(counted > 0, "{engine}: {trace}");
        assert_eq!(counted, timed.matches(refused).count() as u64, "{engine}");
    }
}

#[test]
fn flags_of_calls_work_or_are_refused_with_the_errno() {
    wants!(flags_of_scratch());
    let run = |directory: &Path, options: &str| {
        let text = format!("[j]\nrw=read\nsize=8m\nbs=64k\n{options}\n");
        std::fs::write(directory.join("j.fio"), text).unwrap();
        fsb_json(directory, "fio -q j.fio")
    };
    for options in [
        "ioengine=pvsync2\nuncached=1",
        "ioengine=io_uring\nuncached=1",
    ] {
        let directory = scratch();
        let kept = run(directory.path(), options);
        expect_code(&kept, 0);
        assert!(!has_message(&kept, "warning/not-direct"), "{options}");
        let memory = in_memory();
        let refused = run(memory.path(), options);
        expect_code(&refused, 4);
        let text = message(&refused, "warning/run-failed").to_string();
        assert!(text.contains("EOPNOTSUPP"), "{options}: {text}");
    }
    for engine in ["pvsync2", "libaio", "io_uring"] {
        let memory = in_memory();
        let options = format!("ioengine={engine}\ndirect=1\natomic=1\nrw=write\nbs=4k");
        let refused = run(memory.path(), &options);
        expect_code(&refused, 4);
        let text = message(&refused, "warning/run-failed").to_string();
        assert!(text.contains("no atomic writes"), "{engine}: {text}");
    }
}

#[test]
fn syncs_are_those_of_fio() {
    needs!(program "fio", "strace");
    // fio syncs before the next operation, so it does not sync the last one.
    for (options, call, syncs) in [
        ("rw=write\nfdatasync=1", "fdatasync", 15),
        ("rw=write\nfsync=1", "fsync", 15),
        ("rw=write\nfsync=4", "fsync", 3),
        ("rw=write\nfsync=5", "fsync", 3),
        ("rw=write\nfdatasync=16", "fdatasync", 0),
        ("rw=randwrite\noverwrite=1\nfdatasync=3", "fdatasync", 5),
    ] {
        let [fio, fsb] = both(options, 16384).map(|calls| within(&calls, call));
        assert_eq!(fio, fsb, "{options}");
        assert_eq!(
            fio.iter().filter(|name| *name == call).count(),
            syncs,
            "{options}: {fio:?}"
        );
    }
    let [fio, fsb] = both("rw=write\nend_fsync=1", 16384);
    let after_last = |calls: &Calls| {
        let last = calls
            .iter()
            .rposition(|(name, _, _)| name == "pwrite64")
            .unwrap();
        calls[last + 1..]
            .iter()
            .map(|(name, _, _)| name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(after_last(&fio), ["fsync"]);
    assert_eq!(after_last(&fsb)[0], "fsync", "{:?}", after_last(&fsb));
    // fio syncs at the end of the work, and not again when it closes the file.
    let [fio, fsb] = both("rw=write\nfsync_on_close=1", 16384);
    assert_eq!(after_last(&fio), ["fsync"]);
    assert_eq!(after_last(&fsb)[0], "fsync", "{:?}", after_last(&fsb));
}

/// Returns the lines of these system calls that a program makes for a job of 32 records of 8 KiB.
fn lines_of_calls(program: &[&str], directory: &Path, calls: &str) -> Vec<String> {
    let (_, trace) = under_strace(directory, program, calls, 0);
    trace
        .lines()
        .map(|line| {
            line.split_once(' ')
                .map_or(line, |(_, call)| call.trim_start())
                .to_owned()
        })
        .collect()
}

/// The lines of both programs, fio's first.
fn lines_of_both(options: &str, calls: &str) -> [Vec<String>; 2] {
    let directory = scratch();
    std::fs::write(
        directory.path().join("j.fio"),
        format!("[j]\nsize=256k\nbs=8k\n{options}\n"),
    )
    .unwrap();
    [&["fio", "j.fio"][..], &[FSB, "fio", "-q", "j.fio"]]
        .map(|program| lines_of_calls(program, directory.path(), calls))
}

#[test]
fn trims_punch_the_holes_of_fio() {
    needs!(program "fio", "strace");
    let every: Vec<u64> = (0..32).map(|record| record * 8192).collect();
    for order in ["trim", "randtrim"] {
        for lines in lines_of_both(&format!("rw={order}\nioengine=falloc"), "fallocate") {
            let punches = lines
                .iter()
                .filter(|line| line.contains("FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, "));
            let offset = |line: &String| {
                line.split(", ")
                    .nth(2)
                    .and_then(|offset| offset.parse().ok())
            };
            let mut offsets: Vec<u64> = punches.filter_map(offset).collect();
            // fsb tries one call on a file of its own before the clock.
            if offsets.len() == 33 {
                offsets.remove(0);
            }
            assert_eq!(offsets.is_sorted(), order == "trim", "{lines:?}");
            offsets.sort_unstable();
            assert_eq!(offsets, every, "{order}: {lines:?}");
        }
    }
}

#[test]
fn the_engine_sync_seeks_as_in_fio() {
    needs!(program "fio", "strace");
    for (options, seeks) in [("rw=read", 0..2), ("rw=randread", 25..33)] {
        for lines in lines_of_both(&format!("{options}\nioengine=sync"), "lseek,read") {
            // strace aligns the results, and writes the end of a call that another process
            // interrupted on a line of its own.
            let is_record = |line: &String| {
                let begins = |call: &str| {
                    call.starts_with("read(") || call.starts_with("<... read resumed>")
                };
                let call = line
                    .split_once(") ")
                    .filter(|(call, _)| begins(call) && call.ends_with(", 8192"));
                call.is_some_and(|(_, result)| result.trim_start() == "= 8192")
            };
            assert_eq!(
                lines.iter().filter(|line| is_record(line)).count(),
                32,
                "{options}: {lines:?}"
            );
            let (first, last) = (
                lines.iter().position(is_record).unwrap(),
                lines.iter().rposition(is_record).unwrap(),
            );
            let found = lines[first..last]
                .iter()
                .filter(|line| line.contains("SEEK_SET"))
                .count();
            assert!(
                seeks.contains(&found),
                "{options}: {found} seeks: {lines:?}"
            );
        }
    }
}

#[test]
fn jobs_that_share_a_file_in_turn_do_the_work_of_fio() {
    needs!(program "fio");
    let directory = scratch();
    let jobs = "[a]\nrw=read\n[b]\nstonewall\nrw=randread\n[c]\nstonewall\nrw=write\n[d]\nstonewall\nrw=randwrite\n";
    let text = format!("[global]\nfilename=f\nfadvise_hint=0\nsize=1m\nbs=4k\n{jobs}");
    std::fs::write(directory.path().join("j.fio"), text).unwrap();
    let counts = [
        &["fio", "--output-format=json"][..],
        &[FSB, "fio", "-q", "--output-format", "json"],
    ]
    .map(|program| {
        let output = Command::new(program[0])
            .args(&program[1..])
            .arg("j.fio")
            .current_dir(directory.path())
            .output();
        let output = output.expect("it runs");
        expect_code(&output, 0);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let count = |job: &serde_json::Value| {
            ["read", "write"]
                .map(|direction| job[direction]["total_ios"].as_u64().unwrap_or_default())
        };
        document["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(count)
            .collect::<Vec<_>>()
    });
    assert_eq!(counts[0], counts[1]);
    assert_eq!(counts[0], [[256, 0], [256, 0], [0, 256], [0, 256]]);
}
