use super::*;
use crate::sample;
use fsb_model::run::Risk;
use fsb_model::{RunRecord, Trial};

fn table(record: &RunRecord, trials: &[Trial]) -> String {
    let mut text = Vec::new();
    write(&ReportTrial::all(trials), &Summary::of_run(record, trials), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn rows(record: &RunRecord, trials: &[Trial]) -> Vec<std::collections::BTreeMap<String, String>> {
    let text = table(record, trials);
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    assert_eq!(reader.headers().unwrap().iter().collect::<Vec<_>>(), COLUMNS);
    reader.deserialize().map(Result::unwrap).collect()
}

#[test]
fn every_rate_and_latency_of_measured_trials_is_there_to_the_last_digit() {
    let (record, trials) = sample::run(&["ext4", "xfs"], 5);
    let rows = rows(&record, &trials);
    for trial in &trials {
        let own: Vec<_> = rows
            .iter()
            .filter(|row| row["order"] == trial.order.to_string())
            .map(|row| (row["metric"].as_str(), row["value"].parse::<f64>().unwrap(), row["outcome"].as_str()))
            .collect();
        let expected: Vec<_> = trial.metrics[..4].iter().map(|m| (m.name.as_str(), m.value, "ok")).collect();
        assert_eq!(own, expected, "costs are left out");
    }
    assert_eq!(rows[0]["kernel"], "6.18.44");
    assert_eq!((rows[0]["file_size"].as_str(), rows[0]["record_size"].as_str()), ("268435456", "1048576"));
    assert_eq!((rows[0]["durability"].as_str(), rows[0]["cache"].as_str()), ("end", "any"));
}

#[test]
fn a_trial_without_a_value_has_one_line_with_its_reason() {
    let (record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 5);
    let rows = rows(&record, &trials);
    let lost: Vec<_> = rows.iter().filter(|row| row["outcome"] != "ok").collect();
    let [lost] = lost.as_slice() else { panic!("{lost:?}") };
    assert_eq!(lost["outcome"], "failed: write to /target/f0000: No space left on device (ENOSPC)");
    assert_eq!((lost["metric"].as_str(), lost["value"].as_str()), ("throughput", ""));
    assert_eq!(lost["unit"], "bytes_per_second");
}

#[test]
fn warm_up_and_superseded_trials_are_left_out() {
    let (record, mut trials) = sample::run(&["ext4"], 2);
    trials.truncate(2);
    trials[0].superseded = true;
    trials[1].phase = fsb_model::Phase::Warmup;
    assert_eq!(table(&record, &trials).lines().count(), 1);
}

#[test]
fn odd_names_and_texts_survive() {
    let (record, mut trials) = sample::run(&["ext4"], 1);
    trials.truncate(1);
    trials[0].target = "a,\"b\"\nc".to_owned();
    trials[0].params.insert("file_size".to_owned(), "4K".into());
    trials[0].params.remove("threads");
    let rows = rows(&record, &trials);
    assert_eq!(rows[0]["target"], "a,\"b\"\nc");
    assert_eq!((rows[0]["file_size"].as_str(), rows[0]["threads"].as_str()), ("4096", ""));
}

#[test]
fn each_line_of_an_unjudged_run_says_so() {
    let (mut record, trials) = sample::run(&["ext4", "xfs"], 1);
    record.emulated = true;
    let text = table(&record, &trials);
    let mut lines = text.lines();
    assert!(lines.next().unwrap().ends_with(",durability,part,unsafe,unjudged"));
    assert!(lines.clone().count() > 8 && lines.all(|line| line.ends_with(",emulated: a functional run")));
}

#[test]
fn lines_of_unsafe_targets_name_the_cause() {
    let (mut record, trials) = sample::run(&["ext4", "xfs"], 2);
    let risk = |cause: &str| Risk { cause: cause.to_owned(), loss: "a power failure may lose synced data".to_owned() };
    record.targets.get_mut("xfs").unwrap().risks = vec![risk("nobarrier"), risk("write cache")];
    for row in rows(&record, &trials) {
        assert_eq!(row["unsafe"], if row["target"] == "xfs" { "nobarrier, write cache" } else { "" });
    }
}
