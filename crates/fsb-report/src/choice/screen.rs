//! The text of a result: the answer, the commands to use it, and the results of all candidates.

use super::document::{Candidate, CandidateState, Choice, Dropped};
use crate::screen::{WIDTH, paragraph};
use crate::show::{Change, counted, listed_or_counted, percent};
use crate::{mark, visible};

/// The answer names at most this number of candidates that are not significantly different from the
/// leader.
const NAMED: usize = 6;
/// The maximum width of a name in the table. The numbers of a longer name have a line of their own.
const NAME: usize = 40;
/// The minimum width of the numbers in the table.
const NUMBERS: usize = 24;

/// Returns the whole screen in `width` columns, at least 80.
pub fn screen(choice: &Choice, width: usize) -> String {
    let width = width.max(WIDTH);
    let mut lines = Vec::new();
    answer(&mut lines, choice, width);
    commands(&mut lines, choice);
    table(&mut lines, choice, width);
    effect_lines(&mut lines, choice, width);
    not_raced(&mut lines, choice, width);
    lines.push(String::new());
    let mut facts = choice.facts.clone();
    facts.insert(0, counted(choice.race_rounds, "race round"));
    paragraph(&mut lines, width, &facts.join(" · "), "", "  ");
    if let Some(finished) = &choice.finished {
        paragraph(
            &mut lines,
            width,
            &format!("ended after {finished}"),
            "",
            "  ",
        );
    }
    for warning in &choice.warnings {
        paragraph(&mut lines, width, &format!("warning: {warning}"), "", "  ");
    }
    lines.join("\n") + "\n"
}

/// Returns the state of the race in a line: `31 of 40 left, ext4,noatime (+4 % [+2 +6]) leads`.
pub fn standing(choice: &Choice) -> String {
    let all = choice
        .candidates
        .iter()
        .filter(|candidate| candidate.state != CandidateState::NotRaced)
        .count();
    let Some(leader) = leader(choice) else {
        return format!("{} to race", counted(all, "candidate"));
    };
    let by = match leader.ratio {
        Some(ratio) if leader.name != choice.baseline => format!(" ({})", change(leader, ratio)),
        _ => String::new(),
    };
    format!(
        "{} of {all} left, {}{by} leads",
        choice.answer.len(),
        leader.name
    )
}

fn leader(choice: &Choice) -> Option<&Candidate> {
    choice
        .candidates
        .iter()
        .find(|candidate| candidate.state == CandidateState::Fastest)
}

fn change(candidate: &Candidate, ratio: f64) -> String {
    Change::between(ratio, candidate.interval).text()
}

fn answer(lines: &mut Vec<String>, choice: &Choice, width: usize) {
    let mut say = |text: &str| paragraph(lines, width, text, "", "");
    let baseline = &choice.baseline;
    let raced = choice
        .candidates
        .iter()
        .filter(|candidate| candidate.race_rounds > 0)
        .count();
    let Some(leader) = leader(choice) else {
        return say(&match choice.race_rounds {
            0 => "No answer: no candidate has a value to compare.".to_owned(),
            race_rounds => format!(
                "No answer: {} of {raced} candidates are too few values for an interval. Use a larger --budget, or name \
                 fewer candidates with --only.",
                counted(race_rounds, "race round")
            ),
        });
    };
    let others: Vec<String> = choice
        .answer
        .iter()
        .skip(1)
        .map(|name| {
            choice
                .candidates
                .iter()
                .find(|one| one.name == *name)
                .map_or_else(String::new, Candidate::label)
        })
        .collect();
    let (theta, wrong) = (percent(choice.theta), percent(choice.error));
    let over = leader
        .ratio
        .filter(|_| leader.name != *baseline)
        .map(|ratio| change(leader, ratio));
    let name = leader.label();
    if !leader.risks.is_empty() {
        say(&format!(
            "{}.",
            mark::statement(&leader.name, &leader.risks)
        ));
    }
    match (choice.decided, over) {
        (true, None) => say(&format!(
            "{name} with its defaults: none of {} is faster by more than {theta} (error probability at most {wrong}).",
            counted(raced - 1, "other")
        )),
        (true, Some(over)) => say(&format!(
            "{name} is the fastest of {raced}, or within {theta} of the fastest: {over} against {baseline} (error \
             probability at most {wrong})."
        )),
        (false, over) => {
            let over = over
                .map(|over| format!(", {over} against {baseline}"))
                .unwrap_or_default();
            let rounds = counted(leader.race_rounds, "race round");
            let (left, dropped) = (choice.answer.len(), dropped_candidates(choice).count());
            let known = match dropped {
                0 => format!("none of {raced} candidates is shown to be slower than another"),
                _ => format!(
                    "one of {left} is the fastest of {} (error probability at most {wrong}); {dropped} {} slower than the \
                     leader of that time when dropped",
                    left + dropped,
                    if dropped == 1 { "was" } else { "were" }
                ),
            };
            say(&format!(
                "Not decided: {known}. {name} leads after {rounds}{over}."
            ));
        }
    }
    if !others.is_empty() {
        let named = match others.len() {
            0..=NAMED => others.join("; "),
            more => format!("{}; and {} more", others[..NAMED].join("; "), more - NAMED),
        };
        say(&format!("Not significantly different from it: {named}."));
    }
    let advised = advised(choice);
    if let Some(advised) = advised.filter(|advised| {
        advised.name != leader.name || (advised.name == *baseline && !choice.decided)
    }) {
        say(&advice(choice, advised));
    }
    // The hazards of an unsafe leader come before everything else.
    if let Some(risk) = leader.risk.as_ref().filter(|_| {
        leader.risks.is_empty() && advised.is_some_and(|advised| advised.name == leader.name)
    }) {
        say(&format!("Risk of {name}: {risk}."));
    }
    if !choice.decided && choice.finished.is_some() {
        say("A longer --budget separates more of them.");
    }
}

