//! Options in messages and help texts: each exists in the command that can print it, or the text
//! names the command that has it.

use std::path::{Path, PathBuf};

use crate::cli::option_names::{NamedOption, commands, has, named, note};
use crate::cli::tree;
use crate::help::{Page, page};

/// Options of other programs, in sentences about them.
const OF_OTHER_PROGRAMS: [&str; 6] = [
    "--bind",
    "--command-name",
    "--direct-io",
    "--lazy",
    "--release",
    "--sparse",
];

/// Returns the tree with all global arguments and help options.
fn root() -> clap::Command {
    let mut root = page(tree(), Page::Complete);
    root.build();
    root
}

/// Returns whether a command of that name, or one below it, has an option.
fn is_of(root: &clap::Command, name: &str, option: &str) -> bool {
    commands(root).iter().any(|(found, command)| {
        let is_below = found == name || found.starts_with(&format!("{name} "));
        is_below && has(root, command, option)
    })
}

fn own_named(text: &str, root: &clap::Command) -> Vec<NamedOption> {
    named(text, |name| root.find_subcommand(name).is_some())
}

fn named_options(text: &str) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    for NamedOption { option, command } in own_named(text, &root()) {
        found.push((option, command));
    }
    found
}

#[test]
fn options_are_attributed_to_the_command_before_them() {
    let text = "use a smaller --size, or wait (fsb run --wait), then --dir='a b'; not 'tool --quoted x' --last";
    let run = Some("fsb run".to_owned());
    assert_eq!(
        named_options(text),
        [
            ("--size".to_owned(), None),
            ("--wait".to_owned(), run),
            ("--dir".to_owned(), None),
            ("--last".to_owned(), None),
        ]
    );
}

#[test]
fn a_message_says_whose_option_it_names() {
    let root = tree();
    let text = "use a smaller --size, or --allow-concurrent";
    let found = note(text, "fsb micro", &root);
    assert_eq!(found.as_deref(), Some("--size is an option of fsb run"));
    assert_eq!(note(text, "fsb run", &root), None);
    assert_eq!(note("raise --fileCount", "fsb micro", &root), None);
    let qualified = "measure in a virtual machine (fsb run --in vm)";
    assert_eq!(note(qualified, "fsb micro", &root), None);
    assert_eq!(note("losetup --direct-io=on", "fsb micro", &root), None);
}

#[test]
fn help_pages_name_options_of_their_command() {
    let root = root();
    for (name, command) in commands(&root) {
        let text = command.clone().term_width(80).render_help().to_string();
        // Commands of users follow "--" in examples.
        let mut own = String::new();
        for line in text.lines() {
            own.push_str(line.split(" -- ").next().unwrap_or_default());
            own.push('\n');
        }
        for NamedOption { option, command } in own_named(&own, &root) {
            let owner = command.unwrap_or_else(|| name.clone());
            assert!(
                is_of(&root, &owner, &option) || is_of(&root, &name, &option),
                "{name} --help: {owner} has no {option}\n{own}"
            );
        }
    }
}

/// Returns the string literals of a source, without those of its test module.
fn literals(source: &str) -> Vec<String> {
    let own = source.split("#[cfg(test)]\nmod tests").next();
    let letters: Vec<char> = own.unwrap_or_default().chars().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < letters.len() {
        match letters[at] {
            '/' if letters.get(at + 1) == Some(&'/') => {
                while at < letters.len() && letters[at] != '\n' {
                    at += 1;
                }
            }
            // A character, which may be a quote.
            '\'' if letters.get(at + 2) == Some(&'\'') => at += 2,
            '\'' if letters.get(at + 1) == Some(&'\\') => at += 3,
            '"' => {
                let mut literal = String::new();
                at += 1;
                while at < letters.len() && letters[at] != '"' {
                    if letters[at] == '\\' {
                        at += 1;
                    }
                    literal.extend(letters.get(at));
                    at += 1;
                }
                found.push(literal);
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// Returns the command whose messages alone a source has: that of its file or folder.
fn command_of(path: &Path, root: &clap::Command) -> Option<String> {
    let mut parts = path.iter().map(|part| part.to_string_lossy());
    parts.find(|part| part == "cli" || part == "emulate")?;
    let name = parts.next()?;
    let name = name.trim_end_matches(".rs");
    root.find_subcommand(name).map(|_| format!("fsb {name}"))
}

#[test]
fn messages_name_options_that_exist() {
    let root = root();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        // Texts of fsb-compat are about other tools.
        let is_other = ["xtask", "fsb-mpi", "fsb-testkit", "fsb-compat"]
            .iter()
            .any(|name| path.ends_with(name));
        if !is_other {
            sources(&path.join("src"), &mut paths);
        }
    }
    let mut wrong = Vec::new();
    let mut checked = 0;
    for path in &paths {
        let owner = command_of(path, &root);
        for literal in literals(&std::fs::read_to_string(path).unwrap()) {
            for NamedOption { option, command } in own_named(&literal, &root) {
                // A literal that is an option alone may be an argument of another program.
                if !literal.contains(' ') || OF_OTHER_PROGRAMS.contains(&option.as_str()) {
                    continue;
                }
                checked += 1;
                let owner = command.or_else(|| owner.clone());
                if !is_of(&root, owner.as_deref().unwrap_or("fsb"), &option) {
                    let owner = owner.unwrap_or_else(|| "no command".to_owned());
                    wrong.push(format!("{}: {option} ({owner}): {literal}", path.display()));
                }
            }
        }
    }
    assert!(checked > 100, "{checked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
