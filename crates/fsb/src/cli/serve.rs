//! `fsb serve`: the history in a browser, and with `--allow-runs` runs from a browser.
//!
//! With `--allow-runs`, this process is the helper, which makes runs. It starts the web process
//! with the rights of an ordinary user, and answers its requests over a pair of sockets.

mod client;
mod form;
mod helper;
mod policy;
mod protocol;

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use clap::Args;
use fsb_history::Location;
use fsb_model::{code, failure, notice};
use fsb_report::show::{self, counted};
use fsb_serve::{Control, Hosts, Limits, Problem, Site, WriteError, router, serve, write_files};
use fsb_store::owner;
use fsb_store::owner::Rights;
use fsb_sys::InvokingUser;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, geteuid, getrlimit, kill_process,
    set_dumpable_behavior, set_parent_process_death_signal, setrlimit,
};
use serde::{Deserialize, Serialize};

use self::client::HelperClient;
use self::helper::Helper;
use self::policy::Permitted;
use self::protocol::{Connection, LONGEST_REQUEST};
use super::history::StoreArguments;
use crate::exit;
use crate::exit::{Second, Signals};
use crate::message::notify;
use crate::results::print;

const EXAMPLES: &str = "\
Examples:
  fsb serve                                      pages at http://127.0.0.1:8080/
  fsb serve --store team.sqlite --listen 127.0.0.1:0
  fsb serve --listen 0.0.0.0:8080 --host bench   for other machines, too
  sudo fsb serve --allow-runs --store index.sqlite  starts and watches runs, too
  fsb serve --static public                      files for any web server";

/// The argument that makes the binary the web process of `--allow-runs`.
pub const WEB_ARGUMENT: &str = "__serve-web";

/// Show the history in a browser: changes, series, runs, comparisons
///
/// Serves pages and JSON that only read: changes in words, series with charts, reports and
/// comparisons of runs, and a matrix over kernels. /api/openapi.json describes the JSON. It has no
/// login, so everybody who reaches the address sees the history. With --allow-runs, the printed
/// address holds a token that also permits to plan, start, watch and stop runs: on loop images, in
/// memory, and on what --wipe and --directory name. Ctrl-C ends it.
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
    #[arg(long = "static", value_name = "DIR", conflicts_with_all = ["listen", "host", "allow_runs"])]
    files: Option<PathBuf>,
    /// Let who has the printed token make runs with the rights of this command; loopback addresses
    /// only
    #[arg(long, conflicts_with = "host")]
    allow_runs: bool,
    /// With --allow-runs: runs may overwrite this block device; repeatable
    #[arg(
        long,
        value_name = "DEVICE",
        requires = "allow_runs",
        hide_short_help = true
    )]
    wipe: Vec<PathBuf>,
    /// With --allow-runs: runs may measure this directory; repeatable
    #[arg(
        long,
        value_name = "DIR",
        requires = "allow_runs",
        hide_short_help = true
    )]
    directory: Vec<PathBuf>,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    if arguments.allow_runs {
        return allow_runs(arguments);
    }
    // The command needs no right of root, and SQLite makes files beside the store.
    Rights::InvokingUser.adopt()?;
    let site = Site::open(arguments.store.location()?)?;
    if let Some(directory) = &arguments.files {
        return write(&site, directory);
    }
    let (listener, listen) = bind(arguments.listen)?;
    if !listen.ip().is_loopback() {
        let text =
            "warning: everybody who reaches this address sees the history: fsb serve has no login";
        notify(
            &notice::OPEN_TO_ALL,
            [("address", listen.to_string().into())],
            text,
        );
    }
    serve_at(listener, listen, site, &arguments.host, None)
}

/// Returns a listener and its address.
fn bind(listen: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(listen).map_err(|error| {
        let help = "choose another port: --listen 127.0.0.1:0 takes any free one";
        failure::advised_call(
            &code::UNABLE,
            &error,
            format!("cannot listen on {listen}: {error}"),
            help,
        )
    })?;
    let listen = listener
        .local_addr()
        .map_err(|error| failed(listen, &error))?;
    Ok((listener, listen))
}

fn failed(listen: SocketAddr, error: &io::Error) -> anyhow::Error {
    failure::failed_call(
        &code::SYSTEM,
        error,
        format!("cannot serve on {listen}: {error}"),
    )
}

