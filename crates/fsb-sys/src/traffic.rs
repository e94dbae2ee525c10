//! Traffic control of the loopback interface: the packets of single addresses take the time that they would take on a network.
//!
//! The interface gets a queue `prio`, whose first band passes packets on. Each shaped address has two more bands with a
//! queue `netem`, one per direction, and filters `u32` that choose the band by address. Formats: rtnetlink(7),
//! linux/pkt_sched.h and linux/pkt_cls.h.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// A network between two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The time that a packet and its answer spend on the way.
    pub round_trip: Duration,
    /// Bits per second, in each direction. `None` if they are not limited.
    pub rate: Option<u64>,
}

/// The number of addresses that can be shaped at once: `prio` has 16 bands.
pub const SLOTS: u8 = 7;

/// Makes packets from and to `address`, which is one of the loopback interface, take the time that they need on `link`. The
/// kernel must have `sch_prio`, `sch_netem` and `cls_u32`.
///
/// # Errors
///
/// If the slot is in use, if the kernel lacks a module, or if this process may not change its network.
pub fn shape_loopback(slot: u8, address: Ipv4Addr, link: Link) -> io::Result<()> {
    let socket = RouteSocket::open()?;
    let root = queue(NEW_QUEUE, ROOT, MAJOR, "prio", &prio());
    match socket.request(CREATE | EXCLUSIVE, root) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => other?,
    }
    for (band, offset) in bands(slot).into_iter().zip([SOURCE, DESTINATION]) {
        socket.request(CREATE | EXCLUSIVE, queue(NEW_QUEUE, MAJOR | band, 0, "netem", &netem(link)))?;
        socket.request(CREATE | EXCLUSIVE, filter(NEW_FILTER, band, &u32_filter(band, offset, address)))?;
    }
    Ok(())
}

/// Ends what [`shape_loopback`] did with this slot.
///
/// # Errors
///
/// If the slot is not in use, or if this process may not change its network.
pub fn unshape_loopback(slot: u8) -> io::Result<()> {
    let socket = RouteSocket::open()?;
    for band in bands(slot) {
        socket.request(0, filter(DELETE_FILTER, band, &[]))?;
        socket.request(0, queue(DELETE_QUEUE, MAJOR | band, 0, "netem", &[]))?;
    }
    Ok(())
}

/// Returns the minor numbers of the classes of a slot. The first band of the queue has the number 1.
fn bands(slot: u8) -> [u32; 2] {
    [2, 3].map(|band| band + 2 * u32::from(slot))
}

/// Types of messages (linux/rtnetlink.h).
const NEW_QUEUE: u16 = 36;
const DELETE_QUEUE: u16 = 37;
const NEW_FILTER: u16 = 44;
const DELETE_FILTER: u16 = 45;

/// Flags of requests (linux/netlink.h).
const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;

/// The parent of the queue of an interface.
const ROOT: u32 = u32::MAX;
/// The handle of the queue `prio`: 1:0.
const MAJOR: u32 = 1 << 16;

/// The index of the loopback interface in every network namespace.
const LOOPBACK: u32 = 1;

/// Offsets in the header of IP.
const SOURCE: u32 = 12;
const DESTINATION: u32 = 16;

/// The attributes that name and configure a queue or filter.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;

/// A message without its header.
struct Message {
    kind: u16,
    body: Vec<u8>,
}

fn queue(kind: u16, parent: u32, handle: u32, name: &str, options: &[u8]) -> Message {
    message(kind, handle, parent, 0, name, options)
}

/// Returns a message about the one filter of a band, whose priority is the number of the band.
fn filter(kind: u16, band: u32, options: &[u8]) -> Message {
    let protocol = u32::from((libc::ETH_P_IP as u16).to_be());
    message(kind, 0, MAJOR, band << 16 | protocol, "u32", options)
}

