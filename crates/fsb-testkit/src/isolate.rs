//! Places of its own for a test program: it runs once more, where the run lock and the undo ledger are private.
//!
//! Root has a mount namespace with empty `/run` and `/var/lib/fsb`; others have directories of their own by the
//! environment. Where neither can be made (a container without the right to), the program runs as it is.

use std::process::{Command, ExitCode, Stdio};

/// Set in the second run of the program.
const ISOLATED: &str = "FSB_TEST_ISOLATED";
/// How many parts of the program run beside each other.
const JOBS: &str = "FSB_TEST_JOBS";
/// Which part this is: `1/4`.
const PART: &str = "FSB_TEST_PART";

/// What makes the places and waits for the program: where processes are the program's own, somebody must reap orphans.
const PRIVATE: &str = "mount -t tmpfs tmpfs /run && mkdir -p /run/lock /var/lib/fsb && chmod 1777 /run/lock && \
                       mount -t tmpfs tmpfs /var/lib/fsb || exit 101; \"$@\"; exit $?";

/// Which part of how many.
pub(crate) fn part() -> Option<(usize, usize)> {
    let text = std::env::var(PART).ok()?;
    let (this, all) = text.split_once('/')?;
    Some((this.parse().ok()?, all.parse().ok()?))
}

/// Runs the program again in places of its own, and gives its code; nothing where this is that run already.
pub(crate) fn in_places_of_its_own() -> Option<ExitCode> {
    if std::env::var_os(ISOLATED).is_some() {
        return None;
    }
    let jobs: usize = std::env::var(JOBS).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    if jobs <= 1 {
        let (mut command, _places) = again(false)?;
        let status = command.status().expect("the program starts again");
        return Some(code(status.code()));
    }
    let parts = (0..jobs).map(|this| {
        let (mut command, places) = again(true)?;
        command.env(PART, format!("{this}/{jobs}")).env_remove(JOBS).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("the program starts again");
        // Pipes of all parts are read at once, or one that says much would wait for another's end.
        Some((std::thread::spawn(move || child.wait_with_output()), places))
    });
    let parts: Vec<_> = parts.collect::<Option<_>>()?;
    let mut worst = 0;
    for (part, _places) in parts {
        let output = part.join().expect("a thread that waits").expect("the program ends");
        print!("{}", String::from_utf8_lossy(&output.stdout));
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        worst = worst.max(output.status.code().unwrap_or(101));
    }
    Some(code(Some(worst)))
}

fn code(code: Option<i32>) -> ExitCode {
    ExitCode::from(code.map_or(101, |code| code.clamp(0, 255) as u8))
}

/// The program with its arguments; `apart`: with processes of its own, too. The directory lives as long as it runs.
fn again(apart: bool) -> Option<(Command, Option<tempfile::TempDir>)> {
    let program = std::env::current_exe().ok()?;
    let arguments = std::env::args_os().skip(1);
    if rustix::process::geteuid().is_root() {
        let processes: &[&str] = if apart { &["--pid", "--fork", "--mount-proc", "--kill-child"] } else { &[] };
        let unshare = || {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--propagation", "private"]).args(processes);
            command.args(["--", "sh", "-c", PRIVATE, "isolated"]);
            command
        };
        let possible = unshare().arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        if !possible {
            eprintln!(
                "warning: no mount namespace can be made here: the run lock and the undo ledger are the machine's"
            );
            return None;
        }
        let mut command = unshare();
        command.arg(program).args(arguments).env(ISOLATED, "1");
        return Some((command, None));
    }
    let places = tempfile::Builder::new().prefix("fsb-places-").tempdir().ok()?;
    let mut command = Command::new(program);
    command.args(arguments).env(ISOLATED, "1");
    command.env("XDG_RUNTIME_DIR", places.path()).env("XDG_STATE_HOME", places.path());
    Some((command, Some(places)))
}
