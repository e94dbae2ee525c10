//! `fsb filebench`: performs a workload file, prints filebench's text, and leaves nothing.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::common::filebench::*;
use crate::common::{
    JSON, expect_code, expect_error, expect_no_traces, expect_refusals, fails, fsb, fsb_json,
    kill_watcher, message, scratch, stdout, succeeds, traces, wait_until, words,
};

#[test]
fn results_have_filebenchs_form_and_are_compared_as_filebenchs() {
    let directory = scratch();
    let mut texts = Vec::new();
    for seed in ["1", "2"] {
        let small = [
            "--set",
            "nfiles=100",
            "--set",
            "nthreads=3",
            "--seconds",
            "1",
            "--verify",
            "--seed",
            seed,
        ];
        let output = run(directory.path(), "varmail.f", &small);
        expect_code(&output, 0);
        texts.push(stdout(&output));
    }
    assert_eq!(listing(directory.path()), Vec::<PathBuf>::new());
    let text = &texts[0];
    let parts = [
        "Filebench Version 1.5 (fsb ",
        ": Varmail Version 3.0 personality successfully loaded\n",
        ": Running...\n",
        ": Run took 1 seconds...\n",
        ": Per-Operation Breakdown\nclosefile4 ",
        ": IO Summary: ",
        ": Shutting down processes\n",
    ]
    .map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")));
    assert!(parts.is_sorted(), "{text}");
    // Each operation of the file has a line; each pass performs all of them, except for the last
    // pass.
    let counts: Vec<u64> = text
        .lines()
        .filter_map(|line| {
            line.split_once("ops ")?
                .0
                .split_once(' ')?
                .1
                .trim()
                .parse()
                .ok()
        })
        .collect();
    assert_eq!(counts.len(), 13, "{text}");
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(
        *least > 0 && most - least <= 3,
        "three threads are at most one pass apart each: {counts:?}"
    );
    std::fs::write(directory.path().join("one.txt"), &texts[0]).unwrap();
    std::fs::write(directory.path().join("two.txt"), &texts[1]).unwrap();
    let compared = |arguments: &[&str]| {
        let output = succeeds(
            directory.path(),
            &[&["compare", "one.txt", "two.txt"], arguments].concat(),
        );
        stdout(&output)
    };
    // The total comes first, and its parts on demand.
    let totals = compared(&[]);
    assert!(
        totals.contains("varmail: total") && !totals.contains("appendfilerand2"),
        "{totals}"
    );
    assert!(compared(&["--detail", "varmail"]).contains("appendfilerand2"));
}

#[test]
fn files_that_come_with_fsb_run_by_their_name() {
    let directory = scratch();
    let entries = std::fs::read_dir(shipped_micro("")).unwrap();
    let names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let help = stdout(&fsb(directory.path(), "filebench --help"));
    let is_listed = |name: &&String| {
        help.split([' ', ',', '\n'])
            .any(|word| word.trim_end_matches('.') == **name)
    };
    assert_eq!(names.iter().find(|name| !is_listed(name)), None, "{help}");
    // Every micro benchmark, smaller. The servers have their own tests.
    let servers = [
        "fileserver.f",
        "webserver.f",
        "webproxy.f",
        "varmail.f",
        "oltp.f",
        "videoserver.f",
    ];
    let micro = names
        .iter()
        .filter(|name| !servers.contains(&name.as_str()));
    let variables = [
        ("nfiles", "100"),
        ("count", "100"),
        ("ndirs", "50"),
        ("filesize", "1m"),
    ];
    for name in micro.filter(|name| !name.ends_with("direct.f")) {
        let text = std::fs::read_to_string(shipped_micro(name)).unwrap();
        let is_set = |(variable, _): &&(&str, &str)| {
            text.contains(&format!("set ${variable}=")) && !text.contains("set $filesize=cvar")
                || *variable == "nfiles" && text.contains("set $nfiles=")
        };
        let values: Vec<String> = variables
            .iter()
            .filter(is_set)
            .map(|(variable, value)| format!("--set={variable}={value}"))
            .collect();
        let mut arguments = vec!["filebench", "--dir", ".", "--seconds", "1", "-q", name];
        arguments.extend(values.iter().map(String::as_str));
        let output = succeeds(directory.path(), &arguments);
        assert!(
            stdout(&output).contains(": IO Summary: "),
            "{name}: {}",
            stdout(&output)
        );
        assert_eq!(listing(directory.path()), Vec::<PathBuf>::new(), "{name}");
    }
}

