//! PostMark's operations and its report, beside PostMark itself.

use fsb_compat::postmark::print::{self, PostmarkOutcome};
use fsb_compat::postmark::{Settings, parse};

use crate::ours::ours;

#[test]
fn the_report_has_the_shape_of_postmarks_and_is_read_back() {
    let mut settings = Settings::default();
    let outcome = PostmarkOutcome { total: 2.5, transactions: 2.0, ..ours(&settings).unwrap() };
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
    let shown = print::rounded(&tally).unwrap();
    assert!(shown.contains(&tally.bytes_read.to_string()) && shown.contains("single precision"), "{shown}");
}
