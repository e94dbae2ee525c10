//! `fsb trace`: summaries and reductions of traces, and traces of other tools.

use std::fmt::Write;
use std::io::{BufRead, BufReader, BufWriter, Cursor, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fsb_compat::{identify, identify_file};
use fsb_model::code::Coded;
use fsb_model::units::{show_bytes, show_count, show_seconds, show_whole};
use fsb_model::{code, failure, notice};
use fsb_report::visible;
use fsb_store::owner;
use fsb_trace::document::{BUSIEST, Document};
use fsb_trace::import::{self, Imported};
use fsb_trace::summary::{Direction, Sizes};
use fsb_trace::{
    CallKind, Header, Names, Reader, Reduction, Summary, Totals, TraceError, TracePart, Writer,
    reduce,
};

use crate::message::{notify, say, say_warning};
use crate::results::{DocumentFormat, json_text, print_data};
use crate::{exit, wrong_kind};

const EXAMPLES: &str = "\
Examples:
  fsb record -o app.trace -- ./app          record a trace
  fsb trace show app.trace                  summarize it
  fsb run ext4 xfs --trace app.trace        replay it";

/// Show, reduce and import traces of programs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(ShowArguments),
    Reduce(ReduceArguments),
    Import(ImportArguments),
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    match &arguments.command {
        Command::Show(arguments) => show(arguments),
        Command::Reduce(arguments) => reduce_trace(arguments),
        Command::Import(arguments) => import_trace(arguments),
    }
}

// `fsb trace show`: summarizes the calls of a program as text and bars.

const SHOW_EXAMPLES: &str = "\
Examples:
  fsb trace show app.trace
  fsb trace show app.trace | less
  fsb trace show app.trace --format json | jq .kinds";

/// Summarize a trace: calls, sizes, files, syncs, rates over time
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
struct ShowArguments {
    /// Trace to summarize
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Format of the summary: text or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = DocumentFormat::Text, hide_possible_values = true)]
    format: DocumentFormat,
}

/// Runs the subcommand.
fn show(arguments: &ShowArguments) -> anyhow::Result<u8> {
    // The duration is known only at the end of the trace: the timeline is divided afterwards.
    let mut reader = open(&arguments.file)?;
    let (mut ended, mut duration, mut calls) = (None, 0, 0);
    loop {
        match reader.next_part() {
            Ok(Some(TracePart::Calls(block))) => {
                calls += block.len();
                duration = block
                    .iter()
                    .map(fsb_trace::Call::end_ns)
                    .fold(duration, u64::max);
            }
            Ok(Some(TracePart::End(totals))) => ended = Some(*totals),
            Ok(Some(TracePart::Initial(_))) => {}
            Ok(None) => break,
            // The part before a truncation is valid.
            Err(error @ TraceError::Truncated { .. }) if calls > 0 => {
                say_warning(format!("{}: {error}", arguments.file.display()));
                break;
            }
            Err(error) => return Err(unread(&arguments.file, &error)),
        }
    }
    let mut reader = open(&arguments.file)?;
    let mut summary = Summary::new(duration, reader.header().overhead);
    while let Ok(Some(part)) = reader.next_part() {
        match part {
            TracePart::Initial(states) => summary.initial(&states),
            TracePart::Calls(block) => block
                .iter()
                .for_each(|call| summary.add(call, reader.names())),
            TracePart::End(_) => {}
        }
    }
    let totals = ended.unwrap_or_default();
    let (header, names) = (reader.header(), reader.names());
    let text = match arguments.format {
        DocumentFormat::Text => summary_text(header, &totals, &summary, names, duration),
        DocumentFormat::Json => {
            json_text(&Document::new(header, &totals, &summary, names, duration))?
        }
    };
    print_data(&text)?;
    Ok(exit::DONE)
}

