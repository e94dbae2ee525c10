//! `cargo run -p xtask -- style`: counts constructs that make functions hard to follow, and lines
//! that are too long.
//!
//! Per crate, production code has at most [`CLOSURES`] named closures and [`ADAPTERS`] iterator
//! adapters per 1,000 lines, and no function of more than [`LONGEST_FUNCTION`] lines. Comments are
//! at most [`COMMENT_COLUMNS`] wide, pages [`PAGE_COLUMNS`].
//!
//! The file `style.toml` has the present value of what is above these targets. Its numbers only
//! fall: the check also fails if one can be lowered. `--print` prints the file anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use proc_macro2::{Ident, TokenStream, TokenTree};
use serde::Deserialize;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::cycles::{attributes, is_test};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const LIMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/style.toml");
/// Named closures per 1,000 lines.
const CLOSURES: f64 = 2.0;
/// Iterator adapters per 1,000 lines.
const ADAPTERS: f64 = 15.0;
const LONGEST_FUNCTION: usize = 60;
const COMMENT_COLUMNS: usize = 100;
const PAGE_COLUMNS: usize = 120;
/// Limits per 1,000 lines may be this much above the present value, so that a small change of a
/// crate needs no other limit.
const SLACK: f64 = 1.0;
/// More wide lines of pages are not listed.
const SHOWN: usize = 20;
const ITERATOR_ADAPTERS: [&str; 20] = [
    "chain",
    "cloned",
    "copied",
    "enumerate",
    "filter",
    "filter_map",
    "flat_map",
    "flatten",
    "inspect",
    "map",
    "map_while",
    "peekable",
    "rev",
    "scan",
    "skip",
    "skip_while",
    "step_by",
    "take",
    "take_while",
    "zip",
];

#[derive(clap::Args)]
pub struct Options {
    /// Prints style.toml with the present values instead of checking them.
    #[arg(long)]
    print: bool,
}

/// The limits of one crate, or the counts that they limit.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Counts {
    /// Named closures per 1,000 lines.
    closures: f64,
    /// Iterator adapters per 1,000 lines.
    adapters: f64,
    /// Functions of more than [`LONGEST_FUNCTION`] lines.
    long_functions: usize,
}

