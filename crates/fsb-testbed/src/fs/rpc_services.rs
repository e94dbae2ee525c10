//! The two RPC services that NFS 3 needs beside the kernel's server: rpcbind and MOUNT, as far as
//! the kernel calls them.
//!
//! lockd, without which the server has no version 3, registers its ports with rpcbind (RFC 1833).
//! The client asks MOUNT for the file handle of an export (RFC 1813, appendix I). Messages are
//! those of RFC 5531, over TCP.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Returns the file handle of an export, as the client names it. Returns `None` if nothing is
/// exported there.
pub(super) type HandleOf = fn(path: &str) -> Option<Vec<u8>>;

/// The port of MOUNT, from the registry of IANA.
pub(super) const MOUNT_PORT: u16 = 20_048;

/// The port at which the kernel expects rpcbind.
const RPCBIND_PORT: u16 = 111;

/// Starts both services unless they run. They end with this process.
pub(super) fn start(handle_of: HandleOf) -> io::Result<()> {
    static RUNNING: Mutex<bool> = Mutex::new(false);
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    if *running {
        return Ok(());
    }
    let listeners =
        [RPCBIND_PORT, MOUNT_PORT].map(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)));
    for listener in listeners {
        let listener = listener?;
        thread::Builder::new()
            .name("fsb-rpc".to_owned())
            .spawn(move || {
                while let Ok((stream, _)) = listener.accept() {
                    // The kernel keeps its connection to rpcbind open, so each one has a thread.
                    let _ = thread::Builder::new()
                        .name("fsb-rpc".to_owned())
                        .spawn(move || serve(stream, handle_of));
                }
            })?;
    }
    *running = true;
    Ok(())
}

/// Answers the calls of one connection until it is closed.
fn serve(mut stream: TcpStream, handle_of: HandleOf) {
    while let Ok(call) = read_record(&mut stream) {
        let Some(reply) = answer(&call, handle_of) else {
            return;
        };
        if stream.write_all(&record(&reply)).is_err() {
            return;
        }
    }
}

/// The bit of a fragment's header that marks the last fragment of a record.
const LAST_FRAGMENT: u32 = 1 << 31;

/// The size limit of a record. The calls that are answered have a few hundred bytes.
const LARGEST_RECORD: usize = 64 << 10;

fn read_record(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut record = Vec::new();
    loop {
        let mut header = [0; 4];
        stream.read_exact(&mut header)?;
        let header = u32::from_be_bytes(header);
        let (begin, length) = (record.len(), (header & !LAST_FRAGMENT) as usize);
        if begin + length > LARGEST_RECORD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        record.resize(begin + length, 0);
        stream.read_exact(&mut record[begin..])?;
        if header & LAST_FRAGMENT != 0 {
            return Ok(record);
        }
    }
}

fn record(message: &[u8]) -> Vec<u8> {
    [
        &(LAST_FRAGMENT | message.len() as u32).to_be_bytes()[..],
        message,
    ]
    .concat()
}

/// The unread rest of a message in XDR (RFC 4506).
struct Xdr<'a>(&'a [u8]);

impl<'a> Xdr<'a> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    /// Reads bytes of variable length, which are padded to a multiple of four.
    fn opaque(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        let (padded, rest) = self
            .0
            .split_at_checked(length.checked_next_multiple_of(4)?)?;
        self.0 = rest;
        Some(&padded[..length])
    }
}

fn put(message: &mut Vec<u8>, numbers: &[u32]) {
    message.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
}

fn put_opaque(message: &mut Vec<u8>, bytes: &[u8]) {
    put(message, &[bytes.len() as u32]);
    message.extend(bytes);
    message.resize(message.len().next_multiple_of(4), 0);
}

const RPCBIND: u32 = 100_000;
/// Versions of rpcbind. SET and UNSET have the same numbers and results in all of them.
const RPCBIND_VERSIONS: [u32; 2] = [2, 4];
const MOUNT: u32 = 100_005;
const MOUNT_VERSIONS: [u32; 2] = [3, 3];

