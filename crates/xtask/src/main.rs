//! Development tasks beyond make. `cargo run --release -p xtask -- bench` compares the engine and
//! `fsb compare` with their peers.

#![expect(unsafe_code, reason = "calls before exec and those of the peers")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tasks print their results"
)]

mod agree;
mod answer;
mod backends;
mod bench;
mod book;
mod compare;
mod constants;
mod cycles;
mod direct;
mod emulations;
mod fast;
mod generate;
mod history;
mod hyperfine;
mod licences;
mod mpi;
mod peers;
mod programs;
mod prose;
mod quiet;
mod replay;
mod runs;
mod style;
mod unstable;

use bench::BenchPart;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Tasks of FSBench that are too long for make")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build, size and start of the program beside an earlier one and PostMark. Then the hot loop
    /// beside a bare C loop and fio, on one file in the page cache; every backend beside fio; a
    /// recorded program beside its replay. Then rows of the suite 'quick' beside the same rows of
    /// fio, and the time of fio in turn for the same intervals. Then `fsb iozone` beside IOzone,
    /// `fsb postmark` beside PostMark and `fsb filebench` beside filebench; `fsb compare` beside a
    /// script and, on runs, beside an earlier build. Last, `fsb history` and `fsb serve` beside
    /// SQLite and a static file; reads after a heavy write beside reads alone; `fsb-mpi` beside
    /// `fsb run` with as many processes.
    Bench(bench::Options),
    /// Builds the documentation as a book, with mdBook, in target/book.
    Book,
    /// Checks that no source uses a constant whose value differs from that of its name.
    Constants,
    /// Checks that no source files of a crate depend on each other, directly or through others.
    Cycles(cycles::CycleOptions),
    /// Probes O_DIRECT on file systems in images, and writes the tables of docs/methods/direct.md.
    /// Needs root, losetup and the mkfs programs. Prints and leaves out what cannot be made.
    Direct,
    /// Checks licences and sources of all packages against deny.toml.
    Licences,
    /// Lists the programs of docs/programs.md, or records what they ask of a file system.
    Programs(programs::Options),
    /// Checks that comments, pages and test names have plain wording.
    Prose,
    /// Checks the number of named closures, iterator adapters and long functions of each crate, and
    /// the width of comments and pages.
    Style(style::Options),
    /// Checks that tests/UNSTABLE.md is short and recent.
    Unstable,
    /// Writes the pages and JSON Schemas in docs that are generated from the source.
    Generate(generate::Options),
    /// One step of the engine's side of a pair; the task is JSON.
    #[command(name = backends::STEP, hide = true)]
    Step { task: String },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Step { task } => backends::step(&task),
        Task::Book => book::run(),
        Task::Constants => constants::run(),
        Task::Cycles(options) => cycles::run(&options),
        Task::Direct => direct::run(),
        Task::Licences => licences::run(),
        Task::Programs(options) => programs::run(&options),
        Task::Prose => prose::run(),
        Task::Style(options) => style::run(&options),
        Task::Unstable => unstable::run(),
        Task::Generate(options) => generate::run(&options),
        Task::Bench(options) => measure(&options),
    }
}

/// Measures all parts of the benchmark, or the one that is requested.
fn measure(options: &bench::Options) -> anyhow::Result<()> {
    let parts_of_fast = [BenchPart::Engine, BenchPart::Runs];
    let wanted = |part| match options.only {
        None => true,
        Some(BenchPart::Fast) => part == BenchPart::Fast || parts_of_fast.contains(&part),
        Some(only) => only == part,
    };
    if wanted(BenchPart::Fast) {
        fast::run(options)?;
    }
    if wanted(BenchPart::Engine) {
        bench::run(options)?;
    }
    if wanted(BenchPart::Backends) {
        backends::run(options)?;
    }
    if wanted(BenchPart::Replay) {
        replay::run(options)?;
    }
    if wanted(BenchPart::Agree) {
        agree::run(options)?;
    }
    if wanted(BenchPart::Answer) {
        answer::run(options)?;
    }
    if wanted(BenchPart::Hyperfine) {
        hyperfine::run(options)?;
    }
    if wanted(BenchPart::Iozone) {
        emulations::iozone(options)?;
    }
    if wanted(BenchPart::Postmark) {
        emulations::postmark(options)?;
    }
    if wanted(BenchPart::Filebench) {
        emulations::filebench(options)?;
    }
    if wanted(BenchPart::Compare) {
        compare::run(&options.dir, options.rounds)?;
    }
    if wanted(BenchPart::Runs) {
        runs::run(&options.dir, options.rounds)?;
    }
    if wanted(BenchPart::History) {
        history::run(&options.dir, options.rounds, options.trials)?;
    }
    if wanted(BenchPart::Quiet) {
        quiet::run(&options.dir, options.rounds)?;
    }
    if wanted(BenchPart::Mpi) {
        mpi::run(options)?;
    }
    Ok(())
}
