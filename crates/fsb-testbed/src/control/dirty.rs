//! The sysctls `vm.dirty_*`, which decide when the kernel writes dirty pages back. Each is a
//! control.
//!
//! In the kernel, a ratio and its byte count exclude each other: writing one sets the other to 0.
//! The undo entry therefore always writes back the one that was in force.

use std::path::PathBuf;

use fsb_model::units::{show_bytes, show_seconds};
use fsb_sys::error::{Refusal, TestbedError};
use fsb_sys::{Roots, read_trimmed};

use super::interface::{
    Context, Control, KEEP, Scope, Stop, TargetDevice, Value, invalid, parse, writable,
};
use crate::declared::{OptionKind, OptionValue};
use crate::ledger::Action;

/// One of the sysctls.
pub(super) struct Dirty {
    name: &'static str,
    about: &'static str,
    values: &'static [Value],
    file: &'static str,
    kind: LimitKind,
}

/// The unit of a sysctl, and the sysctl that excludes it.
enum LimitKind {
    /// Percent of available memory. `bytes` is the file of the byte count that replaces it;
    /// `excludes` is the control of that file.
    Ratio {
        bytes: &'static str,
        excludes: &'static str,
    },
    /// Bytes. `ratio` is the file of the ratio that it replaces, `excludes` the control of that
    /// file, and `pages` the smallest number of pages that the kernel accepts.
    Bytes {
        ratio: &'static str,
        excludes: &'static str,
        pages: u64,
    },
    /// Hundredths of a second.
    Time,
}

/// The largest time that the kernel accepts, in seconds: it stores hundredths in a signed 32-bit
/// number.
const LONGEST: f64 = i32::MAX as f64 / 100.0;

const RATIO: &[Value] = &[
    Value::word(KEEP, "unchanged (default)"),
    Value::form(
        "PERCENT",
        OptionKind::WholePercent,
        "percent of the memory that is available, such as 20%",
    ),
];
const BYTES: &[Value] = &[
    Value::word(KEEP, "unchanged (default)"),
    Value::form(
        "SIZE",
        OptionKind::Size(0..=u64::MAX),
        "a size, such as 256M; replaces the ratio",
    ),
];
const TIME: &[Value] = &[
    Value::word(KEEP, "unchanged (default)"),
    Value::form(
        "TIME",
        OptionKind::Time(0.0..=LONGEST),
        "a time, such as 5s or 500ms",
    ),
];

pub(super) static DIRTY_RATIO: Dirty = Dirty {
    name: "dirty-ratio",
    about: "Share of memory that may be dirty before writers must write back themselves.",
    values: RATIO,
    file: "dirty_ratio",
    kind: LimitKind::Ratio {
        bytes: "dirty_bytes",
        excludes: "dirty-bytes",
    },
};

pub(super) static DIRTY_BYTES: Dirty = Dirty {
    name: "dirty-bytes",
    about: "Bytes that may be dirty before writers must write back themselves.",
    values: BYTES,
    file: "dirty_bytes",
    kind: LimitKind::Bytes {
        ratio: "dirty_ratio",
        excludes: "dirty-ratio",
        pages: 2,
    },
};

pub(super) static DIRTY_BACKGROUND_RATIO: Dirty = Dirty {
    name: "dirty-background-ratio",
    about: "Share of memory that may be dirty before the kernel writes back in the background.",
    values: RATIO,
    file: "dirty_background_ratio",
    kind: LimitKind::Ratio {
        bytes: "dirty_background_bytes",
        excludes: "dirty-background-bytes",
    },
};

pub(super) static DIRTY_BACKGROUND_BYTES: Dirty = Dirty {
    name: "dirty-background-bytes",
    about: "Bytes that may be dirty before the kernel writes back in the background.",
    values: BYTES,
    file: "dirty_background_bytes",
    kind: LimitKind::Bytes {
        ratio: "dirty_background_ratio",
        excludes: "dirty-background-ratio",
        pages: 1,
    },
};

pub(super) static DIRTY_EXPIRE: Dirty = Dirty {
    name: "dirty-expire",
    about: "Age at which the kernel writes dirty pages back.",
    values: TIME,
    file: "dirty_expire_centisecs",
    kind: LimitKind::Time,
};

pub(super) static DIRTY_WRITEBACK: Dirty = Dirty {
    name: "dirty-writeback",
    about: "Interval at which the kernel looks for pages to write back; 0s for never.",
    values: TIME,
    file: "dirty_writeback_centisecs",
    kind: LimitKind::Time,
};

