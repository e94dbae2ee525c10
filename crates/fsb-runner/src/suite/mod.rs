//! Suites: plans without targets, embedded.
//!
//! A new suite is one TOML file and one line in [`REGISTRY`].

use fsb_model::nearest;

use crate::plan_file::{self, PlanError, PlanFile};

/// A named list of workloads.
#[derive(Debug)]
pub struct Suite {
    /// The name for `--suite`.
    pub name: &'static str,
    /// One line for `fsb list suites`.
    pub about: &'static str,
    /// The role of a machine whose work it resembles: `mail server`. Absent if it models no role.
    pub machine: Option<&'static str>,
    text: &'static str,
}

/// Every suite; the first one is the default.
pub static REGISTRY: &[Suite] = &[
    Suite {
        name: "quick",
        about: "One large file, a log and a set of small files: twelve workloads, an answer in minutes.",
        machine: None,
        text: include_str!("quick.toml"),
    },
    Suite {
        name: "fsbench",
        about: "The nine micro-benchmarks of Pokorný 2023, beside the published results.",
        machine: None,
        text: include_str!("fsbench.toml"),
    },
    Suite {
        name: "iozone",
        about: "IOzone's thirteen operations in the page cache: files of 64 KiB to 512 MiB, records of 4 KiB to 16 MiB.",
        machine: None,
        text: include_str!("iozone.toml"),
    },
    Suite {
        name: "iozone-direct",
        about: "IOzone's operations 0 to 5 past the page cache (O_DIRECT), on the same matrix of sizes.",
        machine: None,
        text: include_str!("iozone-direct.toml"),
    },
    Suite {
        name: "incache",
        about: "IOzone's thirteen operations in memory, verified before and after: files of 4 KiB to 4 GiB.",
        machine: None,
        text: include_str!("incache.toml"),
    },
    Suite {
        name: "outofcache",
        about: "The same on files of 512 MiB to 2 GiB where 512 MiB of memory may cache them, verified by the device.",
        machine: None,
        text: include_str!("outofcache.toml"),
    },
    Suite {
        name: "directio",
        about: "IOzone's operations 0 to 5 with O_DIRECT, verified to leave nothing in memory: files of 64 KiB to 4 GiB.",
        machine: None,
        text: include_str!("directio.toml"),
    },
    Suite {
        name: "horvath-2006",
        about: "IOzone's thirteen operations on 4 GiB in records of 128 KiB, as Horváth 2006; less on small machines.",
        machine: None,
        text: include_str!("horvath-2006.toml"),
    },
    Suite {
        name: "postmark",
        about: "A mail server's day as PostMark has it: 50,000 transactions on 2,000 files, alone and by four workers.",
        machine: None,
        text: include_str!("postmark.toml"),
    },
    Suite {
        name: "dordevic",
        about: "The three tests of Đorđević et al. with PostMark: small, tiny and larger files, 50,000 transactions each.",
        machine: None,
        text: include_str!("dordevic.toml"),
    },
    Suite {
        name: "benas-postmark",
        about: "PostMark as Beňas 2011: 131,072 files of 8 to 16 KiB, four transactions a file, all of them reads.",
        machine: None,
        text: include_str!("benas-postmark.toml"),
    },
    Suite {
        name: "containers",
        about: "What containers ask of layers: lookups, the first write to a file, removals, an image unpacked.",
        machine: None,
        text: include_str!("containers.toml"),
    },
    Suite {
        name: "filetree",
        about: "Trees of files copied into the target, within it in three ways, and deleted; durable at the end.",
        machine: None,
        text: include_str!("filetree.toml"),
    },
    Suite {
        name: "fedorchuk",
        about: "Copying and deleting the file sets of Fedorchuk 2008: 16 songs, a tree of packages, a film, an image.",
        machine: None,
        text: include_str!("fedorchuk.toml"),
    },
    Suite {
        name: "fileserver",
        about: "filebench's file server: 50 threads create, append to, read, delete and stat 10,000 files of 128 KiB.",
        machine: Some("file server"),
        text: include_str!("fileserver.toml"),
    },
    Suite {
        name: "webserver",
        about: "filebench's web server: 100 threads read pages of 16 KiB and append to one log.",
        machine: Some("web server"),
        text: include_str!("webserver.toml"),
    },
    Suite {
        name: "webproxy",
        about: "filebench's web proxy: 100 threads replace and read objects of 16 KiB in one directory.",
        machine: Some("web proxy"),
        text: include_str!("webproxy.toml"),
    },
    Suite {
        name: "varmail",
        about: "filebench's mail server: 16 threads receive, read, mark and delete mails, with fsync.",
        machine: Some("mail server"),
        text: include_str!("varmail.toml"),
    },
    Suite {
        name: "oltp",
        about: "filebench's database: 200 readers, ten writers and a log, tied by semaphores, O_SYNC.",
        machine: Some("database"),
        text: include_str!("oltp.toml"),
    },
    Suite {
        name: "videoserver",
        about: "filebench's video server: 48 viewers at 96 MiB/s and without a limit, and films that are replaced.",
        machine: Some("video server"),
        text: include_str!("videoserver.toml"),
    },
    Suite {
        name: "scaling",
        about: "Creating, deleting, appending, random reads and writes, a mail server: over threads and requests under way.",
        machine: None,
        text: include_str!("scaling.toml"),
    },
    Suite {
        name: "fxmark",
        about: "FxMark's tests of the scalability of data and metadata (Min et al. 2016): 15 of 19 and 4 of 6 beside a writer, on all processors; not DRBH and MRDM (threads share no block and no directory), DWSL (fdatasync, not fsync) and MWRM (no shared destination).",
        machine: None,
        text: include_str!("fxmark.toml"),
    },
    Suite {
        name: "sustained",
        about: "Each kind of change, held until the journal has been written four times: the steady state.",
        machine: None,
        text: include_str!("sustained.toml"),
    },
    Suite {
        name: "open-loop",
        about: "Random reads and durable writes at fixed rates (open loop): the rate up to which p99 is below 10 ms.",
        machine: None,
        text: include_str!("open-loop.toml"),
    },
    Suite {
        name: "neighbours",
        about: "A durable log, cold reads, creates and stats, alone and beside a neighbour: large writes, many files, tar, log rotation.",
        machine: None,
        text: include_str!("neighbours.toml"),
    },
    Suite {
        name: "untar-build",
        about: "A source tree unpacked, looked at, read and removed: the Andrew benchmark, whole and phase by phase.",
        machine: Some("build machine"),
        text: include_str!("untar-build.toml"),
    },
];

