use super::*;
use proptest::prelude::*;

const BOOT: &str = "this-boot";

fn dead_owner() -> Owner {
    Owner { start_time: u64::MAX, ..Owner::current() }
}

fn ledger(directory: &Path, owner: Owner) -> Ledger {
    let mut ledger = Ledger::open(&directory.join("undo"), owner).unwrap();
    ledger.boot_id = BOOT.to_owned();
    ledger
}

fn change(ledger: &Ledger, file: &Path, value: &str) -> Ticket {
    let before = std::fs::read_to_string(file).unwrap();
    let ticket = ledger.record(Action::WriteFile { path: file.to_owned(), value: before }).unwrap();
    std::fs::write(file, value).unwrap();
    ticket
}

fn fates(replayed: &[Replayed]) -> Vec<&'static str> {
    let name = |fate: &Fate| match fate {
        Fate::Undone(_) => "undone",
        Fate::Live => "live",
        Fate::Discarded => "discarded",
        Fate::Failed(_) => "failed",
        Fate::Unreadable(_) => "unreadable",
    };
    replayed.iter().map(|replayed| name(&replayed.fate)).collect()
}

#[test]
fn an_undone_entry_leaves_nothing() {
    let tree = tempfile::tempdir().unwrap();
    let file = tree.path().join("value");
    std::fs::write(&file, "9").unwrap();
    let ledger = ledger(tree.path(), Owner::current());
    let ticket = change(&ledger, &file, "11");
    assert_eq!(leftovers(&tree.path().join("undo")).len(), 1);
    ledger.undo(ticket).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "9");
    assert!(leftovers(&tree.path().join("undo")).is_empty());
    assert!(std::fs::read_dir(tree.path().join("undo")).unwrap().next().is_none());
}

#[test]
fn only_dead_owners_of_this_boot_are_replayed() {
    let tree = tempfile::tempdir().unwrap();
    let file = tree.path().join("value");
    let undo = tree.path().join("undo");
    std::fs::write(&file, "9").unwrap();
    let live = ledger(tree.path(), Owner::current());
    let ticket = change(&live, &file, "10");
    assert_eq!(fates(&replay(&undo, BOOT)), ["live"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "10");
    live.undo(ticket).unwrap();

    let _ = change(&ledger(tree.path(), dead_owner()), &file, "11");
    assert_eq!(fates(&replay(&undo, BOOT)), ["undone"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "9");
    assert!(replay(&undo, BOOT).is_empty());

    let _ = change(&ledger(tree.path(), dead_owner()), &file, "12");
    assert_eq!(fates(&replay(&undo, "next-boot")), ["discarded"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "12");
}

#[test]
fn our_directories_go_in_any_boot_and_nothing_else_does() {
    let tree = tempfile::tempdir().unwrap();
    let undo = tree.path().join("undo");
    let dead = ledger(tree.path(), dead_owner());
    let own = tree.path().join(".fsb-0123");
    let innocent = tree.path().join("innocent");
    std::fs::create_dir_all(own.join("deep")).unwrap();
    std::fs::create_dir(&innocent).unwrap();
    std::fs::write(innocent.join("file"), "precious").unwrap();
    std::os::unix::fs::symlink(&innocent, own.join("link")).unwrap();
    std::os::unix::fs::symlink(&innocent, tree.path().join(".fsb-link")).unwrap();
    let _ = dead.record(Action::RemoveDirectory { path: own.clone() }).unwrap();
    assert_eq!(fates(&replay(&undo, "next-boot")), ["undone"]);
    assert!(!own.exists() && innocent.join("file").exists());
    for path in [innocent.clone(), tree.path().join(".fsb-link")] {
        let ticket = dead.record(Action::RemoveDirectory { path }).unwrap();
        assert_eq!(fates(&replay(&undo, BOOT)), ["failed"]);
        assert!(innocent.join("file").exists());
        std::fs::remove_file(ticket.file).unwrap();
    }
}

#[test]
fn what_cannot_be_read_stays_and_is_said() {
    let tree = tempfile::tempdir().unwrap();
    let undo = tree.path().join("undo");
    let _ = ledger(tree.path(), Owner::current());
    std::fs::write(undo.join("garbage.json"), "{\"boot_id\": 7").unwrap();
    std::fs::write(undo.join("notes.txt"), "not ours").unwrap();
    let replayed = replay(&undo, BOOT);
    assert_eq!(fates(&replayed), ["unreadable"]);
    assert!(replayed[0].to_string().contains("garbage.json"));
    assert!(undo.join("garbage.json").exists());
    assert!(replay(&tree.path().join("nowhere"), BOOT).is_empty());
}

#[test]
fn a_ledger_that_others_may_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let tree = tempfile::tempdir().unwrap();
    let undo = tree.path().join("undo");
    std::fs::create_dir(&undo).unwrap();
    std::fs::set_permissions(&undo, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(Ledger::open(&undo, Owner::current()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Whatever was changed, however often and in whatever order, replaying brings every file back.
    #[test]
    fn undo_restores(
        before in prop::collection::vec("[a-z0-9]{1,8}", 1..4),
        changes in prop::collection::vec((0usize..4, "[a-z0-9]{1,8}"), 0..8),
        kill in any::<bool>(),
    ) {
        let tree = tempfile::tempdir().unwrap();
        let files: Vec<_> = (0..before.len()).map(|index| tree.path().join(format!("value{index}"))).collect();
        for (file, value) in files.iter().zip(&before) {
            std::fs::write(file, value).unwrap();
        }
        let ledger = ledger(tree.path(), if kill { dead_owner() } else { Owner::current() });
        let mut tickets = Vec::new();
        for (index, value) in &changes {
            tickets.push(change(&ledger, &files[index % files.len()], value));
        }
        if kill {
            let undone = replay(&tree.path().join("undo"), BOOT);
            prop_assert_eq!(undone.len(), changes.len());
        } else {
            for ticket in tickets.into_iter().rev() {
                ledger.undo(ticket).unwrap();
            }
        }
        for (file, value) in files.iter().zip(&before) {
            prop_assert_eq!(&std::fs::read_to_string(file).unwrap(), value);
        }
        prop_assert!(leftovers(&tree.path().join("undo")).is_empty());
    }
}
