//! Interference with the run, and the trials that were retried because of it.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use fsb_model::{Interference, Phase};

use super::trial_value::CompactTrial;
use crate::record_text::{interference_text, largest_interference_text};
use crate::show::{counted, listed};

/// Returns text such as `CPU steal 3 %: 4 of 180 trials affected and retried`. Returns `None` if
/// interference affected no trial.
pub(super) fn warning(trials: &[CompactTrial]) -> Option<String> {
    let measured = || trials.iter().filter(|trial| trial.phase == Phase::Measured);
    let affected: Vec<&CompactTrial> = measured()
        .filter(|trial| !trial.extras().interference.is_empty())
        .collect();
    if affected.is_empty() {
        return None;
    }
    let mut cells: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for trial in measured() {
        let next = cells.len() as u32;
        cells
            .entry((&trial.what.target, &trial.what.workload))
            .or_insert(next);
    }
    // Attempts of one trial count as one trial. So do trials of a block that a resumed run measured
    // again.
    let place = |trial: &CompactTrial| {
        (
            trial.block,
            cells[&(&*trial.what.target, &*trial.what.workload)],
        )
    };
    let places = |wanted: &dyn Fn(&CompactTrial) -> bool| -> BTreeSet<_> {
        affected
            .iter()
            .filter(|trial| wanted(trial))
            .map(|trial| place(trial))
            .collect()
    };
    let repeated = places(&|trial| trial.superseded);
    let analysed = places(&|trial| !trial.superseded);
    // Trials that were not retried before the run ended count as well, so that affected trials are
    // a subset of all.
    let all = measured().map(place).collect::<BTreeSet<_>>().len();
    let some = format!("{} of {}", places(&|_| true).len(), counted(all, "trial"));
    let what = match (repeated.len(), analysed.len()) {
        (0, _) => format!("{some} affected and not retried"),
        (_, 0) => format!("{some} affected and retried"),
        (again, kept) => {
            format!(
                "{some} affected, {again} of them retried, {kept} affected to the end and analysed"
            )
        }
    };
    Some(format!(
        "{}: {what}; fsb doctor shows the cause",
        listed(&causes(&affected))
    ))
}

/// If interference affected a larger share of the trials than this, the numbers are less certain
/// than their intervals say.
const SOME: f64 = 0.1;

/// The number of analysed trials that interference affected, and its causes.
pub(super) struct Share {
    pub(super) affected: usize,
    all: usize,
    causes: Vec<String>,
}

impl Share {
    /// Returns the share of all analysed trials, from 0 to 1.
    pub(super) fn of_all(&self) -> f64 {
        self.affected as f64 / self.all as f64
    }

    /// Returns whether interference affected more than half of them.
    pub(super) fn most(&self) -> bool {
        2 * self.affected > self.all
    }

    /// Returns text such as `CPU steal 58 % affected 86 of 96 trials`.
    pub(super) fn words(&self) -> String {
        format!(
            "{} affected {} of {}",
            listed(&self.causes),
            self.affected,
            counted(self.all, "trial")
        )
    }
}

/// Returns the share of the analysed trials that interference affected. Empty if it affected none.
pub(super) fn share(trials: &[CompactTrial]) -> impl Iterator<Item = Share> {
    let analysed: Vec<&CompactTrial> = trials.iter().filter(|trial| trial.counts()).collect();
    let affected: Vec<&CompactTrial> = analysed
        .iter()
        .copied()
        .filter(|trial| !trial.extras().interference.is_empty())
        .collect();
    let share = Share {
        affected: affected.len(),
        all: analysed.len(),
        causes: causes(&affected),
    };
    (share.affected > 0).then_some(share).into_iter()
}

/// Returns the share of the trials that interference affected, in words, if it is more than a
/// tenth.
pub(crate) fn warning_of_some(trials: &[CompactTrial]) -> Option<String> {
    share(trials)
        .find(|share| share.of_all() > SOME)
        .map(|share| share.words())
}

/// Returns the beginning of a headline if interference affected more than half of the analysed
/// trials: `With interference in 9 of 12 trials (CPU steal 58 %): `.
pub(super) fn preface(trials: &[CompactTrial]) -> Option<String> {
    let share = share(trials).find(Share::most)?;
    let (some, all) = (share.affected, counted(share.all, "trial"));
    Some(format!(
        "With interference in {some} of {all} ({}): ",
        listed(&share.causes)
    ))
}

