//! The size of the cache of ZFS (ARC), which is neither in the page cache nor in a cgroup.
//!
//! The module takes 0 for its own default only when it is loaded: written later, 0 leaves the limit
//! in force. The way back therefore writes the earlier limit before the earlier parameter.

use std::path::PathBuf;

use fsb_model::units::show_bytes;
use fsb_sys::error::Refusal;
use fsb_sys::{Roots, read_trimmed};

use super::interface::{Context, Control, KEEP, Scope, Stop, TargetDevice, Value, parse, writable};
use crate::declared::{OptionKind, OptionValue};
use crate::ledger::Action;

pub(super) struct ArcLimit;

/// The name of the control, for code that reads its value.
pub(crate) const ARC_LIMIT: &str = "arc-limit";

/// The smallest limit that the module accepts (MIN_ARC_MAX).
const LEAST: u64 = 64 << 20;

const LACKING: &str = "the module zfs is not loaded";

const VALUES: &[Value] = &[
    Value::word(KEEP, "unchanged (default)"),
    Value::form(
        "SIZE",
        OptionKind::Size(LEAST..=u64::MAX),
        "a size, such as 256M",
    ),
];

fn parameter(roots: &Roots) -> PathBuf {
    roots.sys.join("module/zfs/parameters/zfs_arc_max")
}

/// Returns the limit in force, in bytes.
fn in_force(roots: &Roots) -> Option<u64> {
    c_max(&roots.proc_text("spl/kstat/zfs/arcstats")?)
}

/// Parses the limit in the statistics of the cache: name, type, value.
fn c_max(text: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    let mut words = lines.find(|words| words.clone().next() == Some("c_max"))?;
    words.nth(2)?.parse().ok()
}

impl Control for ArcLimit {
    fn name(&self) -> &'static str {
        ARC_LIMIT
    }

    fn about(&self) -> &'static str {
        "Memory that the cache of ZFS may use."
    }

    fn scope(&self) -> Scope {
        Scope::Run
    }

    fn values(&self) -> &'static [Value] {
        VALUES
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        let path = parameter(roots);
        if !path.exists() {
            return Err(LACKING.into());
        }
        writable(&path)
    }

    fn apply(&self, value: &str, context: &mut Context<'_>) -> Result<String, Stop> {
        let OptionValue::Number(bytes) = parse(VALUES, value)? else {
            return Err(Stop::Lacks("a size is missing".into()));
        };
        let (path, roots) = (parameter(context.roots), context.roots);
        let (Some(back), Some(limit)) = (read_trimmed(&path), in_force(roots)) else {
            return Err(Stop::Lacks(LACKING.into()));
        };
        context.record(Action::WriteFile {
            path: path.clone(),
            value: back,
        })?;
        context.write_file(&path, &bytes.to_string(), &path, &limit.to_string())?;
        match in_force(roots) {
            Some(now) if now == bytes => Ok(self.observe(roots, context.place)),
            now => Err(Stop::Lacks(
                format!("the module keeps {now:?} instead of {bytes}").into(),
            )),
        }
    }

    fn owns(&self, action: &Action, roots: &Roots) -> bool {
        action.written() == Some(parameter(roots).as_path())
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        in_force(roots).map_or_else(|| LACKING.to_owned(), |bytes| show_bytes(bytes as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    const STATS: &str =
        "13 1 0x01 147 39984 17 100\nname type data\nhits 4 12\nc_max 4 268435456\n";
    const FILE: &str = "sys/module/zfs/parameters/zfs_arc_max";

    /// The statistics of a bench never change, so the control takes what they hold already.
    #[test]
    fn the_earlier_limit_is_written_before_the_earlier_parameter() {
        let bench = Bench::new();
        bench.write(FILE, "0");
        bench.write("proc/spl/kstat/zfs/arcstats", STATS);
        bench.set(&ArcLimit, "256M", |applied, handles| {
            assert_eq!(bench.read(FILE), "268435456");
            assert!(applied.effective, "{applied:?}");
            assert_eq!(applied.observed, "256 MiB");
            let back = |place: usize| handles[place].action().to_string();
            assert!(back(0).starts_with("write '0' back"), "{}", back(0));
            assert!(back(1).starts_with("write '268435456' back"), "{}", back(1));
        });
        assert_eq!(bench.read(FILE), "0");
    }

    #[test]
    fn a_limit_that_the_module_ignores_is_not_in_force() {
        let bench = Bench::new();
        bench.write(FILE, "0");
        bench.write("proc/spl/kstat/zfs/arcstats", STATS);
        bench.set(&ArcLimit, "128M", |applied, _| {
            assert!(
                !applied.effective && applied.warnings.len() == 1,
                "{applied:?}"
            );
        });
        assert_eq!(bench.read(FILE), "0");
    }

    #[test]
    fn without_the_module_it_is_not_available() {
        let bench = Bench::new();
        bench.set(&ArcLimit, "128M", |applied, handles| {
            assert!(!applied.effective && handles.is_empty());
        });
        assert!(ArcLimit.check("1M", &bench.roots).is_err());
        assert_eq!(c_max(STATS), Some(256 << 20));
        assert_eq!(c_max("c_max 4\n"), None);
    }
}
