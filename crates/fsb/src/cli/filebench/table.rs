//! Converts a measurement to the lines of filebench's breakdown.

use fsb_compat::filebench::print::{Kind, Line};
use fsb_engine::{Measurement, latency};
use fsb_model::flow::{Flow, Op};

/// Returns one line per operation of the file, in its order; steps of the same name share a line.
pub fn lines(flow: &Flow, measured: &Measurement) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let counted = flow.threads.iter().flat_map(|thread| &thread.steps).filter(|step| step.op.is_counted());
    for step in counted {
        let name = step.title();
        if !lines.iter().any(|line| line.name == name) {
            lines.push(line(name, step.op, measured));
        }
    }
    lines
}

fn line(name: &str, op: Op, measured: &Measurement) -> Line {
    let histogram = measured.latency.get(name).and_then(|text| latency::decode(text).ok());
    let histogram = histogram.filter(|histogram| !histogram.is_empty());
    let seconds = |ns: f64| ns * 1e-9;
    let of =
        |value: &dyn Fn(&hdrhistogram::Histogram<u64>) -> f64| histogram.as_ref().map_or(0.0, |h| seconds(value(h)));
    Line {
        name: name.to_owned(),
        operations: histogram.as_ref().map_or(0, hdrhistogram::Histogram::len),
        bytes: measured.counts.get(&format!("{name}_bytes")).copied().unwrap_or(0),
        mean: of(&|histogram| histogram.mean()),
        least: of(&|histogram| histogram.min() as f64),
        most: of(&|histogram| histogram.max() as f64),
        kind: match op {
            Op::Read | Op::ReadWhole => Kind::Read,
            op if op.writes() => Kind::Write,
            _ => Kind::Other,
        },
    }
}
