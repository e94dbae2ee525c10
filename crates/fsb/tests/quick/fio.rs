//! `fsb fio`: performs a job file, prints fio's JSON, and leaves nothing.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::filebench::{files, listing};
use crate::common::{
    JSON, Running, expect_error, fails, scratch, stderr, stdout, succeeds, wait_until,
};

fn write(directory: &Path, name: &str, text: &str) {
    std::fs::write(directory.join(name), text).unwrap();
}

/// Runs a job file in a directory, and returns its JSON.
fn run(text: &str) -> Value {
    let directory = scratch();
    write(directory.path(), "j.fio", text);
    write(directory.path(), "size.inc", "size=1m\n");
    let output = succeeds(directory.path(), "fio --output-format json -q j.fio");
    let left = ["j.fio", "size.inc"].map(|name| directory.path().join(name));
    assert_eq!(listing(directory.path()), left, "the files are removed");
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn jobs_move_as_many_bytes_as_their_options_say() {
    let global = "[global]\nsize=1m\nbs=4k\n";
    for (options, direction, operations) in [
        ("rw=read", "read", 256),
        ("rw=randread\nbs=8k", "read", 128),
        ("rw=write\nend_fsync=1", "write", 256),
        ("rw=write\nfdatasync=1\nio_size=64k", "write", 16),
        ("rw=write\nfsync=16", "write", 256),
        ("rw=randread\nnorandommap\ninvalidate=0", "read", 256),
        (
            "rw=read\nrate_iops=100000\nthinktime=50\nthinktime_blocks=8",
            "read",
            256,
        ),
        ("rw=read\nrate=400m\nstartdelay=50ms", "read", 256),
        ("rw=randrw\nunified_rw_reporting=1\nfsync=1", "mixed", 256),
        (
            "rw=randwrite\noverwrite=1\nnrfiles=4\nfile_service_type=random",
            "write",
            256,
        ),
        (
            "rw=randread\ninvalidate=0\nio_size=4m\nrandom_distribution=zipf:1.2",
            "read",
            1024,
        ),
        (
            "rw=randrw\nrwmixread=70\nunified_rw_reporting=1",
            "mixed",
            256,
        ),
        ("rw=read\ninvalidate=0\nloops=3", "read", 768),
        ("rw=read\npre_read=1\nioengine=mmap", "read", 256),
        ("rw=write\nnumber_ios=10\nsync=dsync", "write", 10),
        ("rw=randwrite", "write", 256),
        ("rw=randread\nnorandommap", "read", 256),
        ("rw=read\nloops=2\ninclude size.inc", "read", 512),
        (
            "rw=randwrite\nfsync=8\nend_fsync=1\ncpus_allowed=0",
            "write",
            256,
        ),
    ] {
        let document = run(&format!("{global}[j]\n{options}\n"));
        let jobs = document["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 1, "{options}");
        let found = &jobs[0][direction];
        assert_eq!(found["total_ios"], operations, "{options}: {document}");
        let record = if options.contains("8k") { 8192 } else { 4096 };
        assert_eq!(
            found["io_bytes"],
            operations * record,
            "{options}: {document}"
        );
        assert_eq!(found["clat_ns"]["N"], operations, "{options}: {document}");
        assert!(
            found["iops"].as_f64().unwrap() > 0.0,
            "{options}: {document}"
        );
        let others = ["read", "write", "mixed"]
            .iter()
            .filter(|name| jobs[0].get(**name).is_some());
        assert_eq!(others.count(), 1, "{options}: {document}");
    }
}

#[test]
fn syncs_between_operations_are_counted_and_timed() {
    // As in fio, nothing follows the last write.
    for (options, syncs) in [
        ("fsync=16", 15),
        ("fdatasync=1\nio_size=64k", 15),
        ("fsync=300", 0),
    ] {
        let document = run(&format!(
            "[j]\nrw=write\nsize=1m\nbs=4k\nnumjobs=2\ngroup_reporting\n{options}\n"
        ));
        let found = &document["jobs"][0]["sync"];
        assert_eq!(
            found["total_ios"].as_u64().unwrap_or_default(),
            2 * syncs,
            "{options}: {document}"
        );
        assert_eq!(
            found["lat_ns"]["N"].as_u64().unwrap_or_default(),
            2 * syncs,
            "{options}: {document}"
        );
    }
}

#[test]
fn a_mix_has_a_result_for_each_direction() {
    let document =
        run("[j]\nrw=randrw\nrwmixread=75\nsize=4m\nbs=8k\nnumjobs=2\ngroup_reporting\n");
    let job = &document["jobs"][0];
    let count = |direction: &str| job[direction]["total_ios"].as_u64().unwrap();
    assert_eq!(count("read") + count("write"), 1024, "{document}");
    assert!((640..896).contains(&count("read")), "{document}");
    for direction in ["read", "write"] {
        assert_eq!(
            job[direction]["io_bytes"],
            count(direction) * 8192,
            "{document}"
        );
        assert_eq!(
            job[direction]["clat_ns"]["N"],
            count(direction),
            "{document}"
        );
    }
    assert!(job.get("mixed").is_none(), "{document}");
}

#[test]
fn rates_think_times_delays_and_ramps_take_their_time() {
    let runtime = |options: &str| {
        let document = run(&format!(
            "[j]\nrw=read\nsize=64k\ninvalidate=0\n{options}\n"
        ));
        let found = document["jobs"][0]["read"].clone();
        // fio measures a call from its start, so waits are not part of it.
        assert!(
            found["clat_ns"]["min"].as_u64().unwrap() < 10_000_000,
            "{document}"
        );
        (
            found["runtime"].as_u64().unwrap(),
            found["total_ios"].as_u64().unwrap(),
            document["jobs"][0]["elapsed"].clone(),
        )
    };
    // Sixteen operations: the first one at once, the others 20 ms apart.
    let (took, operations, _) = runtime("rate_iops=50");
    assert!(took >= 300 && operations == 16, "{took} {operations}");
    let (took, operations, _) = runtime("thinktime=20ms\nthinktime_blocks=2");
    assert!(took >= 160 && operations == 16, "{took} {operations}");
    let (_, _, elapsed) = runtime("startdelay=1");
    assert!(elapsed.as_u64().unwrap() >= 2, "{elapsed}");
    let (took, operations, elapsed) =
        runtime("time_based\nruntime=200ms\nramp_time=1\nthinktime=10ms");
    assert!(
        took >= 200 && operations <= 20 + took / 10,
        "{took} {operations}"
    );
    assert!(
        took < 1200 && elapsed.as_u64().unwrap() >= 2,
        "{took} {elapsed}"
    );
}

#[test]
fn processes_have_results_of_their_own_unless_the_group_shares_one() {
    let text = "[global]\nrw=randread\nsize=512k\n[a]\nnumjobs=2\n[b]\nstonewall\nnumjobs=3\ngroup_reporting\n";
    let document = run(text);
    let jobs = document["jobs"].as_array().unwrap();
    let found: Vec<_> = jobs
        .iter()
        .map(|job| (&job["jobname"], &job["groupid"], &job["read"]["total_ios"]))
        .collect();
    let [a, b] = ["a", "b"].map(Value::from);
    let [zero, one, own, shared] = [0, 1, 128, 384].map(Value::from);
    assert_eq!(
        found,
        [(&a, &zero, &own), (&a, &zero, &own), (&b, &one, &shared)]
    );
    assert_eq!(jobs[2]["read"]["clat_ns"]["N"], 384);
    assert!(
        document["fio version"]
            .as_str()
            .unwrap()
            .starts_with("fsb-"),
        "{document}"
    );
}

#[test]
fn a_runtime_ends_jobs_that_are_based_on_time() {
    let text = "[j]\nrw=randread\nsize=64k\ninvalidate=0\ntime_based\nruntime=300ms\nnumjobs=2\ngroup_reporting\n";
    let job = &run(text)["jobs"][0]["read"];
    assert!(
        job["total_ios"].as_u64().unwrap() > 32,
        "more than one pass of both: {job}"
    );
    assert!(job["runtime"].as_u64().unwrap() >= 300, "{job}");
}

#[test]
fn results_are_compared_as_fios() {
    let directory = scratch();
    write(
        directory.path(),
        "j.fio",
        "[seq]\nrw=read\nsize=1m\nbs=64k\n",
    );
    for name in ["a.json", "b.json"] {
        let output = succeeds(
            directory.path(),
            &format!("fio -q j.fio --output-format json --output {name}"),
        );
        assert_eq!(stdout(&output), "");
    }
    let output = succeeds(directory.path(), "compare a.json b.json");
    assert!(stdout(&output).contains("seq: read"), "{}", stdout(&output));
}

#[test]
fn the_normal_format_is_short_and_differences_are_notes() {
    let directory = scratch();
    write(
        directory.path(),
        "j.fio",
        "[seq]\nthread\nrw=write\nsize=1m\nwrite_bw_log=x\n",
    );
    let output = succeeds(directory.path(), "fio -q j.fio");
    let (text, notes) = (stdout(&output), stderr(&output));
    assert!(
        text.contains("seq: (groupid=0, jobs=1)\n  write: IOPS="),
        "{text}"
    );
    assert!(
        text.contains(", BW=") && text.contains("clat percentiles (usec): 50th=["),
        "{text}"
    );
    for note in [
        "j.fio:2: thread has no effect",
        "j.fio:5: write_bw_log has no effect: fsb writes no logs",
    ] {
        assert!(notes.contains(note), "{notes}");
    }
}

#[test]
fn unsupported_options_are_named_before_anything_is_changed() {
    let directory = scratch();
    let refused = |text: &str, exit: i32, code: &str| {
        write(directory.path(), "j.fio", text);
        let error = fails(directory.path(), "fio j.fio", exit, code);
        assert_eq!(listing(directory.path()).len(), 1);
        error["message"].as_str().unwrap().to_owned()
    };
    let text = refused(
        "[j]\nrw=read\nsize=1m\nzonemode=zbd\nioengine=rbd\n",
        2,
        "fio/unsupported",
    );
    assert!(
        text.contains("j.fio:4: fio's option zonemode is not supported"),
        "{text}"
    );
    assert!(
        text.contains("j.fio:5: ioengine: rbd is not supported: use psync, sync"),
        "{text}"
    );
    refused("[j]\nrw=read\nsize=1t\nnumjobs=64\n", 3, "machine/no-space");
    refused(
        "[j]\nrw=read\nsize=1m\ndirectory=gone\n",
        2,
        "directory/unusable",
    );
    fails(directory.path(), "fio gone.fio", 2, "input/unreadable");
    write(directory.path(), "j.fio", "[j]\nrw=read\nsize=1m\n");
    fails(
        directory.path(),
        "fio j.fio --output gone/a.json",
        2,
        "output/unwritable",
    );
}

#[test]
fn an_interrupted_run_leaves_no_files() {
    let directory = scratch();
    write(
        directory.path(),
        "j.fio",
        "[j]\nrw=randread\nsize=1m\ninvalidate=0\ntime_based\nruntime=1h\nnumjobs=2\n",
    );
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let running = Running::start(directory.path(), &["fio", "j.fio", JSON]);
        let own = || {
            listing(directory.path())
                .iter()
                .map(|path| files(path))
                .sum::<usize>()
        };
        wait_until("files are there", Duration::from_secs(60), || own() == 2);
        running.signal(signal);
        expect_error(&running.wait(), code, "run/interrupted");
        assert_eq!(listing(directory.path()).len(), 1);
    }
}
