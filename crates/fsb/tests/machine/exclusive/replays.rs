//! Mutated traces: each is refused or replayed, within its budget, and only below the target.
//!
//! A few cases by default. With `FSB_REPLAYS=10000` the engine performs that many, and every
//! thirtieth is a whole run as well. `FSB_REPLAYS_SEED=N` begins with case N, to repeat one that
//! failed: `FSB_REPLAYS=1 FSB_REPLAYS_SEED=N`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::traces::*;
use crate::common::*;

/// The default number of cases of the engine.
const FEW: u64 = 90;
/// Every thirtieth case is a whole run, too.
const SHARE: u64 = 30;

/// Returns the bytes of a case.
fn mutant(seed: u64, recorded: &[Content]) -> Vec<u8> {
    let mut dice = Dice(seed);
    let mut content = recorded[dice.below(recorded.len())].clone();
    for _ in 0..=dice.below(4) {
        content.mutate(&mut dice);
    }
    let mut bytes = content.write().unwrap_or_default();
    if dice.below(8) == 0 {
        for _ in 0..=dice.below(4) {
            let at = dice.below(bytes.len());
            match dice.below(3) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, dice.next() as u8),
                _ => bytes
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte ^= 1 << (dice.next() % 8)),
            }
        }
    }
    bytes
}

#[test]
fn mutated_traces_end_within_the_budget_and_stay_below_the_target() {
    needs!(root);
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let count = number("FSB_REPLAYS").unwrap_or(FEW);
    let fresh = || {
        std::time::UNIX_EPOCH
            .elapsed()
            .map_or(0, |now| now.as_millis() as u64 % 1_000_000)
    };
    let first = number("FSB_REPLAYS_SEED").unwrap_or_else(fresh);
    // The engine syncs the files thousands of times, on a disk that other programs use.
    let [memory, disk] = [in_memory(), scratch()].map(Bench::new);
    let recorded = disk.record();
    let (mut replayed, mut runs, mut longest) = (0, 0, Duration::ZERO);
    for seed in first..first + count {
        let performed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let bytes = mutant(seed, &recorded);
            fs::write(memory.at("a.trace"), &bytes).unwrap();
            replayed += u64::from(memory.perform());
            memory.expect_unharmed();
            if count == 1 || seed % SHARE == 0 {
                fs::write(disk.at("a.trace"), &bytes).unwrap();
                let (code, took) = disk.run(seed / SHARE % 2 == 1);
                eprintln!(
                    "FSB_REPLAYS_SEED={seed}: exit code {code} after {:.1} s",
                    took.as_secs_f64()
                );
                runs += 1;
                longest = longest.max(took);
                disk.expect_unharmed();
            }
        }));
        if let Err(why) = performed {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-{seed}.trace"));
            fs::write(&kept, mutant(seed, &recorded)).unwrap();
            eprintln!(
                "to repeat it: FSB_REPLAYS=1 FSB_REPLAYS_SEED={seed}; the trace is in {}",
                kept.display()
            );
            std::panic::resume_unwind(why);
        }
    }
    let longest = longest.as_secs_f64();
    eprintln!(
        "{replayed} of {count} were replayed; {runs} runs with a budget of {BUDGET}, the longest {longest:.1} s"
    );
    assert!(
        count < FEW || replayed * 20 > count,
        "most cases are refused: they test nothing"
    );
}
