use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use super::*;

/// Returns a holder as if the command ran in another process than this one: the parent lives as long as this test.
fn another(command: &str) -> Holder {
    let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get() as u32;
    let stat = std::fs::read_to_string(format!("/proc/{parent}/stat")).unwrap();
    let owner = crate::ledger::Owner { pid: parent, start_time: fsb_sys::process::stat_field(&stat, 22).unwrap() };
    let mut holder = Holder::current(command);
    holder.owner = owner;
    holder
}

fn take(directory: &Path, own: Holder, hold: Hold) -> Result<Held, TestbedError> {
    let place = place::find(&[directory.to_owned()]).unwrap();
    let held = hold(place, &mut Vec::new(), &own)?;
    held.place.sweep();
    held.place.show(&own).unwrap();
    Ok(held)
}

fn refusal(directory: &Path) -> String {
    take(directory, Holder::current("fsb run xfs"), Held::alone).unwrap_err().to_string()
}

#[test]
fn the_second_is_told_who_holds_it() {
    let tree = tempfile::tempdir().unwrap();
    let directory = tree.path().join("fsb");
    let own = another("fsb run\next4");
    let first = take(&directory, own.clone(), Held::alone).unwrap();
    // Only the owner can open, and therefore lock, the file. All users can read the name of the holder.
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(directory.join(FIRST)), 0o600);
    let shown = std::fs::read_dir(&directory).unwrap().flatten().map(|entry| entry.path());
    let shown: Vec<_> = shown.filter(|path| path.to_string_lossy().contains("holder-")).collect();
    assert_eq!(shown.iter().map(|path| mode(path.clone())).collect::<Vec<_>>(), [0o644]);
    let said = refusal(&directory);
    assert!(said.contains(&format!("process {} (fsb run ext4)", own.owner.pid)), "{said}");
    assert!(said.contains("--allow-concurrent"), "{said}");
    drop(first);
    take(&directory, another("short"), Held::alone).unwrap();
}

#[test]
fn a_dead_holder_is_not_named_and_goes() {
    let tree = tempfile::tempdir().unwrap();
    let place = place::find(&[tree.path().join("fsb")]).unwrap();
    let own = another("fsb run ext4");
    let mut dead = own.clone();
    dead.owner.start_time = u64::MAX;
    place.show(&dead).unwrap();
    place.show(&own).unwrap();
    assert_eq!(place.living(), std::slice::from_ref(&own));
    place.sweep();
    place.hide(&own);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn those_who_insist_are_seen_by_all() {
    let tree = tempfile::tempdir().unwrap();
    let directory = tree.path().join("fsb");
    let beside = |before: &mut Vec<Holder>, own: &Holder| {
        Held::beside(place::find(std::slice::from_ref(&directory)).unwrap(), before, own).unwrap()
    };
    let mut first = take(&directory, another("fsb run ext4"), Held::alone).unwrap();
    let mut before = Vec::new();
    let second = Holder::current("fsb run xfs");
    let held = beside(&mut before, &second);
    assert_eq!(before, [another("fsb run ext4")]);
    assert_eq!(holder::read(&mut first.concurrent), std::slice::from_ref(&second));
    drop(first);
    let said = refusal(&directory);
    assert!(said.contains("(fsb run xfs)") && said.contains("--allow-concurrent"), "{said}");
    let mut third = Vec::new();
    beside(&mut third, &another("fsb run btrfs"));
    assert_eq!(third, [second]);
    drop(held);
    let mut last = take(&directory, Holder::current("fsb run ntfs"), Held::alone).unwrap();
    assert!(holder::read(&mut last.concurrent).is_empty(), "names of runs that are over");
}

/// Returns the refusal in `directory` if something else has the lock's name.
fn disguised(directory: &Path, disguise: impl FnOnce(&Path)) -> String {
    std::fs::create_dir_all(directory).unwrap();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)).unwrap();
    let path = directory.join(FIRST);
    disguise(&path);
    let said = refusal(directory);
    assert!(said.contains(path.to_str().unwrap()), "{said}");
    std::fs::remove_file(path).unwrap();
    said
}

#[test]
fn foreign_lock_files_are_named_and_not_waited_for() {
    let tree = tempfile::tempdir().unwrap();
    let (directory, victim) = (tree.path().join("fsb"), tree.path().join("victim"));
    std::fs::write(&victim, "precious").unwrap();
    disguised(&directory, |path| symlink(&victim, path).unwrap());
    disguised(&directory, |path| std::fs::hard_link(&victim, path).unwrap());
    let said = disguised(&directory, |path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    });
    assert!(said.contains("not a regular file"), "{said}");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    if !fsb_testkit::root_for("a lock of another user") {
        return;
    }
    let said = disguised(&directory, |path| {
        std::fs::write(path, "").unwrap();
        chown(path, Some(65534), Some(65534)).unwrap();
    });
    assert!(said.contains("it belongs to user 65534"), "{said}");
}

#[test]
fn a_place_that_others_can_write_to_holds_no_lock() {
    let tree = tempfile::tempdir().unwrap();
    let open = tree.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let own = tree.path().join("own");
    assert_eq!(place::find(&[open.clone(), own.clone()]).unwrap().path(), own);
    let refusals = place::find(std::slice::from_ref(&open)).unwrap_err();
    assert!(
        refusals[0].contains(open.to_str().unwrap()) && refusals[0].contains("other users may write"),
        "{refusals:?}"
    );
    assert!(place::find(&[]).unwrap_err()[0].contains("XDG_RUNTIME_DIR"));
}
