//! Executes commands line by line, from files and from standard input.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use anyhow::Context;
use fsb_codes::notice;
use fsb_compat::postmark::{self, Command, LANGUAGE_NEXT, Settings, print};
use fsb_model::errno;

use super::script::{self, Script};
use super::{check, run};
use crate::code;
use crate::coordinator::Turn;
use crate::exit::{self, Failure};
use crate::result_owner;
use crate::results;
use crate::signals::{Second, Signals};
use crate::stderr::{notify, say};

/// The nesting limit of command files; a deeper one includes itself.
const DEEPEST: usize = 16;

/// State that lasts from line to line.
pub struct PostmarkSession {
    settings: Settings,
    /// Whether the data read is compared with the data written.
    verify: bool,
    turn: Turn,
    /// Whether a run did not finish.
    failed: bool,
}

impl PostmarkSession {
    /// Returns a session with PostMark's initial settings.
    pub fn new(verify: bool, turn: Turn) -> PostmarkSession {
        PostmarkSession { settings: Settings::default(), verify, turn, failed: false }
    }

    /// Prints the banner.
    pub fn greet(&self) -> anyhow::Result<()> {
        results::print(&print::banner(&format!("fsb {}", env!("CARGO_PKG_VERSION"))))
    }

    /// Returns the exit code of the program.
    pub fn code(&self) -> u8 {
        if self.failed { exit::TRIALS } else { exit::DONE }
    }

    /// Checks a file of commands without executing it, so that fsb reports its errors before the first run.
    pub fn check(&self, script: &Script) -> anyhow::Result<()> {
        check_script(script, &mut self.settings.clone(), 1).map(drop)
    }

    /// Executes the commands of a file. Returns whether it ended without `quit`.
    pub fn follow(&mut self, script: &Script) -> anyhow::Result<bool> {
        results::print(&format!("Reading configuration from file '{}'\n", script.path.display()))?;
        for (index, line) in script.lines.iter().enumerate() {
            if !self.perform(line, &script.place(index))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Executes the commands of standard input. After an error a terminal gets the message and the next prompt; a pipe
    /// ends the session.
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

    /// Executes a line. Returns whether another one may follow.
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
        // A signal during a run removes its files first; between two runs it ends the program.
        let signals = Signals::catch(Second::Waits)?;
        let ended = run::run(&self.settings, self.verify, self.turn, &signals)?;
        // A signal that arrives as the run ends does not discard its report.
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

/// Checks a file of commands. Returns whether it ends without `quit`.
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

/// Prints the text, or appends it to a file.
fn emit(file: Option<&str>, text: &str) -> anyhow::Result<()> {
    let Some(path) = file else { return results::print(text) };
    let mut file = result_owner::append(Path::new(path))?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write to {path}"))
}
