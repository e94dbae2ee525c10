use proptest::prelude::*;

use super::*;
use crate::control;

const BOOT: &str = "this-boot";

fn dead_owner() -> Owner {
    Owner { start_time: u64::MAX, ..Owner::current() }
}

/// Returns a machine in `directory`.
fn roots(directory: &Path) -> Roots {
    Roots { proc: directory.join("proc"), sys: directory.join("sys") }
}

fn ledger(directory: &Path, owner: Owner) -> Ledger {
    let mut ledger =
        Ledger::open(&directory.join("undo"), owner, control::RULES).unwrap().of_machine(&roots(directory));
    ledger.boot_id = BOOT.to_owned();
    ledger
}

/// Creates a setting of that machine, which the control of that name changes.
fn setting(directory: &Path, control: &str, value: &str) -> PathBuf {
    let name = format!("{}_centisecs", control.replace('-', "_"));
    let file = directory.join("proc/sys/vm").join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, value).unwrap();
    file
}

const EXPIRE: &str = "dirty-expire";

fn change(ledger: &Ledger, control: &str, file: &Path, value: &str) -> EntryHandle {
    let before = std::fs::read_to_string(file).unwrap();
    let handle = ledger.claim(control, Action::WriteFile { path: file.to_owned(), value: before }).unwrap().unwrap();
    std::fs::write(file, value).unwrap();
    handle
}

/// Replays the ledger of the machine in `directory`.
fn replay(directory: &Path, boot: &str) -> Vec<Replayed> {
    let roots = roots(directory);
    let guard = Guard { rules: control::RULES, roots: &roots };
    replay_where(&directory.join("undo"), boot, guard, |owner| !owner.is_alive())
}

fn left(directory: &Path) -> usize {
    leftovers(&directory.join("undo"), control::RULES).len()
}

fn fates(replayed: &[Replayed]) -> Vec<&'static str> {
    let name = |fate: &Fate| match fate {
        Fate::Undone(_) => "undone",
        Fate::Live => "live",
        Fate::Discarded => "discarded",
        Fate::Failed(_) => "failed",
        Fate::Refused(_) => "refused",
    };
    replayed.iter().map(|replayed| name(&replayed.fate)).collect()
}

#[test]
fn an_undone_entry_leaves_nothing() {
    let tree = tempfile::tempdir().unwrap();
    let file = setting(tree.path(), EXPIRE, "9");
    let ledger = ledger(tree.path(), Owner::current());
    let handle = change(&ledger, EXPIRE, &file, "11");
    assert_eq!(left(tree.path()), 1);
    ledger.undo(handle).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "9");
    assert_eq!(left(tree.path()), 0);
    assert!(std::fs::read_dir(tree.path().join("undo")).unwrap().next().is_none());
}

