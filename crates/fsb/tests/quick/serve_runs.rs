//! `fsb serve --allow-runs`: runs on the null file system are planned, started, watched and stopped
//! through HTTP.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::serve::connect_many;
use crate::common::serve_runs::{Answer, Server, hidden};
use crate::common::{fails, fsb, record, scratch, stdout, succeeds, trials, wait_until};

const LONG: &str = "fs=null&targets=other%3Dnull&workload=stat&blocks=10000";

#[test]
fn a_run_is_planned_started_watched_and_reported() {
    let server = Server::start(&[]);
    let form = server.page("/new?workload=read");
    let described = stdout(&fsb(server.path(), "list workloads read"));
    for parameter in ["access", "block_size", "cache", "threads"] {
        assert!(
            form.contains(&format!("name=\"p.{parameter}\"")) && described.contains(parameter),
            "{parameter}"
        );
    }
    let text = server.run("fs=null&targets=other%3Dnull&workload=stat&p.files=100&blocks=6&seed=9");
    assert!(
        text.contains("seed = 9") && text.contains("files = 100"),
        "{text}"
    );
    let last = server.watch_end();
    assert!(
        last["progress"].as_str().unwrap().starts_with("complete: "),
        "{last:#}"
    );
    let page = server.page("/live");
    assert!(
        page.contains("href=\"live/report\"") && !page.contains("fsb run --resume"),
        "{page}"
    );
    assert!(server.page("/live/report").contains("id=\"overview\""));
    let run = server.only_run();
    let made = record(&run);
    assert_eq!(
        (&made["plan"]["seed"], &made["stop_reason"]["kind"]),
        (&9.into(), &"requested".into())
    );
    assert_eq!(
        last["done"],
        trials(&run)
            .iter()
            .filter(|trial| trial["phase"] == "measured")
            .count()
    );
    // The plan that was shown is the plan that was run.
    fs::write(server.path().join("shown.toml"), &text).unwrap();
    let shown = stdout(&fsb(server.path(), "run shown.toml --print-plan"));
    assert_eq!(shown, text);
    assert_eq!(made["plan"]["workloads"][0]["files"], 100);
}

#[test]
fn a_run_that_is_stopped_from_the_page_ends_unplanned_and_only_one_is_made_at_a_time() {
    let server = Server::start(&[]);
    server.run(LONG);
    // The time that is left is known after the first second.
    let is_wanted = |event: &Value| {
        event["time"].as_str().unwrap().contains(" so far, about ")
            && !event["table"].as_str().unwrap().is_empty()
    };
    let event = server.watch(is_wanted);
    assert!(
        event["progress"].as_str().unwrap().contains(" of 10000, "),
        "{event:#}"
    );
    assert!(
        event["time"].as_str().unwrap().contains(" so far, about "),
        "{event:#}"
    );
    assert!(
        event["table"].as_str().unwrap().contains("stat"),
        "{event:#}"
    );
    let plan = server.page(&format!("/plan?{LONG}"));
    let second = format!(
        "form_token={}&digest={}",
        hidden(&plan, "form_token"),
        hidden(&plan, "digest")
    );
    let Answer(status, _, body) = server.ask("POST", "/start", &second);
    assert!(
        status == 409 && body.contains("measured already"),
        "{status}: {body}"
    );
    let stop = format!("form_token={}", hidden(&server.page("/live"), "form_token"));
    assert_eq!(server.ask("POST", "/stop", &stop).0, 303);
    server.watch_end();
    let made = record(&server.only_run());
    assert!(
        made["stop_reason"].is_null() && made["segments"][0]["ended"].is_string(),
        "{made:#}"
    );
    let page = server.page("/live");
    assert!(
        page.contains("fsb run --resume") && page.contains("interrupted"),
        "{page}"
    );
}

