//! Requests for a virtual machine that cannot run are refused before anything starts, with the next step.

use super::*;
use crate::common::vm::*;

#[test]
fn a_missing_program_names_its_package() {
    let kernel = needs!(kernel());
    let scratch = scratch();
    let arguments = ["run", "ext4", "--in", "vm", "--kernel", &kernel, "--size", "64M", "--out", "run"];
    let refused = without("qemu-system-x86_64", scratch.path(), &arguments);
    let missing = |output: &Output, program: &str, package: &str| {
        let error = expect_error(output, 3, "testbed/tool-missing");
        assert_eq!((&error["fields"]["program"], &error["fields"]["package"]), (&program.into(), &package.into()));
        assert!(error["help"].as_str().unwrap().contains(&format!("apt-get install {package}")), "{error}");
    };
    missing(&refused, "qemu-system-x86_64", "qemu-system-x86");
    let refused = without("mkfs.ext4", scratch.path(), &arguments);
    missing(&refused, "mkfs.ext4", "e2fsprogs");
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing was begun");
}

#[test]
fn a_kernel_that_cannot_serve_is_refused() {
    let kernel = needs!(kernel());
    let scratch = scratch();
    let refused = |kernel: &str, targets: &[&str]| {
        run(scratch.path(), kernel, &[targets, &["--out", "run"]].concat()).output().unwrap()
    };
    let error = expect_error(&refused("99.9", &["ext4"]), 3, "kernel/not-found");
    assert_eq!(error["fields"]["kernel"], "99.9");
    let own = cache().join("fsb/kernels").join(&kernel);
    // The same kernel without some of its modules.
    for (gone, module) in [("/jfs.ko", "jfs"), ("/virtio_blk.ko", "virtio_blk")] {
        let modules = modules_without(gone, &own, &scratch.path().join(gone.trim_matches('/')));
        let named = format!("{}:{}", own.join("vmlinuz").display(), modules.display());
        let error = expect_error(&refused(&named, &["jfs"]), 3, "kernel/no-module");
        assert_eq!(error["fields"]["module"], module);
    }
    assert!(!scratch.path().join("run").exists(), "nothing was begun");
}

#[test]
fn a_printed_plan_names_the_kernel_that_was_found() {
    let kernel = needs!(kernel());
    let scratch = scratch();
    let printed = |kernel: &str| run(scratch.path(), kernel, &["ext4", "--print-plan"]).output().unwrap();
    let begun = kernel.split('-').next().unwrap();
    let output = printed(begun);
    expect_code(&output, 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("kernel = [\"{kernel}\"]")));
    for (invalid, help) in [("/etc/passwd", "bzImage"), ("/etc", "IMAGE:/etc"), ("", "fsb kernel list")] {
        let error = expect_error(&printed(invalid), 2, "kernel/invalid");
        assert!(error["help"].as_str().unwrap().contains(help), "{error}");
    }
    // The image alone, at another path: fsb uses the fetched modules.
    let image = scratch.path().join("bzImage");
    std::fs::copy(cache().join("fsb/kernels").join(&kernel).join("vmlinuz"), &image).unwrap();
    expect_code(&printed(image.to_str().unwrap()), 0);
    std::fs::File::options().write(true).open(&image).unwrap().set_len(1 << 20).unwrap();
    expect_error(&printed(image.to_str().unwrap()), 3, "kernel/incomplete");
}

#[test]
fn memory_that_is_not_there_or_not_enough_is_refused() {
    let kernel = needs!(kernel());
    let scratch = scratch();
    let refused = |memory: &str| run(scratch.path(), &kernel, &["ext4", "--out", "run", "--memory", memory]).output();
    for (memory, help) in [("1P", "smaller --memory"), ("32M", "give --memory")] {
        let error = expect_error(&refused(memory).unwrap(), 3, "machine/no-memory");
        assert!(error["fields"]["needed_bytes"].as_u64() > Some(32 << 20), "{error}");
        assert!(error["help"].as_str().unwrap().contains(help), "{error}");
    }
}
