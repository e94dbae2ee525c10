//! Looking up files in a tree of directories by paths with many components, as FxMark's MRPL, MRPM
//! and MRPH do (Min et al., USENIX ATC 2016).

use std::ffi::CStr;

use fsb_model::metric::OPERATION_RATE;
use fsb_model::{Access, CacheState, Params};
use rustix::io::Errno;

use super::job::{Job, WorkUnit, Workload};
use super::label;
use super::measure::{Subject, measure_set};
use super::parameter::{self, Needs, Parameter, ParameterGroup, ParameterKind, group};
use super::params::{self, Reader};
use super::spec::NAMES_BACKENDS;
use crate::backend::{Backend, OpenFlags, Session, SessionSetup};
use crate::clock::OperationKind;
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, Content, Layout};
use crate::io_loop::OpenFileSet;
use crate::order::{self, Share, Visits};
use crate::profile::{Profile, Renewal};
use crate::task::{Context, Gate, Measurement, Preparing, Sizing};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;

const NAME: &str = "lookup";
/// The maximum number of files of a tree.
const MOST_FILES: u64 = 1_000_000;
const CACHE: &[CacheState] = &[CacheState::Warm, CacheState::Cold, CacheState::Any];
const ACCESS: &[Access] = &[Access::Sequential, Access::Random];

/// The call that looks a file up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Stat,
    /// open(2) and close(2).
    Open,
}

impl Operation {
    const ALL: [Operation; 2] = [Operation::Stat, Operation::Open];

    fn name(self) -> &'static str {
        match self {
            Operation::Stat => "stat",
            Operation::Open => "open",
        }
    }
}

/// The files that the threads look up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paths {
    /// All paths, divided among the threads.
    All,
    /// One path per thread, again and again.
    Own,
    /// The same path in all threads, again and again.
    One,
}

impl Paths {
    const ALL: [Paths; 3] = [Paths::All, Paths::Own, Paths::One];

    fn name(self) -> &'static str {
        match self {
            Paths::All => "all",
            Paths::Own => "own",
            Paths::One => "one",
        }
    }
}

/// The member.
pub(super) struct Lookup;

impl Workload for Lookup {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "stat or open files by their paths in a tree of directories with a depth and a width"
    }

    fn example(&self) -> Params {
        params::from_pairs([
            ("depth", 2.into()),
            ("width", 3.into()),
            ("operation", "open".into()),
            ("threads", 2.into()),
        ])
    }

    fn parameters(&self) -> Vec<Parameter> {
        use ParameterKind::Number;
        let paths = "look up all files, one own file of each thread again and again, or one file in all threads";
        let mut all = group(
            ParameterGroup::Work,
            [
                Parameter::word(
                    "operation",
                    &Operation::ALL,
                    Operation::name,
                    "call on each file; open includes close",
                ),
                Parameter::word("paths", &Paths::ALL, Paths::name, paths),
            ],
        );
        all.extend(group(
            ParameterGroup::Files,
            [
                Parameter::new("depth", Number(1..=16), "4", "directories above each file"),
                Parameter::new(
                    "width",
                    Number(1..=100),
                    "5",
                    "directories or files of each directory",
                ),
            ],
        ));
        let access = Parameter::word("access", ACCESS, Access::name, "order of files");
        all.extend(group(
            ParameterGroup::Calls,
            [
                access.needs(Needs::Value("paths", &["all"])),
                parameter::backend(NAMES_BACKENDS),
                parameter::threads(),
            ],
        ));
        all.extend(group(ParameterGroup::State, [parameter::cache(CACHE)]));
        all.extend(group(ParameterGroup::Results, [parameter::label()]));
        all
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(LookupJob::parse(params, sizing)?))
    }
}

struct LookupJob {
    operation: Operation,
    paths: Paths,
    depth: u32,
    width: u64,
    access: Access,
    backend: &'static dyn Backend,
    threads: u32,
    cache: CacheState,
    label: Option<String>,
}

