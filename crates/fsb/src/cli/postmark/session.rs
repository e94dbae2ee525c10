//! A conversation: line after line, from files and from standard input.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use anyhow::Context;
use fsb_codes::notice;
use fsb_compat::postmark::{self, Command, LANGUAGE_NEXT, Settings, print};
use fsb_model::errno;

use super::script::{self, Script};
use super::{check, run};
use crate::author;
use crate::code;
use crate::exit::{self, Failure};
use crate::front::Turn;
use crate::results;
use crate::signals::{Second, Signals};
use crate::stderr::{notify, say};

/// Files of commands may name each other; deeper than this they name themselves.
const DEEPEST: usize = 16;

/// What lasts from line to line.
pub struct Session {
    settings: Settings,
    /// What is read is compared.
    verify: bool,
    turn: Turn,
    /// Some run did not reach its end.
    failed: bool,
}

impl Session {
    /// With settings as PostMark starts.
    pub fn new(verify: bool, turn: Turn) -> Session {
        Session { settings: Settings::default(), verify, turn, failed: false }
    }

    /// The first lines.
    pub fn greet(&self) -> anyhow::Result<()> {
        results::print(&print::banner(&format!("fsb {}", env!("CARGO_PKG_VERSION"))))
    }

    /// What the program ends with.
    pub fn code(&self) -> u8 {
        if self.failed { exit::TRIALS } else { exit::DONE }
    }

    /// Goes through a file of commands without doing anything: what is wrong in it is said before the first run.
    pub fn check(&self, script: &Script) -> anyhow::Result<()> {
        check_script(script, &mut self.settings.clone(), 1).map(drop)
    }

    /// Does what a file says; whether it did not end with `quit`.
    pub fn follow(&mut self, script: &Script) -> anyhow::Result<bool> {
        results::print(&format!("Reading configuration from file '{}'\n", script.path.display()))?;
        for (index, line) in script.lines.iter().enumerate() {
            if !self.perform(line, &script.place(index))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does what standard input says. Who types is told what was wrong and asked again; a pipe is not.
    pub fn converse(&mut self) -> anyhow::Result<()> {
        let (input, typed) = (io::stdin(), io::stdin().is_terminal());
        for number in 1.. {
            results::print(print::PROMPT)?;
            let mut line = String::new();
            let read = input.lock().read_line(&mut line).context("cannot read commands from standard input")?;
            if read == 0 {
                break;
            }
            match self.perform(&line, &format!("standard input:{number}")) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if typed && error.downcast_ref::<Failure>().is_some_and(Failure::may_be_tried_again) => {
                    say(&format!("{error:#}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Does what a line says; whether there may be another one.
    fn perform(&mut self, line: &str, place: &str) -> anyhow::Result<bool> {
        match postmark::parse(line, &mut self.settings).map_err(|error| wrong(place, &error))? {
            Command::Done(remark) => {
                if let Some(remark) = remark {
                    say(&format!("{place}: {remark}"));
                }
            }
            Command::Show(file) => {
                let directory = std::env::current_dir().unwrap_or_default();
                emit(file.as_deref(), &self.settings.show(&directory.to_string_lossy()))?;
            }
            Command::Help(beginning) => results::print(&print::help(beginning.as_deref()))?,
            Command::Load(path) => {
                let script = script::read(Path::new(&path)).with_context(|| place.to_owned())?;
                self.check(&script)?;
                return self.follow(&script);
            }
            Command::Run(file) => self.run(file.as_deref(), place)?,
            Command::Quit => return Ok(false),
        }
        Ok(true)
    }

    fn run(&mut self, file: Option<&str>, place: &str) -> anyhow::Result<()> {
        check::check(&self.settings).with_context(|| place.to_owned())?;
        check::report(file).with_context(|| place.to_owned())?;
        // While files are there they are removed first; between two runs a signal ends the program as it usually does.
        let signals = Signals::catch(Second::Waits)?;
        let ended = run::run(&self.settings, self.verify, self.turn, &signals)?;
        // A signal that came as the run ended does not cost its report.
        let late = signals.let_go();
        match ended {
            run::Result::Report(text) => emit(file, &text).and(late),
            run::Result::Failed(why) => {
                self.failed = true;
                if let Some(why) = why {
                    let fields = [
                        ("place", place.into()),
                        ("reason", why.as_str().into()),
                        ("errno", errno::name_in(&why).into()),
                    ];
                    notify(&notice::RUN_FAILED, fields, &format!("{place}: run: {why}"));
                }
                Ok(())
            }
            run::Result::Interrupted => Err(signals.failure("interrupted: the files of this run are removed")),
        }
    }
}

fn wrong(place: &str, error: &str) -> anyhow::Error {
    exit::failure(&code::INVALID_POSTMARK, format!("{place}: {error}; {LANGUAGE_NEXT}"))
}

/// Whether a file of commands did not end with `quit`.
fn check_script(script: &Script, settings: &mut Settings, depth: usize) -> anyhow::Result<bool> {
    for (index, line) in script.lines.iter().enumerate() {
        let place = script.place(index);
        match postmark::parse(line, settings).map_err(|error| wrong(&place, &error))? {
            Command::Quit => return Ok(false),
            Command::Run(file) => {
                check::check(settings).with_context(|| place.clone())?;
                check::report(file.as_deref()).context(place)?;
            }
            Command::Show(file) => check::report(file.as_deref()).context(place)?,
            Command::Load(_) if depth == DEEPEST => {
                return Err(exit::failure(
                    &code::INVALID_POSTMARK,
                    format!("{place}: load: command files load each other without end"),
                ));
            }
            Command::Load(path) => {
                let loaded = script::read(Path::new(&path)).context(place)?;
                if !check_script(&loaded, settings, depth + 1)? {
                    return Ok(false);
                }
            }
            Command::Done(_) | Command::Help(_) => {}
        }
    }
    Ok(true)
}

/// Prints, or adds to a file.
fn emit(file: Option<&str>, text: &str) -> anyhow::Result<()> {
    let Some(path) = file else { return results::print(text) };
    let mut file = author::append(Path::new(path))?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write to {path}"))
}
