//! Controls in whole runs: set, observed, restored, and refused before anything is changed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::controls::*;
use crate::common::*;

// Controls hold while a run measures, and are restored afterwards.

#[test]
fn processors_that_are_left_decide_how_many_threads_there_are() {
    let scratch = scratch();
    let plan = |controls: &[&str]| {
        let output = succeeds(
            scratch.path(),
            &[&["run", "null", "--print-plan"], controls].concat(),
        );
        stdout(&output)
    };
    assert!(!plan(&["--control", "cpus=0"]).contains("threads = 2"));
}

// Invalid controls are refused before anything is changed.

/// Invalid values of `--control`.
const VALUES: &[&str] = &[
    "dirty-ratio=101%",
    "dirty-ratio=some",
    "dirty-bytes=1",
    "dirty-expire=5ms",
    "dirty-writeback=soon",
    "boost=perhaps",
    "swap=of",
    "scheduler=a b",
    "read-ahead=100",
    "read-ahead=1T",
    "barriers=maybe",
    "cpus=3-1",
    "numa=x",
    "services=--now",
    "read-ahead",
];

#[test]
fn wrong_values_are_refused() {
    let scratch = scratch();
    let requests = VALUES.iter().map(|value| {
        (
            ["run", "null", "--out", "run", "--control", value],
            "control/invalid-value",
        )
    });
    let mut requests: Vec<(Vec<&str>, &str)> = requests
        .map(|(words, code)| (words.to_vec(), code))
        .collect();
    requests.push((
        vec!["run", "null", "--control", "read-ahed=1M"],
        "control/unknown",
    ));
    let both = words("run null --control dirty-ratio=9% --control dirty-bytes=1G");
    requests.push((both.to_vec(), "control/conflict"));
    let requests: Vec<(&[&str], &str)> = requests
        .iter()
        .map(|(words, code)| (words.as_slice(), *code))
        .collect();
    expect_refusals("controls", scratch.path(), &requests);
    // These messages list properties of this machine.
    for value in ["governor=turbo", "cpus=9999"] {
        fails(
            scratch.path(),
            &["run", "null", "--out", "run", "--control", value],
            2,
            "control/invalid-value",
        );
    }
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn targets_differ_only_in_controls_of_one_target() {
    let scratch = scratch();
    let plan = |controls: &str| {
        format!("targets = ['null', {{ target = 'bare=null', controls = {controls} }}]\n")
    };
    let plans = [
        (plan("{ swap = 'off' }"), "control/not-per-target"),
        (plan("{ barriers = 'of' }"), "control/invalid-value"),
        (plan("{ bariers = 'off' }"), "control/unknown"),
    ];
    expect_refused_plans("controls_of_targets", scratch.path(), &plans);
}

#[test]
fn barriers_stay_where_others_would_lose_data() {
    let scratch = scratch();
    let directory = scratch.path().to_string_lossy().into_owned();
    let output = fsb_json(
        scratch.path(),
        &["run", &directory, "--control", "barriers=off"],
    );
    // If the disk under the directory is unknown, fsb cannot switch its cache off, and the machine
    // lacks the control.
    let found = match output.status.code() {
        Some(2) => expect_error(&output, 2, "control/risks-data"),
        _ => message(&output, "warning/control-unavailable"),
    };
    assert_eq!(found["fields"]["control"], "barriers", "{found}");
}

// Services, with a fake `systemctl`.

/// A fake systemctl: units are files that contain their state.
const SYSTEMCTL: &str = r#"#!/bin/sh
units="$FAKE_UNITS"
case "$1" in
show)
    [ "$2" = --property=Version ] && { echo Version=252; exit 0; }
    for unit; do :; done
    case "$unit" in *.*) ;; *) unit="$unit.service" ;; esac
    echo "Id=$unit"
    [ -e "$units/$unit" ] || { echo LoadState=not-found; echo ActiveState=inactive; exit 0; }
    echo LoadState=loaded
    echo "ActiveState=$(cat "$units/$unit")"
    echo CanStart=yes
    echo CanStop=yes
    case "$unit" in dbus*) echo RefuseManualStop=yes ;; *) echo RefuseManualStop=no ;; esac
    case "$unit" in logrotate.service) echo TriggeredBy=logrotate.timer ;; esac ;;
