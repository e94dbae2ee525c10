//! Services, with a fake `systemctl`.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use super::*;

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
        let path = format!("{}:{}", self.directory.path().display(), std::env::var("PATH").unwrap_or_default());
        command.env("PATH", path).env("FAKE_UNITS", self.directory.path());
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
    vec!["run", "plan.toml", target, "--control", services, "--out", "run", "-q"]
}

#[test]
fn services_rest_while_fsb_measures() {
    let (scratch, systemd) = (scratch(), Systemd::new());
    fs::write(scratch.path().join("plan.toml"), PLAN.replace("blocks = 50", "blocks = 1")).unwrap();
    let target = scratch.path().to_string_lossy().into_owned();
    let arguments = arguments(&target, "services=cron,atd,logrotate");
    let output = systemd.command(scratch.path(), &arguments).output().unwrap();
    let record = record(&scratch.path().join("run"));
    let services = &record["controls"]["services"];
    let stopped = "cron.service stopped, atd.service did not run, logrotate.service stopped";
    assert_eq!(services["observed"], stopped, "{}", stderr(&output));
    // fsb starts the service first that it stopped last.
    let log = "stop cron.service\nstop logrotate.service\nstart logrotate.service\nstart cron.service";
    assert_eq!(systemd.log(), log);
    let warning = serde_json::json!(
        { "kind": "service_may_restart", "service": "logrotate.service", "trigger": "logrotate.timer" }
    );
    assert!(record["warnings"].as_array().unwrap().contains(&warning), "{record:#}");
}

#[test]
fn units_that_cannot_be_stopped_are_refused_before_any_is() {
    let (scratch, systemd) = (scratch(), Systemd::new());
    fs::write(scratch.path().join("plan.toml"), PLAN).unwrap();
    let target = scratch.path().to_string_lossy().into_owned();
    for (services, unit) in [("services=cron,crom", "crom.service"), ("services=cron,dbus", "dbus.service")] {
        let output = systemd.command(scratch.path(), &arguments(&target, services)).arg(JSON).output().unwrap();
        let error = expect_error(&output, 2, "control/unit");
        assert_eq!(error["fields"]["unit"], unit);
        assert!(!scratch.path().join("run").exists());
        assert_eq!(systemd.log(), "");
    }
    // A failure that only the attempt shows ends the run, and services that were stopped before run again.
    let output =
        systemd.command(scratch.path(), &arguments(&target, "services=cron,stubborn")).arg(JSON).output().unwrap();
    let error = expect_error(&output, 3, "control/unit-not-stopped");
    assert_eq!(error["fields"]["unit"], "stubborn.service");
    assert_eq!(systemd.state("cron.service"), "active");
}

#[test]
fn a_killed_run_leaves_no_service_stopped() {
    let (scratch, systemd) = (scratch(), Systemd::new());
    fs::write(scratch.path().join("plan.toml"), PLAN).unwrap();
    let target = scratch.path().to_string_lossy().into_owned();
    let mut run = systemd.command(scratch.path(), &arguments(&target, "services=cron")).spawn().unwrap();
    wait_until("cron is stopped", Duration::from_secs(60), || systemd.state("cron.service") == "inactive");
    kill_watcher(run.id());
    run.kill().unwrap();
    run.wait().unwrap();
    is_gone(run.id());
    let cleaned = systemd.command(scratch.path(), &["clean"]).output().unwrap();
    let said = stdout(&cleaned);
    assert!(said.contains("undone after a killed run: services: started cron.service"), "{said}");
    assert_eq!(systemd.state("cron.service"), "active");
}
