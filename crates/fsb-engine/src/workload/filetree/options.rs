//! The parameters of work on a tree.

use fsb_model::shape::Shape;
use fsb_model::{Bytes, Durability, Params};
use serde_json::Value;

use super::recipe::{self, PublishedSet};
use crate::backend::Backend;
use crate::workload::label::{self, ending};
use crate::workload::params::{self, Reader};
use crate::{ParamError, Sizing};

/// What is done to the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    CopyInto,
    CopyWithin,
    Delete,
}

impl Operation {
    const ALL: [Operation; 3] = [Operation::CopyInto, Operation::CopyWithin, Operation::Delete];

    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::CopyInto => "copy-into",
            Operation::CopyWithin => "copy-within",
            Operation::Delete => "delete",
        }
    }
}

/// How the bytes of a file come into its copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyMethod {
    ReadWrite,
    CopyFileRange,
    Reflink,
}

impl CopyMethod {
    const ALL: [CopyMethod; 3] = [CopyMethod::ReadWrite, CopyMethod::CopyFileRange, CopyMethod::Reflink];

    pub(super) fn name(self) -> &'static str {
        match self {
            CopyMethod::ReadWrite => "read-write",
            CopyMethod::CopyFileRange => "copy_file_range",
            CopyMethod::Reflink => "reflink",
        }
    }
}

/// Resolved parameters.
#[derive(Clone)]
pub(super) struct Options {
    pub(super) operation: Operation,
    pub(super) copy: CopyMethod,
    /// The shape as it is to be made: scaled.
    pub(super) shape: Shape,
    tree: ShapeSource,
    scale: f64,
    /// Bytes of one read and one write.
    pub(super) block_size: u64,
    pub(super) backend: &'static dyn Backend,
    pub(super) threads: u32,
    pub(super) durability: Durability,
    /// Copies are read back and compared, after the clock.
    pub(super) verify: bool,
    label: Option<String>,
}

/// Where the shape comes from.
#[derive(Debug, Clone)]
enum ShapeSource {
    PublishedSet(PublishedSet),
    /// A name for people, and the text.
    Recorded(String, String),
}

impl Options {
    pub(super) fn parse(name: &str, params: &Params, sizing: &Sizing) -> Result<Options, ParamError> {
        let mut reader = Reader::new(name, params, sizing);
        let operation = reader.word("operation", &Operation::ALL, Operation::name)?.unwrap_or(Operation::CopyInto);
        let copy = reader.word("copy", &CopyMethod::ALL, CopyMethod::name)?;
        if operation == Operation::Delete && copy.is_some() {
            return Err(reader.error("copy", "nothing is copied where operation is delete: leave it out"));
        }
        let copy = copy.unwrap_or(CopyMethod::ReadWrite);
        if operation == Operation::CopyInto && copy == CopyMethod::Reflink {
            let message = "a reflink shares blocks within one file system: it needs operation = \"copy-within\"";
            return Err(reader.error("copy", message));
        }
        let scale = reader.fraction("scale", 1.0, 1e-9..=1024.0)?;
        let set = reader.word("set", &PublishedSet::ALL, PublishedSet::name)?;
        let (recorded, tree) = (reader.text("shape")?, reader.text("tree")?);
        let (shape, tree) = match (set, recorded) {
            (Some(_), Some(_)) => return Err(reader.error("shape", "give either a set or a shape")),
            (None, Some(text)) => {
                let shape: Shape = text.parse().map_err(|error| reader.error("shape", format!("{error}")))?;
                let shape = if scale == 1.0 {
                    shape
                } else {
                    // Empty files stay empty.
                    shape.with_sizes(|size| if size == 0 { 0 } else { recipe::scaled(size, scale) })
                };
                (shape, ShapeSource::Recorded(tree.unwrap_or_else(|| "a tree".to_owned()), text))
            }
            (set, None) if tree.is_some() => {
                let why = if set.is_some() { "a set has a name already" } else { "it names a shape: give that too" };
                return Err(reader.error("tree", why));
            }
            (set, None) => {
                let set = set.unwrap_or(PublishedSet::Music);
                (set.shape(scale), ShapeSource::PublishedSet(set))
            }
        };
        if shape.files() == 0 {
            return Err(reader.error("shape", "no file is in it: nothing would be measured"));
        }
        let block_size = match operation {
            Operation::Delete => 0,
            _ => reader.number("block_size", "128K", 1..=1 << 30)?,
        };
        let durabilities = [Durability::None, Durability::End];
        let options = Options {
            operation,
            copy,
            shape,
            tree,
            scale,
            block_size,
            backend: reader.sequential_backend()?,
            threads: reader.threads()?,
            durability: reader.word("durability", &durabilities, Durability::name)?.unwrap_or(Durability::End),
            verify: reader.flag("verify", false)?,
            label: reader.text("label")?,
        };
        if options.verify && operation == Operation::Delete {
            return Err(reader.error("verify", "nothing is left to be compared where operation is delete"));
        }
        reader.finish()?;
        Ok(options)
    }

    /// Complete: parsed again they give the same job.
    pub(super) fn params(&self) -> Params {
        let mut params = params::of([
            ("operation", self.operation.name().into()),
            ("scale", self.scale.into()),
            ("threads", self.threads.into()),
            ("durability", self.durability.name().into()),
        ]);
        let mut add = |key: &str, value: Value| params.insert(key.to_owned(), value);
        match &self.tree {
            ShapeSource::PublishedSet(set) => drop(add("set", set.name().into())),
            ShapeSource::Recorded(name, shape) => {
                add("tree", name.as_str().into());
                add("shape", shape.as_str().into());
            }
        }
        if self.operation != Operation::Delete {
            add("copy", self.copy.name().into());
            add("block_size", self.block_size.into());
            add("verify", self.verify.into());
        }
        if let Some(label) = &self.label {
            add("label", label.as_str().into());
        }
        params::add_backend(&mut params, self.backend);
        params
    }

    /// `copy music into, read-write, durable`, and everything else that makes it another cell.
    pub(super) fn label(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let tree = match &self.tree {
            ShapeSource::PublishedSet(set) => set.name(),
            ShapeSource::Recorded(name, _) => name,
        };
        let mut label = match self.operation {
            Operation::CopyInto => format!("copy {tree} into, {}", self.copy.name()),
            Operation::CopyWithin => format!("copy {tree} within, {}", self.copy.name()),
            Operation::Delete => format!("delete {tree}"),
        };
        if self.operation != Operation::Delete && self.copy == CopyMethod::ReadWrite && self.block_size != 128 << 10 {
            label = format!("{label} {}", Bytes(self.block_size));
        }
        label + &label::backend(self.backend) + &ending(self.durability, self.verify, self.threads, 1)
    }
}
