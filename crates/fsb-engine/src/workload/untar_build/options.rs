//! The parameters of the workload `untar-build`.

use std::fs::File;
use std::path::{Path, PathBuf};

use fsb_model::{Durability, Params};
use serde_json::Value;

use super::index;
use super::index::{Index, SourceContent};
use crate::backend::Backend;
use crate::error::{EngineError, ParamError};
use crate::fileset::BLOCK;
use crate::task::Sizing;
use crate::workload::label::{self, ending};
use crate::workload::parameter::ParameterDefault::Absent;
use crate::workload::parameter::{
    self, Needs, Parameter, ParameterDefault, ParameterGroup, ParameterKind, group,
};
use crate::workload::params::{self, Reader};

/// The phases of the work on the tree, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Unpack,
    Stat,
    Read,
    Compile,
    Remove,
}

impl Phase {
    const ALL: [Phase; 5] = [
        Phase::Unpack,
        Phase::Stat,
        Phase::Read,
        Phase::Compile,
        Phase::Remove,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Unpack => "unpack",
            Phase::Stat => "stat",
            Phase::Read => "read",
            Phase::Compile => "compile",
            Phase::Remove => "remove",
        }
    }
}

/// The timed phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timed {
    All,
    One(Phase),
}

impl Timed {
    const CHOICES: [Timed; 6] = [
        Timed::All,
        Timed::One(Phase::Unpack),
        Timed::One(Phase::Stat),
        Timed::One(Phase::Read),
        Timed::One(Phase::Compile),
        Timed::One(Phase::Remove),
    ];

    fn name(self) -> &'static str {
        match self {
            Timed::All => "all",
            Timed::One(phase) => phase.name(),
        }
    }
}

/// The source of the tree.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TreeSource {
    /// The number of files at full scale, times the scale.
    Recipe {
        files: u64,
        scale: f64,
        content: SourceContent,
    },
    /// An archive that the user gives.
    Archive(PathBuf),
}

/// Resolved parameters.
#[derive(Clone)]
pub(super) struct UntarBuildOptions {
    pub(super) source: TreeSource,
    timed: Timed,
    /// Whether sources are compiled too.
    compile: bool,
    /// Compilers at once.
    pub(super) jobs: u32,
    /// Bytes of one write.
    pub(super) block_size: u64,
    pub(super) backend: &'static dyn Backend,
    pub(super) threads: u32,
    pub(super) durability: Durability,
    /// Whether the data that is read is compared with the archive.
    pub(super) verify: bool,
    label: Option<String>,
    pub(super) totals: Totals,
}

/// Numbers of files, entries and bytes of the tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) directories: u64,
    pub(super) files: u64,
    /// Files, directories and links.
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// Bytes in whole blocks of the device.
    pub(super) blocks: u64,
    pub(super) sources: u64,
}

impl Totals {
    fn from_index(index: &Index) -> Totals {
        Totals {
            directories: index.directories.len() as u64,
            files: index.sizes().count() as u64,
            entries: index.items.len() as u64,
            bytes: index.bytes(),
            blocks: index.sizes().map(|size| size.next_multiple_of(BLOCK)).sum(),
            sources: (index.sources().count() as u64).min(index::MOST),
        }
    }
}

/// Returns the table of parameters.
pub(super) fn parameters() -> Vec<Parameter> {
    use ParameterKind::{Fraction, Number, Path, Size};
    let made_up = Needs::Absent("archive");
    let content = ParameterDefault::Derived("text with compile, else random");
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::word(
                "phase",
                &Timed::CHOICES,
                Timed::name,
                "phase to measure, or all",
            ),
            Parameter::flag(
                "compile",
                "compile the sources too, which measures the processor",
            )
            .needs(made_up),
            Parameter::new(
                "jobs",
                Number(0..=1024),
                "0",
                "compilers at once; 0 for one per processor",
            )
            .needs(Needs::Value("compile", &["true"])),
        ],
    );
    all.extend(group(
        ParameterGroup::Files,
        [
            Parameter::new(
                "archive",
                Path,
                Absent,
                "tar archive to unpack instead of one that fsb makes up",
            ),
            Parameter::new(
                "files",
                Number(1..=1_000_000),
                "20000",
                "files of the archive that fsb makes up",
            )
            .needs(made_up),
            Parameter::new(
                "scale",
                Fraction(1e-9..=1024.0),
                "1",
                "factor of the number of files",
            )
            .needs(made_up),
            Parameter::word(
                "content",
                &SourceContent::ALL,
                SourceContent::name,
                "content of the files",
            )
            .default(content)
            .needs(made_up),
            parameter::data(),
        ],
    ));
    all.extend(group(
        ParameterGroup::Calls,
        [
            Parameter::new("block_size", Size(1..=1 << 30), "10K", "size of each write"),
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
        [parameter::verify(), parameter::label()],
    ));
    all
}

