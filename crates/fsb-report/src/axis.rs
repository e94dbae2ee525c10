//! Units and ticks of chart axes.

use fsb_model::Unit;

/// A unit for the labels of an axis, with the number of base units in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AxisUnit {
    pub(crate) divisor: f64,
    pub(crate) name: &'static str,
}

/// Returns the unit in which values around `typical` are easy to read.
pub(crate) fn unit(unit: Unit, typical: f64) -> AxisUnit {
    let scales: &[(f64, &str)] = match unit {
        Unit::BytesPerSecond => &[
            (1.0, "B/s"),
            (1024.0, "KiB/s"),
            (1048576.0, "MiB/s"),
            (1073741824.0, "GiB/s"),
        ],
        Unit::OperationsPerSecond => &[
            (1.0, "operations/s"),
            (1e3, "thousand operations/s"),
            (1e6, "million operations/s"),
        ],
        Unit::Seconds => &[(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")],
        Unit::Bytes => &[
            (1.0, "B"),
            (1024.0, "KiB"),
            (1048576.0, "MiB"),
            (1073741824.0, "GiB"),
        ],
        Unit::Count => &[(1.0, ""), (1e3, "thousand"), (1e6, "million")],
    };
    let fitting = scales
        .iter()
        .rev()
        .find(|(divisor, _)| typical >= *divisor)
        .unwrap_or(&scales[0]);
    AxisUnit {
        divisor: fitting.0,
        name: fitting.1,
    }
}

/// Beyond this ratio of the largest value to the smallest one, an axis of values is logarithmic.
pub(crate) const LINEAR: f64 = 8.0;

/// An axis of values, linear or logarithmic, with the places and texts of its ticks.
#[derive(Debug)]
pub(crate) struct ValueAxis {
    pub(crate) lo: f64,
    hi: f64,
    is_logarithmic: bool,
    pub(crate) ticks: Vec<(f64, String)>,
}

impl ValueAxis {
    /// Returns an axis from zero, or a logarithmic one if the values differ by more than a factor
    /// of [`LINEAR`]. Returns `None` without a positive value.
    pub(crate) fn from_zero(values: &[f64]) -> Option<ValueAxis> {
        let (lo, hi) = extremes(values)?;
        if hi / lo > LINEAR {
            return ValueAxis::logarithmic(values, value_ticks);
        }
        let (step, count) = linear_step(hi);
        let at = |place: usize| step * place as f64;
        Some(ValueAxis {
            lo: 0.0,
            hi: step * count,
            is_logarithmic: false,
            ticks: (0..=count as usize)
                .map(|place| (at(place), format!("{}", (at(place) * 1e9).round() / 1e9)))
                .collect(),
        })
    }

    /// Returns an axis that small changes of the values fill, or a logarithmic one.
    pub(crate) fn around(values: &[f64]) -> Option<ValueAxis> {
        let (lo, hi) = extremes(values)?;
        if hi / lo > LINEAR {
            return ValueAxis::logarithmic(values, value_ticks);
        }
        let margin = (hi - lo).max(hi * 0.02) * 0.1;
        let (lo, hi) = ((lo - margin).max(0.0), hi + margin);
        let (places, texts) = linear_ticks(lo, hi);
        Some(ValueAxis {
            lo,
            hi,
            is_logarithmic: false,
            ticks: places.into_iter().zip(texts).collect(),
        })
    }

    /// Returns a logarithmic axis whose ticks this function makes.
    pub(crate) fn logarithmic(
        values: &[f64],
        ticks: fn(f64, f64) -> (Vec<f64>, Vec<String>),
    ) -> Option<ValueAxis> {
        let (lo, hi) = extremes(values)?;
        let (lo, hi) = (lo / 1.15, hi * 1.15);
        let (places, texts) = ticks(lo, hi);
        Some(ValueAxis {
            lo,
            hi,
            is_logarithmic: true,
            ticks: places.into_iter().zip(texts).collect(),
        })
    }

    /// Returns the place of a value on the axis, from 0 to 1.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let [value, lo, hi] = [value, self.lo, self.hi].map(|value| match self.is_logarithmic {
            true => libm::log(value),
            false => value,
        });
        ((value - lo) / (hi - lo)).clamp(0.0, 1.0)
    }
}

