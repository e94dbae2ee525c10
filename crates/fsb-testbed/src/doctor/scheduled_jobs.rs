//! Jobs that cron or systemd will start soon.

use std::path::{Path, PathBuf};

use fsb_sys::{Roots, program};
use serde::Deserialize;

use super::{Finding, State, finding};
use crate::watch::processes;

/// The time window in minutes. A run takes minutes, a long one an hour.
const WITHIN_MINUTES: u32 = 60;
/// The largest number of jobs that a finding names.
const NAMED: usize = 3;
/// Names of programs that run cron's tables.
const DAEMONS: [&str; 4] = ["cron", "crond", "fcron", "cronie"];

/// Returns findings about jobs that start within the hour.
pub(super) fn soon(roots: &Roots) -> Vec<Finding> {
    let now = seconds_now();
    let minutes: Vec<Minute> = (1..=WITHIN_MINUTES).map(|ahead| local(now + i64::from(ahead) * 60)).collect();
    let running = processes::read(roots).iter().any(|process| DAEMONS.contains(&process.name.as_str()));
    let mut findings = vec![cron_jobs(Path::new("/"), running, &minutes)];
    findings.extend(timers(Path::new("/run/systemd/system").exists(), now, &|| {
        program::ask("systemctl", &["list-timers", "--output=json", "--no-pager"].map(std::ffi::OsStr::new))
    }));
    findings
}

fn cron_jobs(root: &Path, running: bool, minutes: &[Minute]) -> Finding {
    let topic = "cron jobs";
    if !running {
        return finding(topic, State::Ok, "no cron is running", "");
    }
    let mut due: Vec<(usize, String)> = Vec::new();
    for (file, user) in tables(root) {
        let Ok(table) = std::fs::read_to_string(root.join(&file)) else { continue };
        for job in jobs(&table, user) {
            if let Some(ahead) = minutes.iter().position(|minute| job.runs_at(*minute)) {
                due.push((ahead, told(&job, minutes[ahead], &file)));
            }
        }
    }
    due.sort();
    let named: Vec<String> = due.into_iter().map(|(_, text)| text).collect();
    tell(topic, &named, "measure at another time, or stop cron for the run")
}

/// Returns the system's tables, whose lines name a user, and the tables of users, which only root can read.
fn tables(root: &Path) -> Vec<(PathBuf, bool)> {
    let mut tables = vec![(PathBuf::from("etc/crontab"), true)];
    for (directory, user) in [("etc/cron.d", true), ("var/spool/cron/crontabs", false), ("var/spool/cron", false)] {
        let entries = std::fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
        let files =
            entries.filter(|entry| entry.path().is_file()).map(|entry| Path::new(directory).join(entry.file_name()));
        tables.extend(files.map(|file| (file, user)));
    }
    tables.sort();
    tables
}

fn told(job: &Job, at: Minute, file: &Path) -> String {
    const LONGEST: usize = 40;
    let mut command: String = job.command.chars().take(LONGEST).collect();
    if command.len() < job.command.len() {
        command.push('…');
    }
    format!("{:02}:{:02} '{command}' (/{})", at.hour, at.minute, file.display())
}

fn tell(topic: &str, due: &[String], advice: &str) -> Finding {
    match due {
        [] => finding(topic, State::Ok, "none starts within the hour", ""),
        _ => {
            let more = due.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            let text = format!("within the hour: {}{more}", due[..due.len().min(NAMED)].join(", "));
            finding(topic, State::Warning, text, advice)
        }
    }
}

/// An entry of `systemctl list-timers --output=json`. Times are in microseconds since 1970.
#[derive(Deserialize)]
struct Timer {
    next: Option<i64>,
    unit: String,
    activates: Option<String>,
}

