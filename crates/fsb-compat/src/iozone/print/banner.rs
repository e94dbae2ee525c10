//! The lines before the numbers.

use std::fmt::Write;

use crate::iozone::options::{BannerLine, Options, Unit};
use crate::iozone::sequence::counts;

/// Facts that the banner prints and the options do not contain.
#[derive(Debug, Clone)]
pub struct Facts {
    /// `fsb 0.1.0`.
    pub program: String,
    /// `linux-x86_64`.
    pub platform: String,
    /// `Fri Nov 20 16:42:32 2026`, as ctime(3) has it.
    pub began: String,
    /// `uname -a`, for `-M`.
    pub machine: String,
    /// The resolution of the clock, in seconds.
    pub resolution: f64,
}

/// Returns everything before the table or the first block of throughput mode.
pub fn banner(options: &Options, facts: &Facts) -> String {
    let Facts { program, platform, began, machine, resolution } = facts;
    let mut text = format!(
        "\tIozone: Performance Test of File I/O\n\
         \t        Version $Revision: 3.471 ({program}) $\n\
         \t\tCompiled for {bits} bit mode.\n\
         \t\tBuild: {platform} \n\n\
         \tThis is not IOzone: {program} does what IOzone 3.471 does and prints it in the same form.\n\n\
         \tRun began: {began}\n\n",
        bits = usize::BITS
    );
    for line in &options.lines {
        match line {
            BannerLine::Text(line) => _ = writeln!(text, "\t{line}"),
            BannerLine::Machine => _ = write!(text, "\n\tMachine = {machine}\n"),
        }
    }
    _ = writeln!(text, "\tCommand line used: {}", options.command);
    if options.unit == Unit::Kilobytes {
        text.push_str("\tOutput is in kBytes/sec\n");
    }
    _ = write!(
        text,
        "\tTime Resolution = {resolution:1.6} seconds.\n\
         \tProcessor cache size set to {} kBytes.\n\
         \tProcessor cache line size set to {} bytes.\n\
         \tFile stride size set to {} * record size.\n",
        options.cache_size, options.cache_line, options.stride
    );
    if options.throughput() {
        text.push_str(&processes(options));
    }
    text
}

fn processes(options: &Options) -> String {
    let (one, many) = if options.threads { ("thread", "threads") } else { ("process", "processes") };
    let counts = counts(options);
    let mut text = String::new();
    if options.least_processes.is_some() || options.most_processes.is_some() {
        let least = counts.iter().min().copied().unwrap_or(1);
        let most = counts.iter().max().copied().unwrap_or(1);
        _ = write!(text, "\tMin {one} = {least} \n\tMax {one} = {most} \n");
    }
    // Of several -t IOzone announces the last one typed, and begins with the first.
    let announced = if options.counts.is_empty() { counts.first() } else { counts.last() };
    let announced = announced.copied().unwrap_or(1);
    _ = writeln!(text, "\tThroughput test with {announced} {}", if announced > 1 { many } else { one });
    text
}