/// Returns the candidate to use. While none is shown to be faster than a file system with its
/// defaults, that is the baseline, or else the fastest of those with defaults. Otherwise it is the
/// leader.
fn advised(choice: &Choice) -> Option<&Candidate> {
    let may_win = || {
        let states = [
            CandidateState::Fastest,
            CandidateState::NotSignificantlyDifferent,
        ];
        choice
            .candidates
            .iter()
            .filter(move |candidate| states.contains(&candidate.state))
    };
    let of_baseline = may_win().find(|candidate| candidate.name == choice.baseline);
    leader(choice).map(|leader| {
        of_baseline
            .or_else(|| may_win().find(|candidate| candidate.is_default))
            .unwrap_or(leader)
    })
}

/// Returns the advice to use the defaults.
fn advice(choice: &Choice, advised: &Candidate) -> String {
    let verb = if advised.name == choice.baseline {
        "Keep"
    } else {
        "Use"
    };
    let what = if advised.is_default {
        format!("the defaults of {}", advised.name)
    } else {
        advised.label()
    };
    format!("{verb} {what}: no candidate is shown to be faster.")
}

/// Returns the candidates that were dropped as slower.
fn dropped_candidates(choice: &Choice) -> impl Iterator<Item = &Candidate> {
    choice
        .candidates
        .iter()
        .filter(|candidate| candidate.dropped.is_some())
}

/// Appends the commands that format and mount the advised candidate. Keeping the baseline takes
/// none.
fn commands(lines: &mut Vec<String>, choice: &Choice) {
    let Some((leader, advised)) = leader(choice).zip(advised(choice)) else {
        return;
    };
    let is_answer = choice.decided && advised.name == leader.name;
    if advised.commands.is_empty() || (advised.name == choice.baseline && !is_answer) {
        return;
    }
    lines.push(String::new());
    lines.push(match is_answer {
        true => "To format and mount it, and its line of /etc/fstab:".to_owned(),
        false => format!(
            "To format and mount {}, which may not be the fastest:",
            advised.label()
        ),
    });
    let typed = advised.commands.iter().chain(&advised.fstab);
    lines.extend(typed.map(|line| format!("  {}", visible::line(line))));
}

