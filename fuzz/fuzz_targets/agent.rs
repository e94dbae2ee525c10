//! Any bytes that an agent in a guest sends end in replies or an error.
#![no_main]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use fsb_model::Target;
use fsb_runner::agent::{Agent, RowRequest, SeatTrial, TrialRequest, VERSION};
use fsb_testbed::Setup;
use libfuzzer_sys::fuzz_target;

const SETUP: &str = r#"{"targets": [], "size": 1, "dir": "/", "wipe": [], "controls": {}, "identity": {}, "seed": 1}"#;
const TRIAL: &str = r#"{"seat": 0, "workload": {"name": "read"}, "sizing": {"size": 1, "cpus": 1}, "seed": 1, "trial_seed": 1,
    "attempt": 1, "amount": {"repetitions": 1, "operations": 1}, "until_seconds": null,
    "deadline": {"secs": 1, "nanos": 0}}"#;

/// A request built from its type, so that a new field is a compile error here.
fn row(trial: &TrialRequest) -> RowRequest {
    RowRequest {
        workload: trial.workload.clone(),
        sizing: trial.sizing,
        own_files: true,
        revisit: false,
        operations: 1,
        units: 1,
        orders: vec![vec![0], vec![0]],
        lead_in: true,
        until_seconds: None,
        spares: 1,
        seed: 1,
        seats: vec![SeatTrial { seat: 0, trial_seed: 1 }],
        attempt: 1,
        deadline: trial.deadline,
        limit: None,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (host, guest) = UnixStream::pair().expect("a pair of sockets");
    let bytes = &bytes[..bytes.len().min(64 << 10)];
    // Only a guest that says hello is asked for more.
    let hello = format!("{{\"hello\":{{\"version\":{VERSION}}}}}\n");
    let said = [hello.as_bytes(), bytes].concat();
    (&guest).write_all(&said).expect("the socket has room for it");
    guest.shutdown(std::net::Shutdown::Write).expect("open");
    let Ok(mut agent) = Agent::connect(host, Arc::default()) else { return };
    let target: Target = "ext4".parse().expect("a target");
    let setup: Setup = serde_json::from_str(SETUP).expect("a setup");
    let trial: TrialRequest = serde_json::from_str(TRIAL).expect("a request");
    let _ = agent.open(&setup, &mut |_| {});
    let _ = agent.provision((0, 0), &target, &mut |_| {});
    let row = row(&trial);
    let _ = agent.trial(trial, &mut |_| {});
    let _ = agent.row(row, &mut |_| {});
    let _ = agent.release(0);
    let _ = agent.close();
});
