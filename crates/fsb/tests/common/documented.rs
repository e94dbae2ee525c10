//! Results, runs and a trace, by the names that the documentation uses.

use std::fs;
use std::path::Path;

use super::{fast_plan, scratch, succeeds};

/// Puts the trace that the documentation calls `app.trace` into a directory.
pub fn lay_trace(directory: &Path) {
    let log = "fio version 2 iolog\ndata add\ndata open\ndata write 0 4096\ndata datasync 0 0\ndata close\n";
    fs::write(directory.join("app.log"), log).unwrap();
    succeeds(directory, "trace import app.log -o app.trace");
}

/// Creates a directory with results of the names that the documentation uses.
pub fn lay_results() -> tempfile::TempDir {
    let directory = scratch();
    let at = |name: &str| directory.path().join(name);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    for (from, set, number) in [
        ("ext4/ext4_", "ext4", 5),
        ("xfs/xfs", "xfs", 5),
        ("ext4/ext4_", "btrfs", 5),
    ]
    .map(|(f, s, n)| (f, s, 1..=n))
    {
        for directory in ["runs", set] {
            fs::create_dir_all(at(directory)).unwrap();
            for number in number.clone() {
                let from = data.join(format!("iozone-2010/{from}{number}.iozone"));
                fs::copy(from, at(directory).join(format!("{set}{number}.iozone"))).unwrap();
            }
        }
    }
    for set in ["old", "new"] {
        fs::create_dir(at(set)).unwrap();
        for number in 0..5 {
            fs::copy(
                data.join("tool-output/fio-3.33.json"),
                at(set).join(format!("{number}.json")),
            )
            .unwrap();
            fs::copy(
                data.join("tool-output/fio-3.33.json"),
                at(&format!("{set}{number}.json")),
            )
            .unwrap();
        }
        fs::copy(
            data.join("tool-output/fio-3.33.json"),
            at(&format!("{set}.json")),
        )
        .unwrap();
    }
    let job = fs::read_to_string(data.join("tool-output/fio-3.33.json")).unwrap();
    fs::write(at("4k.json"), &job).unwrap();
    fs::write(
        at("8k.json"),
        job.replace("\"bs\" : \"4k\"", "\"bs\" : \"8k\""),
    )
    .unwrap();
    fs::write(
        at("create.csv"),
        "#,value,unit\n1,2103.5,µs\n2,1988.25,µs\n",
    )
    .unwrap();
    for name in ["a.txt", "b.txt"] {
        fs::copy(data.join("tool-output/postmark-1.53.txt"), at(name)).unwrap();
    }
    lay_trace(directory.path());
    fast_plan(directory.path());
    for (name, targets) in [
        ("20261120T150405Z-ext4", &["ext4=null"][..]),
        ("20261127T150405Z-ext4", &["ext4=null"]),
        ("20261120T150405Z-ext4-xfs", &["ext4=null", "xfs=null"]),
    ] {
        let out = format!("fsb-results/{name}");
        fs::create_dir_all(at("fsb-results")).unwrap();
        let line: Vec<&str> = ["run", "fast.toml", "--blocks", "1", "-q", "--out", &out]
            .into_iter()
            .chain(targets.iter().copied())
            .collect();
        succeeds(directory.path(), &line);
    }
    for page in ["ours.html", "theirs.html"] {
        let line = [
            "publish",
            "fsb-results/20261120T150405Z-ext4-xfs",
            "-o",
            page,
        ];
        succeeds(directory.path(), &line);
    }
    for run in (1..=6).map(|number| at(&format!("RUN{number}"))) {
        fs::create_dir(&run).unwrap();
        for file in ["run.json", "trials.jsonl"] {
            fs::copy(
                at("fsb-results/20261120T150405Z-ext4-xfs").join(file),
                run.join(file),
            )
            .unwrap();
        }
    }
    directory
}
