//! A run, from the banner to the line that reports its completion.

use anyhow::Context;
use fsb_compat::iozone::Options;
use fsb_compat::iozone::print::{self, Facts};
use fsb_engine::classic;

use super::session::{IozoneSession, Reports};
use super::{table, together};
use crate::coordinator::{Turn, warn_of_concurrent};
use crate::exit;
use crate::result_owner::Rights;
use crate::results;

/// Measures and prints.
pub fn run(options: &Options, program: &str, rights: Rights) -> anyhow::Result<u8> {
    let mut lock = Turn::of(options.allow_concurrent).take(&options.command)?;
    rights.adopt().context("the files under test")?;
    let mut session = IozoneSession::open(options, rights)?;
    results::print(&print::banner(options, &facts(program)))?;
    let mut reports = Reports::default();
    let measured = match options.throughput() {
        true => together::run(&mut session, &mut reports),
        false => table::run(&mut session, &mut reports),
    };
    // IOzone's text has no place for the warning.
    warn_of_concurrent(&mut lock);
    match measured {
        Ok(()) => {
            session.made.clear()?;
            if options.throughput() {
                // In throughput mode the report comes before the end, in tables after it.
                results::print(&reports.text)?;
                results::print(print::COMPLETE)?;
                results::print(&reports.beside)?;
            } else {
                results::print(print::COMPLETE)?;
                results::print(&reports.text)?;
            }
            reports.save(options)?;
            Ok(exit::DONE)
        }
        Err(error) => session.end(error, &reports),
    }
}

fn facts(program: &str) -> Facts {
    let uname = rustix::system::uname();
    let words = [uname.sysname(), uname.nodename(), uname.release(), uname.version(), uname.machine()];
    let machine: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Facts {
        program: program.to_owned(),
        platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        began: jiff::Zoned::now().strftime("%a %b %e %H:%M:%S %Y").to_string(),
        machine: format!("{} GNU/Linux", machine.join(" ")),
        resolution: classic::clock_resolution(),
    }
}
