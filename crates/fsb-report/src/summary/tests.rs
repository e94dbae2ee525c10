use fsb_model::storage::{Promise, Unproven};
use fsb_model::{Interference, Outcome, RunRecord, Trial};
use fsb_stats::{RankingOutcome, Verdict};

use super::*;
use crate::format::find;
use crate::releases::Fact;
use crate::report::Report;
use crate::sample;
use crate::summary::earlier::compare_earlier;
use crate::summary::method;
use crate::summary::{CellState, MeasuredCell, Summary, Workload};

fn cell<'a>(summary: &'a Summary, workload: &str, target: usize) -> &'a MeasuredCell {
    &summary
        .cases
        .iter()
        .find(|case| case.workload == workload)
        .unwrap()
        .cells[target]
}

fn summary(targets: &[&str], blocks: u32) -> Summary {
    let (record, trials) = sample::run(targets, blocks);
    Summary::of_run(&record, &trials)
}

fn texts(facts: &[Fact]) -> Vec<String> {
    facts.iter().map(Fact::to_text).collect()
}

fn shown(format: &str, summary: &Summary, trials: &[fsb_model::Trial]) -> String {
    find(format)
        .unwrap()
        .render(&Report::of_run(summary, trials))
}

#[test]
fn a_row_is_ranked_and_says_so() {
    let summary = summary(&["ext4", "xfs", "btrfs"], 10);
    let case = &summary.cases[0];
    assert_eq!(case.ranking.outcome, RankingOutcome::Winner(1));
    assert!(
        case.finding
            .starts_with("xfs is fastest at write 1M, durable: +1"),
        "{}",
        case.finding
    );
    assert_eq!(
        case.cells
            .iter()
            .map(|cell| cell.mark.as_str())
            .collect::<Vec<_>>(),
        ["b", "a", "c"]
    );
    assert_eq!(
        case.cells[2].against.as_ref().unwrap().verdict,
        Verdict::Slower
    );
    let undecided = summary.cases.last().unwrap();
    assert!(undecided.cells.iter().all(|cell| cell.mark == "a?"));
    let advice = summary.advice.as_ref().unwrap();
    assert!(
        advice.starts_with("--blocks 31 would halve the intervals (about 1"),
        "{advice}"
    );
}

#[test]
fn lost_trials_are_left_out_and_named() {
    let summary = summary(&["ext4", "xfs", "btrfs"], 10);
    let failed = cell(&summary, "write 1M, durable", 2);
    assert_eq!((failed.trials.len(), failed.lost.len()), (9, 1));
    assert!(failed.lost[0].reason.contains("ENOSPC"));
    assert_eq!(cell(&summary, "read 1M, cold", 0).lost[0].block, 7);
    assert!(
        summary
            .warnings
            .iter()
            .any(|warning| warning.starts_with("2 trials have no value and are left out: "))
    );
    assert!(
        summary
            .warnings
            .iter()
            .any(|warning| warning.contains("xfs at rename 4K files, -2"))
    );
}

#[test]
fn failures_in_warm_up_alone_are_reported() {
    let (record, mut trials) = sample::run(&["ext4", "xfs"], 6);
    let mut lost = trials
        .iter()
        .find(|trial| trial.target == "xfs" && trial.workload == "read 1M, cold")
        .unwrap()
        .clone();
    lost.block = 0;
    lost.phase = fsb_model::Phase::Warmup;
    lost.outcome = Outcome::Failed;
    lost.error = Some("the guest is gone".to_owned());
    trials.insert(0, lost);
    let told = |trials: &[fsb_model::Trial]| {
        let warnings = Summary::of_run(&record, trials).warnings;
        warnings
            .into_iter()
            .filter(|warning| warning.contains("warm-up"))
            .collect::<Vec<_>>()
    };
    let expected = "1 trial of the warm-up failed; fsb planned amounts and times without: xfs at read 1M, cold: \
                    failed: the guest is gone";
    assert_eq!(told(&trials), [expected]);
    let summary = Summary::of_run(&record, &trials);
    let urgent = &summary.warnings[..summary.urgent];
    assert!(
        urgent.iter().any(|warning| warning == expected),
        "{urgent:?}"
    );
    // What followed from it is not a second cause.
    let mut next = trials[0].clone();
    next.workload = "rename 4K files".to_owned();
    next.error = Some("the target was lost earlier in this block: the guest is gone".to_owned());
    trials.insert(1, next);
    assert_eq!(
        told(&trials),
        [expected
            .replace("1 trial", "2 trials")
            .replace("cold:", "cold; rename 4K files:")]
    );
    trials.remove(1);
    // A resume made the warm-up again.
    trials[0].superseded = true;
    assert!(told(&trials).is_empty());
}

#[test]
fn different_media_are_told_once() {
    let (mut record, trials) = sample::run(&["ext4", "xfs"], 6);
    record.targets.get_mut("xfs").unwrap().medium = Some("ram".to_owned());
    record.warnings.push(fsb_model::Warning::DifferentMedia);
    let warnings = Summary::of_run(&record, &trials).warnings;
    assert_eq!(
        warnings
            .iter()
            .filter(|warning| warning.contains("different media"))
            .count(),
        1,
        "{warnings:?}"
    );
}

#[test]
fn inapplicable_cells_are_reported_as_such() {
    let summary = summary(&["ext4", "tmpfs"], 5);
    let cold = cell(&summary, "read 1M, cold", 1);
    assert_eq!(
        cold.state,
        CellState::NotApplicable("tmpfs is never cold".to_owned())
    );
    assert_eq!(
        (cold.absence(), cold.mark.as_str()),
        (Some("not applicable"), "")
    );
    assert!(
        summary.problems[0]
            .starts_with("tmpfs: not applicable: tmpfs is never cold (read 1M, cold; ")
    );
    assert!(
        summary.headline.contains("on one target only"),
        "{}",
        summary.headline
    );
    assert_eq!(summary.overall[1].as_ref().unwrap().workloads, 2);
}

