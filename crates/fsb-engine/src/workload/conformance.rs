//! Tests of the requirements on every member of the registry, on every backend.

use std::fs;
use std::path::Path;

use fsb_model::{CacheState, Params, WorkloadSpec};

use super::parameter::{Needs, Parameter, ParameterDefault, ParameterKind};
use super::testing::{Open, Pairs, SIZING, task, with};
use super::*;
use crate::error::EngineError;
use crate::task::{ClockSpec, Gate, Measurement, Ready, Step, StepReport, Task, Units};
use crate::{backend, latency, worker};

/// Runs all three steps. Returns the measurement, and the state that the measure step reported
/// before it.
fn run(
    workload: &WorkloadSpec,
    root: &Path,
    operations: u64,
    change: impl Fn(&mut Task),
) -> Result<(Measurement, Ready), EngineError> {
    let mut gate = Open::default();
    let mut measurement = None;
    for step in [Step::Prepare, Step::Measure, Step::Cleanup] {
        let mut task = task(step, workload, root, operations);
        change(&mut task);
        measurement = worker::perform(&task, &mut gate)?.whole().or(measurement);
    }
    Ok((
        measurement.expect("the measure step measures"),
        gate.0.expect("the gate was asked"),
    ))
}

/// The workloads that the file system of the temporary directory may not support, and those that
/// the agent measures.
const NOT_EVERYWHERE: &[&str] = &[
    "reflink",
    "reflink-range",
    "tmpfile",
    "verity",
    "setxattr",
    "getxattr",
    "listxattr",
    "setfacl",
    "getfacl",
    "fsck",
    "freeze",
    "subvolume",
    "snapshot",
    "snapshot-writable",
    "snapshot-delete",
    "send",
    "send-incremental",
    "shrink",
    "defragment",
    "scrub",
];

fn example(workload: &dyn Workload) -> WorkloadSpec {
    WorkloadSpec::new(workload.name(), workload.example())
}

#[test]
fn members_have_names_of_their_own_and_a_line_about_them() {
    for (index, workload) in REGISTRY.iter().enumerate() {
        let name = workload.name();
        assert!(
            !workload.about().is_empty() && !workload.about().contains('\n'),
            "{name}"
        );
        assert!(
            REGISTRY[..index].iter().all(|other| other.name() != name),
            "{name}"
        );
    }
}

fn requires_a_value(workload: &dyn Workload) -> bool {
    workload
        .parameters()
        .iter()
        .any(|one| matches!(one.default, ParameterDefault::Required(_)))
}

#[test]
fn tables_name_each_parameter_once_with_help() {
    for workload in REGISTRY {
        let (name, table) = (workload.name(), workload.parameters());
        for (index, parameter) in table.iter().enumerate() {
            let Parameter {
                name: key,
                about,
                needs,
                ..
            } = parameter;
            assert!(
                !about.is_empty() && !about.contains('\n') && !parameter.values().is_empty(),
                "{name} {key}"
            );
            assert!(
                table[..index].iter().all(|other| other.name != *key),
                "{name} declares {key} twice"
            );
            let other = needs.map(Needs::parameter);
            assert!(
                other.is_none_or(|other| table.iter().any(|one| one.name == other)),
                "{name} {key} needs {other:?}"
            );
        }
    }
}

#[test]
fn every_default_is_a_value_that_the_parameter_accepts() {
    for workload in REGISTRY {
        let plain = workload.parse(&workload.example(), &SIZING).unwrap();
        for parameter in workload.parameters() {
            let ParameterDefault::Value(text) = &parameter.default else {
                continue;
            };
            let mut params = workload.example();
            if params.contains_key(parameter.name) || parameter.kind == ParameterKind::ExitCodes {
                continue;
            }
            params.insert(parameter.name.to_owned(), text.as_ref().into());
            match workload.parse(&params, &SIZING) {
                Ok(job) => assert_eq!(
                    job.params(),
                    plain.params(),
                    "{} {}",
                    workload.name(),
                    parameter.name
                ),
                Err(error) => assert!(parameter.needs.is_some(), "{error}"),
            }
        }
    }
}

#[test]
fn workloads_that_fill_files_declare_data() {
    for workload in REGISTRY {
        let mut params = workload.example();
        params.insert(
            "data".to_owned(),
            serde_json::json!({"compressible": "60%"}),
        );
        let fills = parse(&WorkloadSpec::new(workload.name(), params), &SIZING).is_ok();
        let declares = workload.parameters().iter().any(|one| one.name == "data");
        assert!(declares || !fills, "{}", workload.name());
        // Files of some examples are empty.
        let example = parse(
            &WorkloadSpec::new(workload.name(), workload.example()),
            &SIZING,
        )
        .unwrap();
        let is_empty = example.profile().file_size == 0;
        assert!(fills || !declares || is_empty, "{}", workload.name());
    }
}

#[test]
fn resolved_parameters_parse_to_themselves() {
    for workload in REGISTRY {
        for params in [workload.example(), Params::new()] {
            let job = match workload.parse(&params, &SIZING) {
                Err(_) if params.is_empty() && requires_a_value(*workload) => continue,
                found => found.unwrap(),
            };
            let resolved = job.params();
            let again = workload
                .parse(&resolved, &Sizing { size: 1, cpus: 1 })
                .unwrap();
            assert_eq!(again.params(), resolved, "{}", workload.name());
            assert_eq!(again.profile().label, job.profile().label);
            assert_eq!(again.profile().operations, job.profile().operations);
        }
    }
}

