//! Sets that the arguments name.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{compare, files, names, refused, set, testdata};
use crate::common::{assert_messages, command, expect_code, fsb, scratch, stderr};

/// Copies runs of xfs into `directory` under other names.
fn copies(directory: &Path, names: &[&str]) {
    for (run, name) in (1..).zip(names) {
        let from = testdata(&format!("iozone-2010/xfs/xfs{}.iozone", (run - 1) % 5 + 1));
        let to = directory.join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    }
}

#[test]
fn files_directories_and_quoted_patterns_make_the_same_set() {
    let scratch = scratch();
    copies(scratch.path(), &["d/f_1.iozone", "d/f_2.iozone", "d/f_10.iozone"]);
    let ways = ["a=d", "a=d/", "a=d/f_*.iozone", "a=d/*", "a=*/f_*", "a=d/f_1.iozone,d/f_2.iozone,d/f_10.iozone"];
    for way in ways {
        let (document, _) = compare(scratch.path(), &[way, &set("b", "iozone-2010/ext4")]);
        let found: Vec<&str> =
            document["sets"][0]["files"].as_array().unwrap().iter().filter_map(|file| file.as_str()).collect();
        let ends = found.iter().zip(["f_1.iozone", "f_2.iozone", "f_10.iozone"]);
        assert!(found.len() == 3 && ends.clone().all(|(file, end)| file.ends_with(end)), "{way}: {found:?}");
    }
}

#[test]
fn a_quoted_tilde_is_the_home_directory() {
    let scratch = scratch();
    copies(scratch.path(), &["home/d/f_1.iozone", "home/d/f_2.iozone"]);
    let mut fsb = command(scratch.path(), &["compare", "--format", "json", "a=~/d/f_*.iozone,~/d/f_1.iozone"]);
    let output = fsb.env("HOME", scratch.path().join("home")).output().unwrap();
    expect_code(&output, 0);
    assert_eq!(files(&serde_json::from_slice(&output.stdout).unwrap(), 0), 2);
}

#[test]
fn names_are_derived_where_none_is_given() {
    let scratch = scratch();
    copies(
        scratch.path(),
        &["one/r/ext4/a.iozone", "two/r/ext4/a.iozone", "xfs_1.iozone", "xfs_2.iozone", "x.y.iozone"],
    );
    for (arguments, expected) in [
        (&["one/r/ext4", "xfs_*.iozone"][..], &["ext4", "xfs"][..]),
        (&["one/r/ext4", "two/r/ext4"], &["one/r/ext4", "two/r/ext4"]),
        (&["ext4=one/r/ext4", "two/r/ext4"], &["ext4", "r/ext4"]),
        (&["xfs_1.iozone,xfs_2.iozone", "x.y.iozone"], &["xfs", "x.y"]),
        (&["one/r/ext4/*.iozone", "new kernel=two/r/ext4/*"], &["ext4", "new kernel"]),
    ] {
        let (document, _) = compare(scratch.path(), arguments);
        assert_eq!(names(&document), expected, "{arguments:?}");
    }
}

#[test]
fn several_bare_files_are_sets_of_their_own_with_the_quoted_form() {
    let scratch = scratch();
    copies(scratch.path(), &["xfs1.iozone", "xfs2.iozone", "ext4_1.iozone", "ext4_2.iozone"]);
    let files = ["xfs1.iozone", "xfs2.iozone", "ext4_1.iozone", "ext4_2.iozone"];
    let (document, bare) = compare(scratch.path(), &files);
    assert_eq!(names(&document), ["xfs1", "xfs2", "ext4_1", "ext4_2"]);
    let (document, quoted) = compare(scratch.path(), &["xfs=xfs*.iozone", "ext4=ext4_*.iozone"]);
    assert_eq!((names(&document), super::files(&document, 0)), (vec!["xfs", "ext4"], 2));
    assert_messages("compare_bare_files", scratch.path(), &format!("bare:\n{bare}\n\nquoted:\n{quoted}\n"));
}

#[test]
fn a_name_twice_is_refused_and_a_file_twice_is_read_once() {
    let scratch = scratch();
    copies(scratch.path(), &["a.iozone", "b.iozone"]);
    refused(scratch.path(), &["x=a.iozone", "x=b.iozone"], "compare/invalid-set");
    refused(scratch.path(), &["a.iozone", "./a.iozone"], "compare/invalid-set");
    std::os::unix::fs::symlink("a.iozone", scratch.path().join("link.iozone")).unwrap();
    let mut all = String::new();
    for way in ["x=a.iozone,a.iozone", "x=a.iozone,./a.iozone", "x=a.iozone,link.iozone", "x=a.iozone,a.*"] {
        let (document, warnings) = compare(scratch.path(), &[way, "b.iozone"]);
        assert_eq!(files(&document, 0), 1, "{way}");
        all += &format!("{way}:\n{warnings}\n\n");
    }
    let (document, warnings) = compare(scratch.path(), &["x=a.iozone", "y=a.iozone"]);
    assert_messages("compare_same_files", scratch.path(), &(all + &warnings));
    assert_eq!(document["operations"][0]["estimate"]["against"]["y"]["ratio"], 1.0);
}

