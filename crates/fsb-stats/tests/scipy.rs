//! Every number beside SciPy's, from `oracle/scipy.json`, which `oracle/generate.py` wrote.

use fsb_model::Better;
use fsb_stats::{
    BlockValue, Comparison, Estimate, Interval, Ranking, describe, paired, quantile, t_interval,
    welch,
};
use serde_json::Value;

fn oracle(slice: &str) -> Vec<Value> {
    let text = include_str!("oracle/scipy.json");
    let all: Value = serde_json::from_str(text).expect("the committed file is JSON");
    all[slice].as_array().expect("a list of cases").clone()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is not a number"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(number)
        .collect()
}

fn blocks(values: &[f64]) -> Vec<BlockValue> {
    (1..)
        .zip(values)
        .map(|(block, value)| BlockValue::new(block, *value))
        .collect()
}

/// Agreement to `digits`, relative to the larger of the two and to `scale`.
#[track_caller]
fn close(ours: f64, theirs: f64, scale: f64, digits: i32, what: &str) {
    let tolerance = 10f64.powi(-digits) * ours.abs().max(theirs.abs()).max(scale);
    assert!(
        (ours - theirs).abs() <= tolerance,
        "{what}: {ours} is not SciPy's {theirs}"
    );
}

#[track_caller]
fn close_interval(ours: Interval, theirs: &Value, scale: f64, digits: i32, what: &str) {
    let theirs = numbers(theirs);
    close(ours.lo, theirs[0], scale, digits, what);
    close(ours.hi, theirs[1], scale, digits, what);
}

#[test]
fn descriptions_and_estimates() {
    for case in oracle("samples") {
        let name = case["name"].as_str().unwrap();
        let values = numbers(&case["values"]);
        let description = describe(&values).unwrap();
        let spread = description.max - description.min;
        close(description.mean, number(&case["mean"]), 0.0, 14, name);
        close(description.sd, number(&case["sd"]), 1e-7 * spread, 9, name);
        close(description.median, number(&case["median"]), 0.0, 15, name);
        close(
            quantile(&values, 0.25).unwrap(),
            number(&case["q1"]),
            0.0,
            14,
            name,
        );
        close(
            quantile(&values, 0.75).unwrap(),
            number(&case["q3"]),
            0.0,
            14,
            name,
        );
        for (level, key) in [
            (0.9, "ci90"),
            (0.95, "ci95"),
            (0.99, "ci99"),
            (0.999, "ci999"),
        ] {
            close_interval(
                t_interval(&values, level).unwrap().unwrap(),
                &case[key],
                spread,
                10,
                &format!("{name} {key}"),
            );
        }
        let estimate = Estimate::from_values(&values).unwrap();
        close(
            estimate.value,
            number(&case["geometric_mean"]),
            0.0,
            12,
            name,
        );
        close_interval(estimate.interval.unwrap(), &case["log_ci95"], 0.0, 9, name);
        let outliers: Vec<u64> = estimate
            .outliers
            .iter()
            .map(|index| *index as u64)
            .collect();
        assert_eq!(serde_json::json!(outliers), case["outliers"], "{name}");
    }
}

#[test]
fn trends() {
    let mut found = 0;
    for case in oracle("samples") {
        let name = case["name"].as_str().unwrap();
        let trend = Estimate::from_values(&numbers(&case["values"]))
            .unwrap()
            .trend;
        let Some(trend) = trend else {
            assert!(case["tau"].is_null(), "{name}");
            continue;
        };
        close(trend.tau, number(&case["tau"]), 0.0, 12, name);
        close(trend.p_value, number(&case["trend_p"]), 1e-12, 10, name);
        close(trend.change, number(&case["change"]), 0.0, 10, name);
        found += usize::from(trend.is_significant());
    }
    assert!(found >= 3, "the falling and rising cases are significant");
}

#[track_caller]
fn compare(ours: &Comparison, theirs: &Value, name: &str) {
    close(ours.ratio, number(&theirs["ratio"]), 0.0, 12, name);
    close_interval(ours.interval.unwrap(), &theirs["ci95"], 0.0, 9, name);
    close(ours.p_value.unwrap(), number(&theirs["p"]), 1e-12, 8, name);
}

#[test]
fn paired_and_welch() {
    for case in oracle("pairs") {
        let name = case["name"].as_str().unwrap();
        let (a, b) = (numbers(&case["baseline"]), numbers(&case["candidate"]));
        compare(
            &welch(&a, &b, Better::Higher, 0.03).unwrap().unwrap(),
            &case["welch"],
            name,
        );
        if a.len() == b.len() {
            let ours = paired(&blocks(&a), &blocks(&b), Better::Higher, 0.03)
                .unwrap()
                .unwrap();
            compare(&ours, &case["paired"], name);
        }
    }
}

#[test]
fn holm() {
    for case in oracle("rows") {
        let name = case["name"].as_str().unwrap();
        let targets: Vec<Vec<BlockValue>> = case["targets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|values| blocks(&numbers(values)))
            .collect();
        let ranking = Ranking::from_samples(&targets, Better::Higher, 0.03).unwrap();
        let (p, adjusted) = (numbers(&case["p"]), numbers(&case["adjusted"]));
        assert_eq!(ranking.pairs.len(), p.len());
        for (index, pair) in ranking.pairs.iter().enumerate() {
            assert_eq!(
                serde_json::json!([pair.baseline, pair.candidate]),
                case["pairs"][index]
            );
            close(pair.comparison.p_value.unwrap(), p[index], 1e-12, 8, name);
            close(pair.adjusted_p.unwrap(), adjusted[index], 1e-12, 8, name);
        }
    }
}