/// Serves until a signal comes.
fn serve_at(
    listener: TcpListener,
    listen: SocketAddr,
    site: Site,
    names: &[String],
    control: Option<Control>,
) -> anyhow::Result<u8> {
    let address = control.as_ref().map(Control::address).unwrap_or_default();
    let router = router(Arc::new(site), Hosts::new(listen, names), control);
    serve(listener, router, limits(), || {
        print(&format!("http://{listen}/{address}\n")).map_err(io::Error::other)
    })
    .map_err(|error| failed(listen, &error))?;
    Ok(exit::DONE)
}

// Runs from a browser: the helper starts the web process and answers it.

/// The arguments of the web process.
#[derive(Debug, Serialize, Deserialize)]
struct WebArguments {
    store: StoreArguments,
    listen: SocketAddr,
    permitted: Permitted,
}

/// The user and the group of the web process of a server that root started without sudo.
const NOBODY: (u32, u32) = (65_534, 65_534);

/// Starts the web process and makes the runs that it requests.
fn allow_runs(arguments: &Arguments) -> anyhow::Result<u8> {
    let listen = arguments.listen;
    if !listen.ip().is_loopback() {
        let message =
            format!("--allow-runs listens on loopback addresses only, and {listen} is not one");
        let help = "from another machine, use a tunnel: ssh -L 8080:127.0.0.1:8080 HOST";
        return Err(failure::advised(&code::CONFLICT, message, help));
    }
    // A link is followed only now, because it may lead to another device later.
    let device = |path: &PathBuf| {
        let failed = |error| {
            failure::error(
                &code::INVALID_VALUE,
                format!("--wipe {}: {error}", path.display()),
            )
        };
        path.canonicalize().map_err(failed)
    };
    let directories = arguments
        .directory
        .iter()
        .map(|directory| owner::absolute(directory));
    let permitted = Permitted {
        wipe: arguments
            .wipe
            .iter()
            .map(device)
            .collect::<Result<_, _>>()?,
        directories: directories.collect::<Result<_, _>>()?,
        images: std::env::current_dir()?,
    };
    let mut helper =
        Helper::new(permitted.clone()).map_err(|why| failure::error(&code::INVALID_VALUE, why))?;
    make_store(&arguments.store)?;
    let signals = Signals::catch(Second::Waits)?;
    let (own, of_web) = UnixStream::pair()?;
    let web = WebArguments {
        store: arguments.store.clone(),
        listen,
        permitted,
    };
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(WEB_ARGUMENT)
        .arg(serde_json::to_string(&web)?)
        .stdin(Stdio::from(OwnedFd::from(of_web)));
    if geteuid().is_root() {
        let (uid, gid) = InvokingUser::current().map_or(NOBODY, |user| (user.uid, user.gid));
        command.uid(uid).gid(gid);
    }
    let mut web = command.spawn()?;
    // The command has a copy of the end of the web process. The helper ends when all copies are
    // closed.
    drop(command);
    let served = helper.serve(Connection::new(own, LONGEST_REQUEST)?, &signals);
    // A web process that has already ended is a zombie, which ignores the signal.
    let _ = kill_process(Pid::from_child(&web), Signal::TERM);
    let status = web.wait()?;
    served?;
    match status.code() {
        Some(code) => Ok(u8::try_from(code).unwrap_or(exit::MACHINE)),
        None => Err(failure::error(
            &code::SYSTEM,
            format!("the web process ended: {status}"),
        )),
    }
}

/// Makes the store of a first run, or brings it up to date, if only root can write to its
/// directory. The web process only reads it, and makes all other stores itself.
fn make_store(store: &StoreArguments) -> anyhow::Result<()> {
    // Also refuses a store that cannot be named before a process is started.
    let Location::File(path) = store.location()? else {
        return Ok(());
    };
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if !geteuid().is_root() || Rights::over([directory]).ok() != Some(Rights::Own) {
        return Ok(());
    }
    if InvokingUser::current().is_none()
        && let Some(closed) = closed_directory(&path)
    {
        let shown = closed.display();
        let message = format!(
            "the pages are served by user nobody, who cannot enter {shown}, where the store is"
        );
        let help = "name a store in a directory that all users can enter, or start the server with sudo from a user";
        return Err(failure::advised(&code::UNABLE, message, help));
    }
    let is_new = !path.exists();
    store.open_or_create()?;
    if is_new {
        let readable = Permissions::from_mode(0o644);
        std::fs::set_permissions(&path, readable).map_err(|error| {
            failure::failed_call(
                &code::UNWRITABLE,
                &error,
                format!("cannot make {} readable: {error}", path.display()),
            )
        })?;
    }
    Ok(())
}

