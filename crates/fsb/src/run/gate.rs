//! The gate of a run: judges a finished run, prints the answer, and decides the exit code.

use fsb_model::{RunRecord, notice};
use fsb_report::check::Check;
use fsb_report::gate::GateAnswer;
use fsb_report::summary::{BoundState, Summary, bounds};
use fsb_results::acknowledged::{Applied, today};

use crate::exit;
use crate::message::notify;
use crate::results::RunGate;

/// The answer of a gate about a run.
pub enum JudgedRun {
    /// The state and the sentences of the bounds.
    Bounds(Option<BoundState>, String),
    /// The answer with the effect of acknowledgements.
    Worse(GateAnswer, Applied),
}

impl JudgedRun {
    /// Judges a run.
    pub fn new(gate: &RunGate, summary: &Summary, record: &RunRecord) -> JudgedRun {
        match gate {
            RunGate::Bounds => {
                let lines = bounds::lines(summary).join(" ");
                JudgedRun::Bounds(bounds::worst(summary), lines)
            }
            RunGate::Worse { gate, acknowledged } => {
                let mut answer = gate.answer(summary, record);
                let applied = acknowledged.apply(&mut answer.checks, today());
                JudgedRun::Worse(answer, applied)
            }
        }
    }

    /// Returns the checks for reports, if they differ from those of the run.
    pub fn checks(&self) -> Option<&[Check]> {
        match self {
            JudgedRun::Bounds(..) => None,
            JudgedRun::Worse(answer, _) => Some(&answer.checks),
        }
    }

    /// Prints the answer. Returns the exit code of a run that would have `code` without a gate.
    pub fn finish(self, code: u8) -> u8 {
        match self {
            JudgedRun::Bounds(state, lines) if code == exit::DONE => print_bounds(state, lines),
            JudgedRun::Worse(answer, applied) if [exit::DONE, exit::TRIALS].contains(&code) => {
                print_worse(&answer, &applied)
            }
            _ => code,
        }
    }
}

fn print_bounds(state: Option<BoundState>, lines: String) -> u8 {
    let (notice, exit, found) = match state {
        Some(BoundState::Pass) => (&notice::BOUND_KEPT, exit::DONE, "pass"),
        Some(BoundState::Fail) => (&notice::BOUND_MISSED, exit::GATE, "fail"),
        Some(BoundState::CannotTell) | None => {
            (&notice::BOUND_UNDECIDED, exit::REQUEST, "cannot tell")
        }
    };
    let text = format!("--gate: {found}: {lines}");
    notify(notice, [("answers", lines.into())], &text);
    exit
}

fn print_worse(answer: &GateAnswer, applied: &Applied) -> u8 {
    let mut text = format!("--fail-if: {}", answer.sentence());
    for (_, what, cases) in applied.parts() {
        text += &format!("; {what}: {}", cases.join("; "));
    }
    let worst = answer.largest();
    match answer.state() {
        BoundState::Pass => {
            let fields = [
                ("judged", answer.checks.len().into()),
                ("excluded", worst.into()),
            ];
            notify(&notice::GATE_PASSED, fields, &text);
            exit::DONE
        }
        BoundState::Fail => {
            let fields = [("slower", answer.sentence().into())];
            notify(&notice::GATE_FAILED, fields, &text);
            exit::GATE
        }
        BoundState::CannotTell => {
            let fields = [("reason", "undecided".into()), ("possible", worst.into())];
            notify(&notice::GATE_UNDECIDED, fields, &text);
            exit::REQUEST
        }
    }
}