/// Returns the smallest and the largest positive value.
fn extremes(values: &[f64]) -> Option<(f64, f64)> {
    let positive = values.iter().copied().filter(|value| *value > 0.0);
    let (lo, hi) = positive.fold((f64::MAX, 0.0f64), |(lo, hi), v| (lo.min(v), hi.max(v)));
    (hi > 0.0).then_some((lo, hi))
}

/// Returns the step of a linear axis up to `most`, and the number of steps.
pub(crate) fn linear_step(most: f64) -> (f64, f64) {
    const MOST_STEPS: f64 = 6.0;
    let power = 10f64.powf((most / MOST_STEPS).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps
        .into_iter()
        .find(|step| most / step <= MOST_STEPS)
        .unwrap_or(steps[3]);
    (step, (most / step).ceil().max(1.0))
}

/// Returns about five round values between two others, with their texts.
fn linear_ticks(lo: f64, hi: f64) -> (Vec<f64>, Vec<String>) {
    let rough = (hi - lo) / 5.0;
    let power = 10f64.powi(libm::floor(libm::log10(rough)) as i32);
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = libm::ceil(lo / step) as i64;
    let last = libm::floor(hi / step) as i64;
    let ticks: Vec<f64> = (first..=last).map(|tick| tick as f64 * step).collect();
    let decimals = (-libm::floor(libm::log10(step))).max(0.0) as usize;
    let texts = ticks
        .iter()
        .map(|tick| format!("{tick:.decimals$}"))
        .collect();
    (ticks, texts)
}

/// Ratios that make good ticks.
const RATIOS: [f64; 25] = [
    0.001,
    0.01,
    0.05,
    0.1,
    0.2,
    1.0 / 3.0,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    0.95,
    1.0,
    1.05,
    1.1,
    1.2,
    1.3,
    1.5,
    2.0,
    3.0,
    5.0,
    10.0,
    20.0,
    100.0,
    1000.0,
];

/// Ticks for an axis of ln(ratio) between two ratios: places and texts, about `most`, equality
/// always among them.
pub(crate) fn ratio_ticks(lo: f64, hi: f64, most: u32) -> (Vec<f64>, Vec<String>) {
    let mut ticks: Vec<f64> = RATIOS
        .iter()
        .copied()
        .filter(|ratio| (lo..=hi).contains(ratio))
        .collect();
    let span = (hi / lo).ln();
    // Neighbours closer than this share of the axis would print over each other.
    let gap = span / f64::from(most);
    let mut kept: Vec<f64> = vec![1.0];
    ticks.sort_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()));
    for tick in ticks {
        if kept
            .iter()
            .all(|other| (other.ln() - tick.ln()).abs() >= gap)
        {
            kept.push(tick);
        }
    }
    kept.sort_by(f64::total_cmp);
    let texts = kept.iter().map(|ratio| ratio_text(*ratio)).collect();
    (kept.into_iter().map(f64::ln).collect(), texts)
}

/// Returns the text of a tick: `+10 %`, `−5 %`, `×20` or `equal`.
fn ratio_text(ratio: f64) -> String {
    match ratio {
        1.0 => "equal".to_owned(),
        r if r >= 10.0 => format!("×{r:.0}"),
        r if r <= 0.1 => format!("÷{:.0}", 1.0 / r),
        r if r > 1.0 => format!("+{:.0} %", (r - 1.0) * 100.0),
        r => format!("−{:.0} %", (1.0 - r) * 100.0),
    }
}

/// Ticks for a logarithmic axis of seconds: places and texts such as `2 ms`, from a series of round
/// numbers that gives at least three.
pub(crate) fn second_ticks(lo: f64, hi: f64) -> (Vec<f64>, Vec<String>) {
    const SERIES: [&[f64]; 4] = [
        &[1.0],
        &[1.0, 3.0],
        &[1.0, 2.0, 5.0],
        &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
    ];
    let within = |series: &[f64]| -> Vec<f64> {
        let powers = (-9..=4).map(|power| 10f64.powi(power));
        powers
            .flat_map(|power| series.iter().map(move |step| step * power))
            .filter(|tick| (lo..=hi).contains(tick))
            .collect()
    };
    let ticks = SERIES
        .iter()
        .map(|series| within(series))
        .find(|ticks| ticks.len() >= 3);
    let ticks = ticks.unwrap_or_else(|| within(SERIES[3]));
    let texts = ticks.iter().map(|tick| second_text(*tick)).collect();
    (ticks, texts)
}

