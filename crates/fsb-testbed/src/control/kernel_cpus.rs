//! The processors of the kernel's unbound workers: those of loop devices, of writeback, of btrfs.

use std::path::PathBuf;

use fsb_sys::error::{Refusal, TestbedError};
use fsb_sys::{Roots, read_trimmed};

use super::cpus;
use super::interface::{Context, Control, KEEP, Scope, Stop, TargetDevice, Value, writable};
use crate::declared::OptionKind;
use crate::ledger::Action;

pub(super) struct KernelCpus;

const NAME: &str = "kernel-cpus";
/// The path below /sys. Existing workers follow a change, too.
const MASK: &str = "devices/virtual/workqueue/cpumask";

fn path(roots: &Roots) -> PathBuf {
    roots.sys.join(MASK)
}

/// Parses a processor mask as the kernel writes it: hexadecimal words of 32 bits, the highest
/// first.
fn parse_mask(text: &str) -> Option<Vec<u32>> {
    let words: Option<Vec<u32>> = text
        .trim()
        .rsplit(',')
        .map(|word| u32::from_str_radix(word, 16).ok())
        .collect();
    Some(
        words?
            .into_iter()
            .enumerate()
            .flat_map(|(at, word): (usize, u32)| {
                (0..32)
                    .filter(move |bit| word >> bit & 1 == 1)
                    .map(move |bit| at as u32 * 32 + bit)
            })
            .collect(),
    )
}

fn show_mask(processors: &[u32]) -> String {
    let words = processors.iter().max().map_or(1, |last| last / 32 + 1);
    let word = |at: u32| {
        let own = processors.iter().filter(|processor| *processor / 32 == at);
        own.fold(0u32, |word, processor| word | 1 << (processor % 32))
    };
    let words: Vec<String> = (0..words)
        .rev()
        .map(|at| format!("{:08x}", word(at)))
        .collect();
    words.join(",")
}

impl Control for KernelCpus {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Processors that the kernel's unbound workers run on: loop devices, writeback, btrfs."
    }

    fn scope(&self) -> Scope {
        Scope::Run
    }

    fn values(&self) -> &'static [Value] {
        const {
            &[
                Value::word(KEEP, "unchanged (default)"),
                Value::form(
                    "LIST",
                    OptionKind::List,
                    "a list, such as 0-3,5; 'cpus' is for fsb's workers",
                ),
            ]
        }
    }

    fn check(&self, value: &str, roots: &Roots) -> Result<(), TestbedError> {
        cpus::check_list(NAME, value, roots)
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        writable(&path(roots))
    }

    fn apply(&self, value: &str, context: &mut Context<'_>) -> Result<String, Stop> {
        let (roots, file) = (context.roots, path(context.roots));
        let before = read_trimmed(&file)
            .ok_or_else(|| Stop::Lacks(format!("{} cannot be read", file.display()).into()))?;
        let wanted = cpus::parse(value).unwrap_or_default();
        if parse_mask(&before).as_ref() != Some(&wanted) {
            context.write_file(&file, &show_mask(&wanted), &file, &before)?;
        }
        match read_trimmed(&file).as_deref().and_then(parse_mask) {
            Some(now) if now == wanted => Ok(self.observe(roots, context.place)),
            now => Err(Stop::Lacks(
                format!("the kernel stored {now:?} instead of {value}").into(),
            )),
        }
    }

    fn owns(&self, action: &Action, roots: &Roots) -> bool {
        action
            .written()
            .is_some_and(|written| written == path(roots))
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        match read_trimmed(&path(roots)).as_deref().and_then(parse_mask) {
            Some(processors) => format!("the kernel's workers on {}", cpus::show(&processors)),
            None => "the processors of the kernel's workers are unknown".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    #[test]
    fn masks_are_written_as_the_kernel_reads_them() {
        for (list, mask) in [
            (&[0][..], "00000001"),
            (&[0, 31], "80000001"),
            (&[1, 32, 63], "80000001,00000002"),
        ] {
            assert_eq!(show_mask(list), mask);
            assert_eq!(parse_mask(mask).unwrap(), list);
        }
        assert_eq!((parse_mask("3"), parse_mask("x")), (Some(vec![0, 1]), None));
    }

    #[test]
    fn the_mask_comes_back() {
        let bench = Bench::new();
        bench.write("sys/devices/system/cpu/online", "0-3");
        bench.write("sys/devices/virtual/workqueue/cpumask", "f");
        assert!(
            KernelCpus
                .check("4", &bench.roots)
                .unwrap_err()
                .to_string()
                .contains("no processor 4")
        );
        bench.set(&KernelCpus, "2-3", |applied, handles| {
            assert_eq!(applied.observed, "the kernel's workers on 2-3");
            assert_eq!(
                bench.read("sys/devices/virtual/workqueue/cpumask"),
                "0000000c"
            );
            assert!(
                handles[0]
                    .action()
                    .to_string()
                    .starts_with("write 'f' back to"),
                "{}",
                handles[0].action()
            );
        });
        assert_eq!(bench.read("sys/devices/virtual/workqueue/cpumask"), "f");
    }
}
