//! The modules of a crate, and the files that a path in one of them leads to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Meta, UseTree, Visibility};

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
pub struct Tree<'a> {
    read: &'a dyn Fn(&Path) -> Option<String>,
    pub files: Vec<PathBuf>,
    modules: Vec<Module>,
}

impl<'a> Tree<'a> {
    /// Parses the file `root` and the files of all modules that it declares.
    pub fn load(root: &Path, read: &'a dyn Fn(&Path) -> Option<String>) -> anyhow::Result<Self> {
        let mut tree = Tree { read, files: Vec::new(), modules: Vec::new() };
        tree.load_file(None, root)?;
        Ok(tree)
    }

    /// Returns all paths in the crate, each with the number of its module.
    pub fn paths(&self) -> impl Iterator<Item = (usize, &[String])> {
        self.modules
            .iter()
            .enumerate()
            .flat_map(|(index, module)| module.paths.iter().map(move |path| (index, &path[..])))
    }

    pub fn file_of(&self, module: usize) -> &Path {
        &self.files[self.modules[module].file]
    }

    /// Returns the files that define what `path` names in a module: none if it is an item of another crate.
    pub fn files_defining(&self, module: usize, path: &[String]) -> impl Iterator<Item = &Path> {
        self.resolve(module, path, &mut BTreeSet::new()).into_iter().filter_map(|definition| match definition {
            Definition::ItemIn(file) => Some(&*self.files[file]),
            Definition::Module(_) => None,
        })
    }

    fn load_file(&mut self, parent: Option<usize>, path: &Path) -> anyhow::Result<usize> {
        let text = (self.read)(path).with_context(|| format!("{} cannot be read", path.display()))?;
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
                        self.load_file(Some(index), &if exists { beside } else { below.join("mod.rs") })?
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
    fn resolve(&self, from: usize, path: &[String], seen: &mut BTreeSet<(usize, String)>) -> Vec<Definition> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        let mut found = match first.as_str() {
            "crate" => vec![Definition::Module(0)],
            "self" => vec![Definition::Module(from)],
            "super" => self.modules[from].parent.map(Definition::Module).into_iter().collect(),
            name => self.look_up(from, name, seen),
        };
        for name in rest {
            let modules: Vec<usize> = found
                .iter()
                .filter_map(|definition| if let Definition::Module(module) = definition { Some(*module) } else { None })
                .collect();
            let next: Vec<Definition> = match name.as_str() {
                "super" => {
                    modules.iter().filter_map(|module| self.modules[*module].parent).map(Definition::Module).collect()
                }
                "self" => continue,
                name => modules.iter().flat_map(|module| self.look_up(*module, name, seen)).collect(),
            };
            if !next.is_empty() {
                found = next;
            } else {
                // What is left of the path is an associated item or a variant.
                found.retain(|definition| matches!(definition, Definition::ItemIn(_)));
                break;
            }
        }
        found
    }

    /// Returns what `name` is in a module; a module and a function may have the same name.
    fn look_up(&self, within: usize, name: &str, seen: &mut BTreeSet<(usize, String)>) -> Vec<Definition> {
        let module = &self.modules[within];
        if !seen.insert((within, name.to_owned())) {
            return Vec::new();
        }
        let mut found: Vec<Definition> =
            module.children.get(name).copied().map(Definition::Module).into_iter().collect();
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
            Item::Macro(syn::ItemMacro { ident: Some(ident), .. }) => ident,
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
            UseTree::Group(tree) => tree.items.iter().for_each(|tree| self.import(tree, path.clone(), exported)),
            UseTree::Glob(_) => {
                // Each name that is taken through it is an edge. Variants of an enum are taken here.
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
            self.paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
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

fn attributes(item: &Item) -> &[Attribute] {
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

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && matches!(&attribute.meta, Meta::List(list) if {
                let tokens = list.tokens.to_string().replace(' ', "");
                tokens == "test" || tokens.starts_with("all(test,")
            })
    })
}