#[test]
fn recommended_sizes_are_those_of_the_documentation() {
    let directory = scratch();
    // The file has 10,000 files; the value of --set holds against the recommended one.
    let run = |more: &[&str]| {
        fsb(
            directory.path(),
            &[
                &words("filebench --dir . --seconds 1 -q filemicro_statfile.f"),
                more,
            ]
            .concat(),
        )
    };
    let sizes = ["--set", "filesize=0", "--set", "nthreads=2"];
    let small = run(&[&["--system", "small", "--set", "nfiles=60"], &sizes[..]].concat());
    expect_code(&small, 0);
    let too_large = run(&["--system", "large", "--set", "filesize=1t"]);
    assert!(
        crate::common::stderr(&too_large).contains("97.7 PiB"),
        "100,000 files of 1 TiB: {too_large:?}"
    );
    fails(
        directory.path(),
        "filebench --system small makedirs.f",
        2,
        "arguments/conflict",
    );
    std::fs::write(directory.path().join("own.f"), "set $dir=/tmp\n").unwrap();
    fails(
        directory.path(),
        "filebench --system small own.f",
        2,
        "arguments/conflict",
    );
}

/// The other files contain all kinds of operations.
#[test]
fn other_files_of_filebenchs_run_to_their_end() {
    let directory = scratch();
    for (file, values, operation) in [
        ("makedirs.f", vec!["ndirs=50"], "dirmakedir"),
        ("removedirs.f", vec!["ndirs=50"], "dirremovedir"),
        ("copyfiles.f", vec!["nfiles=30"], "writefile2"),
        ("randomrw.f", vec!["filesize=64k"], "rand-write1"),
        (
            "ratelimcopyfiles.f",
            vec!["nfiles=30", "eventrate=1000"],
            "createfile2",
        ),
        (
            "oltp.f",
            vec![
                "filesize=256k",
                "logfilesize=512k",
                "nshadows=5",
                "ndbwriters=2",
                "usermode=10",
            ],
            "lg-write",
        ),
        ("compflow.f", vec!["nfiles=40", "nthreads=2"], "openfile5"),
    ] {
        let mut more = vec!["--verify", "--seconds", "1", "--quiet"];
        values
            .iter()
            .for_each(|value| more.extend(["--set", *value]));
        let output = run(directory.path(), file, &more);
        expect_code(&output, 0);
        let text = stdout(&output);
        let line = text
            .lines()
            .find(|line| line.starts_with(operation))
            .unwrap_or_else(|| panic!("{file}: {text}"));
        assert!(!line.contains(" 0ops"), "{file}: {line}");
        assert_eq!(listing(directory.path()), Vec::<PathBuf>::new(), "{file}");
    }
    // The flow makes fifty directories once and then ends.
    let output = run(
        directory.path(),
        "makedirs.f",
        &["--set", "ndirs=50", "--seconds", "60"],
    );
    assert!(
        stdout(&output).contains("dirmakedir           50ops "),
        "{}",
        stdout(&output)
    );
}

#[test]
fn unsupported_flowops_are_reported_by_line_beforehand() {
    let directory = scratch();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write(
        "own.f",
        "set $dir=.\nset $n=5\ndefine file name=f,path=$dir,size=4k,prealloc\ndefine process name=p {\n\
                    thread name=t { flowop read name=r,filename=f,iosize=4k }\n}\n",
    );
    let (netsfs, videoserver) = (shipped("refused/netsfs.f"), shipped("videoserver.f"));
    let requests: &[(&[&str], &str)] = &[
        (&[&netsfs], "filebench/unsupported"),
        (&["own.f"], "filebench/unsupported"),
        (
            &["own.f", "--seconds", "1", "--set", "m=5"],
            "filebench/unsupported",
        ),
        (
            &["own.f", "--seconds", "1", "--set", "n"],
            "arguments/invalid-value",
        ),
        (
            &["own.f", "--seconds", "1", "--dir", "gone"],
            "directory/unusable",
        ),
        (
            &["own.f", "--seconds", "1", "--dir", "own.f"],
            "directory/unusable",
        ),
        (&["own.f", "--seconds", "0"], "arguments/invalid-value"),
        (&["gone.f"], "input/unreadable"),
        (&["."], "input/unreadable"),
    ];
    let requests: Vec<(Vec<&str>, &str)> = requests
        .iter()
        .map(|(words, code)| ([&["filebench"], *words].concat(), *code))
        .collect();
    let requests: Vec<(&[&str], &str)> = requests
        .iter()
        .map(|(words, code)| (words.as_slice(), *code))
        .collect();
    expect_refusals("filebench", directory.path(), &requests);
    // At this size the file set does not fit.
    let large = format!("filebench --dir . --set filesize=1t {videoserver}");
    fails(directory.path(), &large, 3, "machine/no-space");
    if let Some(device) = ["/dev/vda", "/dev/sda", "/dev/loop0"]
        .into_iter()
        .find(|path| Path::new(path).exists())
    {
        let arguments = ["filebench", "--seconds", "1", "--dir", device, "own.f"];
        let error = fails(directory.path(), &arguments, 2, "directory/unusable");
        assert_eq!(error["fields"]["kind"], "block_device");
    }
    assert_eq!(listing(directory.path()), [directory.path().join("own.f")]);
}