/// Returns the outermost directory of a path that only its owner and group can enter, if there is
/// one.
fn closed_directory(path: &Path) -> Option<PathBuf> {
    const ENTER: u32 = 0o001;
    let path = std::path::absolute(path).ok()?;
    let directories: Vec<&Path> = path.ancestors().skip(1).collect();
    directories
        .into_iter()
        .rev()
        .find(|directory| {
            std::fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & ENTER == 0)
        })
        .map(Path::to_owned)
}

/// `__serve-web ARGUMENTS`: serves the pages, and passes what they request to the helper, which is
/// the parent.
pub fn web_main(arguments: &[OsString]) -> anyhow::Result<u8> {
    fsb_sys::memory::return_large_blocks();
    // Other processes of the same user, such as services that share an account, must not trace this
    // one to send requests.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Without the helper, no page can start or stop a run.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    let text = arguments
        .first()
        .and_then(|text| text.to_str())
        .unwrap_or_default();
    let WebArguments {
        store,
        listen,
        permitted,
    } = serde_json::from_str(text)?;
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // A first run has no history yet. One that only root can write exists by now.
    if !matches!(store.location()?, Location::File(path) if path.exists()) {
        store.open_or_create()?;
    }
    let site = Site::open(store.location()?)?.allowing_runs();
    let (listener, listen) = bind(listen)?;
    let client = HelperClient::new(stream, permitted)?;
    let control =
        Control::new(Box::new(client), listen.port()).map_err(|error| failed(listen, &error))?;
    serve_at(listener, listen, site, &[], Some(control))
}

/// Raises the limit on open files as far as the kernel permits, and returns the limits of
/// connections. Each connection needs an open file.
fn limits() -> Limits {
    /// Files of the store, of runs that are read, and of the process itself.
    const OWN_FILES: u64 = 128;
    let limits = Limits::default();
    let files = getrlimit(Resource::Nofile);
    let wanted = (limits.connections as u64).saturating_add(OWN_FILES);
    let current = match files.current {
        Some(current) if current < wanted => {
            let allowed = files.maximum.map_or(wanted, |most| wanted.min(most));
            let raised = setrlimit(
                Resource::Nofile,
                Rlimit {
                    current: Some(allowed),
                    maximum: files.maximum,
                },
            );
            if raised.is_ok() { allowed } else { current }
        }
        _ => wanted,
    };
    let connections = current.saturating_sub(OWN_FILES).max(1);
    Limits {
        connections: limits.connections.min(connections as usize),
        ..limits
    }
}

/// Writes the pages as files.
fn write(site: &Site, directory: &Path) -> anyhow::Result<u8> {
    let mut store = |name: &str, content: &[u8]| {
        let path = directory.join(name);
        if let Some(parent) = path.parent() {
            owner::result_owner()
                .act(|| std::fs::create_dir_all(parent))
                .and_then(|made| made)?;
        }
        owner::replace(&path, content).map_err(io::Error::other)
    };
    let (files, left_out) = write_files(site, &mut store).map_err(|error| match error {
        WriteError::Page(Problem::Store(error)) => error.into(),
        WriteError::Page(problem) => anyhow::Error::new(problem),
        WriteError::File(error) => failure::failed_call(
            &code::OUTPUT_FAILED,
            &error,
            format!("cannot write to {}: {error}", directory.display()),
        ),
    })?;
    if !left_out.is_empty() {
        const SHOWN: usize = 3;
        let text = format!(
            "warning: {} left out: {}",
            counted(left_out.len(), "report"),
            show::some_of(&left_out, SHOWN)
        );
        notify(
            &notice::REPORTS_LEFT_OUT,
            [("reports", left_out.len().into())],
            &text,
        );
    }
    let text = format!(
        "{} written to {}",
        counted(files, "file"),
        directory.display()
    );
    notify(
        &notice::PAGES,
        [
            ("files", files.into()),
            ("path", directory.to_string_lossy().into()),
        ],
        &text,
    );
    Ok(exit::DONE)
}
