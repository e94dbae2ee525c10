//! `cargo run -p xtask -- unstable`: checks tests/UNSTABLE.md, the list of tests that fail beside
//! others and pass alone.

use anyhow::{Context, ensure};
use jiff::Zoned;
use jiff::civil::Date;

use crate::style::files_below;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const MOST: usize = 5;
const OLDEST_DAYS: i32 = 14;

/// A row of the table.
struct Entry<'a> {
    /// The package of the test.
    package: &'a str,
    /// The name of the test's function.
    function: &'a str,
    seen: Date,
}

/// Checks the number and the age of the entries, and that their tests exist.
pub fn run() -> anyhow::Result<()> {
    let path = format!("{ROOT}/tests/UNSTABLE.md");
    let text = std::fs::read_to_string(&path).context(path)?;
    let entries = entries(&text)?;
    check(&entries, Zoned::now().date())?;
    for Entry {
        package, function, ..
    } in &entries
    {
        let mut exists = false;
        for path in files_below(format!("{ROOT}/crates/{package}").as_ref(), "rs")? {
            exists |= std::fs::read_to_string(path)?.contains(&format!("fn {function}("));
        }
        ensure!(
            exists,
            "tests/UNSTABLE.md: {package} has no test {function}: remove its line"
        );
    }
    Ok(())
}

fn entries(text: &str) -> anyhow::Result<Vec<Entry<'_>>> {
    let rows = text.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| entry(row).with_context(|| format!("tests/UNSTABLE.md: {row}")))
        .collect()
}

/// Parses a row such as `| fsb/quick watch::it_ends | 2026-11-29 | a race |`.
fn entry(row: &str) -> anyhow::Result<Entry<'_>> {
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    let [test, seen, cause] = cells[..] else {
        anyhow::bail!("a row has a test, a date and a cause or next step")
    };
    let (program, name) = test
        .split_once(' ')
        .context("a test is PACKAGE/PROGRAM NAME")?;
    let (package, _) = program
        .split_once('/')
        .context("a test is PACKAGE/PROGRAM NAME")?;
    ensure!(
        cause.contains(' ') && cause != "cause or next step",
        "the cause or next step is missing"
    );
    Ok(Entry {
        package,
        function: name.rsplit("::").next().unwrap_or(name),
        seen: seen.parse().context("a date is YEAR-MONTH-DAY")?,
    })
}

fn check(entries: &[Entry], today: Date) -> anyhow::Result<()> {
    ensure!(
        entries.len() <= MOST,
        "tests/UNSTABLE.md: {} tests, at most {MOST}: mend one",
        entries.len()
    );
    for Entry { function, seen, .. } in entries {
        let age = today.since(*seen)?.get_days();
        ensure!(
            age <= OLDEST_DAYS,
            "tests/UNSTABLE.md: {function} is unstable since {seen}, for more than {OLDEST_DAYS} days: mend or delete it"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "# Unstable tests\n\n| test | first seen | cause or next step |\n|---|---|---|\n";
    const ROW: &str = "| fsb/quick watch::it_ends | 2026-11-29 | a race of two writers |\n";

    fn checked(rows: &str, today: &str) -> anyhow::Result<()> {
        check(&entries(&format!("{HEAD}{rows}"))?, today.parse().unwrap())
    }

    #[test]
    fn few_recent_entries_are_accepted() {
        assert!(checked("", "2026-12-01").is_ok());
        assert!(checked(&ROW.repeat(5), "2026-12-13").is_ok());
        assert!(checked(&ROW.repeat(6), "2026-12-13").is_err());
        assert!(checked(ROW, "2026-12-14").is_err());
        assert!(checked(ROW, "2027-11-30").is_err());
    }

    #[test]
    fn entries_name_a_test_a_date_and_a_cause() {
        let text = format!("{HEAD}{ROW}");
        let found = &entries(&text).unwrap()[0];
        assert_eq!((found.package, found.function), ("fsb", "it_ends"));
        for (part, other) in [
            ("fsb/quick ", ""),
            ("2026-11-29", "yesterday"),
            ("a race of two writers", "cause or next step"),
            ("| a race of two writers ", ""),
        ] {
            assert!(
                checked(&ROW.replace(part, other), "2026-12-01").is_err(),
                "{part}"
            );
        }
    }
}
