//! Acknowledged slowdowns: a TOML file with those that a gate lets pass, up to an amount and a day.
//!
//! ```toml
//! [[acknowledged]]
//! case = "write 1M, *"
//! target = "new"
//! up_to = "5%"
//! until = "2026-12-31"
//! reason = "checksums are on by default"
//! ```

use fsb_model::units::parse_percent;
use fsb_report::check::{Check, CheckOutcome};
use fsb_report::show::{percent, percent_above};
use glob::Pattern;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserialize;

/// The largest file of acknowledgements in bytes.
pub const LARGEST: u64 = 1 << 20;

/// The acknowledgements of a file.
#[derive(Debug, Default)]
pub struct Acknowledgements(Vec<Acknowledgement>);

/// A slowdown that passes.
#[derive(Debug)]
struct Acknowledgement {
    case: Name,
    /// The target or set; `None` for all.
    target: Option<Name>,
    /// The largest slowdown that passes, 0.05 for 5 %.
    up_to: f64,
    /// The last day.
    until: Date,
    reason: String,
}

/// The label of a case or the name of a target, or a pattern of such names.
#[derive(Debug)]
struct Name {
    text: String,
    pattern: Option<Pattern>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TomlFile {
    #[serde(default)]
    acknowledged: Vec<TomlEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TomlEntry {
    case: String,
    target: Option<String>,
    up_to: String,
    until: String,
    reason: String,
}

/// The effect of acknowledgements on the checks of a gate.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Slowdowns that pass, each with the last day and the reason.
    pub passed: Vec<String>,
    /// Slowdowns that do not pass although an entry names them: it expired, or they are larger.
    pub refused: Vec<String>,
    /// Entries that name no case of the comparison.
    pub unused: Vec<String>,
}

impl Applied {
    /// Returns the lists that are not empty: the name of the field in messages, words, and cases.
    pub fn parts(&self) -> Vec<(&'static str, &'static str, &[String])> {
        let mut parts = vec![
            ("acknowledged", "acknowledged", self.passed.as_slice()),
            ("not_acknowledged", "not acknowledged", &self.refused),
            (
                "unused",
                "acknowledged cases that are not compared",
                &self.unused,
            ),
        ];
        parts.retain(|(_, _, cases)| !cases.is_empty());
        parts
    }
}

/// Returns the day in UTC, on which entries are still valid.
pub fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

impl Name {
    /// Reads a name. A label that cannot be a pattern names only itself.
    fn new(text: String) -> Name {
        Name {
            pattern: Pattern::new(&text).ok(),
            text,
        }
    }

    fn is(&self, name: &str) -> bool {
        let pattern = self.pattern.as_ref();
        self.text == name || pattern.is_some_and(|pattern| pattern.matches(name))
    }
}

impl Acknowledgements {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The entry or the line that is wrong, and why.
    pub fn parse(text: &str) -> Result<Acknowledgements, String> {
        let file: TomlFile = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut all = Vec::new();
        for (number, entry) in (1..).zip(file.acknowledged) {
            let wrong = |why: String| format!("entry {number} ({}): {why}", entry.case);
            let up_to =
                parse_percent(&entry.up_to).map_err(|error| wrong(format!("up_to: {error}")))?;
            let until = entry.until.parse::<Date>().map_err(|_| {
                wrong(format!(
                    "until: '{}' is not a day: write 2026-12-31",
                    entry.until
                ))
            })?;
            if entry.reason.trim().is_empty() {
                return Err(wrong("reason: it is empty".to_owned()));
            }
            all.push(Acknowledgement {
                case: Name::new(entry.case),
                target: entry.target.map(Name::new),
                up_to,
                until,
                reason: entry.reason,
            });
        }
        Ok(Acknowledgements(all))
    }

    /// Lets acknowledged slowdowns pass that are certainly not larger than their entries permit. An
    /// entry counts up to its last day, which is compared with `today`.
    pub fn apply(&self, checks: &mut [Check], today: Date) -> Applied {
        let mut applied = Applied::default();
        for check in checks.iter_mut() {
            let Some(up_to) = check.up_to.filter(|_| !check.outcome.passes()) else {
                continue;
            };
            let named = self.0.iter().filter(|entry| entry.names(check));
            let mut refused = Vec::new();
            for entry in named {
                match entry.refusal(up_to, today) {
                    Some(why) => refused.push(why),
                    None => {
                        let name = format!("{} at {}", check.candidate, check.case);
                        let Acknowledgement { until, reason, .. } = entry;
                        check.outcome = CheckOutcome::Acknowledged;
                        check.text =
                            format!("acknowledged until {until}, {reason}: {}", check.text);
                        applied
                            .passed
                            .push(format!("{name} until {until}, {reason}"));
                        refused.clear();
                        break;
                    }
                }
            }
            if !refused.is_empty() {
                let why = refused.join(" and ");
                let name = format!("{} at {}", check.candidate, check.case);
                check.text = format!("{}; {why}", check.text);
                applied.refused.push(format!("{name}: {why}"));
            }
        }
        for entry in &self.0 {
            if !checks.iter().any(|check| entry.names(check)) {
                applied.unused.push(entry.case.text.clone());
            }
        }
        applied
    }
}

impl Acknowledgement {
    fn names(&self, check: &Check) -> bool {
        let target = self.target.as_ref();
        self.case.is(&check.case) && target.is_none_or(|target| target.is(&check.candidate))
    }

