//! The parameters of work on a tree.

use fsb_model::shape::Shape;
use fsb_model::{Bytes, Durability, Params};
use serde_json::Value;

use super::recipe::{self, PublishedSet};
use crate::backend::Backend;
use crate::workload::label::{self, ending};
use crate::workload::parameter::ParameterDefault::Absent;
use crate::workload::parameter::{self, Needs, Parameter, ParameterDefault, ParameterGroup, ParameterKind, group};
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

/// The operations that make a tree, whose files can be compared.
const COPIES: Needs = Needs::Value("operation", &["copy-into", "copy-within"]);

/// The table of parameters.
pub(super) fn parameters() -> Vec<Parameter> {
    use ParameterKind::{Fraction, Size, Text};
    let set = ParameterDefault::Derived("music, without a shape");
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::word("operation", &Operation::ALL, Operation::name, "work on the tree"),
            Parameter::word("copy", &CopyMethod::ALL, CopyMethod::name, "method of copying a file").needs(COPIES),
        ],
    );
    all.extend(group(
        ParameterGroup::Files,
        [
            Parameter::word("set", &PublishedSet::ALL, PublishedSet::name, "published set of files").default(set),
            Parameter::new("shape", Text, Absent, "shape of a tree, as 'fsb run --tree' records it")
                .needs(Needs::Absent("set")),
            Parameter::new("tree", Text, Absent, "name of the recorded tree in reports").needs(Needs::Given("shape")),
            Parameter::new("scale", Fraction(1e-9..=1024.0), "1", "factor of the tree's size"),
            parameter::data(),
        ],
    ));
    all.extend(group(
        ParameterGroup::Calls,
        [
            Parameter::new("block_size", Size(1..=1 << 30), "128K", "size of each read and write").needs(COPIES),
            parameter::sequential_backend(),
            parameter::threads(),
        ],
    ));
    all.extend(group(
        ParameterGroup::State,
        [parameter::durability(&[Durability::None, Durability::End]).default("end")],
    ));
    all.extend(group(ParameterGroup::Results, [parameter::verify().needs(COPIES), parameter::label()]));
    all
}

impl Options {
    pub(super) fn parse(name: &str, params: &Params, sizing: &Sizing) -> Result<Options, ParamError> {
        let mut reader = Reader::new(name, parameters(), params, sizing)?;
        let operation = reader.word("operation", &Operation::ALL, Operation::name)?;
        let copy = reader.word("copy", &CopyMethod::ALL, CopyMethod::name)?;
        if operation == Operation::CopyInto && copy == CopyMethod::Reflink {
            let message = "a reflink shares blocks within one file system: it needs operation = \"copy-within\"";
            return Err(reader.error("copy", message));
        }
        let scale = reader.fraction("scale")?;
        let set = reader.optional_word("set", &PublishedSet::ALL, PublishedSet::name)?;
        let (recorded, tree) = (reader.text("shape")?, reader.text("tree")?);
        let (shape, tree) = match (set, recorded) {
            (_, Some(text)) => {
                let shape: Shape = text.parse().map_err(|error| reader.error("shape", format!("{error}")))?;
                let shape = if scale == 1.0 {
                    shape
                } else {
                    // Empty files stay empty.
                    shape.with_sizes(|size| if size == 0 { 0 } else { recipe::scaled(size, scale) })
                };
                (shape, ShapeSource::Recorded(tree.unwrap_or_else(|| "a tree".to_owned()), text))
            }
            (set, None) => {
                let set = set.unwrap_or(PublishedSet::Music);
                (set.shape(scale), ShapeSource::PublishedSet(set))
            }
        };
        if shape.files() == 0 {
            return Err(reader.error("shape", "the tree has no files"));
        }
        let block_size = match operation {
            Operation::Delete => 0,
            _ => reader.number("block_size")?,
        };
        let options = Options {
            operation,
            copy,
            shape,
            tree,
            scale,
            block_size,
            backend: reader.backend()?,
            threads: reader.threads()?,
            durability: reader.word("durability", Durability::ALL, Durability::name)?,
            verify: reader.flag("verify")?,
            label: reader.text("label")?,
        };
        reader.finish();
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
