//! Random-effects models beside metafor's, from `oracle/random_effects.json`, which
//! `oracle/random_effects.R` wrote.

use fsb_stats::{Effect, TauMethod, moderator, random_effects};
use serde_json::Value;

fn numbers(value: &Value) -> Vec<f64> {
    // A number that R does not know is null.
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(|number| number.as_f64().unwrap_or(f64::NAN))
        .collect()
}

#[track_caller]
fn close(ours: f64, theirs: f64, what: &str) {
    assert!(
        (ours - theirs).abs() <= 1e-7 * ours.abs().max(theirs.abs()).max(1e-4),
        "{what}: {ours} is not {theirs}"
    );
}

fn oracle() -> Vec<Value> {
    serde_json::from_str(include_str!("oracle/random_effects.json"))
        .expect("the committed file is JSON")
}

fn effects(case: &Value) -> Vec<Effect> {
    let (y, v, degrees) = (
        numbers(&case["y"]),
        numbers(&case["v"]),
        numbers(&case["degrees"]),
    );
    let hosts = y.iter().zip(&v).zip(&degrees);
    hosts
        .map(|((y, v), degrees)| Effect {
            log_ratio: *y,
            error: v.sqrt(),
            degrees: *degrees,
        })
        .collect()
}

#[test]
fn means_and_heterogeneity_are_those_of_metafor() {
    for case in oracle() {
        let name = case["name"].as_str().unwrap();
        let found = random_effects(&effects(&case)).unwrap();
        let between = found.heterogeneity.unwrap();
        let [
            tau2,
            mean,
            _,
            lo,
            hi,
            p,
            i2,
            q,
            prediction_lo,
            prediction_hi,
        ] = numbers(&case["reml"])[..]
        else {
            panic!("{name}: ten numbers");
        };
        assert_eq!(between.method, TauMethod::Reml, "{name}");
        close(between.tau * between.tau, tau2, name);
        close(
            between.tau_dl * between.tau_dl,
            numbers(&case["dl"])[0],
            name,
        );
        close(found.ratio.ln(), mean, name);
        let interval = found.interval.unwrap();
        close(interval.lo.ln(), lo, name);
        close(interval.hi.ln(), hi, name);
        close(found.p_value.unwrap(), p, name);
        close(between.i_squared, i2, name);
        close(between.q, q, name);
        close(between.p_value, case["welch"].as_f64().unwrap(), name);
        match found.prediction {
            Some(prediction) => {
                close(prediction.lo.ln(), prediction_lo, name);
                close(prediction.hi.ln(), prediction_hi, name);
            }
            None => assert!(found.n < 3 && prediction_lo.is_nan(), "{name}"),
        }
    }
}

#[test]
fn means_of_groups_are_those_of_metafor() {
    let mut significant = 0;
    for case in oracle().iter().filter(|case| !case["moderator"].is_null()) {
        let name = case["name"].as_str().unwrap();
        let theirs = &case["moderator"];
        let groups: Vec<usize> = numbers(&theirs["groups"])
            .iter()
            .map(|group| *group as usize - 1)
            .collect();
        let found = moderator(&effects(case), &groups, 1).unwrap();
        let (means, lo, hi) = (
            numbers(&theirs["means"]),
            numbers(&theirs["lo"]),
            numbers(&theirs["hi"]),
        );
        for (place, group) in found.groups.iter().enumerate() {
            close(group.ratio.ln(), means[place], name);
            close(group.interval.lo.ln(), lo[place], name);
            close(group.interval.hi.ln(), hi[place], name);
        }
        let tau2 = numbers(&case["reml"])[0];
        let explained = if tau2 > 0.0 {
            (1.0 - theirs["tau2"].as_f64().unwrap() / tau2).max(0.0)
        } else {
            0.0
        };
        assert!(
            (found.explained - explained).abs() < 1e-6,
            "{name}: {} {explained}",
            found.explained
        );
        assert_eq!(
            found.is_significant(),
            name != "groups without a difference",
            "{name}: {found:?}"
        );
        significant += usize::from(found.is_significant());
    }
    assert_eq!(significant, 2);
}
