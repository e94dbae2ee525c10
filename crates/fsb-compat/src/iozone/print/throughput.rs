//! Throughput mode: a block of lines for each operation.

use std::fmt::Write;

use crate::iozone::options::{Options, Unit};
use crate::iozone::sequence::{MatrixRow, Operation};

/// The result of one process or thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Child {
    /// The amount that it moved before the stonewall, in kilobytes or operations.
    pub moved: f64,
    /// The amount per second until then.
    pub rate: f64,
    /// The amount per second over its whole work, if it did all of it.
    pub full: Option<f64>,
    /// Elapsed and processor time, in seconds.
    pub wall: f64,
    /// See `wall`.
    pub cpu: f64,
}

/// The results of all processes or threads.
#[derive(Debug, Clone, PartialEq)]
pub struct ThroughputTest {
    pub operation: Operation,
    pub children: Vec<Child>,
    /// Seconds from the start signal to the end of the last one.
    pub seconds: f64,
}

impl ThroughputTest {
    /// Returns the sum of the children's rates.
    pub fn rate(&self) -> f64 {
        self.children.iter().map(|child| child.rate).sum()
    }
}

/// Returns `kB` or `ops`.
pub(crate) fn unit_name(options: &Options) -> &'static str {
    if options.unit == Unit::Operations { "ops" } else { "kB" }
}

/// Returns the line before the blocks of one number of processes. The blocks themselves print that number.
pub fn intro(options: &Options, sizes: MatrixRow) -> String {
    let one = if options.threads { "thread" } else { "process" };
    format!("\tEach {one} writes a {} kByte file in {} kByte records\n", sizes.file, sizes.record)
}

/// Returns the names of the children: before the equals sign of the children's line and of the parent's.
fn names(operation: Operation, count: usize) -> [String; 2] {
    let (wide, name, tabs) = match operation {
        Operation::Write => (true, "initial writers", ["\t", "\t"]),
        Operation::Rewrite => (true, "rewriters", ["\t", "\t"]),
        Operation::Read => (true, "readers", ["\t\t", "\t\t"]),
        Operation::Reread => (false, "re-readers", ["\t", "\t"]),
        Operation::BackwardRead => (false, "reverse readers", ["\t", "\t"]),
        Operation::StrideRead => (false, "stride readers", ["\t", "\t"]),
        Operation::RandomRead => (false, "random readers", ["\t", "\t"]),
        Operation::Mix => (false, "mixed workload", ["\t", "\t"]),
        Operation::RandomWrite => (false, "random writers", ["\t", "\t"]),
        Operation::Pwrite => (false, "pwrite writers", ["\t", "\t"]),
        Operation::Pread => (false, "pread readers", ["\t", "\t"]),
        Operation::Fwrite => (true, "fwriters", ["\t", "\t\t"]),
        Operation::Fread => (true, "freaders", ["\t", "\t\t"]),
        // Throughput mode has no such blocks.
        Operation::RecordRewrite => (false, "record rewriters", ["\t", "\t"]),
        Operation::Frewrite => (true, "re-fwriters", ["\t", "\t\t"]),
        Operation::Freread => (true, "re-freaders", ["\t", "\t\t"]),
    };
    tabs.map(|tabs| if wide { format!("{count:2} {name} {tabs}") } else { format!("{count} {name} {tabs}") })
}

/// Returns the block of an operation.
pub fn block(options: &Options, test: &ThroughputTest) -> String {
    let unit = unit_name(options);
    let port = if options.threads { "thread" } else { "process" };
    let children = &test.children;
    let [children_name, parent_name] = names(test.operation, children.len());
    let total: f64 = children.iter().map(|child| child.moved).sum();
    let rates = || children.iter().map(|child| child.rate);
    let least = rates().fold(f64::INFINITY, f64::min);
    let most = rates().fold(0.0, f64::max);
    let least_moved = children.iter().map(|child| child.moved).fold(f64::INFINITY, f64::min);
    let mean = test.rate() / children.len() as f64;
    let mut text = format!(
        "\n\tChildren see throughput for {children_name}= {:>10.2} {unit}/sec\n\
         \tParent sees throughput for {parent_name}= {:>10.2} {unit}/sec\n\
         \tMin throughput per {port} \t\t\t= {least:>10.2} {unit}/sec \n\
         \tMax throughput per {port} \t\t\t= {most:>10.2} {unit}/sec\n\
         \tAvg throughput per {port} \t\t\t= {mean:>10.2} {unit}/sec\n\
         \tMin xfer \t\t\t\t\t= {least_moved:>10.2} {unit}\n",
        test.rate(),
        total / test.seconds,
    );
    if options.cpu {
        text.push_str(&cpu(children));
    }
    if options.show_children {
        for (rank, child) in children.iter().enumerate() {
            text.push_str(&line_of(options, rank, child));
        }
    }
    text
}

/// Returns the rates without the stonewall, which IOzone does not print. They follow all of IOzone's own lines, so that
/// a reader that counts lines still works. A test has such a rate only if all its children finished. Returns an empty
/// text if no test has one.
pub fn without_stonewall(options: &Options, runs: &[Vec<ThroughputTest>]) -> String {
    let unit = unit_name(options);
    let mut text = String::new();
    for test in runs.iter().flatten().filter(|test| options.stonewall && test.children.len() > 1) {
        let full: Option<f64> = test.children.iter().map(|child| child.full).sum();
        if let Some(full) = full {
            let [name, _] = names(test.operation, test.children.len());
            _ = writeln!(text, "\tWithout the stonewall: {name}= {full:>10.2} {unit}/sec");
        }
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn cpu(children: &[Child]) -> String {
    let wall = children.iter().map(|child| child.wall.max(child.cpu)).fold(0.0, f64::max);
    let cpu: f64 = children.iter().map(|child| child.cpu).sum();
    let percent = percent(cpu, wall);
    format!("\tCPU Utilization: Wall time {wall:>8.3}    CPU time {cpu:>8.3}    CPU utilization {percent:>6.2} %\n\n")
}

fn percent(cpu: f64, wall: f64) -> f64 {
    if wall > 0.0 { 100.0 * cpu / wall } else { 0.0 }
}

fn line_of(options: &Options, rank: usize, child: &Child) -> String {
    let unit = unit_name(options);
    let Child { moved, rate, wall, cpu, .. } = child;
    let times = match options.cpu {
        true => format!(", wall={wall:>6.3}, cpu={cpu:>6.3}, %={:>6.2}", percent(*cpu, *wall)),
        false => String::new(),
    };
    format!("\tChild[{rank}] xfer count = {moved:>10.2} {unit}, Throughput = {rate:>10.2} {unit}/sec{times}\n")
}
