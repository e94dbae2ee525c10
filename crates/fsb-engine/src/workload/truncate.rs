//! Making files shorter or longer, a record with each ftruncate.

use fsb_model::metric::OPERATION_RATE;
use fsb_model::{Access, Params};

use super::job::{Job, WorkUnit, Workload};
use super::measure::{ItemThreads, Subject, measure_set};
use super::parameter::{Parameter, ParameterGroup, group};
use super::params::{self, Reader};
use super::spec::{self, Change, Records, Rules, Spec};
use crate::backend::{Backend, Purpose, Verb};
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, Content, Interest};
use crate::io_loop::IoLoop;
use crate::profile::Profile;
use crate::task::{Context, Gate, Measurement, Sizing};

const RULES: Rules = Rules {
    name: "truncate",
    files: "1",
    file_size: "min(size/64, 64M)",
    block_size: Some("4K"),
    records: Records::Each,
    // Each call takes the end of the file that the one before it left.
    access: &[Access::Sequential],
    // Those whose sessions make the call on the file itself; the default first.
    backends: &["psync", "direct", "osync", "dsync"],
    ..Rules::BASE
};

/// The direction in which the end of a file moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// From the whole file down to nothing.
    Shrink,
    /// From an empty file up to the whole size, without data.
    Grow,
}

impl Mode {
    const ALL: [Mode; 2] = [Mode::Shrink, Mode::Grow];

    fn name(self) -> &'static str {
        match self {
            Mode::Shrink => "shrink",
            Mode::Grow => "grow",
        }
    }
}

/// The member.
pub(super) struct Truncate;

impl Workload for Truncate {
    fn name(&self) -> &'static str {
        RULES.name
    }

    fn about(&self) -> &'static str {
        "ftruncate, a call a record: make files shorter, or longer without data (mode)"
    }

    fn example(&self) -> Params {
        params::from_pairs([
            ("file_size", "64K".into()),
            ("block_size", "4K".into()),
            ("durability", "end".into()),
        ])
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut all = RULES.parameters();
        let about = "whether each call cuts a record off the end of a file, or adds one";
        all.extend(group(
            ParameterGroup::Work,
            [Parameter::word("mode", &Mode::ALL, Mode::name, about)],
        ));
        all
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(TruncateJob::parse(params, sizing)?))
    }
}

struct TruncateJob {
    spec: Spec,
    mode: Mode,
}

impl TruncateJob {
    fn parse(params: &Params, sizing: &Sizing) -> Result<TruncateJob, ParamError> {
        let mut reader = Reader::new(RULES.name, Truncate.parameters(), params, sizing)?;
        let spec = Spec::read(RULES, &mut reader)?;
        let mode = reader.word("mode", &Mode::ALL, Mode::name)?;
        let (files, threads) = (spec.layout.files, u64::from(spec.threads));
        if !files.is_multiple_of(threads) {
            let message =
                format!("each thread moves the ends of its own files: use a multiple of {threads}");
            return Err(reader.error("files", message));
        }
        reader.finish();
        Ok(TruncateJob { spec, mode })
    }

    fn content(&self) -> Content {
        if self.mode == Mode::Grow {
            Content::Empty
        } else {
            Content::Full
        }
    }
}

impl Job for TruncateJob {
    fn profile(&self) -> Profile {
        let profile = self.spec.profile(
            RULES.name,
            self.spec
                .data_label(&format!("truncate {}", self.mode.name())),
        );
        Profile {
            record_size: 0,
            primary: &OPERATION_RATE,
            metadata_only: true,
            cold_bytes_per_operation: 0,
            ..profile.consuming()
        }
    }

    fn params(&self) -> Params {
        let mut params = self.spec.params();
        params.insert("mode".to_owned(), self.mode.name().into());
        params
    }

    fn backend(&self) -> &'static dyn Backend {
        self.spec.backend
    }

    fn unit(&self) -> Option<WorkUnit> {
        spec::unit_of_set(self, &self.spec, Change::Nothing, |params| {
            TruncateJob::parse(params, &Sizing { size: 0, cpus: 1 }).ok()
        })
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.spec.prepare(context, self.content())
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let set = self.spec.open_set(context)?;
        let grow = self.mode == Mode::Grow;
        let threads = ItemThreads {
            spec: &self.spec,
            set: &set,
            context,
            purpose: Purpose::Write,
            act: |io: &mut IoLoop<'_>, item| io.truncate(item, grow).map(|()| 0),
        };
        let subject = Subject {
            interest: Interest::Names,
            content: self.content(),
            verb: Some(Verb::Write),
        };
        Ok(measure_set(&threads, &set, subject, &self.profile(), context, gate)?.0)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::WorkloadSpec;

    use crate::workload::parse;
    use crate::workload::testing::{Pairs, SIZING, run_once, with};

    fn small(mode: &str, more: Pairs<'_>) -> WorkloadSpec {
        let pairs: [(&str, serde_json::Value); 3] = [
            ("mode", mode.into()),
            ("file_size", "64K".into()),
            ("block_size", "4K".into()),
        ];
        with("truncate", &[&pairs, more].concat())
    }

    #[test]
    fn files_end_empty_or_whole() {
        let root = tempfile::tempdir().unwrap();
        for (mode, expected) in [("shrink", 0), ("grow", 65_536)] {
            for (files, threads) in [(1, 1), (4, 2)] {
                let spec = small(
                    mode,
                    &[("files", files.into()), ("threads", threads.into())],
                );
                let measured = run_once(&spec, root.path(), |_| {}).unwrap();
                assert_eq!(
                    (measured.operations, measured.bytes),
                    (16 * files, 0),
                    "{mode}"
                );
                for file in 0..files {
                    let path = root.path().join(format!("fsb-set/d00000/f{file:08}"));
                    assert_eq!(std::fs::metadata(path).unwrap().len(), expected, "{mode}");
                }
            }
        }
    }

    #[test]
    fn threads_share_no_file() {
        let error = parse(
            &small("shrink", &[("files", 3.into()), ("threads", 2.into())]),
            &SIZING,
        )
        .err()
        .unwrap();
        assert_eq!(error.key.as_deref(), Some("files"));
        assert!(error.message.contains("use a multiple of 2"), "{error}");
    }
}
