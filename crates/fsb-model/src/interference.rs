//! Interference with a trial from outside, as data. `fsb-report` renders it as text.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Interference with a trial from outside: something other than the run used what the trial needed.
///
/// It is an object with the tag `kind` in `trials.jsonl`. Records of trial schema versions 1 and 2 hold words instead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Interference {
    /// The hypervisor gave the CPU time of this machine to others.
    CpuSteal {
        /// The share of the available CPU time: 0.03 for 3 %.
        share: f64,
    },
    /// Other processes of this machine used its CPUs.
    OtherProcesses {
        /// The share of the available CPU time: 0.03 for 3 %.
        share: f64,
    },
    /// Others used the disk of the target.
    OtherDiskIo {
        /// Bytes per second that the disk moved for others.
        bytes_per_second: f64,
    },
    /// The processors were throttled because of their temperature.
    ThermalThrottling {
        /// The number of events.
        events: f64,
    },
    /// Processes of the run were stopped by a signal for a while.
    Stopped {
        /// The number of processes.
        processes: f64,
    },
    /// The words of a record that was written with trial schema version 1 or 2.
    #[serde(untagged)]
    Text(String),
    /// A kind of a newer minor version, kept as found.
    #[serde(untagged)]
    Unknown(Map<String, Value>),
}

impl Interference {
    /// Returns the size of the interference in the unit of its kind, for comparison with others of the same kind.
    pub fn size(&self) -> f64 {
        match self {
            Interference::CpuSteal { share } | Interference::OtherProcesses { share } => *share,
            Interference::OtherDiskIo { bytes_per_second } => *bytes_per_second,
            Interference::ThermalThrottling { events } => *events,
            Interference::Stopped { processes } => *processes,
            Interference::Text(_) | Interference::Unknown(_) => 0.0,
        }
    }

    /// Replaces the words of trial schema versions 1 and 2 by the interference that they describe. Returns words that
    /// are not known unchanged.
    #[must_use]
    pub fn upgraded(self) -> Interference {
        let Interference::Text(text) = &self else { return self };
        let number =
            |before: &str, after: &str| -> Option<f64> { text.strip_prefix(before)?.strip_suffix(after)?.parse().ok() };
        let found = (number("CPU steal ", " %").map(|percent| Interference::CpuSteal { share: percent / 100.0 }))
            .or_else(|| {
                let share = number("other processes' CPU ", " %")? / 100.0;
                Some(Interference::OtherProcesses { share })
            })
            .or_else(|| {
                let bytes_per_second = number("others' I/O on the disk ", " MiB/s")? * f64::from(1 << 20);
                Some(Interference::OtherDiskIo { bytes_per_second })
            })
            .or_else(|| {
                Some(Interference::ThermalThrottling { events: number("processors throttled by heat, events ", "")? })
            });
        found.unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_survives_a_round_trip() {
        for (interference, text) in [
            (Interference::CpuSteal { share: 0.5 }, r#"{"kind":"cpu_steal","share":0.5}"#),
            (Interference::Text("words".to_owned()), r#""words""#),
        ] {
            assert_eq!(serde_json::to_string(&interference).expect("JSON"), text);
            assert_eq!(serde_json::from_str::<Interference>(text).expect("interference"), interference);
        }
        let newer = r#"{"kind":"full_moon","phase":1}"#;
        let found: Interference = serde_json::from_str(newer).expect("interference");
        assert!(matches!(found, Interference::Unknown(_)), "{found:?}");
        assert_eq!(serde_json::to_string(&found).expect("JSON"), newer);
    }

    #[test]
    fn words_of_older_versions_become_data() {
        let upgraded = |text: &str| Interference::Text(text.to_owned()).upgraded();
        assert_eq!(upgraded("CPU steal 58 %"), Interference::CpuSteal { share: 0.58 });
        assert_eq!(upgraded("other processes' CPU 2 %"), Interference::OtherProcesses { share: 0.02 });
        let mib = f64::from(1 << 20);
        assert_eq!(
            upgraded("others' I/O on the disk 4.5 MiB/s"),
            Interference::OtherDiskIo { bytes_per_second: 4.5 * mib }
        );
        let hot = Interference::ThermalThrottling { events: 2.0 };
        assert_eq!(upgraded("processors throttled by heat, events 2"), hot);
        assert_eq!(upgraded("CPU steal: much"), Interference::Text("CPU steal: much".to_owned()));
    }
}
