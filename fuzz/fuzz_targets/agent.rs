//! Any bytes that an agent in a guest sends end in replies or an error.
#![no_main]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use fsb_engine::Sizing;
use fsb_model::{Amount, Target, WorkloadSpec};
use fsb_runner::agent::{Agent, MeasureRequest, Method, SlotTrial, VERSION};
use fsb_testbed::Setup;
use libfuzzer_sys::fuzz_target;

const SETUP: &str = r#"{"targets": [], "size": 1, "dir": "/", "wipe": [], "controls": {}, "identity": {}, "seed": 1}"#;
/// Builds a request from its type, so that a new field is a compile error here.
fn request(method: Method) -> MeasureRequest {
    MeasureRequest {
        slots: vec![SlotTrial { slot: 0, trial_seed: 1, variant: None }],
        workload: WorkloadSpec::new("read", Default::default()),
        sizing: Sizing { size: 1, cpus: 1 },
        method,
        seed: 1,
        attempt: 1,
        trace: false,
        deadline: Duration::from_secs(1),
        limit: None,
        background_slot: None,
    }
}

fn sequential() -> Method {
    Method::SequentialTrial { amount: Amount::new(1, 1), until_seconds: None, sustain: None }
}

fn rounds() -> Method {
    Method::Rounds {
        own_files: true,
        reuse_files: false,
        operations: 1,
        units: 1,
        orders: vec![vec![0], vec![0]],
        lead_in: true,
        until_seconds: None,
        spares: 1,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (host, guest) = UnixStream::pair().expect("a pair of sockets");
    let bytes = &bytes[..bytes.len().min(64 << 10)];
    // The coordinator sends further requests only to a guest that has sent a hello.
    let hello = format!("{{\"hello\":{{\"version\":{VERSION}}}}}\n");
    let said = [hello.as_bytes(), bytes].concat();
    (&guest).write_all(&said).expect("the socket has room for it");
    guest.shutdown(std::net::Shutdown::Write).expect("open");
    let Ok(mut agent) = Agent::connect(host, Arc::default()) else { return };
    let target: Target = "ext4".parse().expect("a target");
    let setup: Setup = serde_json::from_str(SETUP).expect("a setup");
    let _ = agent.open(&setup, &mut |_| {});
    let _ = agent.provision((0, 0), &target, &mut |_| {});
    let _ = agent.measure(request(sequential()), &mut |_| {});
    let _ = agent.measure(request(rounds()), &mut |_| {});
    let _ = agent.release(0);
    let _ = agent.close();
});
