//! Results of runs in guests.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::*;
use crate::common::expect_code;

/// Creates a directory of user `nobody` with its own cache.
pub fn home_of_nobody() -> tempfile::TempDir {
    let home = tempfile::Builder::new()
        .prefix("fsb-nobody-")
        .tempdir_in("/var/tmp")
        .unwrap();
    std::fs::create_dir_all(home.path().join("cache/fsb")).unwrap();
    let shell = "cp -r \"$1\" \"$2\"/cache/fsb/ && chown -R 65534:65534 \"$2\"";
    let mut copy = Command::new("sh");
    copy.args(["-c", shell, "sh"])
        .arg(cache().join("fsb/kernels"))
        .arg(home.path());
    assert!(copy.status().unwrap().success());
    home
}

fn as_nobody(home: &Path, binary: &Path, arguments: &[&str]) -> Output {
    command_of_nobody(binary, home, arguments)
        .env("XDG_CACHE_HOME", home.join("cache"))
        .output()
        .expect("setpriv runs")
}

#[test]
fn an_ordinary_user_measures_file_systems_that_this_kernel_lacks_and_goes_on_after_an_interruption()
{
    let kernel = needs!(kernel());
    needs!(program "mkfs.jfs");
    needs!(program "mkfs.reiserfs");
    let before = traces();
    let (home, binary) = (home_of_nobody(), public_copy());
    std::fs::write(home.path().join("tiny.toml"), PLAN).unwrap();
    let targets = ["ext4", "jfs", "reiserfs", "reiserfs@raid0:loop+loop"];
    let arguments = ["run", "tiny.toml", "--kernel", &kernel, "--out", "run"];
    let output = as_nobody(
        home.path(),
        binary.path(),
        &[&arguments[..], &targets].concat(),
    );
    expect_code(&output, 0);
    let run = home.path().join("run");
    assert_eq!(run.metadata().unwrap().uid(), 65534);
    let record = record(&run);
    let emulated = record["vm"]["accelerator"] == "tcg";
    assert_eq!(record["emulated"] == true, emulated);
    assert!(stderr(&output).contains(&kernel), "{}", stderr(&output));
    assert_eq!(
        (&record["host"]["kernel"], &record["segments"][0]["kernel"]),
        (&kernel.clone().into(), &kernel.clone().into())
    );
    assert!(
        record["vm"]["kernels"][&kernel]["initramfs"]
            .as_str()
            .unwrap()
            .len()
            > 8
    );
    assert_eq!(record["controls"]["guest-memory"]["requested"], "backed");
    assert_eq!(
        record["media"]["loop"]["direct"], true,
        "{}",
        record["media"]
    );
    assert!(record["media"]["raid0:loop+loop"].is_object());
    let made = counting(&run);
    assert_eq!(made.len(), 16, "warm-up and one block");
    for trial in &made {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        assert_eq!(trial["kernel"], kernel.as_str());
    }
    let cold = made
        .iter()
        .find(|trial| trial["target"] == "jfs" && trial["operation"] == "read")
        .unwrap();
    assert!(
        cold["observed"]["device_read_bytes"].as_u64().unwrap() >= 256 << 10,
        "{cold:#}"
    );
    let left: Vec<_> = std::fs::read_dir(home.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(
        left.len(),
        4,
        "cache, plan, run directory and .local with the lock: {left:?}"
    );

    // Cut the journal as if the run had been killed within the block.
    let text = std::fs::read_to_string(run.join("trials.jsonl")).unwrap();
    let cut: String = text
        .lines()
        .take(11)
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(run.join("trials.jsonl"), cut).unwrap();
    let mut again = record;
    again["stop_reason"] = serde_json::Value::Null;
    std::fs::write(run.join("run.json"), again.to_string()).unwrap();
    let output = as_nobody(
        home.path(),
        binary.path(),
        &["run", "--resume", "run", JSON],
    );
    expect_code(&output, 0);
    assert_eq!(
        message(&output, "note/block-retried")["fields"]["trials"],
        3
    );
    assert_eq!(measured(&run).len(), 8);
    expect_no_traces(&before);
}

#[test]
fn file_systems_of_cards_and_flash_are_measured_and_not_only_mounted() {
    let kernel = needs!(kernel());
    needs!(program "mkfs.vfat", "mkfs.exfat", "mkfs.minix", "mkfs.f2fs");
    let scratch = scratch();
    let sets: String = ["create", "delete"]
        .iter()
        .map(|name| format!("[[workload]]\nname = '{name}'\nfiles = 50\n"))
        .collect();
    std::fs::write(scratch.path().join("cards.toml"), format!("{PLAN}{sets}")).unwrap();
    let f2fs = r#"f2fs,mkfs="-O extra_attr,inode_checksum,compression",noinline_data,compress_algorithm=lz4"#;
    let mut command = command(
        scratch.path(),
        &["run", "cards.toml", "vfat", "exfat", "minix", f2fs],
    );
    let output = command
        .args(["--kernel", &kernel, "--size", "240M", "--out", "run"])
        .env("XDG_CACHE_HOME", cache())
        .output()
        .unwrap();
    expect_code(&output, 0);
    let run = scratch.path().join("run");
    let (record, made) = (record(&run), counting(&run));
    assert_eq!(made.len(), 4 * 2 * 4, "warm-up and one block");
    for trial in &made {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        let proved = trial["operation"] != "read"
            || trial["observed"]["device_read_bytes"].as_u64() >= Some(256 << 10);
        assert!(proved, "{trial:#}");
    }
    let found = &record["targets"][f2fs];
    let holds = |list: &str, word: &str| {
        found[list]
            .as_array()
            .unwrap()
            .iter()
            .any(|entry| entry == word)
    };
    assert!(
        holds("features", "extra_attr") && holds("mount_options", "noinline_data"),
        "{found:#}"
    );
    assert!(
        holds("mount_options", "compress_algorithm=lz4"),
        "{found:#}"
    );
    for fs in ["vfat", "exfat", "minix"] {
        assert!(
            record["targets"][fs]["mkfs_version"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{record:#}"
        );
    }
}

#[test]
fn guests_freeze_the_file_systems_that_support_it_and_check_all() {
    let kernel = needs!(kernel());
    needs!(program "mkfs.ext4", "mkfs.vfat", "fsck.fat");
    let scratch = scratch();
    let plan = PLAN.split("[[workload]]").next().unwrap();
    let workloads = ["freeze", "fsck"]
        .map(|name| format!("[[workload]]\nname = '{name}'\nfiles = 50\n"))
        .concat();
    std::fs::write(
        scratch.path().join("whole.toml"),
        format!("{plan}{workloads}"),
    )
    .unwrap();
    let arguments = format!("run whole.toml ext4 vfat --kernel {kernel} --out run -q");
    let output = command(scratch.path(), &arguments)
        .env("XDG_CACHE_HOME", cache())
        .output()
        .unwrap();
    expect_code(&output, 0);
    let measured = measured(&scratch.path().join("run"));
    assert_eq!(measured.len(), 4, "{measured:#?}");
    for trial in measured {
        let is_frozen_vfat = trial["target"] == "vfat" && trial["operation"] == "freeze";
        assert_eq!(
            trial["outcome"],
            if is_frozen_vfat {
                "not_applicable"
            } else {
                "ok"
            },
            "{trial:#}"
        );
    }
}

/// The kernel of this machine may lack quotas, which that of the guest has. A background of 2 MB
/// exceeds a limit of 1 MB.
#[test]
fn guests_count_and_limit_space_by_project() {
    let kernel = needs!(kernel());
    needs!(program "mkfs.ext4", "mkfs.xfs");
    let scratch = scratch();
    let plan = PLAN.split("[[workload]]").next().unwrap();
    let case = "[[workload]]\nname = 'create'\nfiles = 50\n";
    let beside = |limit: &str| {
        let command =
            format!("command = 'head -c 2000000 /dev/zero > f', limit = {{ space = '{limit}' }}");
        format!(
            "[[workload]]\nname = 'stat'\nfiles = 50\nsample_time = '1s'\nbackground = {{ {command} }}\n"
        )
    };
    let plan = [plan, case, &beside("4M"), &beside("1M")].concat();
    std::fs::write(scratch.path().join("quota.toml"), plan).unwrap();
    let ext4 = r#"ext4,mkfs="-O quota,project",prjquota"#;
    // ext4 without the feature has no place for the counters.
    let without = "plain=ext4,prjquota";
    let arguments = [
        "run",
        "quota.toml",
        ext4,
        "xfs,prjquota",
        without,
        "--size",
        "1G",
        "--kernel",
        &kernel,
    ];
    let mut command = command(
        scratch.path(),
        &[&arguments[..], &["--out", "run", "-q"]].concat(),
    );
    let output = command.env("XDG_CACHE_HOME", cache()).output().unwrap();
    let run = scratch.path().join("run");
    let (record, made) = (record(&run), counting(&run));
    for target in [ext4, "xfs,prjquota"] {
        let found = &record["targets"][target];
        // The options are those that the kernel lists for the mount.
        let options = found["mount_options"]
            .as_array()
            .unwrap_or_else(|| panic!("{record:#}"));
        assert!(
            options.iter().any(|option| option == "prjquota"),
            "{found:#}"
        );
        let measured: Vec<_> = made
            .iter()
            .filter(|trial| trial["target"] == target && trial["phase"] == "measured")
            .collect();
        let (ok, failed): (Vec<_>, Vec<_>) = measured
            .into_iter()
            .partition(|trial| trial["outcome"] == "ok");
        assert_eq!((ok.len(), failed.len()), (3, 1), "{made:#?}");
        // xfs reports a full project as a full device.
        let why = if target == ext4 {
            "quota exceeded"
        } else {
            "No space left"
        };
        assert!(
            failed[0]["error"].as_str().unwrap().contains(why),
            "{:#}",
            failed[0]
        );
    }
    let refused = record["targets"]["plain"]["failed"]
        .as_str()
        .unwrap_or_else(|| panic!("{record:#}"));
    assert!(
        !refused.is_empty() && output.status.code() != Some(0),
        "{refused}"
    );
}

/// Creates a build tree of the fetched kernel: nothing installed, no index of modules.
fn build_tree(kernel: &str) -> tempfile::TempDir {
    let fetched = cache().join("fsb/kernels").join(kernel);
    let tree = scratch();
    for directory in ["arch/x86/boot", "include/config"] {
        std::fs::create_dir_all(tree.path().join(directory)).unwrap();
    }
    std::os::unix::fs::symlink(
        fetched.join("vmlinuz"),
        tree.path().join("arch/x86/boot/bzImage"),
    )
    .unwrap();
    std::os::unix::fs::symlink(fetched.join("modules/kernel"), tree.path().join("kernel")).unwrap();
    std::fs::write(
        tree.path().join("include/config/kernel.release"),
        format!("{kernel}\n"),
    )
    .unwrap();
    let order = std::fs::read_to_string(fetched.join("modules/modules.order")).unwrap();
    std::fs::write(
        tree.path().join("modules.order"),
        order.replace(".ko\n", ".o\n"),
    )
    .unwrap();
    std::fs::copy(
        fetched.join("modules/modules.builtin"),
        tree.path().join("modules.builtin"),
    )
    .unwrap();
    tree
}

#[test]
fn a_block_device_is_lent_to_the_guest_when_it_was_given_up_and_its_kernel_may_lie_where_it_was_built()
 {
    let release = needs!(kernel());
    let (scratch, tree) = (scratch(), build_tree(&release));
    let kernel = tree.path().to_str().unwrap();
    let image = scratch.path().join("disk");
    std::fs::File::create(&image)
        .unwrap()
        .set_len(96 << 20)
        .unwrap();
    let shell = |text: &str, argument: &Path| {
        let output = Command::new("sh")
            .args(["-c", text, "sh"])
            .arg(argument)
            .output()
            .unwrap();
        assert!(output.status.success(), "{text}: {}", stderr(&output));
        stdout(&output).trim().to_owned()
    };
    let device = shell("mkfs.ext4 -q -F \"$1\" && losetup -f --show \"$1\"", &image);
    let target = format!("ext4@{device}");
    let refused = run(scratch.path(), kernel, &[&target, "--out", "run"])
        .output()
        .unwrap();
    let made = run(
        scratch.path(),
        kernel,
        &[&target, "--out", "run", "--wipe", &device],
    )
    .output()
    .unwrap();
    shell("losetup -d \"$1\"", Path::new(&device));
    let refused = expect_error(&refused, 2, "device/not-empty");
    assert!(
        refused["help"].as_str().unwrap().contains("--wipe"),
        "{refused}"
    );
    expect_code(&made, 0);
    let record = record(&scratch.path().join("run"));
    assert_eq!(record["targets"][&target]["medium"], device.as_str());
    assert_eq!(record["targets"][&target]["kernel"], release.as_str());
    assert!(
        record["media"][&device]["summary"]
            .as_str()
            .unwrap()
            .starts_with(&device),
        "{}",
        record["media"]
    );
}

/// A command runs on the guest's kernel with this machine's files, and can write to none of them.
/// The guest has cgroups that limit one in the background.
#[test]
fn a_command_runs_in_the_guest_with_the_programs_of_the_host() {
    let release = needs!(kernel());
    let (before, scratch) = (traces(), scratch());
    let line = "uname -r > release; ! touch /usr/mine 2> /dev/null; test -d /proc/self && ls / | tr '\\n' ' '; cat release";
    let plan = format!(
        "in = 'vm'\nsize = '96M'\nmemory = '512M'\ncpus = 2\n[repetition]\nblocks = 1\n[[workload]]\nname = 'command'\n\
         command = \"{line}\"\n[[workload]]\nname = 'stat'\nfiles = 20\nsample_time = '1s'\n\
         background = {{ command = 'while :; do :; done', durability = 'none', limit = {{ cpus = 0.2, write_bps = '1M' }} }}\n\
         [[workload]]\nname = 'command'\ncommand = 'cat /proc/self/cgroup /sys/fs/cgroup/io.cost.qos'\nsample_time = '1s'\n\
         background = {{ name = 'write', file_size = '1M', block_size = '64K', limit = {{ io_weight = 10 }} }}\n"
    );
    std::fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let run = command(scratch.path(), "run plan.toml ext4 --out run")
        .env("XDG_CACHE_HOME", cache())
        .output();
    let output = run.expect("the program starts");
    expect_code(&output, 0);
    expect_no_traces(&before);
    let all = counting(&scratch.path().join("run"));
    let measured = || all.iter().filter(|trial| trial["phase"] == "measured");
    assert!(
        measured().count() == 5 && measured().all(|trial| trial["outcome"] == "ok"),
        "{all:#?}"
    );
    let said: Vec<_> = measured()
        .filter_map(|trial| trial["observed"]["output"].as_str())
        .collect();
    let says = |word: &str| said.iter().filter(|text| text.contains(word)).count();
    assert_eq!((says("usr "), says(&release)), (1, 1), "{said:?}");
    assert_eq!(
        (says("0::/\n"), says("0::/fsb-"), says("enable=1")),
        (1, 1, 1),
        "shares need two cgroups: {said:?}"
    );
    let is_limited = |trial: &&Value| trial["workload"].as_str().unwrap().contains("cpus 0.2");
    let work = &measured().find(is_limited).unwrap()["observed"]["background"];
    let [seconds, cpu] = ["seconds", "cpu_seconds"].map(|field| work[field].as_f64().unwrap());
    // The quota of one more period, and what starts and ends the command on emulated processors.
    assert!(cpu > 0.0 && cpu < 0.2 * seconds + 0.5, "{work}");
    assert!(!Path::new("/usr/mine").exists());
}

// Kernels as a dimension of a plan, and targets that some kernels cannot make.

/// Returns the release and the image of a kernel other than `first`.
fn another(first: &str) -> Result<(String, PathBuf), String> {
    let release = fetched(&other_cache()).map_or_else(|| fetch_another(first), Ok)?;
    Ok((
        release.clone(),
        other_cache()
            .join("fsb/kernels")
            .join(release)
            .join("vmlinuz"),
    ))
}

/// Fetches Debian's backported kernel if the archive has it, else any other one.
fn fetch_another(first: &str) -> Result<String, String> {
    let backport = fetch("linux-image-6.12-amd64", &other_cache());
    backport.or_else(|why| {
        let names = Command::new("apt-cache")
            .args(["pkgnames", "linux-image-"])
            .output();
        let names = names
            .map(|output| stdout(&output))
            .map_err(|error| error.to_string())?;
        let is_release = |name: &&str| {
            let plain = !["cloud", "rt", "unsigned", "dbg"]
                .iter()
                .any(|word| name.contains(word));
            let own = name
                .strip_prefix("linux-image-")
                .is_none_or(|release| release == first);
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
    // With this seed the block begins on the kernel that the warm-up ended with: three boots in
    // all.
    let kernels = ["--kernel", &first, "--kernel", image.to_str().unwrap()];
    let arguments = [
        &["run", "two.toml", "--seed", "16", "--out", "run"][..],
        &kernels,
    ]
    .concat();
    let output = without("mkfs.nilfs2", scratch.path(), &arguments);
    expect_code(&output, 0);

    let run = scratch.path().join("run");
    let record = record(&run);
    let mut names: Vec<_> = record["targets"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
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
        assert_eq!(
            (&one["features"], &one["mkfs_command"]),
            (&two["features"], &two["mkfs_command"]),
            "{fs}"
        );
        assert_eq!(
            (&one["kernel"], &two["kernel"]),
            (&kernel.as_str().into(), &other.as_str().into())
        );
    }
    assert_eq!(
        record["segments"][0]["kernel"],
        format!("{kernel} and {other}")
    );
    assert_eq!(record["vm"]["kernels"].as_object().unwrap().len(), 2);
    let why = |fs: &str, release: &str| {
        target(fs, release)["unavailable"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(
        why("jfs", &kernel).contains("jfs"),
        "{}",
        why("jfs", &kernel)
    );
    assert_eq!(why("jfs", &other), "");
    for release in [&kernel, &other] {
        assert!(
            why("nilfs2", release).contains("nilfs-tools"),
            "{}",
            why("nilfs2", release)
        );
        let name = format!("nilfs2%{release}");
        let is_told = |message: &Value| {
            message["code"] == "warning/target-unavailable"
                && message["fields"]["target"] == name.as_str()
        };
        assert!(
            messages(&output).iter().any(is_told),
            "{name}: {}",
            stderr(&output)
        );
    }

    let made = counting(&run);
    let text = |trial: &Value, name: &str| trial[name].as_str().unwrap_or_default().to_owned();
    for trial in &made {
        let (name, release) = (text(trial, "target"), text(trial, "kernel"));
        assert!(name.ends_with(&format!("%{release}")), "{trial:#}");
        let there = why(name.split('%').next().unwrap(), &release).is_empty();
        assert_eq!(
            text(trial, "outcome"),
            if there { "ok" } else { "not_applicable" },
            "{trial:#}"
        );
    }
    assert_eq!(made.len(), 2 * 2 * 8, "warm-up and a block, two cells");
    // A guest runs as long as its kernel is needed; a target that cannot be made needs none.
    let mut kernels_of_trials: Vec<_> = made
        .iter()
        .filter(|trial| trial["outcome"] == "ok")
        .map(|t| text(t, "kernel"))
        .collect();
    kernels_of_trials.dedup();
    let said = messages(&output);
    let boots: Vec<_> = said
        .iter()
        .filter_map(|line| line["fields"]["activity"]["kernel"].as_str())
        .collect();
    assert_eq!(boots, kernels_of_trials);
    expect_no_traces(&before);
}

// NFS in a guest: cold, counted, unsafe where the export is asynchronous, and delayed as requested.
// One run serves these tests: a guest takes a quarter of a minute to boot and to serve NFS.

const SLOW: &str = "nfs,delay=20ms";
const NARROW: &str = "nfs,vers=3,async,rate=16M";
const GANESHA: &str = "nfs,server=ganesha";
const SMALL_CALLS: &str = "nfs,async,nconnect=2,wsize=16K";

/// Targets, and a mount option that the kernel shows of each.
const NFS_TARGETS: [(&str, &str); 8] = [
    ("nfs", "vers=4.2"),
    (SMALL_CALLS, "wsize=16384"),
    ("nfs,vers=4.0", "vers=4.0"),
    ("nfs,vers=3", "vers=3"),
    (SLOW, "vers=4.2"),
    (NARROW, "vers=3"),
    (GANESHA, "vers=4.2"),
    ("nfs,server=ganesha,export=ext3,vers=4.1", "vers=4.1"),
];

/// Returns the directory of a run of the targets of NFS and of ext4. The tests share it.
fn nfs_run() -> Result<&'static Path, String> {
    static RUN: OnceLock<PathBuf> = OnceLock::new();
    let kernel = kernel()?;
    fsb_testkit::programs(&["ganesha.nfsd"])?;
    let made = RUN.get_or_init(|| {
        let plan = format!("{PLAN}[[workload]]\nname = 'create'\nfiles = 5\ndurability = 'each'\n");
        let plan = plan.replace("size = '96M'", "size = '576M'");
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nfs-run");
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join("nfs.toml"), plan).unwrap();
        let targets = NFS_TARGETS.map(|(target, _)| target);
        let arguments = [
            &[
                "run", "nfs.toml", "--kernel", &kernel, "--out", "run", "ext4",
            ],
            &targets[..],
        ];
        let output = command(&place, &arguments.concat())
            .env("XDG_CACHE_HOME", cache())
            .output()
            .unwrap();
        expect_code(&output, 0);
        place
    });
    Ok(made)
}

/// Returns the trials of a target, which all succeeded.
fn trials_of(directory: &Path, target: &str) -> Vec<Value> {
    let made: Vec<_> = counting(&directory.join("run"))
        .into_iter()
        .filter(|trial| trial["target"] == target)
        .collect();
    assert_eq!(made.len(), 6, "{target}: warm-up and one block");
    assert!(
        made.iter().all(|trial| trial["outcome"] == "ok"),
        "{made:#?}"
    );
    made
}

fn count(trial: &Value, field: &str) -> u64 {
    trial["observed"]["rpcs"][field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field}: {trial:#}"))
}

#[test]
fn nfs_moves_all_data_over_the_wire_and_reads_it_again_from_the_device() {
    let directory = needs!(nfs_run());
    const BYTES: u64 = 1 << 20;
    let record = record(&directory.join("run"));
    for (target, option) in NFS_TARGETS {
        for trial in trials_of(directory, target) {
            assert!(metric(&trial, "rpcs_per_operation") > 0.0, "{trial:#}");
            assert!(
                metric(&trial, "wire_bytes_per_operation") > 0.0,
                "{trial:#}"
            );
            match trial["operation"].as_str() {
                Some("read") => {
                    assert!(
                        count(&trial, "read_bytes") >= BYTES
                            && count(&trial, "received_bytes") >= BYTES,
                        "{trial:#}"
                    );
                    assert!(
                        trial["observed"]["device_read_bytes"].as_u64() >= Some(BYTES),
                        "{trial:#}"
                    );
                }
                Some("write") => assert!(count(&trial, "sent_bytes") >= BYTES, "{trial:#}"),
                _ => assert!(count(&trial, "sent_bytes") > 0, "{trial:#}"),
            }
        }
        let options = record["targets"][target]["mount_options"]
            .as_array()
            .unwrap();
        assert!(
            options.iter().any(|shown| shown == option),
            "{target}: {options:?}"
        );
        let driver = record["targets"][target]["driver"]
            .as_str()
            .unwrap_or_default();
        assert_eq!(
            driver.to_lowercase().contains("ganesha"),
            target.contains("ganesha"),
            "{target}: {driver}"
        );
    }
    assert!(
        trials_of(directory, "ext4")
            .iter()
            .all(|trial| trial["observed"]["rpcs"].is_null())
    );
    let notes = command(directory, "report run --notes").output().unwrap();
    assert!(
        stdout(&notes).contains("Round trips to the NFS server"),
        "{}",
        stdout(&notes)
    );
}

#[test]
fn an_asynchronous_export_flushes_nothing_and_is_marked() {
    let directory = needs!(nfs_run());
    let written = |target: &str| {
        trials_of(directory, target)
            .into_iter()
            .find(|trial| trial["operation"] == "write")
    };
    for (target, _) in NFS_TARGETS {
        let trial = written(target).unwrap();
        let flushes = trial["observed"]["device_flushes"].as_u64().unwrap();
        assert_eq!(flushes == 0, target.contains("async"), "{trial:#}");
    }
    let writes =
        |target: &str| written(target).unwrap()["observed"]["rpcs"]["procedures"]["WRITE"].as_u64();
    assert!(
        writes(SMALL_CALLS) > writes("nfs"),
        "smaller calls are more calls"
    );
    let record = record(&directory.join("run"));
    assert_eq!(record["targets"][SMALL_CALLS]["risks"][0]["cause"], "async");
    let options = record["targets"][SMALL_CALLS]["mount_options"].to_string();
    assert!(
        options.contains("vers=4.2") && options.contains("nconnect=2"),
        "{options}"
    );
    assert!(
        record["targets"]["nfs"]["risks"]
            .as_array()
            .is_none_or(Vec::is_empty),
        "{}",
        record["targets"]["nfs"]
    );
}

#[test]
fn the_network_of_nfs_has_the_requested_delay_and_rate() {
    let directory = needs!(nfs_run());
    for trial in trials_of(directory, SLOW)
        .into_iter()
        .chain(trials_of(directory, NARROW))
    {
        let work = &trial["workers"][0];
        let number = |field: &str| work[field].as_f64().unwrap();
        // Lower bounds, which a busy machine cannot break.
        let least = match (trial["target"] == SLOW, trial["operation"].as_str()) {
            (true, Some("create")) => number("operations") * 0.02,
            (true, _) => 0.02,
            (false, Some("create")) => 0.0,
            (false, _) => number("bytes") * 8.0 / 16e6,
        };
        assert!(
            number("timed_ns") * 1e-9 >= least,
            "at least {least} s: {trial:#}"
        );
    }
}

/// Work that applies to two clients, and one whose single thread leaves a client idle.
const WORK_OF_CLIENTS: &str = "
[[workload]]
name = 'delete'
files = 10
threads = 2
[[workload]]
name = 'write'
file_size = '1M'
block_size = '64K'
durability = 'end'
threads = 2
[[workload]]
name = 'append'
file_size = '256K'
block_size = '64K'
durability = 'end'
processes = 2
[[workload]]
name = 'read'
file_size = '1M'
block_size = '64K'
cache = 'cold'
threads = 2
[[workload]]
name = 'stat'
files = 10
";

#[test]
fn each_client_of_nfs_has_a_cache_of_its_own() {
    const TARGETS: [&str; 3] = [
        "nfs,clients=2",
        "nfs,clients=2,vers=3",
        "nfs,clients=2,server=ganesha,delay=1ms",
    ];
    let kernel = needs!(kernel());
    needs!(fsb_testkit::programs(&["ganesha.nfsd"]));
    let scratch = scratch();
    let (settings, _) = PLAN.split_once("[[workload]]").unwrap();
    let plan = settings.replace("size = '96M'", "size = '192M'") + WORK_OF_CLIENTS;
    std::fs::write(scratch.path().join("clients.toml"), plan).unwrap();
    let arguments = [
        &["run", "clients.toml", "--kernel", &kernel, "--out", "run"],
        &TARGETS[..],
    ]
    .concat();
    let output = command(scratch.path(), &arguments)
        .env("XDG_CACHE_HOME", cache())
        .output()
        .unwrap();
    expect_code(&output, 0);
    let record = record(&scratch.path().join("run"));
    for target in TARGETS {
        let trials = counting(&scratch.path().join("run"))
            .into_iter()
            .filter(|trial| trial["target"] == target);
        let (idle, work): (Vec<_>, Vec<_>) = trials.partition(|trial| trial["operation"] == "stat");
        assert!(
            !idle.is_empty()
                && idle
                    .iter()
                    .all(|trial| trial["outcome"] == "not_applicable"),
            "{idle:#?}"
        );
        assert_eq!(work.len(), 8, "{target}: warm-up and one block");
        for trial in work {
            assert_eq!(trial["outcome"], "ok", "{trial:#}");
            let bytes: u64 = trial["workers"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["bytes"].as_u64().unwrap())
                .sum();
            let second = trial["workers"][1]["operations"].as_u64().unwrap();
            match trial["operation"].as_str().unwrap() {
                // The first client made the files, so the second one looks for its half.
                "delete" => {
                    let lookups = trial["observed"]["rpcs"]["procedures"]["LOOKUP"]
                        .as_u64()
                        .unwrap_or(0);
                    assert!(second > 0 && lookups >= second, "{trial:#}");
                }
                // A client that the sync leaves out would send its half after the clock.
                "write" | "append" => assert!(
                    second > 0 && count(&trial, "sent_bytes") >= bytes,
                    "{trial:#}"
                ),
                _ => assert!(
                    second > 0 && count(&trial, "read_bytes") >= bytes,
                    "{trial:#}"
                ),
            }
        }
        let notes = record["targets"][target]["notes"].to_string();
        assert!(notes.contains("2 clients: thread n"), "{notes}");
    }
}

#[test]
fn nfs_is_refused_on_this_machine_with_the_next_step() {
    let scratch = scratch();
    let output = command(scratch.path(), &["run", "nfs", "--out", "run", JSON])
        .output()
        .unwrap();
    let error = expect_error(&output, 3, "target/only-in-a-guest");
    assert!(
        error["help"].as_str().unwrap().contains("--in vm"),
        "{error}"
    );
    assert!(!scratch.path().join("run").exists(), "nothing was begun");
}
