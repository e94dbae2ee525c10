//! `fsb list`, `fsb doctor` and help, as a user meets them.

use crate::common::*;

#[test]
fn every_family_is_listed_and_no_member_lacks_its_line() {
    let scratch = scratch();
    let families = succeeds(scratch.path(), "list");
    let names: Vec<String> = stdout(&families)
        .lines()
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect();
    assert!(names.len() >= 8, "{names:?}");
    for name in &names {
        let members = succeeds(scratch.path(), &["list", name]);
        let text = stdout(&members);
        assert!(!text.is_empty(), "{name}");
        for line in text.lines().filter(|line| !line.is_empty()) {
            assert!(
                line.split_whitespace().count() >= 3,
                "{name}: '{line}' says too little"
            );
        }
    }
    let systems = stdout(&fsb(scratch.path(), "list file-systems"));
    for name in [
        "ext2", "ext3", "ext4", "xfs", "btrfs", "ntfs", "tmpfs", "null", "reiserfs", "jfs", "f2fs",
        "nilfs2",
    ] {
        assert!(
            systems
                .lines()
                .any(|line| line.starts_with(&format!("{name} "))),
            "{name} in {systems}"
        );
    }
    assert!(
        systems.contains("xfsprogs") && systems.contains("ntfs-3g"),
        "{systems}"
    );
}

/// Users know the purpose of the machine, but not the names of benchmarks.
#[test]
fn suites_say_whose_work_they_are_and_how_long_they_take() {
    let scratch = scratch();
    let text = stdout(&fsb(scratch.path(), "list suites"));
    for (machine, suite) in [
        ("mail server", "varmail"),
        ("database", "oltp"),
        ("build machine", "untar-build"),
    ] {
        assert!(
            text.lines()
                .any(|line| line.starts_with(&format!("A {machine}?"))),
            "{text}"
        );
        let emulation = format!("--suite {suite}  # an emulation");
        let line = text
            .lines()
            .find(|line| line.ends_with(&emulation))
            .expect(&text);
        let command = line
            .split_once("fsb ")
            .expect(line)
            .1
            .split_once("  #")
            .expect(line)
            .0;
        // The command is valid.
        let plan: Vec<&str> = command.split(' ').chain(["--print-plan"]).collect();
        succeeds(scratch.path(), &plan);
        let found = stdout(&fsb(scratch.path(), &["list", machine]));
        assert!(
            found.contains(&format!("{suite} (suites): ")) && found.contains("up to 5 min"),
            "{found}"
        );
    }
    let matrix = text
        .lines()
        .find(|line| line.starts_with("iozone "))
        .expect(&text);
    assert!(
        matrix.contains(" about ") && matrix.contains(" h  "),
        "{matrix}"
    );
    assert!(text.contains("Times are for two file systems"), "{text}");
}

/// The report names suites by their machines; the runner defines the suites.
#[test]
fn each_role_of_the_report_has_a_suite() {
    for role in fsb_report::summary::ROLES {
        let suite = fsb_runner::suite::REGISTRY
            .iter()
            .find(|suite| suite.name == role.suite);
        assert_eq!(
            suite.and_then(|suite| suite.machine),
            Some(role.machine),
            "{}",
            role.suite
        );
    }
}

#[test]
fn a_suite_named_after_a_real_program_leads_to_its_plan() {
    let scratch = scratch();
    let asked = fsb_json(
        scratch.path(),
        "run ext4 xfs --suite postgresql --seed 7 --print-plan",
    );
    let named = fsb(
        scratch.path(),
        "run ext4 xfs --preset postgresql --seed 7 --print-plan",
    );
    expect_code(&asked, 0);
    assert_eq!(stdout(&asked), stdout(&named));
    assert_eq!(
        message(&asked, "note/named-plan")["fields"]["plan"],
        "postgresql.toml"
    );
    let suites = stdout(&fsb(scratch.path(), "list suites"));
    assert!(
        suites.contains("--suite oltp  # an emulation")
            && suites.contains("xfs --preset postgresql"),
        "{suites}"
    );
}

#[test]
fn a_preset_is_found_by_its_name_and_takes_the_targets_of_the_command_line() {
    let scratch = scratch();
    let plan = stdout(&fsb(
        scratch.path(),
        "run ext4 xfs --preset thumbnails --seed 7 --print-plan",
    ));
    assert!(
        plan.contains("targets = [\"ext4\", \"xfs\"]") && plan.contains("name = \"thumbnails\""),
        "{plan}"
    );
    let near = fsb_json(scratch.path(), "run ext4 --preset sqlit");
    expect_code(&near, 2);
    let said = error_of(&near)["message"].to_string();
    assert!(said.contains("did you mean 'sqlite'?"), "{said}");
    for line in [
        "run ext4 --preset sqlite --suite quick",
        "run ext4 --preset sqlite --workload rename",
        "run ext4 --preset sqlite -- true",
        "run ext4 database.toml --preset sqlite",
        "run ext4 --suite quick --gate",
    ] {
        expect_code(&fsb_json(scratch.path(), line), 2);
    }
    let raced = stdout(&fsb(scratch.path(), "choose --preset sqlite --list"));
    assert!(raced.contains("ext4,data=journal"), "{raced}");
}

