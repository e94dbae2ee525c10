//! Whether file systems have the same order in a run as in a publication.

use fsb_model::{Better, Unit};
use fsb_stats::{Ranking, Verdict};
use serde::Serialize;

/// The things that a publication compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OrderSubject {
    /// The values of all file systems at an operation.
    Operations,
    /// Two file systems at an operation and some sizes.
    Differences,
}

/// Counts of the cases in which the file systems of a run have the published order. Only what the
/// run judges counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedOrder {
    /// The things that are counted.
    pub subject: OrderSubject,
    /// Those with at least one significant difference, all of which have the published direction.
    pub same: usize,
    /// Those with a significant difference in the other direction.
    pub other: usize,
    /// Those that were judged and have no significant difference.
    pub undecided: usize,
    /// The first of the `other` ones: `rewrite: published xfs before ext3, here ext3 before xfs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// All of it in one sentence.
    pub text: String,
}

/// The order of the file systems at one operation, beside the published order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderOutcome {
    /// Every significant difference has the published direction, and there is one.
    Same,
    /// A significant difference has the other direction, with its description.
    Other(String),
    /// No difference is significant.
    Undecided,
}

impl PublishedOrder {
    /// Counts the outcomes of what was judged. `unjudged` is the reason if nothing was.
    pub fn from_outcomes(
        subject: OrderSubject,
        outcomes: impl IntoIterator<Item = OrderOutcome>,
        unjudged: &str,
    ) -> PublishedOrder {
        let mut order = PublishedOrder {
            subject,
            same: 0,
            other: 0,
            undecided: 0,
            example: None,
            text: String::new(),
        };
        for outcome in outcomes {
            match outcome {
                OrderOutcome::Same => order.same += 1,
                OrderOutcome::Undecided => order.undecided += 1,
                OrderOutcome::Other(example) => {
                    order.other += 1;
                    order.example.get_or_insert(example);
                }
            }
        }
        order.text = order.describe(unjudged);
        order
    }

    fn describe(&self, unjudged: &str) -> String {
        let all = self.same + self.other + self.undecided;
        if all == 0 {
            return format!(
                "The order of the file systems is not compared with the published one: {unjudged}."
            );
        }
        let (start, noun) = match self.subject {
            OrderSubject::Operations => ("Published order of the file systems", "operation"),
            OrderSubject::Differences => ("Published differences of file systems", "difference"),
        };
        let plural = if all == 1 { "" } else { "s" };
        let same = match self.subject {
            OrderSubject::Operations => "the same order",
            OrderSubject::Differences => "the same direction",
        };
        let mut text = format!(
            "{start}: here {same} in {} of {all} {noun}{plural}",
            self.same
        );
        if let Some(example) = &self.example {
            text += &format!(", another in {} ({example})", self.other);
        }
        if self.undecided > 0 {
            text += &format!(", no significant difference in {}", self.undecided);
        }
        text + "."
    }
}

/// Returns the outcome of one operation. `places` holds the published file systems that are targets
/// of the run: the place among the published ones, and that among the targets. Returns `None` if no
/// pair with different published values was judged.
pub(super) fn outcome(
    (label, unit, theirs): (&str, Unit, &[Option<f64>]),
    file_systems: &[String],
    places: &[(usize, usize)],
    ranking: &Ranking,
) -> Option<OrderOutcome> {
    // The published direction: a row of times is better lower.
    let better = match unit {
        Unit::Seconds => Better::Lower,
        _ => Better::Higher,
    };
    let mut outcome = None;
    for (index, (first, first_target)) in places.iter().enumerate() {
        for (second, second_target) in &places[index + 1..] {
            let Some((one, other)) = theirs[*first].zip(theirs[*second]) else {
                continue;
            };
            let verdict = ranking.verdict(*first_target, *second_target);
            if one == other || verdict == Verdict::NotJudged {
                continue;
            }
            outcome.get_or_insert(OrderOutcome::Undecided);
            if !verdict.is_better() && !verdict.is_worse() {
                continue;
            }
            let second_leads = (other > one) == (better == Better::Higher);
            if verdict.is_better() == second_leads {
                outcome = Some(OrderOutcome::Same);
                continue;
            }
            let (leader, loser) = match second_leads {
                true => (&file_systems[*second], &file_systems[*first]),
                false => (&file_systems[*first], &file_systems[*second]),
            };
            let [leader, loser] = [leader, loser].map(|name| quoted(name));
            return Some(OrderOutcome::Other(format!(
                "{}: published {leader} before {loser}, here {loser} before {leader}",
                label
            )));
        }
    }
    outcome
}

