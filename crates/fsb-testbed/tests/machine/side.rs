//! The agent's operations on targets that are all ready at once.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use fsb_sys::sandbox::{self, Confinement};
use fsb_testbed::{ColdReach, Counters, LocalTestbed, Setup, Slot, Testbed, TestbedError};
use serde_json::{Value, json};

use crate::actor::{actor, write_file};

/// Makes each target ready in a slot of its own, in the order of the setup. If media are divided, it uses the slice of
/// the same number.
pub fn by_side(
    testbed: &mut LocalTestbed,
    setup: &Setup,
    scenario: &str,
    say: &mut dyn FnMut(Value),
) -> Result<(), TestbedError> {
    let slots: Vec<Slot> = (0..).take(setup.targets.len()).collect();
    let mut roots = Vec::new();
    for (slot, target) in (0..).zip(&setup.targets) {
        let part = if setup.parts > 1 { slot } else { 0 };
        let provisioned = testbed.provision(slot, part, target)?;
        say(json!({ "provisioned": provisioned, "pid": std::process::id() }));
        roots.push(provisioned.root);
    }
    if scenario == "side-hold" {
        roots.iter().for_each(|root| write_file(&root.join("held"), SIZE));
        say(json!({ "held": roots }));
        std::thread::sleep(Duration::from_secs(600));
    }
    let all = |testbed: &LocalTestbed| slots.iter().map(|slot| testbed.counters(*slot)).collect::<Vec<_>>();
    for slot in &slots {
        testbed.quiesce(*slot, Duration::MAX)?;
    }
    for (slot, root) in (0..).zip(&roots).filter(|(_, root)| root.exists()) {
        let (before, watch) = (all(testbed), testbed.watch(slot));
        // A different size for each target.
        write_file(&root.join("file"), SIZE * (slot as usize + 1));
        testbed.sync(slot)?;
        let seen = watch.map(fsb_testbed::watch::Watch::end);
        say(json!({ "slot": slot, "wrote": difference(&before, &all(testbed)), "seen": seen }));
    }
    for (slot, root) in (0..).zip(&roots).filter(|(_, root)| root.exists()) {
        let others = roots.iter().filter(|other| *other != root && other.exists());
        let workers: Vec<Child> = others.map(|other| start_worker(other)).collect();
        testbed.make_cold(slot, ColdReach::Machine)?;
        workers.into_iter().for_each(end_worker);
        let before = all(testbed);
        let content = std::fs::read(root.join("file")).expect("the file is still there");
        assert!(content == vec![7u8; SIZE * (slot as usize + 1)], "the file kept its content");
        say(json!({ "slot": slot, "read": difference(&before, &all(testbed)) }));
    }
    let there = || roots.iter().map(|root| root.join("file").exists()).collect::<Vec<_>>();
    for slot in &slots {
        testbed.release(*slot)?;
        say(json!({ "released": slot, "there": there() }));
        testbed.release(*slot)?;
    }
    // A target in a slot that is in use replaces the previous one, and other slots stay.
    if scenario == "side-again" {
        for (slot, part, target) in [(0, 0, 0), (7, 1, 1), (0, 0, 1)] {
            let provisioned = testbed.provision(slot, part, &setup.targets[target])?;
            write_file(&provisioned.root.join("file"), SIZE);
            say(json!({ "again": provisioned.record }));
            roots.push(provisioned.root);
        }
        let taken = testbed.provision(1, 1, &setup.targets[0]).expect_err("slot 7 has part 1");
        say(json!({ "taken": taken.to_string() }));
        say(json!({ "left": roots.iter().map(|root| root.join("file").exists()).collect::<Vec<_>>() }));
        testbed.release_all()?;
    }
    Ok(())
}

/// Starts a worker that is confined to its target and waits.
fn start_worker(root: &Path) -> Child {
    let confinement = Confinement {
        writable: Some(root.to_owned()),
        uid: 65534,
        gid: 65534,
        programs: None,
        root: None,
        die_with_parent: true,
        cpus: Vec::new(),
        memory_nodes: Vec::new(),
    };
    let order = serde_json::to_string(&confinement).expect("JSON");
    let mut child = actor("waiting").arg(order).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a worker");
    let mut ready = [0];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut ready).expect("the worker is confined");
    child
}

fn end_worker(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().expect("a worker").success());
}

/// Confines itself, reports that, and waits until its standard input is closed.
pub fn wait_confined(order: &str) -> Result<i32, TestbedError> {
    let notes = sandbox::confine(&serde_json::from_str(order).expect("a confinement"))?;
    assert!(notes.is_empty(), "{notes:?}");
    println!(".");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("a pipe");
    Ok(0)
}

const SIZE: usize = 4 << 20;

/// Returns the bytes that each device moved.
fn difference(before: &[Option<Counters>], after: &[Option<Counters>]) -> Vec<Option<u64>> {
    let moved = |counters: &Counters| counters.read_bytes + counters.write_bytes;
    let one = |(before, after): (&Option<Counters>, &Option<Counters>)| {
        Some(moved(after.as_ref()?) - moved(before.as_ref()?))
    };
    before.iter().zip(after).map(one).collect()
}
