//! What make cannot say. `cargo run --release -p xtask -- bench` measures the engine against its peers.

mod bench;
mod count;
mod peers;
mod summary;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Tasks of FSBench that are too long for make")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// The hot loop beside a bare C loop and fio, on one file in the page cache.
    Bench(bench::Options),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Bench(options) => bench::run(&options),
    }
}
