//! The parameters of work on a tree, and how a tree is described.

use fsb_model::shape::Shape;
use fsb_model::{Durability, Params};
use serde_json::Value;

use crate::backend::Backend;
use crate::error::ParamError;
use crate::hash::mix;
use crate::task::Sizing;
use crate::workload::label::ending;
use crate::workload::parameter::ParameterDefault::Absent;
use crate::workload::parameter::{
    Needs, Parameter, ParameterDefault, ParameterGroup, ParameterKind, group,
};
use crate::workload::params::Reader;
use crate::workload::{label, parameter, params};

/// The operation on the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    CopyInto,
    CopyWithin,
    Delete,
}

impl Operation {
    const ALL: [Operation; 3] = [
        Operation::CopyInto,
        Operation::CopyWithin,
        Operation::Delete,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::CopyInto => "copy-into",
            Operation::CopyWithin => "copy-within",
            Operation::Delete => "delete",
        }
    }
}

/// The method of copying a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyMethod {
    ReadWrite,
    CopyFileRange,
    Reflink,
}

impl CopyMethod {
    const ALL: [CopyMethod; 3] = [
        CopyMethod::ReadWrite,
        CopyMethod::CopyFileRange,
        CopyMethod::Reflink,
    ];

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
pub(super) struct FiletreeOptions {
    pub(super) operation: Operation,
    pub(super) copy: CopyMethod,
    /// The scaled shape of the tree.
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

/// The source of the shape.
#[derive(Debug, Clone)]
enum ShapeSource {
    PublishedSet(PublishedSet),
    /// The name in reports, and the text of the shape.
    Recorded(String, String),
}

/// The operations that make a tree, whose files can be compared.
const COPIES: Needs = Needs::Value("operation", &["copy-into", "copy-within"]);

/// Returns the table of parameters.
pub(super) fn parameters() -> Vec<Parameter> {
    use ParameterKind::{Fraction, Size, Text};
    let set = ParameterDefault::Derived("music, without a shape");
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::word(
                "operation",
                &Operation::ALL,
                Operation::name,
                "work on the tree",
            ),
            Parameter::word(
                "copy",
                &CopyMethod::ALL,
                CopyMethod::name,
                "method of copying a file",
            )
            .needs(COPIES),
        ],
    );
    all.extend(group(
        ParameterGroup::Files,
        [
            Parameter::word(
                "set",
                &PublishedSet::ALL,
                PublishedSet::name,
                "published set of files",
            )
            .default(set),
            Parameter::new(
                "shape",
                Text,
                Absent,
                "shape of a tree, as 'fsb run --tree' records it",
            )
            .needs(Needs::Absent("set")),
            Parameter::new("tree", Text, Absent, "name of the recorded tree in reports")
                .needs(Needs::Given("shape")),
            Parameter::new(
                "scale",
                Fraction(1e-9..=1024.0),
                "1",
                "factor of the tree's size",
            ),
            parameter::data(),
        ],
    ));
    all.extend(group(
        ParameterGroup::Calls,
        [
            Parameter::new(
                "block_size",
                Size(1..=1 << 30),
                "128K",
                "size of each read and write",
            )
            .needs(COPIES),
            parameter::sequential_backend(),
            parameter::threads(),
        ],
    ));
    all.extend(group(
        ParameterGroup::State,
        [parameter::durability(&[Durability::None, Durability::End]).default("end")],
    ));
    all.extend(group(
        ParameterGroup::Results,
        [parameter::verify().needs(COPIES), parameter::label()],
    ));
    all
}

