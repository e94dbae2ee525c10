//! The parameters, by PostMark's names.

use fsb_model::postmark::{LARGEST_FILE, MOST_BIAS, MOST_FILES, OFF, Shape};
use fsb_model::{Bytes, Durability, Params};
use serde_json::Value;

use crate::workload::label::ending;
use crate::workload::params::{self, Reader};
use crate::{ParamError, Sizing};

/// More workers than this are refused.
const MOST_WORKERS: u64 = 1024;

/// Resolved parameters.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) shape: Shape,
    pub(super) read: u32,
    pub(super) write: u32,
    /// Through streams of the C library.
    pub(super) buffering: bool,
    pub(super) threads: u32,
    /// Each has one thread.
    pub(super) processes: u32,
    pub(super) durability: Durability,
    pub(super) verify: bool,
    label: Option<String>,
}

impl Options {
    pub(super) fn parse(name: &str, params: &Params, sizing: &Sizing) -> Result<Options, ParamError> {
        let mut reader = Reader::new(name, params, sizing);
        let usual = Shape::default();
        let size = 1..=u64::from(LARGEST_FILE);
        let low = reader.number("size_low", &usual.size_low.to_string(), size.clone())?;
        let high = reader.number("size_high", &low.max(u64::from(usual.size_high)).to_string(), size.clone())?;
        if high < low {
            return Err(reader.error("size_high", format!("{high} is below size_low, {low}")));
        }
        let bias = i64::from(OFF)..=i64::from(MOST_BIAS);
        let shape = Shape {
            size_low: low as u32,
            size_high: high as u32,
            number: reader.number("number", &usual.number.to_string(), 1..=u64::from(MOST_FILES))? as u32,
            transactions: reader.number("transactions", &usual.transactions.to_string(), 1..=1 << 31)? as u32,
            subdirectories: reader.number("subdirectories", "0", 0..=1_000_000)? as u32,
            weights: Vec::new(),
            bias_read: reader.integer("bias_read", i64::from(usual.bias_read), bias.clone())? as i32,
            bias_create: reader.integer("bias_create", i64::from(usual.bias_create), bias)? as i32,
        };
        let options = Options {
            shape,
            read: reader.number("read", "512", size.clone())? as u32,
            write: reader.number("write", "512", size)? as u32,
            buffering: reader.flag("buffering", true)?,
            threads: reader.threads()?,
            processes: reader.number("processes", "1", 1..=MOST_WORKERS)? as u32,
            durability: reader.word("durability", Durability::ALL, Durability::name)?.unwrap_or_default(),
            verify: reader.flag("verify", false)?,
            label: reader.text("label")?,
        };
        if options.threads > 1 && options.processes > 1 {
            return Err(reader.error("processes", "each has one thread: give threads or processes"));
        }
        if u64::from(options.shape.number) * u64::from(options.workers()) > u64::from(MOST_FILES) {
            let message = format!("{} pools of {} files are too many", options.workers(), options.shape.number);
            return Err(reader.error("number", message));
        }
        reader.finish()?;
        Ok(options)
    }

    /// Threads, or processes.
    pub(super) fn workers(&self) -> u32 {
        self.threads * self.processes
    }

    /// Complete: parsed again they give the same job.
    pub(super) fn params(&self) -> Params {
        let shape = &self.shape;
        let mut params = params::of([
            ("size_low", shape.size_low.into()),
            ("size_high", shape.size_high.into()),
            ("number", shape.number.into()),
            ("transactions", shape.transactions.into()),
            ("subdirectories", shape.subdirectories.into()),
            ("bias_read", shape.bias_read.into()),
            ("bias_create", shape.bias_create.into()),
            ("read", self.read.into()),
            ("write", self.write.into()),
            ("buffering", self.buffering.into()),
            ("threads", self.threads.into()),
            ("processes", self.processes.into()),
            ("durability", self.durability.name().into()),
            ("verify", self.verify.into()),
        ]);
        if let Some(label) = &self.label {
            params.insert("label".to_owned(), Value::from(label.as_str()));
        }
        params
    }

    /// `postmark, 2000 files of 1000 to 100000`, and everything else that makes it another cell.
    pub(super) fn label(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let usual = Shape::default();
        let Shape { size_low, size_high, number, transactions, subdirectories, bias_read, bias_create, .. } =
            &self.shape;
        let (low, high) = (Bytes(u64::from(*size_low)), Bytes(u64::from(*size_high)));
        let sizes = if size_low == size_high { format!("{low}") } else { format!("{low} to {high}") };
        let mut label = format!("postmark, {transactions} on {number} files of {sizes}");
        if *subdirectories > 1 {
            label = format!("{label}, {subdirectories} subdirectories");
        }
        if (*bias_read, *bias_create) != (usual.bias_read, usual.bias_create) {
            label = format!("{label}, biases {bias_read} and {bias_create}");
        }
        if !self.buffering {
            label += ", unbuffered";
        }
        if (self.read, self.write) != (512, 512) {
            label = format!("{label}, blocks {} and {}", Bytes(u64::from(self.read)), Bytes(u64::from(self.write)));
        }
        label + &ending(self.durability, self.verify, self.threads, self.processes)
    }
}