impl LookupJob {
    fn parse(params: &Params, sizing: &Sizing) -> Result<LookupJob, ParamError> {
        let mut reader = Reader::new(NAME, Lookup.parameters(), params, sizing)?;
        let paths = reader.word("paths", &Paths::ALL, Paths::name)?;
        let access = if paths == Paths::All {
            reader.word("access", ACCESS, Access::name)?
        } else {
            ACCESS[0]
        };
        let job = LookupJob {
            operation: reader.word("operation", &Operation::ALL, Operation::name)?,
            paths,
            depth: reader.number("depth")? as u32,
            width: reader.number("width")?,
            access,
            backend: reader.backend()?,
            threads: reader.threads()?,
            cache: reader.word("cache", CACHE, CacheState::name)?,
            label: reader.text("label")?,
        };
        let files = job
            .width
            .checked_pow(job.depth + 1)
            .filter(|files| *files <= MOST_FILES);
        let Some(files) = files else {
            let message = format!(
                "{} at a depth of {} are more than {MOST_FILES} files",
                job.width, job.depth
            );
            return Err(reader.error("width", message));
        };
        if u64::from(job.threads) > files {
            return Err(reader.error(
                "width",
                format!("{files} files are fewer than {} threads", job.threads),
            ));
        }
        if job.paths != Paths::All && job.cache == CacheState::Cold {
            let message = "a path that is looked up again and again is cold once: use warm or any";
            return Err(reader.error("cache", message));
        }
        reader.finish();
        Ok(job)
    }
    fn files(&self) -> u64 {
        self.width.pow(self.depth + 1)
    }

    /// Returns the number of directories: the sum of the powers of the width up to the depth.
    fn directories(&self) -> u64 {
        (1..=self.depth).map(|level| self.width.pow(level)).sum()
    }

    /// Returns the files that a thread looks up in this number of operations of all threads.
    fn visits(&self, operations: u64, rank: u32, seed: u64, repetition: u32) -> Visits {
        let share = order::share(self.files(), operations, rank, self.threads);
        let share = match self.paths {
            Paths::All => share,
            Paths::Own => Share { length: 1, ..share },
            Paths::One => Share {
                first: 0,
                length: 1,
                ..share
            },
        };
        Visits::new(self.files(), share, self.access, seed, repetition)
    }

    fn label(&self) -> String {
        let random = if self.access == Access::Random {
            "random "
        } else {
            ""
        };
        let paths = match self.paths {
            Paths::All => "",
            Paths::Own => ", own path",
            Paths::One => ", one path",
        };
        let cache = match self.cache {
            CacheState::Any => String::new(),
            cache => format!(", {}", cache.name()),
        };
        let (call, Self { depth, width, .. }) = (self.operation.name(), self);
        let backend = label::backend(self.backend);
        format!("{random}{call} {depth} deep, {width} wide{paths}{cache}{backend}")
            + &label::workers(self.threads, 1)
    }

    /// Makes the directories of a level and everything below them.
    fn make(&self, parent: &std::path::Path, level: u32) -> Result<(), EngineError> {
        for number in 0..self.width {
            if level == self.depth {
                let path = parent.join(format!("f{number:02}"));
                std::fs::write(&path, [])
                    .map_err(|error| EngineError::io("create", &path, &error))?;
            } else {
                let path = parent.join(format!("d{number:02}"));
                fileset::make_directory(&path)?;
                self.make(&path, level + 1)?;
            }
        }
        Ok(())
    }
}

impl Job for LookupJob {
    fn profile(&self) -> Profile {
        let cold = self.cache.begins_cold();
        let inodes = self.files() + self.directories() + 1;
        Profile {
            files: self.files(),
            threads: self.threads,
            backend: self.backend.name().to_owned(),
            cache: self.cache,
            renewal: if cold {
                Renewal::Remount
            } else {
                Renewal::Never
            },
            operations: self.files(),
            divisible: true,
            repeats_in_place: !cold,
            reaches_device: cold,
            metadata_only: true,
            reads_only: true,
            space: inodes * fileset::NOTE + self.directories() * fileset::BLOCK,
            inodes,
            cold_bytes_per_operation: 64,
            ..Profile::base(
                NAME,
                &OPERATION_RATE,
                self.label.clone().unwrap_or_else(|| self.label()),
            )
        }
    }

