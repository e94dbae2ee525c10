//! The workload in plans: suites, and the tables of published runs.

use crate::common::{expect_code, expect_no_traces, fsb, scratch, traces, trials};

#[test]
fn a_mail_server_runs_on_real_file_systems_and_leaves_nothing() {
    needs!(root);
    let directory = scratch();
    let before = traces();
    let plan = "targets = ['ext4', 'ext3,data=journal', 'tmpfs']\nsize = '320M'\n[controls]\nguest-memory = 'off'\n\
                [repetition]\nblocks = 1\nsample_time = '10ms'\n\
                [[workload]]\nname = 'postmark'\nnumber = 100\ntransactions = 500\ndurability = 'end'\nverify = true\n\
                [[workload]]\nname = 'postmark'\nnumber = 100\ntransactions = 500\nthreads = 2\n\
                [[workload]]\nname = 'postmark'\nnumber = 100\ntransactions = 500\nprocesses = 2\nverify = true\n\
                [[workload]]\nname = 'postmark'\nlabel = 'dry'\nnumber = 2\ntransactions = 500\nbias_create = 1\n";
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), &["run", "plan.toml", "--out", "out"]);
    expect_code(&output, 4);
    for trial in trials(&directory.path().join("out")) {
        let (label, target) = (trial["workload"].as_str().unwrap(), trial["target"].as_str().unwrap());
        let outcome = match label {
            "dry" => "failed",
            _ if target == "tmpfs" && label.contains("durable") => "not_applicable",
            _ => "ok",
        };
        assert_eq!(trial["outcome"], outcome, "{label} on {target}: {}", trial["error"]);
        if label == "dry" {
            assert_eq!(trial["error_code"], "trial/no-files", "{}", trial["error"]);
        }
    }
    drop(output);
    expect_no_traces(&before);
}