impl UntarBuildOptions {
    pub(super) fn parse(
        name: &str,
        params: &Params,
        sizing: &Sizing,
    ) -> Result<UntarBuildOptions, ParamError> {
        let mut reader = Reader::new(name, parameters(), params, sizing)?;
        let archive = reader.text("archive")?;
        let content = reader.optional_word("content", &SourceContent::ALL, SourceContent::name)?;
        let compile = reader.flag("compile")?;
        let timed = reader.word("phase", &Timed::CHOICES, Timed::name)?;
        let (source, index) = match archive {
            Some(path) => {
                let path = std::path::absolute(&path).unwrap_or_else(|_| PathBuf::from(&path));
                let index =
                    of_archive(&path).map_err(|error| reader.error("archive", error.message))?;
                (TreeSource::Archive(path), index)
            }
            None => {
                let files = reader.number("files")?;
                let scale = reader.fraction("scale")?;
                let usual = if compile {
                    SourceContent::Text
                } else {
                    SourceContent::Random
                };
                let content = content.unwrap_or(usual);
                if compile && content == SourceContent::Random {
                    return Err(reader.error(
                        "content",
                        "compiling needs source text: use \"text\", or leave content \
                        out",
                    ));
                }
                let index = Index::of_plan(&index::tree(scaled(files, scale)));
                (
                    TreeSource::Recipe {
                        files,
                        scale,
                        content,
                    },
                    index,
                )
            }
        };
        let totals = Totals::from_index(&index);
        if totals.files == 0 {
            return Err(reader.error("archive", "the archive has no files"));
        }
        if timed == Timed::One(Phase::Compile) && !compile {
            return Err(reader.error("phase", "this phase needs compile = true"));
        }
        if compile && totals.sources == 0 {
            return Err(reader.error("compile", "too few files for a source file: use more files"));
        }
        if compile && index::find().is_none() {
            let message =
                "no program cc in PATH, which compiles: install a C compiler, or leave it out";
            return Err(reader.error("compile", message));
        }
        let jobs = if compile {
            reader.number("jobs")? as u32
        } else {
            0
        };
        let options = UntarBuildOptions {
            source,
            timed,
            compile,
            jobs: if compile && jobs == 0 {
                sizing.cpus.max(1)
            } else {
                jobs
            },
            block_size: reader.number("block_size")?,
            backend: reader.backend()?,
            threads: reader.threads()?,
            durability: reader.word("durability", Durability::ALL, Durability::name)?,
            verify: reader.flag("verify")?,
            label: reader.text("label")?,
            totals,
        };
        if options.verify && !options.phases().contains(&Phase::Read) {
            return Err(reader.error(
                "verify",
                "this phase reads no files, so fsb has nothing to verify",
            ));
        }
        reader.finish();
        Ok(options)
    }

    /// Returns the timed phases, in their order.
    pub(super) fn phases(&self) -> Vec<Phase> {
        match self.timed {
            Timed::One(phase) => vec![phase],
            Timed::All => Phase::ALL
                .into_iter()
                .filter(|phase| self.compile || *phase != Phase::Compile)
                .collect(),
        }
    }

    /// Returns whether the tree exists before the clock starts.
    pub(super) fn is_unpacked_before(&self) -> bool {
        !matches!(self.timed, Timed::All | Timed::One(Phase::Unpack))
    }

    /// Returns whether there are objects beside the sources when the tree is removed.
    pub(super) fn has_objects(&self) -> bool {
        self.compile && self.timed == Timed::All
    }