/// Ticks for a logarithmic axis of plain numbers: places and texts in full, from a series that
/// gives a handful.
pub(crate) fn value_ticks(lo: f64, hi: f64) -> (Vec<f64>, Vec<String>) {
    let series: &[f64] = match hi / lo {
        spread if spread > 500.0 => &[1.0],
        spread if spread > 50.0 => &[1.0, 3.0],
        spread if spread > 5.0 => &[1.0, 2.0, 5.0],
        _ => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
    };
    let powers =
        (-9..=15).flat_map(|power| series.iter().map(move |step| step * 10f64.powi(power)));
    let ticks: Vec<f64> = powers.filter(|tick| (lo..=hi).contains(tick)).collect();
    let texts = ticks
        .iter()
        .map(|tick| format!("{}", (tick * 1e9).round() / 1e9))
        .collect();
    (ticks, texts)
}

/// Round numbers need no digits after the point.
fn second_text(seconds: f64) -> String {
    let (factor, name) = match seconds {
        s if s >= 0.9995 => (1.0, "s"),
        s if s >= 0.9995e-3 => (1e3, "ms"),
        s if s >= 0.9995e-6 => (1e6, "µs"),
        _ => (1e9, "ns"),
    };
    format!("{} {name}", (seconds * factor * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit_their_values() {
        assert_eq!(unit(Unit::BytesPerSecond, 412.0 * 1048576.0).name, "MiB/s");
        assert_eq!(unit(Unit::Seconds, 0.012).name, "ms");
        assert_eq!(unit(Unit::Seconds, 1e-12).name, "ns");
        assert_eq!(unit(Unit::OperationsPerSecond, 61_300.0).divisor, 1e3);
    }

    #[test]
    fn values_have_round_ticks_in_full() {
        assert_eq!(value_ticks(180.0, 2600.0).1, ["200", "500", "1000", "2000"]);
        assert_eq!(value_ticks(9.0, 9000.0).1, ["10", "100", "1000"]);
        assert_eq!(
            value_ticks(0.02, 0.07).1,
            ["0.02", "0.025", "0.03", "0.04", "0.05", "0.06"]
        );
    }

    #[test]
    fn seconds_have_round_ticks() {
        assert_eq!(second_ticks(0.7e-3, 7e-3).1, ["1 ms", "2 ms", "5 ms"]);
        assert_eq!(second_ticks(2e-6, 2.0).1[..3], ["10 µs", "100 µs", "1 ms"]);
        assert_eq!(second_ticks(1.1e-3, 1.9e-3).1, ["1.2 ms", "1.5 ms"]);
    }

    #[test]
    fn ticks_leave_room_and_show_equality() {
        for (lo, hi) in [(0.65, 1.2), (0.99, 1.01), (0.01, 14.0), (0.9, 30.0)] {
            let (places, texts) = ratio_ticks(lo, hi, 9);
            assert!(
                texts.contains(&"equal".to_owned()) && texts.len() <= 10,
                "{texts:?}"
            );
            assert!(
                places
                    .windows(2)
                    .all(|two| two[1] - two[0] >= (hi / lo).ln() / 9.0 - 1e-9),
                "{texts:?}"
            );
        }
        assert_eq!(
            (ratio_text(0.1), ratio_text(0.8), ratio_text(20.0)),
            ("÷10".into(), "−20 %".into(), "×20".into())
        );
    }

    #[test]
    fn axes_have_round_steps() {
        assert_eq!(linear_step(412.0), (100.0, 5.0));
        assert_eq!(linear_step(6.0), (1.0, 6.0));
        assert_eq!(linear_step(0.07), (0.02, 4.0));
        assert_eq!(linear_step(1.9), (0.5, 4.0));
    }

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        assert_eq!(linear_ticks(93.0, 101.0).1, ["94", "96", "98", "100"]);
        assert_eq!(linear_ticks(0.93, 1.01).1, ["0.94", "0.96", "0.98", "1.00"]);
        assert_eq!(linear_ticks(0.0, 4.1).1, ["0", "1", "2", "3", "4"]);
    }
}
