//! The hidden roles of the binary: supervisor, agent, worker, watcher, the roles of a virtual
//! machine and its guest, and one of several processes that IOzone's throughput mode measures.

use std::ffi::OsString;
use std::process::ExitCode;

#[cfg(feature = "emulations")]
use fsb_engine::classic::{CHILD_ARGUMENT, child_main};
use fsb_runner::agent::{self, AGENT_ARGUMENT, SUPERVISOR_ARGUMENT};
#[cfg(feature = "vm")]
use fsb_runner::vm::{self, VM_PROXY_ARGUMENT};
use fsb_runner::worker::{
    AS_CALLER, Backgrounds, Cycles, Steps, WORKER_ARGUMENT, WorkKind, worker_main,
};
use fsb_sys::{InvokingUser, sandbox};
use fsb_testbed::ledger::Owner;
use fsb_testbed::probe::{PROBE_ARGUMENT, probe_main};
use fsb_testbed::{LocalTestbed, TestbedError, WATCHER_ARGUMENT};
#[cfg(feature = "vm")]
use fsb_vm::machine::LAUNCH_ARGUMENT;

#[cfg(feature = "serve")]
use crate::cli::serve;
#[cfg(feature = "emulations")]
use crate::emulate::{iozone, postmark};
use crate::exit;
use crate::run::remote;
#[cfg(any(feature = "traces", feature = "vm"))]
use fsb_model::{code, failure};

/// All kinds of work that workers can do.
static WORK: &[WorkKind] = &[
    WorkKind::new::<Steps>(),
    WorkKind::new::<Cycles>(),
    WorkKind::new::<Backgrounds>(),
    #[cfg(feature = "emulations")]
    WorkKind::new::<iozone::Passes>(),
    #[cfg(feature = "emulations")]
    WorkKind::new::<postmark::Runs>(),
];

/// Runs the role that the first argument names, if it names one.
pub fn play(arguments: &[OsString]) -> Option<ExitCode> {
    #[cfg(feature = "vm")]
    if fsb_vm::guest::is_guest(arguments) {
        return Some(guest_main());
    }
    let code = match arguments.get(1)?.to_str()? {
        WORKER_ARGUMENT => {
            bind(arguments.get(2));
            Ok(worker_main(WORK))
        }
        AGENT_ARGUMENT => agent_main(&arguments[2..]),
        #[cfg(feature = "vm")]
        VM_PROXY_ARGUMENT => vm_proxy_main(&arguments[2..]),
        #[cfg(feature = "vm")]
        LAUNCH_ARGUMENT => return Some(refused(&fsb_vm::machine::launch_main(&arguments[2..]))),
        #[cfg(feature = "traces")]
        fsb_trace::record::CHILD_ARGUMENT => return Some(recorded_child(&arguments[2..])),
        #[cfg(feature = "emulations")]
        CHILD_ARGUMENT => Ok(iozone_child(&arguments[2..])),
        PROBE_ARGUMENT => Ok(probe_main(&arguments[2..])),
        // The supervisor's arguments are those of the agent that it starts.
        WATCHER_ARGUMENT => owner(&arguments[2..]).map(fsb_testbed::watch_coordinator),
        #[cfg(feature = "serve")]
        serve::WEB_ARGUMENT => return Some(finished(serve::web_main(&arguments[2..]))),
        remote::REMOTE_ARGUMENT => return Some(finished(remote::watch())),
        remote::REMOTE_RUN_ARGUMENT => return Some(finished(remote::run_for_other_host())),
        SUPERVISOR_ARGUMENT => sandbox::supervise(&arguments[2..]),
        _ => return None,
    };
    Some(match code {
        Ok(code) => ExitCode::from(code.clamp(0, 255) as u8),
        Err(error) => exit::report(&error.into()),
    })
}

