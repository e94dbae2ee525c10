//! Other users who own directories of results and put files in the way.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

use crate::common::{
    FSB, JSON, Running, WAIT, below, command, error_of, expect_code, expect_error,
    expect_no_traces, fails, fast_plan, fsb, scratch, stderr, stdout, succeeds, tiny_plan, traces,
    trials, wait_until, words,
};

pub const NOBODY: u32 = 65534;

/// Creates a directory of user `nobody` with a fast plan in it, below one that every user can
/// search.
pub fn home(scratch: &Path) -> std::path::PathBuf {
    fs::set_permissions(scratch, fs::Permissions::from_mode(0o755)).unwrap();
    let home = scratch.join("home");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    fast_plan(&home);
    chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    home
}

/// Returns a command as `sudo` starts the program for user `nobody`.
pub fn sudo(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = command(directory, arguments);
    command
        .env("SUDO_UID", NOBODY.to_string())
        .env("SUDO_GID", NOBODY.to_string());
    command
}

#[test]
fn root_by_itself_writes_nothing_where_another_user_could_exchange_it() {
    needs!(root);
    let scratch = scratch();
    let home = home(scratch.path());
    let before = below(&home);
    let inner = home.join("inner");
    let arguments = ["run", "null", "fast.toml", "--blocks", "1", "-q"];
    let refused = fails(&home, &arguments, 2, "store/directory-writable-by-others");
    assert_eq!(
        refused["fields"]["component"],
        home.to_str().unwrap(),
        "{refused}"
    );
    // A directory of root below another user's.
    fs::create_dir(&inner).unwrap();
    expect_code(
        &fsb(&home, "run null fast.toml --blocks 1 -q --out inner"),
        2,
    );
    fs::remove_dir(&inner).unwrap();
    assert_eq!(below(&home), before);
    // A shared directory with the sticky bit: a new directory in it belongs to root.
    let shared = scratch.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let plan = home.join("fast.toml").display().to_string();
    succeeds(&shared, &["run", "null", &plan, "--blocks", "1", "-q"]);
    chown(shared.join("fsb-results"), Some(NOBODY), Some(NOBODY)).unwrap();
    expect_code(
        &fsb(&shared, &["run", "null", &plan, "--blocks", "1", "-q"]),
        2,
    );
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    let arguments = ["run", "null", &plan, "--blocks", "1", "-q", "--out", "new"];
    let refused = fails(&shared, &arguments, 2, "store/directory-writable-by-others");
    let remedy = format!("chmod go-w {}", shared.display());
    assert!(
        refused["help"]
            .as_str()
            .is_some_and(|help| help.ends_with(&remedy)),
        "{refused}"
    );
}

#[test]
fn under_sudo_results_are_the_callers_and_what_was_planted_stays() {
    needs!(root);
    let scratch = scratch();
    let home = home(scratch.path());
    for who in ["SUDO_UID", "PKEXEC_UID"] {
        let mut run = command(&home, "run null fast.toml --blocks 1 -q");
        expect_code(&run.env(who, NOBODY.to_string()).output().unwrap(), 0);
    }
    let made = below(&home.join("fsb-results"));
    assert!(made.len() >= 5, "{made:?}");
    for path in made {
        assert_eq!(
            fs::metadata(&path).unwrap().uid(),
            NOBODY,
            "{}",
            path.display()
        );
    }
    // Files of all names, planted during a run.
    let secret = scratch.path().join("secret");
    fs::write(&secret, "root's own").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let out = home.join("planted");
    let run = sudo(
        &home,
        &words("run null fast.toml --blocks 3000 -q --out planted"),
    )
    .spawn()
    .unwrap();
    let run = Running::from_child(run);
    wait_until("trials", WAIT, || !trials(&out).is_empty());
    fs::hard_link(&secret, out.join("report.html")).unwrap();
    symlink(&secret, out.join("trials.csv")).unwrap();
    run.signal(Signal::INT);
    expect_code(&run.wait(), 130);
    let found = fs::metadata(&secret).unwrap();
    assert_eq!(
        (
            found.uid(),
            found.mode() & 0o777,
            fs::read_to_string(&secret).unwrap().as_str()
        ),
        (0, 0o600, "root's own")
    );
    for name in ["report.html", "trials.csv", "run.json", "trials.jsonl"] {
        let found = fs::symlink_metadata(out.join(name)).unwrap();
        assert!(found.is_file() && found.uid() == NOBODY, "{name}");
    }
    // The same before the run is resumed.
    for name in ["trials.jsonl", "report.html", "run.json.new", ".lock"] {
        let _ = fs::remove_file(out.join(name));
        fs::hard_link(&secret, out.join(name)).unwrap();
    }
    let resumed = sudo(&home, &["run", "--resume", "planted", "-q"])
        .output()
        .unwrap();
    assert!(
        !resumed.status.success(),
        "root's file was read or used: {}",
        stderr(&resumed)
    );
    assert_eq!(fs::read_to_string(&secret).unwrap(), "root's own");
    assert_eq!(fs::metadata(&secret).unwrap().uid(), 0);
}

