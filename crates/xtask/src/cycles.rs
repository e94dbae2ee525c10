//! `cargo run -p xtask -- cycles`: finds source files of a crate that depend on each other,
//! directly or through others.
//!
//! A file depends on each file whose items it names. The rules:
//!
//! * A path counts wherever it is written: in `use`, expressions, types, patterns, attributes and
//!   arguments of macros.
//! * A path is followed through modules, imports, globs and re-exports to the file that defines the
//!   item. A child that names an item of its sibling through a re-export of the parent depends on
//!   the sibling, not on the parent.
//! * A path that ends at a module adds no edge. The paths that continue from that module do.
//! * A name that a module neither defines nor imports is an item that a macro defines there.
//! * `mod child;` and `pub use child::Item;` add no edge: the code of the parent does not need the
//!   child for them.
//! * A parent whose code names an item of its child depends on the child, and a child that names an
//!   item that the parent defines depends on the parent. Both together are a cycle.
//! * Items under `#[cfg(test)]` are ignored.
//!
//! Methods and fields are not paths: a type that a file uses without naming it adds no edge.
//!
//! With `--folders`, each folder is one module with all files below it, as a reader sees it. The
//! check then fails if more than [`LARGEST_KNOT`] modules of one folder depend on each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Meta, UseTree, Visibility};

/// Pairs of files: the first names items of the second by these paths.
type Edges = BTreeMap<(String, String), BTreeSet<String>>;

/// The largest number of modules of one folder that may depend on each other in circles.
const LARGEST_KNOT: usize = 3;

#[derive(clap::Args)]
pub struct CycleOptions {
    /// Checks the modules of each folder, too: a module is a file, or a folder with all files below
    /// it.
    #[arg(long)]
    folders: bool,
}

/// Checks all crates of the workspace.
///
/// # Errors
///
/// Fails if there is a cycle of files, or, if requested, a knot of modules that is too large.
pub fn run(options: &CycleOptions) -> anyhow::Result<()> {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut edges = Edges::new();
    let mut files = 0;
    for entry in std::fs::read_dir(crates)? {
        let name = entry?
            .file_name()
            .into_string()
            .ok()
            .context("the name of a crate is not UTF-8")?;
        for root in ["lib.rs", "main.rs"].map(|file| format!("{name}/src/{file}")) {
            if crates.join(&root).exists() {
                let read = |path: &Path| std::fs::read_to_string(crates.join(path)).ok();
                let tree = Tree::load(Path::new(&root), &read)?;
                files += tree.files.len();
                edges.extend(edges_of(&tree));
            }
        }
    }
    let cycles = cycles(&edges);
    ensure!(cycles.is_empty(), "{cycles}");
    println!("cycles: none in {files} files with {} edges", edges.len());
    if options.folders {
        let mut problems = String::new();
        for knot in knots(&edges) {
            if knot.modules.len() > LARGEST_KNOT {
                problems += &knot.to_text();
            }
        }
        ensure!(problems.is_empty(), "{problems}");
        println!("cycles: no folder has a knot of modules that is too large");
    }
    Ok(())
}

/// Modules of one folder, each of which depends on all others, directly or through others.
struct Knot {
    folder: String,
    modules: Vec<String>,
    /// The edges between files of different modules of the knot.
    edges: Edges,
}

impl Knot {
    fn to_text(&self) -> String {
        let mut text = format!(
            "{}: {} modules depend on each other, more than are allowed: {}\n",
            self.folder,
            self.modules.len(),
            self.modules.join(", ")
        );
        for ((from, to), paths) in &self.edges {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let _ = writeln!(text, "  {from} uses {to} ({})", paths.join(", "));
        }
        text
    }
}

/// Returns the knots of modules in each folder.
fn knots(edges: &Edges) -> Vec<Knot> {
    let mut folders = BTreeSet::new();
    for (from, to) in edges.keys() {
        for file in [from, to] {
            let ends = file.match_indices('/').map(|(end, _)| &file[..end]);
            folders.extend(ends.filter(|folder| folder.contains('/')));
        }
    }
    folders
        .into_iter()
        .flat_map(|folder| knots_of_folder(folder, edges))
        .collect()
}

