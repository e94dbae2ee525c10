//! The loopback interface of this network namespace.

use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Brings the loopback interface up. The kernel then gives it 127.0.0.1/8, so that every address of that network is
/// this machine.
///
/// # Errors
///
/// If this process has no right to change the interfaces of its network namespace.
pub fn bring_loopback_up() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: all fields of `ifreq` are integers and pointers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
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
