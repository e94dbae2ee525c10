//! The scheduler of the device's queue.

use std::path::{Path, PathBuf};

use fsb_model::nearest;
use fsb_sys::error::{Refusal, TestbedError};
use fsb_sys::{Roots, read_trimmed};

use super::interface::{
    Context, Control, KEEP, Scope, Stop, TargetDevice, Value, device_settings, is_device_setting,
    numbered,
};
use crate::declared::OptionKind;
use crate::ledger::Action;

pub(super) struct Scheduler;

fn file(device: &Path) -> PathBuf {
    device.join("queue/scheduler")
}

/// Parses `none [mq-deadline] kyber` into the names and the name in brackets.
fn parse(text: &str) -> (Vec<&str>, Option<&str>) {
    fn inner(word: &'_ str) -> bool {
        word.strip_prefix('[')
            .and_then(|word| word.strip_suffix(']'))
            .is_some()
    }
    let current = text
        .split_whitespace()
        .find(|word| inner(word))
        .map(|word| &word[1..word.len() - 1]);
    (
        text.split_whitespace()
            .map(|word| word.trim_matches(['[', ']']))
            .collect(),
        current,
    )
}

/// Returns any loop device. The loop devices of images will support the same schedulers.
fn some_loop(roots: &Roots) -> Option<PathBuf> {
    numbered(&roots.sys.join("block"), "loop")
        .into_iter()
        .find(|device| file(device).exists())
}

impl Control for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn about(&self) -> &'static str {
        "I/O scheduler of the target's device."
    }

    fn scope(&self) -> Scope {
        Scope::Target
    }

    fn values(&self) -> &'static [Value] {
        const {
            &[
                Value::word(KEEP, "unchanged (default)"),
                Value::word("none", "first in, first out"),
                Value::form(
                    "SCHEDULER",
                    OptionKind::Text("name of a scheduler"),
                    "any scheduler of the device: mq-deadline, kyber, bfq",
                ),
            ]
        }
    }

    fn check(&self, value: &str, _: &Roots) -> Result<(), TestbedError> {
        if !value.is_empty()
            && value
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c))
        {
            return Ok(());
        }
        Err(
            TestbedError::request(format!("'{value}' is not a name of a scheduler"))
                .coded(&fsb_model::error::CONTROL_VALUE)
                .advice("choose a scheduler of the device, such as mq-deadline"),
        )
    }

    fn check_place(
        &self,
        value: &str,
        place: &TargetDevice,
        roots: &Roots,
    ) -> Result<(), TestbedError> {
        let device = place
            .device
            .clone()
            .or_else(|| some_loop(roots).filter(|_| place.is_image));
        let Some(text) = device.and_then(|device| read_trimmed(&file(&device))) else {
            return Ok(());
        };
        let mut known = parse(&text).0;
        if value == KEEP || known.contains(&value) {
            return Ok(());
        }
        known.push(KEEP);
        Err(
            TestbedError::request(nearest::unknown("scheduler", value, known.iter().copied()))
                .coded(&fsb_model::error::CONTROL_VALUE)
                .advice("the device has no other scheduler; load its module first if it is one"),
        )
    }

    fn probe(&self, _: &Roots) -> Result<(), Refusal> {
        device_settings()
    }

    fn apply(&self, value: &str, context: &mut Context<'_>) -> Result<String, Stop> {
        let device = context.place.device()?;
        let path = file(device);
        let text =
            read_trimmed(&path).ok_or_else(|| Stop::Lacks("the device has no queue".into()))?;
        let Some(before) = parse(&text).1 else {
            return Err(Stop::Lacks(format!("it has no scheduler: {text}").into()));
        };
        if before != value {
            context.write_file(&path, value, &path, before)?;
        }
        match read_trimmed(&path) {
            Some(text) if parse(&text).1 == Some(value) => Ok(value.to_owned()),
            now => Err(Stop::Lacks(
                format!("the kernel kept {}", now.unwrap_or_default()).into(),
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
            Ok(device) => match read_trimmed(&file(device)) {
                Some(text) => parse(&text).1.unwrap_or(&text).to_owned(),
                None => "the device has no queue".to_owned(),
            },
            Err(why) => why.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    #[test]
    fn the_one_in_brackets_comes_back() {
        assert_eq!(
            parse("none [mq-deadline] kyber"),
            (vec!["none", "mq-deadline", "kyber"], Some("mq-deadline"))
        );
        assert_eq!(parse("none"), (vec!["none"], None));
        let bench = Bench::with_disk();
        bench.write(
            "sys/devices/disk/queue/scheduler",
            "none [mq-deadline] kyber",
        );
        bench.set(&Scheduler, "none", |_, handles| {
            assert_eq!(bench.read("sys/devices/disk/queue/scheduler"), "none");
            assert!(
                handles[0]
                    .action()
                    .to_string()
                    .starts_with("write 'mq-deadline' back"),
                "{handles:?}"
            );
        });
    }

    #[test]
    fn schedulers_unknown_to_the_device_are_refused() {
        let bench = Bench::with_disk();
        bench.write(
            "sys/devices/disk/queue/scheduler",
            "none [mq-deadline] kyber",
        );
        let refused = Scheduler
            .check_place("cfq", &bench.place, &bench.roots)
            .unwrap_err();
        assert_eq!(refused.kind, crate::Kind::Request);
        assert!(
            refused.to_string().contains("none, mq-deadline, kyber"),
            "{refused}"
        );
        Scheduler
            .check_place("kyber", &bench.place, &bench.roots)
            .unwrap();
        bench.write("sys/block/loop0/queue/scheduler", "[none]");
        let image = TargetDevice {
            is_image: true,
            ..TargetDevice::default()
        };
        assert!(
            Scheduler
                .check_place("kyber", &image, &bench.roots)
                .is_err()
        );
        Scheduler
            .check_place("kyber", &TargetDevice::default(), &bench.roots)
            .unwrap();
    }

    #[test]
    fn a_target_without_a_device_is_said() {
        let bench = Bench::new();
        bench.set(&Scheduler, "none", |applied, _| {
            assert!(
                !applied.effective && applied.observed.starts_with("not available"),
                "{applied:?}"
            );
        });
    }
}
