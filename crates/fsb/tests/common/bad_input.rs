//! Bad input causes no panic, starts no work, and gets its error.

use std::fs;
use std::path::Path;

use crate::common::{command, scratch};

/// Arguments, the exit code, and the error code. `DIR` is a directory with the files made below.
/// The snapshot `bad_input_messages` holds the text of each message.
#[rustfmt::skip]
pub const TABLE: &[(&str, i32, &str)] = &[
    // The command line itself.
    ("", 2, "arguments/missing"),
    ("rnu", 2, "arguments/unknown-command"),
    ("explain", 2, "arguments/unknown-command"),
    ("run", 2, "plan/no-target"),
    ("run --nonsense ext4", 2, "arguments/unknown-option"),
    ("run --blocks", 2, "arguments/missing"),
    ("run --precision 2% --blocks 3 ext4", 2, "arguments/conflict"),
    ("run --resume DIR ext4", 2, "arguments/conflict"),
    ("run null --", 2, "arguments/missing"),
    ("run null -- ./work.sh", 2, "arguments/invalid-value"),
    ("record", 2, "arguments/missing"),
    ("choose null --only --effects", 2, "arguments/conflict"),
    ("choose null --budget 20 min", 2, "arguments/invalid-value"),
    ("choose null --", 2, "arguments/missing"),
    ("run null --budget 20 minutes", 2, "arguments/invalid-value"),
    // Targets.
    ("run full", 2, "target/unknown-file-system"),
    ("run exxt4", 2, "target/unknown-file-system"),
    ("run hammer2", 2, "target/unknown-file-system"),
    ("run ext4,", 2, "target/invalid"),
    ("run ext4,mkfs=\"-i", 2, "target/invalid"),
    ("run =ext4", 2, "target/invalid"),
    ("run name=", 2, "target/invalid"),
    ("run ext4@raid0:/dev/a+/dev/b", 2, "device/not-a-device"),
    ("run ext4 xfs ext5", 2, "target/unknown-file-system"),
    ("run ./DIR/missing", 2, "target/no-directory"),
    ("run DIR/missing", 2, "target/no-directory"),
    ("run DIR/a-file", 2, "target/no-directory"),
    ("run null@ram", 2, "target/no-mkfs"),
    ("run null@/dev/sda", 2, "target/no-mkfs"),
    ("run tmpfs@ram", 2, "target/no-mkfs"),
    ("run null,slowdown=often", 2, "target/unknown-option"),
    ("run null,spede=1", 2, "target/unknown-option"),
    ("run ext4,data=journal,delalloc", 2, "target/unknown-option"),
    ("run ext4,compress=zstd", 2, "target/unknown-option"),
    ("run ext4,commit=never", 2, "target/unknown-option"),
    ("run xfs,allocsize=3G", 2, "target/unknown-option"),
    // Suites and numbers.
    ("run null --suite quik", 2, "plan/unknown-suite"),
    ("run null --suite zzzzzzzz", 2, "plan/unknown-suite"),
    ("run null --blocks 0", 2, "arguments/invalid-value"),
    ("run null --blocks 99999999", 2, "arguments/invalid-value"),
    ("run null --blocks many", 2, "arguments/invalid-value"),
    ("run null --blocks -3", 2, "arguments/unknown-option"),
    ("run null --size huge", 2, "arguments/invalid-value"),
    ("run null --size 0", 2, "plan/invalid"),
    ("run null --size 2GB", 2, "arguments/invalid-value"),
    ("run null --size 5X", 2, "arguments/invalid-value"),
    ("run null --size 99999999999T", 2, "arguments/invalid-value"),
    ("run null --size -5", 2, "arguments/unknown-option"),
    ("run null --tails --format csv", 2, "arguments/conflict"),
    ("run null --notes --format csv", 2, "arguments/conflict"),
    ("run null --budget soon", 2, "arguments/invalid-value"),
    ("run null --budget 0", 2, "arguments/invalid-value"),
    ("run null --budget 99999h", 2, "arguments/invalid-value"),
    ("run null --precision lots", 2, "arguments/invalid-value"),
    ("run null --precision 0%", 2, "arguments/invalid-value"),
    ("run null --theta 0", 2, "arguments/invalid-value"),
    ("run null --theta -3%", 2, "arguments/unknown-option"),
    ("run null --seed x", 2, "arguments/invalid-value"),
    ("run null --seed 99999999999999999999", 2, "arguments/invalid-value"),
    ("run null --control gravity=off", 2, "control/unknown"),
    ("run null --control gravity=off --print-plan", 2, "control/unknown"),
    ("run null --control page-cache=lukewarm", 2, "control/invalid-value"),
    ("run null --control =off", 2, "arguments/invalid-value"),
    ("run null --format odt", 2, "output/unknown-format"),
    ("run null -o report.docx", 2, "output/unknown-format"),
    ("run null -o noatime", 2, "output/unknown-format"),
    ("run null --out DIR/full", 2, "store/not-empty"),
    ("run null --out DIR/a-file", 2, "store/not-a-directory"),
    ("run null --uid minus", 2, "arguments/invalid-value"),
    ("run null --wipe", 2, "arguments/missing"),
    // Plans.
    ("run DIR/missing.toml", 2, "plan/unreadable"),
    ("run DIR/one.toml DIR/two.toml", 2, "plan/several"),
    ("run DIR/garbage.toml", 2, "plan/invalid-value"),
    ("run DIR/elsewhere.toml", 2, "plan/unknown-key"),
    ("run ext4 xfs --size 10M", 2, "plan/invalid"),
    ("run DIR/unknown-key.toml", 2, "plan/unknown-key"),
    ("run DIR/wrong-type.toml", 2, "plan/invalid-value"),
    ("run DIR/bad-target.toml", 2, "plan/invalid-value"),
    ("run DIR/no-workload.toml", 2, "plan/invalid-value"),
    ("run DIR/unknown-param.toml", 2, "plan/invalid-value"),
    ("run DIR/zero-files.toml", 2, "plan/invalid-value"),
    ("run DIR/block-over-file.toml", 2, "plan/invalid-value"),
    ("run DIR/odd-size.toml", 2, "plan/invalid-value"),
    ("run DIR/odd-sizes.toml", 2, "plan/invalid-value"),
    ("run DIR/all-reads.toml", 2, "plan/invalid-value"),
    ("run DIR/no-reads.toml", 2, "plan/invalid-value"),
    ("run DIR/bad-expression.toml", 2, "plan/invalid-value"),
    ("run DIR/twice.toml", 2, "plan/invalid-value"),
    ("run DIR/suite-and-workload.toml", 2, "plan/conflict"),
    ("run DIR/both.toml", 2, "plan/conflict"),
    ("run DIR/no-targets.toml", 2, "plan/no-target"),
    // Run directories.
    ("report DIR/missing", 2, "store/no-run"),
    ("report DIR/full", 2, "store/no-run"),
    ("report DIR/newer", 2, "store/newer"),
    ("report DIR/broken", 2, "store/syntax"),
    ("report DIR/foreign", 2, "store/other-schema"),
    ("run --resume DIR/missing", 2, "store/no-run"),
    ("run --resume DIR/newer", 2, "store/newer"),
    ("report", 2, "arguments/missing"),
    // The other subcommands.
    ("list colours", 2, "list/unknown-family"),
    ("list worklods", 2, "list/unknown-family"),
    ("doctor --dir", 2, "arguments/missing"),
    ("clean everything", 2, "arguments/unknown-option"),
    ("kernel", 2, "arguments/missing"),
    ("kernel fetch", 2, "arguments/missing"),
    ("kernel fetch no;package", 2, "testbed/refused"),
    ("kernel fetch DIR/no-such.deb", 2, "testbed/refused"),
    ("kernel list all", 2, "arguments/unknown-option"),
    ("micro fly --output DIR", 2, "micro/invalid-option"),
    ("micro create --output DIR/missing", 2, "target/no-directory"),
    ("micro create --output DIR --fileCount 0", 2, "micro/invalid-option"),
    ("micro create --output DIR --runCount x", 2, "micro/invalid-option"),
    ("micro read --output DIR --random maybe", 2, "micro/invalid-option"),
    ("micro read --output DIR --sink printer", 2, "micro/invalid-option"),
    ("micro read --output DIR --minLogLevel loud", 2, "micro/invalid-option"),
    ("micro read --output DIR --exportOutput DIR/no/such/x.csv", 2, "output/unwritable"),
];

