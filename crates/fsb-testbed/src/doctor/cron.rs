//! Cron's tables: which jobs run at a given minute (crontab(5)).

/// A minute of local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Minute {
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    minutes: Set,
    hours: Set,
    days: Set,
    months: Set,
    weekdays: Set,
    /// What it runs, without the user.
    pub command: String,
}

/// Allowed values, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Set {
    bits: u64,
    /// Written as `*`: days and weekdays are then no restriction.
    any: bool,
}

impl Set {
    fn has(self, value: u32) -> bool {
        self.bits & (1 << value) != 0
    }
}

impl Job {
    /// Whether it starts in this minute. Where both days are restricted either is enough.
    pub(crate) fn runs_at(&self, now: Minute) -> bool {
        let (day, weekday) = (self.days.has(now.day), self.weekdays.has(now.weekday));
        let today = if self.days.any || self.weekdays.any { day && weekday } else { day || weekday };
        self.minutes.has(now.minute) && self.hours.has(now.hour) && self.months.has(now.month) && today
    }
}

/// The jobs of a table. `user` says whether each line names one, as in /etc/crontab. Lines that are none are left out.
pub(super) fn jobs(table: &str, user: bool) -> Vec<Job> {
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

/// `*`, `5`, `1-5`, `*/15`, `10-40/10`, names, and lists of these.
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
    use super::*;
    use proptest::prelude::*;

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