#[test]
fn a_target_that_failed_is_said_once() {
    let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 5);
    trials.retain(|trial| trial.target == "ext4");
    record.targets.get_mut("xfs").unwrap().failed = Some("mkfs.xfs: not found".to_owned());
    let summary = Summary::of_run(&record, &trials);
    assert_eq!(summary.problems, ["xfs: failed: mkfs.xfs: not found"]);
    assert_eq!(
        cell(&summary, "read 1M, cold", 1).state,
        CellState::Failed("mkfs.xfs: not found".to_owned())
    );
}

#[test]
fn zeros_and_nonsense_are_no_measurements() {
    let (record, mut trials) = sample::run(&["ext4", "xfs"], 6);
    trials[0].metrics[0].value = 0.0;
    trials[1].metrics[0].value = f64::NAN;
    trials[2].metrics.clear();
    let summary = Summary::of_run(&record, &trials);
    let lost: Vec<&Lost> = summary.cells().flat_map(|cell| &cell.lost).collect();
    assert_eq!(lost.len(), 3);
    assert!(lost[0].reason.contains("0 is not a measurement"));
    let cells = summary.cells();
    assert!(
        cells
            .filter_map(|cell| cell.estimate.as_ref())
            .all(|e| e.value.is_finite() && e.value > 0.0 && e.n >= 5)
    );
}

#[test]
fn the_last_attempt_of_a_block_counts() {
    let (record, mut trials) = sample::run(&["ext4", "xfs"], 5);
    let mut again = trials[0].clone();
    (again.attempt, again.order) = (2, 10_000);
    again.metrics[0].value = 1.0;
    trials.push(again);
    let summary = Summary::of_run(&record, &trials);
    let cell = &summary.cases[0]
        .cells
        .iter()
        .find(|cell| cell.trials.iter().any(|p| p.order == 10_000))
        .unwrap();
    assert_eq!(
        (cell.trials.len(), cell.estimate.as_ref().unwrap().min),
        (5, 1.0)
    );
}

#[test]
fn an_unfinished_run_says_how_far_it_came() {
    let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 6);
    record.stop_reason = None;
    record.segments[0].ended = None;
    trials.retain(|trial| trial.block <= 5);
    trials.last_mut().unwrap().started = "2026-11-20T15:06:05Z".to_owned();
    let summary = Summary::of_run(&record, &trials);
    let facts = texts(&summary.facts);
    assert!(
        facts.contains(&"5 of 6 blocks".to_owned()) && facts.contains(&"2 min 00 s".to_owned()),
        "{facts:?}"
    );
    assert!(
        summary
            .warnings
            .iter()
            .any(|warning| warning.contains("--resume"))
    );
}

#[test]
fn different_media_are_compared_together() {
    let (mut record, trials) = sample::run(&["ext4", "xfs@ram"], 5);
    record.targets.get_mut("xfs@ram").unwrap().medium = Some("ram".to_owned());
    let summary = Summary::of_run(&record, &trials);
    assert!(
        summary
            .warnings
            .iter()
            .any(|warning| warning.contains("file system and medium are compared together"))
    );
}

#[test]
fn of_times_less_is_faster() {
    let (record, trials) = sample::micro(&["ext2", "ext4", "btrfs"], 8);
    let summary = Summary::of_run(&record, &trials);
    let ext4 = summary.cases[0].cells[1].against.as_ref().unwrap();
    assert!(ext4.ratio < 0.12 && ext4.verdict == Verdict::Faster);
    assert_eq!(summary.cases[0].ranking.outcome, RankingOutcome::Winner(1));
    assert!(
        summary.overall[1].as_ref().unwrap().comparison.ratio > 2.0,
        "overall is a ratio of speeds"
    );
}

#[test]
fn lost_trials_are_the_first_warning() {
    let (record, mut trials) = sample::run(&["ext4", "xfs"], 8);
    assert!(!Summary::of_run(&record, &trials).warnings[0].contains("incomplete"));
    trials.retain(|trial| trial.block < 6);
    let lost = Summary::of_run(&record, &trials);
    assert!(
        lost.warnings[0].contains(": it holds 5 of the 8 blocks") && lost.urgent > 0,
        "{:?}",
        lost.warnings
    );
    let empty = Summary::of_run(&record, &[]);
    assert!(
        empty.warnings[0].contains(": it holds 0 of the 8 blocks"),
        "{:?}",
        empty.warnings
    );
}

#[test]
fn nothing_at_all_is_a_view_too() {
    let (record, mut trials) = sample::run(&["ext4", "xfs"], 2);
    let empty = Summary::of_run(&record, &[]);
    assert_eq!(
        (empty.headline.as_str(), empty.blocks, empty.advice),
        ("Nothing was measured.", 0, None)
    );
    trials
        .iter_mut()
        .for_each(|trial| (trial.outcome, trial.metrics) = (Outcome::Failed, Vec::new()));
    let failed = Summary::of_run(&record, &trials);
    assert_eq!(
        failed.headline,
        "Nothing was measured: no value at 12 workloads."
    );
}

