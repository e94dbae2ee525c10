//! Controls units of systemd through `systemctl`.
//!
//! Not tested on machines with systemd: tests use a program that answers like `systemctl`.

use std::ffi::OsStr;

use super::program;
use crate::error::Refusal;

const SYSTEMCTL: &str = "systemctl";

/// The properties of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemdUnit {
    /// The full name, with the suffix.
    pub name: String,
    /// Whether the unit exists.
    pub exists: bool,
    /// Whether the unit runs or waits. Timers and sockets wait.
    pub active: bool,
    /// Whether the unit may be stopped and started manually.
    pub stoppable: bool,
    /// Timers, sockets and paths that start the unit.
    pub triggered_by: Vec<String>,
}

/// Checks that systemd manages this machine.
pub fn present() -> Result<(), Refusal> {
    let program = program::find(SYSTEMCTL).ok_or("no systemd: systemctl is missing")?;
    let output = program::run(&program, &["show", "--property=Version"])
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    // The message of systemctl takes several lines and means the same.
    Err("systemd does not manage this machine".into())
}

/// Queries a unit. A name without a suffix is a service.
pub fn unit(name: &str) -> Result<SystemdUnit, Refusal> {
    const PROPERTIES: &str = "--property=Id,LoadState,ActiveState,CanStop,CanStart,RefuseManualStop,RefuseManualStart,TriggeredBy";
    let output = call(&["show", PROPERTIES, "--", name])?;
    Ok(parse(name, &output))
}

/// Stops a unit and waits until it is down.
pub fn stop(name: &str) -> Result<(), Refusal> {
    call(&["stop", "--", name]).map(drop)
}

/// Starts a unit and waits until it is up.
pub fn start(name: &str) -> Result<(), Refusal> {
    call(&["start", "--", name]).map(drop)
}

fn call(arguments: &[&str]) -> Result<String, Refusal> {
    let program = program::find(SYSTEMCTL).ok_or("systemctl is missing")?;
    let words: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let output = program::run(&program, &words).map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let verb = arguments.first().copied().unwrap_or_default();
    Err(format!(
        "systemctl {verb}: {}: {}",
        output.status,
        program::last_lines(&output.stderr)
    )
    .into())
}

fn parse(asked: &str, text: &str) -> SystemdUnit {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .unwrap_or("")
    };
    let allowed = value("RefuseManualStop") != "yes" && value("RefuseManualStart") != "yes";
    SystemdUnit {
        name: if value("Id").is_empty() {
            asked.to_owned()
        } else {
            value("Id").to_owned()
        },
        exists: value("LoadState") == "loaded",
        active: matches!(value("ActiveState"), "active" | "reloading" | "activating"),
        // In some versions CanStop is `no` for units that do not run. A unit that cannot start
        // again must not be stopped.
        stoppable: allowed
            && value("CanStart") != "no"
            && (value("ActiveState") != "active" || value("CanStop") != "no"),
        triggered_by: value("TriggeredBy")
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_by_name() {
        let text = "Id=cron.service\nLoadState=loaded\nActiveState=active\nCanStart=yes\nCanStop=yes\n\
                    RefuseManualStart=no\nRefuseManualStop=no\nTriggeredBy=a.timer b.socket\n";
        let cron = parse("cron", text);
        assert_eq!(
            (cron.name.as_str(), cron.exists, cron.active, cron.stoppable),
            ("cron.service", true, true, true)
        );
        assert_eq!(cron.triggered_by, ["a.timer", "b.socket"]);
        let refuses = text.replace("RefuseManualStop=no", "RefuseManualStop=yes");
        assert!(!parse("cron", &refuses).stoppable);
        assert!(!parse("cron", &text.replace("CanStop=yes", "CanStop=no")).stoppable);
        let missing = parse(
            "crom",
            "Id=crom.service\nLoadState=not-found\nActiveState=inactive\n",
        );
        assert!(!missing.exists && !missing.active);
    }
}
