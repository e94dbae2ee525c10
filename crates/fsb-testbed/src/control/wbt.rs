//! Writeback throttling: how much the device's queue delays background writes to keep reads fast.

use std::path::{Path, PathBuf};

use fsb_model::units::show_seconds;
use fsb_sys::error::{Refusal, TestbedError};
use fsb_sys::{Roots, read_trimmed};

use super::interface::{
    Context, Control, KEEP, Scope, Stop, TargetDevice, Value, device_settings, invalid,
    is_device_setting, parse,
};
use crate::declared::{OptionKind, OptionValue};
use crate::ledger::Action;

pub(super) struct Wbt;

/// The value that turns it off.
const OFF: &str = "off";

fn file(device: &Path) -> PathBuf {
    device.join("queue/wbt_lat_usec")
}

const VALUES: &[Value] = &[
    Value::word(KEEP, "unchanged (default)"),
    Value::word(OFF, "no throttling"),
    Value::form(
        "LATENCY",
        OptionKind::Time(1e-6..=10.0),
        "the latency of reads to keep, such as 2ms or 75ms",
    ),
];

/// Returns the latency in microseconds, as the kernel takes it. 0 is off.
fn micros_of(value: &str) -> Result<u64, Refusal> {
    match parse(VALUES, value)? {
        OptionValue::Time(latency) => Ok(latency.as_micros() as u64),
        _ if value == OFF => Ok(0),
        _ => Err("a latency is missing".into()),
    }
}

impl Control for Wbt {
    fn name(&self) -> &'static str {
        "wbt"
    }

    fn about(&self) -> &'static str {
        "Writeback throttling of the kernel on the target's device, in favour of reads."
    }

    fn scope(&self) -> Scope {
        Scope::Target
    }

    fn values(&self) -> &'static [Value] {
        VALUES
    }

    fn check(&self, value: &str, _: &Roots) -> Result<(), TestbedError> {
        if value == KEEP {
            return Ok(());
        }
        match micros_of(value) {
            Ok(_) => Ok(()),
            Err(why) => {
                Err(invalid("wbt", value, why).advice("write off, or a latency such as 75ms"))
            }
        }
    }

    fn probe(&self, _: &Roots) -> Result<(), Refusal> {
        device_settings()
    }

    fn apply(&self, value: &str, context: &mut Context<'_>) -> Result<String, Stop> {
        let asked = micros_of(value).map_err(Stop::Lacks)?.to_string();
        let device = context.place.device()?;
        let path = file(device);
        // A queue without throttling refuses the read.
        let before = read_trimmed(&path)
            .ok_or_else(|| Stop::Lacks("the device's queue throttles no writeback".into()))?;
        if before != asked {
            context.write_file(&path, &asked, &path, &before)?;
        }
        match read_trimmed(&path) {
            Some(now) if now == asked => Ok(value.to_owned()),
            now => Err(Stop::Lacks(
                format!("the kernel kept {} µs", now.unwrap_or_default()).into(),
            )),
        }
    }

    fn owns(&self, action: &Action, roots: &Roots) -> bool {
        is_device_setting(action, roots, file)
    }

    fn concerns_device(&self) -> bool {
        true
    }

    fn observe(&self, _: &Roots, place: &TargetDevice) -> String {
        match place.device() {
            Ok(device) => {
                match read_trimmed(&file(device)).and_then(|text| text.parse::<f64>().ok()) {
                    Some(0.0) => OFF.to_owned(),
                    Some(micros) => show_seconds(micros * 1e-6),
                    None => "none".to_owned(),
                }
            }
            Err(why) => why.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    #[test]
    fn it_is_turned_off_and_comes_back() {
        let bench = Bench::with_disk();
        bench.write("sys/devices/disk/queue/wbt_lat_usec", "75000");
        assert_eq!(Wbt.observe(&bench.roots, &bench.place), "75.0 ms");
        bench.set(&Wbt, "off", |applied, handles| {
            assert!(applied.effective, "{applied:?}");
            assert_eq!(bench.read("sys/devices/disk/queue/wbt_lat_usec"), "0");
            assert!(
                handles[0]
                    .action()
                    .to_string()
                    .starts_with("write '75000' back"),
                "{handles:?}"
            );
        });
        bench.set(&Wbt, "2ms", |_, _| {
            assert_eq!(bench.read("sys/devices/disk/queue/wbt_lat_usec"), "2000")
        });
    }

    #[test]
    fn values_that_are_no_latency_are_refused() {
        let bench = Bench::new();
        for bad in ["on", "-1", "0ms", "11s", ""] {
            let refused = Wbt.check(bad, &bench.roots).unwrap_err();
            assert_eq!(refused.kind, crate::Kind::Request, "{bad}");
        }
        for good in ["keep", "off", "2ms", "1s"] {
            Wbt.check(good, &bench.roots).unwrap();
        }
    }

    #[test]
    fn a_queue_without_it_says_so() {
        let bench = Bench::with_disk();
        bench.set(&Wbt, "off", |applied, _| {
            assert!(
                !applied.effective && applied.observed.contains("throttles no writeback"),
                "{applied:?}"
            );
        });
        assert_eq!(Wbt.observe(&bench.roots, &bench.place), "none");
    }
}