#[test]
fn findings_end_every_form() {
    let finding = |number: usize| fsb_stats::compare::Finding {
        text: format!(
            "xfs is faster than ext4 at operation {number}: +12 % (95 % CI +9…+16), 41 of 43 cells"
        ),
        workload: None,
        operation: "write".to_owned(),
        metric: "throughput".to_owned(),
        baseline: "ext4".to_owned(),
        candidate: "xfs".to_owned(),
        ratio: 1.12,
        ci95: [1.09, 1.16],
        file_size: None,
        record_size: None,
        cells: 43,
        agreeing: 41,
        p: 0.01,
        faster: true,
    };
    let with = |count: usize| {
        let mut summary = summary(&["ext4", "xfs"], 6);
        summary.findings = Some((1..=count).map(finding).collect());
        summary.method.push(method::findings(summary.theta));
        let (_, trials) = sample::run(&["ext4", "xfs"], 6);
        ["text", "markdown", "html", "json"].map(|name| shown(name, &summary, &trials))
    };
    let [screen, markdown, html, json] = with(9);
    assert!(
        screen.contains("\n- xfs is faster than ext4 at operation 7:"),
        "{screen}"
    );
    assert!(
        screen.contains("\n  and 2 more findings in the report\n")
            && !screen.contains("operation 8"),
        "{screen}"
    );
    for text in [&markdown, &html, &json] {
        // A page keeps numbers and their signs on one line.
        let text = text.replace('\u{a0}', " ");
        assert!(
            text.contains("operation 9: +12 % (95 % CI +9…+16), 41 of 43 cells"),
            "{text}"
        );
    }
    assert!(
        html.contains("<a href=\"#findings\">Findings</a>") && html.contains("<dt>Findings</dt>")
    );
    let [screen, _, html, _] = with(0);
    assert!(
        screen.contains("No region of sizes differs significantly by more than 3 %."),
        "{screen}"
    );
    assert!(html.contains("No region of sizes differs significantly"));
    let screen = shown("text", &summary(&["ext4", "xfs"], 6), &[]);
    assert!(
        !screen.contains("No region"),
        "a run without a matrix says nothing of one"
    );
}

#[test]
fn side_by_side_is_told_with_its_looks_and_rounds() {
    let (record, trials) = sample::side_by_side(&["ext4", "xfs", "btrfs"], 9);
    let summary = Summary::of_run(&record, &trials);
    let facts = texts(&summary.facts);
    assert_eq!(facts[2], "side by side on 3 slices of 660 MiB, 9 rounds");
    assert_eq!(
        facts[4..6],
        ["9 blocks", "2 of 3 interim analyses"],
        "{facts:?}"
    );
    let pair = &summary.cases[0].ranking.pairs[0].comparison;
    assert_eq!(pair.method, fsb_stats::Method::PairedOnSlices);
    assert!(
        pair.nominal_level.is_some_and(|level| level > pair.level),
        "{pair:?}"
    );
    let json: serde_json::Value = serde_json::from_str(&shown("json", &summary, &trials)).unwrap();
    let case = |label: &str| {
        json["cases"]
            .as_array()
            .unwrap()
            .iter()
            .find(|case| case["workload"] == label)
            .unwrap()
    };
    let equal = case("read 1M, warm");
    assert_eq!(equal["resolution"]["kind"], "equal_within");
    assert!(equal["resolution"]["change"].as_f64().unwrap() < 0.03);
    let scatter = &equal["cells"][1]["scatter"];
    assert!(
        (scatter["between_rounds"].as_f64().unwrap() - 0.043).abs() < 0.01,
        "{scatter}"
    );
    assert_eq!(
        case("rename 4K files")["cells"][1]["not_stationary"]["kind"],
        "trend"
    );
    let kinds = &case("create 4K files, durable, 2 threads")["cells"][1]["not_stationary"];
    assert_eq!(kinds["kind"], "two_kinds");
    assert!(
        (kinds["fast_share"].as_f64().unwrap() - 0.6).abs() < 0.15,
        "{kinds}"
    );
    let marked: Vec<&str> = summary
        .warnings
        .iter()
        .filter(|text| text.starts_with('~'))
        .map(String::as_str)
        .collect();
    assert_eq!(marked.len(), 1, "{:?}", summary.warnings);
    for part in [
        "~ 2 cells not stationary: xfs at create",
        "two kinds: ",
        "the rest at ",
        "rates fall by 15 % over",
    ] {
        assert!(marked[0].contains(part), "{part}: {marked:?}");
    }
    let page = shown("html", &summary, &trials).replace('\u{a0}', " ");
    assert!(
        page.contains("xfs against ext4: between rounds 4."),
        "the page tells both variances"
    );
}

#[test]
fn cases_are_decided_before_their_intervals_are_narrow() {
    let many = sample::side_by_side(&["ext4", "xfs"], 300);
    assert!(
        case_states(&many.0, &many.1)
            .iter()
            .any(|case| case.state.enough),
        "narrow in the end"
    );
    let (record, trials) = sample::side_by_side(&["ext4", "xfs"], 9);
    let states = case_states(&record, &trials);
    let state = |label: &str| {
        states
            .iter()
            .find(|case| case.workload == label)
            .unwrap()
            .state
    };
    let clear = state("random write 4K, durable each");
    assert!(clear.decided && !clear.enough, "{states:?}");
    assert!(!state("delete 4K files, durable").decided, "{states:?}");
    assert_eq!(states.len(), 12);
}

/// Half of the trials of the first workload and one more.
fn spoil(trials: &mut [Trial], how: impl Fn(&mut Trial)) -> String {
    let label = trials
        .iter()
        .find(|trial| trial.counts())
        .unwrap()
        .workload
        .clone();
    let mut of_case: Vec<&mut Trial> = trials
        .iter_mut()
        .filter(|trial| trial.counts() && trial.workload == label)
        .collect();
    let most = of_case.len() / 2 + 1;
    of_case.iter_mut().take(most).for_each(|trial| how(trial));
    label
}

