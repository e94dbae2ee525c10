//! Two runs at once: the second is refused without `--allow-concurrent`; with it, both results are marked.

use std::time::Duration;

use super::*;

#[test]
fn a_run_leaves_the_settings_of_another_run_alone() {
    needs!(root);
    let (scratch, before) = (scratch(), vm("dirty_expire_centisecs"));
    let directory = scratch.path();
    let plan = ["run", "plan.toml", "tmpfs", "--size", "64M", "-q", "--out"];
    fs::write(directory.join("plan.toml"), PLAN).unwrap();
    let first = Running::start(directory, &[plan.as_slice(), &["first", "--control", "dirty-expire=7s"]].concat());
    wait_until("the first run's control", Duration::from_secs(60), || vm("dirty_expire_centisecs") == "700");
    let second = ["second", "--blocks", "1", "--control", "dirty-expire=9s", "--allow-concurrent"];
    fsb(directory, &[plan.as_slice(), &second].concat());
    let record = record(&directory.join("second"));
    let seen = &record["controls"]["dirty-expire"];
    assert_eq!(seen["effective"], false);
    assert_eq!(vm("dirty_expire_centisecs"), "700");
    first.signal(rustix::process::Signal::INT);
    first.wait();
    assert_eq!(vm("dirty_expire_centisecs"), before);
}
