//! What an agent in a guest says: any bytes end in an answer or an error.
#![no_main]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use fsb_model::Target;
use fsb_runner::agent::Agent;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (host, guest) = UnixStream::pair().expect("a pair of sockets");
    let bytes = &bytes[..bytes.len().min(64 << 10)];
    // Only a guest that says hello is asked for more.
    let said = [b"{\"hello\":{\"version\":1}}\n", bytes].concat();
    (&guest).write_all(&said).expect("the socket has room for it");
    guest.shutdown(std::net::Shutdown::Write).expect("open");
    let Ok(mut agent) = Agent::connect(host, Arc::default()) else { return };
    let target: Target = "ext4".parse().expect("a target");
    let _ = agent.provision(&target, &mut |_| {});
    let _ = agent.release();
    let _ = agent.close();
});