stop) [ "$3" = stubborn.service ] && { echo no >&2; exit 1; }
    echo inactive > "$units/$3"; echo "$1 $3" >> "$units/log" ;;
start) echo active > "$units/$3"; echo "$1 $3" >> "$units/log" ;;
*) exit 64 ;;
esac
"#;

/// A machine with systemd from the perspective of fsb.
struct Systemd {
    directory: tempfile::TempDir,
}

impl Systemd {
    fn new() -> Systemd {
        let directory = scratch();
        let program = directory.path().join("systemctl");
        fs::write(&program, SYSTEMCTL).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for (unit, state) in [
            ("cron.service", "active"),
            ("atd.service", "inactive"),
            ("logrotate.service", "active"),
            ("logrotate.timer", "active"),
            ("dbus.service", "active"),
            ("stubborn.service", "active"),
        ] {
            fs::write(directory.path().join(unit), format!("{state}\n")).unwrap();
        }
        fs::write(directory.path().join("log"), "").unwrap();
        Systemd { directory }
    }

    fn command(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = command(directory, arguments);
        let path = format!(
            "{}:{}",
            self.directory.path().display(),
            std::env::var("PATH").unwrap_or_default()
        );
        command
            .env("PATH", path)
            .env("FAKE_UNITS", self.directory.path());
        command
    }

    fn state(&self, unit: &str) -> String {
        read(self.directory.path().join(unit))
    }

    fn log(&self) -> String {
        self.state("log")
    }
}

/// Returns the arguments that measure a directory, which needs no root.
fn arguments<'a>(target: &'a str, services: &'a str) -> Vec<&'a str> {
    vec![
        "run",
        "plan.toml",
        target,
        "--control",
        services,
        "--out",
        "run",
        "-q",
    ]
}

#[test]
fn services_rest_while_fsb_measures() {
    let (scratch, systemd) = (scratch(), Systemd::new());
    fs::write(
        scratch.path().join("plan.toml"),
        PLAN.replace("blocks = 1000", "blocks = 1"),
    )
    .unwrap();
    let target = scratch.path().to_string_lossy().into_owned();
    let arguments = arguments(&target, "services=cron,atd,crom?,logrotate");
    let output = systemd
        .command(scratch.path(), &arguments)
        .output()
        .unwrap();
    let record = record(&scratch.path().join("run"));
    let services = &record["controls"]["services"];
    let stopped = "crom does not exist, cron.service stopped, atd.service did not run, logrotate.service stopped";
    assert_eq!(services["observed"], stopped, "{}", stderr(&output));
    // fsb starts the service first that it stopped last.
    let log =
        "stop cron.service\nstop logrotate.service\nstart logrotate.service\nstart cron.service";
    assert_eq!(systemd.log(), log);
    let warning = serde_json::json!(
        { "kind": "service_may_restart", "service": "logrotate.service", "trigger": "logrotate.timer" }
    );
    assert!(
        record["warnings"].as_array().unwrap().contains(&warning),
        "{record:#}"
    );
}

#[test]
fn units_that_cannot_be_stopped_are_refused_before_any_is() {
    let (scratch, systemd) = (scratch(), Systemd::new());
    fs::write(scratch.path().join("plan.toml"), PLAN).unwrap();
    let target = scratch.path().to_string_lossy().into_owned();
    for (services, unit) in [
        ("services=cron,crom", "crom.service"),
        ("services=cron,dbus", "dbus.service"),
    ] {
        let output = systemd
            .command(scratch.path(), &arguments(&target, services))
            .arg(JSON)
            .output()
            .unwrap();
        let error = expect_error(&output, 2, "control/unit");
        assert_eq!(error["fields"]["unit"], unit);
        assert!(!scratch.path().join("run").exists());
        assert_eq!(systemd.log(), "");
    }
    // A failure that only the attempt shows ends the run, and services that were stopped before run
    // again.
    let output = systemd
        .command(
            scratch.path(),
            &arguments(&target, "services=cron,stubborn"),
        )
        .arg(JSON)
        .output()
        .unwrap();
    let error = expect_error(&output, 3, "control/unit-not-stopped");
    assert_eq!(error["fields"]["unit"], "stubborn.service");
    assert_eq!(systemd.state("cron.service"), "active");
}

