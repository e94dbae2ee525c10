use std::fs;
use std::path::Path;

use fsb_model::WorkloadSpec;

use super::*;
use crate::latency;
use crate::workload::testing::{Pairs, SIZING, label, run_once, with};

fn spec(pairs: Pairs<'_>) -> WorkloadSpec {
    with("untar-build", pairs)
}

fn latencies(measured: &Measurement) -> Vec<(String, u64)> {
    let of = |(name, text): (&String, &String)| (name.clone(), latency::count(text).unwrap());
    measured.latency.iter().map(of).collect()
}

#[test]
fn the_phases_follow_each_other_and_are_told_apart() {
    for threads in [1, 3] {
        let root = tempfile::tempdir().unwrap();
        let workload = spec(&[("files", 100.into()), ("threads", threads.into()), ("verify", true.into())]);
        let measured = run_once(&workload, root.path(), |_| {}).unwrap();
        // 100 files in 6 directories.
        assert_eq!(measured.operations, 3 * 106 + 100);
        let ops = [("read", 100), ("remove", 106), ("stat", 106)];
        // Unpacking and removing end with a sync each.
        let expected = [&ops[..], &[("sync-at-end", 2), ("unpack", 106), ("untar-build", 418)]].concat();
        let expected: [_; 6] = expected.try_into().unwrap();
        assert_eq!(latencies(&measured), expected.map(|(name, count)| (name.to_owned(), count)));
        let rates = ["read_files_rate", "remove_rate", "stat_rate", "unpack_rate"];
        assert_eq!(measured.rates.keys().collect::<Vec<_>>(), rates);
        let phases: u64 = measured.rates.values().map(|rate| rate.timed_ns).sum();
        assert_eq!(measured.timed_ns, phases, "the time of the tree is the time of its phases");
        assert_eq!((measured.counts["files_unpacked"], measured.counts["entries_removed"]), (100, 106));
        assert_eq!(measured.counts["bytes_written"], measured.counts["bytes_read"]);
        assert_eq!(measured.bytes, 2 * measured.counts["bytes_read"]);
        assert_eq!(fs::read_dir(root.path().join("fsb-set")).unwrap().count(), 0);
    }
}

#[test]
fn each_phase_alone_finds_the_tree_that_it_needs() {
    for (phase, operations, left) in [("unpack", 106, 1), ("stat", 106, 1), ("read", 100, 1), ("remove", 106, 0)] {
        let root = tempfile::tempdir().unwrap();
        let workload = spec(&[("files", 100.into()), ("phase", phase.into()), ("durability", "none".into())]);
        let measured = run_once(&workload, root.path(), |_| {}).unwrap();
        assert_eq!(measured.operations, operations, "{phase}");
        assert_eq!(fs::read_dir(root.path().join("fsb-set")).unwrap().count(), left, "{phase}");
    }
}

