//! Kernels as a dimension of a plan, and targets that some kernels cannot make.

use std::process::Command;

use serde_json::Value;

use super::*;

/// Returns the release and the image of a kernel other than `first`.
fn another(first: &str) -> Result<(String, PathBuf), String> {
    let release = fetched(&other_cache()).map_or_else(|| fetch_another(first), Ok)?;
    Ok((release.clone(), other_cache().join("fsb/kernels").join(release).join("vmlinuz")))
}

/// Fetches Debian's backported kernel if the archive has it, else any other one.
fn fetch_another(first: &str) -> Result<String, String> {
    let backport = fetch("linux-image-6.12-amd64", &other_cache());
    backport.or_else(|why| {
        let names = Command::new("apt-cache").args(["pkgnames", "linux-image-"]).output();
        let names = names.map(|output| stdout(&output)).map_err(|error| error.to_string())?;
        let is_release = |name: &&str| {
            let plain = !["cloud", "rt", "unsigned", "dbg"].iter().any(|word| name.contains(word));
            let own = name.strip_prefix("linux-image-").is_none_or(|release| release == first);
            plain && !own && name.ends_with("-amd64") && name.matches('.').count() == 2
        };
        let package = names.lines().filter(is_release).max().ok_or(why)?;
        fetch(package, &other_cache())
    })
}

#[test]
fn two_kernels_take_turns_and_each_makes_what_it_can() {
    let kernel = needs!(kernel());
    let (other, image) = needs!(another(&kernel));
    needs!(program "mkfs.xfs");
    needs!(program "mkfs.jfs");
    let before = traces();
    let scratch = scratch();
    // The first kernel without its module jfs.
    let own = cache().join("fsb/kernels").join(&kernel);
    let modules = modules_without("/jfs.ko", &own, &scratch.path().join("modules"));
    let first = format!("{}:{}", own.join("vmlinuz").display(), modules.display());
    let plan = PLAN.replace("96M", "304M").replace(
        "in = 'vm'",
        "in = 'vm'\ntargets = ['ext4', 'xfs', { target = 'jfs', optional = true }, { target = 'nilfs2', optional = true }]",
    );
    std::fs::write(scratch.path().join("two.toml"), plan).unwrap();
    // With this seed the block begins on the kernel that the warm-up ended with: three boots in all.
    let kernels = ["--kernel", &first, "--kernel", image.to_str().unwrap()];
    let arguments = [&["run", "two.toml", "--seed", "16", "--out", "run"][..], &kernels].concat();
    let output = without("mkfs.nilfs2", scratch.path(), &arguments);
    expect_code(&output, 0);

    let run = scratch.path().join("run");
    let record = record(&run);
    let mut names: Vec<_> = record["targets"].as_object().unwrap().keys().cloned().collect();
    names.sort();
    let mut expected: Vec<_> = ["ext4", "xfs", "jfs", "nilfs2"]
        .iter()
        .flat_map(|fs| [&kernel, &other].map(|release| format!("{fs}%{release}")))
        .collect();
    expected.sort();
    assert_eq!(names, expected);
    let target = |fs: &str, release: &str| &record["targets"][format!("{fs}%{release}")];
    for fs in ["ext4", "xfs"] {
        let (one, two) = (target(fs, &kernel), target(fs, &other));
        assert!(!one["features"].as_array().unwrap().is_empty(), "{one:#}");
        // mkfs gets the options for the older of the two kernels, on both of them.
        assert_eq!((&one["features"], &one["mkfs_command"]), (&two["features"], &two["mkfs_command"]), "{fs}");
        assert_eq!((&one["kernel"], &two["kernel"]), (&kernel.as_str().into(), &other.as_str().into()));
    }
    assert_eq!(record["segments"][0]["kernel"], format!("{kernel} and {other}"));
    assert_eq!(record["vm"]["kernels"].as_object().unwrap().len(), 2);
    let why = |fs: &str, release: &str| target(fs, release)["unavailable"].as_str().unwrap_or_default().to_owned();
    assert!(why("jfs", &kernel).contains("jfs"), "{}", why("jfs", &kernel));
    assert_eq!(why("jfs", &other), "");
    for release in [&kernel, &other] {
        assert!(why("nilfs2", release).contains("nilfs-tools"), "{}", why("nilfs2", release));
        let name = format!("nilfs2%{release}");
        let is_told = |message: &Value| {
            message["code"] == "warning/target-unavailable" && message["fields"]["target"] == name.as_str()
        };
        assert!(messages(&output).iter().any(is_told), "{name}: {}", stderr(&output));
    }

    let made = counting(&run);
    let text = |trial: &Value, name: &str| trial[name].as_str().unwrap_or_default().to_owned();
    for trial in &made {
        let (name, release) = (text(trial, "target"), text(trial, "kernel"));
        assert!(name.ends_with(&format!("%{release}")), "{trial:#}");
        let there = why(name.split('%').next().unwrap(), &release).is_empty();
        assert_eq!(text(trial, "outcome"), if there { "ok" } else { "not_applicable" }, "{trial:#}");
    }
    assert_eq!(made.len(), 2 * 2 * 8, "warm-up and a block, two cells");
    // A guest runs as long as its kernel is needed; a target that cannot be made needs none.
    let mut kernels_of_trials: Vec<_> =
        made.iter().filter(|trial| trial["outcome"] == "ok").map(|t| text(t, "kernel")).collect();
    kernels_of_trials.dedup();
    let said = messages(&output);
    let boots: Vec<_> = said.iter().filter_map(|line| line["fields"]["activity"]["kernel"].as_str()).collect();
    assert_eq!(boots, kernels_of_trials);
    expect_no_traces(&before);
}