#[test]
fn in_turn_a_case_that_was_mostly_affected_is_not_judged_and_the_headline_begins_with_that() {
    let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 10);
    let label = spoil(&mut trials, |trial| {
        trial.interference = vec![Interference::CpuSteal { share: 0.58 }]
    });
    let place = |summary: &Summary| {
        summary
            .cases
            .iter()
            .position(|case| case.workload == label)
            .unwrap()
    };
    let summary = Summary::of_run(&record, &trials);
    let case = &summary.cases[place(&summary)];
    assert_eq!(case.ranking.outcome, RankingOutcome::NotJudged);
    assert!(case.cells.iter().all(|cell| cell.mark.is_empty()));
    let against = case.cells[1].against.as_ref().unwrap();
    assert_eq!(
        (against.verdict, against.interval),
        (Verdict::NotJudged, None)
    );
    let remedy = "fsb would judge on an idle machine (see fsb doctor)";
    assert_eq!(
        case.finding,
        format!("Not judged at {label}: of 20 trials 11 affected by interference; {remedy}.")
    );
    let start = format!(
        "Not judged at 1 of 12 workloads: most trials were affected by interference or invalid; {remedy}. "
    );
    assert!(summary.headline.starts_with(&start), "{}", summary.headline);
    let others = summary.cases.iter().filter(|case| case.withheld.is_none());
    assert_eq!(
        others
            .filter(|case| case.ranking.outcome != RankingOutcome::NotJudged)
            .count(),
        11
    );
    let all = &summary.overall[1].as_ref().unwrap();
    assert_eq!(all.workloads, 11, "the mean leaves it out");
    let states = case_states(&record, &trials);
    let state = states.iter().find(|case| case.workload == label).unwrap();
    assert!(
        !state.state.decided && !state.state.enough,
        "more blocks may be quiet ones"
    );
    // In rounds it falls on all targets alike, and intervals hold.
    record.rounds.insert(
        label.clone(),
        fsb_model::run::Rounds {
            rounds: 9,
            units: 1,
            lead_in: true,
        },
    );
    let summary = Summary::of_run(&record, &trials);
    assert_ne!(
        summary.cases[place(&summary)].ranking.outcome,
        RankingOutcome::NotJudged
    );
    assert!(
        !summary.headline.starts_with("Not judged"),
        "{}",
        summary.headline
    );
}

#[test]
fn the_reason_why_a_case_is_not_judged_is_a_warning_only_if_the_headline_lacks_it() {
    let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 10);
    let label = spoil(&mut trials, |trial| {
        trial.interference = vec![Interference::CpuSteal { share: 0.58 }]
    });
    let warnings = |record: &fsb_model::RunRecord, trials: &[Trial]| {
        let summary = Summary::of_run(record, trials);
        let start = format!("not judged: {label}: ");
        summary
            .warnings
            .iter()
            .filter(|warning| warning.starts_with(&start))
            .count()
    };
    assert_eq!(warnings(&record, &trials), 0);
    // The headline begins with the interference, and the other cases are judged because they were
    // measured in rounds.
    trials
        .iter_mut()
        .for_each(|trial| trial.interference = vec![Interference::CpuSteal { share: 0.58 }]);
    for cell in record.cells.iter().filter(|cell| cell.label != label) {
        record.rounds.insert(
            cell.label.clone(),
            fsb_model::run::Rounds {
                rounds: 9,
                units: 1,
                lead_in: true,
            },
        );
    }
    assert_eq!(warnings(&record, &trials), 1);
    record.rounds.clear();
    assert_eq!(
        warnings(&record, &trials),
        0,
        "no case is judged, and the headline has the reason"
    );
}

#[test]
fn the_state_of_a_cell_has_the_whole_cause() {
    let (record, trials) = sample::run(&["ext4", "xfs"], 6);
    let state = |error: Option<&str>| {
        let mut trials = trials.clone();
        for trial in trials
            .iter_mut()
            .filter(|trial| trial.target == "xfs" && trial.workload == "write 1M, durable")
        {
            (trial.outcome, trial.error) = (Outcome::Failed, error.map(str::to_owned));
        }
        let summary = Summary::of_run(&record, &trials);
        (
            cell(&summary, "write 1M, durable", 1).state.clone(),
            cell(&summary, "write 1M, durable", 1).lost[0].clone(),
        )
    };
    let (failed, lost) = state(Some("write: it is full: ENOSPC"));
    assert_eq!(
        failed,
        CellState::Failed("write: it is full: ENOSPC".to_owned())
    );
    assert_eq!(lost.reason, "failed: write: it is full: ENOSPC");
    assert_eq!(state(None).0, CellState::Failed("failed".to_owned()));
}

#[test]
fn in_turn_a_row_of_mostly_invalid_trials_is_not_judged_by_the_rest() {
    let (record, mut trials) = sample::run(&["ext4", "xfs"], 30);
    let label = spoil(&mut trials, |trial| {
        (trial.outcome, trial.error) = (Outcome::Invalid, Some("not cold".to_owned()));
    });
    let summary = Summary::of_run(&record, &trials);
    let case = summary
        .cases
        .iter()
        .find(|case| case.workload == label)
        .unwrap();
    assert_eq!(
        case.withheld,
        Some(Withheld::Spoilt {
            trials: 60,
            affected: 0,
            invalid: 31
        })
    );
    assert!(
        case.finding.contains(": of 60 trials 31 invalid; "),
        "{}",
        case.finding
    );
    assert_eq!(case.ranking.outcome, RankingOutcome::NotJudged);
}