#[test]
fn a_killed_run_leaves_no_service_stopped() {
    let (scratch, systemd) = (scratch(), Systemd::new());
    fs::write(scratch.path().join("plan.toml"), PLAN).unwrap();
    let target = scratch.path().to_string_lossy().into_owned();
    let mut run = systemd
        .command(scratch.path(), &arguments(&target, "services=cron"))
        .spawn()
        .unwrap();
    wait_until("cron is stopped", Duration::from_secs(60), || {
        systemd.state("cron.service") == "inactive"
    });
    kill_watcher(run.id());
    run.kill().unwrap();
    run.wait().unwrap();
    is_gone(run.id());
    let cleaned = systemd
        .command(scratch.path(), &["clean"])
        .output()
        .unwrap();
    let said = stdout(&cleaned);
    assert!(
        said.contains("undone after a killed run: services: started cron.service"),
        "{said}"
    );
    assert_eq!(systemd.state("cron.service"), "active");
}

// Two runs at once: the second is refused without `--allow-concurrent`; with it, both results are
// marked.

/// Starts a run on the null file system that lasts until the test stops it.
fn long_run(directory: &Path, out: &str, more: &[&str]) -> Running {
    fs::write(directory.join("plan.toml"), PLAN).unwrap();
    let arguments = [
        "run",
        "plan.toml",
        "null",
        "--blocks",
        "10000",
        "--out",
        out,
        "-q",
    ];
    let run = Running::start(directory, &[arguments.as_slice(), more].concat());
    wait_until("trials", Duration::from_secs(60), || {
        trials(&directory.join(out)).len() > 2
    });
    run
}

/// Expects a warning of the program about the other run.
fn expect_concurrent(output: &std::process::Output, process: &str) {
    let warning = message(output, "warning/concurrent");
    assert_eq!(warning["fields"]["run"], process.trim_end(), "{warning}");
}

#[test]
fn the_second_run_refuses_unless_it_insists_and_then_both_are_marked() {
    let scratch = scratch();
    let directory = scratch.path();
    let first = long_run(directory, "first", &[]);
    let process = format!("process {} ", first.id());
    let refused = fails(
        directory,
        "run null --blocks 1 --out refused",
        3,
        "testbed/busy",
    );
    assert_eq!(refused["fields"]["pid"], first.id());

    let insisted = words("run plan.toml null --blocks 1 --out second --allow-concurrent");
    let second = fsb_json(directory, &insisted);
    expect_code(&second, 0);
    expect_concurrent(&second, &process);
    let trust = "trust: low, because another run measured at the same time";
    assert!(stdout(&second).contains(trust), "{}", stdout(&second));
    assert!(concurrent(&directory.join("second"))[0].contains(process.trim_end()));
    first.signal(rustix::process::Signal::INT);
    expect_code(&first.wait(), 130);
    let said = concurrent(&directory.join("first"));
    // The command of another run is not recorded.
    assert!(
        said.len() == 1 && said[0].contains("process ") && !said[0].contains("second"),
        "{said:?}"
    );
}

/// Starts runs that wait, and returns them once they print that they wait for this process.
fn waiting_runs(directory: &Path, arguments: &[&str], process: u32) -> Running {
    let mut command = command(directory, &[arguments, &["--wait"]].concat());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap());
    let mut lines = lines
        .lines()
        .map_while(Result::ok)
        .skip_while(|line| !line.contains("waiting for it to end"));
    let line = lines.next().unwrap_or_default();
    assert!(line.contains(&format!("process {process} ")), "{line}");
    // The runs must not block on a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Running::from_child(child)
}