    /// Returns the reason why a slowdown of up to this amount does not pass.
    fn refusal(&self, up_to: f64, today: Date) -> Option<String> {
        if today > self.until {
            return Some(format!("its acknowledgement expired on {}", self.until));
        }
        (up_to > self.up_to * (1.0 + 1e-9)).then(|| {
            format!(
                "it may be slower by up to {}, and {} is acknowledged",
                percent_above(up_to),
                percent(self.up_to)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use fsb_stats::Interval;

    use super::*;

    const ENTRY: &str = "[[acknowledged]]\ncase = 'write*'\ntarget = 'new'\nup_to = '5%'\nuntil = '2026-12-31'\n\
                         reason = 'checksums'\n";

    fn check(case: &str, outcome: CheckOutcome, up_to: f64) -> Check {
        let text = format!("new is slower at {case}");
        Check {
            ratio: Some((0.97, Interval { lo: 0.96, hi: 0.98 })),
            up_to: Some(up_to),
            ..Check::without_ratio([case, "new", "old"], outcome, text)
        }
    }

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn a_slowdown_passes_up_to_its_amount_and_day() {
        let all = Acknowledgements::parse(ENTRY).unwrap();
        let outcome = |case: &str, outcome, up_to, today: &str| {
            let mut checks = [check(case, outcome, up_to)];
            let applied = all.apply(&mut checks, day(today));
            let [check] = checks;
            (check.outcome, applied)
        };
        let slower = CheckOutcome::Slower;
        let (passed, applied) = outcome("write 1M", slower, 0.05, "2026-12-31");
        assert_eq!(passed, CheckOutcome::Acknowledged);
        assert_eq!(
            applied.passed,
            ["new at write 1M until 2026-12-31, checksums"]
        );
        let (open, _) = outcome("write 1M", CheckOutcome::CannotTell, 0.04, "2026-12-31");
        assert_eq!(open, CheckOutcome::Acknowledged);
        let (late, applied) = outcome("write 1M", slower, 0.05, "2027-01-01");
        assert_eq!((late, applied.passed.len()), (slower, 0));
        assert!(
            applied.refused[0].contains("expired on 2026-12-31"),
            "{applied:?}"
        );
        let (large, applied) = outcome("write 1M", slower, 0.06, "2026-12-31");
        assert_eq!(large, slower);
        assert!(
            applied.refused[0].contains("up to 6 %, and 5 % is acknowledged"),
            "{applied:?}"
        );
        let (other, applied) = outcome("read 1M", slower, 0.04, "2026-12-31");
        assert_eq!((other, applied.unused), (slower, vec!["write*".to_owned()]));
    }

    #[test]
    fn a_later_entry_counts_if_the_first_expired() {
        let later = ENTRY.replace("2026-12-31", "2027-12-31");
        let all = Acknowledgements::parse(&format!("{ENTRY}{later}")).unwrap();
        let mut checks = [check("write", CheckOutcome::Slower, 0.04)];
        let applied = all.apply(&mut checks, day("2027-06-01"));
        assert_eq!(checks[0].outcome, CheckOutcome::Acknowledged);
        assert!(applied.refused.is_empty(), "{applied:?}");
    }

    #[test]
    fn wrong_files_are_refused_with_the_place() {
        for (from, to, expected) in [
            ("'5%'", "'much'", "entry 1 (write*): up_to: "),
            (
                "'2026-12-31'",
                "'2026-13-31'",
                "until: '2026-13-31' is not a day",
            ),
            ("'checksums'", "' '", "reason: it is empty"),
            ("until", "untill", "untill"),
            ("reason = 'checksums'", "", "reason"),
            ("[[acknowledged]]", "[[acknowledge]]", "acknowledge"),
        ] {
            let error = Acknowledgements::parse(&ENTRY.replace(from, to)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Acknowledgements::parse("").unwrap().0.is_empty());
    }
}