/// Returns one workload whose targets have these centres and scatters in ten blocks.
fn one_case(targets: &[(&str, f64, f64)]) -> (fsb_model::RunRecord, Vec<Trial>) {
    let pattern = [0.3, -0.8, 0.9, -0.2, 0.5, -0.6, 0.1, -0.9, 0.7, 0.0];
    let names: Vec<&str> = targets.iter().map(|(name, ..)| *name).collect();
    let (mut record, mut trials) = sample::run(&names, 10);
    record.cells.retain(|cell| cell.label == "read 1M, warm");
    trials.retain(|trial| trial.workload == "read 1M, warm");
    for trial in &mut trials {
        let place = names.iter().position(|name| *name == trial.target).unwrap();
        let (_, center, spread) = targets[place];
        let phase = 2 * place * place;
        trial.metrics.truncate(1);
        trial.metrics[0].value =
            center * (1.0 + spread * pattern[(trial.block as usize * (phase + 1) + phase) % 10]);
    }
    (record, trials)
}

#[test]
fn slower_means_slower_than_every_contender() {
    let (record, trials) = one_case(&[
        ("ext4", 130.0, 0.01),
        ("xfs", 120.0, 0.25),
        ("btrfs", 104.0, 0.08),
    ]);
    let summary = Summary::of_run(&record, &trials);
    let case = &summary.cases[0];
    assert_eq!(case.ranking.outcome, RankingOutcome::Undecided(vec![0, 1]));
    assert_eq!(
        case.cells
            .iter()
            .map(|cell| cell.mark.as_str())
            .collect::<Vec<_>>(),
        ["a?", "ab?", "b"]
    );
    assert!(
        case.finding.ends_with("; btrfs is slower than ext4."),
        "{}",
        case.finding
    );
    let (record, trials) = one_case(&[
        ("ext4", 130.0, 0.01),
        ("xfs", 125.0, 0.15),
        ("btrfs", 60.0, 0.05),
    ]);
    let finding = &Summary::of_run(&record, &trials).cases[0].finding;
    assert!(finding.ends_with("; btrfs is slower."), "{finding}");
}

/// The headline of a single case names every target, however slow, and has the level of the table.
#[test]
fn the_headline_names_a_loser_with_its_distance() {
    let headline = |label: &str| {
        let (mut record, mut trials) = sample::run(&["ext4", "xfs", "btrfs"], 10);
        record.cells.retain(|cell| cell.label == label);
        trials.retain(|trial| trial.workload == label);
        Summary::of_run(&record, &trials).headline
    };
    let first = headline("random write 4K, durable each");
    assert!(
        first.starts_with("xfs is fastest at random write 4K, durable each: +"),
        "{first}"
    );
    assert!(
        first.contains(" % against ext4 (95 % CI +") && !first.contains("98.3"),
        "{first}"
    );
    assert!(
        first.contains("; +") && first.ends_with("] against btrfs."),
        "{first}"
    );
    let of_baseline = headline("rename 4K files");
    assert!(
        of_baseline.contains(": xfs -") && of_baseline.contains("; btrfs -"),
        "{of_baseline}"
    );
}

#[test]
fn more_targets_than_a_sentence_holds_have_a_first_and_a_last_one() {
    let (record, trials) = sample::run(
        &[
            "ext4",
            "xfs",
            "btrfs",
            "ext4,noatime",
            "xfs,noatime",
            "btrfs,noatime",
        ],
        10,
    );
    let overall = Summary::of_run(&record, &trials).overall_answer.unwrap();
    assert!(
        overall.starts_with("Overall: from ") && overall.contains(" to btrfs"),
        "{overall}"
    );
}

#[test]
fn an_emulated_run_names_the_reason() {
    let (mut record, trials) = sample::run(&["ext4", "xfs"], 6);
    record.emulated = true;
    record.vm = Some(fsb_model::host::VmRecord {
        acceleration: "no /dev/kvm".to_owned(),
        ..Default::default()
    });
    let summary = Summary::of_run(&record, &trials);
    let start = "Emulated (TCG: no /dev/kvm): a functional run. 12 workloads in 6 blocks";
    assert!(summary.headline.starts_with(start), "{}", summary.headline);
    for format in ["text", "markdown", "html", "json"] {
        let text = shown(format, &summary, &trials)
            .replace('\u{a0}', " ")
            .replace("\n  ", " ");
        assert!(
            text.contains("mulated (TCG: no /dev/kvm): a functional run"),
            "{format}"
        );
    }
}

#[test]
fn simulated_times_are_named_on_every_output() {
    let (record, trials) = sample::run(&["null", "xfs"], 6);
    let summary = Summary::of_run(&record, &trials);
    let start = "Simulated times on null: no file system is measured there. ";
    assert!(summary.headline.starts_with(start), "{}", summary.headline);
    for format in ["text", "markdown", "html", "json"] {
        let text = shown(format, &summary, &trials).replace(['\u{a0}', '\n'], " ");
        assert!(text.contains("Simulated times on null"), "{format}");
    }
    assert_eq!(
        serde_json::to_value(&summary).unwrap()["targets"][0]["simulated"],
        true
    );
    let (record, trials) = sample::run(&["null", "slow=null,slowdown=10%"], 6);
    let all = Summary::of_run(&record, &trials).headline;
    assert!(
        all.starts_with("Simulated times: no file system is measured. "),
        "{all}"
    );
    let (record, trials) = sample::run(&["ext4", "xfs"], 6);
    assert!(
        !Summary::of_run(&record, &trials)
            .headline
            .contains("imulated")
    );
}