/// The work is that of the plan, with the real programs or their recordings.
#[test]
fn the_work_of_a_preset_is_measured_and_raced() {
    let scratch = scratch();
    let preset = fsb_runner::shipped_plan::preset("sqlite").unwrap();
    let plan = fsb_runner::plan_file::parse(preset.text, preset.name).unwrap();
    succeeds(
        scratch.path(),
        "run null --preset sqlite --blocks 1 -q --out run",
    );
    let trials = measured(&scratch.path().join("run"));
    assert_eq!(trials.len(), plan.workloads.len());
    assert!(
        trials.iter().all(|trial| trial["outcome"] == "ok"),
        "{trials:#?}"
    );
    let race = succeeds(
        scratch.path(),
        "choose null,slowdown=40% null,slowdown=20% --preset sqlite --budget 20s -q --out choice",
    );
    let answer = stdout(&race);
    assert!(answer.contains("Geometric mean of sqlite"), "{answer}");
    let unsafe_one = fsb_json(scratch.path(), "choose null null,unsafe --preset sqlite");
    expect_error(&unsafe_one, 2, "choose/not-a-candidate");
}

/// A plan's own program may be missing: what takes its place is said, or the package is.
#[test]
fn a_missing_program_is_named_with_its_package() {
    let scratch = scratch();
    let plan = |otherwise: &str| {
        let text = format!(
            "[[workload]]\nname = 'command'\nlabel = 'work'\ncommand = 'no-such-program'\n\
             needs = {{ programs = ['no-such-program'], package = 'such' }}\n{otherwise}"
        );
        std::fs::write(scratch.path().join("plan.toml"), text).unwrap();
        fsb_json(scratch.path(), "run null plan.toml --print-plan")
    };
    let replaced = plan("[workload.otherwise]\nname = 'replay'\ntrace = 'example'\n");
    expect_code(&replaced, 0);
    assert_eq!(
        message(&replaced, "note/program-missing")["fields"]["package"],
        "such"
    );
    assert!(stdout(&replaced).contains("label = \"work, recording\""));
    let refused = plan("");
    expect_code(&refused, 3);
    let error = error_of(&refused);
    assert_eq!(error["code"], "testbed/tool-missing");
    assert!(
        error["message"]
            .to_string()
            .contains("apt-get install such")
    );
}

/// A preset runs on a machine without its programs too: every recording is known.
#[test]
fn every_preset_has_something_to_measure_without_its_programs() {
    for preset in fsb_runner::shipped_plan::presets() {
        let text = preset
            .text
            .replace("programs = [", "programs = [\"no-such-program\", ");
        let plan = fsb_runner::plan_file::parse(&text, preset.name).unwrap();
        for needed in &plan.needed {
            assert!(needed.otherwise.is_some(), "{}: {needed:?}", preset.name);
        }
        let resolved = plan.resolve(2, 7).map_err(|error| error.to_string());
        assert!(
            resolved.is_ok(),
            "{}: {}",
            preset.name,
            resolved.unwrap_err()
        );
    }
}

/// The version that a preset names as recorded is that of the recordings.
#[test]
fn presets_name_the_versions_of_the_recordings() {
    let mut named = 0;
    for preset in fsb_runner::shipped_plan::presets() {
        let plan = fsb_runner::plan_file::parse(preset.text, preset.name).unwrap();
        let program = match preset.preset() {
            "mysql" => "mariadb",
            name => name,
        };
        for needed in &plan.needed {
            let Some(recorded) = &needed.need.recorded else {
                continue;
            };
            let path = format!("../../testdata/programs/{program}.toml");
            let definition = std::fs::read_to_string(path).unwrap();
            let version = definition
                .lines()
                .find(|line| line.starts_with("version = "));
            assert!(
                version.unwrap().contains(recorded.as_str()),
                "{program} {recorded}"
            );
            named += 1;
        }
    }
    assert!(named > 10, "{named}");
}