fn table(lines: &mut Vec<String>, choice: &Choice, width: usize) {
    let raced: Vec<&Candidate> = choice
        .candidates
        .iter()
        .filter(|candidate| candidate.race_rounds > 0)
        .collect();
    if raced.is_empty() {
        return;
    }
    let longest = widest(raced.iter().map(|candidate| candidate.label())).min(NAME);
    let numbers = |candidate: &Candidate| numbers(choice, candidate);
    let wide = widest(raced.iter().map(|candidate| numbers(candidate))).max(NUMBERS);
    lines.push(String::new());
    lines.push(
        format!(
            "  {:longest$}  {:<wide$} rounds",
            "",
            format!("against {}", choice.baseline)
        )
        .trim_end()
        .to_owned(),
    );
    let mut risky = false;
    for candidate in &raced {
        let numbers = numbers(candidate);
        let sign = match candidate.state {
            CandidateState::Fastest => "*",
            CandidateState::NotSignificantlyDifferent if leader(choice).is_none() => " ",
            CandidateState::NotSignificantlyDifferent => "?",
            CandidateState::Slower | CandidateState::NotRaced => " ",
        };
        risky |= candidate.risk.is_some();
        let risk = if candidate.risk.is_some() { "!" } else { "" };
        let name = candidate.label();
        let line = format!("{numbers:<wide$} {:>5}  {risk}", candidate.race_rounds);
        if name.chars().count() > longest {
            paragraph(lines, width, &name, &format!("{sign} "), "    ");
            lines.push(format!("  {:longest$}  {line}", "").trim_end().to_owned());
        } else {
            lines.push(
                format!("{sign} {name:<longest$}  {line}")
                    .trim_end()
                    .to_owned(),
            );
        }
    }
    let together = percent(1.0 - choice.error);
    let first = if choice.decided { "fastest" } else { "leads" };
    let mut legend = format!(
        "* {first}; ? not significantly different from it. The intervals of all candidates hold together at {together}, after \
         every race round."
    );
    if leader(choice).is_none() {
        legend.clear();
    }
    if dropped_candidates(choice).next().is_some() {
        legend += " dropped at: the upper bound of its ratio to the leader of that time.";
    }
    if risky {
        legend += " ! risky.";
    }
    paragraph(lines, width, &legend, "  ", "  ");
    if choice.workloads.len() > 1 {
        let all = listed_or_counted(&choice.workloads, "workload");
        paragraph(
            lines,
            width,
            &format!("Geometric mean of {all}."),
            "  ",
            "  ",
        );
    }
}

fn widest(texts: impl Iterator<Item = impl AsRef<str>>) -> usize {
    let widths = texts.map(|text| text.as_ref().chars().count());
    widths.max().unwrap_or(0)
}

/// Returns the ratio of a candidate to the baseline: with its interval while it may win, and with
/// the bound that dropped it otherwise. Its interval against the baseline may contain 1, although
/// it was slower than the leader.
fn numbers(choice: &Choice, candidate: &Candidate) -> String {
    let ratio = candidate
        .ratio
        .filter(|_| candidate.name != choice.baseline);
    match (&candidate.dropped, ratio) {
        (Some(Dropped { at_most, .. }), Some(ratio)) => {
            format!(
                "{}, dropped at < {}",
                Change::between(ratio, None).text(),
                loss(*at_most)
            )
        }
        (Some(Dropped { at_most, .. }), None) => format!("–, dropped at < {}", loss(*at_most)),
        (None, Some(ratio)) => change(candidate, ratio),
        (None, None) if candidate.name == choice.baseline => "–".to_owned(),
        (None, None) => String::new(),
    }
}

/// Formats an upper bound below 1 as a change, rounded towards none: `-5 %`, `-0.4 %`.
pub(super) fn loss(at_most: f64) -> String {
    let loss = (1.0 - at_most) * 100.0;
    let rounded = if loss < 1.0 {
        (loss * 10.0).floor() / 10.0
    } else {
        loss.floor()
    };
    format!("{} %", if rounded > 0.0 { -rounded } else { 0.0 })
}

fn effect_lines(lines: &mut Vec<String>, choice: &Choice, width: usize) {
    if choice.effects.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push(
        "What each option contributes, averaged over the others, by the first stage:".to_owned(),
    );
    let longest = widest(choice.effects.iter().map(|effect| &effect.option)).min(NAME);
    for effect in &choice.effects {
        let change = Change::between(effect.ratio, Some(effect.interval)).text();
        lines.push(format!("  {:<longest$}  {change}", effect.option));
    }
    let note = "The design confounds the interaction of two options with that of two others.";
    paragraph(lines, width, note, "  ", "  ");
}

fn not_raced(lines: &mut Vec<String>, choice: &Choice, width: usize) {
    let out: Vec<&Candidate> = choice
        .candidates
        .iter()
        .filter(|candidate| candidate.state == CandidateState::NotRaced)
        .collect();
    if out.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push("Not raced:".to_owned());
    for candidate in out {
        let why = candidate.reason.as_deref().unwrap_or("it gave no value");
        paragraph(
            lines,
            width,
            &format!("{}: {why}", candidate.label()),
            "  ",
            "    ",
        );
    }
}
