//! Whether idle processors enter sleep states.
//!
//! A durable write waits for the device, so its processor becomes idle many times per second. Each
//! wake-up costs up to hundreds of microseconds; in a virtual machine it is an exit to the
//! hypervisor and back. A second process that wakes up now and then therefore makes the first one
//! faster. With the PM QoS device of the kernel (Documentation/power/pm_qos_interface.rst), idle
//! processors poll instead. cyclictest and tuned's latency profiles use the same device.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use fsb_sys::error::{Refusal, attempt};
use fsb_sys::{Roots, read_trimmed};

use super::interface::{
    Applied, Context, Control, KEEP, PossibleInterference, Scope, Stop, TargetDevice, Value,
    numbered, writable,
};
use crate::host;

pub(super) struct Idle;

const AUTO: &str = "auto";
const POLL: &str = "poll";
/// The wake-up latency, in microseconds, from which on durable writes become measurably slower.
const FELT: u64 = 50;

/// Returns the path of the PM QoS device. While a process holds it open, no processor enters a
/// sleep state whose wake-up latency exceeds the number written to it.
fn device(roots: &Roots) -> PathBuf {
    roots.dev().join("cpu_dma_latency")
}

/// Returns the cpuidle driver. Returns `None` if the kernel has only one idle state, which the
/// device does not change.
fn driver(roots: &Roots) -> Option<String> {
    read_trimmed(&roots.sys.join("devices/system/cpu/cpuidle/current_driver"))
        .filter(|driver| driver != "none")
}

/// Returns the wake-up latency of the deepest sleep state, in microseconds, as the driver reports
/// it.
fn deepest(roots: &Roots) -> u64 {
    let states = numbered(&roots.sys.join("devices/system/cpu/cpu0/cpuidle"), "state");
    states
        .iter()
        .filter_map(|state| read_trimmed(&state.join("latency"))?.parse().ok())
        .max()
        .unwrap_or(0)
}

/// Returns the reason why the device would have no effect here, if there is one.
fn lacking(roots: &Roots) -> Option<Refusal> {
    if driver(roots).is_none() {
        return Some("the kernel has no cpuidle driver whose states could be limited".into());
    }
    (!device(roots).exists()).then(|| format!("{} is missing", device(roots).display()).into())
}

/// Requests polling. The kernel reverts the request when the file is closed, also if this process
/// is killed.
fn poll(roots: &Roots) -> Result<File, Refusal> {
    let path = device(roots);
    let mut file = File::options()
        .write(true)
        .open(&path)
        .map_err(|error| attempt("open", &path, &error))?;
    file.write_all(&0_i32.to_ne_bytes())
        .map_err(|error| attempt("write to", &path, &error))?;
    Ok(file)
}

/// Applies the control's default without a run: in a virtual machine, no processor sleeps while the
/// file is open. Returns `None` if that would have no effect or is not permitted.
pub fn stay_awake() -> Option<File> {
    let roots = Roots::default();
    let is_wanted = lacking(&roots).is_none() && host::is_virtual_machine(&roots);
    is_wanted.then(|| poll(&roots).ok()).flatten()
}

fn apply(context: &mut Context<'_>) -> Result<String, Stop> {
    if let Some(why) = lacking(context.roots) {
        return Err(Stop::Lacks(why));
    }
    context.hold_open(poll(context.roots).map_err(Stop::Lacks)?);
    Ok("idle processors poll".to_owned())
}

impl Control for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn about(&self) -> &'static str {
        "Idle state of processors that wait for the device: sleep, or poll to wake at once."
    }

    fn scope(&self) -> Scope {
        Scope::Run
    }

    fn values(&self) -> &'static [Value] {
        const {
            &[
                Value::word(
                    AUTO,
                    "poll in virtual machines, where the hypervisor wakes processors (default)",
                ),
                Value::word(KEEP, "unchanged: times of durable writes include waking"),
                Value::word(POLL, "poll: no sleep, by /dev/cpu_dma_latency"),
            ]
        }
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        if let Some(why) = lacking(roots) {
            return Err(why);
        }
        writable(&device(roots))
    }

    fn set(
        &self,
        value: &str,
        context: &mut Context<'_>,
    ) -> Result<Applied, fsb_sys::error::TestbedError> {
        let roots = context.roots;
        let can = host::is_virtual_machine(roots) && self.probe(roots).is_ok();
        if value == KEEP || value == AUTO && !can {
            return Ok(Applied::so(self.observe(roots, context.place)));
        }
        Applied::new(self.name(), value, apply(context))
    }

    fn interferes(&self, roots: &Roots) -> Option<PossibleInterference> {
        let felt =
            !host::is_virtual_machine(roots) && self.probe(roots).is_ok() && deepest(roots) >= FELT;
        felt.then_some(PossibleInterference {
            what: "processors sleep while they wait for the device, so times of durable writes include waking",
            advice: "fsb run --control idle=poll",
        })
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        match driver(roots) {
            Some(driver) => format!(
                "idle processors sleep ({driver}, up to {} µs to wake)",
                deepest(roots)
            ),
            None => "idle processors sleep (no cpuidle driver)".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    fn machine(driver: &str, flags: &str) -> Bench {
        let bench = Bench::new();
        bench.write("sys/devices/system/cpu/cpuidle/current_driver", driver);
        bench.write("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0");
        bench.write("sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "133");
        bench.write("proc/cpuinfo", flags);
        bench.write("dev/cpu_dma_latency", "");
        bench
    }

    fn written(bench: &Bench) -> Vec<u8> {
        std::fs::read(bench.path("dev/cpu_dma_latency")).unwrap()
    }

    #[test]
    fn virtual_machines_poll_and_others_are_asked() {
        for (flags, value, polls) in [
            ("flags : hypervisor", AUTO, true),
            ("flags : hypervisor", KEEP, false),
            ("flags : fpu", AUTO, false),
            ("flags : fpu", POLL, true),
        ] {
            let bench = machine("intel_idle", flags);
            bench.set(&Idle, value, |applied, handles| {
                assert!(applied.effective && handles.is_empty(), "{applied:?}");
                assert_eq!(
                    applied.observed == "idle processors poll",
                    polls,
                    "{applied:?}"
                );
            });
            assert_eq!(
                written(&bench).starts_with(&[0; 4]),
                polls,
                "{flags} {value}"
            );
            assert_eq!(
                Idle.interferes(&bench.roots).is_some(),
                flags.ends_with("fpu")
            );
        }
    }

    #[test]
    fn without_a_driver_nothing_is_claimed() {
        let bench = machine("none", "flags : hypervisor");
        bench.set(&Idle, POLL, |applied, _| {
            assert!(!applied.effective && applied.warnings.len() == 1)
        });
        bench.set(&Idle, AUTO, |applied, _| {
            assert!(applied.effective && applied.warnings.is_empty())
        });
        assert_eq!(written(&bench), b"\n");
    }
}