fn summary_text(
    header: &Header,
    totals: &Totals,
    summary: &Summary,
    names: &Names,
    duration: u64,
) -> String {
    let mut out = String::new();
    let what = if header.program.is_empty() {
        "a program".to_owned()
    } else {
        visible::line(&header.program).into_owned()
    };
    let seconds = duration as f64 * 1e-9;
    let threads = if totals.tasks == 1 {
        "1 thread".to_owned()
    } else {
        format!("{} threads", totals.tasks)
    };
    let _ = writeln!(
        out,
        "{what}: {} calls of {threads} in {}, seen by {} on Linux {}",
        show_whole(summary.replayed()),
        show_seconds(seconds),
        header.by,
        header.kernel
    );
    let [there, directories, links] = summary.initial;
    let _ = writeln!(
        out,
        "Before the recording: {there} files of {} ({} with holes), {directories} directories, {links} links.",
        show_bytes(summary.initial_sizes.sum as f64),
        summary.with_holes
    );
    for reason in &totals.incomplete {
        let _ = writeln!(
            out,
            "Incomplete: {} were not recorded.",
            visible::line(&reason.to_string())
        );
    }
    for note in &totals.notes {
        let _ = writeln!(out, "Note: {note}.");
    }
    if totals.outside > 0 {
        let _ = writeln!(
            out,
            "{} calls on files outside its root are left out.",
            show_whole(totals.outside)
        );
    }
    if let Some(woken) = summary
        .kinds
        .get(&(CallKind::Woken, CallKind::Woken.about().name))
    {
        let (times, waited) = (
            show_whole(woken.calls),
            show_seconds(woken.ns as f64 * 1e-9),
        );
        let _ = writeln!(
            out,
            "Its threads woke each other {times} times, after {waited} of waiting; a replay repeats these waits."
        );
    }
    kinds(&mut out, summary);
    direction(&mut out, "reads", &summary.reads);
    direction(&mut out, "writes", &summary.writes);
    syncs(&mut out, summary);
    files(&mut out, summary, names);
    timeline(&mut out, summary, seconds);
    out
}

fn kinds(out: &mut String, summary: &Summary) {
    let _ = writeln!(
        out,
        "\n{:<16}{:>10}{:>8}{:>12}{:>10}",
        "call", "count", "failed", "moved", "time"
    );
    let mut kinds: Vec<_> = summary
        .kinds
        .iter()
        .filter(|((kind, _), _)| kind.is_replayed())
        .collect();
    kinds.sort_by_key(|(_, of)| std::cmp::Reverse(of.calls));
    for ((_, name), of) in kinds {
        let moved = if of.bytes > 0 {
            show_bytes(of.bytes as f64)
        } else {
            String::new()
        };
        let time = show_seconds(of.ns as f64 * 1e-9);
        let _ = writeln!(
            out,
            "{:<16}{:>10}{:>8}{moved:>12}{time:>10}",
            name, of.calls, of.failed
        );
    }
}

fn direction(out: &mut String, what: &str, direction: &Direction) {
    let sizes = &direction.sizes;
    if sizes.count == 0 {
        return;
    }
    let share = 100.0 * direction.sequential as f64 / sizes.count as f64;
    let mean = show_bytes(sizes.sum as f64 / sizes.count as f64);
    let _ = writeln!(out, "\n{what}: {share:.0} % sequential; {mean} on average");
    bars(out, sizes, &|size| show_bytes(size as f64));
}

/// Prints one line per power of two, with a bar.
fn bars(out: &mut String, sizes: &Sizes, show: &dyn Fn(u64) -> String) {
    let most = sizes
        .steps()
        .iter()
        .map(|(_, count)| *count)
        .max()
        .unwrap_or(1)
        .max(1);
    for (size, count) in sizes.steps() {
        let bar = "█".repeat((40 * count / most) as usize);
        let bar = if bar.is_empty() && count > 0 {
            "▏".to_owned()
        } else {
            bar
        };
        let _ = writeln!(out, "  from {:>10} {count:>9} {bar}", show(size));
    }
}

fn syncs(out: &mut String, summary: &Summary) {
    let (syncs, durable) = (&summary.syncs, &summary.durable_writes);
    if durable.count > 0 {
        let _ = writeln!(
            out,
            "\n{} durable when they return (O_DSYNC, O_SYNC, RWF_DSYNC or RWF_SYNC): {} on average; each takes {} (median)",
            if durable.count == 1 {
                "1 write is".to_owned()
            } else {
                format!("{} writes are", show_whole(durable.count))
            },
            show_bytes(durable.sum as f64 / durable.count as f64),
            show_seconds(summary.durable_times.quantile(0.5) as f64 * 1e-9)
        );
        bars(out, &summary.durable_times, &|ns| {
            show_seconds(ns as f64 * 1e-9)
        });
    }
    if syncs.count == 0 {
        if durable.count == 0 {
            let _ = writeln!(out, "\nThe program never syncs its data.");
        }
        return;
    }
    let writes = summary.plain_writes;
    let other = if durable.count > 0 {
        "other writes"
    } else {
        "writes"
    };
    let _ = writeln!(
        out,
        "\n{}, one each {:.1} {other}, {} between two (median); each takes {} (median)",
        if syncs.count == 1 {
            "1 sync".to_owned()
        } else {
            format!("{} syncs", show_whole(syncs.count))
        },
        writes as f64 / syncs.count as f64,
        show_bytes(summary.between_syncs.quantile(0.5) as f64),
        show_seconds(syncs.quantile(0.5) as f64 * 1e-9)
    );
    bars(out, syncs, &|ns| show_seconds(ns as f64 * 1e-9));
}