#[test]
fn runs_with_wait_begin_when_the_other_run_has_ended() {
    let scratch = scratch();
    let directory = scratch.path();
    let first = long_run(directory, "first", &[]);
    let arguments = words("run plan.toml null --blocks 1 --runs 2 --out set");
    let waiting = waiting_runs(directory, &arguments, first.id());
    assert!(
        !directory.join("set/run-1").exists(),
        "nothing is begun while another run measures"
    );
    first.signal(rustix::process::Signal::INT);
    expect_code(&first.wait(), 130);
    expect_code(&waiting.wait(), 0);
    for run in ["set/run-1", "set/run-2"] {
        assert!(
            concurrent(&directory.join(run)).is_empty(),
            "{run} measured alone"
        );
    }
}

#[test]
fn a_run_that_waits_ends_at_a_signal_without_a_trace() {
    let scratch = scratch();
    let directory = scratch.path();
    let first = long_run(directory, "first", &[]);
    let waiting = waiting_runs(
        directory,
        &words("run plan.toml null --blocks 1 --out second"),
        first.id(),
    );
    waiting.signal(rustix::process::Signal::INT);
    expect_code(&waiting.wait(), 130);
    assert!(!directory.join("second").exists());
    let both = ["run", "null", "--wait", "--allow-concurrent"];
    expect_code(&fsb(directory, &both), 2);
    first.signal(rustix::process::Signal::INT);
    expect_code(&first.wait(), 130);
}

/// Every command that refuses and recommends `--allow-concurrent` accepts the option.
#[test]
fn every_command_that_measures_may_insist() {
    let scratch = scratch();
    let directory = scratch.path();
    let postmark = format!(
        "set location {}\nset number 5\nset transactions 5\nrun\nquit\n",
        directory.display()
    );
    fs::write(directory.join("mail.pm"), postmark).unwrap();
    let flow = format!(
        "set $dir={}\ndefine fileset name=f,path=$dir,size=4k,entries=5,prealloc\n\
         define process name=p {{\n thread name=t {{\n flowop openfile name=o,filesetname=f\n flowop closefile name=c\n }}\n}}\n\
         run 1\n",
        directory.display()
    );
    fs::write(directory.join("open.f"), flow).unwrap();
    fs::write(directory.join("j.fio"), "[j]\nrw=read\nsize=64k\n").unwrap();
    let first = long_run(directory, "first", &[]);
    let process = format!("process {} ", first.id());
    for arguments in [
        &["postmark", "mail.pm"][..],
        &["filebench", "open.f", "-q"],
        &["fio", "j.fio", "--quiet"],
        &words("micro create --output . --file-count 2 --run-count 1"),
        &["iozone", "-s", "64k", "-r", "4k", "-i", "0", "-f", "file"],
        &words("run plan.toml null --blocks 1 --out second -q"),
    ] {
        let refused = fails(directory, arguments, 3, "testbed/busy");
        assert_eq!(refused["fields"]["pid"], first.id(), "{arguments:?}");
        let insisted = fsb_json(directory, &[arguments, &["--allow-concurrent"]].concat());
        expect_code(&insisted, 0);
        expect_concurrent(&insisted, &process);
    }
    first.signal(rustix::process::Signal::INT);
    expect_code(&first.wait(), 130);
}

#[test]
fn a_run_that_insisted_keeps_others_out_all_the_same() {
    let scratch = scratch();
    let directory = scratch.path();
    let first = long_run(directory, "first", &["--allow-concurrent"]);
    let refused = fails(
        directory,
        "run null --blocks 1 --out refused",
        3,
        "testbed/busy",
    );
    assert_eq!(refused["fields"]["pid"], first.id());
    first.signal(rustix::process::Signal::INT);
    expect_code(&first.wait(), 130);
    assert!(
        concurrent(&directory.join("first")).is_empty(),
        "no other run measured"
    );
    succeeds(directory, "run null --blocks 1 --out after");
}
