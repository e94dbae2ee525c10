//! JUnit XML: a test case for each check. A slowdown is a failure, a missing value is an error, and
//! what is not known is skipped.

use std::io::{self, Write};

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::member::Format;
use crate::check::{Check, CheckOutcome};
use crate::report::Report;
use crate::visible;

pub(super) const FORMAT: Format = Format {
    name: "junit",
    extension: "junit.xml",
    about: "JUnit XML: a test case for each comparison with the baseline (gate.junit.xml)",
    binary: false,
    checks: true,
    write,
};

fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    let checks = report.checks();
    let title = xml_text(&report.readable().view().title);
    let count = |wanted: fn(&Check) -> bool| {
        checks
            .iter()
            .filter(|check| wanted(check))
            .count()
            .to_string()
    };
    let (tests, failures) = (
        checks.len().to_string(),
        count(|check| check.outcome.fails()),
    );
    let (errors, skipped) = (count(|check| check.outcome.is_lost()), count(is_skipped));
    let attributes = [
        ("name", title.as_str()),
        ("tests", &tests),
        ("failures", &failures),
        ("errors", &errors),
        ("skipped", &skipped),
    ];
    let mut writer = Writer::new_with_indent(&mut *output, b' ', 1);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let suites = writer
        .create_element("testsuites")
        .with_attributes(attributes);
    suites.write_inner_content(|writer| {
        let suite = writer.create_element("testsuite");
        suite
            .with_attributes(attributes)
            .write_inner_content(|writer| {
                checks.iter().try_for_each(|check| test_case(writer, check))
            })?;
        Ok(())
    })?;
    output.write_all(b"\n")
}

/// Returns whether a check is neither passed nor failed.
fn is_skipped(check: &Check) -> bool {
    matches!(
        check.outcome,
        CheckOutcome::CannotTell | CheckOutcome::NotJudged
    )
}

fn test_case<W: Write>(writer: &mut Writer<W>, check: &Check) -> io::Result<()> {
    let (name, class) = (xml_text(&check.case), xml_text(&check.pair()));
    let text = xml_text(&check.text);
    let case = writer
        .create_element("testcase")
        .with_attributes([("name", name.as_str()), ("classname", &class)]);
    let answer = match check.outcome {
        _ if is_skipped(check) => Some("skipped"),
        outcome if outcome.fails() => Some("failure"),
        outcome if outcome.is_lost() => Some("error"),
        _ => None,
    };
    case.write_inner_content(|writer| {
        if let Some(answer) = answer {
            let element = writer.create_element(answer);
            let element = element.with_attribute(("message", text.as_str()));
            match answer {
                "skipped" => element.write_empty()?,
                _ => element
                    .with_attribute(("type", check.outcome.name()))
                    .write_empty()?,
            };
        }
        let output = writer.create_element("system-out");
        output.write_text_content(BytesText::new(&text))?;
        Ok(())
    })?;
    Ok(())
}

/// Returns the text with the characters that XML 1.0 forbids as escapes.
fn xml_text(text: &str) -> String {
    let line = visible::line(text);
    line.replace('\u{fffe}', "\\u{fffe}")
        .replace('\u{ffff}', "\\u{ffff}")
}

#[cfg(test)]
mod tests {
    use quick_xml::{Reader, XmlVersion};

    use super::*;
    use crate::sample;
    use crate::sample_sets::{compared, iozone};
    use crate::summary::Summary;

    /// Returns the names of the elements with their attributes.
    fn elements(text: &str) -> Vec<(String, Vec<(String, String)>)> {
        let mut reader = Reader::from_str(text);
        let mut found = Vec::new();
        loop {
            match reader.read_event().expect("XML") {
                Event::Start(tag) | Event::Empty(tag) => {
                    let attributes = tag.attributes().map(|one| {
                        let one = one.expect("an attribute");
                        let value = one
                            .normalized_value(XmlVersion::Explicit1_0)
                            .expect("text")
                            .into_owned();
                        (one.key.as_ref().to_owned(), value)
                    });
                    let name = tag.name().as_ref().to_owned();
                    found.push((name, attributes.collect()));
                }
                Event::Eof => return found,
                _ => {}
            }
        }
    }

    #[test]
    fn each_check_is_a_test_case_and_the_counts_agree() {
        let (record, trials) = sample::run(&["ext4", "xfs", "tmpfs"], 12);
        let summary = Summary::of_run(&record, &trials);
        let text = FORMAT.render(&Report::of_run(&summary, &trials));
        let found = elements(&text);
        let count = |name: &str| found.iter().filter(|(tag, _)| tag == name).count();
        assert_eq!(count("testcase"), 2 * summary.cases.len());
        let suite = &found
            .iter()
            .find(|(tag, _)| tag == "testsuite")
            .expect("a suite")
            .1;
        for (attribute, tag) in [
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ] {
            let stated = suite
                .iter()
                .find(|(name, _)| name == attribute)
                .expect("a count");
            assert_eq!(stated.1, count(tag).to_string(), "{attribute}");
        }
        assert!(count("failure") > 0 && count("skipped") > 0);
    }

    #[test]
    fn names_with_markup_read_back_as_they_are() {
        let document = compared(&iozone(&["a<b>&\"'", "]]>"], 5, 2, 1 << 20));
        let text = FORMAT.render(&Report::of_comparison(&document, None));
        let found = elements(&text);
        let case = found
            .iter()
            .find(|(tag, _)| tag == "testcase")
            .expect("a case");
        assert!(
            case.1
                .contains(&("classname".to_owned(), "]]> vs a<b>&\"'".to_owned())),
            "{case:?}"
        );
    }

    #[test]
    fn a_comparison_as_junit() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 4, 1 << 22));
        insta::assert_snapshot!(FORMAT.render(&Report::of_comparison(&document, None)));
    }
}