#[test]
fn a_difference_that_the_page_does_not_confirm_has_a_word_and_a_mark() {
    let (record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 10);
    let summary = Summary::of_run(&record, &trials);
    let case = summary
        .cases
        .iter()
        .find(|case| case.workload == "random read 4K, cold")
        .unwrap();
    let against = case.cells[1].against.as_ref().unwrap();
    assert_eq!(
        (against.verdict, case.cells[1].mark.as_str()),
        (Verdict::PerhapsSlower, "a†")
    );
    assert!(against.interval.unwrap().hi < 1.0);
    assert_eq!(
        case.finding,
        "A difference of no more than 5 % at random read 4K, cold between ext4 and xfs; ext4 is perhaps faster than xfs; \
         btrfs is slower."
    );
    for format in ["text", "markdown", "html"] {
        let text = shown(format, &summary, &trials)
            .replace('\u{a0}', " ")
            .replace("\n  ", " ");
        let legend = match format {
            "text" => "Tested over all rows: no common letter, >3 % apart; † differs per row only",
            _ => "† its interval excludes 0, but not if tested over all of them",
        };
        assert!(text.contains(legend), "{format}");
        assert!(!text.contains("no difference larger than 5 %"), "{format}");
    }
    assert!(shown("json", &summary, &trials).contains("\"perhaps_slower\""));
    assert!(shown("html", &summary, &trials).contains("perhaps slower"));
}

fn risk(cause: &str) -> fsb_model::run::Risk {
    let loss = "a power failure may lose synced data".to_owned();
    fsb_model::run::Risk {
        cause: cause.to_owned(),
        loss,
    }
}

/// Returns the sample's three targets, some of them unsafe.
fn with_unsafe(names: &[&str]) -> (fsb_model::RunRecord, Vec<Trial>) {
    let (mut record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 10);
    for name in names {
        record.targets.get_mut(*name).unwrap().risks = vec![risk("nobarrier")];
    }
    (record, trials)
}

fn winners(summary: &Summary) -> Vec<&str> {
    let winner = |case: &Workload| match case.ranking.outcome {
        RankingOutcome::Winner(winner) => Some(summary.targets[winner].name.as_str()),
        _ => None,
    };
    summary.cases.iter().filter_map(winner).collect()
}

#[test]
fn an_unsafe_target_is_compared_and_does_not_win() {
    let (record, trials) = with_unsafe(&["xfs"]);
    let summary = Summary::of_run(&record, &trials);
    assert_eq!(
        summary.headline,
        "ext4 is fastest at 10 of 12 workloads; 1 equal within 3 %, 1 undecided; xfs (unsafe: a power failure may lose \
         synced data) is faster at 4. Overall: btrfs -24 % [-25 -23] against ext4 (in this run)."
    );
    assert!(!winners(&summary).contains(&"xfs"));
    let case = &summary.cases[0];
    assert!(
        case.finding
            .ends_with("; xfs (unsafe: a power failure may lose synced data) is faster."),
        "{}",
        case.finding
    );
    assert!(
        case.finding
            .starts_with("ext4 is fastest at write 1M, durable: btrfs -"),
        "{}",
        case.finding
    );
    assert_eq!(
        case.cells
            .iter()
            .map(|cell| cell.mark.as_str())
            .collect::<Vec<_>>(),
        ["b", "a", "c"],
        "letters compare all"
    );
    assert!(
        summary.overall[1].is_none() && summary.overall[2].is_some(),
        "only safe targets are summed up"
    );
    let durable = "durable cases (write 1M, durable; random write 4K, durable each; append 4K, durable each; create 4K \
                   files, durable; create 4K files, durable, 2 threads; delete 4K files, durable): an unsafe target does \
                   different work than a safe one: xfs is unsafe: a power failure may lose synced data (nobarrier)";
    assert!(
        summary.warnings[..summary.urgent]
            .iter()
            .any(|warning| warning == durable),
        "{:?}",
        summary.warnings
    );
    for format in ["text", "markdown", "html", "json", "csv"] {
        let text = shown(format, &summary, &trials);
        let mark = if ["json", "csv"].contains(&format) {
            "unsafe"
        } else {
            "xfs (unsafe)"
        };
        assert!(text.contains(mark), "{format}: {text}");
    }
    let page = shown("html", &summary, &trials);
    assert!(page.contains("\"name\":\"xfs (unsafe)\""), "charts mark it");
    assert!(
        page.contains("</span>xfs (unsafe)"),
        "heads of tables mark it"
    );
}

#[test]
fn a_risky_run_lets_an_unsafe_target_win_and_names_the_risk_first() {
    let (mut record, trials) = with_unsafe(&["xfs"]);
    record.plan.risky = true;
    let summary = Summary::of_run(&record, &trials);
    let start = "xfs is unsafe: a power failure may lose synced data (nobarrier). xfs (unsafe) is fastest at 4 of 12 workloads";
    assert!(summary.headline.starts_with(start), "{}", summary.headline);
    assert!(winners(&summary).contains(&"xfs") && summary.overall[1].is_some());
}

#[test]
fn unsafe_targets_compete_if_no_target_is_safe() {
    let (record, trials) = with_unsafe(&["ext4", "xfs", "btrfs"]);
    let summary = Summary::of_run(&record, &trials);
    assert_eq!(
        winners(&summary),
        winners(&Summary::of_run(
            &sample::run(&["ext4", "xfs", "btrfs"], 10).0,
            &trials
        ))
    );
    assert!(
        summary.headline.starts_with("ext4 is unsafe: "),
        "{}",
        summary.headline
    );
    assert!(
        summary
            .warnings
            .iter()
            .any(|warning| warning.contains(": no target is safe: ext4 is unsafe"))
    );
}

#[test]
fn the_only_safe_target_is_named_as_such() {
    let (record, trials) = with_unsafe(&["xfs", "btrfs"]);
    let summary = Summary::of_run(&record, &trials);
    assert_eq!(
        summary.headline,
        "ext4 is the only safe target at 12 workloads; xfs (unsafe: a power failure may lose synced data) is faster at 4."
    );
    assert_eq!(
        summary.cases[0].finding,
        "ext4 is the only safe target at write 1M, durable; btrfs (unsafe) is slower; xfs (unsafe: a power failure may \
         lose synced data) is faster."
    );
    assert_eq!(summary.cases[0].cells[1].mark, "a");
}