fn timers(booted: bool, now: i64, ask: &dyn Fn() -> Option<String>) -> Option<Finding> {
    const TOPIC: &str = "systemd timers";
    // Otherwise systemd does not run, even if it is installed.
    if !booted {
        return None;
    }
    let unknown = || finding(TOPIC, State::Ok, "systemctl cannot list timers (version 249 can)", "");
    let Some(list) = ask().and_then(|text| serde_json::from_str::<Vec<Timer>>(&text).ok()) else {
        return Some(unknown());
    };
    let limit = now + i64::from(WITHIN_MINUTES) * 60;
    let mut due: Vec<(i64, String)> = list
        .into_iter()
        .filter_map(|timer| {
            let at = timer.next.map(|next| next / 1_000_000).filter(|at| (now..=limit).contains(at))?;
            let what = timer.activates.unwrap_or(timer.unit);
            Some((at, format!("{what} in {} min", (at - now) / 60)))
        })
        .collect();
    due.sort();
    let named: Vec<String> = due.into_iter().map(|(_, text)| text).collect();
    Some(tell(TOPIC, &named, "measure at another time, or stop them for the run (systemctl stop NAME.timer)"))
}

fn seconds_now() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec
}

fn local(seconds: i64) -> Minute {
    let broken = fsb_sys::local_time(seconds);
    Minute {
        minute: broken.tm_min as u32,
        hour: broken.tm_hour as u32,
        day: broken.tm_mday as u32,
        month: broken.tm_mon as u32 + 1,
        weekday: broken.tm_wday as u32,
    }
}

/// A minute of local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Minute {
    pub minute: u32,
    pub hour: u32,
    /// From 1.
    pub day: u32,
    /// From 1.
    pub month: u32,
    /// 0 is Sunday.
    pub weekday: u32,
}

/// A line of a table.
///
/// See crontab(5).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Job {
    minutes: Set,
    hours: Set,
    days: Set,
    months: Set,
    weekdays: Set,
    /// The command, without the user.
    pub command: String,
}

/// A set of allowed values, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Set {
    bits: u64,
    /// Whether it was written as `*`, which makes days and weekdays no restriction.
    any: bool,
}

impl Set {
    fn has(self, value: u32) -> bool {
        self.bits & (1 << value) != 0
    }
}

impl Job {
    /// Returns whether the job starts in this minute. If days and weekdays are both restricted, either suffices.
    pub(crate) fn runs_at(&self, now: Minute) -> bool {
        let (day, weekday) = (self.days.has(now.day), self.weekdays.has(now.weekday));
        let today = if self.days.any || self.weekdays.any { day && weekday } else { day || weekday };
        self.minutes.has(now.minute) && self.hours.has(now.hour) && self.months.has(now.month) && today
    }
}

/// Parses the jobs of a table. `user` is true if each line names a user, as in /etc/crontab. Skips lines that are not
/// jobs.
fn jobs(table: &str, user: bool) -> Vec<Job> {
    table.lines().map(str::trim).filter(|line| !line.starts_with('#')).filter_map(|line| job(line, user)).collect()
}

fn job(line: &str, user: bool) -> Option<Job> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let fields: Vec<&str> = match first {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        _ if first.starts_with('@') => return None,
        _ => "",
    }
    .split_whitespace()
    .collect();
    let fields =
        if fields.is_empty() { std::iter::once(first).chain(words.by_ref().take(4)).collect() } else { fields };
    let [minutes, hours, days, months, weekdays] = fields[..] else { return None };
    let mut weekdays = set(weekdays, 0, 7, "sun mon tue wed thu fri sat")?;
    // Sunday is 0 and 7.
    weekdays.bits |= weekdays.bits >> 7 & 1;
    if user {
        words.next()?;
    }
    let command = words.collect::<Vec<_>>().join(" ");
    let months = set(months, 1, 12, "- jan feb mar apr may jun jul aug sep oct nov dec")?;
    let (minutes, hours, days) = (set(minutes, 0, 59, "")?, set(hours, 0, 23, "")?, set(days, 1, 31, "")?);
    (!command.is_empty()).then_some(Job { minutes, hours, days, months, weekdays, command })
}

