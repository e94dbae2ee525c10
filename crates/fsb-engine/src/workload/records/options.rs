//! What may be asked of a workload that moves records, beside the parameters that all workloads share.

use fsb_model::units::parse_percent;
use fsb_model::{Access, Params};

use super::{RecordAction, RecordWorkload, Spec};
use crate::ParamError;
use crate::io_loop::{HELD_FILES, Lock};
use crate::order::STRIDE;
use crate::workload::label;
use crate::workload::params::Reader;

/// Reads among the operations of a mix, where nothing is said.
const USUAL_MIX: &str = "50%";

/// The options, resolved.
#[derive(Debug, Clone)]
pub(super) struct Options {
    /// The files are closed at the end of each pass, inside the clock.
    pub(super) close: bool,
    /// What is locked while it is moved, inside the clock.
    pub(super) lock: Option<Lock>,
    /// Records from one visit to the next; absent where the order is another one.
    pub(super) stride: Option<u64>,
    /// The share of reads, of those that mix.
    mix: Option<f64>,
    /// Records that are read are compared with what was written, inside the clock; files that are written are read and
    /// compared after it.
    pub(super) verify: bool,
}

impl Options {
    pub(super) fn read(
        member: &RecordWorkload,
        spec: &Spec,
        written: bool,
        reader: &mut Reader<'_>,
    ) -> Result<Options, ParamError> {
        let close = reader.flag("close", false)?;
        let lock = reader.word("lock", Lock::ALL, Lock::name)?;
        let verify = reader.flag("verify", false)?;
        let strided = spec.access == Access::Strided;
        let stride = strided.then(|| reader.number("stride", &STRIDE.to_string(), 1..=1 << 32)).transpose()?;
        let mix = (member.action == RecordAction::Mix).then(|| share(reader)).transpose()?;
        let held = spec.files_per_process() <= HELD_FILES;
        for (key, asked) in [("close", close), ("lock", lock.is_some())] {
            if asked && !held {
                let message =
                    format!("it needs all files open at once: at most {HELD_FILES}, here each is opened alone");
                return Err(reader.error(key, message));
            }
        }
        if spec.depth > 1 && (lock == Some(Lock::Record) || mix.is_some()) {
            let key = if mix.is_some() { "depth" } else { "lock" };
            return Err(reader.error(key, "records that are moved one by one cannot be under way together"));
        }
        if verify && !written && spec.threads > 1 {
            let message = "threads that end early leave holes in a new file that they share: take processes";
            return Err(reader.error("verify", message));
        }
        Ok(Options { close, lock, stride, mix, verify })
    }

    /// The share of reads of a mix.
    pub(super) fn reads(&self) -> f64 {
        self.mix.unwrap_or(1.0)
    }

    /// What makes it another cell, each with a comma in front.
    pub(super) fn label(&self) -> String {
        let mut label = String::new();
        if let Some(stride) = self.stride.filter(|stride| *stride != STRIDE) {
            label += &format!(", stride {stride}");
        }
        if let Some(mix) = self.mix.filter(|mix| percent(*mix) != USUAL_MIX) {
            label += &format!(", {} reads", percent(mix));
        }
        match self.lock {
            None => {}
            Some(Lock::Record) => label += ", records locked",
            Some(Lock::File) => label += ", file locked",
        }
        if self.close {
            label += ", with close";
        }
        label + label::verified(self.verify)
    }

    /// Adds what is not usual: a plan of an earlier version resolves to the same cell.
    pub(super) fn add_to(&self, params: &mut Params) {
        let mut add = |key: &str, value: serde_json::Value| params.insert(key.to_owned(), value);
        if self.close {
            add("close", true.into());
        }
        if let Some(lock) = self.lock {
            add("lock", lock.name().into());
        }
        if let Some(stride) = self.stride {
            add("stride", stride.into());
        }
        if let Some(mix) = self.mix {
            add("mix", percent(mix).into());
        }
        if self.verify {
            add("verify", true.into());
        }
    }
}

fn percent(share: f64) -> String {
    // A hundredth of a per cent is more than a seed can tell apart.
    format!("{}%", (share * 1e4).round() / 100.0)
}

/// The share of reads.
fn share(reader: &mut Reader<'_>) -> Result<f64, ParamError> {
    let text = reader.text("mix")?.unwrap_or_else(|| USUAL_MIX.to_owned());
    match parse_percent(&text) {
        Ok(share) if share < 1.0 => Ok(share),
        Ok(_) => Err(reader.error("mix", format!("{text} reads are no mix: take random-read"))),
        Err(_) => {
            let range = "the share of reads lies between 0% and 100%, such as 70%; for all or none of them take \
                         random-read or random-write";
            Err(reader.error("mix", format!("'{text}': {range}")))
        }
    }
}