#[test]
fn unknown_parameters_are_refused_with_the_nearest_name() {
    for workload in REGISTRY {
        let mut params = workload.example();
        params.insert("treads".to_owned(), 1.into());
        let error = workload
            .parse(&params, &SIZING)
            .err()
            .unwrap_or_else(|| panic!("{}", workload.name()));
        assert_eq!(error.key.as_deref(), Some("treads"));
        let expected = match workload
            .parameters()
            .iter()
            .any(|one| one.name == "threads")
        {
            true => "did you mean 'threads'",
            false => "unknown parameter 'treads': known are",
        };
        assert!(error.message.contains(expected), "{error}");
    }
}

#[test]
fn every_example_runs_and_leaves_nothing_behind() {
    for workload in REGISTRY {
        let spec = example(*workload);
        let profile = parse(&spec, &SIZING).unwrap().profile();
        let root = tempfile::tempdir().unwrap();
        let name = workload.name();
        let (measured, ready) = match run(&spec, root.path(), profile.operations, |_| {}) {
            Err(error) if error.inapplicable && NOT_EVERYWHERE.contains(&name) => continue,
            found => found.unwrap(),
        };
        assert_eq!(measured.operations, profile.operations, "{name}");
        assert_eq!(measured.workers.len(), profile.threads as usize, "{name}");
        let histogram = &measured.latency[profile.operation];
        assert_eq!(
            latency::count(histogram),
            Some(profile.operations),
            "{name}"
        );
        assert!(measured.timed_ns > 0, "{name}");
        for worker in &measured.workers {
            assert!(worker.start_ns <= worker.stop_ns, "{name}");
        }
        let held = ready
            .resident_bytes
            .is_some_and(|bytes| bytes == ready.file_bytes && bytes > 0);
        assert!(
            profile.cache != CacheState::Warm || profile.metadata_only || held,
            "{name}: {ready:?}"
        );
        assert_eq!(
            fs::read_dir(root.path()).unwrap().count(),
            0,
            "{name} left something behind"
        );
    }
}

#[test]
fn every_example_runs_on_nothing_and_repeats_to_the_last_digit() {
    for workload in REGISTRY {
        let spec = example(*workload);
        let profile = parse(&spec, &SIZING).unwrap().profile();
        let nowhere = Path::new("/nowhere/at/all");
        let fake = |seed| {
            let change = move |task: &mut Task| {
                task.backend = Some("null".to_owned());
                task.clock = ClockSpec::Fake {
                    seed,
                    slowdown: 1.0,
                    noise: 0.05,
                    sample: 0,
                };
            };
            run(&spec, nowhere, profile.operations, change).unwrap()
        };
        let (first, ready) = fake(1);
        assert_eq!(first.operations, profile.operations, "{}", workload.name());
        assert_eq!((first.clone(), ready), fake(1), "{}", workload.name());
        assert_ne!(first.timed_ns, fake(2).0.timed_ns, "{}", workload.name());
        assert!(first.user_seconds > 0.0 && first.system_seconds > 0.0);
        assert!(!nowhere.exists());
    }
}

#[test]
fn workloads_that_make_any_call_run_on_every_backend_that_makes_all() {
    let root = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let fits: Vec<_> = backend::REGISTRY
        .iter()
        .filter(|backend| backend.capabilities().sequential)
        .map(|one| one.name())
        .collect();
    assert_eq!(fits, ["psync", "osync", "dsync", "null"]);
    for name in ["filetree", "untar-build", "flow", "varmail"] {
        let workload = REGISTRY
            .iter()
            .find(|workload| workload.name() == name)
            .unwrap();
        let whole = parse(&example(*workload), &SIZING).unwrap().profile();
        for backend in &fits {
            let mut spec = example(*workload);
            spec.params.insert("backend".to_owned(), (*backend).into());
            let profile = parse(&spec, &SIZING).unwrap().profile();
            assert_eq!(profile.backend, *backend);
            assert_eq!(
                profile.label == whole.label,
                *backend == "psync",
                "{}",
                profile.label
            );
            let (measured, _) = run(&spec, root.path(), profile.operations, |_| {}).unwrap();
            assert_eq!(measured.operations, profile.operations, "{name} {backend}");
            assert_eq!(
                fs::read_dir(root.path()).unwrap().count(),
                0,
                "{name} left something behind"
            );
        }
        let mut spec = example(*workload);
        spec.params.insert("backend".to_owned(), "mmap".into());
        assert_eq!(
            parse(&spec, &SIZING).err().unwrap().key.as_deref(),
            Some("backend")
        );
    }
}

