//! Does one step of a trial, given as JSON on the command line, and prints the report: for strace
//! and for trying things out. The gate opens by itself.
//!
//! ```console
//! $ engine-step '{"step":"prepare","workload":{"name":"append","file_size":"64K"},"sizing":{"size":67108864,"cpus":2},
//!                 "root":"/srv/data","seed":1,"operations":16,"repetition":0,"evict":false,"clock":"monotonic"}'
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it prints the report of a step"
)]

use std::process::ExitCode;

use fsb_engine::{EngineError, Gate, Ready, Task, worker};

struct Open;

impl Gate for Open {
    fn ready(&mut self, ready: Ready) -> Result<(), EngineError> {
        // One piece and one call, so that the reader of a trace finds the start of the timed part.
        let line = format!("{ready:?}\n");
        eprint!("{line}");
        Ok(())
    }
}

fn main() -> ExitCode {
    let Some(text) = std::env::args().nth(1) else {
        eprintln!("usage: engine-step TASK, where TASK is JSON");
        return ExitCode::from(2);
    };
    let task: Task = match serde_json::from_str(&text) {
        Ok(task) => task,
        Err(error) => {
            eprintln!("this is not a task: {error}");
            return ExitCode::from(2);
        }
    };
    match worker::perform(&task, &mut Open) {
        Ok(report) => {
            println!("{}", serde_json::json!(report));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
