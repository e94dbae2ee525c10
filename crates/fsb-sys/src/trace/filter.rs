//! A seccomp filter in classic BPF: chosen calls stop for the tracer, all others run untouched.

use std::io;

/// A call at which the filter stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The number of the call on this machine.
    pub number: i64,
    /// Stop only if the lower half of this argument is one of these values.
    pub only: Option<(u8, &'static [u32])>,
    /// Do not stop if the lower half of this argument is this value.
    pub except: Option<(u8, u32)>,
}

/// The bit in call numbers of x32 programs, whose `architecture` is the same as that of native ones.
pub const X32: u32 = 0x4000_0000;

/// Offsets in `struct seccomp_data` on little-endian machines.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// The architecture of this program, as in `linux/audit.h`.
#[cfg(target_arch = "x86_64")]
pub const HERE: u32 = 0xc000_003e;
/// The architecture of this program, as in `linux/audit.h`.
#[cfg(target_arch = "aarch64")]
pub const HERE: u32 = 0xc000_00b7;
/// The layout of calls is unknown on this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const HERE: u32 = 0;

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Skips `equal` statements if the loaded number is `k`, else `other` statements.
fn jump(k: u32, equal: u8, other: u8) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: equal, jf: other, k }
}

/// Skips `at_least` statements if the loaded number is `k` or more, else `below` statements.
fn jump_unless_below(k: u32, at_least: u8, below: u8) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16, jt: at_least, jf: below, k }
}

fn load(offset: u32) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn answer(action: u32) -> libc::sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, action)
}

fn program(rules: &[Rule]) -> Vec<libc::sock_filter> {
    let mut program = vec![
        load(ARCHITECTURE),
        jump(HERE, 1, 0),
        // The call is of another architecture. The tracer sees that and decides.
        answer(libc::SECCOMP_RET_TRACE),
        load(NUMBER),
        jump_unless_below(X32, 0, 1),
        answer(libc::SECCOMP_RET_TRACE),
    ];
    for rule in rules {
        let number = rule.number as u32;
        let argument = |at: u8| load(ARGUMENTS + 8 * u32::from(at));
        match (rule.only, rule.except) {
            (Some((at, values)), _) => {
                let length = values.len() as u8;
                program.push(jump(number, 0, length + 3));
                program.push(argument(at));
                for (index, value) in values.iter().enumerate() {
                    program.push(jump(*value, length - index as u8, 0));
                }
                program.push(answer(libc::SECCOMP_RET_ALLOW));
                program.push(answer(libc::SECCOMP_RET_TRACE));
            }
            (None, Some((at, value))) => {
                program.push(jump(number, 0, 4));
                program.push(argument(at));
                program.push(jump(value, 0, 1));
                program.push(answer(libc::SECCOMP_RET_ALLOW));
                program.push(answer(libc::SECCOMP_RET_TRACE));
            }
            (None, None) => {
                program.push(jump(number, 0, 1));
                program.push(answer(libc::SECCOMP_RET_TRACE));
            }
        }
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program
}

/// Makes these calls of this process and of all processes that it starts stop for its tracer. Irreversible. The process
/// also gives up gaining new privileges (setuid programs).
///
/// # Errors
/// Fails if the kernel has no seccomp, or refuses it.
pub fn install(rules: &[Rule]) -> io::Result<()> {
    let program = program(rules);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: properties of our own process; the kernel copies the program.
    unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mode = libc::SECCOMP_MODE_FILTER as libc::c_ulong;
        if libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter on a call as the kernel does, and returns its action.
    fn run(program: &[libc::sock_filter], number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut held) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            match u32::from(step.code) & 7 {
                libc::BPF_RET => return step.k,
                libc::BPF_LD => {
                    held = match step.k {
                        NUMBER => number,
                        ARCHITECTURE => HERE,
                        offset => arguments[(offset - ARGUMENTS) as usize / 8],
                    };
                }
                _ => {
                    let at_least = u32::from(step.code) & 0xf0 == libc::BPF_JGE;
                    let jumps = if at_least { held >= step.k } else { held == step.k };
                    at += usize::from(if jumps { step.jt } else { step.jf });
                }
            }
        }
    }

    #[test]
    fn chosen_calls_stop_and_others_run() {
        let only = Rule { number: 72, only: Some((1, &[0, 2, 1030])), except: None };
        let except = Rule { number: 9, only: None, except: Some((4, u32::MAX)) };
        let rules = [Rule { number: 3, only: None, except: None }, only, except];
        let program = program(&rules);
        let stops = |number, arguments| run(&program, number, arguments) == libc::SECCOMP_RET_TRACE;
        assert!(stops(3, [0; 6]) && !stops(4, [0; 6]));
        assert!(stops(72, [0, 0, 0, 0, 0, 0]) && stops(72, [0, 1030, 0, 0, 0, 0]) && stops(72, [0, 2, 0, 0, 0, 0]));
        assert!(!stops(72, [0, 6, 0, 0, 0, 0]));
        assert!(stops(9, [0, 0, 0, 0, 5, 0]) && !stops(9, [0, 0, 0, 0, u32::MAX, 0]));
        assert!(stops(X32 | 4, [0; 6]), "calls of x32 programs are others than ours");
    }
}