#[test]
fn only_dead_owners_of_this_boot_are_replayed() {
    let tree = tempfile::tempdir().unwrap();
    let file = setting(tree.path(), EXPIRE, "9");
    let live = ledger(tree.path(), Owner::current());
    let handle = change(&live, EXPIRE, &file, "10");
    assert_eq!(fates(&replay(tree.path(), BOOT)), ["live"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "10");
    live.undo(handle).unwrap();

    let _ = change(&ledger(tree.path(), dead_owner()), EXPIRE, &file, "11");
    assert_eq!(fates(&replay(tree.path(), BOOT)), ["undone"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "9");
    assert!(replay(tree.path(), BOOT).is_empty());

    let _ = change(&ledger(tree.path(), dead_owner()), EXPIRE, &file, "12");
    assert_eq!(fates(&replay(tree.path(), "next-boot")), ["discarded"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "12");
}

#[test]
fn our_directories_go_in_any_boot_and_nothing_else_does() {
    let tree = tempfile::tempdir().unwrap();
    let dead = ledger(tree.path(), dead_owner());
    let own = tree.path().join(".fsb-0123");
    let innocent = tree.path().join("innocent");
    std::fs::create_dir_all(own.join("deep")).unwrap();
    std::fs::create_dir(&innocent).unwrap();
    std::fs::write(innocent.join("file"), "precious").unwrap();
    std::os::unix::fs::symlink(&innocent, own.join("link")).unwrap();
    let link = tree.path().join(".fsb-4567");
    std::os::unix::fs::symlink(&innocent, &link).unwrap();
    let remove = |path: &Path| dead.record(Action::RemoveDirectory { path: path.to_owned(), uid: None });
    let _ = remove(&own).unwrap();
    assert_eq!(fates(&replay(tree.path(), "next-boot")), ["undone"]);
    assert!(!own.exists() && innocent.join("file").exists());
    let _ = remove(&link).unwrap();
    assert_eq!(fates(&replay(tree.path(), BOOT)), ["failed"]);
    assert!(innocent.join("file").exists());
    assert!(remove(&innocent).is_err(), "it could not be undone, so it must not be begun");
}

#[test]
fn unreadable_entries_stay_and_are_reported() {
    let tree = tempfile::tempdir().unwrap();
    let undo = tree.path().join("undo");
    let _ = ledger(tree.path(), Owner::current());
    std::fs::write(undo.join("garbage.json"), "{\"boot_id\": 7").unwrap();
    std::fs::write(undo.join("notes.txt"), "not ours").unwrap();
    let replayed = replay(tree.path(), BOOT);
    assert_eq!(fates(&replayed), ["refused"]);
    assert!(replayed[0].to_string().contains("garbage.json"));
    assert!(undo.join("garbage.json").exists());
    assert!(super::replay(&tree.path().join("nowhere"), BOOT, control::RULES).is_empty());
}

#[test]
fn an_entry_that_was_never_completed_goes_with_its_writer() {
    let tree = tempfile::tempdir().unwrap();
    let undo = tree.path().join("undo");
    let (dead, live) = (dead_owner(), Owner::current());
    let _ = ledger(tree.path(), live);
    let names = [dead, live].map(|owner| format!("{}-{}-0000.new", owner.pid, owner.start_time));
    names.iter().for_each(|name| std::fs::write(undo.join(name), "{\"boot").unwrap());
    assert!(replay(tree.path(), BOOT).is_empty());
    assert_eq!(names.map(|name| undo.join(name).exists()), [false, true]);
}

/// Writes an entry of a dead run into the machine's own ledger, as an attacker might.
fn plant(directory: &Path, name: &str, control: Option<&str>, action: &Action) {
    let entry = Entry {
        boot_id: BOOT.to_owned(),
        owner: dead_owner(),
        control: control.map(str::to_owned),
        action: action.clone(),
    };
    std::fs::write(directory.join("undo").join(name), serde_json::to_vec(&entry).unwrap()).unwrap();
}

#[test]
fn an_entry_names_only_what_fsb_changes() {
    let tree = tempfile::tempdir().unwrap();
    let _ = ledger(tree.path(), Owner::current());
    let own = setting(tree.path(), EXPIRE, "now");
    let other = setting(tree.path(), "panic-on", "now");
    let outside = tree.path().join("authorized_keys");
    std::fs::write(&outside, "now").unwrap();
    let write = |path: &Path| Action::WriteFile { path: path.to_owned(), value: "then".to_owned() };
    let remove = |path: PathBuf| Action::RemoveDirectory { path, uid: None };
    let cgroup = |path: PathBuf| Action::RemoveCgroup { path };
    let below = |path: &str| tree.path().join(path);
    let cases = [
        (Some(EXPIRE), write(&outside)),
        (Some(EXPIRE), write(&other)),
        (Some("dirty-writeback"), write(&own)),
        (Some("scheduler"), write(&own)),
        (Some("no-such-control"), write(&own)),
        (None, write(&own)),
        (Some(EXPIRE), write(&below("proc/sys/vm/../vm/dirty_expire_centisecs"))),
        (Some("scheduler"), write(&below("sys/devices/x/../../../queue/scheduler"))),
        (Some("scheduler"), write(Path::new("queue/scheduler"))),
        (Some("governor"), write(&below("sys/devices/system/cpu/cpufreq/other/scaling_governor"))),
        (None, remove(below("data"))),
        (None, remove(below("data/.fsb-"))),
        (None, remove(below("data/.fsb-01/../home"))),
        (None, remove(below("data/.fsb-01/."))),
        (None, remove(".fsb-01".into())),
        (Some(EXPIRE), remove(below("data/.fsb-01"))),
        (None, Action::SwapOn { path: below("swap"), priority: 1 }),
        (Some(EXPIRE), Action::SwapOn { path: below("swap"), priority: 1 }),
        (Some("services"), Action::StartUnit { unit: "--now".to_owned() }),
        (Some("services"), Action::StartUnit { unit: "a.service,b.service".to_owned() }),
        (None, Action::StartUnit { unit: "cron.service".to_owned() }),
        (Some("memory-limit"), cgroup(below("sys/fs/cgroup/system.slice"))),
        (Some("memory-limit"), cgroup(below("home/fsb-1"))),
        (None, cgroup(below("sys/fs/cgroup/system.slice"))),
        (None, cgroup(below("home/fsb-1"))),
        (Some("swap"), Action::RemoveLoop { index: 0, again: false, image: None }),
        (None, Action::RemoveLoop { index: u32::MAX, again: false, image: None }),
        (Some("swap"), Action::StopArray { number: 0, members: Vec::new() }),
    ];
    for (control, action) in cases {
        plant(tree.path(), "1-1-0000.json", control, &action);
        let replayed = replay(tree.path(), BOOT);
        assert_eq!(fates(&replayed), ["refused"], "{control:?} {action:?}: {replayed:?}");
        assert!(replayed[0].is_open() && replayed[0].to_string().contains("1-1-0000.json"));
        assert!([&own, &other, &outside].iter().all(|file| std::fs::read_to_string(file).unwrap() == "now"));
        let owner = ledger(tree.path(), Owner::current());
        let recorded = match control {
            Some(control) => owner.claim(control, action).map(|handle| handle.is_some()),
            None => owner.record(action).map(|_| true),
        };
        assert!(recorded.is_err(), "what is not undone is not recorded: {recorded:?}");
    }
}

#[test]
fn an_entry_in_a_file_of_somebody_else_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let tree = tempfile::tempdir().unwrap();
    let undo = tree.path().join("undo");
    let file = setting(tree.path(), EXPIRE, "now");
    let _ = ledger(tree.path(), Owner::current());
    let action = Action::WriteFile { path: file.clone(), value: "then".to_owned() };
    let entry = undo.join("1-1-0000.json");
    let elsewhere = tree.path().join("elsewhere.json");
    let disguise = |disguise: &dyn Fn()| {
        plant(tree.path(), "1-1-0000.json", Some(EXPIRE), &action);
        disguise();
        let replayed = replay(tree.path(), BOOT);
        assert_eq!(fates(&replayed), ["refused"]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "now");
        // Nor does it keep a control from being set.
        let live = ledger(tree.path(), Owner::current());
        live.undo(change(&live, EXPIRE, &file, "9")).unwrap();
        std::fs::remove_file(&entry).unwrap();
        let _ = std::fs::remove_file(&elsewhere);
        replayed[0].to_string()
    };
    let move_away = || std::fs::rename(&entry, &elsewhere).unwrap();
    disguise(&|| {
        move_away();
        std::os::unix::fs::symlink(&elsewhere, &entry).unwrap();
    });
    disguise(&|| std::fs::hard_link(&entry, &elsewhere).unwrap());
    disguise(&|| std::fs::set_permissions(&entry, std::fs::Permissions::from_mode(0o666)).unwrap());
    disguise(&|| std::fs::File::options().write(true).open(&entry).unwrap().set_len(1 << 20).unwrap());
    // Nothing writes into this FIFO: a blocking open for reading would never return.
    disguise(&|| {
        move_away();
        let made = std::process::Command::new("mkfifo").arg(&entry).status().unwrap();
        assert!(made.success());
    });
    if fsb_testkit::root_for("an entry of the ledger that is another user's") {
        let told = disguise(&|| std::os::unix::fs::chown(&entry, Some(65534), Some(65534)).unwrap());
        assert!(told.contains("it belongs to user 65534"), "{told}");
    }
}

#[test]
fn a_directory_of_somebody_else_is_not_removed() {
    if !fsb_testkit::root_for("a_directory_of_somebody_else_is_not_removed") {
        return;
    }
    let tree = tempfile::tempdir().unwrap();
    let own = tree.path().join(".fsb-0123");
    std::fs::create_dir(&own).unwrap();
    let dead = ledger(tree.path(), dead_owner());
    let given = |uid| dead.record(Action::RemoveDirectory { path: own.clone(), uid }).unwrap();
    std::os::unix::fs::chown(&own, Some(65533), None).unwrap();
    let _ = given(Some(65534));
    let replayed = replay(tree.path(), BOOT);
    assert_eq!(fates(&replayed), ["failed"]);
    assert!(replayed[0].to_string().contains("it belongs to user 65533 now"), "{}", replayed[0]);
    std::os::unix::fs::chown(&own, Some(65534), None).unwrap();
    assert_eq!(fates(&replay(tree.path(), BOOT)), ["undone"]);
}

#[test]
fn a_ledger_that_others_may_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let tree = tempfile::tempdir().unwrap();
    let undo = tree.path().join("undo");
    let file = setting(tree.path(), EXPIRE, "now");
    let _ = ledger(tree.path(), Owner::current());
    plant(
        tree.path(),
        "1-1-0000.json",
        Some(EXPIRE),
        &Action::WriteFile { path: file.clone(), value: "then".to_owned() },
    );
    let refused = || {
        assert!(Ledger::open(&undo, Owner::current(), control::RULES).is_err());
        let replayed = replay(tree.path(), BOOT);
        assert_eq!(fates(&replayed), ["refused"]);
        assert!(replayed[0].to_string().contains(undo.to_str().unwrap()));
        assert!(matches!(leftovers(&undo, control::RULES)[..], [(_, Err(_))]));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "now");
    };
    std::fs::set_permissions(&undo, std::fs::Permissions::from_mode(0o777)).unwrap();
    refused();
    std::fs::set_permissions(&undo, std::fs::Permissions::from_mode(0o700)).unwrap();
    let real = tree.path().join("real");
    std::fs::rename(&undo, &real).unwrap();
    std::os::unix::fs::symlink(&real, &undo).unwrap();
    refused();
    std::fs::remove_file(&undo).unwrap();
    std::fs::rename(&real, &undo).unwrap();
    if fsb_testkit::root_for("a ledger that is another user's") {
        std::os::unix::fs::chown(&undo, Some(65534), Some(65534)).unwrap();
        refused();
        std::os::unix::fs::chown(&undo, Some(0), Some(0)).unwrap();
    }
    assert_eq!(fates(&replay(tree.path(), BOOT)), ["undone"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Replaying restores every file, independent of the number and order of the changes.
    #[test]
    fn undo_restores(
        before in prop::collection::vec("[a-z0-9]{1,8}", 2),
        changes in prop::collection::vec((0usize..2, "[a-z0-9]{1,8}"), 0..8),
        kill in any::<bool>(),
    ) {
        let tree = tempfile::tempdir().unwrap();
        let controls = [EXPIRE, "dirty-writeback"];
        let files: Vec<_> =
            controls.iter().zip(&before).map(|(control, value)| setting(tree.path(), control, value)).collect();
        let ledger = ledger(tree.path(), if kill { dead_owner() } else { Owner::current() });
        let mut handles = Vec::new();
        for (index, value) in &changes {
            handles.push(change(&ledger, controls[*index], &files[*index], value));
        }
        if kill {
            let undone = replay(tree.path(), BOOT);
            prop_assert_eq!(undone.len(), changes.len());
        } else {
            for handle in handles.into_iter().rev() {
                ledger.undo(handle).unwrap();
            }
        }
        for (file, value) in files.iter().zip(&before) {
            prop_assert_eq!(&std::fs::read_to_string(file).unwrap(), value);
        }
        prop_assert_eq!(left(tree.path()), 0);
    }
}

#[test]
fn fields_are_counted_behind_the_name() {
    let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 424242 9";
    assert_eq!(stat_field(stat, 4), Some(1));
    assert_eq!(stat_field(stat, 22), Some(424_242));
    assert_eq!(state(stat), Some('S'));
    assert_eq!(stat_field("", 22), None);
    let cut = [b"7 (caf\xc3".as_slice(), &stat.as_bytes()[4..]].concat();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), cut).unwrap();
    assert_eq!(stat_field(&fsb_sys::read_text(file.path()).unwrap(), 22), Some(424_242));
}

#[test]
fn only_the_very_process_is_alive() {
    let own = Owner::current();
    assert!(own.is_alive());
    assert!(!Owner { start_time: own.start_time + 1, ..own }.is_alive());
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let owner = Owner { pid: child.id(), start_time: start_time(child.id()).unwrap() };
    assert!(owner.is_alive());
    child.kill().unwrap();
    // The child is a zombie until the test waits for it.
    assert!(fsb_sys::poll_until(std::time::Duration::from_secs(10), || !owner.is_alive()));
    child.wait().unwrap();
    assert!(!owner.is_alive());
}
