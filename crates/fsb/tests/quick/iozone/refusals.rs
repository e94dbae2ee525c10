//! Unsupported requests are refused by name before anything is changed.

use std::os::unix::fs::FileTypeExt;

use super::{iozone, listing};
use crate::common::{expect_code, expect_refusals, fails, scratch};

/// Options, and the code of the error.
#[rustfmt::skip] // a table reads as one
const TABLE: &[(&str, &str)] = &[
    ("-+m hosts", "iozone/invalid-options"),
    ("-E", "iozone/invalid-options"),
    ("-a -Z", "iozone/invalid-options"),
    ("-X file", "iozone/invalid-options"),
    ("-+x 3", "iozone/invalid-options"),
    ("-+t", "iozone/invalid-options"),
    ("-?", "iozone/invalid-options"),
    ("-+", "iozone/invalid-options"),
    ("-+Y", "iozone/invalid-options"),
    ("--repeat-untill 1s", "iozone/invalid-options"),
    ("--repeat-until 0", "iozone/invalid-options"),
    ("--repeat-until often", "iozone/invalid-options"),
    ("surplus", "iozone/invalid-options"),
    ("-s", "iozone/invalid-options"),
    ("-s 0", "iozone/invalid-options"),
    ("-s -5", "iozone/invalid-options"),
    ("-s 5x", "iozone/invalid-options"),
    ("-s 99999999999g", "iozone/invalid-options"),
    ("-r 0", "iozone/invalid-options"),
    ("-r 17m", "iozone/invalid-options"),
    ("-s 64k -r 128k", "iozone/invalid-options"),
    ("-s 100k -r 64k", "iozone/invalid-options"),
    ("-a -n 2", "iozone/invalid-options"),
    ("-a -y 1m -q 64k", "iozone/invalid-options"),
    ("-y 16 -q 4 -a -g 64", "iozone/invalid-options"),
    ("-a -n 1m -g 64k", "iozone/invalid-options"),
    ("-a -s 100 -r 64", "iozone/invalid-options"),
    ("-a -g 32", "iozone/invalid-options"),
    ("-b out.xlsx -f out.xlsx", "arguments/conflict"),
    ("-b ./out.xlsx -f out.xlsx", "arguments/conflict"),
    ("-b hard -i 1 -s 4 -f short", "iozone/invalid-options"),
    ("-t 2 -F a b -b b", "arguments/conflict"),
    ("-Q -f wol.dat", "arguments/conflict"),
    ("-n 64", "iozone/invalid-options"),
    ("-i 13", "iozone/invalid-options"),
    ("-i read", "iozone/invalid-options"),
    ("-i 11", "iozone/invalid-options"),
    ("-i 0 -i 9", "iozone/invalid-options"),
    ("-i 0 -i 8", "iozone/invalid-options"),
    ("-j 0", "iozone/invalid-options"),
    ("-t 0", "iozone/invalid-options"),
    ("-t 257", "iozone/invalid-options"),
    ("-t 2 -f f", "iozone/invalid-options"),
    ("-t 2 -F a", "iozone/invalid-options"),
    ("-t 2 -F a b c", "iozone/invalid-options"),
    ("-t 2 -F a a", "iozone/invalid-options"),
    ("-t 2 -a", "iozone/invalid-options"),
    ("-t 2 -N", "iozone/invalid-options"),
    ("-t 2 -i 4", "iozone/invalid-options"),
    ("-l 4 -u 2", "iozone/invalid-options"),
    ("-F a b", "iozone/invalid-options"),
    ("-T", "iozone/invalid-options"),
    ("-x", "iozone/invalid-options"),
    ("-C", "iozone/invalid-options"),
    ("-+p 50", "iozone/invalid-options"),
    ("-+p 0 -t 2", "iozone/invalid-options"),
    ("-B -H 4", "iozone/invalid-options"),
    ("-H 2 -k 2", "iozone/invalid-options"),
    ("-H 0", "iozone/invalid-options"),
    ("-B -D -G", "iozone/invalid-options"),
    ("-G", "iozone/invalid-options"),
    ("-I -B", "iozone/invalid-options"),
    ("-B -i 0 -i 6", "iozone/invalid-options"),
    ("-V 300", "iozone/invalid-options"),
    ("-V 3 --repeat-until 1s", "iozone/invalid-options"),
    ("-k 65536 -s 64g -r 16m", "iozone/invalid-options"),
    ("-i 1", "iozone/invalid-options"),
    ("-i 1 -i 2 -f nothing", "iozone/invalid-options"),
    ("-i 1 -f short -s 64", "iozone/invalid-options"),
    ("-f .", "iozone/invalid-options"),
    ("-f missing/f", "iozone/invalid-options"),
    ("-f short/f", "iozone/invalid-options"),
    ("-f dangling", "iozone/invalid-options"),
    ("-f pipe", "iozone/invalid-options"),
    ("-f /dev/null", "iozone/invalid-options"),
    ("-t 2 -F short hard", "iozone/invalid-options"),
    ("-f link", "iozone/invalid-options"),
    ("-i 1 -f link", "iozone/invalid-options"),
    ("-t 2 -F new link", "iozone/invalid-options"),
    ("-b .", "output/unwritable"),
    ("-b missing/out.xlsx", "output/unwritable"),
];