#[test]
fn a_results_directory_that_is_exchanged_all_the_time_leads_nowhere() {
    needs!(root);
    let scratch = scratch();
    let home = home(scratch.path());
    let victim = scratch.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o700)).unwrap();
    let (results, away) = (home.join("fsb-results"), home.join("away"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::rename(&results, &away).and_then(|()| symlink(&victim, &results));
                let _ = symlink(&victim, &results);
                let _ = fs::remove_file(&results);
                let _ = fs::rename(&away, &results);
            }
        });
        for _ in 0..4 {
            // It may fail, but it must not write elsewhere.
            let _ = sudo(&home, &["run", "null", "fast.toml", "--blocks", "1", "-q"])
                .output()
                .unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(below(&victim), Vec::<std::path::PathBuf>::new());
    assert_eq!(fs::metadata(&victim).unwrap().uid(), 0);
}

#[test]
fn a_real_run_under_sudo_in_a_users_home() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let before = traces();
    let scratch = scratch();
    let home = home(scratch.path());
    tiny_plan(&home);
    let output = sudo(&home, &["run", "ext4", "tiny.toml", "--size", "128M", "-q"])
        .output()
        .unwrap();
    assert!(
        matches!(output.status.code(), Some(0 | 4)),
        "{}",
        stderr(&output)
    );
    let made = below(&home.join("fsb-results"));
    assert!(
        made.iter().any(|path| path.ends_with("report.html")),
        "{made:?}"
    );
    assert!(
        made.iter()
            .all(|path| fs::metadata(path).unwrap().uid() == NOBODY)
    );
    expect_no_traces(&before);
}