fn files(out: &mut String, summary: &Summary, names: &Names) {
    let [read, written, synced] = summary.files.read_written_synced();
    let (directories, most) = summary.files.directories();
    let _ = writeln!(
        out,
        "\n{} names used: {read} read, {written} written, {synced} synced, {} by several threads; {directories} \
         directories, up to {most} names in one, {} deep",
        summary.files.count(),
        summary.files.shared(),
        summary.files.deepest
    );
    for (name, file) in summary.files.busiest(BUSIEST) {
        let name = String::from_utf8_lossy(names.get(name)).into_owned();
        let name = if name.is_empty() {
            ".".to_owned()
        } else {
            visible::line(&name).into_owned()
        };
        let _ = writeln!(
            out,
            "  {:>10} read {:>10} written {:>7} calls  {name}",
            show_bytes(file.read as f64),
            show_bytes(file.written as f64),
            file.calls
        );
    }
}

/// Prints the timeline of calls and bytes.
fn timeline(out: &mut String, summary: &Summary, seconds: f64) {
    const STEPS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let slice = seconds / summary.timeline.len() as f64;
    let _ = writeln!(out, "\nover {}:", show_seconds(seconds));
    for (at, what) in [(0, "calls"), (1, "bytes")] {
        let most = summary
            .timeline
            .iter()
            .map(|both| both[at])
            .max()
            .unwrap_or(0);
        let step = |count: u64| {
            (u128::from(count) * 8)
                .div_ceil(u128::from(most.max(1)))
                .min(8) as usize
        };
        let line: String = summary
            .timeline
            .iter()
            .map(|both| STEPS[step(both[at])])
            .collect();
        let rate = most as f64 / slice.max(1e-9);
        let rate = if at == 0 {
            format!("{}/s", show_count(rate))
        } else {
            format!("{}/s", show_bytes(rate))
        };
        let _ = writeln!(out, "  {what} |{line}| up to {rate}");
    }
}

// `fsb trace reduce`: reduces a trace to a flow with the same mixes.

const REDUCE_EXAMPLES: &str = "\
Examples:
  fsb trace reduce app.trace
  fsb trace reduce app.trace -o app-flow.toml
  fsb list workloads flow                   the parameters of a flow";