impl FiletreeOptions {
    pub(super) fn parse(
        name: &str,
        params: &Params,
        sizing: &Sizing,
    ) -> Result<FiletreeOptions, ParamError> {
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
                let shape: Shape = text
                    .parse()
                    .map_err(|error| reader.error("shape", format!("{error}")))?;
                let shape = if scale == 1.0 {
                    shape
                } else {
                    // Empty files stay empty.
                    shape.with_sizes(|size| if size == 0 { 0 } else { scaled(size, scale) })
                };
                (
                    shape,
                    ShapeSource::Recorded(tree.unwrap_or_else(|| "a tree".to_owned()), text),
                )
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
        let options = FiletreeOptions {
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

    /// Returns the complete parameters: parsing them gives the same job.
    pub(super) fn params(&self) -> Params {
        let mut params = params::from_pairs([
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

    /// Returns the label: `copy music into, read-write, durable`, and everything else that makes it
    /// another case.
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
        if self.operation != Operation::Delete
            && self.copy == CopyMethod::ReadWrite
            && self.block_size != 128 << 10
        {
            label = format!("{label} {}", label::size(self.block_size));
        }
        label
            + &label::backend(self.backend)
            + &ending(self.durability, self.verify, self.threads, 1)
    }
}

/// A published set.
///
/// The file sets of Fedorchuk 2008, made by a recipe from their description: the files themselves
/// are not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PublishedSet {
    Music,
    Portage,
    Avi,
    Iso,
    All,
}

/// Decimal, as sizes of disks and files were given.
const MB: u64 = 1_000_000;
/// MB of the 16 files of music: 357 in all.
const MUSIC: [u64; 16] = [
    10, 15, 18, 20, 21, 22, 23, 23, 24, 24, 25, 25, 26, 27, 27, 27,
];
const AVI: u64 = 3400 * MB;
const ISO: u64 = 586 * MB;
const PORTAGE: u64 = 229 * MB;
/// Files and directories of the tree of packages.
const ENTRIES: u64 = 12_000;
/// Packages of a category.
const CATEGORY: u64 = 80;
/// Files of the tree for each large one.
const LARGE: u64 = 10;
/// Bytes of the small ones.
const SMALL: std::ops::Range<u64> = 200..4000;

impl PublishedSet {
    const ALL: [PublishedSet; 5] = [
        PublishedSet::Music,
        PublishedSet::Portage,
        PublishedSet::Avi,
        PublishedSet::Iso,
        PublishedSet::All,
    ];

    fn name(self) -> &'static str {
        match self {
            PublishedSet::Music => "music",
            PublishedSet::Portage => "portage",
            PublishedSet::Avi => "avi",
            PublishedSet::Iso => "iso",
            PublishedSet::All => "all",
        }
    }

    /// Returns the shape of the set with `scale` of its bytes. The tree of packages gets fewer
    /// files, the others get smaller ones.
    fn shape(self, scale: f64) -> Shape {
        let flat = |sizes: &[u64]| {
            let mut shape = Shape::default();
            sizes
                .iter()
                .for_each(|size| shape.add_file(0, scaled(*size, scale)));
            shape
        };
        match self {
            PublishedSet::Music => flat(&MUSIC.map(|size| size * MB)),
            PublishedSet::Avi => flat(&[AVI]),
            PublishedSet::Iso => flat(&[ISO]),
            PublishedSet::Portage => packages(scaled(ENTRIES, scale), scaled(PORTAGE, scale)),
            PublishedSet::All => {
                let mut all = Shape::default();
                PublishedSet::ALL
                    .into_iter()
                    .filter(|set| *set != PublishedSet::All)
                    .for_each(|set| all.add_tree(&set.shape(scale)));
                all
            }
        }
    }
}

/// Scales a number; the result is at least 1 unless `scale` is 1.
fn scaled(size: u64, scale: f64) -> u64 {
    if scale == 1.0 {
        size
    } else {
        ((size as f64 * scale).round() as u64).max(1)
    }
}

/// Builds a tree of packages. Categories contain packages of six files; every other package has a
/// directory of two more files. Nine of ten files have hundreds of bytes to a few thousand. The
/// others share the rest of `bytes`.
fn packages(entries: u64, bytes: u64) -> Shape {
    let mut shape = Shape::default();
    let (mut left, mut category, mut package) = (entries, 0, 0);
    let mut files = Vec::new();
    // The last package may lack some of its files.
    let mut spend = |wanted: u64| {
        let given = wanted.min(left);
        left -= given;
        given
    };
    loop {
        if package % CATEGORY == 0 && spend(1) == 1 {
            category = shape.add_directory(0);
        }
        if spend(1) == 0 {
            break;
        }
        let directory = shape.add_directory(category);
        (0..spend(6)).for_each(|_| files.push(directory));
        if package % 2 == 1 && spend(1) == 1 {
            let patches = shape.add_directory(directory);
            (0..spend(2)).for_each(|_| files.push(patches));
        }
        package += 1;
    }
    fn is_large(index: u64) -> bool {
        index % LARGE == LARGE / 2
    }
    fn small(index: u64) -> u64 {
        SMALL.start + mix(index) % (SMALL.end - SMALL.start)
    }
    let count = files.len() as u64;
    let smalls: u64 = (0..count)
        .filter(|index| !is_large(*index))
        .map(small)
        .sum();
    let mut larges = (0..count).filter(|index| is_large(*index)).count() as u64;
    let mut rest = bytes.saturating_sub(smalls);
    for (index, directory) in (0..).zip(files) {
        let size = if is_large(index) {
            // Half to one and a half of an equal share; the last one takes the rest.
            let share = rest / larges;
            let size = if larges == 1 {
                rest
            } else {
                share / 2 + mix(index) % share.max(1)
            };
            (larges, rest) = (larges - 1, rest - size);
            size
        } else {
            small(index)
        };
        shape.add_file(directory, size);
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_have_the_sizes_that_were_published() {
        let of = |set: PublishedSet| {
            let shape = set.shape(1.0);
            (shape.entries(), shape.bytes())
        };
        assert_eq!(of(PublishedSet::Music), (16, 357 * MB));
        assert_eq!(of(PublishedSet::Avi), (1, 3400 * MB));
        assert_eq!(of(PublishedSet::Iso), (1, 586 * MB));
        assert_eq!(of(PublishedSet::Portage), (12_000, 229 * MB));
        assert_eq!(
            of(PublishedSet::All),
            (16 + 1 + 1 + 12_000 + 4, (357 + 3400 + 586 + 229) * MB)
        );
        assert!(
            PublishedSet::Music
                .shape(1.0)
                .sizes()
                .all(|size| (10 * MB..=27 * MB).contains(&size))
        );
        let portage = PublishedSet::Portage.shape(1.0);
        let small = portage.sizes().filter(|size| SMALL.contains(size)).count() as u64;
        assert!(
            small * 100 >= portage.files() * 89,
            "{small} of {}",
            portage.files()
        );
        let depth = |mut directory: usize| {
            let mut depth = 0;
            while directory != 0 {
                (directory, depth) = (portage.directories()[directory].parent, depth + 1);
            }
            depth
        };
        assert_eq!(
            (0..portage.directories().len()).map(depth).max(),
            Some(3),
            "category, package, files"
        );
    }

    #[test]
    fn a_scale_keeps_sixteen_pieces_of_music_and_thins_out_packages() {
        for scale in [0.5, 1.0 / 16.0, 1.0 / 1024.0] {
            assert_eq!(PublishedSet::Music.shape(scale).files(), 16);
            let portage = PublishedSet::Portage.shape(scale);
            assert_eq!(
                portage.entries(),
                (12_000.0 * scale).round() as u64,
                "{scale}"
            );
            // So few files that none of them is large have only their own bytes.
            let wanted = 229e6 * scale;
            assert!(
                portage.files() < 6 || (portage.bytes() as f64 - wanted).abs() <= wanted * 0.2,
                "{scale}"
            );
        }
        assert_eq!(PublishedSet::Portage.shape(1e-9).entries(), 1);
    }
}