#[test]
fn reports_follow_nothing_that_others_planted() {
    needs!(root);
    let scratch = scratch();
    fast_plan(scratch.path());
    succeeds(scratch.path(), "run fast.toml null --blocks 1 --out one -q");
    let shared = scratch.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let secret = scratch.path().join("secret");
    fs::write(&secret, "root's own").unwrap();
    let report = |path: &str| {
        fsb(
            scratch.path(),
            &["report", "one", "--format", "csv", "-o", path],
        )
    };
    symlink(&secret, shared.join("link")).unwrap();
    std::os::unix::fs::lchown(shared.join("link"), Some(NOBODY), Some(NOBODY)).unwrap();
    expect_code(
        &Command::new("mkfifo")
            .arg(shared.join("pipe"))
            .output()
            .unwrap(),
        0,
    );
    chown(shared.join("pipe"), Some(NOBODY), Some(NOBODY)).unwrap();
    for name in ["shared/link", "shared/pipe"] {
        expect_code(&report(name), 2);
    }
    fs::hard_link(&secret, shared.join("hard")).unwrap();
    expect_code(&report("shared/hard"), 0);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "root's own");
    assert!(
        fs::symlink_metadata(shared.join("pipe"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
    let printed = report("/dev/stdout");
    expect_code(&printed, 0);
    assert_eq!(
        stdout(&printed),
        fs::read_to_string(scratch.path().join("one/trials.csv")).unwrap()
    );
}

#[test]
fn front_ends_work_in_anothers_directory_with_that_users_rights_alone() {
    needs!(root);
    let scratch = scratch();
    let home = home(scratch.path());
    fs::write(
        home.join("mail"),
        "set number 5\nset transactions 5\nset location .\nrun report\nquit\n",
    )
    .unwrap();
    fs::write(
        home.join("one.f"),
        "define fileset name=s,path=.,size=4k,entries=4,prealloc=100\ndefine process name=p{thread name=t{\
         flowop openfile name=o,filesetname=s,fd=1\nflowop closefile name=c,fd=1}}\nrun 1\n",
    )
    .unwrap();
    let shared = scratch.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let iozone = words("iozone -s 64k -r 4k -i 0 -w -f file -Q -Rb sheet.xls");
    for arguments in [
        &iozone[..],
        &["postmark", "mail"],
        &["filebench", "one.f", "--dir", ".", "-q"],
    ] {
        let refused = fails(&home, arguments, 2, "store/directory-writable-by-others");
        assert!(refused.to_string().contains("65534"), "{refused}");
        let done = sudo(&home, arguments).output().unwrap();
        expect_code(&done, 0);
    }
    for name in ["file", "wol.dat", "sheet.xls", "report"] {
        assert_eq!(
            fs::metadata(home.join(name)).unwrap().uid(),
            NOBODY,
            "{name}"
        );
    }
    // A directory in which every user can make links, on a kernel that does not protect from them.
    let protected = |what: &str| {
        fs::read_to_string(format!("/proc/sys/fs/protected_{what}"))
            .unwrap()
            .trim()
            == "1"
    };
    if !protected("symlinks") || !protected("hardlinks") {
        expect_code(&fsb(&shared, &iozone), 2);
    }
    fs::write(shared.join("file"), "theirs").unwrap();
    chown(shared.join("file"), Some(NOBODY), Some(NOBODY)).unwrap();
    expect_code(&fsb(&shared, &iozone), 2);
    assert_eq!(fs::read_to_string(shared.join("file")).unwrap(), "theirs");
    // Several processes have the invoking user's privileges as well.
    let many = words("iozone -s 64k -r 4k -i 0 -t 2 -w -F one two");
    expect_code(&sudo(&home, &many).output().unwrap(), 0);
    for name in ["one", "two"] {
        assert_eq!(
            fs::metadata(home.join(name)).unwrap().uid(),
            NOBODY,
            "{name}"
        );
    }
    let secret = scratch.path().join("secret");
    fs::write(&secret, "root's own").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(home.join("wol.dat")).unwrap();
    symlink(&secret, home.join("wol.dat")).unwrap();
    assert!(!sudo(&home, &iozone).output().unwrap().status.success());
    assert_eq!(fs::read_to_string(&secret).unwrap(), "root's own");
}

#[test]
fn root_uses_no_kernels_that_another_user_may_change() {
    needs!(root);
    let scratch = scratch();
    let home = home(scratch.path());
    let cache = |directory: &Path| {
        command(scratch.path(), &["kernel", "list", JSON])
            .env("XDG_CACHE_HOME", directory)
            .output()
            .unwrap()
    };
    expect_error(
        &cache(&home.join(".cache")),
        2,
        "kernel/cache-writable-by-others",
    );
    assert!(!home.join(".cache").exists());
    expect_code(&cache(&scratch.path().join("own")), 0);
}

// Under sudo, fsb reads no file that the invoking user cannot read, and never writes through a
// symlink of that user.

/// A user who may run only fsb as root learns no names, sizes or first bytes of files that only
/// root can read.
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
    fs::write(
        home.join("short.toml"),
        "targets = ['null']\n[repetition]\nsample_time = '1ms'\n",
    )
    .unwrap();
    let run = |tree: &str| {
        sudo(
            &home,
            &[
                "run",
                "short.toml",
                "--tree",
                tree,
                "--blocks",
                "1",
                "--out",
                "out",
                JSON,
            ],
        )
        .output()
        .unwrap()
    };
    for tree in [
        "../secret",
        "../secret/open",
        "../secret/open/one",
        "../shadow",
        "way",
        "way/open",
        "tree",
    ] {
        let refused = run(tree);
        expect_code(&refused, 2);
        let error = error_of(&refused);
        assert_eq!(error["fields"]["errno"], "EACCES", "{tree}: {error}");
        // Not even the number of files is revealed.
        assert!(
            !stderr(&refused).contains("files") && !home.join("out").exists(),
            "{tree}: {error}"
        );
    }
    fs::remove_dir(own.join("inner/roots")).unwrap();
    let done = run("tree");
    expect_code(&done, 0);
    assert_eq!(
        fs::metadata(home.join("out/run.json")).unwrap().uid(),
        NOBODY
    );
}

/// Messages quote text that fsb cannot parse, and warnings name neighbouring files: neither may
/// come from root's files.
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
        let refused = sudo(&home, &words)
            .env("XDG_CACHE_HOME", scratch.path().join("cache"))
            .output()
            .unwrap();
        let said = stderr(&refused) + &stdout(&refused);
        assert!(
            matches!(refused.status.code(), Some(2 | 3)),
            "{words:?}: {said}"
        );
        assert!(
            !said.replace("vault/hunter*", "").contains("hunter2"),
            "{words:?}: {said}"
        );
        let error = error_of(&refused);
        let is_unseen = error["code"] == "compare/no-match";
        let is_told = said.contains("65534") || words[0] == "compare";
        assert!(
            is_unseen || error["fields"]["errno"] == "EACCES" && is_told,
            "{words:?}: {said}"
        );
    }
}

