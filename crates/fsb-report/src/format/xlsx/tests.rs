use std::io::{Cursor, Read as _};

use super::*;
use crate::sample;
use crate::sample_sets::{compared, iozone};

/// A file of the archive.
fn part(book: &[u8], name: &str) -> String {
    let mut archive = zip::ZipArchive::new(Cursor::new(book)).expect("an archive");
    let mut text = String::new();
    archive.by_name(name).expect(name).read_to_string(&mut text).expect("text");
    text
}

#[test]
fn numbers_are_numbers_and_the_header_stays_in_view() {
    let (record, trials) = sample::run(&["ext4", "xfs"], 6);
    let summary = Summary::of_run(&record, &trials);
    let report = Report::of_run(&summary, &trials);
    let book = FORMAT.render_bytes(&report);
    let names = part(&book, "xl/workbook.xml");
    for name in ["Summary", "Trials", "Environment", "Notes"] {
        assert!(names.contains(&format!("name=\"{name}\"")), "{names}");
    }
    let sheet = part(&book, "xl/worksheets/sheet1.xml");
    assert!(sheet.contains("state=\"frozen\"") && sheet.contains("<autoFilter ref=\"A1:Z25\"/>"), "{sheet}");
    let ratio = summary.rows[0].cells[1].against.as_ref().expect("a comparison").ratio;
    assert!(sheet.contains(&format!("<v>{ratio}</v>")), "{ratio} in {sheet}");
    assert_eq!(book, FORMAT.render_bytes(&report), "the file depends on the run only");
}

#[test]
fn names_are_no_formulas() {
    let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 2);
    record.plan.targets[1].name = "=1+1".to_owned();
    trials.iter_mut().filter(|trial| trial.target == "xfs").for_each(|trial| trial.target = "=1+1".to_owned());
    let summary = Summary::of_run(&record, &trials);
    let book = FORMAT.render_bytes(&Report::of_run(&summary, &trials));
    assert!(part(&book, "xl/sharedStrings.xml").contains("<t>=1+1</t>"));
    assert!((1..=4).all(|sheet| !part(&book, &format!("xl/worksheets/sheet{sheet}.xml")).contains("<f>")));
}

#[test]
fn a_comparison_has_its_statistics_and_sets() {
    let document = compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 20));
    let book = FORMAT.render_bytes(&Report::of_comparison(&document, None));
    let names = part(&book, "xl/workbook.xml");
    assert!(names.contains("name=\"Statistics\"") && names.contains("name=\"Sets\""), "{names}");
}
