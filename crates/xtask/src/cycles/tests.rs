//! Small crates, and the cycles that the check finds in them.

use super::*;

/// Returns the edges that are part of a cycle, as `a.rs uses b.rs (path)`.
fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
    let text = cycles(&edges(files));
    text.lines().map(|line| line.trim_start_matches("cycle: ").to_owned()).collect()
}

fn edges(files: &[(&str, &str)]) -> Edges {
    let read = |path: &Path| files.iter().find(|(name, _)| path == Path::new(name)).map(|(_, text)| (*text).to_owned());
    edges_of(&Tree::load(Path::new("main.rs"), &read).expect("the crate parses"))
}

#[test]
fn paths_through_imported_modules_close_a_cycle() {
    let found = cycles_of(&[
        ("main.rs", "mod author; mod exit; mod progress; mod results;"),
        ("exit.rs", "pub const DONE: i32 = 0; pub fn stop() { crate::progress::say() }"),
        ("progress.rs", "use crate::results; pub fn say() { results::summary(); }"),
        ("results.rs", "use crate::{author as owner}; pub fn summary() { owner::replace() }"),
        ("author.rs", "use super::exit; pub fn replace() { std::process::exit(exit::DONE) }"),
    ]);
    assert_eq!(
        found,
        [
            "author.rs uses exit.rs (exit::DONE)",
            "exit.rs uses progress.rs (crate::progress::say)",
            "progress.rs uses results.rs (results::summary)",
            "results.rs uses author.rs (owner::replace)"
        ]
    );
}

#[test]
fn inline_paths_between_folders_close_a_cycle() {
    let found = cycles_of(&[
        ("main.rs", "mod control; mod ledger;"),
        ("control/mod.rs", "pub fn find() {} pub struct Held(crate::ledger::Entry);"),
        ("ledger/mod.rs", "mod guard; pub struct Entry;"),
        ("ledger/guard.rs", "use super::Entry; use crate::control; fn admit(_: Entry) { control::find() }"),
    ]);
    assert!(found.is_empty(), "the ledger itself does not use its guard: {found:?}");
    let found = cycles_of(&[
        ("main.rs", "mod control; mod ledger;"),
        ("control/mod.rs", "pub fn find() {} pub struct Held(crate::ledger::Entry);"),
        ("ledger/mod.rs", "mod guard; pub struct Entry; fn add() { guard::admit(Entry) }"),
        ("ledger/guard.rs", "pub fn admit(_: super::Entry) { crate::control::find() }"),
    ]);
    assert_eq!(
        found,
        [
            "control/mod.rs uses ledger/mod.rs (crate::ledger::Entry)",
            "ledger/guard.rs uses control/mod.rs (crate::control::find)",
            "ledger/guard.rs uses ledger/mod.rs (super::Entry)",
            "ledger/mod.rs uses ledger/guard.rs (guard::admit)"
        ]
    );
}

#[test]
fn a_cycle_of_three_modules_is_found() {
    let found = cycles_of(&[
        ("main.rs", "mod input; mod kernel; mod modules;"),
        ("input.rs", "fn cached() { match 1 { crate::kernel::CACHE => (), _ => () } }  pub fn open() {}"),
        ("kernel.rs", "pub const CACHE: i32 = 1; pub fn list() -> Vec<crate::modules::Index> { vec![] }"),
        ("modules.rs", "use crate::input; pub struct Index; fn read() { println!(\"{:?}\", input::open()) }"),
    ]);
    assert_eq!(
        found,
        [
            "input.rs uses kernel.rs (crate::kernel::CACHE)",
            "kernel.rs uses modules.rs (crate::modules::Index)",
            "modules.rs uses input.rs (input::open)"
        ]
    );
}

#[test]
fn modules_of_the_same_name_differ_by_folder() {
    let found = cycles_of(&[
        ("main.rs", "mod view; mod compare;"),
        ("view.rs", "use crate::compare; pub struct Row; pub fn all() { compare::view::details(); }"),
        ("compare/mod.rs", "pub mod view;"),
        ("compare/view.rs", "use crate::view::Row; pub fn details() -> Option<Row> { None }"),
    ]);
    assert_eq!(
        found,
        [
            "compare/view.rs uses view.rs (Row, crate::view::Row)",
            "view.rs uses compare/view.rs (compare::view::details)"
        ]
    );
}

#[test]
fn siblings_named_through_super_close_a_cycle() {
    let found = cycles_of(&[
        ("main.rs", "mod agree;"),
        ("agree/mod.rs", "mod fio; mod ours; mod row; fn run() { ours::begin(); fio::labels() }"),
        ("agree/fio.rs", "pub fn labels() {} fn start() { super::ours::begin() }"),
        ("agree/ours.rs", "use super::row::Row; pub fn begin() -> Option<Row> { None }"),
        ("agree/row.rs", "pub struct Row; impl Row { fn labels() { super::fio::labels() } }"),
    ]);
    assert_eq!(
        found,
        [
            "agree/fio.rs uses agree/ours.rs (super::ours::begin)",
            "agree/ours.rs uses agree/row.rs (Row, super::row::Row)",
            "agree/row.rs uses agree/fio.rs (super::fio::labels)"
        ]
    );
}

#[test]
fn a_parent_and_its_child_close_a_cycle() {
    let parent = "mod child; pub struct Shared; static ALL: &[&str] = &[child::NAME];";
    let child = "use super::Shared; pub const NAME: &str = \"\"; fn take(_: Shared) {}";
    assert_eq!(cycles_of(&[("main.rs", parent), ("child.rs", child)]).len(), 2);
    assert!(cycles_of(&[("main.rs", "mod child; pub struct Shared;"), ("child.rs", child)]).is_empty());
}

#[test]
fn a_re_export_leads_to_the_file_that_defines_the_item() {
    let found = edges(&[
        ("main.rs", "mod family; mod user;"),
        ("family/mod.rs", "mod member; mod shared; pub use shared::{self as base, Shared as Common};"),
        ("family/shared.rs", "pub struct Shared;"),
        ("family/member.rs", "use super::*; fn take(_: Common) {}"),
        ("user.rs", "fn take(_: crate::family::Common, _: crate::family::base::Shared) {}"),
    ]);
    let found: Vec<(&str, &str)> = found.keys().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    let to = "family/shared.rs";
    assert_eq!(found, [("family/member.rs", to), ("user.rs", to)]);
}

#[test]
fn tests_and_names_from_other_crates_are_no_edges() {
    let found = cycles_of(&[
        ("main.rs", "mod a; mod b;"),
        ("a.rs", "pub fn one() {} #[cfg(test)] mod tests { use crate::b::two; }"),
        ("b.rs", "pub fn two() { crate::a::one() } #[cfg(test)] fn help() {}"),
    ]);
    assert!(found.is_empty(), "{found:?}");
    assert!(edges(&[("main.rs", "mod serde; use ::serde::de;"), ("serde.rs", "pub struct de;")]).is_empty());
}

#[test]
fn attributes_name_modules_in_strings() {
    let found = edges(&[
        ("main.rs", "mod a; mod b;"),
        ("a.rs", "struct A { #[serde(with = \"crate::b::text\")] field: u8 }"),
        ("b.rs", "pub mod text { pub fn serialize() {} } pub fn text() {}"),
    ]);
    assert_eq!(found.len(), 1);
}