impl Default for Counts {
    fn default() -> Self {
        Counts {
            closures: CLOSURES,
            adapters: ADAPTERS,
            long_functions: 0,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Limits {
    /// Lines of pages wider than [`PAGE_COLUMNS`].
    wide_page_lines: usize,
    crates: BTreeMap<String, Counts>,
}

/// Checks the sources of all crates and all pages against the limits, or prints the limits.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let crates = counts_of_crates(&Path::new(ROOT).join("crates"))?;
    let wide_lines = wide_page_lines()?;
    if options.print {
        print!("{}", present(&crates, wide_lines.len()));
        return Ok(());
    }
    let limits = std::fs::read_to_string(LIMITS).context(LIMITS)?;
    let limits: Limits = toml::from_str(&limits).context(LIMITS)?;
    let mut faults = wide_comments()?;
    compare_page_lines(&wide_lines, limits.wide_page_lines, &mut faults);
    for (name, counts) in &crates {
        let limit = limits.crates.get(name).copied().unwrap_or_default();
        faults.extend(compare(name, counts, &limit));
    }
    ensure!(
        faults.is_empty(),
        "{}\n`cargo xtask style --print` prints the limits anew",
        faults.join("\n")
    );
    Ok(())
}

/// Returns a line for each count that is above its limit, and for each limit that can fall.
fn compare(name: &str, counts: &Counts, limit: &Counts) -> Vec<String> {
    let mut faults = Vec::new();
    let rates = [
        ("named closures", counts.closures, limit.closures, CLOSURES),
        (
            "iterator adapters",
            counts.adapters,
            limit.adapters,
            ADAPTERS,
        ),
    ];
    for (what, count, limit, target) in rates {
        if count > limit {
            faults.push(format!(
                "{name}: {count:.1} {what} per 1,000 lines: at most {limit:.1}"
            ));
        } else if limit > target && limit - count > SLACK {
            faults.push(format!(
                "{name}: lower the limit of {what} from {limit:.1} to {:.1}",
                count.max(target)
            ));
        }
    }
    if counts.long_functions != limit.long_functions {
        faults.push(format!(
            "{name}: {} functions of more than {LONGEST_FUNCTION} lines: the limit is {}",
            counts.long_functions, limit.long_functions
        ));
    }
    faults
}

fn compare_page_lines(wide: &[String], limit: usize, faults: &mut Vec<String>) {
    if wide.len() > limit {
        faults.push(format!(
            "{} lines of pages have more than {PAGE_COLUMNS} columns: at most {limit}",
            wide.len()
        ));
        faults.extend(wide.iter().take(SHOWN).cloned());
    } else if wide.len() < limit {
        faults.push(format!("lower wide_page_lines to {}", wide.len()));
    }
}

/// Returns the text of style.toml for the present counts.
fn present(crates: &BTreeMap<String, Counts>, wide_page_lines: usize) -> String {
    let mut text = String::from(
        "# Crates above the targets of src/style.rs: closures and adapters per 1,000 lines, and long functions.\n\
         # A number only falls. `cargo xtask style --print` prints this file with the present values.\n",
    );
    let _ = writeln!(text, "wide_page_lines = {wide_page_lines}\n\n[crates]");
    for (name, counts) in crates {
        let mut limits = Vec::new();
        // Rounded up to a half, because a rate rises a little if lines without these constructs go.
        let above = |value: f64| (value * 2.0).ceil() / 2.0;
        if counts.closures > CLOSURES {
            limits.push(format!("closures = {:.1}", above(counts.closures)));
        }
        if counts.adapters > ADAPTERS {
            limits.push(format!("adapters = {:.1}", above(counts.adapters)));
        }
        if counts.long_functions > 0 {
            limits.push(format!("long_functions = {}", counts.long_functions));
        }
        if !limits.is_empty() {
            let _ = writeln!(text, "{name} = {{ {} }}", limits.join(", "));
        }
    }
    text
}

/// Returns the counts of each crate by name.
fn counts_of_crates(crates: &Path) -> anyhow::Result<BTreeMap<String, Counts>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(crates)? {
        let directory = entry?.path();
        let source = directory.join("src");
        if source.is_dir() {
            let name = directory.file_name().unwrap_or_default();
            all.insert(name.to_string_lossy().into_owned(), counts_of(&source)?);
        }
    }
    Ok(all)
}

/// Returns the counts of the production code below a directory.
fn counts_of(source: &Path) -> anyhow::Result<Counts> {
    let mut files = BTreeMap::new();
    let mut tests = BTreeSet::new();
    for path in files_below(source, "rs")? {
        let file = Production::parse(&std::fs::read_to_string(&path)?)
            .with_context(|| path.display().to_string())?;
        let directory = match path.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "main" | "mod") => path.with_file_name(""),
            _ => path.with_extension(""),
        };
        for module in &file.test_modules {
            tests.insert(directory.join(module));
        }
        files.insert(path.with_extension(""), file);
    }
    files.retain(|path, _| !path.ancestors().any(|part| tests.contains(part)));
    let files = files.values();
    let lines: usize = files.clone().map(|file| file.lines).sum();
    let closures: usize = files.clone().map(|file| file.closures).sum();
    let adapters: usize = files.clone().map(|file| file.adapters).sum();
    let per_thousand = |count: usize| count as f64 * 1000.0 / lines.max(1) as f64;
    Ok(Counts {
        closures: per_thousand(closures),
        adapters: per_thousand(adapters),
        long_functions: files.map(|file| file.long_functions).sum(),
    })
}

/// The counts of a source file without the items that only tests have.
#[derive(Debug, Default, PartialEq)]
struct Production {
    /// Lines that are not blank.
    lines: usize,
    closures: usize,
    adapters: usize,
    long_functions: usize,
    /// The modules in files of their own that only tests have.
    test_modules: Vec<String>,
}

impl Production {
    fn parse(text: &str) -> syn::Result<Production> {
        let is_full = |text: &str| text.lines().filter(|line| !line.trim().is_empty()).count();
        let mut file = Production {
            lines: is_full(text),
            ..Production::default()
        };
        file.visit_file(&syn::parse_file(text)?);
        Ok(file)
    }

    /// Counts adapters in the arguments of a macro, which are not parsed.
    fn count_tokens(&mut self, tokens: TokenStream) {
        let mut after_dot = false;
        for token in tokens {
            match &token {
                TokenTree::Group(group) => self.count_tokens(group.stream()),
                TokenTree::Ident(name) if after_dot && is_adapter(name) => self.adapters += 1,
                _ => {}
            }
            after_dot = matches!(&token, TokenTree::Punct(mark) if mark.as_char() == '.');
        }
    }

    fn count_function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let last = block.brace_token.span.close().end().line;
        if last - first + 1 > LONGEST_FUNCTION {
            self.long_functions += 1;
        }
    }
}

fn is_adapter(name: &Ident) -> bool {
    ITERATOR_ADAPTERS.iter().any(|adapter| name == adapter)
}