/// The null backend reports every cache state as reached, although no step established it.
#[test]
fn nothing_is_as_cold_or_warm_as_asked() {
    let nowhere = Path::new("/nowhere");
    for (cache, before) in [("cold", 0), ("warm", 16 * 65_536)] {
        let spec = with(
            "read",
            &[
                ("files", 20.into()),
                ("file_size", "64K".into()),
                ("cache", cache.into()),
            ],
        );
        let operations = parse(&spec, &SIZING).unwrap().profile().operations;
        let (measured, ready) = run(&spec, nowhere, operations, |task| {
            task.backend = Some("null".to_owned())
        })
        .unwrap();
        assert_eq!(
            ready,
            Ready {
                resident_bytes: Some(before),
                file_bytes: 16 * 65_536,
                direct: None
            }
        );
        assert_eq!(measured.resident_after, Some(16 * 65_536));
    }
}

#[test]
fn an_asynchronous_backend_moves_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    for (verb, durability) in [("write", "each"), ("read", "none")] {
        let spec = with(
            verb,
            &[
                ("backend", "skeleton".into()),
                ("cache", "any".into()),
                ("depth", 4.into()),
                ("files", 2.into()),
                ("file_size", "64K".into()),
                ("block_size", "8K".into()),
                ("durability", durability.into()),
                ("access", "random".into()),
            ],
        );
        let (measured, _) = run(&spec, root.path(), 16, |_| {}).unwrap();
        assert_eq!((measured.operations, measured.bytes), (16, 128 << 10));
        assert_eq!(latency::count(&measured.latency[verb]), Some(16));
    }
}

/// Workloads write the same bytes as preparation, whatever the backend, block size, depth and
/// number of threads.
#[test]
fn written_bytes_do_not_depend_on_how_they_were_written() {
    let root = tempfile::tempdir().unwrap();
    let content = |spec: &WorkloadSpec, steps: &[Step]| {
        for &step in steps {
            let operations = parse(spec, &SIZING).unwrap().profile().operations;
            worker::perform(
                &task(step, spec, root.path(), operations),
                &mut Open::default(),
            )
            .unwrap();
        }
        let set = root.path().join("fsb-set/d00000");
        [
            fs::read(set.join("f00000000")).unwrap(),
            fs::read(set.join("f00000001")).unwrap(),
        ]
    };
    // A computed size, because a literal one must be a multiple of a record.
    let shape = [
        ("files", 2.into()),
        ("file_size", "min(40960, size)".into()),
    ];
    let prepared = content(&with("stat", &shape), &[Step::Prepare]);
    assert_ne!(prepared[0], prepared[1]);
    for (backend, block, depth, threads) in [
        ("psync", 4096, 1, 1),
        ("psync", 1000, 1, 3),
        ("skeleton", 8192, 4, 1),
    ] {
        let mut pairs = shape.to_vec();
        pairs.extend([("block_size", block.into()), ("backend", backend.into())]);
        pairs.extend([("depth", depth.into()), ("threads", threads.into())]);
        let written = content(&with("write", &pairs), &[Step::Prepare, Step::Measure]);
        let whole = 40_960 / block * block;
        // If the size is not a multiple of the record, the second file begins elsewhere among the
        // set's addresses.
        let files = if whole == 40_960 { 2 } else { 1 };
        for file in 0..files {
            assert_eq!(
                written[file],
                prepared[file][..whole],
                "{backend}, {block} bytes, file {file}"
            );
        }
    }
}

#[test]
fn amounts_that_a_job_cannot_do_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let micro = example(&micro::MICRO_CREATE);
    let error = run(&micro, root.path(), 1, |_| {}).unwrap_err();
    assert!(
        error
            .message
            .contains("1 operations, but it does 6 or none"),
        "{error}"
    );
    let create = example(&create::CREATE);
    let error = run(&create, root.path(), 13, |_| {}).unwrap_err();
    assert!(
        error
            .message
            .contains("13 operations, but one repetition has 12"),
        "{error}"
    );
}

#[test]
fn cycles_of_a_micro_benchmark_follow_one_another_and_contain_their_iterations() {
    for workload in [
        &micro::MICRO_CREATE,
        &micro::MICRO_READ,
        &micro::MICRO_WRITE,
    ] {
        let (root, spec) = (tempfile::tempdir().unwrap(), example(workload));
        // Three iterations in each of two cycles after one that warms up.
        let (measured, _) = run(&spec, root.path(), 6, |_| {}).unwrap();
        let spans = measured.cycle_spans_ns;
        assert_eq!(
            (spans.len(), measured.samples.len()),
            (3, 2),
            "{}",
            spec.name
        );
        assert!(
            spans.windows(2).all(|pair| pair[0][1] <= pair[1][0]),
            "{spans:?}"
        );
        let threads = spec
            .params
            .get("threads")
            .map_or(1.0, |threads| threads.as_f64().unwrap());
        for ([start, end], sample) in spans[1..].iter().zip(&measured.samples) {
            let timed = 3.0 * sample * 1e9;
            assert!(
                timed > 0.0 && timed <= threads * (end - start) as f64 + 1.0,
                "{spans:?} {sample}"
            );
        }
    }
}

