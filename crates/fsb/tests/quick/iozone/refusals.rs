//! Unsupported requests are refused by name before anything is touched.

use std::os::unix::fs::FileTypeExt;

use super::{iozone, listing};
use crate::common::{expect_code, scratch, stderr};

/// Options, the exit code, and what the message must hold.
#[rustfmt::skip] // a table reads as one
const TABLE: &[(&str, i32, &str)] = &[
    ("-+m hosts", 2, "-+m (cluster testing) is not supported"),
    ("-E", 2, "-E (the extension tests"),
    ("-a -Z", 2, "-Z"),
    ("-X file", 2, "-X (write telemetry)"),
    ("-+x 3", 2, "-+x (another multiplier"),
    ("-+t", 2, "-+t (a test of the network)"),
    ("-?", 2, "IOzone has no option -?"),
    ("-+", 2, "-+ needs a letter"),
    ("-+Y", 2, "no option -+Y"),
    ("--repeat-untill 1s", 2, "did you mean '--repeat-until'"),
    ("--repeat-until 0", 2, "from 1ms"),
    ("--repeat-until often", 2, "is not a duration"),
    ("surplus", 2, "'surplus'"),
    ("-s", 2, "-s needs a value: -s SIZE"),
    ("-s 0", 2, "-s 0: write a size"),
    ("-s -5", 2, "-s -5: write a size"),
    ("-s 5x", 2, "-s 5x: write a size"),
    ("-s 99999999999g", 2, "write a size"),
    ("-r 0", 2, "-r 0: write a size"),
    ("-r 17m", 2, "largest record is 16m"),
    ("-s 64k -r 128k", 2, "a record of 128 kB is larger than a file of 64 kB"),
    ("-s 100k -r 64k", 2, "not a multiple"),
    ("-a -n 2", 2, "smallest file is 4 kB"),
    ("-a -y 1m -q 64k", 2, "-y (1024 kB) is above -q (64 kB)"),
    ("-y 16 -q 4 -a -g 64", 2, "-y (16 kB) is above -q (4 kB)"),
    ("-a -n 1m -g 64k", 2, "-n (1024 kB) is above -g (64 kB)"),
    ("-a -s 100 -r 64", 2, "not a multiple"),
    ("-a -g 32", 2, "no size lies between the limits"),
    ("-b out.xlsx -f out.xlsx", 2, "out.xlsx, the file under test"),
    ("-b ./out.xlsx -f out.xlsx", 2, "name another file"),
    ("-b hard -i 1 -s 4 -f short", 2, "it has 5 bytes"),
    ("-t 2 -F a b -b b", 2, "would overwrite b"),
    ("-Q -f wol.dat", 2, "would overwrite wol.dat"),
    ("-n 64", 2, "limit automatic mode"),
    ("-i 13", 2, "from 0 to 12"),
    ("-i read", 2, "write a whole number"),
    ("-i 11", 2, "-E, which is not supported"),
    ("-i 0 -i 9", 2, "throughput mode"),
    ("-i 0 -i 8", 2, "throughput mode"),
    ("-j 0", 2, "from 1"),
    ("-t 0", 2, "from 1 to 256"),
    ("-t 257", 2, "from 1 to 256"),
    ("-t 2 -f f", 2, "-F in place of -f"),
    ("-t 2 -F a", 2, "names 1 files"),
    ("-t 2 -F a b c", 2, "names 3 files"),
    ("-t 2 -F a a", 2, "names a twice"),
    ("-t 2 -a", 2, "not with -a"),
    ("-t 2 -N", 2, "-N is not for -t"),
    ("-t 2 -i 4", 2, "not a throughput test"),
    ("-l 4 -u 2", 2, "-l is more than -u"),
    ("-F a b", 2, "-F is for throughput mode"),
    ("-T", 2, "-T is for throughput mode"),
    ("-x", 2, "-x is for throughput mode"),
    ("-C", 2, "-C is for throughput mode"),
    ("-+p 50", 2, "-+p is for throughput mode"),
    ("-+p 0 -t 2", 2, "from 1 to 100"),
    ("-B -H 4", 2, "-H and -k go with neither"),
    ("-H 2 -k 2", 2, "exclude each other"),
    ("-H 0", 2, "from 1"),
    ("-B -D -G", 2, "-D and -G exclude each other"),
    ("-G", 2, "needs -B"),
    ("-I -B", 2, "exclude each other"),
    ("-B -i 0 -i 6", 2, "C stdio"),
    ("-V 300", 2, "from 0 to 255"),
    ("-V 3 --repeat-until 1s", 2, "choose one"),
    ("-P 1023", 2, "not a processor for this process"),
    ("-k 65536 -s 64g -r 16m", 2, "choose a smaller depth"),
    ("-i 1", 2, "add -i 0"),
    ("-i 1 -i 2 -f nothing", 2, "there is none"),
    ("-i 1 -f short -s 64", 2, "it has 5 bytes"),
    ("-f .", 2, "is a directory"),
    ("-f missing/f", 2, "missing"),
    ("-f short/f", 2, "short"),
    ("-f dangling", 2, "a dangling symbolic link"),
    ("-f pipe", 2, "is a pipe"),
    ("-f /dev/null", 2, "is a character device"),
    ("-t 2 -F short hard", 2, "are one file"),
    ("-f link", 2, "link is a symbolic link to /"),
    ("-i 1 -f link", 2, "/short: the tests would overwrite that file"),
    ("-t 2 -F new link", 2, "link is a symbolic link to /"),
    ("-b .", 2, "is a directory"),
    ("-b missing/out.xlsx", 2, "cannot write missing/out.xlsx"),
    ("-s 900000g -r 1m", 3, "too small for these tests"),
    ("-a -g 900000g", 3, "choose a smaller -g"),
    ("-t 200 -s 9000g -r 1m", 3, "files need"),
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
    for (line, code, expected) in TABLE {
        let output = iozone(path, line);
        assert_eq!(output.status.code(), Some(*code), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{line}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{line}: {}", crate::common::stdout(&output));
        assert_eq!(listing(path), before, "{line}");
    }
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
        let output = iozone(directory.path(), &format!("-s 64 -r 4 -f {name}"));
        expect_code(&output, 2);
        assert!(stderr(&output).contains("is a block device"), "{}", stderr(&output));
    }
    assert!(device.exists());
}

/// A file system that takes O_DIRECT and caches all the same, or refuses it, measures something else.
#[test]
fn o_direct_is_refused_where_it_cannot_be() {
    let shm = tempfile::Builder::new().prefix("fsb-test-").tempdir_in("/dev/shm").unwrap();
    let output = iozone(shm.path(), "-I -s 64 -r 4 -i 0 -f f");
    expect_code(&output, 3);
    assert!(stderr(&output).contains("O_DIRECT"), "{}", stderr(&output));
    assert_eq!(listing(shm.path()), Vec::<String>::new());
    // Records below a device's block cannot go past the cache anywhere.
    let directory = scratch();
    let output = iozone(directory.path(), "-I -s 63 -r 1 -i 0 -f f");
    if output.status.code() != Some(0) {
        expect_code(&output, 3);
        assert_eq!(listing(directory.path()), Vec::<String>::new());
    }
}