/// Files that root opened before it started the program are not opened again with the user's
/// privileges.
#[test]
fn a_pipe_of_roots_shell_is_read_under_sudo() {
    needs!(root);
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/iozone-here/ext4");
    let line = "cat ext4_1.iozone | \"$0\" compare one=ext4_2.iozone other=/dev/stdin";
    let mut shell = Command::new("sh");
    let shell = shell
        .args(["-c", line, FSB])
        .current_dir(testdata)
        .env("SUDO_UID", NOBODY.to_string());
    expect_code(&shell.output().unwrap(), 0);
}

/// If the invoking user cannot write a path, root writes it with its own privileges, but not
/// through a link that this user or another one could have made.
#[test]
fn a_link_leads_no_further_than_whoever_asked_root_may_write() {
    needs!(root);
    let scratch = scratch();
    let home = home(scratch.path());
    expect_code(
        &sudo(&home, &words("run null fast.toml --blocks 1 -q --out one"))
            .output()
            .unwrap(),
        0,
    );
    let precious = scratch.path().join("precious");
    fs::write(&precious, "root's own").unwrap();
    let open = scratch.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    chown(&open, Some(NOBODY - 1), None).unwrap();
    fs::write(
        home.join("mail"),
        "set number 5\nset transactions 5\nset location .\nrun link\nquit\n",
    )
    .unwrap();
    for (link, owner) in [(home.join("link"), NOBODY), (open.join("link"), NOBODY - 1)] {
        symlink(&precious, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(owner), None).unwrap();
        let report = [
            "report",
            "one",
            "--format",
            "csv",
            "-o",
            link.to_str().unwrap(),
        ];
        for words in [&report[..], &["postmark", "mail"]] {
            let refused = sudo(&home, &[words, &[JSON]].concat()).output().unwrap();
            assert_eq!(
                fs::read_to_string(&precious).unwrap(),
                "root's own",
                "{words:?}"
            );
            assert_eq!(
                error_of(&refused)["fields"]["errno"],
                "EACCES",
                "{words:?}: {}",
                stderr(&refused)
            );
        }
    }
    let named = [
        "report",
        "one",
        "--format",
        "csv",
        "-o",
        precious.to_str().unwrap(),
    ];
    expect_code(&sudo(&home, &named).output().unwrap(), 0);
    assert_ne!(fs::read_to_string(&precious).unwrap(), "root's own");
}
