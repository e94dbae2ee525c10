//! PostMark's operations and its report, beside PostMark itself.

use std::process::{Command, Stdio};

use fsb_compat::postmark::print::{self, Outcome};
use fsb_compat::postmark::{Settings, parse, pool, source};

/// What a run does, as its report tells it; times are made up. None where the pool ran empty.
fn ours(settings: &Settings) -> Option<Outcome> {
    let mut pool = pool(settings, source(settings).1);
    (0..settings.shape.number).for_each(|_| _ = pool.create());
    for _ in 0..settings.shape.transactions {
        if pool.is_exhausted() {
            return None;
        }
        pool.use_one();
        pool.exchange();
    }
    let before = pool.tally().deleted;
    while pool.remove_next().is_some() {}
    let tally = *pool.tally();
    let deleted_alone = tally.deleted - before;
    Some(Outcome { tally, deleted_alone, total: 1.0, creation: 1.0, transactions: 1.0, deletion: 1.0 })
}

/// The report of PostMark itself, in a directory of its own.
fn theirs(script: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("script"), format!("{script}run\nquit\n")).unwrap();
    let output =
        Command::new("postmark").arg("script").current_dir(directory.path()).stdin(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Without what depends on time: seconds, and the rates in parentheses.
fn counts(report: &str) -> Vec<String> {
    let start = report.find("Time:").unwrap_or(report.len());
    let lines = report[start..].lines().filter(|line| !line.contains("seconds"));
    lines.map(|line| line.split(" (").next().unwrap().to_owned()).collect()
}

/// The same seed and settings give the same files, reads, appends, deletions and bytes.
#[test]
fn the_same_seed_does_what_postmark_does() {
    if Command::new("postmark").stdin(Stdio::null()).stdout(Stdio::null()).status().is_err() {
        fsb_testkit::skip("needs PostMark (package postmark)");
    }
    let scripts = [
        "",
        "set seed 1\nset transactions 5000\n",
        "set seed 2147483647\nset size 1 1000\nset number 3000\nset transactions 4000\n",
        "set seed 7\nset size 1000 100000\nset number 100\nset transactions 3000\n",
        "set seed 99\nset size 512 512\nset number 10\nset transactions 333\nset bias create 7\n",
        "set subdirectories 10\nset bias read 9\nset bias create 2\nset number 1000\nset transactions 1000\n",
        "set bias read -1\nset number 50\nset transactions 100\nset bias create 6\n",
        "set bias create -1\nset number 50\nset transactions 777\nset size 4000 70000\n",
        "set bias create 10\nset number 20\nset transactions 200\nset bias read 0\n",
        "set number 1\nset transactions 100\nset bias create 8\nset buffering false\nset subdirectories 1\n",
        "set location . 2\nset location +./ 3\nset subdirectories 4\nset transactions 900\n",
        "set number 3\nset bias create 1\nset transactions 100\n",
    ];
    for script in scripts {
        let mut settings = Settings::default();
        for line in script.lines() {
            parse(line, &mut settings).unwrap();
        }
        let theirs = theirs(script);
        match ours(&settings) {
            Some(outcome) => assert_eq!(counts(&print::report(&settings, &outcome)), counts(&theirs), "{script}"),
            None => assert!(theirs.contains(print::OUT_OF_FILES), "{script}: {theirs}"),
        }
    }
}

#[test]
fn the_report_has_the_shape_of_postmarks_and_is_read_back() {
    let mut settings = Settings::default();
    let outcome = Outcome { total: 2.5, transactions: 2.0, ..ours(&settings).unwrap() };
    let text = print::banner("fsb 0.1.0") + &print::report(&settings, &outcome);
    let run = crate::parse("postmark", &text);
    assert_eq!((run.version.as_deref(), run.clock_resolution), (Some("1.51"), Some(1e-9)));
    assert_eq!(crate::value(&run, "transaction", "operation_rate"), 250.0);
    assert_eq!(crate::value(&run, "create", "operation_rate"), (outcome.tally.created as f64 / 2.5).round());
    assert!(run.warnings.is_empty(), "{:?}", run.warnings);
    parse("set report terse", &mut settings).unwrap();
    let terse = print::report(&settings, &outcome);
    assert_eq!(terse.split_whitespace().count(), 13, "{terse}");
    assert!(terse.starts_with("2.500000 2.000000 250.00 ") && terse.ends_with('\n'), "{terse}");
}

/// As PostMark 1.53 answers.
#[test]
fn show_and_help_are_those_of_postmark() {
    let mut settings = Settings::default();
    for line in ["set location /tmp/a 3", "set location +/b", "set size 1500 2000000", "set subdirectories 1"] {
        parse(line, &mut settings).unwrap();
    }
    let expected = "Current configuration is:\nThe base number of files is 500\nTransactions: 500\n\
        Files range between 1.46 kilobytes and 1.91 megabytes in size\nWorking directories: \n\t/tmp/a (weight=3)\n\
        \t/b (weight=1)\n1 subdirectory will be used\nBlock sizes are: read=512 bytes, write=512 bytes\n\
        Biases are: read/append=5, create/delete=5\nUsing Unix buffered file I/O\n\
        Random number generator seed is 42\nReport format is verbose.\n";
    assert_eq!(settings.show("/here"), expected);
    assert!(Settings::default().show("/here").contains("\nWorking directory: /here\n"));
    assert_eq!(print::help(Some("set bias")).lines().count(), 2);
    assert_eq!(print::help(Some("unheard of")), print::help(None));
    assert!(print::help(None).starts_with("set size - Sets low and high bounds of files\n"));
}

#[test]
fn sums_that_single_precision_rounds_are_told_apart() {
    let mut settings = Settings::default();
    assert_eq!(print::rounded(&ours(&settings).unwrap().tally), None);
    settings.shape.transactions = 100_000;
    settings.shape.size_high = 100_001;
    let tally = ours(&settings).unwrap().tally;
    let told = print::rounded(&tally).unwrap();
    assert!(told.contains(&tally.bytes_read.to_string()) && told.contains("single precision"), "{told}");
}
