//! composite.xml of the Phoronix Test Suite. The golden file is real output of 10.8.6 with a small test of fio on two
//! file systems; the names of the machine are shortened.

use fsb_model::Unit;
use fsb_model::metric::Better;
use fsb_model::set::GapReason;

use crate::{parse_all, remarks, series, shared, value};

fn two_systems() -> String {
    std::fs::read_to_string(shared("tool-output/phoronix-10.8.6.xml")).unwrap()
}

#[test]
fn each_repetition_of_each_system_is_a_run() {
    let runs = parse_all("phoronix", &two_systems());
    let systems: Vec<&str> = runs.iter().filter_map(|run| run.system.as_deref()).collect();
    assert_eq!(systems, ["disk", "disk", "disk", "ram", "ram", "ram"]);
    let writes: Vec<f64> = runs.iter().map(|run| value(run, "Type: Random Write", "operation_rate")).collect();
    assert_eq!(writes, [81920.0, 52512.8, 68266.7, 341_333.3, 512_000.0, 512_000.0]);
    assert_eq!(value(&runs[1], "Type: Sequential Read", "throughput"), 1333.33 * 1_048_576.0);
    let latency = series(&runs[2], "Type: Sequential Read", "time");
    assert_eq!((latency.unit, latency.better, latency.found_unit.as_str()), (Unit::Seconds, Better::Lower, "us"));
    assert!((latency.points[0].value - 5.971e-6).abs() < 1e-15);
    assert_eq!(latency.points[0].line, 167);
    assert_eq!(latency.workload.as_deref(), Some("local/fio-small-1.0 3.33"));
    assert!(runs.iter().all(|run| run.version.as_deref() == Some("10.8.6") && run.warnings.is_empty()));
}

/// One result in the exact structure of the real file.
fn result(scale: &str, proportion: &str, display: &str, entries: &[(&str, &str, &str)]) -> String {
    let entry = |(system, value, raw): &(&str, &str, &str)| {
        format!(
            "<Entry>\n<Identifier>{system}</Identifier>\n<Value>{value}</Value>\n\
             <RawString>{raw}</RawString>\n</Entry>\n"
        )
    };
    let entries: String = entries.iter().map(entry).collect();
    format!(
        "<Result>\n<Identifier>pts/t-1.2.3</Identifier>\n<Title>T</Title>\n<AppVersion></AppVersion>\n\
         <Arguments></Arguments>\n\
         <Description></Description>\n<Scale>{scale}</Scale>\n<Proportion>{proportion}</Proportion>\n\
         <DisplayFormat>{display}</DisplayFormat>\n<Data>\n{entries}</Data>\n</Result>\n"
    )
}

fn composite(results: &[String]) -> String {
    format!("<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n{}</PhoronixTestSuite>\n", results.concat())
}

#[test]
fn a_result_without_repetitions_is_its_mean() {
    let runs = parse_all("phoronix", &composite(&[result("Seconds", "LIB", "BAR_GRAPH", &[("a", "12.5", "")])]));
    assert_eq!((runs.len(), value(&runs[0], "T", "time")), (1, 12.5));
    assert_eq!(runs[0].series[0].workload.as_deref(), Some("pts/t-1.2"));
}

#[test]
fn an_unknown_unit_keeps_its_name_and_the_direction_of_the_file() {
    let lower = result("Points", "LIB", "BAR_GRAPH", &[("a", "7", "6:8")]);
    let runs = parse_all("phoronix", &composite(&[lower]));
    let score = series(&runs[1], "T (Points)", "score");
    assert_eq!((score.better, score.unit, score.points[0].value), (Better::Lower, Unit::Count, 8.0));
}

#[test]
fn a_result_that_cannot_be_compared_is_left_out_with_a_remark() {
    let known = result("IOPS", "HIB", "BAR_GRAPH", &[("a &amp; b", "2", "1:0:x:-3")]);
    let sensor = result("Celsius", "LIB", "LINE_GRAPH", &[("a &amp; b", "40,41,42", "")]);
    let undirected = result("Points", "", "BAR_GRAPH", &[("a &amp; b", "1", "1")]);
    let runs = parse_all("phoronix", &composite(&[known, sensor, undirected]));
    assert_eq!(runs[0].system.as_deref(), Some("a & b"));
    let expected = [
        "16: T: 'x' is not a number; left out",
        "32: T: no bar graph; left out",
        "50: T: no direction for 'Points'; left out",
    ];
    assert_eq!(remarks(&runs[0]), expected);
    assert_eq!(runs[1].series[0].gaps[0].why, GapReason::Zero);
    // The repetitions 'x' and '-3' hold nothing.
    assert_eq!(runs.len(), 2);
}

#[test]
fn other_hardware_is_a_warning_and_another_file_system_is_not() {
    let text = two_systems();
    let at = text.rfind("Memory: 24GB").unwrap();
    let other = format!("{}Memory: 48GB{}", &text[..at], &text[at + 12..]);
    assert_eq!(remarks(&parse_all("phoronix", &other)[0]), ["'disk' and 'ram' differ in: Memory"]);
    let at = text.rfind("File-System: ext4").unwrap();
    let other = format!("{}File-System: xfs{}", &text[..at], &text[at + 17..]);
    assert!(parse_all("phoronix", &other)[0].warnings.is_empty());
}

#[test]
fn a_damaged_file_gives_the_results_before_the_damage() {
    let text = two_systems();
    let cut = &text[..text.find("<RawString>81920").unwrap() + 14];
    let runs = parse_all("phoronix", cut);
    assert_eq!((runs.len(), runs[0].series.len()), (6, 1));
    assert!(remarks(&runs[0])[0].contains("the XML is cut or damaged here"), "{:?}", remarks(&runs[0]));
    assert_eq!(
        parse_all("phoronix", &text.replace("</Title>", "</Titel>").replacen("</Titel>", "</Title>", 2)).len(),
        6
    );
}

#[test]
fn a_file_with_more_repetitions_than_a_test_has_is_refused() {
    let tool = fsb_compat::TOOLS.iter().find(|tool| tool.name == "phoronix").unwrap();
    let text = |count: usize| composite(&[result("IOPS", "HIB", "BAR_GRAPH", &[("a", "1", &"1:".repeat(count))])]);
    assert_eq!((tool.read)(&mut text(10_000).as_bytes()).unwrap().len(), 10_000);
    let error = (tool.read)(&mut text(10_001).as_bytes()).unwrap_err().to_string();
    assert!(error.contains("more than 10000 runs"), "{error}");
}

#[test]
fn entities_of_the_file_are_not_expanded() {
    let bomb = "<!DOCTYPE x [<!ENTITY a \"1234567890\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\">]>";
    let text = composite(&[result("IOPS", "HIB", "BAR_GRAPH", &[("&b;", "2", "1:2")])]);
    let text = text.replacen("<PhoronixTestSuite>", &format!("{bomb}<PhoronixTestSuite>"), 1);
    assert_eq!(parse_all("phoronix", &text)[0].system.as_deref(), Some("\u{fffd}"));
}