#[test]
fn paths_may_hold_equals_signs_commas_spaces_and_bytes_that_are_no_text() {
    let scratch = scratch();
    copies(scratch.path(), &["n=1,m=2/a b.iozone", "k=v.iozone", "c,d.iozone"]);
    for (argument, name) in [
        ("n=1,m=2", "n=1,m=2"),
        ("./k=v.iozone", "k=v"),
        ("k=v.iozone", "k=v"),
        ("set=k=v.iozone", "set"),
        ("set=c,d.iozone,k=v.iozone", "set"),
    ] {
        assert_eq!(names(&compare(scratch.path(), &[argument]).0), [name], "{argument}");
    }
    assert_eq!(files(&compare(scratch.path(), &["*=v.iozone"]).0, 0), 1);
    let odd = OsStr::from_bytes(b"odd-\xff.iozone");
    fs::copy(testdata("iozone-2010/xfs/xfs1.iozone"), scratch.path().join(odd)).unwrap();
    let output = command(scratch.path(), &["compare", "--format", "json"]).arg(odd).output().unwrap();
    expect_code(&output, 0);
}

#[test]
fn a_directory_with_results_of_several_tools_is_refused_with_the_list() {
    let scratch = scratch();
    copies(scratch.path(), &["mixed/run.iozone", "mixed/sub/run.iozone"]);
    fs::copy(testdata("tool-output/fio-3.33.json"), scratch.path().join("mixed/fio.json")).unwrap();
    let refusal = refused(scratch.path(), &["mixed"], "compare/invalid-set");
    assert_messages("compare_several_tools", scratch.path(), &refusal);
    let (document, _) = compare(scratch.path(), &["mixed/*.iozone"]);
    assert_eq!(files(&document, 0), 1);
}

#[test]
fn each_system_of_a_file_is_a_set() {
    let scratch = scratch();
    let at = |name: &str| scratch.path().join(name);
    let text = fs::read_to_string(testdata("tool-output/phoronix-10.8.6.xml")).unwrap();
    for (directory, text) in [
        ("both", text.clone()),
        // Results of one system each.
        ("one", without(&text, "ram")),
        ("two", without(&text, "disk")),
        ("three", without(&text, "disk")),
    ] {
        fs::create_dir(at(directory)).unwrap();
        fs::write(at(directory).join("composite.xml"), text).unwrap();
    }
    for (arguments, expected) in [
        (&["both/composite.xml"][..], &["disk", "ram"][..]),
        (&["old=both", "new=both/composite.xml"], &["old/disk", "old/ram", "new/disk", "new/ram"]),
        (&["one", "two"], &["disk", "ram"]),
        (&["two/composite.xml", "three/composite.xml"], &["two/composite/ram", "three/composite/ram"]),
        (&["disk=one", "ram=two"], &["disk", "ram"]),
        (&["all=one/composite.xml,two/composite.xml"], &["all"]),
        (&["both/composite.xml,two/composite.xml"], &["disk", "ram"]),
    ] {
        let (document, _) = compare(scratch.path(), arguments);
        assert_eq!(names(&document), expected, "{arguments:?}");
    }
    let document = super::contract::check(scratch.path(), &["both"]);
    let runs: Vec<_> = document["sets"].as_array().unwrap().iter().map(|set| set["runs"].as_u64()).collect();
    assert_eq!(runs, [Some(3), Some(3)]);
}

/// Removes the entries of a system from a composite.xml.
fn without(text: &str, system: &str) -> String {
    let start = format!("      <Entry>\n        <Identifier>{system}</Identifier>");
    let mut parts = text.split(&start);
    let head = parts.next().unwrap().to_owned();
    parts.fold(head, |kept, part| kept + part.split_once("</Entry>\n").unwrap().1)
}

#[test]
fn unknown_files_in_a_directory_are_left_out_with_a_note() {
    let scratch = scratch();
    copies(scratch.path(), &["d/run.iozone", "d/.hidden.iozone", "d/sub/run.iozone"]);
    for (name, content) in [("notes.txt", "five runs on Monday"), ("empty", "")] {
        fs::write(scratch.path().join("d").join(name), content).unwrap();
    }
    let (document, warnings) = compare(scratch.path(), &["d"]);
    assert_eq!(files(&document, 0), 1);
    assert_messages("compare_unknown_files", scratch.path(), &warnings);
    fs::create_dir(scratch.path().join("hollow")).unwrap();
    refused(scratch.path(), &["hollow"], "compare/no-match");
    fs::remove_file(scratch.path().join("d/run.iozone")).unwrap();
    refused(scratch.path(), &["d"], "compare/no-match");
}

#[test]
fn the_baseline_is_the_first_set_unless_another_is_named() {
    let scratch = scratch();
    let sets = [set("xfs", "iozone-2010/xfs"), set("ext4", "iozone-2010/ext4")];
    assert_eq!(compare(scratch.path(), &[&sets[0], &sets[1]]).0["baseline"], "xfs");
    let (document, _) = compare(scratch.path(), &[&sets[0], &sets[1], "--baseline", "ext4"]);
    assert_eq!((&document["baseline"], names(&document)), (&"ext4".into(), vec!["xfs", "ext4"]));
    refused(scratch.path(), &[&sets[0], &sets[1], "--baseline", "exf4"], "compare/unknown-set");
}

#[test]
fn the_tools_are_listed() {
    let scratch = scratch();
    let output = fsb(scratch.path(), &["list", "tools"]);
    expect_code(&output, 0);
    let text = crate::common::stdout(&output);
    for tool in ["iozone", "fio", "bonnie++", "postmark", "filebench", "phoronix", "sysbench", "ior", "mdtest"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("{tool} "))), "{tool} in {text}");
    }
    assert!(stderr(&output).is_empty());
}
