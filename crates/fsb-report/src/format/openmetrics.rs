//! OpenMetrics text: values with their intervals and the answers of the checks, as gauges.
//!
//! Source: OpenMetrics 1.0, section "Text format". Prometheus reads it, also through the text file
//! collector of its node exporter.

use std::collections::BTreeMap;
use std::io::{self, Write};

use fsb_model::Unit;

use super::member::Format;
use crate::check::Check;
use crate::measure::{Measure, measures};
use crate::report::Report;

pub(super) const FORMAT: Format = Format {
    name: "openmetrics",
    extension: "prom",
    about: "OpenMetrics text for Prometheus: values, intervals, answers of a gate (a.prom)",
    binary: false,
    checks: true,
    write,
};

/// A family of gauges: its unit, its description, and the labels and value of each sample.
struct Family {
    unit: Option<&'static str>,
    about: String,
    samples: Vec<(String, f64)>,
}

fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    let mut families = BTreeMap::new();
    for measure in measures(report) {
        add_measure(&mut families, &measure);
    }
    for check in report.checks().iter() {
        add_check(&mut families, check);
    }
    for (name, family) in families {
        writeln!(output, "# TYPE {name} gauge")?;
        if let Some(unit) = family.unit {
            writeln!(output, "# UNIT {name} {unit}")?;
        }
        writeln!(output, "# HELP {name} {}", escape(&family.about))?;
        for (labels, value) in family.samples {
            writeln!(output, "{name}{{{labels}}} {value}")?;
        }
    }
    output.write_all(b"# EOF\n")
}

fn add_measure(families: &mut BTreeMap<String, Family>, measure: &Measure) {
    let unit = (measure.unit != Unit::Count).then(|| measure.unit.name());
    let names = [("case", measure.case.as_str()), ("target", &measure.target)];
    let interval = measure.interval;
    let values = [
        ("", "", Some(measure.value)),
        (
            "_lower",
            ", lower end of its 95 % interval",
            interval.map(|found| found.lo),
        ),
        (
            "_upper",
            ", upper end of its 95 % interval",
            interval.map(|found| found.hi),
        ),
    ];
    for (end, about, value) in values {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            continue;
        };
        let metric = metric_name(&measure.metric);
        let suffix = unit.map(|unit| format!("_{unit}")).unwrap_or_default();
        let family = families
            .entry(format!("fsb_{metric}{end}{suffix}"))
            .or_insert_with(|| Family {
                unit,
                about: format!("{}{about}", measure.metric.replace('_', " ")),
                samples: Vec::new(),
            });
        family.samples.push((labels(&names), value));
    }
}

fn add_check(families: &mut BTreeMap<String, Family>, check: &Check) {
    let names = [
        ("case", check.case.as_str()),
        ("operation", &check.operation),
        ("candidate", &check.candidate),
        ("baseline", check.baseline.as_deref().unwrap_or_default()),
    ];
    let outcome = [("outcome", check.outcome.name())];
    let of_outcome = labels(&[names.as_slice(), &outcome].concat());
    let (ratio, interval) = check.ratio.unzip();
    let samples = [
        (
            "fsb_check",
            "1 for the answer of each comparison",
            Some(1.0),
            of_outcome,
        ),
        (
            "fsb_ratio",
            "candidate over baseline",
            ratio,
            labels(&names),
        ),
        (
            "fsb_ratio_lower",
            "candidate over baseline, lower end of the interval",
            interval.map(|found| found.lo),
            labels(&names),
        ),
        (
            "fsb_ratio_upper",
            "candidate over baseline, upper end of the interval",
            interval.map(|found| found.hi),
            labels(&names),
        ),
    ];
    for (name, about, value, labels) in samples {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            continue;
        };
        let family = families.entry(name.to_owned()).or_insert_with(|| Family {
            unit: None,
            about: about.to_owned(),
            samples: Vec::new(),
        });
        family.samples.push((labels, value));
    }
}

/// Returns the name with the characters replaced that a metric name must not contain.
fn metric_name(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn labels(names: &[(&str, &str)]) -> String {
    let all: Vec<String> = names
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escape(value)))
        .collect();
    all.join(",")
}

fn escape(text: &str) -> String {
    crate::visible::line(text)
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::sample;
    use crate::sample_sets::{compared, iozone};
    use crate::summary::Summary;

    #[test]
    fn no_sample_occurs_twice_and_families_end_in_their_unit() {
        let (record, trials) = sample::run(&["ext4", "xfs", "tmpfs"], 12);
        let summary = Summary::of_run(&record, &trials);
        let document = compared(&iozone(&["a\"b\\", "c"], 5, 3, 1 << 20));
        for report in [
            Report::of_run(&summary, &trials),
            Report::of_comparison(&document, None),
        ] {
            let text = FORMAT.render(&report);
            assert!(text.ends_with("# EOF\n"));
            let mut samples = BTreeSet::new();
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let (name, value) = line.rsplit_once(' ').expect("a value");
                assert!(
                    value.parse::<f64>().is_ok() && samples.insert(name.to_owned()),
                    "{line}"
                );
            }
            for line in text.lines().filter_map(|line| line.strip_prefix("# UNIT ")) {
                let (name, unit) = line.split_once(' ').expect("a unit");
                assert!(name.ends_with(&format!("_{unit}")), "{line}");
            }
        }
    }
}
