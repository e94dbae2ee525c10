//! Bad input never panics, never starts work, and is told what is wrong with it.

use std::fs;
use std::path::Path;

use crate::common::{
    expect_code, expect_no_traces, fsb, needs_program, needs_root, scratch, stderr, stdout, traces, turn,
};

/// Arguments, the exit code, and what the message must hold. `DIR` is a directory with the files made below.
#[rustfmt::skip]
const TABLE: &[(&str, i32, &str)] = &[
    // The command line itself.
    ("", 2, "Usage: fsb"),
    ("rnu", 2, "unrecognized subcommand"),
    ("run", 2, "no target"),
    ("run --nonsense ext4", 2, "unexpected argument '--nonsense'"),
    ("run --blocks", 2, "a value is required"),
    ("run --precision 2% --blocks 3 ext4", 2, "cannot be used with"),
    ("run --resume DIR ext4", 2, "cannot be used with"),
    ("run null --", 2, "nothing follows --"),
    ("choose null --budget 20 min", 2, "write it as one word: 20min"),
    ("choose null --", 2, "nothing follows --"),
    ("run null --budget 20 minutes", 2, "write it as one word: 20minutes"),
    // Targets.
    ("run full", 2, "to measure the directory, write ./full"),
    ("run exxt4", 2, "did you mean 'ext4'"),
    ("run hammer2", 2, "unknown file system 'hammer2'"),
    ("run ext4,", 2, "an option between commas is empty"),
    ("run ext4,mkfs=\"-i", 2, "a quote is not closed"),
    ("run =ext4", 2, "the name '' is empty"),
    ("run name=", 2, "a target cannot be empty"),
    ("run ext4@raid0:/dev/a+/dev/b", 2, "/dev/a does not exist"),
    ("run ext4 xfs ext5", 2, "did you mean 'ext"),
    ("run ./DIR/missing", 2, "missing"),
    ("run DIR/missing", 2, "missing"),
    ("run DIR/a-file", 2, "is no directory"),
    ("run null@ram", 2, "null"),
    ("run null@/dev/sda", 2, "null"),
    ("run tmpfs@ram", 2, "tmpfs"),
    ("run null,slowdown=often", 2, "slowdown"),
    ("run null,spede=1", 2, "spede"),
    // Suites and numbers.
    ("run null --suite quik", 2, "did you mean 'quick'"),
    ("run null --suite zzzzzzzz", 2, "known are quick"),
    ("run null --blocks 0", 2, "between 1 and 10000"),
    ("run null --blocks 99999999", 2, "between 1 and 10000"),
    ("run null --blocks many", 2, "invalid value 'many'"),
    ("run null --blocks -3", 2, "-3"),
    ("run null --size huge", 2, "is not a size"),
    ("run null --size 0", 2, "size"),
    ("run null --size 5X", 2, "is not a size"),
    ("run null --size 99999999999T", 2, "too large"),
    ("run null --size -5", 2, "-5"),
    ("run null --tails --format csv", 2, "--tails belongs to the first screen"),
    ("run null --budget soon", 2, "is not a duration"),
    ("run null --budget 0", 2, "between 1 second"),
    ("run null --budget 99999h", 2, "between 1 second"),
    ("run null --precision lots", 2, "is not a percentage"),
    ("run null --precision 0%", 2, "is not a percentage"),
    ("run null --theta 0", 2, "is not a percentage"),
    ("run null --theta -3%", 2, "-3"),
    ("run null --seed x", 2, "invalid value 'x'"),
    ("run null --seed 99999999999999999999", 2, "invalid value"),
    ("run null --control gravity=off", 2, "gravity"),
    ("run null --control page-cache=lukewarm", 2, "lukewarm"),
    ("run null --control =off", 2, "NAME=VALUE"),
    ("run null --format pdf", 2, "unknown format 'pdf'"),
    ("run null -o report.docx", 2, "unknown format 'docx'"),
    ("run null --out DIR/full", 2, "is not empty"),
    ("run null --out DIR/a-file", 3, "a-file"),
    ("run null --uid minus", 2, "invalid value"),
    ("run null --wipe", 2, "a value is required"),
    // Plans.
    ("run DIR/missing.toml", 2, "cannot read the plan"),
    ("run DIR/one.toml DIR/two.toml", 2, "more than one plan"),
    ("run DIR/garbage.toml", 2, "line 2, column"),
    ("run DIR/elsewhere.toml", 2, "line 2, column 1: unknown field `bugdet`: did you mean `budget`? It"),
    ("run ext4 xfs --size 10M", 2, "a larger --size is needed"),
    ("run DIR/unknown-key.toml", 2, "line 2, column 1: unknown field `blocs`: did you mean `blocks`?"),
    ("run DIR/wrong-type.toml", 2, "line 1, column 11"),
    ("run DIR/bad-target.toml", 2, "line 1, column 20: target"),
    ("run DIR/no-workload.toml", 2, "line 3, column 1: workload raed: unknown workload 'raed': did you mean 'read'"),
    ("run DIR/unknown-param.toml", 2, "line 4, column 1"),
    ("run DIR/zero-files.toml", 2, "line 4, column 1"),
    ("run DIR/block-over-file.toml", 2, "line 5, column 1"),
    ("run DIR/odd-size.toml", 2, "file_size: 100K is no multiple of a record of 64K"),
    ("run DIR/odd-sizes.toml", 2, "100K is no multiple"),
    ("run DIR/all-reads.toml", 2, "'120%': the share of reads lies between 0% and 100%"),
    ("run DIR/no-reads.toml", 2, "between 0% and 100%"),
    ("run DIR/bad-expression.toml", 2, "line 4, column 1"),
    ("run DIR/twice.toml", 2, "two workloads are called"),
    ("run DIR/suite-and-workload.toml", 2, "a suite or workloads, not both"),
    ("run DIR/both.toml", 2, "exclude each other"),
    ("run DIR/no-targets.toml", 2, "no target"),
    // Run directories.
    ("report DIR/missing", 2, "no run directory"),
    ("report DIR/full", 2, "no run directory"),
    ("report DIR/newer", 2, "written by a newer fsb"),
    ("report DIR/broken", 2, "run.json, line 1"),
    ("report DIR/foreign", 2, "schema is somebody/else/1"),
    ("run --resume DIR/missing", 2, "no run directory"),
    ("run --resume DIR/newer", 2, "written by a newer fsb"),
    ("report", 2, "required arguments"),
    // The other subcommands.
    ("list colours", 2, "unknown family 'colours'"),
    ("list worklods", 2, "did you mean 'workloads'"),
    ("doctor --dir", 2, "a value is required"),
    ("clean everything", 2, "unexpected argument"),
    ("kernel", 2, "Usage: fsb kernel <COMMAND>"),
    ("kernel fetch", 2, "required arguments"),
    ("kernel fetch no;package", 2, "not the name of a package"),
    ("kernel fetch DIR/no-such.deb", 2, "there is no file"),
    ("kernel list all", 2, "unexpected argument"),
    ("micro", 2, "say what to measure"),
    ("micro fly --output DIR", 2, "unknown benchmark 'fly'"),
    ("micro create", 2, "--output"),
    ("micro create --output DIR/missing", 2, "missing"),
    ("micro create --output DIR --fileCount 0", 2, "fileCount: '0'"),
    ("micro create --output DIR --runCount x", 2, "runCount: 'x'"),
    ("micro read --output DIR --random maybe", 2, "neither true nor false"),
    ("micro read --output DIR --sink printer", 2, "unknown sink 'printer'"),
    ("micro read --output DIR --minLogLevel loud", 2, "unknown level 'loud'"),
    ("micro read --output DIR --exportOutput DIR/no/such/x.csv", 2, "cannot write --exportOutput"),
];

