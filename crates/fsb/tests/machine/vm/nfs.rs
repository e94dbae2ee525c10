//! NFS over loopback in a guest: cold, counted, and unsafe where the export is asynchronous.

use serde_json::Value;

use super::*;

fn count(trial: &Value, field: &str) -> u64 {
    trial["observed"]["rpcs"][field].as_u64().unwrap_or_else(|| panic!("{field}: {trial:#}"))
}

#[test]
fn nfs_is_measured_beside_the_exported_file_system_with_its_round_trips() {
    let kernel = needs!(kernel());
    let scratch = scratch();
    let targets = ["ext4", "nfs", "nfs,async,nconnect=2,wsize=16K"];
    let output = run(scratch.path(), &kernel, &[&targets[..], &["--size", "192M", "--out", "run"]].concat()).output();
    let output = output.unwrap();
    expect_code(&output, 0);
    let run = scratch.path().join("run");
    let (record, made) = (record(&run), counting(&run));
    assert_eq!(made.len(), 12, "warm-up and one block");
    for trial in &made {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        if trial["target"] == "ext4" {
            assert!(trial["observed"]["rpcs"].is_null(), "{trial:#}");
            continue;
        }
        let named = |name: &str| trial["metrics"].as_array().unwrap().iter().any(|metric| metric["name"] == name);
        assert!(named("rpcs_per_operation") && named("wire_bytes_per_operation"), "{trial:#}");
        let bytes = trial["bytes"].as_u64().unwrap_or(1 << 20);
        match trial["operation"].as_str() {
            // The client and the device both read all data again.
            Some("read") => {
                assert!(count(trial, "read_bytes") >= bytes && count(trial, "received_bytes") >= bytes, "{trial:#}");
                assert!(trial["observed"]["device_read_bytes"].as_u64() >= Some(bytes), "{trial:#}");
            }
            _ => assert!(count(trial, "sent_bytes") >= bytes, "{trial:#}"),
        }
    }
    let written = |target: &str| made.iter().find(|trial| trial["target"] == target && trial["operation"] == "write");
    let (safe, quick) = (written(targets[1]).unwrap(), written(targets[2]).unwrap());
    assert!(safe["observed"]["device_flushes"].as_u64() > Some(0), "{safe:#}");
    assert_eq!(quick["observed"]["device_flushes"], 0, "the server answered before: {quick:#}");
    let writes = |trial: &Value| trial["observed"]["rpcs"]["procedures"]["WRITE"].as_u64();
    assert!(writes(quick) > writes(safe), "smaller calls are more calls: {quick:#}");
    let target = |name: &str| &record["targets"][name];
    assert_eq!(target(targets[2])["risks"][0]["cause"], "async");
    assert!(target("nfs")["risks"].as_array().is_none_or(Vec::is_empty), "{}", target("nfs"));
    let options = target(targets[2])["mount_options"].to_string();
    assert!(options.contains("vers=4.2") && options.contains("nconnect=2") && options.contains("wsize=16384"));
    let notes = command(scratch.path(), &["report", "run", "--notes"]).output().unwrap();
    assert!(stdout(&notes).contains("Round trips to the NFS server"), "{}", stdout(&notes));
}

#[test]
fn nfs_is_refused_on_this_machine_with_the_next_step() {
    let scratch = scratch();
    let output = command(scratch.path(), &["run", "nfs", "--out", "run", JSON]).output().unwrap();
    let error = expect_error(&output, 3, "target/only-in-a-guest");
    assert!(error["help"].as_str().unwrap().contains("--in vm"), "{error}");
    assert!(!scratch.path().join("run").exists(), "nothing was begun");
}