fn knots_of_folder(folder: &str, edges: &Edges) -> Vec<Knot> {
    let mut between = Edges::new();
    for (from, to) in edges.keys() {
        if let (Some(from), Some(to)) = (module_in(folder, from), module_in(folder, to))
            && from != to
        {
            between.entry((from.to_owned(), to.to_owned())).or_default();
        }
    }
    let mut pending: BTreeSet<&str> = between.keys().map(|(from, _)| from.as_str()).collect();
    let mut knots = Vec::new();
    while let Some(first) = pending.pop_first() {
        let mut modules = vec![first.to_owned()];
        for module in &pending {
            if reaches(&between, first, module) && reaches(&between, module, first) {
                modules.push((*module).to_owned());
            }
        }
        pending.retain(|module| !modules.iter().any(|known| known == module));
        if modules.len() > 1 {
            knots.push(Knot {
                folder: folder.to_owned(),
                edges: edges_between(folder, &modules, edges),
                modules,
            });
        }
    }
    knots
}

/// Returns the edges between files of different modules of a folder.
fn edges_between(folder: &str, modules: &[String], edges: &Edges) -> Edges {
    let mut found = Edges::new();
    for (edge, paths) in edges {
        let ends = [&edge.0, &edge.1].map(|file| module_in(folder, file));
        let are_in_knot = ends
            .iter()
            .all(|end| end.is_some_and(|end| modules.iter().any(|module| module == end)));
        if are_in_knot && ends[0] != ends[1] {
            found.insert(edge.clone(), paths.clone());
        }
    }
    found
}

/// Returns the module of a folder that has this file: `sets` for `fsb/src/sets/own.rs` in
/// `fsb/src`.
fn module_in<'a>(folder: &str, file: &'a str) -> Option<&'a str> {
    let below = file.strip_prefix(folder)?.strip_prefix('/')?;
    let module = below.split('/').next()?;
    Some(module.strip_suffix(".rs").unwrap_or(module))
}

/// Returns a line for each edge that is part of a cycle.
fn cycles(edges: &Edges) -> String {
    let mut text = String::new();
    for ((from, to), paths) in edges {
        if reaches(edges, to, from) {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let _ = writeln!(text, "cycle: {from} uses {to} ({})", paths.join(", "));
        }
    }
    text
}

/// Returns whether a path leads from one file to another.
fn reaches(edges: &Edges, from: &str, to: &str) -> bool {
    let (mut seen, mut pending) = (BTreeSet::new(), vec![from]);
    while let Some(file) = pending.pop() {
        if file == to {
            return true;
        }
        if seen.insert(file) {
            let start = (file.to_owned(), String::new());
            let next = edges
                .range(start..)
                .map(|(edge, _)| edge)
                .take_while(|edge| edge.0 == file);
            pending.extend(next.map(|edge| edge.1.as_str()));
        }
    }
    false
}

/// Returns the names that files of a crate use from other files.
fn edges_of(tree: &Tree) -> Edges {
    let mut edges = Edges::new();
    for (module, path) in tree.paths() {
        let from = tree.file_of(module);
        for to in tree.files_defining(module, path).filter(|to| *to != from) {
            let edge = (from.display().to_string(), to.display().to_string());
            edges.entry(edge).or_default().insert(path.join("::"));
        }
    }
    edges
}

// The modules of a crate, and the files that a path in one of them leads to.

/// Segments of a path, such as `["super", "table", "Row"]`.
type Segments = Vec<String>;

/// One module: a file, or `mod name { … }` inside of one.
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    imports: BTreeMap<String, Vec<Segments>>,
    globs: Vec<Segments>,
    paths: BTreeSet<Segments>,
}

#[derive(Clone, Copy, PartialEq)]
enum Definition {
    Module(usize),
    ItemIn(usize),
}

/// The files and modules of one crate.
struct Tree<'a> {
    read: &'a dyn Fn(&Path) -> Option<String>,
    files: Vec<PathBuf>,
    modules: Vec<Module>,
}

