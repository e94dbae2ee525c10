//! Runs from a browser: on a real file system with the rights of sudo, and by a real browser.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use serde_json::json;

use crate::common::serve_runs::{Answer, Server};
use crate::common::{counting, expect_no_traces, fails, record, scratch, traces, words};
use crate::devices::Disk;
use crate::devtools::Browser;
use crate::ownership::{NOBODY, sudo};

#[test]
fn the_helper_of_sudo_measures_a_loop_image_and_the_results_are_those_of_the_invoking_user() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let before = traces();
    let directory = scratch();
    fs::create_dir(directory.path().join("store")).unwrap();
    for path in [directory.path(), &directory.path().join("store")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let server = Server::start_by(sudo(directory.path(), &[]), directory, &[]);
    let Answer(status, _, body) = server.ask("GET", "/plan?fs=ext4&medium=/dev/loop0", "");
    assert!(
        status == 400 && body.contains("--wipe /dev/loop0"),
        "{status}: {body}"
    );
    server.run("fs=ext4&workload=stat&p.files=100&size=128M&blocks=2");
    let last = server.watch_end();
    assert!(
        last["progress"].as_str().unwrap().starts_with("complete: "),
        "{last:#}"
    );
    let run = server.only_run();
    assert_eq!(fs::metadata(run.join("run.json")).unwrap().uid(), NOBODY);
    assert_eq!(
        record(&run)["plan"]["targets"][0]["file_system"]["fs"],
        "ext4"
    );
    drop(server);
    expect_no_traces(&before);
}

/// The web process of root is that of user nobody, who cannot make the store.
#[test]
fn a_new_store_in_a_directory_of_root_is_made_and_read_by_user_nobody() {
    needs!(root);
    let directory = scratch();
    fs::create_dir(directory.path().join("store")).unwrap();
    for path in [directory.path(), &directory.path().join("store")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let store = directory.path().join("store/index");
    let command = crate::common::command(directory.path(), &[]);
    let server = Server::start_by(command, directory, &[]);
    let found = fs::metadata(&store).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o644));
    let Answer(status, ..) = server.ask("GET", "/", "");
    assert_eq!(status, 200);
}

#[test]
fn a_store_that_user_nobody_cannot_reach_is_refused_before_the_server_starts() {
    needs!(root);
    let directory = scratch();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let arguments = words("serve --allow-runs --store index --listen 127.0.0.1:0");
    let refused = fails(directory.path(), &arguments, 3, "machine/unable");
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(
        message.contains(&format!("cannot enter {}", directory.path().display())),
        "{message}"
    );
    assert!(!directory.path().join("index").exists());
}

#[test]
fn only_the_device_that_was_named_at_the_start_is_overwritten() {
    needs!(root);
    needs!(program "mkfs.ext4", "losetup");
    let before = traces();
    let [named, other] = [Disk::formatted(256), Disk::formatted(256)];
    let [of_named, of_other] = [&named, &other].map(Disk::content);
    let links = scratch();
    let link = links.path().join("disk");
    symlink(&named.path, &link).unwrap();
    let server = Server::start(&["--wipe", link.to_str().unwrap()]);
    // The link was followed once.
    fs::remove_file(&link).unwrap();
    symlink(&other.path, &link).unwrap();
    let [device, another] = [&named, &other].map(|disk| disk.path.to_str().unwrap());
    let form = server.page("/new");
    assert!(
        form.contains(&format!("value=\"{device}\"")) && !form.contains(another),
        "{form}"
    );
    for form in [
        format!("fs=ext4&medium={another}"),
        format!("fs=ext4&medium={}", link.display()),
        format!("targets=ext4%40{another}"),
        format!("targets=ext4%40raid0:{device}%2B{another}"),
        format!("targets=ext4,journal%3D{another}%40{device}"),
    ] {
        let Answer(status, _, body) = server.ask("GET", &format!("/plan?{form}"), "");
        assert!(
            status == 400 && body.contains("the device was not named"),
            "{form}: {status} {body}"
        );
    }
    server.run(&format!(
        "fs=ext4&medium={device}&workload=stat&p.files=100&blocks=2"
    ));
    let last = server.watch_end();
    assert!(
        last["progress"].as_str().unwrap().starts_with("complete: "),
        "{last:#}"
    );
    let made = record(&server.only_run());
    assert_eq!(made["plan"]["wipe"], json!([device]), "{:#}", made["plan"]);
    assert!(
        named.content() != of_named,
        "the named device was formatted"
    );
    assert!(
        other.content() == of_other,
        "the other device was not touched"
    );
    drop((server, named, other));
    expect_no_traces(&before);
}

#[test]
fn a_browser_plans_starts_watches_and_stops_a_run_and_reads_its_report() {
    needs!(program "chromium");
    let server = Server::start(&[]);
    let profile = scratch();
    let mut browser = Browser::start(profile.path());
    browser.open(&server.login());
    let new_run = format!("http://{}/new", server.address);
    assert_eq!(
        browser.value("location.href"),
        new_run,
        "the token is not in the address"
    );
    browser.expect_accessible();
    browser.value("document.querySelector('input[name=fs][value=null]').checked = true");
    browser.value("document.querySelector('input[name=targets]').value = 'other=null'");
    browser.value("document.querySelector('select[name=workload]').value = 'stat'");
    browser.click("button[formaction=new]");
    assert_eq!(
        browser.value("document.querySelector('select[name=workload]').value"),
        "stat"
    );
    assert_eq!(
        browser.value("document.querySelector('input[name=fs][value=null]').checked"),
        true
    );
    browser.value("document.querySelector('input[name=\"p.files\"]').value = '100'");
    browser.value("document.querySelector('input[name=blocks]').value = '10000'");
    browser.click("form.plan button");
    let plan = browser.text("pre");
    assert!(
        plan.contains("files = 100") && plan.contains("blocks = 10000"),
        "{plan}"
    );
    browser.expect_accessible();
    browser.click("form[action=start] button");
    browser.value("window.isFirst = true");
    browser.wait_for("[data-live=progress]", " of 10000, ");
    browser.wait_for("[data-live=table]", "stat");
    assert_eq!(
        browser.value("window.isFirst"),
        true,
        "events came without another load of the page"
    );
    browser.expect_accessible();
    browser.click("form[action=stop] button");
    browser.wait_for("main", "fsb run --resume");
    browser.expect_accessible();
    // The numbers are those of the store.
    let run = server.only_run();
    let trials = counting(&run)
        .iter()
        .filter(|trial| trial["phase"] == "measured")
        .count();
    assert!(
        browser
            .text("[data-live=progress]")
            .contains(&format!("interrupted, {trials} of "))
    );
    browser.click("a[href='live/report']");
    browser.wait_for("main", "stat");
    browser.expect_only_requests_to(&server.address);
    assert!(
        browser
            .requests
            .iter()
            .any(|address| address.ends_with("/live/events"))
    );
}