fn path(roots: &Roots, file: &str) -> PathBuf {
    roots.proc.join("sys/vm").join(file)
}

fn number(roots: &Roots, file: &str) -> Option<u64> {
    read_trimmed(&path(roots, file))?.parse().ok()
}

impl Dirty {
    /// Returns the number to write into the kernel's file, or the reason why the value is invalid.
    fn parse(&self, value: &str) -> Result<u64, Refusal> {
        match (&self.kind, parse(self.values, value)?) {
            (LimitKind::Bytes { pages, .. }, OptionValue::Number(bytes)) => {
                let least = pages * rustix::param::page_size() as u64;
                if bytes < least {
                    Err(format!("the kernel accepts {least} bytes or more").into())
                } else {
                    Ok(bytes)
                }
            }
            (_, OptionValue::Number(percent)) => Ok(percent),
            (_, OptionValue::Time(time)) => {
                let centiseconds = time.as_secs_f64() * 100.0;
                if (centiseconds - centiseconds.round()).abs() > 1e-6 {
                    return Err("the kernel counts in steps of 10 ms".into());
                }
                Ok(centiseconds.round() as u64)
            }
            _ => Err("a value is missing".into()),
        }
    }

    /// Returns the file that is in force: this one, or the one that it replaces.
    fn in_force(&self, roots: &Roots) -> &'static str {
        let (ratio, bytes) = match self.kind {
            LimitKind::Ratio { bytes, .. } => (self.file, bytes),
            LimitKind::Bytes { ratio, .. } => (ratio, self.file),
            LimitKind::Time => return self.file,
        };
        if number(roots, bytes).is_some_and(|bytes| bytes > 0) {
            bytes
        } else {
            ratio
        }
    }

    fn show(&self, number: u64) -> String {
        match self.kind {
            LimitKind::Ratio { .. } => format!("{number} % of available memory"),
            LimitKind::Bytes { .. } => show_bytes(number as f64),
            LimitKind::Time if number == 0 => "0 s".to_owned(),
            LimitKind::Time => show_seconds(number as f64 / 100.0),
        }
    }
}

impl Control for Dirty {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn scope(&self) -> Scope {
        Scope::Run
    }