/// Many terminals have 80 columns. Text to be copied from a message is not wrapped.
#[test]
fn screens_fit_eighty_columns() {
    let scratch = scratch();
    for arguments in [
        &["list"][..],
        &["list", "suites"],
        &["list", "presets"],
        &["list", "etcd"],
        &["list", "workloads"],
        &["list", "file-systems"],
        &["list", "metrics"],
        &["list", "workloads", "write"],
        &["doctor", "--quick"],
        &["run", "ext5", "--suite", "quick"],
        &["run", "ext4", "--suite", "nothing-like-it"],
        &["run", "null", "--size", "many"],
        &["run", "null@/dev/sda"],
        &["compare", "nothing.json", "nowhere.json"],
        &["report", "nowhere"],
    ] {
        let mut command = command(scratch.path(), arguments);
        let output = command
            .env("COLUMNS", "80")
            .output()
            .expect("the program starts");
        for text in [stdout(&output), stderr(&output)] {
            let wide = text
                .lines()
                .find(|line| line.chars().count() > 80 && line.trim().contains(' '));
            assert_eq!(wide, None, "{arguments:?}: {text}");
        }
        assert_eq!(
            stdout(&output).is_empty(),
            !stderr(&output).is_empty(),
            "{arguments:?} says something"
        );
    }
}

/// The description of a single member: a workload with its parameters, and a name without its
/// family.
#[test]
fn a_workload_tells_its_parameters_and_a_name_finds_its_family() {
    let scratch = scratch();
    let shown = |arguments: &[&str]| {
        let output = succeeds(scratch.path(), arguments);
        stdout(&output)
    };
    for line in shown(&["list", "workloads"]).lines() {
        let Some(name) = line
            .split_whitespace()
            .next()
            .filter(|_| !line.starts_with(' '))
        else {
            continue;
        };
        let text = shown(&["list", "workloads", name]);
        assert!(
            text.contains("\nResults:\n")
                && text.contains("\n  label ")
                && text.contains(&format!("name = \"{name}\"")),
            "{text}"
        );
    }
    let read = shown(&["list", "read"]);
    assert!(
        read.starts_with("read (workloads): ") && read.contains("\nCalls:\n  access "),
        "{read}"
    );
    assert!(
        read.contains("[default: size/8]") && read.contains("only with rate"),
        "{read}"
    );
    assert!(shown(&["list", "btrfs"]).starts_with("btrfs (file-systems): "));
    let ext4 = shown(&["list", "file-systems", "ext4"]);
    assert!(
        ext4.contains("\n  noatime ") && ext4.contains("mkfs=\"-O fast_commit\""),
        "{ext4}"
    );
    let swap = shown(&["list", "controls", "swap"]);
    assert!(
        swap.contains("\nValues:\n  keep ") && swap.contains(" [default]"),
        "{swap}"
    );
    expect_refusals(
        "list",
        scratch.path(),
        &[(&["list", "workloads", "raed"], "list/unknown-member")],
    );
}

#[test]
fn the_doctor_names_every_file_system_and_what_to_install() {
    let scratch = scratch();
    let output = succeeds(scratch.path(), "doctor --quick");
    let text = stdout(&output);
    assert!(!text.contains("other processes"), "it was quick: {text}");
    for name in ["ext4", "xfs", "btrfs", "ntfs", "loop"] {
        assert!(text.contains(name), "{name} in {text}");
    }
    // A description of the machine, an empty line, and a table of file systems.
    let (machine, table) = text.split_once("\n\n").expect(&text);
    let mut rows = table.lines();
    assert!(rows.next().unwrap().starts_with("file system "), "{table}");
    for name in [
        "ext4 ",
        "xfs ",
        "reiserfs ",
        "jfs ",
        "f2fs ",
        "nilfs2 ",
        "ntfs3 ",
    ] {
        assert_eq!(
            table.lines().filter(|row| row.starts_with(name)).count(),
            1,
            "{name} in {table}"
        );
    }
    for line in machine.lines() {
        let state = line.split_whitespace().next().unwrap_or_default();
        assert!(
            ["ok", "warning", "missing", "absent", "→"].contains(&state),
            "{line}"
        );
    }
}

#[test]
fn the_doctor_names_a_busy_neighbour_and_what_to_do() {
    let scratch = scratch();
    // A unique name: other tests on this machine run shells, too.
    let neighbour = scratch.path().join("fsb-neighbour");
    std::fs::copy("/bin/sh", &neighbour).unwrap();
    let mut neighbour = std::process::Command::new(neighbour)
        .args(["-c", "while :; do :; done"])
        .spawn()
        .unwrap();
    let output = fsb_json(scratch.path(), "doctor");
    neighbour.kill().unwrap();
    neighbour.wait().unwrap();
    expect_code(&output, 0);
    let text = stdout(&output);
    let line = text
        .lines()
        .position(|line| line.contains("other processes"))
        .expect(&text);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[line].starts_with("warning") && lines[line].contains("fsb-neighbour"),
        "{}",
        lines[line]
    );
    assert!(
        lines[line + 1].contains("→ stop them"),
        "{}",
        lines[line + 1]
    );
    assert!(text.contains("trials watched"), "{text}");
    message(&output, "note/watching");
}

#[test]
fn version_and_help_are_answers() {
    let scratch = scratch();
    for arguments in [
        &["--version"][..],
        &["--help"],
        &["run", "--help"],
        &["micro", "--help"],
        &["list", "--help"],
    ] {
        let output = succeeds(scratch.path(), arguments);
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
}