#[test]
fn repetitions_in_place_and_parts_have_the_operations_asked_for() {
    for (name, extra, operations) in [
        ("rename", "any", 31),
        ("move", "any", 31),
        ("chmod", "any", 31),
        ("utimens", "warm", 31),
        ("stat", "warm", 40),
        ("statfs", "warm", 40),
        ("readlink", "warm", 40),
        ("scan", "warm", 7),
        ("scan", "warm", 29),
        ("readdir", "warm", 5),
    ] {
        let spec = with(
            name,
            &[
                ("files", 12.into()),
                ("files_per_directory", 5.into()),
                ("threads", 2.into()),
                ("cache", extra.into()),
            ],
        );
        let root = tempfile::tempdir().unwrap();
        let (measured, _) = run(&spec, root.path(), operations, |_| {}).unwrap();
        assert_eq!(measured.operations, operations, "{name}");
    }
}

#[test]
fn a_time_limit_ends_divisible_work_after_an_operation() {
    let spec = with(
        "read",
        &[("file_size", "1M".into()), ("block_size", "4K".into())],
    );
    let limited = |task: &mut Task| {
        task.until_seconds = Some(1e-4);
        task.clock = ClockSpec::Fake {
            seed: 5,
            slowdown: 1.0,
            noise: 0.05,
            sample: 0,
        };
        task.backend = Some("null".to_owned());
    };
    let (measured, _) = run(&spec, Path::new("/nowhere"), 100_000, limited).unwrap();
    assert!(
        (50..500).contains(&measured.operations),
        "{}",
        measured.operations
    );
    assert!(measured.timed_ns >= 100_000);
}

#[test]
fn a_gate_that_stays_shut_ends_the_step() {
    struct Shut;
    impl Gate for Shut {
        fn ready(&mut self, _: Ready) -> Result<(), EngineError> {
            Err(EngineError::new("not today"))
        }
    }
    let root = tempfile::tempdir().unwrap();
    let spec = example(&read_write::READ);
    worker::perform(
        &task(Step::Prepare, &spec, root.path(), 16),
        &mut Open::default(),
    )
    .unwrap();
    let error =
        worker::perform(&task(Step::Measure, &spec, root.path(), 16), &mut Shut).unwrap_err();
    assert_eq!(error.message, "not today");
}

#[test]
fn a_refused_call_is_reported_with_call_path_and_error() {
    let root = tempfile::tempdir().unwrap();
    let spec = example(&read_write::READ);
    let measure = task(Step::Measure, &spec, root.path(), 16);
    let error = worker::perform(&measure, &mut Open::default()).unwrap_err();
    assert_eq!(error.errno, Some(libc::ENOENT));
    assert!(
        error.message.starts_with("open /") && error.message.ends_with("(ENOENT)"),
        "{error}"
    );
    worker::perform(
        &task(Step::Prepare, &spec, root.path(), 16),
        &mut Open::default(),
    )
    .unwrap();
    let file = root.path().join("fsb-set/d00000/f00000000");
    fs::OpenOptions::new()
        .write(true)
        .open(&file)
        .unwrap()
        .set_len(10_000)
        .unwrap();
    let error = worker::perform(&measure, &mut Open::default()).unwrap_err();
    assert_eq!(error.path.as_deref(), Some(file.as_path()));
    assert!(
        error
            .message
            .contains("1808 bytes came instead of 4096 at offset 8192"),
        "{error}"
    );
}

#[test]
fn a_directory_that_hides_files_fails_the_trial() {
    let root = tempfile::tempdir().unwrap();
    for workload in [&listing::READDIR as &dyn Workload, &listing::SCAN] {
        let spec = example(workload);
        worker::perform(
            &task(Step::Prepare, &spec, root.path(), 3),
            &mut Open::default(),
        )
        .unwrap();
        fs::remove_file(root.path().join("fsb-set/d00001/f00000007")).unwrap();
        let operations = parse(&spec, &SIZING).unwrap().profile().operations;
        let error = worker::perform(
            &task(Step::Measure, &spec, root.path(), operations),
            &mut Open::default(),
        );
        let message = error.unwrap_err().message;
        assert!(
            message.ends_with("d00001: 4 entries came instead of 5"),
            "{message}"
        );
    }
}

#[test]
fn an_unknown_backend_or_workload_gets_the_nearest_name() {
    let root = tempfile::tempdir().unwrap();
    let mut wrong = task(Step::Prepare, &example(&read_write::READ), root.path(), 1);
    wrong.backend = Some("nul".to_owned());
    let error = worker::perform(&wrong, &mut Open::default()).unwrap_err();
    assert!(error.message.contains("did you mean 'null'"), "{error}");
    let error = parse(&with("raed", &[]), &SIZING).err().unwrap();
    assert!(error.message.contains("did you mean 'read'"), "{error}");
}

/// Emptied caches make a large set of names cold again, but not a small one: a mounted file system
/// holds some inodes.
#[test]
fn only_many_names_are_visited_again() {
    for name in ["scan", "stat", "readdir"] {
        let only_warmed = |files: u64| {
            let spec = with(
                name,
                &[
                    ("cache", "cold".into()),
                    ("files", files.into()),
                    ("file_size", 0.into()),
                ],
            );
            parse(&spec, &SIZING)
                .unwrap_or_else(|error| panic!("{name}: {error}"))
                .unit()
                .unwrap()
                .only_warmed
        };
        assert!(only_warmed(1000) && !only_warmed(100), "{name}");
    }
}