    fn params(&self) -> Params {
        let mut params = params::from_pairs([
            ("backend", self.backend.name().into()),
            ("cache", self.cache.name().into()),
            ("depth", self.depth.into()),
            ("operation", self.operation.name().into()),
            ("paths", self.paths.name().into()),
            ("threads", self.threads.into()),
            ("width", self.width.into()),
        ]);
        if self.paths == Paths::All {
            params.insert("access".to_owned(), self.access.name().into());
        }
        if let Some(label) = &self.label {
            params.insert("label".to_owned(), label.as_str().into());
        }
        params
    }

    fn backend(&self) -> &'static dyn Backend {
        self.backend
    }

    fn unit(&self) -> Option<WorkUnit> {
        let own_files = self.cache.begins_cold();
        Some(WorkUnit {
            params: self.params(),
            own_files,
            only_warmed: false,
            operations: self.files(),
        })
    }

    fn one_client(&self) -> Option<&'static str> {
        None
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        if context.preparing == Preparing::Settling {
            return Ok(());
        }
        let set = context.set();
        fileset::make_anew(&set)?;
        self.make(&set, 0)?;
        if context.preparing == Preparing::All {
            fileset::sync(&set)
        } else {
            Ok(())
        }
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        // The paths are not those of a set.
        let layout = Layout {
            files: 0,
            file_size: 0,
            files_per_directory: 1,
        };
        let set = OpenFileSet::open(context.backend(self.backend), context, layout)?;
        let threads = LookupThreads {
            job: self,
            set: &set,
            context,
            paths: TreePaths::new(self),
        };
        let subject = Subject {
            content: Content::Directories,
            ..Subject::NAMES
        };
        Ok(measure_set(&threads, &set, subject, &self.profile(), context, gate)?.0)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

/// The paths of all files, written out before the clock starts.
struct TreePaths {
    bytes: Vec<u8>,
    stride: usize,
}

impl TreePaths {
    /// The digits of a file's number to the base of the width are the numbers of its directories
    /// and of the file.
    fn new(job: &LookupJob) -> TreePaths {
        // `d00/` for each directory, `f00` and a NUL.
        let stride = 4 * (job.depth as usize + 1);
        let mut bytes = Vec::with_capacity(job.files() as usize * stride);
        for file in 0..job.files() {
            for level in (1..=job.depth).rev() {
                bytes.extend_from_slice(
                    format!("d{:02}/", file / job.width.pow(level) % job.width).as_bytes(),
                );
            }
            bytes.extend_from_slice(format!("f{:02}\0", file % job.width).as_bytes());
        }
        TreePaths { bytes, stride }
    }

    #[inline]
    fn path(&self, file: u64) -> &CStr {
        let bytes = &self.bytes[file as usize * self.stride..][..self.stride];
        CStr::from_bytes_with_nul(bytes).expect("every path has the length of a stride")
    }
}

struct LookupThreads<'a> {
    job: &'a LookupJob,
    set: &'a OpenFileSet,
    context: &'a Context,
    paths: TreePaths,
}

impl LookupThreads<'_> {
    fn session(&self) -> Result<Box<dyn Session>, EngineError> {
        self.set.backend.session(&SessionSetup::plain(1))
    }

    #[inline]
    fn look_up(&self, session: &mut dyn Session, file: u64) -> Result<(), EngineError> {
        let (root, path) = (&self.set.root, self.paths.path(file));
        let done = match self.job.operation {
            Operation::Stat => self.set.backend.namespace().stat(root, path),
            Operation::Open => session
                .open(root, path, OpenFlags::READ, 0)
                .and_then(|slot| session.close(slot)),
        };
        done.map_err(|errno| self.refused(path, errno))
    }

    #[cold]
    fn refused(&self, path: &CStr, errno: Errno) -> EngineError {
        EngineError::call(
            self.job.operation.name(),
            self.set.path.join(path.to_string_lossy().as_ref()),
            errno,
        )
    }
}

