//! A killed run leaves nothing, however it dies: no process, no mount, no loop device, no image.

use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Stdio};

use fsb_testbed::{Setup, control, host, ledger};

use crate::side_by_side::divided;
use crate::stage::{
    Coordinator, TestDevice, actor, backing_files, directory, eventually, nothing_is_left, setup,
};

tests! {
    the_coordinator_is_killed,
    the_coordinator_is_killed_while_fuse_serves,
    the_supervisor_is_killed,
    the_agent_is_killed,
    targets_are_side_by_side_when_one_is_killed,
    slices_of_memory_are_mounted_when_the_agent_is_killed,
    slices_of_a_disk_are_mounted_when_one_is_killed,
    without_namespaces_death_signals_do,
    a_directory_is_cleaned_by_the_next_run,
    settings_of_a_killed_process_are_restored,
}

/// Returns the processes below `ancestor` and `ancestor` itself, from /proc.
fn family(ancestor: i32) -> Vec<i32> {
    let parent = |pid: i32| -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()
    };
    let all: Vec<i32> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let mut family = vec![ancestor];
    let mut next = 0;
    while next < family.len() {
        let known = family[next];
        family.extend(all.iter().filter(|pid| parent(**pid) == Some(known)));
        next += 1;
    }
    family
}

fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn kill(pid: i32) {
    // SAFETY: the process is a descendant of this test.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

/// Starts a run, waits until its target is in use, kills the process that `choose` selects from
/// (coordinator, supervisor, agent), and checks that nothing is left.
fn killed(
    target: &str,
    size: u64,
    choose: fn(coordinator: i32, supervisor: i32, agent: i32) -> i32,
) {
    needs!(root);
    let dir = directory();
    killed_in(
        (&setup(&[target], size, dir.path()), "hold", "provisioned"),
        1,
        choose,
    );
}

/// Like [`killed`], in a scenario that is far enough when it reports `key`, and then uses `images`
/// images.
fn killed_in(
    (setup, scenario, key): (&Setup, &str, &str),
    images: usize,
    choose: fn(coordinator: i32, supervisor: i32, agent: i32) -> i32,
) {
    let mut coordinator = Coordinator::start(setup, scenario, |_| {});
    let supervisor = coordinator.wait_for("supervisor")["supervisor"]
        .as_i64()
        .unwrap() as i32;
    let slices = coordinator.wait_for("opened")["opened"]["slices"].clone();
    coordinator.wait_for(key);
    let shown = setup.dir.to_string_lossy().into_owned();
    let attached = backing_files()
        .iter()
        .filter(|file| file.contains(&shown))
        .count();
    assert_eq!(attached, images, "the image is attached");
    let family = family(supervisor);
    let served = setup
        .targets
        .iter()
        .filter(|target| target.name == "ntfs")
        .count();
    assert!(family.len() >= 2 + served, "{family:?}");
    let victim = choose(coordinator.child.id() as i32, supervisor, family[1]);
    kill(victim);
    eventually("every process is gone", || {
        family.iter().all(|pid| !is_running(*pid))
    });
    // The coordinator ends, too, because its connection is closed, and with it the owner of the
    // ledger's entries.
    coordinator.child.wait().unwrap();
    nothing_is_left(&setup.dir);
    for slice in slices
        .as_object()
        .into_iter()
        .flatten()
        .flat_map(|(_, slices)| slices.as_array().into_iter().flatten())
    {
        let device = Path::new(slice["device"].as_str().unwrap())
            .file_name()
            .unwrap();
        let backing = Path::new("/sys/block")
            .join(device)
            .join("loop/backing_file");
        let is_ours =
            || std::fs::read_to_string(&backing).is_ok_and(|file| file.contains("fsb-ram"));
        eventually("no image in memory", || !is_ours());
    }
    for replayed in ledger::replay(
        &ledger::default_directory().unwrap(),
        &host::boot_id(),
        control::RULES,
    ) {
        assert!(
            !matches!(
                replayed.fate,
                ledger::Fate::Failed(_) | ledger::Fate::Refused(_)
            ),
            "{replayed}"
        );
    }
}

fn targets_are_side_by_side_when_one_is_killed() {
    needs!(root);
    let choices: [fn(i32, i32, i32) -> i32; 3] = [
        |coordinator, _, _| coordinator,
        |_, supervisor, _| supervisor,
        |_, _, agent| agent,
    ];
    for choose in choices {
        let dir = directory();
        let setup = divided(&["ext4", "btrfs", "ntfs"], 512 << 20, dir.path());
        killed_in((&setup, "side-hold", "held"), 3, choose);
    }
}

fn slices_of_memory_are_mounted_when_the_agent_is_killed() {
    needs!(root);
    let dir = directory();
    let setup = divided(&["ext4@ram", "btrfs@ram"], 384 << 20, dir.path());
    killed_in((&setup, "side-hold", "held"), 0, |_, _, agent| agent);
}

fn slices_of_a_disk_are_mounted_when_one_is_killed() {
    needs!(root);
    let choices: [fn(i32, i32, i32) -> i32; 3] = [
        |coordinator, _, _| coordinator,
        |_, supervisor, _| supervisor,
        |_, _, agent| agent,
    ];
    let (dir, elsewhere) = (directory(), directory());
    let disk = TestDevice::new(elsewhere.path(), 256 << 20, &[]);
    for choose in choices {
        let targets = ["ext4", "btrfs"].map(|name| format!("{name}@{}", disk.path.display()));
        let mut setup = divided(&[&targets[0], &targets[1]], 0, dir.path());
        // The first round leaves a file system on it.
        setup.wipe = vec![disk.path.clone()];
        killed_in((&setup, "side-hold", "held"), 0, choose);
        assert_eq!(disk.partitions(), Vec::<String>::new());
    }
}

fn the_coordinator_is_killed() {
    killed("ext4", 32 << 20, |coordinator, _, _| coordinator);
}

fn the_coordinator_is_killed_while_fuse_serves() {
    killed("ntfs", 32 << 20, |coordinator, _, _| coordinator);
}

fn the_supervisor_is_killed() {
    killed("btrfs", 128 << 20, |_, supervisor, _| supervisor);
}

fn the_agent_is_killed() {
    killed("ext4", 32 << 20, |_, _, agent| agent);
}

/// Runs in a user namespace that may create no further ones, as in some containers.
fn without_namespaces_death_signals_do() {
    needs!(root);
    for choose in [
        (|coordinator, _, _| coordinator) as fn(i32, i32, i32) -> i32,
        |_, supervisor, _| supervisor,
        |_, _, agent| agent,
    ] {
        let dir = directory();
        let mut plan = setup(&[dir.path().to_str().unwrap()], 0, dir.path());
        plan.identity = fsb_model::Identity {
            uid: None,
            gid: None,
            force_root: true,
        };
        let mut coordinator = Coordinator::start(&plan, "hold", |command| {
            let limit = "for kind in pid mnt; do echo 0 > /proc/sys/user/max_${kind}_namespaces; done; exec \"$@\"";
            let mut limited = Command::new("unshare");
            limited.args(["--user", "--map-root-user", "sh", "-c", limit, "sh"]);
            limited
                .arg(command.get_program())
                .args(command.get_args())
                .stdout(Stdio::piped());
            *command = limited;
        });
        let line = coordinator.wait_for("supervisor");
        assert_eq!(line["isolation"], "none");
        let supervisor = line["supervisor"].as_i64().unwrap() as i32;
        let agent = coordinator.wait_for("provisioned")["pid"].as_i64().unwrap() as i32;
        let family = family(supervisor);
        assert_eq!(family, [supervisor, agent]);
        kill(choose(coordinator.child.id() as i32, supervisor, agent));
        eventually("every process is gone", || {
            family.iter().all(|pid| !is_running(*pid))
        });
        coordinator.child.wait().unwrap();
        ledger::replay(
            &ledger::default_directory().unwrap(),
            &host::boot_id(),
            control::RULES,
        );
        nothing_is_left(dir.path());
    }
}

fn a_directory_is_cleaned_by_the_next_run() {
    needs!(root);
    let dir = directory();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("precious"), "untouched").unwrap();
    let mut coordinator = Coordinator::start(
        &setup(&[data.to_str().unwrap()], 0, dir.path()),
        "hold",
        |_| {},
    );
    coordinator.wait_for("provisioned");
    eventually("the file is there", || own_files(&data) == 1);
    drop(coordinator);
    let replayed = ledger::replay(
        &ledger::default_directory().unwrap(),
        &host::boot_id(),
        control::RULES,
    );
    assert!(
        replayed
            .iter()
            .any(|entry| entry.to_string().contains(data.to_str().unwrap())),
        "{replayed:?}"
    );
    assert_eq!(own_files(&data), 0);
    assert_eq!(
        std::fs::read_to_string(data.join("precious")).unwrap(),
        "untouched"
    );
}