/// Returns a run in which the server of xfs is not known to sync names, at the cases that make
/// some.
fn with_unproven() -> (RunRecord, Vec<Trial>) {
    let (mut record, mut trials) = sample::run(&["ext4", "xfs", "btrfs"], 10);
    record.targets.get_mut("xfs").unwrap().unproven = vec![Unproven {
        promise: Promise::SyncedNames,
        reason: "the device wrote nothing when a directory was synced".to_owned(),
    }];
    for trial in &mut trials {
        if trial.target == "xfs" && trial.workload.starts_with("write 1M, durable") {
            trial.observed.unproven = vec![Promise::SyncedNames];
        }
    }
    (record, trials)
}

#[test]
fn a_value_that_is_not_known_to_be_durable_is_compared_and_does_not_win() {
    let (record, trials) = with_unproven();
    let summary = Summary::of_run(&record, &trials);
    let case = &summary.cases[0];
    assert!(
        case.finding
            .starts_with("ext4 is fastest at write 1M, durable: btrfs -")
            && case
                .finding
                .ends_with("; xfs (not known to be durable) is faster."),
        "{}",
        case.finding
    );
    assert_eq!(case.cells[1].mark, "a", "letters compare all");
    let others = summary.cases.iter().skip(1);
    let winners: Vec<&RankingOutcome> = others.map(|case| &case.ranking.outcome).collect();
    assert!(
        winners.contains(&&RankingOutcome::Winner(1)),
        "it wins where nothing is unproven: {winners:?}"
    );
    let statement = "‡ xfs: not known to be durable: the device wrote nothing when a directory was synced (write 1M, durable)";
    assert_eq!(summary.problems[0], statement);
    for format in ["text", "markdown", "html"] {
        let text = shown(format, &summary, &trials);
        assert!(text.contains('‡'), "{format}: {text}");
    }
    let json = shown("json", &summary, &trials);
    assert!(json.contains("\"synced_names\""), "{json}");
    // All are equally unknown.
    let (record, mut trials) = with_unproven();
    for trial in &mut trials {
        trial.observed.unproven = vec![Promise::SyncedNames];
    }
    let alike = Summary::of_run(&record, &trials);
    assert_eq!(alike.cases[0].ranking.outcome, RankingOutcome::Winner(1));
}

#[test]
fn the_only_target_that_is_known_to_be_durable_is_named_as_such() {
    let (record, mut trials) = with_unproven();
    for trial in &mut trials {
        if trial.target != "ext4" {
            trial.observed.unproven = vec![Promise::SyncedFiles];
        }
    }
    let summary = Summary::of_run(&record, &trials);
    let finding = &summary.cases[0].finding;
    assert!(
        finding.starts_with("ext4 is the only target known to be durable at write 1M, durable; "),
        "{finding}"
    );
}

#[test]
fn a_long_name_keeps_its_mark() {
    let long = "ext4,noatime,data=writeback,barrier=0";
    let (mut record, trials) = sample::run(&["ext4", long], 6);
    record.targets.get_mut(long).unwrap().risks = vec![risk("barrier=0")];
    let summary = Summary::of_run(&record, &trials);
    let screen = shown("text", &summary, &trials);
    assert!(
        screen.contains(" ext4,noatime,data… (unsafe)\nwrite 1M, durable "),
        "{screen}"
    );
    assert!(
        screen
            .lines()
            .all(|line| textwrap::core::display_width(line) <= 80),
        "{screen}"
    );
}

/// Conclusions about several targets that a report draws.
fn conclusions(summary: &Summary) -> usize {
    let concludes = |case: &&Workload| {
        matches!(
            case.ranking.outcome,
            RankingOutcome::Winner(_) | RankingOutcome::Tie(_) | RankingOutcome::Undecided(_)
        )
    };
    let is_judged = |overall: &&Overall| overall.comparison.verdict != Verdict::NotJudged;
    let overall = summary.overall.iter().flatten().filter(is_judged).count();
    summary.cases.iter().filter(concludes).count()
        + overall
        + summary.findings.iter().flatten().count()
}

#[test]
fn a_run_of_low_trust_draws_no_conclusion() {
    type Change = fn(&mut fsb_model::RunRecord, &mut Vec<Trial>);
    fn affect(trials: &mut [Trial]) {
        trials
            .iter_mut()
            .for_each(|trial| trial.interference = vec![Interference::CpuSteal { share: 0.58 }]);
    }
    let changes: [(Change, TrustLevel); 6] = [
        (|_, _| (), TrustLevel::Fair),
        (
            |record, _| record.warnings.push(sample::concurrent()),
            TrustLevel::Low,
        ),
        (
            |record, _| record.warnings.push(sample::unbacked_memory()),
            TrustLevel::Fair,
        ),
        (|_, trials| affect(trials), TrustLevel::Low),
        (
            |_, trials| trials.retain(|trial| trial.block < 4),
            TrustLevel::Low,
        ),
        (
            |record, trials| {
                let rounds = fsb_model::run::Rounds {
                    rounds: 9,
                    units: 1,
                    lead_in: true,
                };
                record.rounds = record
                    .cells
                    .iter()
                    .map(|cell| (cell.label.clone(), rounds))
                    .collect();
                affect(trials);
            },
            TrustLevel::Fair,
        ),
    ];
    for (number, (change, level)) in changes.into_iter().enumerate() {
        let (mut record, mut trials) = sample::run(&["ext4", "xfs", "btrfs"], 8);
        change(&mut record, &mut trials);
        let summary = Summary::of_run(&record, &trials);
        let found = summary.trust.as_ref().unwrap();
        assert_eq!(found.level, level, "{number}: {found:?}");
        assert_eq!(
            conclusions(&summary) > 0,
            level != TrustLevel::Low,
            "{number}: {}",
            summary.headline
        );
        for format in ["text", "markdown", "html"] {
            let text = shown(format, &summary, &trials);
            let low = text.contains("rust: low");
            assert!(
                !(low && (text.contains("is fastest") || text.contains("equal within"))),
                "{number}: {text}"
            );
        }
    }
    let (record, mut trials) = sample::run(&["ext4", "xfs"], 8);
    for trial in trials.iter_mut().filter(|trial| trial.order % 10 < 4) {
        (trial.outcome, trial.error) = (Outcome::Failed, Some("no space".to_owned()));
    }
    let summary = Summary::of_run(&record, &trials);
    assert_eq!(
        (summary.trust.as_ref().unwrap().level, conclusions(&summary)),
        (TrustLevel::Low, 0)
    );
    assert!(
        summary
            .headline
            .contains(" trials have no value; fsb would judge with "),
        "{}",
        summary.headline
    );
}

