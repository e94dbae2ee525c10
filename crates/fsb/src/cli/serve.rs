//! `fsb serve`: the history in a browser.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use fsb_codes::notice;
use fsb_report::choice::Choice;
use fsb_report::show::{self, counted};
use fsb_report::{Report, html};
use fsb_serve::{Hosts, Limits, Problem, Reports, Site, WriteError, router, serve, write_files};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::compare;
use super::history::StoreArguments;
use crate::message::{notify, say};
use crate::result_owner::Rights;
use crate::results::print;
use crate::{code, exit, result_owner, results, stored};

const EXAMPLES: &str = "\
Examples:
  fsb serve                                      pages at http://127.0.0.1:8080/
  fsb serve --store team.sqlite --listen 127.0.0.1:0
  fsb serve --listen 0.0.0.0:8080 --host bench   for other machines, too
  fsb serve --static public                      files for any web server";

/// Show the history in a browser: changes, series, runs, comparisons
///
/// Serves pages and JSON that only read: changes in words, series with charts, reports and comparisons of runs, and a matrix
/// over kernels. /api/openapi.json describes the JSON. It has no login, so everybody who reaches the address sees
/// the history. Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Address and port to listen on; port 0 is any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Further name of this machine, under which browsers may ask
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Write the pages as files to this directory instead, without search and comparisons
    #[arg(long = "static", value_name = "DIR", conflicts_with_all = ["listen", "host"])]
    files: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    // The command needs no right of root, and SQLite makes files beside the store.
    Rights::InvokingUser.adopt()?;
    let site = Site::open(arguments.store.location()?, Box::new(RunReports))?;
    if let Some(directory) = &arguments.files {
        return write(&site, directory);
    }
    let listen = arguments.listen;
    let failed = |error: io::Error| exit::failure(&code::SYSTEM, format!("cannot serve on {listen}: {error}"));
    let listener = TcpListener::bind(listen).map_err(|error| {
        let help = "choose another port: --listen 127.0.0.1:0 takes any free one";
        exit::advised(&code::UNABLE, format!("cannot listen on {listen}: {error}"), help)
    })?;
    let listen = listener.local_addr().map_err(failed)?;
    if !listen.ip().is_loopback() {
        let text = "warning: everybody who reaches this address sees the history: fsb serve has no login";
        notify(&notice::OPEN_TO_ALL, [("address", listen.to_string().into())], text);
    }
    let router = router(Arc::new(site), Hosts::new(listen, &arguments.host));
    let started = || print(&format!("http://{listen}/\n")).map_err(io::Error::other);
    serve(listener, router, limits(), started).map_err(failed)?;
    Ok(exit::DONE)
}

/// Returns the limits of connections, of which each needs an open file. Raises the limit on open files as far as it may.
fn limits() -> Limits {
    /// Files of the store, of runs that are read, and of the process itself.
    const OWN_FILES: u64 = 128;
    let limits = Limits::default();
    let files = getrlimit(Resource::Nofile);
    let wanted = (limits.connections as u64).saturating_add(OWN_FILES);
    let current = match files.current {
        Some(current) if current < wanted => {
            let allowed = files.maximum.map_or(wanted, |most| wanted.min(most));
            let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum: files.maximum });
            if raised.is_ok() { allowed } else { current }
        }
        _ => wanted,
    };
    let connections = current.saturating_sub(OWN_FILES).max(1);
    Limits { connections: limits.connections.min(connections as usize), ..limits }
}

/// Writes the pages as files.
fn write(site: &Site, directory: &Path) -> anyhow::Result<u8> {
    let mut store = |name: &str, content: &[u8]| {
        let path = directory.join(name);
        if let Some(parent) = path.parent() {
            result_owner::result_owner().act(|| std::fs::create_dir_all(parent)).and_then(|made| made)?;
        }
        result_owner::replace(&path, content).map_err(io::Error::other)
    };
    let (files, left_out) = write_files(site, &mut store).map_err(|error| match error {
        WriteError::Page(Problem::Store(error)) => error.into(),
        WriteError::Page(problem) => anyhow::Error::new(problem),
        WriteError::File(error) => {
            exit::failure(&code::OUTPUT_FAILED, format!("cannot write to {}: {error}", directory.display()))
        }
    })?;
    if !left_out.is_empty() {
        const SHOWN: usize = 3;
        let text =
            format!("warning: {} left out: {}", counted(left_out.len(), "report"), show::some_of(&left_out, SHOWN));
        notify(&notice::REPORTS_LEFT_OUT, [("reports", left_out.len().into())], &text);
    }
    say(&format!("{} written to {}", counted(files, "file"), directory.display()));
    Ok(exit::DONE)
}

/// Renders reports from run directories for each request. Another user could have written a stored page.
struct RunReports;

impl Reports for RunReports {
    fn run(&self, source: &Path) -> Result<String, String> {
        let run = stored::read(source).map_err(|error| error.to_string())?;
        if Choice::from_run(&run.record, &run.trials).is_some() {
            return Err(format!("A race has no page: fsb report {} prints it.", source.display()));
        }
        let summary = results::summary_of_shown(&run.record, &run.trials);
        let summary = match fsb_store::is_page(source) {
            true => summary,
            false => stored::with_last_run(summary, &run.record, source),
        };
        Ok(html::render(&Report::of_shown(&summary, &run.trials)))
    }

    fn comparison(&self, before: &[PathBuf], after: &[PathBuf]) -> Result<String, String> {
        let set = |name: &str, paths: &[PathBuf]| {
            let mut text = OsString::from(format!("{name}="));
            for (place, path) in paths.iter().enumerate() {
                if place > 0 {
                    text.push(",");
                }
                text.push(path);
            }
            text
        };
        compare::page(&[set("before", before), set("after", after)]).map_err(|error| format!("{error:#}"))
    }
}
