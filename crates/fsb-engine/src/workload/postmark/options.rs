//! The parameters, by PostMark's names.

use std::path::PathBuf;

use fsb_model::postmark::{LARGEST_FILE, MOST_BIAS, MOST_FILES, OFF, Shape};
use fsb_model::{Bytes, Durability, Params};
use serde_json::Value;

use crate::context::Context;
use crate::postmark::PoolNames;
use crate::workload::label::ending;
use crate::workload::parameter::{self, Parameter, ParameterDefault, ParameterGroup, ParameterKind, group};
use crate::workload::params::{self, Reader};
use crate::{ParamError, Sizing};

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

/// The table of parameters, with PostMark's defaults.
pub(super) fn parameters() -> Vec<Parameter> {
    use ParameterKind::{Integer, Number, Size};
    let Shape { size_low, size_high: _, number, transactions, bias_read, bias_create, .. } = Shape::default();
    let size = || Size(1..=u64::from(LARGEST_FILE));
    let bias = || Integer(i64::from(OFF)..=i64::from(MOST_BIAS));
    let high = ParameterDefault::Derived("10000 bytes, at least size_low");
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::new("transactions", Number(1..=1 << 31), transactions.to_string(), "transactions"),
            Parameter::new(
                "bias_read",
                bias(),
                bias_read.to_string(),
                "of ten reads and appends, the number of reads; -1: none",
            ),
            Parameter::new(
                "bias_create",
                bias(),
                bias_create.to_string(),
                "of ten creations and deletions, the number of creations; -1: none",
            ),
        ],
    );
    all.extend(group(
        ParameterGroup::Files,
        [
            Parameter::new("number", Number(1..=u64::from(MOST_FILES)), number.to_string(), "files of the pool"),
            Parameter::new("size_low", size(), size_low.to_string(), "size of the smallest file"),
            Parameter::new("size_high", size(), high, "size of the largest file"),
            Parameter::new(
                "subdirectories",
                Number(0..=1_000_000),
                "0",
                "directories of the pool; 0: all files in one",
            ),
            parameter::data(),
        ],
    ));
    all.extend(group(
        ParameterGroup::Calls,
        [
            Parameter::new("read", size(), "512", "size of each read"),
            Parameter::new("write", size(), "512", "size of each write"),
            Parameter::flag("buffering", "use the buffers of the C library, as PostMark's 'set buffering true'")
                .default("true"),
            parameter::threads(),
            parameter::processes(),
        ],
    ));
    all.extend(group(ParameterGroup::State, [parameter::durability(Durability::ALL)]));
    all.extend(group(ParameterGroup::Results, [parameter::verify(), parameter::label()]));
    all
}

impl Options {
    pub(super) fn parse(name: &str, params: &Params, sizing: &Sizing) -> Result<Options, ParamError> {
        let mut reader = Reader::new(name, parameters(), params, sizing)?;
        let usual = Shape::default();
        let low = reader.number("size_low")?;
        let high = reader.number_or("size_high", low.max(u64::from(usual.size_high)))?;
        if high < low {
            return Err(reader.error("size_high", format!("{high} is below size_low, {low}")));
        }
        let shape = Shape {
            size_low: low as u32,
            size_high: high as u32,
            number: reader.number("number")? as u32,
            transactions: reader.number("transactions")? as u32,
            subdirectories: reader.number("subdirectories")? as u32,
            weights: Vec::new(),
            bias_read: reader.integer("bias_read")? as i32,
            bias_create: reader.integer("bias_create")? as i32,
        };
        let options = Options {
            shape,
            read: reader.number("read")? as u32,
            write: reader.number("write")? as u32,
            buffering: reader.flag("buffering")?,
            threads: reader.threads()?,
            processes: reader.number("processes")? as u32,
            durability: reader.word("durability", Durability::ALL, Durability::name)?,
            verify: reader.flag("verify")?,
            label: reader.text("label")?,
        };
        if options.threads > 1 && options.processes > 1 {
            return Err(reader.error("processes", "each has one thread: give threads or processes"));
        }
        if u64::from(options.shape.number) * u64::from(options.workers()) > u64::from(MOST_FILES) {
            let message = format!("{} pools of {} files are too many", options.workers(), options.shape.number);
            return Err(reader.error("number", message));
        }
        reader.finish();
        Ok(options)
    }

    /// Returns the directory of a worker's pool.
    pub(super) fn directory(context: &Context, rank: u32) -> PathBuf {
        context.set().join(format!("p{rank}"))
    }

    /// Returns the names of the files in a worker's pool.
    pub(super) fn names(&self, context: &Context, rank: u32) -> PoolNames {
        PoolNames::new(&[Self::directory(context, rank)], self.shape.subdirectories)
    }

    /// Returns the number of threads, or of processes.
    pub(super) fn workers(&self) -> u32 {
        self.threads * self.processes
    }

    /// Returns the complete parameters: parsing them gives the same job.
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

    /// Returns the label: `postmark, 2000 files of 1000 to 100000`, and everything else that distinguishes the case.
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