/// Two passes restore the names of all files, so units share their files: each unit finds them
/// unchanged.
#[test]
fn renames_go_there_and_back() {
    let unit = |name: &str, threads: u64| {
        let spec = with(
            name,
            &[
                ("files", 40.into()),
                ("file_size", 0.into()),
                ("threads", threads.into()),
            ],
        );
        let unit = parse(&spec, &SIZING)
            .unwrap_or_else(|error| panic!("{error}"))
            .unit()
            .unwrap();
        (WorkloadSpec::new(name, unit.params.clone()), unit)
    };
    for (name, threads) in [("rename", 1), ("rename", 2), ("move", 1), ("move", 2)] {
        let (spec, unit) = unit(name, threads);
        assert_eq!((unit.own_files, unit.operations), (false, 80));
        let root = tempfile::tempdir().unwrap();
        let perform = |step: Step, operations: u64| {
            worker::perform(
                &task(step, &spec, root.path(), operations),
                &mut Open::default(),
            )
            .unwrap()
        };
        let names = || {
            let directories = std::fs::read_dir(root.path().join("fsb-set"))
                .unwrap()
                .flatten();
            let files = directories
                .flat_map(|directory| std::fs::read_dir(directory.path()).unwrap().flatten());
            files
                .map(|file| file.path())
                .collect::<std::collections::BTreeSet<_>>()
        };
        perform(Step::Prepare, 1);
        let before = names();
        assert_eq!(before.len(), 40);
        for units in [1, 3] {
            perform(Step::Measure, units * unit.operations);
            assert_eq!(names(), before, "{name}, {threads} threads, {units} units");
        }
    }
    // Units have their own files if a thread would not do whole passes over its share.
    assert!(unit("rename", 3).1.own_files);
}

/// Runs units of every workload, as in its example and cold. The parameters parse. A unit with its
/// own files finds the state that the workload defines, whatever was done before. A unit that was
/// only warmed can be measured again. Cleanup leaves nothing.
#[test]
fn units_begin_in_the_state_that_the_workload_defines() {
    let (mut with_units, mut only_warmed) = (0, Vec::new());
    for (workload, params) in REGISTRY
        .iter()
        .flat_map(|workload: &&'static dyn Workload| {
            let mut cold = workload.example();
            cold.insert("cache".to_owned(), "cold".into());
            [workload.example(), cold].map(|params| (*workload, params))
        })
    {
        // Not everything can begin cold.
        let Ok(job) = workload.parse(&params, &SIZING) else {
            continue;
        };
        let Some(unit) = job.unit() else { continue };
        with_units += 1;
        let name = workload.name();
        if unit.only_warmed {
            only_warmed.push(name);
        }
        let spec = WorkloadSpec::new(name, unit.params.clone());
        let profile = parse(&spec, &SIZING).unwrap().profile();
        assert!(
            unit.operations <= profile.operations || profile.repeats_in_place,
            "{name}"
        );
        let root = tempfile::tempdir().unwrap();
        let try_step = |step: Step, repetition: u32| {
            let units = unit.own_files.then_some(Units {
                first: repetition,
                count: if step == Step::Prepare { 4 } else { 2 },
            });
            let task = Task {
                repetition,
                units,
                ..task(step, &spec, root.path(), unit.operations)
            };
            worker::perform(&task, &mut Open::default())
        };
        let step =
            |step, first| try_step(step, first).unwrap_or_else(|error| panic!("{name}: {error}"));
        let applies = try_step(Step::Prepare, 0).and_then(|_| try_step(Step::Measure, 0));
        if NOT_EVERYWHERE.contains(&name) && applies.is_err_and(|error| error.inapplicable) {
            continue;
        }
        step(Step::Prepare, 0);
        for first in if unit.only_warmed { [0, 0] } else { [0, 2] } {
            let StepReport::Measured(measured) = step(Step::Measure, first) else {
                panic!("{name} measured nothing")
            };
            assert_eq!(measured.len(), if unit.own_files { 2 } else { 1 }, "{name}");
            assert!(
                measured
                    .iter()
                    .all(|measured| measured.operations == unit.operations),
                "{name}"
            );
        }
        step(Step::Cleanup, 0);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0, "{name}");
    }
    assert!(with_units >= 20, "{with_units}");
    assert!(only_warmed.contains(&"read"), "{only_warmed:?}");
    let changing = [
        "write", "create", "rename", "delete", "append", "rmdir", "chmod", "move", "setxattr",
        "setfacl", "truncate",
    ];
    assert!(
        !changing.iter().any(|name| only_warmed.contains(name)),
        "{only_warmed:?}"
    );
}

/// A read-only file system is measured with these.
#[test]
fn work_that_only_reads_says_so_and_leaves_its_files_as_they_were() {
    let mut reads_only = Vec::new();
    for workload in REGISTRY {
        let profile = parse(&example(*workload), &SIZING).unwrap().profile();
        if profile.reads_only {
            reads_only.push(workload.name());
            let leaves = matches!(
                profile.renewal,
                crate::Renewal::Never | crate::Renewal::Remount | crate::Renewal::Inside
            );
            assert!(leaves && !profile.only_writes, "{}", workload.name());
        }
    }
    for name in [
        "read", "stat", "readdir", "scan", "statfs", "lookup", "readlink", "getxattr", "reread",
    ] {
        assert!(reads_only.contains(&name), "{name}: {reads_only:?}");
    }
    for name in [
        "write", "create", "rename", "delete", "copy-up", "chmod", "setxattr", "append",
    ] {
        assert!(!reads_only.contains(&name), "{name}: {reads_only:?}");
    }
}

