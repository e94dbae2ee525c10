//! `docs/programs.md`: what programs ask of a file system, from their recordings.

use std::fmt::Write;

use anyhow::{Context, anyhow};
use fsb_report::show::entry;
use fsb_testkit::programs::{COLUMNS, Column, Counts, Mode, Program, Recorded, Share};
use fsb_trace::{Remark, Totals, TraceNote};

use crate::programs::counts_of_trace;

/// The width of lines of pages.
const COLUMNS_OF_PAGES: usize = 120;

/// The counts of one mode.
struct Row<'p> {
    mode: &'p Mode,
    fewer: Counts,
    more: Counts,
    totals: Totals,
}

impl Row<'_> {
    fn share(&self, key: &str) -> Share {
        self.mode.share([&self.fewer, &self.more], key)
    }

    fn is_used(&self, column: &Column) -> bool {
        let kept = matches!(column.key, "fsync" | "fdatasync");
        kept || self.more[column.key] > 0 || self.fewer[column.key] > 0
    }

    /// Returns what the trace lacks, as a list entry.
    fn unseen(&self) -> Option<String> {
        let gaps = self.totals.incomplete.iter();
        let mut parts: Vec<String> = gaps.map(ToString::to_string).collect();
        let mapped = |note: &_| matches!(note, Remark::Known(TraceNote::Mapped { .. }));
        if self.totals.notes.iter().any(mapped) {
            parts.push("reads through mappings".to_owned());
        }
        if !self.mode.unseen.is_empty() {
            parts.push(self.mode.unseen.clone());
        }
        (!parts.is_empty()).then(|| parts.join(" and "))
    }
}

/// Returns the page.
///
/// # Panics
/// Panics if a definition is not valid or has no recording.
pub fn page() -> String {
    let mut page = include_str!("programs.md").to_owned();
    let mut surprises = String::new();
    for name in Program::names() {
        let written = add_program(&name, &mut page, &mut surprises);
        written.unwrap_or_else(|error| panic!("{name}: {error:#}"));
    }
    let _ = write!(page, "\n## Surprises\n\n{surprises}");
    page
}

/// Adds the section of a program and its surprises.
fn add_program(name: &str, page: &mut String, surprises: &mut String) -> anyhow::Result<()> {
    let program = Program::read(name).map_err(|error| anyhow!(error))?;
    let recorded = program.recorded().map_err(|error| anyhow!(error))?;
    let mut rows = Vec::new();
    for mode in &program.modes {
        let fewer = recorded.smaller.get(&mode.name);
        let fewer = fewer.with_context(|| format!("no counts of {}", mode.name))?;
        let (more, totals) = counts_of_trace(&program, mode)?;
        rows.push(Row {
            mode,
            fewer: fewer.clone(),
            more,
            totals,
        });
    }
    add_table(page, &program, &recorded, &rows);
    for text in &program.surprises {
        add_entry(surprises, &filled(text, &rows)?);
    }
    Ok(())
}

fn add_table(page: &mut String, program: &Program, recorded: &Recorded, rows: &[Row]) {
    let Recorded {
        version,
        date,
        kernel,
        file_system,
        ..
    } = recorded;
    let _ = writeln!(
        page,
        "\n## {}\n\nVersion {version} (package {}), recorded on {date} on {file_system}, Linux {kernel}.\n",
        program.title, program.package
    );
    let columns = COLUMNS
        .iter()
        .filter(|column| rows.iter().any(|row| row.is_used(column)));
    let columns: Vec<&Column> = columns.collect();
    let (mut head, mut line) = ("| mode | per |".to_owned(), "|---|---|".to_owned());
    for column in &columns {
        let _ = write!(head, " {} |", column.heading);
        line += "---|";
    }
    let _ = writeln!(page, "{head}\n{line}");
    for row in rows {
        let _ = write!(page, "| {} | {} |", row.mode.title, row.mode.unit);
        for column in &columns {
            let _ = write!(page, " {} |", cell(row.share(column.key)));
        }
        page.push('\n');
    }
    add_unseen(page, rows);
}

/// Lists what the traces lack, once for all modes that lack the same.
fn add_unseen(page: &mut String, rows: &[Row]) {
    let mut lacks: Vec<(String, Vec<&str>)> = Vec::new();
    for row in rows {
        let Some(unseen) = row.unseen() else {
            continue;
        };
        match lacks.iter_mut().find(|(known, _)| *known == unseen) {
            Some((_, modes)) => modes.push(&row.mode.title),
            None => lacks.push((unseen, vec![&row.mode.title])),
        }
    }
    if lacks.is_empty() {
        return;
    }
    page.push_str("\nThe recorder cannot see:\n\n");
    for (unseen, modes) in lacks {
        let modes = if modes.len() == rows.len() {
            "all modes".to_owned()
        } else {
            modes.join("; ")
        };
        add_entry(page, &format!("{unseen}: {modes}"));
    }
}

/// Adds a list entry in lines that pages allow.
fn add_entry(page: &mut String, text: &str) {
    let _ = writeln!(page, "{}", entry("* ", text, COLUMNS_OF_PAGES));
}

/// Returns the count per unit and that of start and end.
fn cell(share: Share) -> String {
    let once = share.once.round();
    let text = number(share.per_unit);
    if once == 0.0 {
        text
    } else if once > 0.0 {
        format!("{text} + {}", number(once))
    } else {
        format!("{text} − {}", number(-once))
    }
}

/// Returns a count with two decimals, or none if it is whole or large.
fn number(count: f64) -> String {
    let whole = count.round();
    if (count - whole).abs() >= 0.005 && count.abs() < 100.0 {
        return format!("{count:.2}");
    }
    let digits = format!("{}", whole.max(0.0) as u64);
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Replaces `{MODE.KEY}` by the count per unit, and `{MODE.KEY.once}` by that of start and end.
fn filled(text: &str, rows: &[Row]) -> anyhow::Result<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').context("a brace is not closed")?;
        let parts: Vec<&str> = name.split('.').collect();
        let row = rows.iter().find(|row| row.mode.name == parts[0]);
        let row = row.with_context(|| format!("{{{name}}}: no such mode"))?;
        let key = parts.get(1).copied().unwrap_or_default();
        COLUMNS
            .iter()
            .find(|column| column.key == key)
            .with_context(|| format!("{{{name}}}: no such column"))?;
        let share = row.share(key);
        out += before;
        out += &match parts.get(2) {
            None => number(share.per_unit),
            Some(&"once") => number(share.once),
            Some(_) => anyhow::bail!("{{{name}}}: only 'once' may follow the column"),
        };
        rest = after;
    }
    Ok(out + rest)
}