/// Returns each kind of interference once, with the largest of its sizes, after "up to" if they
/// differ.
fn causes(affected: &[&CompactTrial]) -> Vec<String> {
    let mut largest: Vec<(&Interference, bool)> = Vec::new();
    for found in affected
        .iter()
        .flat_map(|trial| &trial.extras().interference)
    {
        let is_unknown = matches!(found, Interference::Unknown(_));
        let same = |known: &Interference| match is_unknown {
            true => known == found,
            false => discriminant(known) == discriminant(found),
        };
        match largest.iter_mut().find(|(known, _)| same(known)) {
            Some((known, differ)) => {
                *differ |= found.size() != known.size();
                if found.size() > known.size() {
                    *known = found;
                }
            }
            None => largest.push((found, false)),
        }
    }
    let mut causes: Vec<String> = largest
        .into_iter()
        .map(|(found, differ)| {
            if differ {
                largest_interference_text(found)
            } else {
                interference_text(found)
            }
        })
        .collect();
    causes.sort();
    causes
}

#[cfg(test)]
mod tests {
    use fsb_model::Trial;

    use super::*;
    use crate::sample;

    /// A run of two targets and six blocks whose trial number `index` has these attempts.
    fn with(attempts: &[(usize, &[Interference], bool)]) -> Option<String> {
        let (_, mut trials) = sample::run(&["ext4", "xfs"], 6);
        let measured: Vec<usize> = (0..trials.len())
            .filter(|index| trials[*index].counts())
            .collect();
        for (index, causes, superseded) in attempts {
            let trial = &mut trials[measured[*index]];
            if *superseded {
                let again = Trial {
                    interference: causes.to_vec(),
                    superseded: true,
                    ..trial.clone()
                };
                trials.push(again);
            } else {
                trial.interference = causes.to_vec();
            }
        }
        warning(&CompactTrial::all(&trials))
    }

    #[test]
    fn retried_and_affected_trials_are_counted() {
        assert_eq!(with(&[]), None);
        let steal = |share| Interference::CpuSteal { share };
        let three: &[Interference] = &[steal(0.03)];
        let once = with(&[
            (0, three, true),
            (0, &[steal(0.02)], true),
            (5, three, true),
        ])
        .unwrap();
        assert!(once.starts_with("CPU steal up to 3 %: 2 of "), "{once}");
        assert!(once.contains(" trials affected and retried; "), "{once}");
        let kept = with(&[
            (0, three, true),
            (
                0,
                &[
                    steal(0.12),
                    Interference::OtherDiskIo {
                        bytes_per_second: 4194304.0,
                    },
                ],
                false,
            ),
        ])
        .unwrap();
        assert!(
            kept.starts_with("CPU steal up to 12 % and others' I/O on the disk 4.0 MiB/s: 1 of "),
            "{kept}"
        );
        assert!(
            kept.contains(" affected, 1 of them retried, 1 affected to the end and analysed"),
            "{kept}"
        );
        let micro = with(&[(3, three, false)]).unwrap();
        assert!(micro.contains("affected and not retried"), "{micro}");
    }

    #[test]
    fn a_headline_begins_with_the_interference_if_most_was_affected() {
        let (_, mut trials) = sample::run(&["ext4", "xfs"], 6);
        assert_eq!(preface(&CompactTrial::all(&trials)), None);
        let n = trials.iter().filter(|trial| trial.counts()).count();
        trials
            .iter_mut()
            .for_each(|trial| trial.interference = vec![Interference::CpuSteal { share: 0.58 }]);
        let said = preface(&CompactTrial::all(&trials)).unwrap();
        assert_eq!(
            said,
            format!("With interference in {n} of {n} trials (CPU steal 58 %): ")
        );
    }

    /// A block was interrupted, and no resumed run has measured it again yet.
    #[test]
    fn trials_not_retried_are_a_share_of_all() {
        let (_, mut trials) = sample::run(&["ext4", "xfs"], 6);
        trials.retain(|trial| trial.counts() && trial.block == 1);
        for trial in &mut trials {
            (trial.superseded, trial.interference) =
                (true, vec![Interference::CpuSteal { share: 0.03 }]);
        }
        let n = trials.len();
        let said = warning(&CompactTrial::all(&trials)).unwrap();
        assert!(
            said.starts_with(&format!("CPU steal 3 %: {n} of {n} trials affected")),
            "{said}"
        );
        trials
            .iter_mut()
            .for_each(|trial| trial.phase = Phase::Warmup);
        assert_eq!(
            warning(&CompactTrial::all(&trials)),
            None,
            "warm-up alone is not reported"
        );
    }
}
