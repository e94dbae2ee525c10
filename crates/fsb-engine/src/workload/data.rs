//! The parameter `data` of every workload that fills files: the shares of their content that
//! compression and deduplication save.

use fsb_model::Params;

use super::job::{Job, WorkUnit, Workload};
use crate::backend::Backend;
use crate::data::Mixture;
use crate::error::{EngineError, ParamError};
use crate::profile::Profile;
use crate::task::{Context, Gate, Measurement, Sizing};

const KEY: &str = "data";

/// Returns the job of these parameters, with the data that they ask for.
pub(super) fn parse(
    workload: &dyn Workload,
    params: &Params,
    sizing: &Sizing,
) -> Result<Box<dyn Job>, ParamError> {
    let Some(asked) = params.get(KEY) else {
        return workload.parse(params, sizing);
    };
    let refused = |message: &str| ParamError {
        workload: workload.name().to_owned(),
        key: Some(KEY.to_owned()),
        message: format!("{KEY}: {message}"),
    };
    let mixture = Mixture::parse(asked).map_err(|message| refused(&message))?;
    let mut others = params.clone();
    others.remove(KEY);
    let job = workload.parse(&others, sizing)?;
    if mixture == Mixture::default() {
        return Ok(job);
    }
    match job.own_data() {
        Some(why) => Err(refused(why)),
        None => Ok(Box::new(WithData {
            job,
            mixture,
            has_own_label: params.contains_key("label"),
        })),
    }
}

/// A job whose files hold data of another mixture.
struct WithData {
    job: Box<dyn Job>,
    mixture: Mixture,
    has_own_label: bool,
}

impl WithData {
    fn context(&self, context: &Context) -> Context {
        Context {
            mixture: self.mixture,
            ..context.clone()
        }
    }

    fn with(&self, mut params: Params) -> Params {
        params.extend(self.mixture.param().map(|param| (KEY.to_owned(), param)));
        params
    }
}

impl Job for WithData {
    fn profile(&self) -> Profile {
        let mut profile = self.job.profile();
        if !self.has_own_label {
            profile.label += &self.mixture.label();
        }
        profile.device_share = self.mixture.least_share();
        profile
    }

    fn params(&self) -> Params {
        self.with(self.job.params())
    }

    fn backend(&self) -> &'static dyn Backend {
        self.job.backend()
    }

    fn own_data(&self) -> Option<&'static str> {
        self.job.own_data()
    }

    fn unit(&self) -> Option<WorkUnit> {
        let unit = self.job.unit()?;
        Some(WorkUnit {
            params: self.with(unit.params),
            ..unit
        })
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.job.prepare(&self.context(context))
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        self.job.measure(&self.context(context), gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        self.job.cleanup(&self.context(context))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use fsb_model::WorkloadSpec;
    use serde_json::json;

    use super::super::testing::{Open, SIZING, task};
    use super::super::{REGISTRY, parse};
    use crate::task::Step;
    use crate::worker;

    /// Returns the share of all files below a directory that compression saves, in per cent, and
    /// their bytes. Allocated but unwritten sectors are not counted.
    fn saved(root: &std::path::Path) -> (f64, u64) {
        let (mut bytes, mut left, mut directories) = (0, 0, vec![root.to_owned()]);
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    directories.push(entry.path());
                } else {
                    // As file systems do: file by file.
                    let mut encoder = flate2::write::DeflateEncoder::new(
                        Vec::new(),
                        flate2::Compression::default(),
                    );
                    let content = std::fs::read(entry.path()).unwrap();
                    for sector in content
                        .chunks(512)
                        .filter(|sector| sector.iter().any(|byte| *byte != 0))
                    {
                        bytes += sector.len() as u64;
                        encoder.write_all(sector).unwrap();
                    }
                    left += encoder.finish().unwrap().len();
                }
            }
        }
        (100.0 - 100.0 * left as f64 / bytes.max(1) as f64, bytes)
    }

    #[test]
    fn every_workload_fills_files_as_asked_for_or_says_why_not() {
        let (mut filled, mut refused) = (0, 0);
        for workload in REGISTRY {
            let mut params = workload.example();
            params.insert("data".to_owned(), json!({"compressible": "60%"}));
            let spec = WorkloadSpec::new(workload.name(), params);
            let job = match parse(&spec, &SIZING) {
                Ok(job) => job,
                Err(error) => {
                    assert!(error.to_string().contains("data: "), "{error}");
                    refused += 1;
                    continue;
                }
            };
            assert_eq!(job.params()["data"], json!({"compressible": "60%"}));
            let again = parse(&WorkloadSpec::new(workload.name(), job.params()), &SIZING).unwrap();
            assert_eq!(again.params(), job.params());
            assert!(
                job.profile().label.contains("60% compressible"),
                "{}",
                job.profile().label
            );
            if let Some(unit) = job.unit() {
                assert!(unit.params.contains_key("data"), "{}", workload.name());
            }
            let directory = tempfile::tempdir().unwrap();
            let mut seen = 0;
            for step in [Step::Prepare, Step::Measure] {
                let task = task(step, &spec, directory.path(), job.profile().operations);
                match worker::perform(&task, &mut Open::default()) {
                    Err(error) if error.inapplicable => break,
                    performed => drop(performed.unwrap()),
                }
                let (share, bytes) = saved(directory.path());
                // In small sets, names and headers of the compressed stream are a large part.
                if bytes > 16 << 10 {
                    assert!(
                        (share - 60.0).abs() < 7.0,
                        "{}: {share:.1} % of {bytes}",
                        workload.name()
                    );
                    seen += 1;
                }
            }
            filled += usize::from(seen > 0);
        }
        assert!(
            filled > 15 && refused > 0,
            "{filled} filled files, {refused} refused"
        );
    }

    #[test]
    fn a_share_of_zero_is_the_same_cell() {
        let spec = |data: serde_json::Value| {
            let params = serde_json::from_value(json!({"file_size": "1M", "data": data})).unwrap();
            parse(&WorkloadSpec::new("write", params), &SIZING)
        };
        assert!(
            !spec(json!({"compressible": "0%"}))
                .unwrap()
                .params()
                .contains_key("data")
        );
        let label = spec(json!({"compressible": 50, "duplicate": "10%"}))
            .unwrap()
            .profile()
            .label;
        assert!(
            label.ends_with(", 50% compressible, 10% duplicates"),
            "{label}"
        );
        let error = spec(json!({"compressible": "160%"}))
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("not a share from"), "{error}");
        let own = json!({"file_size": "1M", "label": "mine", "data": {"duplicate": 10}});
        let own = parse(
            &WorkloadSpec::new("write", serde_json::from_value(own).unwrap()),
            &SIZING,
        )
        .unwrap();
        assert_eq!(own.profile().label, "mine");
    }
}