/// `__worker PARENT`: makes a worker outside a supervisor die with its parent, which may be dead
/// already.
fn bind(parent: Option<&OsString>) {
    let Some(parent) = parent.and_then(|text| text.to_str()?.parse().ok()) else {
        return;
    };
    // If the kernel refuses, the worker ends when its time is over.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        std::process::exit(1);
    }
    if std::env::var_os(AS_CALLER).is_some()
        && InvokingUser::current().is_some_and(|invoking_user| invoking_user.adopt().is_err())
    {
        std::process::exit(i32::from(exit::MACHINE));
    }
}

/// `__agent OWNER`: runs the agent. The owner of its ledger entries is the coordinator, as the
/// coordinator identifies itself.
fn agent_main(arguments: &[OsString]) -> Result<i32, TestbedError> {
    let owner = owner(arguments)?;
    let stream = sandbox::protocol()?;
    fsb_sys::memory::keep_program_in_memory();
    let mut testbed = LocalTestbed::new(owner).seeing(sandbox::host_proc());
    match agent::serve(stream, &mut testbed) {
        Ok(()) => Ok(0),
        Err(why) => Err(TestbedError::machine("the agent lost its runner").tried(why)),
    }
}

/// Parses the identity of the coordinator.
fn owner(arguments: &[OsString]) -> Result<Owner, TestbedError> {
    let owner = arguments
        .first()
        .and_then(|text| serde_json::from_str(text.to_str()?).ok());
    owner.ok_or_else(|| TestbedError::request("a process of fsb has no invoking user"))
}

/// Returns the exit code of a role that is a command of its own.
fn finished(run: anyhow::Result<u8>) -> ExitCode {
    run.map_or_else(|error| exit::report(&error), ExitCode::from)
}

/// `__vm-proxy OWNER`: runs the agent of a run whose targets are in a virtual machine. The owner of
/// its ledger entries is the coordinator.
#[cfg(feature = "vm")]
fn vm_proxy_main(arguments: &[OsString]) -> Result<i32, TestbedError> {
    let owner = owner(arguments)?;
    vm::serve(sandbox::protocol()?, owner)
        .map(|()| 0)
        .map_err(|why| TestbedError::machine("the agent lost its runner").tried(why))
}

/// Runs PID 1 of a guest, and the child that serves there. Their messages go to the guest's
/// console.
#[cfg(feature = "vm")]
fn guest_main() -> ExitCode {
    match fsb_vm::guest::begin() {
        Ok(stream) => match vm::serve_in_guest(stream) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => exit::report(
                &TestbedError::machine("the agent in the guest lost its host")
                    .tried(why)
                    .into(),
            ),
        },
        Err(error) => refused(&error),
    }
}

/// `__record-child COMMAND`: becomes the recorded program.
#[cfg(feature = "traces")]
fn recorded_child(arguments: &[OsString]) -> ExitCode {
    match fsb_trace::record::child_main(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let program = fsb_trace::record::program_of(arguments).to_string_lossy();
            exit::report(&failure::failed_call(
                &code::PROGRAM,
                &error,
                format!("{program} cannot be run: {error}"),
            ))
        }
    }
}

#[cfg(feature = "vm")]
fn refused(error: &fsb_vm::VmError) -> ExitCode {
    exit::report(&failure::error(&code::UNABLE, error.to_string()))
}

/// `__iozone-child PARENT PHASE`: runs one of several processes that `fsb iozone -t` measures
/// together.
#[cfg(feature = "emulations")]
#[expect(
    clippy::print_stdout,
    reason = "what started the process reads the answer"
)]
fn iozone_child(arguments: &[OsString]) -> i32 {
    let text = |index: usize| {
        arguments
            .get(index)
            .and_then(|argument| argument.to_str())
            .unwrap_or_default()
    };
    // Use the invoking user's privileges for files if the parent does.
    if let Err(error) = text(0).parse().map_or(Ok(()), InvokingUser::adopt_as_in) {
        crate::message::say(&format!("error: {error}"));
        return i32::from(exit::MACHINE);
    }
    print!("{}", child_main(text(0), text(1)));
    0
}
