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
    Suite {
        name: "iozone",
        about: "IOzone's thirteen operations in the page cache: files of 64 KiB to 512 MiB, records of 4 KiB to 16 MiB.",
        text: include_str!("iozone.toml"),
    },
    Suite {
        name: "iozone-direct",
        about: "IOzone's operations 0 to 5 past the page cache (O_DIRECT), on the same matrix of sizes.",
        text: include_str!("iozone-direct.toml"),
    },
    Suite {
        name: "horvath-2006",
        about: "IOzone's thirteen operations on 4 GiB in records of 128 KiB, as Horváth 2006; less on small machines.",
        text: include_str!("horvath-2006.toml"),
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
    use fsb_model::{Bytes, Cell};
    use std::collections::BTreeSet;

    #[test]
    fn every_suite_is_a_plan_whose_workloads_exist_at_every_image_size() {
        let mut names = BTreeSet::new();
        for suite in REGISTRY {
            assert!(names.insert(suite.name) && !suite.about.contains('\n'), "{}", suite.name);
            let plan = find(suite.name).unwrap_or_else(|error| panic!("{}: {error}", suite.name));
            assert!(!plan.workloads.is_empty(), "{}", suite.name);
            for size in [64 << 20, 2 << 30, 1 << 40] {
                // Resolving refuses two cells of one name.
                assert!(!cells(suite.name, Some(size), 2).is_empty());
            }
        }
    }

    fn cells(suite: &str, size: Option<u64>, cpus: u32) -> Vec<Cell> {
        let plan = PlanFile {
            targets: vec![plan_file::typed("null")],
            suite: Some(suite.to_owned()),
            size: size.map(Bytes),
            ..PlanFile::default()
        };
        plan.resolve(cpus, 1).unwrap_or_else(|error| panic!("{suite}: {error}")).1
    }

    #[test]
    fn the_matrices_are_those_of_iozone() {
        let all = cells("iozone", None, 2);
        assert_eq!(all.len(), 13 * 126);
        assert_eq!(all[0].label, "write 4K, 64K file");
        assert_eq!(all.last().unwrap().label, "freread 16M, 512M file, warm");
        let direct = cells("iozone-direct", None, 2);
        assert_eq!(direct.len(), 9 * 126);
        assert!(direct.iter().all(|cell| cell.workload.params["backend"] == "direct"));
    }

    #[test]
    fn the_file_of_2006_is_no_larger_than_it_was_and_fits_its_image() {
        let plan = PlanFile {
            targets: vec![plan_file::typed("null")],
            suite: Some("horvath-2006".to_owned()),
            ..PlanFile::default()
        };
        let (plan, cells) = plan.resolve(2, 1).unwrap();
        assert_eq!((cells.len(), plan.size), (13, Bytes(5 << 30)));
        for cell in &cells {
            let file = cell.workload.params["file_size"].as_u64().unwrap();
            assert!(file <= 4 << 30 && file > 64 << 20, "{}", cell.label);
            assert_eq!(cell.workload.params["block_size"], 128 << 10);
        }
    }

    #[test]
    fn a_machine_with_one_processor_makes_the_workload_of_all_threads_once() {
        let count = |cpus| cells("quick", None, cpus).len();
        assert_eq!((count(1), count(2)), (11, 12));
    }

    #[test]
    fn a_misspelt_suite_is_told_its_neighbour() {
        assert!(find("quik").unwrap_err().to_string().contains("did you mean 'quick'"));
    }
}