/// Each case is a workload, a parameter, its value, and a part of the error message (empty if the
/// value is accepted).
#[test]
fn senseless_parameters_are_refused_with_their_key() {
    let cases: &[(&str, &str, serde_json::Value, &str)] = &[
        ("read", "file_size", "4X".into(), "'4X' is not a size"),
        ("read", "file_size", 0.into(), "0 is too few: at least 1"),
        (
            "read",
            "file_size",
            (1u64 << 61).into(),
            "is too many: at most",
        ),
        ("read", "file_size", "size/0".into(), "is not a size"),
        (
            "read",
            "block_size",
            "128M".into(),
            "128M is larger than file_size, 8M",
        ),
        ("read", "block_size", 0.into(), "0 is too few"),
        (
            "read",
            "block_size",
            (-1).into(),
            "-1 is not a whole number",
        ),
        (
            "read",
            "block_size",
            1.5.into(),
            "1.5 is not a whole number",
        ),
        ("read", "files", 0.into(), "0 is too few"),
        ("read", "files", 100_000_001u64.into(), "is too many"),
        ("read", "files_per_directory", 0.into(), "0 is too few"),
        (
            "read",
            "threads",
            1025.into(),
            "1025 is too many: at most 1024",
        ),
        ("read", "threads", true.into(), "true is not a whole number"),
        (
            "read",
            "access",
            "backwards".into(),
            "'backwards' is not allowed: use sequential or random",
        ),
        ("read", "access", 7.into(), "7 is not a word"),
        (
            "read",
            "durability",
            "end".into(),
            "'end' is not allowed: use none",
        ),
        (
            "read",
            "cache",
            "lukewarm".into(),
            "is not allowed: use warm or cold or any",
        ),
        ("read", "backend", "psink".into(), "did you mean 'psync'"),
        (
            "read",
            "depth",
            32.into(),
            "32 is more than backend psync can do: at most 1",
        ),
        ("read", "label", "".into(), "is not a text of one line"),
        (
            "read",
            "label",
            "two\nlines".into(),
            "is not a text of one line",
        ),
        (
            "write",
            "overwrite",
            "perhaps".into(),
            "\"perhaps\" is not true or false",
        ),
        ("write", "cache", "cold".into(), "new files are never cold"),
        (
            "append",
            "access",
            "random".into(),
            "'random' is not allowed: use sequential",
        ),
        (
            "append",
            "cache",
            "warm".into(),
            "'warm' is not allowed: use any",
        ),
        (
            "stat",
            "block_size",
            "4K".into(),
            "unknown parameter 'block_size'",
        ),
        (
            "create",
            "overwrite",
            true.into(),
            "unknown parameter 'overwrite'",
        ),
        (
            "mkdir",
            "file_size",
            "4K".into(),
            "unknown parameter 'file_size'",
        ),
        (
            "symlink",
            "cache",
            "warm".into(),
            "'warm' is not allowed: use any",
        ),
        (
            "chown",
            "backend",
            "uring".into(),
            "'uring' is not allowed: use psync or null",
        ),
        (
            "setxattr",
            "value_size",
            "128K".into(),
            "is too many: at most 65536",
        ),
        (
            "getxattr",
            "overwrite",
            true.into(),
            "unknown parameter 'overwrite'",
        ),
        (
            "setfacl",
            "value_size",
            8.into(),
            "unknown parameter 'value_size'",
        ),
        ("getfacl", "users", 0.into(), "0 is too few"),
        (
            "truncate",
            "mode",
            "widen".into(),
            "'widen' is not allowed: use shrink or grow",
        ),
        (
            "truncate",
            "access",
            "random".into(),
            "'random' is not allowed: use sequential",
        ),
        ("fsck", "threads", 2.into(), "unknown parameter 'threads'"),
        ("fsck", "cache", "warm".into(), "unknown parameter 'cache'"),
        ("lookup", "depth", 17.into(), "17 is too many: at most 16"),
        (
            "lookup",
            "width",
            100.into(),
            "100 at a depth of 4 are more than 1000000 files",
        ),
        ("micro-read", "cycles", 0.into(), "0 is too few"),
        ("micro-read", "iterations", 0.into(), "0 is too few"),
        ("micro-read", "block_count", (1u64 << 30).into(), ""),
        (
            "micro-create",
            "block_size",
            4096.into(),
            "unknown parameter 'block_size'",
        ),
        (
            "micro-create",
            "durability",
            "none".into(),
            "unknown parameter 'durability'",
        ),
    ];
    for (workload, key, value, message) in cases {
        let result = parse(&with(workload, &[(key, value.clone())]), &SIZING);
        if message.is_empty() {
            assert!(result.is_ok(), "{workload} {key} {value}");
            continue;
        }
        let error = result
            .err()
            .unwrap_or_else(|| panic!("{workload} takes {key} = {value}"));
        assert_eq!(error.key.as_deref(), Some(*key), "{error}");
        assert!(
            error.to_string().contains(message),
            "'{error}' does not say '{message}'"
        );
        assert!(
            error
                .to_string()
                .starts_with(&format!("workload {workload}: ")),
            "{error}"
        );
    }
    let absurd = with(
        "micro-read",
        &[
            ("block_count", (1u64 << 30).into()),
            ("block_size", (1u64 << 30).into()),
        ],
    );
    assert!(
        parse(&absurd, &SIZING).is_ok(),
        "a pebibyte is large, not absurd"
    );
    let absurd = with(
        "read",
        &[
            ("files", 100_000_000u64.into()),
            ("file_size", (1u64 << 40).into()),
        ],
    );
    assert!(
        parse(&absurd, &SIZING)
            .err()
            .unwrap()
            .message
            .contains("are too large for any file system")
    );
    let directories = with(
        "stat",
        &[
            ("files", 1_000_000.into()),
            ("files_per_directory", 1.into()),
        ],
    );
    assert!(
        parse(&directories, &SIZING)
            .err()
            .unwrap()
            .message
            .contains("more than 100000 directories")
    );
    let random = with(
        "write",
        &[("access", "random".into()), ("overwrite", false.into())],
    );
    assert_eq!(
        parse(&random, &SIZING).err().unwrap().key.as_deref(),
        Some("overwrite")
    );
}

