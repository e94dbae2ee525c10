//! Suites: plans without targets, embedded.
//!
//! A new suite is one TOML file and one line in [`REGISTRY`].

use fsb_model::nearest;

use crate::plan_file::{self, PlanError, PlanFile};

/// A named list of workloads.
#[derive(Debug)]
pub struct Suite {
    /// What `--suite` takes.
    pub name: &'static str,
    /// One line for `fsb list suites`.
    pub about: &'static str,
    text: &'static str,
}

/// Every suite; the first one is the default.
pub static REGISTRY: &[Suite] = &[
    Suite {
        name: "quick",
        about: "One large file, a log and a set of small files: twelve workloads, an answer in minutes.",
        text: include_str!("quick.toml"),
    },
    Suite {
        name: "fsbench",
        about: "The nine micro-benchmarks of Pokorný 2023, beside the published results.",
        text: include_str!("fsbench.toml"),
    },
];

/// The suite of that name as a plan without targets.
pub fn find(name: &str) -> Result<PlanFile, PlanError> {
    let suite = REGISTRY
        .iter()
        .find(|suite| suite.name == name)
        .ok_or_else(|| PlanError::Request(nearest::unknown("suite", name, REGISTRY.iter().map(|suite| suite.name))))?;
    plan_file::parse(suite.text, &format!("suite {}", suite.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsb_engine::{Sizing, workload};
    use std::collections::BTreeSet;

    #[test]
    fn every_suite_is_a_plan_whose_workloads_exist_at_every_image_size() {
        let mut names = BTreeSet::new();
        for suite in REGISTRY {
            assert!(names.insert(suite.name) && !suite.about.contains('\n'), "{}", suite.name);
            let plan = find(suite.name).unwrap_or_else(|error| panic!("{}: {error}", suite.name));
            for size in [64 << 20, 2 << 30, 1 << 40] {
                let mut labels = BTreeSet::new();
                for spec in &plan.workloads {
                    let job = workload::parse(spec, &Sizing { size, cpus: 2 })
                        .unwrap_or_else(|error| panic!("{} at {size}: {error}", suite.name));
                    assert!(labels.insert(job.profile().label), "{}: a label twice", suite.name);
                }
                assert!(!labels.is_empty());
            }
        }
    }

    #[test]
    fn a_machine_with_one_processor_makes_the_workload_of_all_threads_once() {
        let target = PlanFile { targets: vec![plan_file::typed("null")], ..PlanFile::default() };
        let labels = |cpus| target.clone().resolve(cpus, 1).unwrap().1.len();
        assert_eq!((labels(1), labels(2)), (11, 12));
    }

    #[test]
    fn a_misspelt_suite_is_told_its_neighbour() {
        assert!(find("quik").unwrap_err().to_string().contains("did you mean 'quick'"));
    }
}
