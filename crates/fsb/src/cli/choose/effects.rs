//! The first stage of `--effects`: a fractional factorial design over the options of one file system.
//!
//! Each factor is an option, with or without; options that exclude each other are one factor, the first of them. The
//! designs have two levels and come from a Hadamard matrix of Sylvester's kind. They are folded over (every row once
//! more with all levels exchanged), which makes their resolution IV: the effect of one option is not confounded with
//! interactions of two (G. E. P. Box and J. S. Hunter, Technometrics 3, 1961). Race rounds of the stage are fixed
//! before anything is measured.

use std::collections::BTreeSet;

use fsb_model::race::Factor;
use fsb_testbed::fs::{self, Choice};

use super::candidates::{self, Raced};
use crate::{code, exit};

/// The number of race rounds in which each row of the design is measured.
const TURNS: usize = 2;

/// Candidates with the rows of the design among them, the race rounds of the first stage, and the factors.
pub type Design = (Vec<Raced>, Vec<Vec<u32>>, Vec<Factor>);

/// Creates the design over the options of the file system that all candidates have.
pub fn design(mut raced: Vec<Raced>, places: usize) -> anyhow::Result<Design> {
    let spec = raced[0].target.file_system().cloned();
    let kinds: BTreeSet<_> = raced.iter().filter_map(|raced| Some(raced.target.file_system()?.fs.clone())).collect();
    let Some(spec) = spec.filter(|spec| kinds.len() == 1 && spec.options.is_empty() && spec.mkfs.is_empty()) else {
        return Err(exit::failure(
            &code::NOT_RACED,
            "--effects are those of the options of one file system: name it alone, such as ext4",
        ));
    };
    let member = fs::find(&spec.fs)?;
    let mut sorts = BTreeSet::new();
    let listed = raced.iter().filter_map(|raced| raced.choice);
    let options: Vec<&'static Choice> =
        listed.filter(|choice| choice.sort.is_none_or(|sort| sorts.insert(sort))).collect();
    if options.len() < 2 {
        return Err(exit::failure(
            &code::NOT_RACED,
            format!("--effects need two options at least, and {} has fewer in its list", spec.fs),
        ));
    }
    let rows = rows(options.len());
    let mut places_of_rows = Vec::new();
    for row in &rows {
        let chosen: Vec<&'static Choice> =
            options.iter().zip(row).filter(|(_, with)| **with).map(|(one, _)| *one).collect();
        let one = candidates::with(member, &spec, &chosen);
        let known = raced.iter().position(|known| known.target.kind == one.target.kind);
        places_of_rows.push(known.unwrap_or(raced.len()) as u32);
        if known.is_none() {
            raced.push(one);
        }
    }
    let factors = options.iter().enumerate().map(|(at, option)| {
        let having = |wanted: bool| {
            let rows = rows.iter().zip(&places_of_rows).filter(move |(row, _)| row[at] == wanted);
            rows.map(|(_, place)| *place).collect::<Vec<_>>()
        };
        let mkfs = (!option.mkfs.is_empty()).then(|| format!("mkfs=\"{}\"", option.mkfs.join(" ")));
        let words = option.mount.iter().map(|word| (*word).to_owned()).chain(mkfs);
        Factor { option: words.collect::<Vec<_>>().join(","), with: having(true), without: having(false) }
    });
    Ok((raced, race_rounds(&places_of_rows, places), factors.collect()))
}

/// Returns the rows of a design for `factors` factors: for each factor, whether the row has its option.
fn rows(factors: usize) -> Vec<Vec<bool>> {
    let size = factors.next_power_of_two().max(2);
    // Entry (i, j) of Sylvester's matrix is the parity of the bits that i and j share.
    let sign = |row: usize, column: usize| (row & column).count_ones().is_multiple_of(2);
    let half: Vec<Vec<bool>> = (0..size).map(|row| (0..factors).map(|column| sign(row, column)).collect()).collect();
    let folded = half.iter().map(|row| row.iter().map(|with| !with).collect());
    half.iter().cloned().chain(folded).collect()
}

/// Returns race rounds in which each row occurs [`TURNS`] times, with the baseline and each time with other candidates.
fn race_rounds(rows: &[u32], places: usize) -> Vec<Vec<u32>> {
    let others: Vec<u32> = rows.iter().copied().filter(|row| *row != 0).collect();
    let each = places - 1;
    let mut race_rounds = Vec::new();
    for turn in 0..TURNS {
        let step = others.len().div_ceil(each);
        // In the first turn adjacent rows share a race round, in the second distant ones.
        let order: Vec<u32> = match turn {
            0 => others.clone(),
            _ => (0..step).flat_map(|from| others.iter().copied().skip(from).step_by(step)).collect(),
        };
        race_rounds.extend(order.chunks(each).map(|some| std::iter::once(0).chain(some.iter().copied()).collect()));
    }
    race_rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair of columns has all four combinations equally often, and every triple is balanced: resolution IV.
    #[test]
    fn designs_are_balanced_in_every_three_factors() {
        for factors in 2..=16 {
            let rows = rows(factors);
            let sign = |with: bool| if with { 1 } else { -1 };
            for a in 0..factors {
                assert_eq!(rows.iter().map(|row| sign(row[a])).sum::<i32>(), 0, "{factors}: {a}");
                for b in 0..a {
                    assert_eq!(
                        rows.iter().map(|row| sign(row[a]) * sign(row[b])).sum::<i32>(),
                        0,
                        "{factors}: {a} {b}"
                    );
                    for c in 0..b {
                        let all = rows.iter().map(|row| sign(row[a]) * sign(row[b]) * sign(row[c]));
                        assert_eq!(all.sum::<i32>(), 0, "{factors}: {a} {b} {c}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_design_holds_every_option_and_the_race_all_candidates() {
        let (raced, _) = candidates::all(&["ext4".to_owned()], false, false).unwrap();
        let singles = raced.len();
        let (raced, race_rounds, factors) = design(raced, 4).unwrap();
        assert!(raced.len() > singles && factors.len() > 5);
        for factor in &factors {
            assert_eq!(factor.with.len(), factor.without.len(), "{factor:?}");
        }
        assert!(race_rounds.iter().all(|race_round| race_round[0] == 0 && race_round.len() <= 4));
        let (mixed, _) = candidates::all(&["ext4".to_owned(), "xfs".to_owned()], false, false).unwrap();
        assert!(design(mixed, 4).is_err());
    }
}
