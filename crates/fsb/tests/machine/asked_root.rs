//! Under sudo, fsb reads no file that the invoking user cannot read, and never writes through a symlink of that user.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use crate::common::{FSB, JSON, error_of, expect_code, scratch, stderr, stdout};
use crate::ownership::{NOBODY, home, sudo};

/// A user who may run only fsb as root learns no names, sizes or first bytes of files that only root can read.
#[test]
fn a_tree_is_read_with_the_rights_of_whoever_asked_root() {
    needs!(root);
    let scratch = scratch();
    let home = home(scratch.path());
    let file = |path: &Path, mode: u32| {
        fs::write(path, [7; 5000]).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let secret = scratch.path().join("secret");
    fs::create_dir_all(secret.join("open")).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o700)).unwrap();
    file(&secret.join("open/one"), 0o644);
    file(&scratch.path().join("shadow"), 0o600);
    // A tree of the invoking user, with a directory of root in it and a link out of it.
    let own = home.join("tree");
    fs::create_dir_all(own.join("inner/roots")).unwrap();
    file(&own.join("inner/two"), 0o600);
    fs::set_permissions(own.join("inner/roots"), fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&secret, home.join("way")).unwrap();
    for path in [&own, &own.join("inner"), &own.join("inner/two")] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::write(home.join("short.toml"), "targets = ['null']\n[repetition]\nsample_time = '1ms'\n").unwrap();
    let run = |tree: &str| {
        sudo(&home, &["run", "short.toml", "--tree", tree, "--blocks", "1", "--out", "out", JSON]).output().unwrap()
    };
    for tree in ["../secret", "../secret/open", "../secret/open/one", "../shadow", "way", "way/open", "tree"] {
        let refused = run(tree);
        expect_code(&refused, 2);
        let error = error_of(&refused);
        assert_eq!(error["fields"]["errno"], "EACCES", "{tree}: {error}");
        // Not even the number of files is revealed.
        assert!(!stderr(&refused).contains("files") && !home.join("out").exists(), "{tree}: {error}");
    }
    fs::remove_dir(own.join("inner/roots")).unwrap();
    let done = run("tree");
    expect_code(&done, 0);
    assert_eq!(fs::metadata(home.join("out/run.json")).unwrap().uid(), NOBODY);
}

/// Messages quote text that fsb cannot parse, and warnings name neighbouring files: neither may come from root's files.
#[test]
fn user_supplied_files_are_read_with_the_rights_of_the_invoking_user() {
    needs!(root);
    let scratch = scratch();
    let home = home(scratch.path());
    let hidden = |path: &Path, text: &str| {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let secret = scratch.path().join("secret");
    hidden(&secret, "hunter2 = \"hunter2\"\nset hunter2\n");
    let vault = scratch.path().join("vault");
    fs::create_dir(&vault).unwrap();
    hidden(&vault.join("hunter2.txt"), "text");
    fs::set_permissions(&vault, fs::Permissions::from_mode(0o700)).unwrap();
    // A run of the invoking user whose files link to root's, and a kernel tree.
    let run = home.join("run");
    fs::create_dir_all(home.join("tree/include/config")).unwrap();
    fs::create_dir_all(home.join("tree/arch/x86/boot")).unwrap();
    fs::create_dir(&run).unwrap();
    hidden(&secret.with_extension("json"), r#"{"schema": "hunter2/1"}"#);
    for (name, to) in [
        ("run/run.json", "secret.json"),
        ("run/trials.jsonl", "secret"),
        ("link.toml", "secret"),
        ("link.f", "secret"),
        ("link.pm", "secret"),
        ("settings.ini", "secret"),
        ("tree/include/config/kernel.release", "secret"),
        ("tree/arch/x86/boot/bzImage", "secret"),
        ("away", "vault"),
        ("image", "secret"),
        ("image.deb", "secret"),
    ] {
        symlink(scratch.path().join(to), home.join(name)).unwrap();
    }
    chown(&run, Some(NOBODY), Some(NOBODY)).unwrap();
    let asked: [&[&str]; 14] = [
        &["compare", "link.toml", "link.f"],
        &["compare", "run"],
        &["compare", "away"],
        &["compare", "away/*"],
        &["compare", "../vault/hunter*"],
        &["report", "run"],
        &["run", "--resume", "run"],
        &["run", "link.toml"],
        &["filebench", "link.f"],
        &["postmark", "link.pm"],
        &["micro", "create", "--output", "."],
        &["run", "ext4", "--in", "vm", "--kernel", "tree"],
        &["run", "ext4", "--in", "vm", "--kernel", "./image"],
        &["kernel", "fetch", "./image.deb"],
    ];
    for words in asked {
        let words = [words, &[JSON]].concat();
        let refused = sudo(&home, &words).env("XDG_CACHE_HOME", scratch.path().join("cache")).output().unwrap();
        let said = stderr(&refused) + &stdout(&refused);
        assert!(matches!(refused.status.code(), Some(2 | 3)), "{words:?}: {said}");
        assert!(!said.replace("vault/hunter*", "").contains("hunter2"), "{words:?}: {said}");
        let error = error_of(&refused);
        let is_unseen = error["code"] == "compare/no-match";
        let is_told = said.contains("65534") || words[0] == "compare";
        assert!(is_unseen || error["fields"]["errno"] == "EACCES" && is_told, "{words:?}: {said}");
    }
}

/// Files that root opened before it started the program are not opened again with the user's privileges.
#[test]
fn a_pipe_of_roots_shell_is_read_under_sudo() {
    needs!(root);
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/iozone-here/ext4");
    let line = "cat ext4_1.iozone | \"$0\" compare one=ext4_2.iozone other=/dev/stdin";
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", line, FSB]).current_dir(testdata).env("SUDO_UID", NOBODY.to_string());
    expect_code(&shell.output().unwrap(), 0);
}

/// If the invoking user cannot write a path, root writes it with its own privileges, but not through a link that this
/// user or another one could have made.
#[test]
fn a_link_leads_no_further_than_whoever_asked_root_may_write() {
    needs!(root);
    let scratch = scratch();
    let home = home(scratch.path());
    expect_code(
        &sudo(&home, &["run", "null", "fast.toml", "--blocks", "1", "-q", "--out", "one"]).output().unwrap(),
        0,
    );
    let precious = scratch.path().join("precious");
    fs::write(&precious, "root's own").unwrap();
    let open = scratch.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    chown(&open, Some(NOBODY - 1), None).unwrap();
    fs::write(home.join("mail"), "set number 5\nset transactions 5\nset location .\nrun link\nquit\n").unwrap();
    for (link, owner) in [(home.join("link"), NOBODY), (open.join("link"), NOBODY - 1)] {
        symlink(&precious, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(owner), None).unwrap();
        let report = ["report", "one", "--format", "csv", "-o", link.to_str().unwrap()];
        for words in [&report[..], &["postmark", "mail"]] {
            let refused = sudo(&home, &[words, &[JSON]].concat()).output().unwrap();
            assert_eq!(fs::read_to_string(&precious).unwrap(), "root's own", "{words:?}");
            assert_eq!(error_of(&refused)["fields"]["errno"], "EACCES", "{words:?}: {}", stderr(&refused));
        }
    }
    let named = ["report", "one", "--format", "csv", "-o", precious.to_str().unwrap()];
    expect_code(&sudo(&home, &named).output().unwrap(), 0);
    assert_ne!(fs::read_to_string(&precious).unwrap(), "root's own");
}