#[test]
fn a_run_is_watched_and_stopped_beside_ten_thousand_connections_and_slow_clients() {
    const WATCHERS: usize = 32;
    let server = Server::start(&[]);
    let mut open = connect_many(&server.address);
    let unfinished = [
        server.head("GET", "/live", 0)[..40].to_owned(),
        server.head("POST", "/stop", 100),
    ];
    for (place, stream) in open.iter_mut().take(200).enumerate() {
        stream.write_all(unfinished[place % 2].as_bytes()).unwrap();
    }
    server.run(LONG);
    server.watch_results();
    let mut watchers: Vec<TcpStream> = Vec::new();
    // The server frees the place of an earlier watcher after some time.
    wait_until("all places are taken", Duration::from_secs(60), || {
        let mut watcher = server.send("GET", "/live/events", "");
        let mut start = [0; 12];
        watcher.read_exact(&mut start).unwrap();
        if &start == b"HTTP/1.1 200" {
            // It reads nothing more.
            watchers.push(watcher);
        }
        watchers.len() == WATCHERS
    });
    let Answer(status, _, body) = server.ask("GET", "/live/events", "");
    assert!(
        status == 429 && body.contains("Too many pages"),
        "{status}: {body}"
    );
    let stop = format!("form_token={}", hidden(&server.page("/live"), "form_token"));
    assert_eq!(server.ask("POST", "/stop", &stop).0, 303);
    wait_until("the end of the run", Duration::from_secs(60), || {
        server.page("/live").contains("fsb run --resume")
    });
    drop(watchers);
    wait_until("a free place", Duration::from_secs(60), || {
        server.ask("GET", "/live/events", "").0 == 200
    });
    drop(open);
}

#[test]
fn the_end_of_the_server_ends_its_run() {
    let mut server = Server::start(&[]);
    server.run(LONG);
    server.watch_results();
    kill_process(Pid::from_child(&server.child), Signal::INT).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let run = server.only_run();
    assert!(record(&run)["segments"][0]["ended"].is_string());
    assert!(!run.join(".lock").exists());
}

#[test]
fn plans_of_media_that_were_not_named_are_refused() {
    let server = Server::start(&["--directory", "data"]);
    let measured = server.path().join("data");
    let named = measured.to_str().unwrap();
    assert!(
        server
            .page(&format!("/plan?targets={named}&workload=stat"))
            .contains("Start the run")
    );
    for (form, expected) in [
        ("targets=/etc", "--directory /etc"),
        ("targets=ext4%40/dev/nothing", "--wipe /dev/nothing"),
        ("fs=null&medium=/dev/nothing&fs=ext4", "--wipe /dev/nothing"),
        (
            "fs=null&workload=command&p.command=id",
            "does not set command",
        ),
        ("fs=null&dir=/etc", "no field dir"),
        ("fs=null&size=many", "size"),
        ("", "target"),
    ] {
        let Answer(status, _, body) = server.ask("GET", &format!("/plan?{form}"), "");
        assert!(
            status == 400 && body.contains(expected),
            "{form}: {status} {body}"
        );
    }
    let Answer(status, _, body) = server.ask("GET", "/live/report", "");
    assert!(status == 404 && body.contains("No run has ended"), "{body}");
}

#[test]
fn the_web_process_has_no_rights_of_root_and_ends_with_its_helper() {
    fsb_testkit::needs!(root);
    let server = Server::start(&[]);
    let children =
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.child.id())).unwrap();
    let web = children.trim().to_owned();
    let status = fs::read_to_string(format!("/proc/{web}/status")).unwrap();
    let line = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
            .trim()
    };
    assert_eq!(
        (line("Uid:"), line("Gid:")),
        ("65534\t65534\t65534\t65534", "65534\t65534\t65534\t65534")
    );
    assert_eq!(
        (line("Groups:"), line("CapEff:"), line("CapPrm:")),
        ("", "0000000000000000", "0000000000000000")
    );
    kill_process(Pid::from_child(&server.child), Signal::KILL).unwrap();
    wait_until(
        "the end of the web process",
        Duration::from_secs(60),
        || {
            // A process that was not reaped has no arguments any more.
            fs::read(format!("/proc/{web}/cmdline")).map_or(true, |arguments| arguments.is_empty())
        },
    );
}

#[test]
fn addresses_that_others_reach_are_refused() {
    let directory = scratch();
    let serve =
        |more: &[&'static str]| [&["serve", "--allow-runs", "--store", "index"], more].concat();
    fails(
        directory.path(),
        &serve(&["--listen", "0.0.0.0:0"]),
        2,
        "arguments/conflict",
    );
    fails(
        directory.path(),
        &serve(&["--host", "bench"]),
        2,
        "arguments/conflict",
    );
    fails(
        directory.path(),
        &serve(&["--static", "public"]),
        2,
        "arguments/conflict",
    );
    fails(
        directory.path(),
        &serve(&["--wipe", "/dev/null"]),
        2,
        "arguments/invalid-value",
    );
    fails(
        directory.path(),
        "serve --wipe /dev/null",
        2,
        "arguments/missing",
    );
    succeeds(directory.path(), "serve --help");
}