/// Requests that this machine cannot perform.
const MACHINE: &[(&str, &str)] = &[
    ("-P 1023", "iozone/invalid-options"),
    ("-s 900000g -r 1m", "machine/no-space"),
    ("-a -g 900000g", "machine/no-space"),
    ("-t 200 -s 9000g -r 1m", "machine/no-space"),
];

#[test]
fn a_bad_request_is_told_what_is_wrong_and_leaves_nothing() {
    let directory = scratch();
    let path = directory.path();
    std::fs::write(path.join("short"), "bytes").unwrap();
    std::os::unix::fs::symlink("nowhere", path.join("dangling")).unwrap();
    std::os::unix::fs::symlink("short", path.join("link")).unwrap();
    std::fs::hard_link(path.join("short"), path.join("hard")).unwrap();
    std::process::Command::new("mkfifo").arg(path.join("pipe")).status().unwrap();
    let before = listing(path);
    let requests: Vec<(Vec<&str>, &str)> = TABLE
        .iter()
        .map(|(line, code)| (std::iter::once("iozone").chain(line.split_whitespace()).collect(), *code))
        .collect();
    let requests: Vec<(&[&str], &str)> = requests.iter().map(|(words, code)| (words.as_slice(), *code)).collect();
    expect_refusals("iozone", path, &requests);
    // These messages contain sizes and processors of this machine.
    for (line, code) in MACHINE {
        let words: Vec<&str> = std::iter::once("iozone").chain(line.split_whitespace()).collect();
        fails(path, &words, if *code == "machine/no-space" { 3 } else { 2 }, code);
    }
    assert_eq!(listing(path), before);
    assert_eq!(std::fs::read(path.join("short")).unwrap(), b"bytes");
}

#[test]
fn a_block_device_is_never_written_not_even_through_a_link() {
    let directory = scratch();
    let is_block =
        |path: &std::path::Path| path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device());
    let devices = std::fs::read_dir("/dev").unwrap().flatten().map(|entry| entry.path());
    let Some(device) = devices.into_iter().find(|path| is_block(path)) else { return };
    std::os::unix::fs::symlink(&device, directory.path().join("link")).unwrap();
    for name in [device.to_str().unwrap(), "link"] {
        let arguments = ["iozone", "-s", "64", "-r", "4", "-f", name];
        let error = fails(directory.path(), &arguments, 2, "iozone/invalid-options");
        assert_eq!(error["fields"]["kind"], "block_device", "{error}");
    }
    assert!(device.exists());
}

/// A file system that accepts O_DIRECT but uses the cache, or refuses it, does not measure direct I/O.
#[test]
fn o_direct_is_refused_where_it_cannot_be() {
    let shm = tempfile::Builder::new().prefix("fsb-test-").tempdir_in("/dev/shm").unwrap();
    let arguments = ["iozone", "-I", "-s", "64", "-r", "4", "-i", "0", "-f", "f"];
    fails(shm.path(), &arguments, 3, "iozone/unable");
    assert_eq!(listing(shm.path()), Vec::<String>::new());
    // Records smaller than a block of the device cannot bypass the cache anywhere.
    let directory = scratch();
    let output = iozone(directory.path(), "-I -s 63 -r 1 -i 0 -f f");
    if output.status.code() != Some(0) {
        expect_code(&output, 3);
        assert_eq!(listing(directory.path()), Vec::<String>::new());
    }
}
