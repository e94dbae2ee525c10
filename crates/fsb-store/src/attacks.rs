//! Tests in which other users of the machine place links, locks and pipes at the paths that the store uses.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::tests::{create, record, resume, trial};
use super::*;

const OTHER: u32 = 4711;

/// A directory that only its owner may write to.
fn place() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn give(path: &Path, uid: u32) {
    std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_planted_link_is_replaced_and_not_followed() {
    let place = place();
    let run = place.path().join("run");
    let directory = create(&run).unwrap();
    let (precious, linked) = (place.path().join("precious"), place.path().join("linked"));
    for path in [&precious, &linked] {
        fs::write(path, "precious").unwrap();
        mode(path, 0o600);
    }
    symlink(&precious, run.join("report.html")).unwrap();
    fs::hard_link(&linked, run.join("trials.csv")).unwrap();
    directory.write_file("report.html", b"report").unwrap();
    directory.write_file("trials.csv", b"table").unwrap();
    for path in [&precious, &linked] {
        assert_eq!(fs::read_to_string(path).unwrap(), "precious");
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::read_to_string(run.join("report.html")).unwrap(), "report");
    assert!(fs::symlink_metadata(run.join("report.html")).unwrap().is_file());
}

#[test]
fn a_resume_appends_to_no_file_that_has_other_names() {
    let place = place();
    let run = place.path().join("run");
    let mut directory = create(&run).unwrap();
    directory.append(&trial(0)).unwrap();
    drop(directory);
    let other = place.path().join("other");
    fs::hard_link(run.join(TRIALS_FILE), &other).unwrap();
    let before = fs::read(&other).unwrap();
    let (mut directory, contents) = resume(&run).unwrap();
    assert_eq!(contents.trials.len(), 1);
    directory.append(&trial(1)).unwrap();
    assert_eq!(fs::read(&other).unwrap(), before);
    assert_eq!(read(&run).unwrap().trials.len(), 2);
}

#[test]
fn a_directory_that_is_exchanged_keeps_its_files() {
    let place = place();
    let (run, moved, victim) = (place.path().join("run"), place.path().join("moved"), place.path().join("victim"));
    fs::create_dir(&victim).unwrap();
    let mut directory = create(&run).unwrap();
    fs::rename(&run, &moved).unwrap();
    symlink(&victim, &run).unwrap();
    directory.append(&trial(0)).unwrap();
    directory.write_record(&record()).unwrap();
    directory.write_file("report.html", b"report").unwrap();
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    assert!(moved.join("report.html").exists() && !directory.is_deleted());
    assert_eq!(read(&moved).unwrap().trials.len(), 1);
}

#[test]
fn two_do_not_write_to_one_directory() {
    let place = place();
    let run = place.path().join("run");
    let first = create(&run).unwrap();
    let error = resume(&run).unwrap_err();
    assert!(matches!(&error, StoreError::Busy { holder, .. } if holder == "the first"), "{error}");
    drop(first);
    assert!(!run.join(LOCK_FILE).exists());
    resume(&run).unwrap();
}

#[test]
fn a_lock_of_somebody_else_is_refused() {
    let place = place();
    let run = place.path().join("run");
    drop(create(&run).unwrap());
    let precious = place.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    fs::hard_link(&precious, run.join(LOCK_FILE)).unwrap();
    assert!(matches!(resume(&run).unwrap_err(), StoreError::Planted(_)));
    fs::remove_file(run.join(LOCK_FILE)).unwrap();
    symlink(&precious, run.join(LOCK_FILE)).unwrap();
    assert!(resume(&run).is_err());
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn results_survive_the_loss_of_the_directory() {
    let place = place();
    let run = place.path().join("run");
    let mut directory = create(&run).unwrap();
    directory.append(&trial(0)).unwrap();
    fs::remove_dir_all(&run).unwrap();
    assert!(matches!(directory.append(&trial(1)), Err(StoreError::Deleted(_))));
    assert!(directory.is_deleted());
    directory.restore().unwrap();
    assert!(!directory.is_deleted());
    let contents = read(&run).unwrap();
    assert_eq!((contents.trials.len(), contents.record), (2, record()));
    // Only the trials.
    fs::remove_file(run.join(TRIALS_FILE)).unwrap();
    assert!(directory.is_deleted());
    directory.restore().unwrap();
    assert_eq!(read(&run).unwrap().trials.len(), 2);
    // Another run has the name by now.
    fs::remove_dir_all(&run).unwrap();
    fs::create_dir(&run).unwrap();
    fs::write(run.join("theirs"), "").unwrap();
    directory.restore().unwrap();
    assert_eq!(directory.path(), place.path().join("run.saved"));
    assert_eq!(read(directory.path()).unwrap().trials.len(), 2);
    assert_eq!(fs::read_dir(&run).unwrap().count(), 1);
}

#[test]
fn root_writes_only_below_what_is_its_own() {
    if !fsb_testkit::root_for("root_writes_only_below_what_is_its_own") {
        return;
    }
    let place = place();
    let refused = |path: &Path, part: &Path| {
        let error = create(path).unwrap_err();
        let component = part.to_owned();
        assert!(matches!(&error, StoreError::Untrusted { component: found, .. } if *found == component), "{error}");
        assert!(matches!(check_new(path, &ResultOwner::this_user()), Err(StoreError::Untrusted { .. })));
        error.to_string()
    };
    let theirs = place.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    give(&theirs, OTHER);
    let said = refused(&theirs.join("a/b"), &theirs);
    assert!(said.contains("user 4711") && said.contains("sudo"), "{said}");
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
    // A directory that root owns below another user's directory could be exchanged.
    fs::create_dir(theirs.join("own")).unwrap();
    refused(&theirs.join("own"), &theirs);
    // One that others may write to.
    let shared = place.path().join("shared");
    fs::create_dir(&shared).unwrap();
    for bits in [0o777, 0o775] {
        mode(&shared, bits);
        assert!(refused(&shared.join("run"), &shared).contains("chmod go-w"));
    }
    // Sticky as /tmp is: what is there must be root's.
    mode(&shared, 0o1777);
    drop(create(&shared.join("run")).unwrap());
    fs::create_dir(shared.join("planted")).unwrap();
    give(&shared.join("planted"), OTHER);
    refused(&shared.join("planted"), &shared.join("planted"));
    symlink(place.path(), shared.join("link")).unwrap();
    drop(create(&shared.join("link/through")).unwrap());
    give(&shared.join("link"), OTHER);
    refused(&shared.join("link/x"), &shared.join("link"));
}

#[test]
fn files_that_are_named_lead_nowhere_else() {
    if !fsb_testkit::root_for("files_that_are_named_lead_nowhere_else") {
        return;
    }
    let place = place();
    let shared = place.path().join("shared");
    fs::create_dir(&shared).unwrap();
    mode(&shared, 0o1777);
    let precious = place.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let result_owner = ResultOwner::this_user();
    // A link of root's own is followed, another's is not.
    let link = shared.join("link");
    symlink(&precious, &link).unwrap();
    replace(&link, b"mine", &result_owner).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    give(&link, OTHER);
    assert!(matches!(replace(&link, b"theirs", &result_owner), Err(StoreError::Planted(_))));
    assert!(matches!(append(&link, &result_owner), Err(StoreError::Planted(_))));
    // A pipe of another is not even waited for.
    let pipe = shared.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o666), 0)
        .unwrap();
    give(&pipe, OTHER);
    assert!(matches!(replace(&pipe, b"x", &result_owner), Err(StoreError::Planted(_))));
    // What is there already may be another name of any file.
    let hard = shared.join("hard");
    fs::hard_link(&precious, &hard).unwrap();
    assert!(matches!(append(&hard, &result_owner), Err(StoreError::Planted(_))));
    replace(&hard, b"new", &result_owner).unwrap();
    assert_eq!(
        (fs::read_to_string(&precious).unwrap(), fs::read_to_string(&hard).unwrap()),
        ("mine".into(), "new".into())
    );
    // Devices and this process's own descriptors are written to as they are.
    replace(Path::new("/dev/null"), b"x", &result_owner).unwrap();
    replace(Path::new("/dev/fd/2"), b"", &result_owner).unwrap();
    use std::os::unix::fs::FileTypeExt;
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

/// A user who may write to the parent directory can exchange the run directory at any moment. The store must never
/// write outside the run directory that it holds open.
#[test]
fn nothing_leaves_a_directory_that_is_exchanged_all_the_time() {
    let place = place();
    let (run, away, victim) = (place.path().join("run"), place.path().join("away"), place.path().join("victim"));
    fs::create_dir(&victim).unwrap();
    let mut directory = create(&run).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::rename(&run, &away).and_then(|()| symlink(&victim, &run));
                let _ = fs::remove_file(&run).and_then(|()| fs::rename(&away, &run));
                let _ = symlink(&victim, away.join("report.html"));
            }
        });
        for order in 0..40 {
            directory.append(&trial(order)).unwrap();
            directory.write_file("report.html", b"report").unwrap();
            directory.write_record(&record()).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    let left = if away.exists() { &away } else { &run };
    assert_eq!(read(left).unwrap().trials.len(), 40);
    let names = fs::read_dir(left).unwrap().flatten().map(|entry| entry.file_name()).collect::<Vec<_>>();
    assert!(names.len() <= 4, "nothing unfinished stays: {names:?}");
}
