//! The statistical methods of a comparison, in words.

use fsb_stats::{FEWEST_JUDGED, FEWEST_RUNS_JUDGED, Method};

use crate::operation::Selection;
use crate::show::{Paragraph, capital, percent};

/// Returns paragraphs on the methods that this comparison uses.
pub(super) fn paragraphs(selection: Selection<'_>) -> Vec<Paragraph> {
    if let Some(why) = &selection.document.unjudged {
        return vec![unjudged(why), classic()];
    }
    let mut paragraphs = vec![classic(), blind()];
    if selection.document.sets.len() > 1 {
        paragraphs.splice(0..0, [runs(selection), verdicts(selection)]);
        if selection.document.sets.len() > 2 {
            paragraphs.insert(2, many());
        }
    }
    if selection
        .operations()
        .any(|operation| operation.grid.is_some())
    {
        paragraphs.extend([grid(selection), findings()]);
    }
    paragraphs
}

fn unjudged(why: &str) -> Paragraph {
    Paragraph {
        title: "Why nothing is judged",
        text: format!(
            "{}. Emulated processors multiply the time that code takes, but not that of the device. The page shows \
             the measured values and compares none of them.",
            capital(why)
        ),
    }
}

/// Returns whether estimates compare targets block by block, and whether they compare runs.
fn methods(selection: Selection<'_>) -> (bool, bool) {
    let all = selection
        .operations()
        .flat_map(|operation| operation.estimate.against.values().flatten());
    all.fold((false, false), |(paired, welch), estimate| {
        match estimate.method {
            Method::Paired | Method::PairedOnSlices => (true, welch),
            Method::PairedRuns | Method::Welch => (paired, true),
        }
    })
}

fn runs(selection: Selection<'_>) -> Paragraph {
    let unit = "The run is the unit, never the cell and, between runs, never the block: cells and blocks of one run \
                share its deviations. Of each run, the mean of ln(value) over its blocks and the cells that are \
                compared is one number.";
    let blocks = "Targets of one run of fsb are compared block by block: d = ln(candidate / baseline) in each block, and the \
                  ratio is exp(d̄) with the paired t-interval.";
    let runs = "Sets of different runs are independent samples with equal weights, compared by Welch's method (1947); \
                targets that took turns in each of several runs are compared run by run. The variances between runs \
                are moderated by those of the other cases of the page (empirical Bayes, Smyth 2004), of which only \
                independent ones count. A change is called detectable if four comparisons of five would show it.";
    let how = match methods(selection) {
        (true, false) => blocks.to_owned(),
        (true, true) => format!("{blocks} {runs}"),
        _ => runs.to_owned(),
    };
    Paragraph {
        title: "The basis of verdicts",
        text: format!("{unit} {how}"),
    }
}

fn verdicts(selection: Selection<'_>) -> Paragraph {
    let theta = percent(selection.document.settings.theta);
    Paragraph {
        title: "Verdicts",
        text: format!(
            "The verdict comes from the interval alone; the smallest difference that matters here is {theta}. Faster \
             or slower: the whole interval is beyond it. Equivalent: within it. Probably faster or slower: only the \
             direction is significant. Inconclusive: otherwise. Over all operations together (Holm 1979), at most one page of \
             equals in twenty calls any set faster or slower. Fewer than {FEWEST_JUDGED} blocks of one run, or \
             {FEWEST_RUNS_JUDGED} runs on a side, are described, not judged."
        ),
    }
}

fn many() -> Paragraph {
    Paragraph {
        title: "More than two sets",
        text:
            "All pairs are compared, and intervals, verdicts and letters hold together at 95 % (Holm 1979). Sets that \
               share a letter are not significantly different by more than the smallest ratio that matters; a is the best."
                .to_owned(),
    }
}

fn classic() -> Paragraph {
    Paragraph {
        title: "Classic statistics",
        text: "Labelled classic: those of Beňas (2011), so that published tables stay comparable. All values of the \
               cells that every set has are pooled: mean, sample standard deviation, 90 % t-interval, geometric mean, \
               median, quartiles by linear interpolation; the t-test assumes equal variances and prints DIFF at p ≤ 0.1; \
               the slope is that of a regression through the origin of the cells' means, by total least squares."
            .to_owned(),
    }
}

fn blind() -> Paragraph {
    Paragraph {
        title: "Why classic does not judge",
        text: "A pool of all sizes spreads over orders of magnitude: a uniform 10 % slowdown is invisible to a t-test \
               on it, and repeated values of one run are not independent. Ratios of runs see the slowdown and do not \
               mistake one lucky run for many."
            .to_owned(),
    }
}

fn grid(selection: Selection<'_>) -> Paragraph {
    Paragraph {
        title: "Colours of the grid",
        text: format!(
            "Cells of the heat maps are faster, slower, same or uncertain, at a false discovery rate of {} over the \
             grid (Benjamini and Hochberg 1995). They show where to look, and have no verdicts.",
            percent(selection.document.settings.q)
        ),
    }
}

fn findings() -> Paragraph {
    Paragraph {
        title: "Findings",
        text: "A finding is a rectangle of file sizes and record sizes, found on cells and judged on runs. Its level \
               allows for the search: the labels of runs are exchanged, and the best rectangle of each exchange is \
               what chance can do."
            .to_owned(),
    }
}
