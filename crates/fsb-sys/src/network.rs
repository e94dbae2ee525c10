//! Networks of this machine: the loopback interface, and an Ethernet to a network namespace whose
//! packets take the time that they would take on a real network.
//!
//! The Ethernet is a pair of interfaces of the kind `veth`. A queue `netem` at each end delays the
//! packets that leave it. Formats: rtnetlink(7), linux/if_link.h, linux/if_addr.h and
//! linux/pkt_sched.h.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::zeroed;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{panic, thread};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// Brings the loopback interface up. The kernel then gives it 127.0.0.1/8, so that every address of
/// that network is this machine.
///
/// # Errors
///
/// If this process has no right to change the interfaces of its network namespace.
pub fn bring_loopback_up() -> io::Result<()> {
    bring_up("lo")
}

/// Brings an interface of this network namespace up. A name has at most 15 bytes.
fn bring_up(name: &str) -> io::Result<()> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: all fields of `ifreq` are integers and pointers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let call = |code, request: &mut libc::ifreq| {
        // SAFETY: both requests read and write one `ifreq`, which lives until the call returns.
        match unsafe { libc::ioctl(socket.as_raw_fd(), code, &raw mut *request) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    call(libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: SIOCGIFFLAGS wrote this field of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
    call(libc::SIOCSIFFLAGS, &mut request)
}

/// The time that a network between two ends takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The time that a packet and its answer spend on the way.
    pub round_trip: Duration,
    /// Bits per second, in each direction. `None` if they are not limited.
    pub rate: Option<u64>,
}

/// A network namespace, and an Ethernet between it and the namespace of the thread that created it.
/// Both end with this value.
#[derive(Debug)]
pub struct ConnectedNamespace {
    namespace: OwnedFd,
    /// The index of the interface at the near end.
    index: u32,
    link: Mutex<Option<Link>>,
}

/// The name of the interface at the far end, where it is the only one beside loopback.
const FAR: &str = "eth0";

impl ConnectedNamespace {
    /// Creates the namespace, with a loopback interface. The kernel must have `veth`.
    ///
    /// # Errors
    ///
    /// If the kernel lacks a feature, or if this process may not create namespaces or interfaces.
    pub fn create() -> io::Result<ConnectedNamespace> {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let near = format!("fsb{}", CREATED.fetch_add(1, Ordering::Relaxed));
        let namespace = in_thread(|| {
            // SAFETY: it changes only the network namespace of this thread.
            succeeded(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
            File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
        })?;
        RouteSocket::open()?.request(CREATE | EXCLUSIVE, ethernet(&near, &namespace))?;
        let created = ConnectedNamespace {
            namespace,
            index: index_of(&near)?,
            link: Mutex::new(None),
        };
        RouteSocket::open()?.request(CREATE | EXCLUSIVE, address(created.index, created.near()))?;
        bring_up(&near)?;
        created.within(|| {
            RouteSocket::open()?
                .request(CREATE | EXCLUSIVE, address(index_of(FAR)?, created.far()))?;
            bring_loopback_up()?;
            bring_up(FAR)
        })?;
        Ok(created)
    }

    /// Returns the address at which the namespace reaches this one.
    pub fn near(&self) -> Ipv4Addr {
        self.end(1)
    }

    /// Returns the address of the namespace.
    pub fn far(&self) -> Ipv4Addr {
        self.end(2)
    }

    /// Returns an address in the four of this Ethernet, which the index of its interface
    /// distinguishes from all others.
    fn end(&self, number: u32) -> Ipv4Addr {
        let [_, rest @ ..] = (self.index << 2 | number).to_be_bytes();
        Ipv4Addr::new(10, rest[0], rest[1], rest[2])
    }

    /// Makes packets take the time that they need on `link`, which the kernel needs `sch_netem`
    /// for. Without a link they take no time of their own.
    ///
    /// # Errors
    ///
    /// If the kernel lacks the module, or if this process may not change the network.
    pub fn set_link(&self, link: Option<Link>) -> io::Result<()> {
        let mut present = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if *present == link {
            return Ok(());
        }
        let change = |index| match link {
            Some(link) => RouteSocket::open()?
                .request(CREATE | REPLACE, queue(NEW_QUEUE, index, &netem(link))),
            None => match RouteSocket::open()?.request(0, queue(DELETE_QUEUE, index, &[])) {
                // A change that failed before left no queue at this end.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => {
                    Ok(())
                }
                deleted => deleted,
            },
        };
        change(self.index)?;
        self.within(|| change(index_of(FAR)?))?;
        *present = link;
        Ok(())
    }

    /// Calls `act` in a thread in the namespace, for which this machine has the name `host_name`.
    ///
    /// # Errors
    ///
    /// If the thread cannot enter the namespace or set the name.
    pub fn run<T: Send>(&self, host_name: &str, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.within(|| {
            // SAFETY: it changes only the names of the machine that this thread sees.
            succeeded(unsafe { libc::unshare(libc::CLONE_NEWUTS) })?;
            rustix::system::sethostname(host_name.as_bytes())?;
            Ok(act())
        })
    }

    fn within<T: Send>(&self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        in_thread(|| {
            // SAFETY: a descriptor of a network namespace; it changes only that of this thread.
            succeeded(unsafe { libc::setns(self.namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
            act()
        })
    }
}

/// Calls `act` in a thread of its own, whose namespaces end with it.
fn in_thread<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("fsb-network".to_owned())
            .spawn_scoped(scope, act)?;
        thread
            .join()
            .unwrap_or_else(|payload| panic::resume_unwind(payload))
    })
}

fn succeeded(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the index of an interface of this network namespace.
fn index_of(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: a valid string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Types of messages (linux/rtnetlink.h).
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_QUEUE: u16 = 36;
const DELETE_QUEUE: u16 = 37;

/// Flags of requests (linux/netlink.h).
const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
const REPLACE: u16 = 0x100;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;

/// A message without its header.
struct Message {
    kind: u16,
    body: Vec<u8>,
}

/// Returns a request for a pair of interfaces, the second of which is in the namespace.
fn ethernet(near: &str, namespace: &OwnedFd) -> Message {
    /// Attributes of an interface, of its kind, and of a pair.
    const NAME: u16 = 3;
    const LINK_INFO: u16 = 18;
    const NAMESPACE: u16 = 28;
    const INFO_KIND: u16 = 1;
    const INFO_DATA: u16 = 2;
    const PEER: u16 = 1;
    /// An `ifinfomsg` that leaves everything to the kernel.
    const ANY_INTERFACE: [u8; 16] = [0; 16];
    fn named(name: &str) -> Vec<u8> {
        attribute(NAME, &[name.as_bytes(), b"\0"].concat())
    }
    let namespace = attribute(NAMESPACE, &numbers(&[namespace.as_raw_fd() as u32]));
    let peer = attribute(
        PEER,
        &[&ANY_INTERFACE[..], &named(FAR), &namespace].concat(),
    );
    let info = [attribute(INFO_KIND, b"veth\0"), attribute(INFO_DATA, &peer)].concat();
    Message {
        kind: NEW_LINK,
        body: [
            &ANY_INTERFACE[..],
            &named(near),
            &attribute(LINK_INFO, &info),
        ]
        .concat(),
    }
}

/// Returns a request that gives an interface its address in a network of four.
fn address(index: u32, address: Ipv4Addr) -> Message {
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    const PREFIX: u8 = 30;
    let header = [&[libc::AF_INET as u8, PREFIX, 0, 0][..], &numbers(&[index])].concat();
    let attributes = [ADDRESS, LOCAL]
        .map(|kind| attribute(kind, &address.octets()))
        .concat();
    Message {
        kind: NEW_ADDRESS,
        body: [header, attributes].concat(),
    }
}

/// Returns a request about the queue `netem` of an interface, which has the handle 1:0. Without
/// options it has only the name.
fn queue(kind: u16, index: u32, options: &[u8]) -> Message {
    const ROOT: u32 = u32::MAX;
    const HANDLE: u32 = 1 << 16;
    const KIND: u16 = 1;
    const OPTIONS: u16 = 2;
    let mut body = numbers(&[0, index, HANDLE, ROOT, 0]);
    body.extend(attribute(KIND, b"netem\0"));
    if !options.is_empty() {
        body.extend(attribute(OPTIONS, options));
    }
    Message { kind, body }
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_ne_bytes())
        .collect()
}

/// Returns an attribute, which is padded to a multiple of four bytes.
fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = 4 + payload.len() as u16;
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns the options of a queue `netem` (`tc_netem_qopt`, `tc_netem_rate`) for one direction of a
/// link.
fn netem(link: Link) -> Vec<u8> {
    /// The unit of times, in nanoseconds, which /proc/net/psched shows.
    const TICK: u128 = 64;
    /// More packets than the windows of TCP let through, so that the queue never drops one.
    const LIMIT: u32 = 1 << 20;
    const RATE: u16 = 6;
    let ticks = (link.round_trip.as_nanos() / 2).div_ceil(TICK);
    let options = numbers(&[u32::try_from(ticks).unwrap_or(u32::MAX), LIMIT, 0, 0, 0, 0]);
    // A queue that is replaced keeps a rate that is left out. With 0 it has no limit.
    let bytes = link
        .rate
        .map_or(0, |rate| u32::try_from(rate / 8).unwrap_or(u32::MAX).max(1));
    [options, attribute(RATE, &numbers(&[bytes, 0, 0, 0]))].concat()
}

#[derive(Debug)]
struct RouteSocket(OwnedFd);

impl RouteSocket {
    fn open() -> io::Result<RouteSocket> {
        Ok(RouteSocket(socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )?))
    }

    /// Sends a request and waits for its result.
    fn request(&self, flags: u16, message: Message) -> io::Result<()> {
        const HEADER: usize = 16;
        const ERROR: u16 = 2;
        let length = (HEADER + message.body.len()) as u32;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(
            [message.kind, REQUEST | ACKNOWLEDGE | flags]
                .map(u16::to_ne_bytes)
                .concat(),
        );
        bytes.extend(numbers(&[0, 0]));
        bytes.extend(message.body);
        send(&self.0, &bytes, SendFlags::empty())?;
        let mut reply = [0; 4096];
        let (length, _) = recv(&self.0, &mut reply[..], RecvFlags::empty())?;
        // An acknowledgement is an error message with the number 0.
        let number = reply[..length]
            .get(HEADER..HEADER + 4)
            .and_then(|bytes| bytes.try_into().ok());
        match number.map(i32::from_ne_bytes) {
            Some(0) if reply[4..6] == ERROR.to_ne_bytes() => Ok(()),
            Some(code) if reply[4..6] == ERROR.to_ne_bytes() => {
                Err(io::Error::from_raw_os_error(-code))
            }
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
        let link = Link {
            round_trip: Duration::from_millis(20),
            rate: Some(8_000_000),
        };
        // 10 ms are 156 250 ticks of 64 ns.
        assert_eq!(netem(link)[..8], numbers(&[156_250, 1 << 20]));
        assert_eq!(
            netem(link)[24..],
            attribute(6, &numbers(&[1_000_000, 0, 0, 0]))
        );
        assert_eq!(
            netem(Link { rate: None, ..link })[24..],
            attribute(6, &numbers(&[0; 4]))
        );
        let made = queue(NEW_QUEUE, 7, &netem(link));
        assert_eq!(made.body[..20], numbers(&[0, 7, 1 << 16, u32::MAX, 0]));
        assert_eq!(
            made.body[20..32],
            [10, 0, 1, 0, b'n', b'e', b't', b'e', b'm', 0, 0, 0]
        );
        let given = address(7, Ipv4Addr::new(10, 0, 0, 29));
        assert_eq!(
            given.body[..8],
            [&[2, 30, 0, 0][..], &numbers(&[7])].concat()
        );
        assert_eq!(given.body[8..16], [8, 0, 1, 0, 10, 0, 0, 29]);
    }

    /// Returns the time until an answer arrives from the other end.
    fn round_trip(namespace: &ConnectedNamespace) -> Duration {
        let near = UdpSocket::bind((namespace.near(), 0)).unwrap();
        let far = namespace
            .run("far", || UdpSocket::bind((namespace.far(), 0)).unwrap())
            .unwrap();
        // The first packet waits for the address of the other end's interface.
        for socket in [&near, &far] {
            socket
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
        }
        let exchange = || {
            let begin = Instant::now();
            let mut bytes = [0; 8];
            near.send_to(b"question", far.local_addr().unwrap())
                .unwrap();
            far.recv(&mut bytes).unwrap();
            far.send_to(b"answer", near.local_addr().unwrap()).unwrap();
            near.recv(&mut bytes).unwrap();
            begin.elapsed()
        };
        exchange();
        exchange()
    }

    #[test]
    fn packets_to_a_namespace_take_the_time_of_the_link() {
        if !fsb_testkit::root_for("a network namespace") {
            return;
        }
        // In a thread of its own, whose network ends with it.
        let look = || {
            // SAFETY: it changes only the network namespace of this thread.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            let delayed = Link {
                round_trip: Duration::from_millis(20),
                rate: None,
            };
            let [first, second] = match [(); 2].map(|()| ConnectedNamespace::create()) {
                [Ok(first), Ok(second)] => [first, second],
                [Err(error), _] | [_, Err(error)] if error.kind() == io::ErrorKind::Unsupported => {
                    return fsb_testkit::left_out("an Ethernet to a namespace", "needs veth");
                }
                others => panic!("{others:?}"),
            };
            assert_ne!(first.near(), second.near());
            round_trip(&first);
            let hostname = second
                .run("second", || rustix::system::uname().nodename().to_owned())
                .unwrap();
            assert_eq!(hostname.to_str(), Ok("second"));
            assert_ne!(rustix::system::uname().nodename(), &*hostname);
            match first.set_link(Some(delayed)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return fsb_testkit::left_out("delays on an Ethernet", "needs sch_netem");
                }
                made => made.unwrap(),
            }
            assert!(round_trip(&first) >= delayed.round_trip);
            // 36 and 34 bytes, and 14 of the Ethernet, at 125 bytes per second.
            second
                .set_link(Some(Link {
                    round_trip: Duration::ZERO,
                    rate: Some(1000),
                }))
                .unwrap();
            assert!(round_trip(&second) >= Duration::from_millis(500));
            // Upper bounds: hours at that rate.
            for link in [Some(delayed), None] {
                second.set_link(link).unwrap();
                let near = UdpSocket::bind((second.near(), 0)).unwrap();
                for _ in 0..100 {
                    near.send_to(&[0; 1400], (second.far(), 9)).unwrap();
                }
                assert!(round_trip(&second) < Duration::from_secs(60));
            }
        };
        std::thread::spawn(look).join().unwrap();
    }
}
