//! `fsb trace import`: traces of other tools.

use std::io::{BufRead, BufReader, BufWriter, Cursor, Read};
use std::path::PathBuf;

use clap::Args;
use fsb_model::units::show_count;
use fsb_trace::import::{self, Imported};
use fsb_trace::{Header, Totals, Writer};

use crate::exit;
use crate::stderr::say;

const EXAMPLES: &str = "\
Examples:
  strace -f -ttt -T -o app.log ./app; fsb trace import app.log -o app.trace
  fsb trace import app.log --root /srv/app -o app.trace   with relative names
  fsb trace import fio.iolog -o fio.trace
  blkparse sda | fsb trace import /dev/stdin -o sda.trace";

/// Convert a log of strace, fio or blkparse to a trace
///
/// Reads the output of 'strace -f -ttt -T', of fio's write_iolog (versions 2 and 3), and of blkparse.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
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
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let unread = |error| super::unread(&arguments.file, &error);
    let mut file = fsb_store::input::open_or_pipe(&arguments.file).map_err(|error| unread(error.into()))?;
    let mut head = Vec::new();
    (&mut file).take(import::HEAD as u64).read_to_end(&mut head)?;
    let importer = import::find(&head).map_err(unread)?;
    let mut from: Box<dyn BufRead> = Box::new(BufReader::with_capacity(1 << 20, Cursor::new(head).chain(file)));
    let header = Header {
        by: importer.name.to_owned(),
        fsb: env!("CARGO_PKG_VERSION").to_owned(),
        anonymous: arguments.anonymous,
        ..Header::default()
    };
    let root = arguments.root.as_os_str().as_encoded_bytes();
    let root = fsb_trace::normal(b"/", root);
    let output = super::output(&arguments.output)?;
    let mut writer = Writer::new(BufWriter::new(output), &header)?;
    let Imported { tasks, outside, incomplete, notes, skipped } =
        (importer.read)(&mut *from, &root, &mut writer).map_err(unread)?;
    let known = Totals { tasks, outside, incomplete, notes, ..Totals::default() };
    let (_, totals, bytes) = writer.finish(known).map_err(|error| super::unwritten(&arguments.output, &error))?;
    if totals.calls == 0 {
        say("it has no call on a file below --root");
    }
    say(&format!(
        "{}: {} calls of {}, {} bytes a call{}",
        arguments.output.display(),
        show_count(totals.calls as f64),
        importer.name,
        bytes / totals.calls.max(1),
        if skipped > 0 { format!("; {skipped} lines without a call") } else { String::new() }
    ));
    super::tell(&totals);
    Ok(exit::DONE)
}