    /// Returns the number of operations of a phase.
    pub(super) fn operations(&self, phase: Phase) -> u64 {
        let Totals {
            entries,
            files,
            sources,
            ..
        } = self.totals;
        match phase {
            Phase::Unpack | Phase::Stat => entries,
            Phase::Read => files,
            Phase::Compile => sources,
            Phase::Remove if self.has_objects() => entries + sources,
            Phase::Remove => entries,
        }
    }

    /// Returns the complete parameters: parsing them gives the same job.
    pub(super) fn params(&self) -> Params {
        let mut params = params::from_pairs([
            ("phase", self.timed.name().into()),
            ("block_size", self.block_size.into()),
            ("threads", self.threads.into()),
            ("durability", self.durability.name().into()),
            ("verify", self.verify.into()),
        ]);
        let mut add = |key: &str, value: Value| params.insert(key.to_owned(), value);
        match &self.source {
            TreeSource::Recipe {
                files,
                scale,
                content,
            } => {
                add("files", (*files).into());
                add("scale", (*scale).into());
                add("content", content.name().into());
            }
            TreeSource::Archive(path) => drop(add("archive", path.to_string_lossy().into())),
        }
        if self.compile {
            add("compile", true.into());
            add("jobs", self.jobs.into());
        }
        if let Some(label) = &self.label {
            add("label", label.as_str().into());
        }
        params::add_backend(&mut params, self.backend);
        params
    }

    /// Returns the label: `untar-build, 20000 files, durable`, `unpack 20000 files`, and everything
    /// else that distinguishes the case.
    pub(super) fn label(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let tree = match &self.source {
            TreeSource::Recipe { .. } => format!("{} files", self.totals.files),
            TreeSource::Archive(path) => path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        };
        let mut label = match self.timed {
            Timed::All => format!("untar-build, {tree}"),
            Timed::One(phase) => format!("{} {tree}", phase.name()),
        };
        if let TreeSource::Recipe {
            content: SourceContent::Text,
            ..
        } = self.source
        {
            label += " of text";
        }
        if self.compile {
            // Compiling measures the processor, on every file system.
            label = match self.timed {
                Timed::All => format!("{label}, compile {} (CPU)", self.totals.sources),
                _ => format!("{label}: {} (CPU)", self.totals.sources),
            };
            label = format!("{label}, {} jobs", self.jobs);
        }
        if self.block_size != 10 << 10 {
            label = format!("{label}, {}", label::size(self.block_size));
        }
        label
            + &label::backend(self.backend)
            + &ending(self.durability, self.verify, self.threads, 1)
    }
}

/// Scales a number of files; the result is at least one unless `scale` is 1.
pub(super) fn scaled(files: u64, scale: f64) -> u64 {
    if scale == 1.0 {
        files
    } else {
        ((files as f64 * scale).round() as u64).max(1)
    }
}

fn of_archive(path: &Path) -> Result<Index, EngineError> {
    let shown = path.display();
    let file = fsb_store::input::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::IsADirectory => {
            EngineError::new(format!("{shown} is not a file: name a tar archive"))
        }
        _ => EngineError::new(format!("{shown} cannot be read: {error}")),
    })?;
    if let Some(how) = packed(&file) {
        return Err(EngineError::new(format!(
            "{shown} is compressed: unpack it first, with {how}; decompressing measures the processor"
        )));
    }
    Index::read(std::io::BufReader::new(file))
        .map_err(|why| EngineError::new(format!("{shown}: {why}")))
}

/// Returns the program that decompresses a file, if its first bytes show a known compression.
fn packed(file: &File) -> Option<&'static str> {
    use std::os::unix::fs::FileExt;
    const KNOWN: [(&[u8], &str); 4] = [
        (b"\x1f\x8b", "gunzip"),
        (b"\xfd7zXZ", "unxz"),
        (b"BZh", "bunzip2"),
        (b"\x28\xb5\x2f\xfd", "unzstd"),
    ];
    let mut head = [0; 6];
    let read = file.read_at(&mut head, 0).unwrap_or(0);
    KNOWN
        .iter()
        .find(|(magic, _)| head[..read].starts_with(magic))
        .map(|(_, program)| *program)
}
