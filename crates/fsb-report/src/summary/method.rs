//! The statistical methods of a run, in words.

use fsb_model::RunRecord;
use fsb_model::run::Placement;
use fsb_stats::{FEWEST_JUDGED, Method, NARROW, NOISY, Resolution, UNRELIABLE};

use super::headline;
use super::model::Numbers;
use crate::record_text::{stop_reason_text, stopping_rule_text};
use crate::show::{Paragraph, listed, percent};

/// Returns paragraphs on the methods that this run uses.
pub(super) fn paragraphs(summary: &Numbers, record: &RunRecord) -> Vec<Paragraph> {
    let mut paragraphs = vec![design(record), cell(summary)];
    paragraphs.extend(interim_analyses(record));
    if let Some(why) = &summary.unjudged {
        paragraphs.insert(0, headline::unjudged_method(summary, why));
    }
    if summary.compares() {
        paragraphs.extend([pairs(summary), page(summary), verdict(summary)]);
        paragraphs.extend(rounds(summary));
    }
    if summary.compares() && summary.targets.len() > 2 {
        paragraphs.push(many());
    }
    if summary.overall.iter().any(Option::is_some) {
        paragraphs.push(all_workloads());
    }
    paragraphs.extend([warnings(), costs()]);
    let rule = record.stopping_rule.as_ref().map(stopping_rule_text);
    let end = record.stop_reason.as_ref().map(stop_reason_text);
    let said = [
        rule.map(|rule| format!("The rule: {rule}.")),
        end.map(|end| format!("It ended after {end}.")),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    if !said.is_empty() {
        paragraphs.push(Paragraph {
            title: "When it stopped",
            text: said.join(" "),
        });
    }
    paragraphs
}

fn design(record: &RunRecord) -> Paragraph {
    let text = match &record.placement {
        Some(Placement::SideBySide { .. }) => {
            "The trial is the statistical unit: all rounds of one workload on one target in a block. A block formats all \
             targets at once, each on its slice of the medium, and measures each workload in rounds: a short sample on \
             every target, in a random order. Drift of the machine therefore affects all targets of a round alike. Slices \
             rotate from block to block, so that no target has the fastest part of the medium. The value of a trial is the \
             geometric mean over its rounds without the first one. Warm-up is not analysed."
        }
        _ => {
            "The trial is the statistical unit: one execution of one workload on one target. A block measures \
             every target once, in random order. Each is formatted and mounted alone, and runs the workloads in an \
             order that all targets of the block share. Drift of the machine therefore affects all targets alike, and the \
             spread between blocks includes the variation of layout. Warm-up trials are not analysed."
        }
    };
    Paragraph {
        title: "Blocks and trials",
        text: text.to_owned(),
    }
}

/// Returns the paragraph on interim analyses. Returns `None` if the number of blocks was fixed
/// beforehand.
fn interim_analyses(record: &RunRecord) -> Option<Paragraph> {
    let planned: Vec<String> = record.interim_analyses.iter().map(u32::to_string).collect();
    (planned.len() > 1).then(|| Paragraph {
        title: "Interim analyses",
        text: format!(
            "Interim analyses were planned before the first block, after {} blocks. A workload ends at one of them if it is \
             decided and its intervals are no wider than ±{}. Each interim analysis has 8 % of the level α = 5 %, and the final \
             analysis has the rest, so that all analyses together hold with 95 %. The last analysis is final if the budget or \
             a number of blocks ended the run. It is an interim analysis if results or a signal ended it.",
            listed(&planned),
            percent(NARROW * record.plan.theta)
        ),
    })
}

fn rounds(summary: &Numbers) -> Option<Paragraph> {
    let known = summary.cells().any(|cell| cell.scatter.is_some());
    known.then(|| Paragraph {
        title: "Rounds and blocks",
        text: "The scatter of a ratio has two sources, printed as standard deviations: between rounds of a block, and \
               between blocks beyond what their rounds explain (method of moments, not below zero). More rounds \
               reduce only the first. The geometric mean over rounds gives the usual speed of a sample; the ratio of total times, \
               printed if it differs by more than half of the smallest difference that matters, gives the time of all samples \
               together, of which a few stalls may be a large part. The rates of a cell are not stationary in two cases. \
               The slopes over the rounds of its blocks differ from zero (t-test, p < 0.005) by more than the smallest \
               difference that matters. Or the rates have two modes: their means differ by more than 25 % and by more than \
               five times the scatter within them, and the rarer mode has a tenth of the samples and occurs in a third of \
               the blocks."
            .to_owned(),
    })
}

fn cell(summary: &Numbers) -> Paragraph {
    let judged = if (summary.blocks as usize) < FEWEST_JUDGED {
        " Here there are fewer than five blocks: the numbers are described, and nothing is judged."
    } else {
        ""
    };
    Paragraph {
        title: "One target at one workload",
        text: format!(
            "The estimate is the geometric mean of the trials, exp(ȳ) with y = ln(value); its interval is the 95 % \
             t-interval exp(ȳ ± t·s/√n). Outliers beyond Tukey's fences (1.5 interquartile ranges) are marked and \
             never removed.{judged}"
        ),
    }
}

fn pairs(summary: &Numbers) -> Paragraph {
    let mut pairs = summary.cases.iter().flat_map(|row| &row.ranking.pairs);
    let exchanged = pairs.any(|pair| pair.comparison.method == Method::PairedOnSlices);
    let how = if exchanged {
        " Targets exchange slices of the medium. The difference between slices is estimated by least squares from all \
         targets of the workload (block + target + slice) and subtracted; the error comes from the residuals of the \
         pair's own differences, with as many degrees of freedom as the fit leaves them."
    } else {
        ""
    };
    Paragraph {
        title: "One target against another",
        text: format!(
            "In each block, d = ln(candidate / baseline); the ratio is exp(d̄) with the paired t-interval. Effects that \
             a block has in common cancel out.{how} Of rates, more is better; of times, less is better."
        ),
    }
}

/// Returns the paragraph on the variances and the correlation of blocks that are estimated from all
/// workloads together.
fn page(summary: &Numbers) -> Paragraph {
    let correlation = summary.correlation.map_or_else(String::new, |correlation| {
        format!(
            " The estimate of this run is {:+.2} ± {:.2}.",
            correlation.estimate, correlation.error
        )
    });
    Paragraph {
        title: "Information shared between workloads",
        text: format!(
            "A few blocks estimate a variance poorly, so the variances of the other workloads moderate it (empirical Bayes, \
             Smyth 2004), with the variance within blocks as covariate. Neighbouring blocks may be correlated. The correlation \
             of their residuals is pooled over all pairs of targets and combined with a prior (0.13 ± 0.1). It makes standard \
             errors larger by √((1 + ρ)/(1 − ρ)).{correlation}"
        ),
    }
}

fn verdict(summary: &Numbers) -> Paragraph {
    let (theta, largest) = (percent(summary.theta), percent(Resolution::LARGEST));
    Paragraph {
        title: "Verdicts",
        text: format!(
            "The verdict derives from the interval and the page; the smallest difference that matters here is {theta}. Faster \
             or slower: the whole interval is beyond {theta}. Equivalent: it is within {theta}. Probably faster \
             or slower: it excludes equality but reaches inside {theta}, so that only the direction is significant. Perhaps faster or slower (†): it excludes equality, but Holm's procedure over all pairs of all workloads \
             does not confirm the difference. Faster and slower need the same confirmation that the ratio is beyond {theta}. \
             Inconclusive: otherwise. Equivalence is a statement on one workload. Winners and letters use faster and slower alone. A workload without a winner has the largest ratio that the \
             intervals between the contenders leave possible; beyond {largest} it is undecided. Fewer than {FEWEST_JUDGED} \
             blocks in common are not judged."
        ),
    }
}

fn many() -> Paragraph {
    Paragraph {
        title: "More than two targets",
        text: "All pairs of a workload are compared, and their intervals hold together with 95 % (Bonferroni). Letters are \
               Piepho's compact display (insert and absorb), a for the best: targets that share a letter are not \
               significantly different by more than the smallest difference that matters."
            .to_owned(),
    }
}

fn all_workloads() -> Paragraph {
    Paragraph {
        title: "All workloads together",
        text: "The geometric mean of the ratios of speed, every workload with the same weight; ratios of times are \
               inverted. Each ratio comes from all blocks of its workload. The residuals of the workloads are summed for each block \
               before they are squared (cluster-robust variance), so that workloads of one block do not count as independent. \
               Workloads without a value on either side are left out, and the report prints the number of the others."
            .to_owned(),
    }
}

/// Returns the paragraph on findings, for runs with a matrix of sizes.
pub(super) fn findings(theta: f64) -> Paragraph {
    Paragraph {
        title: "Findings",
        text: format!(
            "A finding is a rectangle of file sizes and record sizes in which one target is faster than another. It is \
             found on cells and judged on blocks: each block gives one mean over the rectangle, and the interval of \
             those means has the level at which the intervals of all pairs of targets hold at once. Every edge of the \
             rectangle differs by more than {}, and four of five of its cells point its way. A randomization test over the \
             signs of the blocks, all rectangles and all operations gives the probability that chance makes such a \
             rectangle; all pairs together give a false finding in at most one run of twenty.",
            percent(theta)
        ),
    }
}

fn warnings() -> Paragraph {
    Paragraph {
        title: "Noise and drift",
        text: format!(
            "A cell whose coefficient of variation is above {} is called noisy, above {} unreliable. A trend over \
             run order is reported where the Mann–Kendall test (exact; normal with ties) gives p < 0.01, with the \
             Theil–Sen slope as its size.",
            percent(NOISY),
            percent(UNRELIABLE)
        ),
    }
}

fn costs() -> Paragraph {
    Paragraph {
        title: "Latencies and costs",
        text: "Latencies of all trials of a cell are merged as histograms (two significant digits), never averaged; \
               they are descriptive, because operations are not replicates. A percentile is printed only if at least a hundred \
               operations are beyond it. CPU seconds are those of the worker, user and system; the block device counts \
               its bytes and flushes; all are arithmetic means over trials with t-intervals."
            .to_owned(),
    }
}