#[test]
fn labels_say_what_makes_a_cell_another_one() {
    let cases: &[(&str, Pairs<'_>, &str)] = &[
        (
            "write",
            &[("durability", "end".into())],
            "write 1M, durable",
        ),
        ("read", &[("cache", "cold".into())], "read 1M, cold"),
        ("read", &[], "read 1M, warm"),
        (
            "read",
            &[("access", "random".into()), ("cache", "cold".into())],
            "random read 4K, cold",
        ),
        (
            "write",
            &[("access", "random".into()), ("durability", "each".into())],
            "random write 4K, durable each",
        ),
        (
            "write",
            &[("overwrite", true.into()), ("cache", "warm".into())],
            "overwrite 1M, warm",
        ),
        (
            "append",
            &[("durability", "each".into())],
            "append 4K, durable each",
        ),
        (
            "create",
            &[("durability", "end".into())],
            "create 4K files, durable",
        ),
        (
            "create",
            &[("durability", "end".into()), ("threads", 0.into())],
            "create 4K files, durable, 2 threads",
        ),
        ("create", &[("file_size", 0.into())], "create empty files"),
        (
            "read",
            &[
                ("files", 99.into()),
                ("file_size", "4K".into()),
                ("cache", "cold".into()),
            ],
            "read 4K files, cold",
        ),
        (
            "read",
            &[("files", 9.into()), ("block_size", "64K".into())],
            "read 64K of 8M files, warm",
        ),
        ("stat", &[("cache", "cold".into())], "stat 4K files, cold"),
        ("scan", &[("cache", "cold".into())], "readdir + stat, cold"),
        (
            "readdir",
            &[("files", 50.into()), ("cache", "any".into())],
            "readdir 50 entries",
        ),
        ("rename", &[], "rename 4K files"),
        ("copy-up", &[], "copy-up 4K files"),
        (
            "delete",
            &[("durability", "end".into())],
            "delete 4K files, durable",
        ),
        ("move", &[("threads", 2.into())], "move 4K files, 2 threads"),
        (
            "mkdir",
            &[("durability", "each".into())],
            "mkdir, durable each",
        ),
        (
            "rmdir",
            &[("cache", "cold".into()), ("access", "random".into())],
            "random rmdir, cold",
        ),
        ("link", &[], "link 4K files"),
        ("symlink", &[], "symlink"),
        ("readlink", &[], "readlink, warm"),
        ("chmod", &[], "chmod 4K files"),
        ("utimens", &[("file_size", 0.into())], "utimens empty files"),
        ("setxattr", &[], "setxattr 32 B on 4K files"),
        (
            "setxattr",
            &[("overwrite", true.into())],
            "setxattr overwrite 32 B on 4K files",
        ),
        (
            "getxattr",
            &[("value_size", "1K".into())],
            "getxattr 1K of 4K files, warm",
        ),
        (
            "listxattr",
            &[("access", "random".into())],
            "random listxattr 32 B of 4K files, warm",
        ),
        (
            "setfacl",
            &[("overwrite", true.into())],
            "setfacl overwrite 1 user on 4K files",
        ),
        (
            "getfacl",
            &[("users", 3.into())],
            "getfacl 3 users of 4K files, warm",
        ),
        ("reflink", &[], "reflink 64K files"),
        ("statfs", &[], "statfs 4K files, warm"),
        (
            "fsck",
            &[("files", 500.into())],
            "fsck of 500 4K files, cold",
        ),
        (
            "freeze",
            &[("files", 7.into()), ("file_size", 0.into())],
            "freeze of 7 empty files",
        ),
        (
            "snapshot-delete",
            &[("files", 7.into())],
            "snapshot-delete of 7 4K files",
        ),
        ("shrink", &[("files", 7.into())], "shrink of 7 4K files"),
        ("defragment", &[], "defragment of 64 256K files"),
        ("truncate", &[], "truncate shrink 4K"),
        (
            "truncate",
            &[("mode", "grow".into()), ("files", 2.into())],
            "truncate grow 4K of 1M files",
        ),
        ("lookup", &[], "stat 4 deep, 5 wide, warm"),
        (
            "lookup",
            &[
                ("operation", "open".into()),
                ("paths", "own".into()),
                ("threads", 2.into()),
            ],
            "open 4 deep, 5 wide, own path, warm, 2 threads",
        ),
        (
            "read",
            &[("backend", "null".into()), ("cache", "any".into())],
            "read 1M, null",
        ),
        ("read", &[("label", "mine".into())], "mine"),
        ("micro-create", &[], "micro create 1000 files"),
        (
            "micro-write",
            &[("random", true.into()), ("threads", 0.into())],
            "micro random write 8M in 512K blocks, 2 threads",
        ),
        (
            "micro-read",
            &[("file_count", 3.into())],
            "micro read 3 files of 8M in 512K blocks",
        ),
    ];
    for (workload, pairs, label) in cases {
        assert_eq!(
            parse(&with(workload, pairs), &SIZING)
                .unwrap()
                .profile()
                .label,
            *label
        );
    }
}

#[test]
fn profiles_tell_the_runner_what_to_restore_and_how_long_to_measure() {
    use crate::Renewal::{Inside, Never, Recreate, Remount};
    // Renewal, repeats in place, reaches the device.
    let cases: &[(&str, Pairs<'_>, (crate::profile::Renewal, bool, bool))] = &[
        (
            "write",
            &[("durability", "end".into())],
            (Inside, true, true),
        ),
        (
            "write",
            &[("durability", "end".into()), ("file_size", "128M".into())],
            (Recreate, false, true),
        ),
        (
            "write",
            &[("durability", "end".into()), ("threads", 2.into())],
            (Recreate, false, true),
        ),
        (
            "rewrite",
            &[("durability", "end".into())],
            (Never, true, true),
        ),
        ("rewrite", &[("close", true.into())], (Inside, true, false)),
        ("reread", &[], (Never, true, false)),
        ("reread", &[("close", true.into())], (Inside, true, false)),
        (
            "backward-read",
            &[("cache", "cold".into())],
            (Remount, false, true),
        ),
        (
            "backward-read",
            &[("backend", "mmap".into())],
            (Inside, true, false),
        ),
        ("fwrite", &[], (Inside, true, false)),
        (
            "write",
            &[("access", "random".into())],
            (Never, true, false),
        ),
        ("read", &[("cache", "warm".into())], (Never, true, false)),
        ("read", &[("cache", "cold".into())], (Remount, false, true)),
        ("append", &[], (Recreate, false, false)),
        ("create", &[], (Recreate, false, false)),
        ("stat", &[("cache", "cold".into())], (Remount, false, true)),
        ("rename", &[], (Recreate, true, false)),
        ("delete", &[], (Recreate, false, false)),
        ("copy-up", &[], (Recreate, false, false)),
        ("mkdir", &[], (Recreate, false, false)),
        (
            "rmdir",
            &[("cache", "cold".into())],
            (Recreate, false, true),
        ),
        (
            "move",
            &[("durability", "each".into())],
            (Recreate, true, true),
        ),
        ("link", &[], (Recreate, false, false)),
        (
            "readlink",
            &[("cache", "cold".into())],
            (Remount, false, true),
        ),
        ("chmod", &[], (Never, true, false)),
        ("setxattr", &[], (Recreate, false, false)),
        (
            "setxattr",
            &[("overwrite", true.into())],
            (Never, true, false),
        ),
        ("getxattr", &[], (Never, true, false)),
        ("truncate", &[], (Recreate, false, false)),
        ("reflink", &[], (Recreate, false, false)),
        (
            "lookup",
            &[("cache", "cold".into())],
            (Remount, false, true),
        ),
        ("micro-read", &[], (Never, false, false)),
        ("fsck", &[], (Remount, false, true)),
        ("freeze", &[], (Never, true, true)),
    ];
    for (workload, pairs, expected) in cases {
        let profile = parse(&with(workload, pairs), &SIZING).unwrap().profile();
        let found = (
            profile.renewal,
            profile.repeats_in_place,
            profile.reaches_device,
        );
        assert_eq!(found, *expected, "{}", profile.label);
    }
    let read = parse(&with("read", &[("cache", "cold".into())]), &SIZING)
        .unwrap()
        .profile();
    assert_eq!(
        (read.operations, read.cold_bytes_per_operation),
        (8, 1 << 20)
    );
    assert_eq!(read.primary.name, "throughput");
    assert!(read.space >= 8 << 20 && read.inodes >= 2);
    let odd = with(
        "write",
        &[
            ("file_size", "min(10000, size)".into()),
            ("block_size", "4K".into()),
        ],
    );
    let odd = parse(&odd, &SIZING).unwrap().profile();
    assert_eq!(
        (odd.operations, odd.file_size, odd.primary.name),
        (2, 8192, "operation_rate")
    );
    let odd = with(
        "write",
        &[("file_size", 10_000.into()), ("block_size", "4K".into())],
    );
    let refused = parse(&odd, &SIZING).err().unwrap();
    assert!(
        refused.message.contains("not a multiple of a record of 4K"),
        "{refused}"
    );
}
