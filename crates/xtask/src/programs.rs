//! `cargo xtask programs`: records what real programs ask of a file system, for `docs/programs.md`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use fsb_testkit::programs::{Counts, Mode, Program, Recorded, counts, directory};
use fsb_trace::document::Document;
use fsb_trace::{Call, Header, Initial, Reader, Summary, Totals, TracePart, Writer};

/// The arguments of `xtask programs`.
#[derive(Debug, Args)]
pub struct Options {
    /// Record these programs again; without names, all that are installed
    #[arg(long, value_name = "NAME", num_args = 0..)]
    record: Option<Vec<String>>,
    /// Recorder [default: fsb beside this program, or target/debug/fsb]
    #[arg(long, value_name = "FILE")]
    fsb: Option<PathBuf>,
}

/// Lists the programs, or records some.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let Some(names) = &options.record else {
        return list();
    };
    let fsb = match &options.fsb {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("fsb"),
    };
    ensure!(
        fsb.exists(),
        "{} does not exist; build it by 'cargo build -p fsb', or name it with --fsb",
        fsb.display()
    );
    let mut failed = Vec::new();
    for name in &select(names)? {
        if let Err(error) = record(name, &fsb) {
            println!("{name}: {error:#}");
            failed.push(name.clone());
        }
    }
    ensure!(failed.is_empty(), "not recorded: {}", failed.join(", "));
    println!("run 'cargo xtask generate' to write docs/programs.md");
    Ok(())
}

/// Prints each program with the day of its recording, and whether it can be recorded here.
fn list() -> anyhow::Result<()> {
    for name in Program::names() {
        let program = Program::read(&name).map_err(|error| anyhow!(error))?;
        let day = match program.recorded() {
            Ok(recorded) => format!("recorded {}", recorded.date),
            Err(_) => "not recorded".to_owned(),
        };
        let state = match program.check_version() {
            Ok(()) => "installed".to_owned(),
            Err(reason) => reason,
        };
        let (version, modes) = (&program.version, program.modes.len());
        println!("{name:<12} {version:<12} {modes:>3} modes, {day}, {state}");
    }
    Ok(())
}

/// Returns the given names, or those of all programs that are installed.
fn select(names: &[String]) -> anyhow::Result<Vec<String>> {
    if !names.is_empty() {
        return Ok(names.to_vec());
    }
    let mut found = Vec::new();
    for name in Program::names() {
        let program = Program::read(&name).map_err(|error| anyhow!(error))?;
        match program.check_version() {
            Ok(()) => found.push(name),
            Err(reason) => println!("{name}: {reason}"),
        }
    }
    Ok(found)
}

/// Records all modes of a program with both sizes.
fn record(name: &str, fsb: &Path) -> anyhow::Result<()> {
    let program = Program::read(name).map_err(|error| anyhow!(error))?;
    program.check_version().map_err(|error| anyhow!(error))?;
    let scratch = tempfile::tempdir()?;
    let mut smaller = BTreeMap::new();
    for mode in &program.modes {
        let found = scratch.path().join("one.trace");
        for units in mode.sizes {
            let made = program.record(mode, units, fsb, &found);
            made.map_err(|error| anyhow!(error))?;
            let trace = Trace::read(&found)?;
            if units == mode.sizes[0] {
                smaller.insert(mode.name.clone(), trace.counts()?);
            } else {
                trace.write_neutral(&program, mode, units)?;
            }
        }
        println!("{name} {}", mode.name);
    }
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let recorded = Recorded {
        version: program.version.clone(),
        date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        kernel: neutral_kernel(&release),
        file_system: file_system(&std::env::temp_dir())?,
        smaller,
    };
    let text = serde_json::to_string_pretty(&recorded)? + "\n";
    fs::write(program.counts_file(), text)?;
    Ok(())
}

/// Returns the counts of the larger size of a mode, from its trace.
pub fn counts_of_trace(program: &Program, mode: &Mode) -> anyhow::Result<(Counts, Totals)> {
    let trace = Trace::read(&program.trace(mode))?;
    Ok((trace.counts()?, trace.totals))
}

/// A trace in memory.
struct Trace {
    header: Header,
    reader: Reader<BufReader<File>>,
    initial: Vec<Initial>,
    calls: Vec<Call>,
    totals: Totals,
}

impl Trace {
    fn read(path: &Path) -> anyhow::Result<Trace> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let mut reader = Reader::new(BufReader::new(file))?;
        let (mut initial, mut calls, mut end) = (Vec::new(), Vec::new(), None);
        while let Some(part) = reader.next_part()? {
            match part {
                TracePart::Initial(states) => initial.extend(states),
                TracePart::Calls(block) => calls.extend(block),
                TracePart::End(totals) => end = Some(*totals),
            }
        }
        Ok(Trace {
            header: reader.header().clone(),
            reader,
            initial,
            calls,
            totals: end.context("the trace has no end")?,
        })
    }

    fn counts(&self) -> anyhow::Result<Counts> {
        let (names, duration) = (self.reader.names(), self.totals.duration_ns);
        let mut summary = Summary::new(duration, self.header.overhead);
        summary.initial(&self.initial);
        for call in &self.calls {
            summary.add(call, names);
        }
        let document = Document::new(&self.header, &self.totals, &summary, names, duration);
        Ok(counts(&serde_json::to_value(document)?))
    }

    /// Writes the trace of a mode with a header that names nothing of this machine.
    fn write_neutral(&self, program: &Program, mode: &Mode, units: u64) -> anyhow::Result<()> {
        let header = Header {
            program: format!(
                "{} {}, {}: {units} × {}",
                program.title, program.version, mode.title, mode.unit
            ),
            root: "/srv/program".to_owned(),
            kernel: neutral_kernel(&self.header.kernel),
            ..self.header.clone()
        };
        fs::create_dir_all(directory())?;
        let file = File::create(program.trace(mode))?;
        let mut writer = Writer::new(BufWriter::new(file), &header)?;
        let names = self.reader.names();
        for number in 1..names.len() {
            writer.name(names.get(number))?;
        }
        for state in &self.initial {
            writer.initial(state.clone())?;
        }
        for call in &self.calls {
            writer.call(call)?;
        }
        writer.finish(self.totals.clone())?;
        Ok(())
    }
}

/// Returns the version of a kernel release, without the name of its builder.
fn neutral_kernel(release: &str) -> String {
    let version = release.split('-').next().unwrap_or_default();
    version.to_owned()
}

/// Returns the type of the file system of a directory.
fn file_system(directory: &Path) -> anyhow::Result<String> {
    let output = Command::new("findmnt")
        .args(["-n", "-o", "FSTYPE", "-T"])
        .arg(directory)
        .output()
        .context("cannot start findmnt")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