/// Reduce a trace to a flow with the same mix of operations
///
/// A flow holds operations with their frequencies, and files with their sizes. It holds no names,
/// no order and no times, so it can be published. A plan contains it as flow = """…""" of the
/// workload flow.
#[derive(Debug, Args)]
#[command(after_help = REDUCE_EXAMPLES)]
struct ReduceArguments {
    /// Trace to reduce
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Flow file to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the subcommand.
fn reduce_trace(arguments: &ReduceArguments) -> anyhow::Result<u8> {
    let mut reader = open(&arguments.file)?;
    let mut reduction = Reduction::default();
    let mut totals = None;
    while let Some(part) = reader
        .next_part()
        .map_err(|error| unread(&arguments.file, &error))?
    {
        match part {
            TracePart::Initial(states) => reduction.initial(&states),
            TracePart::Calls(calls) => calls.iter().for_each(|call| reduction.add(call)),
            TracePart::End(end) => totals = Some(*end),
        }
    }
    let text = reduce(&reduction, &totals.unwrap_or_default());
    match &arguments.output {
        Some(path) => owner::replace(path, text.as_bytes())?,
        None => print_data(&text)?,
    }
    Ok(exit::DONE)
}

// `fsb trace import`: traces of other tools.

const IMPORT_EXAMPLES: &str = "\
Examples:
  strace -f -ttt -T -o app.log ./app; fsb trace import app.log -o app.trace
  fsb trace import app.log --root /srv/app -o app.trace   with relative names
  fsb trace import fio.iolog -o fio.trace
  blkparse sda | fsb trace import /dev/stdin -o sda.trace";

/// Convert a log of strace, fio or blkparse to a trace
///
/// Reads the output of 'strace -f -ttt -T', of fio's write_iolog (versions 2 and 3), and of
/// blkparse.
#[derive(Debug, Args)]
#[command(after_help = IMPORT_EXAMPLES)]
struct ImportArguments {
    /// Log to read
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Trace file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Directory whose files are imported, and base of relative names
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Replace file names by meaningless ones
    #[arg(long)]
    anonymous: bool,
}

/// Runs the subcommand.
fn import_trace(arguments: &ImportArguments) -> anyhow::Result<u8> {
    let unread = |error| unread(&arguments.file, &error);
    let mut file =
        fsb_store::input::open_or_pipe(&arguments.file).map_err(|error| unread(error.into()))?;
    let mut head = Vec::new();
    (&mut file)
        .take(import::HEAD as u64)
        .read_to_end(&mut head)?;
    let importer = import::find(&head).map_err(|error| {
        let other = wrong_kind::failure(
            &arguments.file,
            identify(&head),
            "fsb trace import",
            error.code(),
        );
        other.unwrap_or_else(|| unread(error))
    })?;
    let mut from: Box<dyn BufRead> = Box::new(BufReader::with_capacity(
        1 << 20,
        Cursor::new(head).chain(file),
    ));
    let header = Header {
        by: importer.name.to_owned(),
        fsb: env!("CARGO_PKG_VERSION").to_owned(),
        anonymous: arguments.anonymous,
        ..Header::default()
    };
    let root = arguments.root.as_os_str().as_encoded_bytes();
    let root = fsb_trace::normal(b"/", root);
    let output = output(&arguments.output)?;
    let mut writer = Writer::new(BufWriter::new(output), &header)?;
    let Imported {
        tasks,
        outside,
        incomplete,
        notes,
        skipped,
    } = (importer.read)(&mut *from, &root, &mut writer).map_err(unread)?;
    let known = Totals {
        tasks,
        outside,
        incomplete,
        notes,
        ..Totals::default()
    };
    let (_, totals, bytes) = writer
        .finish(known)
        .map_err(|error| unwritten(&arguments.output, &error))?;
    if totals.calls == 0 {
        say("it has no call on a file below --root");
    }
    say(&format!(
        "{}: {} calls of {}, {} bytes a call{}",
        arguments.output.display(),
        show_whole(totals.replayed),
        importer.name,
        bytes / totals.replayed.max(1),
        if skipped > 0 {
            format!("; {skipped} lines without a call")
        } else {
            String::new()
        }
    ));
    tell(&totals);
    Ok(exit::DONE)
}

// Files that hold a trace: opening them, and errors that name them.

fn open(path: &Path) -> anyhow::Result<Reader<BufReader<std::fs::File>>> {
    let file = fsb_store::input::open_or_pipe(path).map_err(|error| unread(path, &error.into()))?;
    Reader::new(BufReader::with_capacity(1 << 20, file)).map_err(|error| {
        let kind = identify_file(path).filter(|_| matches!(error, TraceError::NotATrace));
        wrong_kind::failure(path, kind, "fsb trace show", error.code())
            .unwrap_or_else(|| unread(path, &error))
    })
}

/// Opens the output file of a trace and truncates it.
pub fn output(path: &Path) -> anyhow::Result<std::fs::File> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if owner::looking(|| path.is_dir() || !directory.is_dir())? {
        return Err(failure::advised(
            &code::UNWRITABLE,
            format!(
                "cannot write {}: it is a directory, or its directory does not exist",
                path.display()
            ),
            "name a file in a directory that exists with -o",
        ));
    }
    let file = owner::append(path)?;
    if file.metadata().is_ok_and(|found| found.is_file()) {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Prints the notes on a trace that was written.
pub fn tell(totals: &Totals) {
    totals
        .notes
        .iter()
        .for_each(|note| say(&format!("note: {note}")));
    for reason in &totals.incomplete {
        let text = format!(
            "incomplete: {reason} were not recorded; fsb run replays the trace only with --force"
        );
        notify(
            &notice::INCOMPLETE_TRACE,
            [("reason", serde_json::to_value(reason).unwrap_or_default())],
            &text,
        );
    }
}

/// Returns the failure of a trace that could not be written.
pub fn unwritten(path: &Path, error: &TraceError) -> anyhow::Error {
    let message = format!("cannot write {}: {error}", path.display());
    match error {
        TraceError::Io(cause) => failure::failed_call(&code::OUTPUT_FAILED, cause, message),
        _ => failure::error(&code::OUTPUT_FAILED, message),
    }
}

fn unread(path: &Path, error: &TraceError) -> anyhow::Error {
    let message = format!("cannot read {}: {error}", path.display());
    match error {
        TraceError::Io(cause) => failure::failed_call(&code::UNREADABLE, cause, message),
        error => failure::because(error, message),
    }
}