/// Returns the suite of that name as a plan without targets.
pub fn find(name: &str) -> Result<PlanFile, PlanError> {
    let suite = REGISTRY
        .iter()
        .find(|suite| suite.name == name)
        .ok_or_else(|| {
            let shown = nearest::shortened(name);
            if fsb_engine::workload::REGISTRY
                .iter()
                .any(|workload| workload.name() == name)
            {
                let message = format!("unknown suite '{shown}', which is a workload");
                return PlanError::unknown_suite(
                    &message,
                    &format!("run it with --workload {shown}"),
                );
            }
            fn letters(text: &str) -> String {
                text.chars()
                    .filter(char::is_ascii_alphabetic)
                    .collect::<String>()
                    .to_lowercase()
            }
            let of_role = REGISTRY
                .iter()
                .find(|suite: &&Suite| {
                    suite
                        .machine
                        .is_some_and(|machine| letters(machine) == letters(name))
                })
                .map(|suite| suite.name);
            let near =
                of_role.or_else(|| nearest::nearest(name, REGISTRY.iter().map(|suite| suite.name)));
            let near = near.map_or_else(String::new, |near| format!("did you mean '{near}'? "));
            PlanError::unknown_suite(
                &format!("unknown suite '{shown}'"),
                &format!("{near}'fsb list suites' shows all"),
            )
        })?;
    plan_file::parse(suite.text, &format!("suite {}", suite.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_file::Resolved;
    use fsb_model::{Bytes, Cell, Settings};
    use std::collections::BTreeSet;

    #[test]
    fn every_suite_is_a_plan_whose_workloads_exist_at_every_image_size() {
        let mut names = BTreeSet::new();
        for suite in REGISTRY {
            assert!(
                names.insert(suite.name) && !suite.about.contains('\n'),
                "{}",
                suite.name
            );
            let plan = find(suite.name).unwrap_or_else(|error| panic!("{}: {error}", suite.name));
            assert!(!plan.workloads.is_empty(), "{}", suite.name);
            for size in [64 << 20, 2 << 30, 1 << 40] {
                // Resolving refuses two cells of one name.
                assert!(!cells(suite.name, Some(size), 2).is_empty());
            }
        }
    }

    #[test]
    fn each_kind_of_machine_has_one_suite() {
        let machines: Vec<&str> = REGISTRY.iter().filter_map(|suite| suite.machine).collect();
        assert_eq!(
            machines.iter().collect::<BTreeSet<_>>().len(),
            machines.len(),
            "{machines:?}"
        );
        for asked in ["mail server", "database", "build machine"] {
            assert!(machines.contains(&asked), "{asked}");
        }
    }

    #[test]
    fn works_that_measured_reiserfs_have_it_where_there_is_a_kernel_with_it() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
        for name in ["horvath", "dordevic", "fedorchuk"] {
            let text =
                std::fs::read_to_string(directory.join(name).with_extension("toml")).unwrap();
            let plan = plan_file::parse(&text, name)
                .unwrap()
                .resolve(2, 1)
                .unwrap()
                .plan;
            let is_reiserfs = |target: &&fsb_model::Target| {
                target
                    .file_system()
                    .is_some_and(|spec| spec.fs == "reiserfs")
            };
            let reiserfs: Vec<_> = plan.targets.iter().filter(is_reiserfs).collect();
            assert!(!reiserfs.is_empty(), "{name}");
            // On this machine the others are measured all the same.
            let optional = reiserfs.iter().all(|target| target.optional);
            assert!(plan.place == fsb_model::Place::Vm || optional, "{name}");
        }
    }

    fn of_suite(name: &str) -> Settings {
        Settings::default().with_text("suite", name)
    }

    fn cells(suite: &str, size: Option<u64>, cpus: u32) -> Vec<Cell> {
        let plan = PlanFile {
            targets: vec![plan_file::typed("null")],
            settings: match size {
                Some(size) => of_suite(suite).with_number("size", size),
                None => of_suite(suite),
            },
            ..PlanFile::default()
        };
        plan.resolve(cpus, 1)
            .unwrap_or_else(|error| panic!("{suite}: {error}"))
            .work
            .cells()
    }

    #[test]
    fn the_matrices_are_those_of_iozone() {
        let all = cells("iozone", None, 2);
        assert_eq!(all.len(), 13 * 126);
        assert_eq!(all[0].label, "write 4K, 64K file");
        assert_eq!(all.last().unwrap().label, "freread 16M, 512M file, warm");
        let direct = cells("iozone-direct", None, 2);
        assert_eq!(direct.len(), 9 * 126);
        assert!(
            direct
                .iter()
                .all(|cell| cell.workload.params["backend"] == "direct")
        );
    }

    /// Each regime holds at every scale: files that must not fit in memory do not, and the records
    /// stay.
    #[test]
    fn the_regimes_of_2011_keep_their_ratios_at_every_scale() {
        let resolved = |suite: &str, scale: &str| {
            let plan = PlanFile {
                targets: vec![plan_file::typed("null")],
                settings: of_suite(suite).with_text("scale", scale),
                ..PlanFile::default()
            };
            let Resolved { plan, work, .. } = plan
                .resolve(2, 1)
                .unwrap_or_else(|error| panic!("{suite}: {error}"));
            (plan, work.cells())
        };
        let sizes = |cells: &[Cell], key: &str| -> BTreeSet<u64> {
            cells
                .iter()
                .map(|cell| cell.workload.params[key].as_u64().unwrap())
                .collect()
        };
        let (full, cells) = resolved("outofcache", "1");
        assert_eq!(
            (full.controls["memory-limit"].as_str(), full.size),
            ("512M", Bytes(6 << 30))
        );
        // Three sizes of files, nine of records, thirteen operations.
        assert_eq!(cells.len(), 3 * 9 * 13);
        assert_eq!(
            sizes(&cells, "file_size"),
            [512 << 20, 1 << 30, 2 << 30].into()
        );
        let (eighth, small) = resolved("outofcache", "1/8");
        assert_eq!(
            (eighth.controls["memory-limit"].as_str(), eighth.size),
            ("64M", Bytes(768 << 20))
        );
        assert_eq!((eighth.scale, small.len()), (0.125, cells.len()));
        assert_eq!(
            sizes(&small, "file_size"),
            [64 << 20, 128 << 20, 256 << 20].into()
        );
        assert_eq!(sizes(&small, "block_size"), sizes(&cells, "block_size"));
        let out = |cell: &&Cell| cell.workload.params["cache"] == "out";
        assert_eq!(
            small.iter().filter(out).count(),
            3 * 9 * 12,
            "all but the record that is rewritten in place"
        );

        let (_, cells) = resolved("incache", "1");
        assert!(
            cells
                .iter()
                .all(|cell| cell.workload.params["cache"] == "warm")
        );
        assert_eq!(sizes(&cells, "file_size").first(), Some(&4096));
        let (_, cells) = resolved("directio", "1/4");
        assert!(
            cells
                .iter()
                .all(|cell| cell.workload.params["backend"] == "direct")
        );
        assert_eq!(sizes(&cells, "file_size").last(), Some(&(1 << 30)));
    }

    #[test]
    fn files_that_fit_memory_are_not_out_of_cache() {
        let resolve = |controls: &[(&str, &str)]| {
            let plan = PlanFile {
                targets: vec![plan_file::typed("null")],
                settings: of_suite("outofcache"),
                controls: controls
                    .iter()
                    .map(|(name, value)| (name.to_string(), value.to_string()))
                    .collect(),
                ..PlanFile::default()
            };
            plan.resolve(2, 1)
                .map(|Resolved { plan, .. }| plan.controls["memory-limit"].clone())
        };
        assert_eq!(
            resolve(&[("memory-limit", "256M:cgroup")]).as_deref(),
            Ok("256M:cgroup")
        );
        let error = resolve(&[("memory-limit", "1G")]).unwrap_err().to_string();
        assert!(
            error.contains("on null: 512 MiB of files fit the memory limit of 1.00 GiB"),
            "{error}"
        );
        let error = resolve(&[("memory-limit", "30M")]).unwrap_err().to_string();
        assert!(
            error.contains("records of 16.0 MiB at once need a memory limit of twice as much"),
            "{error}"
        );
        let error = resolve(&[("memory-limit", "keep")])
            .unwrap_err()
            .to_string();
        assert!(error.contains("no memory-limit is set"), "{error}");
    }

    /// The plans that are shipped are plans: with two processors, at full size and smaller.
    #[test]
    fn every_plan_that_is_shipped_resolves() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
        let mut seen = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            for (scale, divisor) in [("1", 1), ("1/8", 8)] {
                let mut plan = plan_file::parse(&text, &path.display().to_string()).unwrap();
                plan.settings = plan.settings.with_text("scale", scale);
                // Files that are larger than the memory of a guest stay larger if the user scales
                // both.
                if let Some(memory) = plan.settings.number("memory") {
                    plan.settings = plan.settings.with_number("memory", memory / divisor);
                }
                let Resolved { plan, work, .. } =
                    plan.resolve(2, 1).unwrap_or_else(|error| panic!("{error}"));
                assert!(!work.cells.is_empty());
                let printed = plan_file::print(&plan).unwrap();
                let again = plan_file::parse(&printed, "printed")
                    .unwrap()
                    .resolve(2, 1)
                    .unwrap()
                    .plan;
                assert_eq!(again, plan, "{printed}");
            }
            seen += 1;
        }
        assert!(seen >= 6, "{seen} plans");
    }

    #[test]
    fn the_file_of_2006_has_its_size_and_fits_the_image() {
        let plan = PlanFile {
            targets: vec![plan_file::typed("null")],
            settings: of_suite("horvath-2006"),
            ..PlanFile::default()
        };
        let Resolved { plan, work, .. } = plan.resolve(2, 1).unwrap();
        let cells = work.cells();
        assert_eq!((cells.len(), plan.size), (13, Bytes(8 << 30)));
        for cell in &cells {
            let file = cell.workload.params["file_size"].as_u64().unwrap();
            assert!(file <= 4 << 30 && file > 64 << 20, "{}", cell.label);
            assert_eq!(cell.workload.params["block_size"], 128 << 10);
        }
    }

    #[test]
    fn the_plan_of_2006_is_its_suite_with_repeated_reads_out_of_cache() {
        let text =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/plans/horvath.toml"))
                .unwrap();
        let plan = plan_file::parse(&text, "horvath")
            .unwrap()
            .resolve(2, 1)
            .unwrap();
        let suite = find("horvath-2006").unwrap().workloads;
        assert_eq!(plan.plan.workloads.len(), suite.len());
        for (planned, known) in plan
            .work
            .cells()
            .iter()
            .map(|cell| &cell.workload)
            .zip(&suite)
        {
            let is_again = ["reread", "freread"].contains(&known.name.as_str());
            let cache = if is_again {
                &"out".into()
            } else {
                &known.params.get("cache").cloned().unwrap_or("any".into())
            };
            assert_eq!(
                (&planned.name, &planned.params["cache"]),
                (&known.name, cache)
            );
            let durability = known
                .params
                .get("durability")
                .cloned()
                .unwrap_or("none".into());
            assert_eq!(planned.params["durability"], durability, "{}", known.name);
            assert!(
                planned.params["file_size"].as_u64().unwrap() > plan.plan.vm.unwrap().memory.0,
                "{}",
                known.name
            );
        }
    }

    #[test]
    fn a_machine_with_one_processor_makes_the_workload_of_all_threads_once() {
        let count = |cpus| cells("quick", None, cpus).len();
        assert_eq!((count(1), count(2)), (11, 12));
    }

    #[test]
    fn a_misspelt_suite_is_told_its_neighbour() {
        assert!(
            find("quik")
                .unwrap_err()
                .to_string()
                .contains("did you mean 'quick'")
        );
    }
}