/// Returns the number of files in sub-directories of fsb.
fn own_files(data: &Path) -> usize {
    let entries = std::fs::read_dir(data).unwrap().filter_map(Result::ok);
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".fsb-"));
    own.filter_map(|entry| std::fs::read_dir(entry.path()).ok())
        .flatten()
        .count()
}

fn settings_of_a_killed_process_are_restored() {
    let dir = directory();
    let (data, undo) = (dir.path().join("data"), dir.path().join("undo"));
    std::fs::create_dir(&data).unwrap();
    let left = || std::fs::read_dir(&data).unwrap().count();
    let mut child = actor("change")
        .args([&data, &undo])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(left(), 1);
    // The entries of a living owner are not undone.
    let replayed = ledger::replay(&undo, &host::boot_id(), control::RULES);
    assert!(
        matches!(
            replayed[..],
            [ledger::Replayed {
                fate: ledger::Fate::Live,
                ..
            }]
        ),
        "{replayed:?}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let replayed = ledger::replay(&undo, &host::boot_id(), control::RULES);
    assert!(
        matches!(
            replayed[..],
            [ledger::Replayed {
                fate: ledger::Fate::Undone(_),
                ..
            }]
        ),
        "{replayed:?}"
    );
    assert_eq!(left(), 0);
}