    fn values(&self) -> &'static [Value] {
        self.values
    }

    fn check(&self, value: &str, _: &Roots) -> Result<(), TestbedError> {
        if value == KEEP {
            return Ok(());
        }
        match self.parse(value) {
            Ok(_) => Ok(()),
            Err(why) => Err(invalid(self.name, value, why)
                .advice("or use keep, which leaves the setting unchanged")),
        }
    }

    fn excludes(&self) -> Option<&'static str> {
        match self.kind {
            LimitKind::Ratio { excludes, .. } | LimitKind::Bytes { excludes, .. } => Some(excludes),
            LimitKind::Time => None,
        }
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        writable(&path(roots, self.file))
    }

    fn apply(&self, value: &str, context: &mut Context<'_>) -> Result<String, Stop> {
        let wanted = self.parse(value)?;
        let roots = context.roots;
        let own = path(roots, self.file);
        let in_force = self.in_force(roots);
        let back = number(roots, in_force).ok_or_else(|| {
            Stop::Lacks(format!("{} cannot be read", path(roots, in_force).display()).into())
        })?;
        if in_force != self.file || back != wanted {
            context.write_file(
                &own,
                &wanted.to_string(),
                &path(roots, in_force),
                &back.to_string(),
            )?;
        }
        // If 0 is written over 0, the kernel sees no change and the other file stays in force.
        let in_force = wanted > 0 || self.in_force(roots) == self.file;
        match number(roots, self.file) {
            Some(now) if now == wanted && in_force => Ok(self.observe(roots, context.place)),
            now => Err(Stop::Lacks(
                format!("the kernel stored {now:?} instead of {wanted}").into(),
            )),
        }
    }

    fn owns(&self, action: &Action, roots: &Roots) -> bool {
        let other = match self.kind {
            LimitKind::Ratio { bytes: other, .. } | LimitKind::Bytes { ratio: other, .. } => other,
            LimitKind::Time => self.file,
        };
        action.written().is_some_and(|written| {
            [self.file, other]
                .map(|file| path(roots, file))
                .contains(&written.into())
        })
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        let in_force = self.in_force(roots);
        match number(roots, self.file) {
            None => format!("{} cannot be read", path(roots, self.file).display()),
            Some(_) if in_force != self.file => format!("not in force: {in_force} is"),
            Some(number) => self.show(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    /// Builds a pair of files. Unlike in the kernel, writing one does not clear the other here, so
    /// the test reads the recorded entry.
    fn bench(ratio: &str, bytes: &str) -> Bench {
        let bench = Bench::new();
        bench.write("proc/sys/vm/dirty_ratio", ratio);
        bench.write("proc/sys/vm/dirty_bytes", bytes);
        bench.write("proc/sys/vm/dirty_expire_centisecs", "3000");
        bench
    }

    #[test]
    fn the_one_that_was_in_force_comes_back() {
        for (ratio, bytes, control, value, file, restored) in [
            (
                "20",
                "0",
                &DIRTY_RATIO,
                "40%",
                "dirty_ratio",
                "write '20' back to",
            ),
            (
                "20",
                "0",
                &DIRTY_BYTES,
                "256M",
                "dirty_bytes",
                "write '20' back to",
            ),
            (
                "0",
                "8388608",
                &DIRTY_BYTES,
                "256M",
                "dirty_bytes",
                "write '8388608' back to",
            ),
            (
                "0",
                "8388608",
                &DIRTY_RATIO,
                "40%",
                "dirty_ratio",
                "write '8388608' back to",
            ),
        ] {
            let bench = bench(ratio, bytes);
            bench.set(control, value, |applied, handles| {
                let wanted = if file == "dirty_ratio" {
                    "40"
                } else {
                    "268435456"
                };
                assert_eq!(bench.read(&format!("proc/sys/vm/{file}")), wanted);
                // In a fixture the old byte count stays in force beside a new ratio.
                assert!(applied.effective, "{applied:?}");
                let in_force = if bytes == "0" {
                    "dirty_ratio"
                } else {
                    "dirty_bytes"
                };
                let way_back = handles[0].action().to_string();
                assert!(
                    way_back.starts_with(restored) && way_back.ends_with(in_force),
                    "{way_back}"
                );
            });
        }
    }

    #[test]
    fn times_are_in_hundredths_of_a_second() {
        let bench = bench("20", "0");
        bench.set(&DIRTY_EXPIRE, "500ms", |applied, _| {
            assert_eq!(bench.read("proc/sys/vm/dirty_expire_centisecs"), "50");
            assert_eq!(applied.observed, "500 ms");
        });
        assert_eq!(bench.read("proc/sys/vm/dirty_expire_centisecs"), "3000");
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let roots = Roots::default();
        for (control, value, word) in [
            (&DIRTY_RATIO, "101%", "between 0% and 100%"),
            (&DIRTY_RATIO, "2.5%", "whole percentage"),
            (&DIRTY_BYTES, "4096", "bytes or more"),
            (&DIRTY_BYTES, "much", "'much'"),
            (&DIRTY_EXPIRE, "5ms", "10 ms"),
            (&DIRTY_EXPIRE, "1000000h", "248 days"),
        ] {
            let refused = control.check(value, &roots).unwrap_err();
            assert_eq!(refused.kind, crate::Kind::Request);
            assert!(refused.to_string().contains(word), "{refused}");
        }
        for (control, value) in [
            (&DIRTY_RATIO, "0"),
            (&DIRTY_WRITEBACK, "0s"),
            (&DIRTY_BYTES, "1G"),
        ] {
            control.check(value, &roots).unwrap();
        }
    }

    #[test]
    fn ratio_and_bytes_exclude_each_other() {
        let asked = |pairs: [(&str, &str); 2]| {
            let asked = pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
            crate::control::check(&asked, &Roots::default())
        };
        assert!(asked([("dirty-ratio", "10%"), ("dirty-bytes", "1G")]).is_err());
        assert!(asked([("dirty-ratio", "10%"), ("dirty-bytes", "keep")]).is_ok());
        assert!(asked([("dirty-ratio", "10%"), ("dirty-background-bytes", "1G")]).is_ok());
    }

    #[test]
    fn a_kernel_without_it_is_said() {
        let bench = Bench::new();
        bench.set(&DIRTY_RATIO, "40%", |applied, handles| {
            assert!(!applied.effective && handles.is_empty());
            assert!(applied.observed.starts_with("not available"), "{applied:?}");
            assert_eq!(applied.warnings.len(), 1);
        });
    }
}