pub fn make_files(directory: &Path) {
    let write = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
    write("a-file", "");
    write("one.toml", "");
    write("two.toml", "");
    write("garbage.toml", "a = 1\n= = =\n");
    write("unknown-key.toml", "targets = ['null']\nblocs = 3\n");
    write("wrong-type.toml", "targets = 'null'\n");
    write("bad-target.toml", "targets = ['null', 'null,,x']\n");
    write(
        "no-workload.toml",
        "targets = ['null']\n[[workload]]\nname = 'raed'\n",
    );
    write(
        "unknown-param.toml",
        "targets = ['null']\n[[workload]]\nname = 'read'\nfile_sise = '4K'\n",
    );
    write(
        "zero-files.toml",
        "targets = ['null']\n[[workload]]\nname = 'create'\nfiles = 0\n",
    );
    write(
        "block-over-file.toml",
        "targets = ['null']\n[[workload]]\nname = 'read'\nfile_size = '4K'\nblock_size = '8K'\n",
    );
    write(
        "odd-size.toml",
        "targets = ['null']\n[[workload]]\nname = 'rewrite'\nfile_size = '100K'\nblock_size = '64K'\n",
    );
    write(
        "odd-sizes.toml",
        "targets = ['null']\n[[workload]]\nname = 'read'\nfile_size = ['64K', '100K']\nblock_size = '4K..64K'\n",
    );
    write(
        "all-reads.toml",
        "targets = ['null']\n[[workload]]\nname = 'random-mix'\nmix = '120%'\n",
    );
    write(
        "no-reads.toml",
        "targets = ['null']\n[[workload]]\nname = 'random-mix'\nmix = '0%'\n",
    );
    write(
        "bad-expression.toml",
        "targets = ['null']\n[[workload]]\nname = 'read'\nfile_size = 'size/0'\n",
    );
    write(
        "twice.toml",
        "targets = ['null']\n[[workload]]\nname = 'rename'\nfiles = 10\n[[workload]]\nname = 'rename'\nfiles = 20\n",
    );
    write(
        "suite-and-workload.toml",
        "targets = ['null']\nsuite = 'quick'\n[[workload]]\nname = 'rename'\n",
    );
    write("elsewhere.toml", "targets = ['null']\nbugdet = '5m'\n");
    write(
        "both.toml",
        "targets = ['null']\n[repetition]\nblocks = 5\nprecision = '1%'\n",
    );
    write("no-targets.toml", "suite = 'quick'\n");
    for (name, run) in [
        ("newer", "{\"schema\": \"fsbench/run/9\"}"),
        ("broken", "{"),
        ("foreign", "{\"schema\": \"somebody/else/1\"}"),
    ] {
        fs::create_dir(directory.join(name)).unwrap();
        write(&format!("{name}/run.json"), run);
    }
    fs::create_dir(directory.join("full")).unwrap();
    write("full/something", "");
}

/// Runs a line of the table in a directory with its files. Returns the output and that directory.
pub fn run_line(line: &str, format: &str) -> (std::process::Output, tempfile::TempDir) {
    let scratch = scratch();
    make_files(scratch.path());
    let line = line.replace("DIR", &scratch.path().display().to_string());
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let mut command = command(scratch.path(), &arguments);
    (
        command
            .env("FSB_MESSAGE_FORMAT", format)
            .output()
            .expect("the program starts"),
        scratch,
    )
}