#[test]
fn signals_end_it_and_it_leaves_nothing() {
    let before = traces();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let directory = scratch();
        std::fs::write(directory.path().join("mine"), "mine").unwrap();
        let running = start(directory.path(), &[JSON]);
        running.signal(signal);
        expect_error(&running.wait(), code, "run/interrupted");
        assert_eq!(listing(directory.path()), [directory.path().join("mine")]);
        expect_no_traces(&before);
    }
    // After a kill no process continues, and the run's watcher removes the files.
    let directory = scratch();
    let running = start(directory.path(), &[]);
    running.signal(Signal::KILL);
    running.wait();
    wait_until("the files are gone", Duration::from_secs(60), || {
        listing(directory.path()).is_empty()
    });
    expect_no_traces(&before);
    // If the watcher was killed, too, the next fsb removes them.
    let running = start(directory.path(), &[]);
    kill_watcher(running.id());
    running.signal(Signal::KILL);
    running.wait();
    expect_no_traces(&before);
    assert_eq!(listing(directory.path()).len(), 1);
    succeeds(directory.path(), "clean");
    assert_eq!(listing(directory.path()), Vec::<PathBuf>::new());
}

#[test]
fn files_that_vanish_or_change_end_the_run_by_name_and_the_rest_goes() {
    type Harm = fn(&Path);
    let vanish: Harm = |path| drop(std::fs::remove_file(path));
    let change: Harm = |path| {
        if let Ok(length) = std::fs::metadata(path).map(|metadata| metadata.len()) {
            // Do not truncate the file first: a read at that moment would end early.
            let open = std::fs::OpenOptions::new().write(true).open(path);
            drop(open.and_then(|file| file.write_all_at(&vec![0x55; length as usize], 0)));
        }
    };
    for (harm, errno) in [(vanish, Some("ENOENT")), (change, None)] {
        let directory = scratch();
        let running = start(directory.path(), &["--verify", JSON]);
        let set = set(directory.path()).unwrap();
        // Files come and go; some are damaged between two calls of the run.
        for path in leaves(&set) {
            harm(&path);
        }
        let output = running.wait();
        expect_code(&output, 4);
        let fields = message(&output, "warning/run-failed")["fields"].clone();
        let reason = fields["reason"].as_str().unwrap();
        assert!(
            reason.contains("fsb-set/files") && fields["line"].is_number(),
            "{fields}"
        );
        assert_eq!(fields["errno"].as_str(), errno, "{fields}");
        assert_eq!(listing(directory.path()), Vec::<PathBuf>::new());
    }
}

fn leaves(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let paths = entries.flatten().map(|entry| entry.path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                leaves(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// A thread that takes files and returns none finally finds none.
#[test]
fn too_few_files_are_a_failed_run_and_the_next_one_follows() {
    let directory = scratch();
    let text = "set $dir=.\nset $n=3\ndefine fileset name=s,path=$dir,size=1k,entries=$n,prealloc=100\n\
                define process name=p {\nthread name=t {\nflowop deletefile name=d,filesetname=s\n}\n}\n\
                run 30\nset mode quit firstdone\nrun 30\n";
    std::fs::write(directory.path().join("few.f"), text).unwrap();
    let output = fsb_json(directory.path(), "filebench few.f");
    expect_code(&output, 4);
    let failed = message(&output, "warning/run-failed");
    assert_eq!(failed["fields"]["line"], 9, "{failed}");
    assert_eq!(
        stdout(&output).matches("d                    3ops").count(),
        1,
        "{}",
        stdout(&output)
    );
    assert_eq!(listing(directory.path()), [directory.path().join("few.f")]);
}