impl<'a> Tree<'a> {
    /// Parses the file `root` and the files of all modules that it declares.
    fn load(root: &Path, read: &'a dyn Fn(&Path) -> Option<String>) -> anyhow::Result<Self> {
        let mut tree = Tree {
            read,
            files: Vec::new(),
            modules: Vec::new(),
        };
        tree.load_file(None, root)?;
        Ok(tree)
    }

    /// Returns all paths in the crate, each with the number of its module.
    fn paths(&self) -> impl Iterator<Item = (usize, &[String])> {
        self.modules
            .iter()
            .enumerate()
            .flat_map(|(index, module)| module.paths.iter().map(move |path| (index, &path[..])))
    }

    fn file_of(&self, module: usize) -> &Path {
        &self.files[self.modules[module].file]
    }

    /// Returns the files that define what `path` names in a module: none if it is an item of
    /// another crate.
    fn files_defining(&self, module: usize, path: &[String]) -> impl Iterator<Item = &Path> {
        self.resolve(module, path, &mut BTreeSet::new())
            .into_iter()
            .filter_map(|definition| match definition {
                Definition::ItemIn(file) => Some(&*self.files[file]),
                Definition::Module(_) => None,
            })
    }

    fn load_file(&mut self, parent: Option<usize>, path: &Path) -> anyhow::Result<usize> {
        let text =
            (self.read)(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        self.files.push(path.to_owned());
        let directory = match path.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "main" | "mod") => path.with_file_name(""),
            _ => path.with_extension(""),
        };
        self.load_module(parent, self.files.len() - 1, &parsed.items, &directory)
    }

    fn load_module(
        &mut self,
        parent: Option<usize>,
        file: usize,
        items: &[Item],
        directory: &Path,
    ) -> anyhow::Result<usize> {
        let index = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            imports: BTreeMap::new(),
            globs: Vec::new(),
            paths: BTreeSet::new(),
        });
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            if let Item::Mod(child) = item {
                let name = child.ident.to_string();
                let below = directory.join(&name);
                let loaded = match &child.content {
                    Some((_, items)) => self.load_module(Some(index), file, items, &below)?,
                    None => {
                        let beside = below.with_extension("rs");
                        let exists = (self.read)(&beside).is_some();
                        self.load_file(
                            Some(index),
                            &if exists { beside } else { below.join("mod.rs") },
                        )?
                    }
                };
                self.modules[index].children.insert(name, loaded);
            } else {
                self.modules[index].define(item);
                self.modules[index].visit_item(item);
            }
        }
        Ok(index)
    }

    /// Returns what `path` names, seen from a module: nothing if it leads out of the crate.
    fn resolve(
        &self,
        from: usize,
        path: &[String],
        seen: &mut BTreeSet<(usize, String)>,
    ) -> Vec<Definition> {
        let Some((first, rest)) = path.split_first() else {
            return Vec::new();
        };
        let mut found = match first.as_str() {
            "crate" => vec![Definition::Module(0)],
            "self" => vec![Definition::Module(from)],
            "super" => self.modules[from]
                .parent
                .map(Definition::Module)
                .into_iter()
                .collect(),
            name => self.look_up(from, name, seen),
        };
        for name in rest {
            let modules: Vec<usize> = found
                .iter()
                .filter_map(|definition| {
                    if let Definition::Module(module) = definition {
                        Some(*module)
                    } else {
                        None
                    }
                })
                .collect();
            let next: Vec<Definition> = match name.as_str() {
                "super" => modules
                    .iter()
                    .filter_map(|module| self.modules[*module].parent)
                    .map(Definition::Module)
                    .collect(),
                "self" => continue,
                name => modules
                    .iter()
                    .flat_map(|module| self.look_up(*module, name, seen))
                    .collect(),
            };
            if !next.is_empty() {
                found = next;
            } else {
                // What is left of the path is an associated item or a variant; in a module, an item
                // that a macro defines there or one of another crate. An exported macro is itself
                // at the root of its crate, wherever its file is.
                let is_defined_by_macro = |module: usize| {
                    let Module { imports, globs, .. } = &self.modules[module];
                    module != 0 && !imports.contains_key(name) && globs.is_empty()
                };
                let definitions = found.into_iter().filter_map(|definition| match definition {
                    Definition::Module(module) if !is_defined_by_macro(module) => None,
                    Definition::Module(module) => {
                        Some(Definition::ItemIn(self.modules[module].file))
                    }
                    item => Some(item),
                });
                found = definitions.collect();
                break;
            }
        }
        found
    }

    /// Returns what `name` is in a module; a module and a function may have the same name.
    fn look_up(
        &self,
        within: usize,
        name: &str,
        seen: &mut BTreeSet<(usize, String)>,
    ) -> Vec<Definition> {
        let module = &self.modules[within];
        if !seen.insert((within, name.to_owned())) {
            return Vec::new();
        }
        let mut found: Vec<Definition> = module
            .children
            .get(name)
            .copied()
            .map(Definition::Module)
            .into_iter()
            .collect();
        if module.items.contains(name) {
            found.push(Definition::ItemIn(module.file));
        }
        for path in module.imports.get(name).into_iter().flatten() {
            found.extend(self.resolve(within, path, seen));
        }
        if found.is_empty() {
            for path in &module.globs {
                for definition in self.resolve(within, path, seen) {
                    match definition {
                        Definition::Module(other) => found.extend(self.look_up(other, name, seen)),
                        Definition::ItemIn(_) => {}
                    }
                }
            }
        }
        found
    }
}