fn make_files(directory: &Path) {
    let write = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
    write("a-file", "");
    write("one.toml", "");
    write("two.toml", "");
    write("garbage.toml", "a = 1\n= = =\n");
    write("unknown-key.toml", "targets = ['null']\nblocs = 3\n");
    write("wrong-type.toml", "targets = 'null'\n");
    write("bad-target.toml", "targets = ['null', 'null,,x']\n");
    write("no-workload.toml", "targets = ['null']\n[[workload]]\nname = 'raed'\n");
    write("unknown-param.toml", "targets = ['null']\n[[workload]]\nname = 'read'\nfile_sise = '4K'\n");
    write("zero-files.toml", "targets = ['null']\n[[workload]]\nname = 'create'\nfiles = 0\n");
    write(
        "block-over-file.toml",
        "targets = ['null']\n[[workload]]\nname = 'read'\nfile_size = '4K'\nblock_size = '8K'\n",
    );
    write(
        "odd-size.toml",
        "targets = ['null']\n[[workload]]\nname = 'rewrite'\nfile_size = '100K'\nblock_size = '64K'\n",
    );
    write(
        "odd-sizes.toml",
        "targets = ['null']\n[[workload]]\nname = 'read'\nfile_size = ['64K', '100K']\nblock_size = '4K..64K'\n",
    );
    write("all-reads.toml", "targets = ['null']\n[[workload]]\nname = 'random-mix'\nmix = '120%'\n");
    write("no-reads.toml", "targets = ['null']\n[[workload]]\nname = 'random-mix'\nmix = '0%'\n");
    write("bad-expression.toml", "targets = ['null']\n[[workload]]\nname = 'read'\nfile_size = 'size/0'\n");
    write(
        "twice.toml",
        "targets = ['null']\n[[workload]]\nname = 'rename'\nfiles = 10\n[[workload]]\nname = 'rename'\nfiles = 20\n",
    );
    write("suite-and-workload.toml", "targets = ['null']\nsuite = 'quick'\n[[workload]]\nname = 'rename'\n");
    write("elsewhere.toml", "targets = ['null']\nbugdet = '5m'\n");
    write("both.toml", "targets = ['null']\n[repetition]\nblocks = 5\nprecision = '1%'\n");
    write("no-targets.toml", "suite = 'quick'\n");
    for (name, run) in [
        ("newer", "{\"schema\": \"fsbench/run/3\"}"),
        ("broken", "{"),
        ("foreign", "{\"schema\": \"somebody/else/1\"}"),
    ] {
        fs::create_dir(directory.join(name)).unwrap();
        write(&format!("{name}/run.json"), run);
    }
    fs::create_dir(directory.join("full")).unwrap();
    write("full/something", "");
}