/// Parses `*`, `5`, `1-5`, `*/15`, `10-40/10`, names, and lists of these.
fn set(text: &str, least: u32, most: u32, names: &str) -> Option<Set> {
    let number = |text: &str| {
        let named = || names.split(' ').position(|name| name.eq_ignore_ascii_case(text)).map(|place| place as u32);
        text.parse().ok().or_else(named).filter(|number| (least..=most).contains(number))
    };
    let mut bits = 0u64;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (least, most),
            Some((first, last)) => (number(first)?, number(last)?),
            None if part.contains('/') => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        for value in (first..=last).step_by(step) {
            bits |= 1 << value;
        }
    }
    Some(Set { bits, any: text.starts_with('*') })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn jobs_of_all_tables_are_found_the_next_first() {
        let tree = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = tree.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("etc/crontab", "30 * * * * root updatedb\n0 3 * * * root later\n");
        write("etc/cron.d/backup", "20 15 * * * root /usr/local/bin/a-backup-with-a-name-that-is-far-too-long\n");
        write("var/spool/cron/crontabs/joe", "*/5 * * * * poll\n");
        let minutes: Vec<Minute> =
            (17..60).map(|minute| Minute { minute, hour: 15, day: 21, month: 11, weekday: 4 }).collect();
        let found = cron_jobs(tree.path(), true, &minutes);
        assert_eq!(found.state, State::Warning);
        assert_eq!(
            found.text,
            "within the hour: 15:20 '/usr/local/bin/a-backup-with-a-name-that…' (/etc/cron.d/backup), \
             15:20 'poll' (/var/spool/cron/crontabs/joe), 15:30 'updatedb' (/etc/crontab)"
        );
        assert_eq!(cron_jobs(tree.path(), false, &minutes).text, "no cron is running");
        assert_eq!(cron_jobs(Path::new("/nonexistent"), true, &minutes).state, State::Ok);
    }

    #[test]
    fn timers_are_read_as_systemctl_prints_them() {
        let text = r#"[{"next":1000600000000,"left":1,"last":null,"passed":0,"unit":"fstrim.timer","activates":"fstrim.service"},
            {"next":1009000000000,"unit":"logrotate.timer","activates":"logrotate.service"},
            {"next":null,"unit":"never.timer","activates":null}]"#;
        let found = timers(true, 1_000_000, &|| Some(text.to_owned())).unwrap();
        assert_eq!((found.state, found.text.as_str()), (State::Warning, "within the hour: fstrim.service in 10 min"));
        assert_eq!(timers(true, 5, &|| Some("[]".to_owned())).unwrap().state, State::Ok);
        assert!(timers(true, 5, &|| None).unwrap().text.contains("cannot list timers"));
        assert_eq!(timers(false, 5, &|| panic!("asked")), None);
    }

    #[test]
    fn now_is_a_minute() {
        let now = local(seconds_now());
        assert!(
            now.minute < 60 && now.hour < 24 && (1..=31).contains(&now.day) && (1..=12).contains(&now.month),
            "{now:?}"
        );
    }

    /// Thursday, 21 November, 15:17.
    const NOW: Minute = Minute { minute: 17, hour: 15, day: 21, month: 11, weekday: 4 };

    fn runs(line: &str) -> bool {
        job(line, false).unwrap_or_else(|| panic!("'{line}' is not a job")).runs_at(NOW)
    }

    #[test]
    fn times_are_read_as_cron_reads_them() {
        for line in [
            "17 * * * * x",
            "*/17 * * * * x",
            "2-59/5 15 * * * x",
            "1,17,50 9-17 * * mon-fri x",
            "17 15 21 11 * x",
            "17 15 * NOV 4 x",
            "17 15 1 * thu x",
            "* * * * * x",
            "17 15 21 * 0 x",
        ] {
            assert!(runs(line), "{line}");
        }
        for line in [
            "18 * * * * x",
            "17 3 * * * x",
            "17 15 * * 7 x",
            "17 15 1 * * x",
            "17 15 1 * fri x",
            "@hourly x",
            "@daily x",
        ] {
            assert!(!runs(line), "{line}");
        }
        assert!(job("0 0 * * 7 x", false).unwrap().runs_at(Minute { minute: 0, hour: 0, weekday: 0, ..NOW }));
    }

    #[test]
    fn tables_hold_more_than_jobs() {
        let table = "# m h dom mon dow user command\nSHELL=/bin/sh\n\n17 *\t* * *\troot    cd / && run-parts /etc/cron.hourly\n\
            @reboot root boot\n61 * * * * root never\n* * * * *\n";
        let found = jobs(table, true);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].command, "cd / && run-parts /etc/cron.hourly");
        assert_eq!(jobs("5 4 * * sun backup now", false)[0].command, "backup now");
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "[-0-9*/,@a-z ]{0,40}") {
            let _ = jobs(&line, true);
        }
    }
}