impl<'ast> Visit<'ast> for Production {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            return visit::visit_item(self, item);
        }
        let span = item.span();
        self.lines = self
            .lines
            .saturating_sub(span.end().line - span.start().line + 1);
        if let syn::Item::Mod(module) = item
            && module.content.is_none()
        {
            self.test_modules.push(module.ident.to_string());
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.count_function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            self.count_function(&function.sig, &function.block);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        let value = local.init.as_ref().map(|init| &*init.expr);
        if matches!(value, Some(syn::Expr::Closure(_))) {
            self.closures += 1;
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        // `take()` without a number is that of an option.
        let is_of_option = call.method == "take" && call.args.is_empty();
        if !is_of_option && is_adapter(&call.method) {
            self.adapters += 1;
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.count_tokens(call.tokens.clone());
    }
}

/// Returns the comments of Rust sources that are too wide, but for tables, code and single words.
fn wide_comments() -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for path in files_below(&Path::new(ROOT).join("crates"), "rs")? {
        let mut is_code = false;
        for (number, line) in (1..).zip(std::fs::read_to_string(&path)?.lines()) {
            let text = line.trim_start();
            let is_comment = text.starts_with("//");
            let is_fence = text.trim_start_matches(['/', '!', ' ']).starts_with("```");
            is_code = is_comment && is_code != is_fence;
            if is_comment && !is_code && is_wide(text, line, COMMENT_COLUMNS) {
                found.push(fault(&path, number, COMMENT_COLUMNS));
            }
        }
    }
    Ok(found)
}

/// Returns the lines of pages that are too wide, but for tables, code and single words.
fn wide_page_lines() -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for path in files_below(Path::new(ROOT), "md")? {
        let mut is_code = false;
        for (number, line) in (1..).zip(std::fs::read_to_string(&path)?.lines()) {
            is_code ^= line.trim_start().starts_with("```");
            if !is_code && is_wide(line, line, PAGE_COLUMNS) {
                found.push(fault(&path, number, PAGE_COLUMNS));
            }
        }
    }
    Ok(found)
}

fn fault(path: &Path, line: usize, columns: usize) -> String {
    let path = path.strip_prefix(ROOT).unwrap_or(path);
    format!("{}:{line}: more than {columns} columns", path.display())
}

/// Returns whether a line is too wide and could be wrapped. `text` is the line without indentation.
fn is_wide(text: &str, line: &str, columns: usize) -> bool {
    let content = text.trim_start_matches(['/', '!', ' ', '*', '-', '>', '#']);
    line.chars().count() > columns && !content.starts_with('|') && content.contains(' ')
}

/// Returns the files below a directory with an extension, sorted. A source archive has no git, so
/// the directories are read.
pub fn files_below(directory: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_symlink() || name == "target" || name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Production {
        Production::parse(text).unwrap()
    }

    #[test]
    fn code_of_tests_is_left_out() {
        let text = "fn a() {\n    b();\n\n}\n#[cfg(test)]\nmod skeleton;\n#[cfg(test)]\nmod tests {\n    \
                    fn c() {\n        let d = |e| e.map(f);\n    }\n}\nfn g() {}\n";
        let expected = Production {
            lines: 4,
            test_modules: vec!["skeleton".to_owned()],
            ..Production::default()
        };
        assert_eq!(parsed(text), expected);
    }

    #[test]
    fn closures_and_adapters_are_counted_in_code_and_in_macros() {
        let found = parsed(
            "fn a() {\n    let name = |b: u8| b.map(c);\n    let plain = d.iter().rev().zip(e);\n    \
             assert!(f.filter(|g| g.skip(1)).all(h), \"i.map(j)\");\n    let k = f.take();\n}\n",
        );
        assert_eq!((found.closures, found.adapters), (1, 5));
    }

    #[test]
    fn a_function_is_long_by_its_lines() {
        let long_functions = |lines: usize| {
            let body = "        a();\n".repeat(lines - 2);
            let function = format!("    /// Calls `a`.\n    pub const fn b() {{\n{body}    }}\n");
            parsed(&format!("impl C {{\n{function}}}\n")).long_functions
        };
        assert_eq!((long_functions(60), long_functions(61)), (0, 1));
    }

    #[test]
    fn a_limit_holds_and_falls_with_its_count() {
        let counts = Counts {
            closures: 3.0,
            adapters: 20.0,
            long_functions: 1,
        };
        assert_eq!(compare("a", &counts, &counts), Vec::<String>::new());
        assert_eq!(compare("a", &counts, &Counts::default()).len(), 3);
        let loose = Counts {
            closures: 4.5,
            adapters: 21.5,
            long_functions: 2,
        };
        assert_eq!(compare("a", &counts, &loose).len(), 3);
        let few = Counts {
            closures: 0.0,
            adapters: 0.0,
            long_functions: 0,
        };
        assert_eq!(compare("a", &few, &Counts::default()), Vec::<String>::new());
        let crates = BTreeMap::from([("a".to_owned(), counts), ("b".to_owned(), few)]);
        let limits: Limits = toml::from_str(&present(&crates, 7)).unwrap();
        assert_eq!(limits.wide_page_lines, 7);
        assert_eq!(limits.crates, BTreeMap::from([("a".to_owned(), counts)]));
    }

    #[test]
    fn tables_and_long_words_may_be_wide() {
        let words = "word ".repeat(30);
        let wide = |line: &str| is_wide(line, line, PAGE_COLUMNS);
        assert!(wide(&words) && wide(&format!("* {words}")));
        assert!(!wide(&format!("| {words}")) && !wide(&"w".repeat(150)) && !wide("word"));
    }
}