/// Returns a name in quotation marks if it has a comma, as the configurations of a work have.
fn quoted(name: &str) -> String {
    match name.contains(',') {
        true => format!("'{name}'"),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use fsb_stats::BlockValue;

    use super::*;

    /// Five blocks around each value, with little scatter.
    fn ranking(values: &[f64], blocks: u32) -> Ranking {
        let samples: Vec<Vec<BlockValue>> = values
            .iter()
            .enumerate()
            .map(|(target, value)| {
                (1..=blocks)
                    .map(|block| {
                        let scatter = f64::from((block * 7 + target as u32 * 3) % 5) * 0.001;
                        BlockValue::new(block, value * (1.0 + scatter))
                    })
                    .collect()
            })
            .collect();
        Ranking::from_samples(&samples, Better::Higher, 0.03).unwrap()
    }

    fn outcome_of(theirs: &[f64], ours: &[f64], blocks: u32) -> Option<OrderOutcome> {
        let names: Vec<String> = ["ext2", "ext3", "xfs"].map(str::to_owned).into();
        let theirs: Vec<Option<f64>> = theirs.iter().copied().map(Some).collect();
        let places: Vec<(usize, usize)> = (0..theirs.len()).map(|place| (place, place)).collect();
        outcome(
            ("read", Unit::BytesPerSecond, &theirs),
            &names,
            &places,
            &ranking(ours, blocks),
        )
    }

    #[test]
    fn only_judged_pairs_of_different_values_count() {
        let theirs = [10.0, 20.0, 30.0];
        assert_eq!(
            outcome_of(&theirs, &[1.0, 2.0, 3.0], 5),
            Some(OrderOutcome::Same)
        );
        assert_eq!(
            outcome_of(&theirs, &[1.0, 1.0, 3.0], 5),
            Some(OrderOutcome::Same),
            "a tie here contradicts nothing"
        );
        assert_eq!(
            outcome_of(&theirs, &[1.0, 1.0, 1.0], 5),
            Some(OrderOutcome::Undecided)
        );
        let other = "read: published xfs before ext3, here ext3 before xfs";
        assert_eq!(
            outcome_of(&theirs, &[1.0, 3.0, 2.0], 5),
            Some(OrderOutcome::Other(other.to_owned()))
        );
        assert_eq!(
            outcome_of(&[10.0, 10.0, 10.0], &[1.0, 2.0, 3.0], 5),
            None,
            "a published tie has no order"
        );
        assert_eq!(outcome_of(&theirs, &[1.0, 2.0, 3.0], 2), None, "two blocks");
    }

    #[test]
    fn the_sentence_names_what_differs() {
        let text = |outcomes: Vec<OrderOutcome>| {
            PublishedOrder::from_outcomes(OrderSubject::Operations, outcomes, "no verdicts").text
        };
        assert_eq!(
            text(vec![
                OrderOutcome::Same,
                OrderOutcome::Other("read: a".to_owned()),
                OrderOutcome::Other("write: b".to_owned()),
                OrderOutcome::Undecided,
            ]),
            "Published order of the file systems: here the same order in 1 of 4 operations, another in 2 (read: a), \
             no significant difference in 1."
        );
        assert_eq!(
            text(vec![OrderOutcome::Same]),
            "Published order of the file systems: here the same order in 1 of 1 operation."
        );
        assert_eq!(
            text(Vec::new()),
            "The order of the file systems is not compared with the published one: no verdicts."
        );
    }
}
