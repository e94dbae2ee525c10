//! `fsb compare`: results of other tools and of fsb, from files to the JSON document.

use serde_json::Value;

use crate::common::compare::*;
use crate::common::scratch;

/// Operations with their names in Figure 5.3.
const PRINTED: [(&str, &str); 14] = [
    ("ALL", "ALL"),
    ("Write", "write"),
    ("Re-write", "rewrite"),
    ("Read", "read"),
    ("Re-read", "reread"),
    ("Random read", "random_read"),
    ("Random write", "random_write"),
    ("Backwards read", "backward_read"),
    ("Record rewrite", "record_rewrite"),
    ("Strided Read", "stride_read"),
    ("Fwrite", "fwrite"),
    ("Frewrite", "frewrite"),
    ("Fread", "fread"),
    ("Freread", "freread"),
];

/// Rounds to `decimals` as the figure does, and drops trailing zeros.
fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

/// Returns whether `classic` agrees with the figure.
fn agrees(classic: &Value, set: &str, statistic: &str, printed: &str) -> bool {
    let number = |text: &str| text.trim().parse::<f64>().expect("a printed number");
    let mib = |value: &Value| {
        rounded(value.as_f64().expect("a value") / (1u64 << 20) as f64, 2) == number(printed)
    };
    let against = &classic["against"]["ext4"];
    match statistic {
        "ci90_low" => mib(&classic["sets"][set]["ci90"][0]),
        "ci90_high" => mib(&classic["sets"][set]["ci90"][1]),
        "median_change_percent" => {
            rounded(against["median_change"].as_f64().unwrap() * 100.0, 2) == number(printed)
        }
        "t_p" => rounded(against["t_p"].as_f64().unwrap(), 4) == number(printed),
        "t_verdict" => against["t_verdict"] == printed,
        "slope_ci90" => {
            let (low, high) = printed.split_once(" - ").expect("an interval");
            let end = |end: usize| rounded(against["slope_ci90"][end].as_f64().unwrap(), 2);
            end(0) == number(low) && end(1) == number(high)
        }
        _ => mib(&classic["sets"][set][statistic]),
    }
}

#[test]
fn every_printed_digit_of_figure_5_3_agrees() {
    let scratch = scratch();
    let sets = [
        set("xfs", "iozone-2010/xfs"),
        set("ext4", "iozone-2010/ext4"),
    ];
    let (document, _) = compare(scratch.path(), &[&sets[0], &sets[1]]);
    let mut table =
        csv::Reader::from_path(testdata("published/benas-2011-figure-5.3.csv")).unwrap();
    let (mut checked, mut wrong) = (0, Vec::new());
    for row in table.records() {
        let row = row.unwrap();
        let name = PRINTED
            .iter()
            .find(|(printed, _)| *printed == &row[0])
            .expect("an operation of the figure")
            .1;
        checked += 1;
        if !agrees(
            &operation(&document, name)["classic"],
            &row[1],
            &row[2],
            &row[3],
        ) {
            wrong.push(format!(
                "{row:?}: {:#}",
                operation(&document, name)["classic"]
            ));
        }
    }
    assert_eq!(checked, 335);
    assert!(
        wrong.is_empty(),
        "{} of {checked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(
        document["operations"].as_array().unwrap().last().unwrap()["operation"],
        "ALL"
    );
}