/// The procedures that are answered.
const NULL: u32 = 0;
const RPCBIND_SET: u32 = 1;
const RPCBIND_UNSET: u32 = 2;
const MOUNT_MNT: u32 = 1;
const MOUNT_UMNT: u32 = 3;

/// Values of `accept_stat` in RFC 5531.
const SUCCESS: u32 = 0;
const PROGRAM_UNAVAILABLE: u32 = 1;
const PROGRAM_MISMATCH: u32 = 2;
const PROCEDURE_UNAVAILABLE: u32 = 3;
const GARBAGE_ARGUMENTS: u32 = 4;

/// Values of `mountstat3` in RFC 1813.
const MNT3_OK: u32 = 0;
const MNT3_NO_ENTRY: u32 = 2;

/// The flavor of credentials that name a user and groups.
const AUTH_SYS: u32 = 1;

/// Returns the reply to a call. Returns `None` if the message is not a call.
fn answer(message: &[u8], handle_of: HandleOf) -> Option<Vec<u8>> {
    const CALL: u32 = 0;
    const REPLY: u32 = 1;
    const VERSION: u32 = 2;
    let mut call = Xdr(message);
    let (id, kind, version) = (call.number()?, call.number()?, call.number()?);
    if kind != CALL {
        return None;
    }
    let mut reply = Vec::new();
    put(&mut reply, &[id, REPLY]);
    if version != VERSION {
        // Denied, because of the version: the least and the largest one.
        put(&mut reply, &[1, 0, VERSION, VERSION]);
        return Some(reply);
    }
    let (program, version, procedure) = (call.number()?, call.number()?, call.number()?);
    // Credentials and verifier. Every user may call these procedures.
    for _ in 0..2 {
        call.number()?;
        call.opaque()?;
    }
    // Accepted, with an empty verifier.
    put(&mut reply, &[0, 0, 0]);
    let versions = match program {
        RPCBIND => RPCBIND_VERSIONS,
        MOUNT => MOUNT_VERSIONS,
        _ => {
            put(&mut reply, &[PROGRAM_UNAVAILABLE]);
            return Some(reply);
        }
    };
    match (program, procedure) {
        _ if !(versions[0]..=versions[1]).contains(&version) => {
            put(&mut reply, &[PROGRAM_MISMATCH, versions[0], versions[1]]);
        }
        (_, NULL) | (MOUNT, MOUNT_UMNT) => put(&mut reply, &[SUCCESS]),
        // Nothing asks for the ports, so nothing is stored.
        (RPCBIND, RPCBIND_SET | RPCBIND_UNSET) => put(&mut reply, &[SUCCESS, u32::from(true)]),
        (MOUNT, MOUNT_MNT) => match call
            .opaque()
            .and_then(|path| std::str::from_utf8(path).ok())
        {
            None => put(&mut reply, &[GARBAGE_ARGUMENTS]),
            Some(path) => match handle_of(path) {
                None => put(&mut reply, &[SUCCESS, MNT3_NO_ENTRY]),
                Some(handle) => {
                    put(&mut reply, &[SUCCESS, MNT3_OK]);
                    put_opaque(&mut reply, &handle);
                    put(&mut reply, &[1, AUTH_SYS]);
                }
            },
        },
        _ => put(&mut reply, &[PROCEDURE_UNAVAILABLE]),
    }
    Some(reply)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn handle_of(path: &str) -> Option<Vec<u8>> {
        (path == "/254-1").then(|| vec![1, 0, 7, 0, 9])
    }

    /// Returns a call with the identifier 7 and credentials as the kernel sends them.
    fn call(program: u32, version: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
        let mut call = Vec::new();
        put(&mut call, &[7, 0, 2, program, version, procedure, AUTH_SYS]);
        put_opaque(&mut call, &[0; 20]);
        put(&mut call, &[0, 0]);
        call.extend(arguments);
        call
    }

    /// Returns the words of the answer after the identifier.
    fn words(call: &[u8]) -> Vec<u32> {
        let reply = answer(call, handle_of).unwrap();
        let words: Vec<u32> = reply
            .chunks(4)
            .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words[..2], [7, 1]);
        words[2..].to_vec()
    }

    fn path(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_opaque(&mut bytes, text.as_bytes());
        bytes
    }

    #[test]
    fn a_mount_call_gets_the_file_handle_and_the_flavor_of_credentials() {
        let handle = [0x0100_0700, 0x0900_0000];
        assert_eq!(
            words(&call(MOUNT, 3, MOUNT_MNT, &path("/254-1"))),
            [
                0, 0, 0, SUCCESS, MNT3_OK, 5, handle[0], handle[1], 1, AUTH_SYS
            ]
        );
        assert_eq!(
            words(&call(MOUNT, 3, MOUNT_MNT, &path("/other"))),
            [0, 0, 0, SUCCESS, MNT3_NO_ENTRY]
        );
        assert_eq!(
            words(&call(MOUNT, 3, MOUNT_UMNT, &path("/254-1"))),
            [0, 0, 0, SUCCESS]
        );
        assert_eq!(words(&call(MOUNT, 3, NULL, &[])), [0, 0, 0, SUCCESS]);
    }

    #[test]
    fn registrations_succeed_in_each_version_of_rpcbind() {
        for version in 2..=4 {
            assert_eq!(
                words(&call(RPCBIND, version, RPCBIND_SET, &[0; 16])),
                [0, 0, 0, SUCCESS, 1]
            );
            assert_eq!(
                words(&call(RPCBIND, version, RPCBIND_UNSET, &[0; 16])),
                [0, 0, 0, SUCCESS, 1]
            );
        }
    }

    #[test]
    fn calls_that_are_not_served_get_the_reason() {
        assert_eq!(
            words(&call(100_003, 3, NULL, &[])),
            [0, 0, 0, PROGRAM_UNAVAILABLE]
        );
        assert_eq!(
            words(&call(MOUNT, 1, NULL, &[])),
            [0, 0, 0, PROGRAM_MISMATCH, 3, 3]
        );
        assert_eq!(
            words(&call(MOUNT, 3, 5, &[])),
            [0, 0, 0, PROCEDURE_UNAVAILABLE]
        );
        assert_eq!(
            words(&call(MOUNT, 3, MOUNT_MNT, &[0, 0, 0, 9])),
            [0, 0, 0, GARBAGE_ARGUMENTS]
        );
        let mut old = call(MOUNT, 3, NULL, &[]);
        old[11] = 1;
        assert_eq!(words(&old), [1, 0, 2, 2]);
    }

    #[test]
    fn records_are_read_from_their_fragments_within_a_limit() {
        let message = call(MOUNT, 3, NULL, &[]);
        let (first, second) = message.split_at(8);
        let mut sent = [&(first.len() as u32).to_be_bytes()[..], first].concat();
        sent.extend(record(second));
        sent.extend(record(&message));
        let mut stream = sent.as_slice();
        assert_eq!(read_record(&mut stream).unwrap(), message);
        assert_eq!(read_record(&mut stream).unwrap(), message);
        assert!(read_record(&mut stream).is_err());
        assert!(read_record(&mut &u32::MAX.to_be_bytes()[..]).is_err());
    }

    proptest! {
        #[test]
        fn any_message_is_answered_or_dropped(bytes: Vec<u8>, cut in 0usize..80) {
            let mut message = call(MOUNT, 3, MOUNT_MNT, &bytes);
            let _ = answer(&message, handle_of);
            message.truncate(cut);
            let _ = answer(&message, handle_of);
            let _ = answer(&bytes, handle_of);
        }
    }
}