#[test(machine)]
fn every_bad_input_is_refused_with_its_reason_and_touches_nothing() {
    assert!(TABLE.len() >= 60, "{}", TABLE.len());
    let _turn = turn();
    let before = traces();
    let mut wrong = Vec::new();
    for (text, code, message) in TABLE {
        let scratch = scratch();
        make_files(scratch.path());
        let names = fs::read_dir(scratch.path()).unwrap().count();
        let directory = scratch.path().display().to_string();
        let text = text.replace("DIR", &directory);
        let arguments: Vec<&str> = text.split_whitespace().collect();
        let output = fsb(scratch.path(), &arguments);
        let said = format!("{}{}", stderr(&output), stdout(&output));
        if output.status.code() != Some(*code) || !said.contains(message) {
            wrong.push(format!(
                "fsb {text}\n  wanted {code} and '{message}', got {:?}:\n  {said}",
                output.status.code()
            ));
        }
        if said.contains("panicked") || said.contains("RUST_BACKTRACE") {
            wrong.push(format!("fsb {text} panicked: {said}"));
        }
        if fs::read_dir(scratch.path()).unwrap().count() != names {
            wrong.push(format!("fsb {text} left something in its directory"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), TABLE.len(), wrong.join("\n"));
    assert_eq!(traces(), before);
}

#[test]
fn block_devices_that_are_none_are_refused() {
    needs_root();
    let _turn = turn();
    let scratch = scratch();
    for (target, message) in [
        ("ext4@/dev/null", "no block device"),
        ("ext4@/dev/no-such-device", "no-such-device"),
        ("ext4@/etc/passwd", "no block device"),
    ] {
        let output = fsb(scratch.path(), &["run", target]);
        assert_eq!(output.status.code(), Some(2), "{target}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{target}: {}", stderr(&output));
    }
}

/// The driver is asked before anything is made: no row of failures an hour later.
#[test(machine)]
fn a_misspelt_mount_option_is_refused_before_anything_is_made() {
    needs_root();
    needs_program("mkfs.ext4");
    needs_program("mkfs.xfs");
    let _turn = turn();
    let before = traces();
    let scratch = scratch();
    for (target, said) in [
        ("ext4,noatme", "did you mean 'noatime'?"),
        ("ext4,data=jornal", "did you mean 'data=journal'?"),
        ("xfs,alocsize=64k", "did you mean 'allocsize'?"),
    ] {
        let output = fsb(scratch.path(), &["run", target, "xfs", "--out", "run"]);
        expect_code(&output, 2);
        let text = stderr(&output);
        assert!(text.contains("refuses the mount option") && text.contains(said), "{target}: {text}");
    }
    assert!(!scratch.path().join("run").exists());
    expect_no_traces(&before);
}