impl ThreadJob for LookupThreads<'_> {
    type ThreadState = (Visits, Box<dyn Session>);
    type Report = ();

    fn set(&self) -> Option<&OpenFileSet> {
        Some(self.set)
    }

    fn init(&self, rank: u32) -> Result<Self::ThreadState, EngineError> {
        let Context {
            operations,
            seed,
            repetition,
            ..
        } = *self.context;
        let mut session = self.session()?;
        // The first thread of each client fills its cache.
        if self.job.cache == CacheState::Warm && rank < self.set.client_count() {
            (0..self.job.files()).try_for_each(|file| self.look_up(&mut *session, file))?;
        }
        Ok((self.job.visits(operations, rank, seed, repetition), session))
    }

    fn run(
        &self,
        (visits, session): &mut Self::ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.start();
        for file in visits {
            self.look_up(&mut **session, file)?;
            if !recorder.lap(OperationKind::Stat, 0) {
                break;
            }
        }
        Ok(())
    }

    fn report(&self, _state: Self::ThreadState) {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::workload::parse;
    use crate::workload::testing::{Pairs, SIZING, run_once, with};

    fn small(more: Pairs<'_>) -> fsb_model::WorkloadSpec {
        let pairs: [(&str, serde_json::Value); 3] = [
            ("depth", 3.into()),
            ("width", 4.into()),
            ("threads", 2.into()),
        ];
        with(NAME, &[&pairs, more].concat())
    }

    #[test]
    fn paths_are_those_of_the_files_that_are_made() {
        let root = tempfile::tempdir().unwrap();
        let profile = parse(&small(&[]), &SIZING).unwrap().profile();
        assert_eq!((profile.operations, profile.inodes), (256, 256 + 84 + 1));
        for (operation, paths) in [
            ("stat", "all"),
            ("open", "all"),
            ("stat", "own"),
            ("open", "one"),
        ] {
            let spec = small(&[("operation", operation.into()), ("paths", paths.into())]);
            assert_eq!(
                run_once(&spec, root.path(), |_| {}).unwrap().operations,
                256,
                "{operation} {paths}"
            );
        }
        let found = fileset::count_entries(&root.path().join("fsb-set"), 256).unwrap();
        assert_eq!((found.files, found.directories), (256, 84));
    }

    #[test]
    fn threads_look_up_all_files_or_their_own_or_one() {
        let parsed = |paths| {
            let params = small(&[("paths", Paths::name(paths).into())]).params;
            LookupJob::parse(&params, &SIZING).unwrap()
        };
        let visited =
            |job: &LookupJob, rank| job.visits(512, rank, 42, 0).collect::<BTreeSet<u64>>();
        let all = parsed(Paths::All);
        assert_eq!(
            (visited(&all, 0), visited(&all, 1)),
            ((0..128).collect(), (128..256).collect())
        );
        let own = parsed(Paths::Own);
        assert_eq!(
            (visited(&own, 0), visited(&own, 1)),
            ([0].into(), [128].into())
        );
        let one = parsed(Paths::One);
        assert_eq!(
            (visited(&one, 0), visited(&one, 1)),
            ([0].into(), [0].into())
        );
        assert_eq!(one.visits(512, 1, 42, 0).count(), 256);
    }

    #[test]
    fn a_path_that_is_looked_up_again_is_never_cold() {
        let error = parse(
            &small(&[("paths", "own".into()), ("cache", "cold".into())]),
            &SIZING,
        )
        .err()
        .unwrap();
        assert_eq!(error.key.as_deref(), Some("cache"));
        let error = parse(
            &small(&[("paths", "one".into()), ("access", "random".into())]),
            &SIZING,
        )
        .err()
        .unwrap();
        assert_eq!(error.key.as_deref(), Some("access"));
    }
}