/// The result is the same as with the tar program.
#[test]
fn an_archive_of_somebodys_is_unpacked_as_tar_does_it() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let outside = tempfile::tempdir().unwrap();
    let tree = outside.path().join("project");
    fs::create_dir_all(tree.join("src/deep")).unwrap();
    fs::write(tree.join("src/deep/main.c"), [7; 70_000]).unwrap();
    fs::write(tree.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(tree.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("src/deep/main.c", tree.join("main")).unwrap();
    fs::hard_link(tree.join("run.sh"), tree.join("zz-again.sh")).unwrap();
    let path = outside.path().join("project.tar");
    let mut builder = tar::Builder::new(fs::File::create(&path).unwrap());
    builder.follow_symlinks(false);
    builder.append_dir_all("project", &tree).unwrap();
    builder.into_inner().unwrap();
    for threads in [1, 3] {
        let root = tempfile::tempdir().unwrap();
        let archive = path.to_str().unwrap();
        let workload = spec(&[("archive", archive.into()), ("phase", "unpack".into()), ("threads", threads.into())]);
        let measured = run_once(&workload, root.path(), |_| {}).unwrap();
        assert_eq!(measured.operations, 7);
        let made = root.path().join("fsb-set/project");
        assert_eq!(fs::read(made.join("src/deep/main.c")).unwrap(), [7; 70_000]);
        assert_eq!(fs::read_link(made.join("main")).unwrap(), Path::new("src/deep/main.c"));
        for name in ["run.sh", "src", "src/deep/main.c"] {
            let [made, original] = [&made, &tree].map(|tree| fs::metadata(tree.join(name)).unwrap());
            assert_eq!((made.mtime(), made.mode() & 0o700), (original.mtime(), original.mode() & 0o700), "{name}");
        }
        let whole = spec(&[("archive", archive.into()), ("threads", threads.into()), ("verify", true.into())]);
        assert!(run_once(&whole, root.path(), |_| {}).unwrap().counts["entries_removed"] == 7);
    }
    assert!(tree.join("src/deep/main.c").exists(), "the archive's own tree is left alone");
}

#[test]
fn compiling_is_asked_for_and_its_objects_go_too() {
    if index::find().is_none() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let workload = spec(&[("files", 12.into()), ("compile", true.into()), ("jobs", 2.into()), ("verify", true.into())]);
    let job = crate::workload::parse(&workload, &SIZING).unwrap();
    let sources = job.profile().operations;
    assert!(job.profile().label.contains("(CPU), 2 jobs"), "{}", job.profile().label);
    let measured = run_once(&workload, root.path(), |_| {}).unwrap();
    let compiled = measured.counts["sources_compiled"];
    assert!(compiled > 3 && measured.operations == sources, "{measured:?}");
    assert_eq!(latencies(&measured)[0], ("compile".to_owned(), compiled));
    assert_eq!(measured.counts["entries_removed"], 13 + compiled);
    assert_eq!(fs::read_dir(root.path().join("fsb-set")).unwrap().count(), 0);
}

#[test]
fn a_tree_that_was_damaged_or_hides_something_ends_the_trial() {
    type Harm = fn(&Path);
    let cases: [(&str, Harm, &str); 5] = [
        ("read", |file| fs::write(file, vec![0; fs::metadata(file).unwrap().len() as usize]).unwrap(), "corrupted: "),
        ("read", |file| fs::OpenOptions::new().write(true).open(file).unwrap().set_len(3).unwrap(), "has 3 bytes, and"),
        ("read", |file| fs::remove_file(file).unwrap(), "No such file or directory (ENOENT)"),
        ("stat", |file| fs::remove_file(file).unwrap(), "entries came instead of"),
        ("remove", |file| fs::remove_file(file).unwrap(), "remove "),
    ];
    for (phase, harm, said) in cases {
        for threads in [1, 3] {
            let root = tempfile::tempdir().unwrap();
            let mut pairs = vec![("files", 30.into()), ("phase", phase.into()), ("threads", threads.into())];
            if phase == "read" {
                pairs.push(("verify", true.into()));
            }
            let source = root.path().join("fsb-set/source");
            let harm = |_| {
                let files = fs::read_dir(&source).unwrap().map(|entry| entry.unwrap().path());
                harm(&files.filter(|path| path.is_file()).min().unwrap());
            };
            let error = run_once(&spec(&pairs), root.path(), harm).unwrap_err();
            assert!(error.message.contains(said), "{phase}: {error}");
        }
    }
    // An existing directory has the name of an entry.
    let root = tempfile::tempdir().unwrap();
    let in_the_way = |_| fs::create_dir(root.path().join("fsb-set/source")).unwrap();
    let error = run_once(&spec(&[("files", 30.into())]), root.path(), in_the_way).unwrap_err();
    assert!(error.message.contains("source: File exists (EEXIST)"), "{error}");
}

#[test]
fn labels_say_how_and_parameters_that_make_no_sense_are_refused() {
    let label = |pairs: Pairs<'_>| label(&spec(pairs));
    assert_eq!(label(&[]).unwrap(), "untar-build, 20000 files, durable");
    let part = [("phase", "unpack".into()), ("scale", 0.5.into()), ("content", "text".into()), ("threads", 2.into())];
    assert_eq!(label(&part).unwrap(), "unpack 10000 files of text, durable, 2 threads");
    let outside = tempfile::tempdir().unwrap();
    let packed = outside.path().join("linux.tar.gz");
    fs::write(&packed, b"\x1f\x8b\x08nonsense").unwrap();
    let packed = packed.to_str().unwrap();
    for (pairs, said) in [
        (vec![("archive", "/gone.tar".into())], "/gone.tar cannot be read: No such file"),
        (vec![("archive", "/".into())], "/ is not a file"),
        (vec![("archive", packed.into())], "is compressed: unpack it first, with gunzip"),
        (vec![("archive", packed.into()), ("scale", 0.5.into())], "scale: it does not apply with archive"),
        (vec![("archive", packed.into()), ("compile", true.into())], "compile: it does not apply with archive"),
        (vec![("phase", "compile".into())], "this phase needs compile = true"),
        (vec![("compile", true.into()), ("content", "random".into())], "compiling needs source text"),
        (vec![("phase", "stat".into()), ("verify", true.into())], "this phase reads no files"),
        (vec![("jobs", 2.into())], "jobs: it applies only with compile = true"),
        (vec![("durability", "each".into())], "durability: 'each' is not allowed"),
    ] {
        let error = label(&pairs).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
}
