//! The output of PostMark, with times from a clock of nanoseconds.

use fsb_model::postmark::{Shape, Tally};

use super::{COMMANDS, Settings, Style};

/// Asks for a command.
pub const PROMPT: &str = "pm>";
/// Ends each stage.
pub const DONE: &str = "Done\n";
/// A tenth of the transactions is done.
pub const DOT: &str = ".";
/// Before the directories are made.
pub const MAKING_DIRECTORIES: &str = "Creating subdirectories...";
/// Before the files are created.
pub const CREATING: &str = "Creating files...";
/// Before the transactions.
pub const TRANSACTING: &str = "Performing transactions";
/// Instead of [`DONE`], where the pool ran empty.
pub const OUT_OF_FILES: &str = "out of files!\nFor this workload, either increase the number of files or\n\
                                decrease the number of transactions.\n";
/// Before the files that are left are deleted.
pub const DELETING: &str = "Deleting files...";
/// Before the directories are removed.
pub const REMOVING_DIRECTORIES: &str = "Deleting subdirectories...";

/// Returns the banner, which precedes everything else.
pub fn banner(program: &str) -> String {
    format!(
        "PostMark v1.51 ({program})\n\
         This is not PostMark: {program} does what PostMark 1.53 does and prints it in the same form, \
         with a clock of nanoseconds.\n"
    )
}

/// Returns the answer to `help`: the commands that begin with the text, or all of them if none
/// does.
pub fn help(beginning: Option<&str>) -> String {
    let begins = |name: &str| beginning.is_some_and(|beginning| name.starts_with(beginning));
    let any = COMMANDS.iter().any(|(name, _)| begins(name));
    let lines = COMMANDS.iter().filter(|(name, _)| !any || begins(name));
    lines
        .map(|(name, about)| format!("{name} - {about}\n"))
        .collect()
}

/// The result of a run.
#[derive(Debug, Clone, Copy)]
pub struct PostmarkOutcome {
    /// The counts of operations and bytes.
    pub tally: Tally,
    /// Files that were deleted after the transactions.
    pub deleted_alone: u64,
    /// Seconds of everything between the directories' making and their removal.
    pub total: f64,
    /// Seconds of creating the first files.
    pub creation: f64,
    /// Seconds of the transactions.
    pub transactions: f64,
    /// Seconds of deleting the remaining files.
    pub deletion: f64,
}

pub fn report(settings: &Settings, outcome: &PostmarkOutcome) -> String {
    match settings.style {
        Style::Verbose => verbose(&settings.shape, outcome),
        Style::Terse => terse(&settings.shape, outcome),
    }
}

fn verbose(shape: &Shape, outcome: &PostmarkOutcome) -> String {
    let PostmarkOutcome {
        tally,
        deleted_alone,
        total,
        creation,
        transactions,
        deletion,
    } = *outcome;
    let number = u64::from(shape.number);
    let mixed = [tally.created - number, tally.deleted - deleted_alone];
    let rate = |count: u64, seconds: f64| rate(per_second(count as f64, seconds));
    let bytes = |sum: f32| {
        let (sum, per_second) = (f64::from(sum), per_second(f64::from(sum), total));
        [sum, per_second].map(scaled)
    };
    let ([read, read_rate], [written, write_rate]) =
        (bytes(tally.single_read), bytes(tally.single_written));
    format!(
        "Time:\n\
         \t{total:.6} seconds total\n\
         \t{transactions:.6} seconds of transactions ({} per second)\n\n\
         Files:\n\
         \t{} created ({} per second)\n\
         \t\tCreation alone: {number} files ({} per second)\n\
         \t\tMixed with transactions: {} files ({} per second)\n\
         \t{} read ({} per second)\n\
         \t{} appended ({} per second)\n\
         \t{} deleted ({} per second)\n\
         \t\tDeletion alone: {deleted_alone} files ({} per second)\n\
         \t\tMixed with transactions: {} files ({} per second)\n\n\
         Data:\n\
         \t{read} read ({read_rate} per second)\n\
         \t{written} written ({write_rate} per second)\n",
        rate(u64::from(shape.transactions), transactions),
        tally.created,
        rate(tally.created, total),
        rate(number, creation),
        mixed[0],
        rate(mixed[0], transactions),
        tally.read,
        rate(tally.read, transactions),
        tally.appended,
        rate(tally.appended, transactions),
        tally.deleted,
        rate(tally.deleted, total),
        rate(deleted_alone, deletion),
        mixed[1],
        rate(mixed[1], transactions),
    )
}

fn terse(shape: &Shape, outcome: &PostmarkOutcome) -> String {
    let PostmarkOutcome {
        tally,
        deleted_alone,
        total,
        creation,
        transactions,
        deletion,
    } = *outcome;
    let number = u64::from(shape.number);
    let rates = [
        (f64::from(shape.transactions), transactions),
        (tally.created as f64, total),
        (number as f64, creation),
        ((tally.created - number) as f64, transactions),
        (tally.read as f64, transactions),
        (tally.appended as f64, transactions),
        (tally.deleted as f64, total),
        (deleted_alone as f64, deletion),
        ((tally.deleted - deleted_alone) as f64, transactions),
        (f64::from(tally.single_read), total),
        (f64::from(tally.single_written), total),
    ];
    let rates: Vec<_> = rates
        .iter()
        .map(|&(sum, seconds)| format!("{:.2}", per_second(sum, seconds)))
        .collect();
    format!("{total:.6} {transactions:.6} {}\n", rates.join(" "))
}

/// Returns a note with the true sums of bytes. Returns `None` if PostMark's sums, in single
/// precision, print the same.
pub fn rounded(tally: &Tally) -> Option<String> {
    let differs = |single: f32, whole: u64| scaled(f64::from(single)) != scaled(whole as f64);
    let any = differs(tally.single_read, tally.bytes_read)
        || differs(tally.single_written, tally.bytes_written);
    any.then(|| {
        format!(
            "bytes are summed as PostMark sums them, in single precision; it read {} bytes and wrote {}",
            tally.bytes_read, tally.bytes_written
        )
    })
}

fn per_second(sum: f64, seconds: f64) -> f64 {
    sum / seconds.max(1e-9)
}

/// Prints whole numbers, as PostMark does, but small ones with two digits of their fraction.
fn rate(value: f64) -> String {
    if value == 0.0 || value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// Returns bytes in the unit that PostMark chooses.
fn scaled(bytes: f64) -> String {
    const KILOBYTE: f64 = 1024.0;
    const MEGABYTE: f64 = KILOBYTE * KILOBYTE;
    if bytes > MEGABYTE {
        format!("{:.2} megabytes", bytes / MEGABYTE)
    } else if bytes > 0.0 {
        format!("{:.2} kilobytes", bytes / KILOBYTE)
    } else {
        format!("{bytes:.6} bytes")
    }
}