#[test]
fn memory_that_was_not_touched_withholds_cases_that_write() {
    let (mut record, trials) = sample::run(&["ext4", "xfs"], 10);
    record.warnings.push(sample::unbacked_memory());
    let summary = Summary::of_run(&record, &trials);
    let start = "Not judged at 7 of 12 workloads: guest memory was left as it was (control guest-memory=off); leave \
                 out the control guest-memory=off. xfs is fastest at 1 of 12 workloads";
    assert!(summary.headline.starts_with(start), "{}", summary.headline);
    for case in &summary.cases {
        let writes =
            ["write", "append", "create", "rename", "delete"].contains(&case.operation.as_str());
        assert_eq!(case.withheld.is_some(), writes, "{}", case.workload);
        assert!(
            case.cells.iter().all(|cell| cell.estimate.is_some()),
            "values stay"
        );
        assert!(
            !writes
                || case
                    .cells
                    .iter()
                    .all(|cell| cell.secondary.iter().all(|found| found.against.is_none()))
        );
    }
    assert_eq!(summary.overall[1].as_ref().unwrap().workloads, 5);
}

#[test]
fn cases_that_allocate_memory_are_not_judged_where_too_little_was_touched() {
    let (mut record, trials) = sample::run(&["ext4", "xfs"], 10);
    let label = "write 1M, durable".to_owned();
    record.memory_cells = vec![label.clone()];
    record.memory = Some(fsb_model::run::MemoryTouched::new(2 << 30, 1 << 30));
    let of = |record: &fsb_model::RunRecord| Summary::of_run(record, &trials).numbers.cases;
    let (withheld, others): (Vec<_>, Vec<_>) = of(&record)
        .into_iter()
        .partition(|case| case.withheld.is_some());
    assert_eq!(
        withheld
            .iter()
            .map(|case| &case.workload)
            .collect::<Vec<_>>(),
        [&label]
    );
    let why = withheld[0]
        .withheld
        .as_ref()
        .map(|withheld| withheld.to_text());
    let expected = "only 1.00 GiB of the 2.00 GiB of memory that the run may need was touched";
    assert_eq!(
        (why.as_deref(), &withheld[0].ranking.outcome),
        (Some(expected), &RankingOutcome::NotJudged)
    );
    assert!(
        others
            .iter()
            .any(|case| case.ranking.outcome != RankingOutcome::NotJudged)
    );
    record.memory = Some(fsb_model::run::MemoryTouched::new(2 << 30, 2 << 30));
    assert!(of(&record).iter().all(|case| case.withheld.is_none()));
    record.memory = Some(fsb_model::run::MemoryTouched {
        reported: true,
        ..fsb_model::run::MemoryTouched::new(2 << 30, 2 << 30)
    });
    assert!(
        of(&record).iter().any(|case| case.withheld.is_some()),
        "the hypervisor may take it back"
    );
}

fn compared(targets: &[&str], factor: f64) -> EarlierRun {
    let (record, trials) = sample::run(targets, 6);
    let now = Summary::of_run(&record, &trials);
    let mut changed = trials.clone();
    let last = *targets.last().unwrap();
    for trial in changed
        .iter_mut()
        .filter(|trial| trial.target == last && trial.workload == "rename 4K files")
    {
        trial
            .metrics
            .iter_mut()
            .for_each(|metric| metric.value *= factor);
    }
    let then = Summary::of_run(&record, &changed);
    compare_earlier((&now.numbers, &record), (&then.numbers, &record)).unwrap()
}

#[test]
fn the_cell_that_differs_most_is_named_with_both_ratios() {
    let earlier = compared(&["ext4", "xfs"], 1.2);
    assert_eq!((earlier.median, earlier.most.target.as_str()), (0.0, "xfs"));
    let line = earlier.line();
    assert!(
        line.contains(" UTC differed by 0 % (median over ")
            && line.contains("most at rename 4K files: xfs "),
        "{line}"
    );
    let ratio = earlier.most.then.number() / earlier.most.now.number();
    assert!((ratio - 1.2).abs() < 1e-9, "{ratio}");
}

#[test]
fn the_values_of_a_single_target_are_compared() {
    let line = compared(&["ext4"], 0.5).line();
    assert!(
        line.contains("/s then, ") && line.ends_with("/s now"),
        "{line}"
    );
}

#[test]
fn cases_of_other_units_are_not_compared() {
    let (record, trials) = sample::run(&["ext4", "xfs"], 6);
    let summary = Summary::of_run(&record, &trials);
    let mut other = record.clone();
    let units = summary.cases.iter().map(|case| {
        (
            case.workload.clone(),
            [("files".to_owned(), 7.into())].into_iter().collect(),
        )
    });
    other.units = units.collect();
    assert_eq!(
        compare_earlier((&summary.numbers, &record), (&summary.numbers, &other)),
        None
    );
}