impl Module {
    fn define(&mut self, item: &Item) {
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Macro(syn::ItemMacro {
                ident: Some(ident), ..
            }) => ident,
            _ => return,
        };
        self.items.insert(name.to_string());
    }

    fn import(&mut self, tree: &UseTree, mut path: Segments, exported: bool) {
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                self.import(&tree.tree, path, exported);
            }
            UseTree::Group(tree) => tree
                .items
                .iter()
                .for_each(|tree| self.import(tree, path.clone(), exported)),
            UseTree::Glob(_) => {
                // Each name that is taken through it is an edge. Variants of an enum are taken
                // here.
                self.paths.insert(path.clone());
                self.globs.push(path);
            }
            UseTree::Name(syn::UseName { ident, .. }) if ident == "self" => {
                let name = path.last().cloned().unwrap_or_default();
                self.bind(name, path, exported);
            }
            UseTree::Name(tree) => {
                path.push(tree.ident.to_string());
                self.bind(tree.ident.to_string(), path, exported);
            }
            UseTree::Rename(tree) => {
                if tree.ident != "self" {
                    path.push(tree.ident.to_string());
                }
                self.bind(tree.rename.to_string(), path, exported);
            }
        }
    }

    fn bind(&mut self, name: String, path: Segments, exported: bool) {
        if !exported {
            self.paths.insert(path.clone());
        }
        self.imports.entry(name).or_default().push(path);
    }

    /// Takes what looks like a path from tokens that have no syntax tree.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path = Segments::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.paths.insert(std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                other => {
                    self.paths.insert(std::mem::take(&mut path));
                    colons = 0;
                    match other {
                        TokenTree::Group(group) => self.scan(group.stream()),
                        // `#[serde(with = "path::of::module")]`
                        TokenTree::Literal(literal) => {
                            let text = literal.to_string();
                            if let Ok(inner) = syn::parse_str::<syn::Path>(text.trim_matches('"')) {
                                self.visit_path(&inner);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        self.paths.insert(path);
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !matches!(item, ImplItem::Fn(syn::ImplItemFn { attrs, .. }) | ImplItem::Const(syn::ImplItemConst { attrs, .. }) if is_test(attrs))
        {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            let exported = !matches!(item.vis, Visibility::Inherited);
            self.import(&item.tree, Segments::new(), exported);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.paths.insert(
                path.segments
                    .iter()
                    .map(|segment| segment.ident.to_string())
                    .collect(),
            );
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.scan(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.scan(list.tokens.clone());
        }
    }
}

pub fn attributes(item: &Item) -> &[Attribute] {
    use syn::*;
    match item {
        Item::Const(ItemConst { attrs, .. })
        | Item::Enum(ItemEnum { attrs, .. })
        | Item::Fn(ItemFn { attrs, .. })
        | Item::Impl(ItemImpl { attrs, .. })
        | Item::Macro(ItemMacro { attrs, .. })
        | Item::Mod(ItemMod { attrs, .. })
        | Item::Static(ItemStatic { attrs, .. })
        | Item::Struct(ItemStruct { attrs, .. })
        | Item::Trait(ItemTrait { attrs, .. })
        | Item::Type(ItemType { attrs, .. })
        | Item::Use(ItemUse { attrs, .. }) => attrs,
        _ => &[],
    }
}

pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && matches!(&attribute.meta, Meta::List(list) if {
                let tokens = list.tokens.to_string().replace(' ', "");
                tokens == "test" || tokens.starts_with("all(test,")
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the edges that are part of a cycle, as `a.rs uses b.rs (path)`.
    fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
        let text = cycles(&edges(files));
        text.lines()
            .map(|line| line.trim_start_matches("cycle: ").to_owned())
            .collect()
    }

    fn edges(files: &[(&str, &str)]) -> Edges {
        let read = |path: &Path| {
            files
                .iter()
                .find(|(name, _)| path == Path::new(name))
                .map(|(_, text)| (*text).to_owned())
        };
        edges_of(&Tree::load(Path::new("main.rs"), &read).expect("the crate parses"))
    }

    #[test]
    fn paths_through_imported_modules_close_a_cycle() {
        let found = cycles_of(&[
            (
                "main.rs",
                "mod author; mod exit; mod progress; mod results;",
            ),
            (
                "exit.rs",
                "pub const DONE: i32 = 0; pub fn stop() { crate::progress::say() }",
            ),
            (
                "progress.rs",
                "use crate::results; pub fn say() { results::summary(); }",
            ),
            (
                "results.rs",
                "use crate::{author as owner}; pub fn summary() { owner::replace() }",
            ),
            (
                "author.rs",
                "use super::exit; pub fn replace() { std::process::exit(exit::DONE) }",
            ),
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
            (
                "control/mod.rs",
                "pub fn find() {} pub struct Held(crate::ledger::Entry);",
            ),
            ("ledger/mod.rs", "mod guard; pub struct Entry;"),
            (
                "ledger/guard.rs",
                "use super::Entry; use crate::control; fn admit(_: Entry) { control::find() }",
            ),
        ]);
        assert!(
            found.is_empty(),
            "the ledger itself does not use its guard: {found:?}"
        );
        let found = cycles_of(&[
            ("main.rs", "mod control; mod ledger;"),
            (
                "control/mod.rs",
                "pub fn find() {} pub struct Held(crate::ledger::Entry);",
            ),
            (
                "ledger/mod.rs",
                "mod guard; pub struct Entry; fn add() { guard::admit(Entry) }",
            ),
            (
                "ledger/guard.rs",
                "pub fn admit(_: super::Entry) { crate::control::find() }",
            ),
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
            (
                "input.rs",
                "fn cached() { match 1 { crate::kernel::CACHE => (), _ => () } }  pub fn open() {}",
            ),
            (
                "kernel.rs",
                "pub const CACHE: i32 = 1; pub fn list() -> Vec<crate::modules::Index> { vec![] }",
            ),
            (
                "modules.rs",
                "use crate::input; pub struct Index; fn read() { println!(\"{:?}\", input::open()) }",
            ),
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
            (
                "view.rs",
                "use crate::compare; pub struct Row; pub fn all() { compare::view::details(); }",
            ),
            ("compare/mod.rs", "pub mod view;"),
            (
                "compare/view.rs",
                "use crate::view::Row; pub fn details() -> Option<Row> { None }",
            ),
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
            (
                "agree/mod.rs",
                "mod fio; mod ours; mod row; fn run() { ours::begin(); fio::labels() }",
            ),
            (
                "agree/fio.rs",
                "pub fn labels() {} fn start() { super::ours::begin() }",
            ),
            (
                "agree/ours.rs",
                "use super::row::Row; pub fn begin() -> Option<Row> { None }",
            ),
            (
                "agree/row.rs",
                "pub struct Row; impl Row { fn labels() { super::fio::labels() } }",
            ),
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
        assert_eq!(
            cycles_of(&[("main.rs", parent), ("child.rs", child)]).len(),
            2
        );
        assert!(
            cycles_of(&[
                ("main.rs", "mod child; pub struct Shared;"),
                ("child.rs", child)
            ])
            .is_empty()
        );
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines_the_item() {
        let found = edges(&[
            ("main.rs", "mod family; mod user;"),
            (
                "family/mod.rs",
                "mod member; mod shared; pub use shared::{self as base, Shared as Common};",
            ),
            ("family/shared.rs", "pub struct Shared;"),
            ("family/member.rs", "use super::*; fn take(_: Common) {}"),
            (
                "user.rs",
                "fn take(_: crate::family::Common, _: crate::family::base::Shared) {}",
            ),
        ]);
        let found: Vec<(&str, &str)> = found
            .keys()
            .map(|(from, to)| (from.as_str(), to.as_str()))
            .collect();
        let to = "family/shared.rs";
        assert_eq!(found, [("family/member.rs", to), ("user.rs", to)]);
    }

    #[test]
    fn folders_whose_files_use_each_other_are_a_knot() {
        let files = [
            ("c/src/main.rs", "mod cli; mod sets; mod stored;"),
            (
                "c/src/cli.rs",
                "use crate::sets::source; fn main() { source::read() }",
            ),
            ("c/src/sets/mod.rs", "pub mod own; pub mod source;"),
            ("c/src/sets/own.rs", "pub fn matrices() {}"),
            (
                "c/src/sets/source.rs",
                "pub fn read() { crate::stored::runs() }",
            ),
            (
                "c/src/stored.rs",
                "pub fn runs() { crate::sets::own::matrices() }",
            ),
        ];
        let read = |path: &Path| {
            let found = files.iter().find(|(name, _)| path == Path::new(name));
            found.map(|(_, text)| (*text).to_owned())
        };
        let edges = edges_of(&Tree::load(Path::new("c/src/main.rs"), &read).unwrap());
        assert_eq!(cycles(&edges), "");
        let found = knots(&edges);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].modules, ["sets", "stored"]);
        assert_eq!(
            found[0].to_text().lines().skip(1).collect::<Vec<_>>(),
            [
                "  c/src/sets/source.rs uses c/src/stored.rs (crate::stored::runs)",
                "  c/src/stored.rs uses c/src/sets/own.rs (crate::sets::own::matrices)",
            ]
        );
    }

    #[test]
    fn tests_and_names_from_other_crates_are_no_edges() {
        let found = cycles_of(&[
            ("main.rs", "mod a; mod b;"),
            (
                "a.rs",
                "pub fn one() {} #[cfg(test)] mod tests { use crate::b::two; }",
            ),
            (
                "b.rs",
                "pub fn two() { crate::a::one() } #[cfg(test)] fn help() {}",
            ),
        ]);
        assert!(found.is_empty(), "{found:?}");
        assert!(
            edges(&[
                ("main.rs", "mod serde; use ::serde::de;"),
                ("serde.rs", "pub struct de;")
            ])
            .is_empty()
        );
    }

    #[test]
    fn an_item_that_a_macro_defines_is_in_the_file_of_its_module() {
        let cycles = cycles_of(&[
            ("main.rs", "mod code; mod error;"),
            (
                "code.rs",
                "pub struct Code; pub fn all() -> usize { crate::error::CODES.len() }",
            ),
            (
                "error.rs",
                "use crate::code::Code; crate::codes! { FIRST: Code }",
            ),
        ]);
        assert_eq!(
            cycles,
            [
                "code.rs uses error.rs (crate::error::CODES)",
                "error.rs uses code.rs (Code, crate::code::Code)"
            ]
        );
    }

    #[test]
    fn attributes_name_modules_in_strings() {
        let found = edges(&[
            ("main.rs", "mod a; mod b;"),
            (
                "a.rs",
                "struct A { #[serde(with = \"crate::b::text\")] field: u8 }",
            ),
            (
                "b.rs",
                "pub mod text { pub fn serialize() {} } pub fn text() {}",
            ),
        ]);
        assert_eq!(found.len(), 1);
    }
}