/// Returns a `tcmsg` with its attributes. Without options it has only the name.
fn message(kind: u16, handle: u32, parent: u32, info: u32, name: &str, options: &[u8]) -> Message {
    let mut body = numbers(&[0, LOOPBACK, handle, parent, info]);
    body.extend(attribute(KIND, &[name.as_bytes(), b"\0"].concat()));
    if !options.is_empty() {
        body.extend(attribute(OPTIONS, options));
    }
    Message { kind, body }
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// Returns an attribute, which is padded to a multiple of four bytes.
fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = 4 + payload.len() as u16;
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns the options of the queue `prio` (`tc_prio_qopt`): 16 bands, and the first one for packets of each priority.
fn prio() -> Vec<u8> {
    [&numbers(&[16])[..], &[0; 16]].concat()
}

/// Returns the options of a queue `netem` (`tc_netem_qopt`, `tc_netem_rate`) for one direction of a link.
fn netem(link: Link) -> Vec<u8> {
    /// The unit of times, in nanoseconds, which /proc/net/psched shows.
    const TICK: u128 = 64;
    /// More packets than the windows of TCP let through, so that the queue never drops one.
    const LIMIT: u32 = 1 << 20;
    const RATE: u16 = 6;
    let ticks = (link.round_trip.as_nanos() / 2).div_ceil(TICK);
    let mut options = numbers(&[u32::try_from(ticks).unwrap_or(u32::MAX), LIMIT, 0, 0, 0, 0]);
    if let Some(rate) = link.rate {
        let bytes = u32::try_from(rate / 8).unwrap_or(u32::MAX).max(1);
        options.extend(attribute(RATE, &numbers(&[bytes, 0, 0, 0])));
    }
    options
}

/// Returns the options of a filter (`tc_u32_sel` with one `tc_u32_key`) that puts packets into a band if they have the
/// address at this offset.
fn u32_filter(band: u32, offset: u32, address: Ipv4Addr) -> Vec<u8> {
    const CLASS: u16 = 1;
    const SELECTOR: u16 = 5;
    /// The filter is the last one to be tried.
    const TERMINAL: u8 = 1;
    const KEYS: u8 = 1;
    let mut selector = vec![TERMINAL, 0, KEYS, 0];
    selector.extend([0; 12]);
    selector.extend([&[0xff; 4][..], &address.octets(), &offset.to_ne_bytes(), &[0; 4]].concat());
    [attribute(CLASS, &numbers(&[MAJOR | band])), attribute(SELECTOR, &selector)].concat()
}

struct RouteSocket(OwnedFd);

impl RouteSocket {
    fn open() -> io::Result<RouteSocket> {
        Ok(RouteSocket(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?))
    }

    /// Sends a request and waits for its result.
    fn request(&self, flags: u16, message: Message) -> io::Result<()> {
        const HEADER: usize = 16;
        const ERROR: u16 = 2;
        let length = (HEADER + message.body.len()) as u32;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([message.kind, REQUEST | ACKNOWLEDGE | flags].map(u16::to_ne_bytes).concat());
        bytes.extend(numbers(&[0, 0]));
        bytes.extend(message.body);
        send(&self.0, &bytes, SendFlags::empty())?;
        let mut reply = [0; 4096];
        let (length, _) = recv(&self.0, &mut reply[..], RecvFlags::empty())?;
        // An acknowledgement is an error message with the number 0.
        let number = reply[..length].get(HEADER..HEADER + 4).and_then(|bytes| bytes.try_into().ok());
        match number.map(i32::from_ne_bytes) {
            Some(0) if reply[4..6] == ERROR.to_ne_bytes() => Ok(()),
            Some(code) if reply[4..6] == ERROR.to_ne_bytes() => Err(io::Error::from_raw_os_error(-code)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Instant;

    use super::*;

    #[test]
    fn messages_have_the_layout_of_the_kernel() {
        let link = Link { round_trip: Duration::from_millis(20), rate: Some(8_000_000) };
        // 10 ms are 156 250 ticks of 64 ns.
        assert_eq!(netem(link)[..8], numbers(&[156_250, 1 << 20]));
        assert_eq!(netem(link)[24..], attribute(6, &numbers(&[1_000_000, 0, 0, 0])));
        assert_eq!(netem(Link { rate: None, ..link }).len(), 24);
        let made = filter(NEW_FILTER, 2, &u32_filter(2, SOURCE, Ipv4Addr::new(127, 1, 2, 3)));
        let protocol = u32::from(0x0800_u16.to_be());
        assert_eq!(made.body[..20], numbers(&[0, 1, 0, 1 << 16, 2 << 16 | protocol]));
        assert_eq!(made.body[20..28], [8, 0, 1, 0, b'u', b'3', b'2', 0]);
        let key = &made.body[made.body.len() - 16..];
        assert_eq!(key, [&[255; 4][..], &[127, 1, 2, 3], &numbers(&[12, 0])].concat());
        assert_eq!((bands(0), bands(SLOTS - 1)), ([2, 3], [14, 15]));
    }

    /// Returns the time until an answer arrives from `address`.
    fn round_trip(address: Ipv4Addr) -> Duration {
        let (near, far) = [Ipv4Addr::LOCALHOST, address].map(|end| UdpSocket::bind((end, 0)).unwrap()).into();
        let begin = Instant::now();
        let mut bytes = [0; 8];
        near.send_to(b"question", far.local_addr().unwrap()).unwrap();
        far.recv(&mut bytes).unwrap();
        far.send_to(b"answer", near.local_addr().unwrap()).unwrap();
        near.recv(&mut bytes).unwrap();
        begin.elapsed()
    }

    #[test]
    fn packets_of_a_shaped_address_take_the_time_of_the_link() {
        if !fsb_testkit::root_for("a network namespace") {
            return;
        }
        // In a thread of its own, whose network ends with it.
        let look = || {
            // SAFETY: it changes only the network namespace of this thread.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            crate::network::bring_loopback_up().unwrap();
            let link = Link { round_trip: Duration::from_millis(20), rate: None };
            let (address, other) = (Ipv4Addr::new(127, 1, 2, 3), Ipv4Addr::new(127, 1, 2, 4));
            match shape_loopback(0, address, link) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return fsb_testkit::left_out("delays on loopback", "needs sch_prio, sch_netem and cls_u32");
                }
                made => made.unwrap(),
            }
            assert!(round_trip(address) >= link.round_trip);
            shape_loopback(1, other, Link { round_trip: Duration::ZERO, rate: Some(1000) }).unwrap();
            // 36 and 34 bytes at 125 bytes per second.
            assert!(round_trip(other) >= Duration::from_millis(500));
            assert!(shape_loopback(1, other, link).is_err());
            unshape_loopback(0).unwrap();
            unshape_loopback(1).unwrap();
            shape_loopback(1, address, link).unwrap();
            assert!(round_trip(address) >= link.round_trip);
            assert!(unshape_loopback(0).is_err());
        };
        std::thread::spawn(look).join().unwrap();
    }
}
