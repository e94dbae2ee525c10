//! `docs/options.md`: the options of file systems, the values of controls and the arguments of media.

use std::fmt::Write;

use fsb_testbed::control::{self, Scope};
use fsb_testbed::declared::DeclaredOption;
use fsb_testbed::fs::{self, FileSystem, Home};
use fsb_testbed::medium;

const HEAD: &str = "\
# Options of file systems, controls and media

`cargo xtask generate` writes this page from the tables in the source. `fsb list file-systems NAME`, `fsb list controls NAME`
and `fsb list media NAME` print one table.

A target is `[NAME=]FS[,OPTION…][@MEDIUM]`, such as `ext4,data=journal,noatime@/dev/sdb`. `mkfs=\"…\"` holds arguments of the
mkfs program. fsb refuses an option that only other file systems have, a value out of range, and options that exclude each
other. It passes options that no table contains to the driver, because drivers are newer than this page.

";

/// Returns the page.
pub fn text() -> String {
    let mut text = HEAD.to_owned();
    text += "## Options of every file system\n\n";
    text += &options(fs::COMMON);
    let mut listed: Vec<&str> = Vec::new();
    for member in fs::REGISTRY.iter().filter(|member| !member.options().is_empty()) {
        if listed.contains(&member.name()) {
            continue;
        }
        let alike = fs::REGISTRY.iter().filter(|other| other.options() == member.options());
        let alike: Vec<&dyn FileSystem> = alike.copied().collect();
        listed.extend(alike.iter().map(|member| member.name()));
        let names: Vec<&str> = alike.iter().map(|member| member.name()).collect();
        let _ = writeln!(text, "\n## {}\n", names.join(", "));
        if member.home() == Home::Nowhere {
            text += "It takes these options only.\n\n";
        }
        text += &options(member.options());
    }
    text += "\n## Controls\n\n`[controls]` of a plan and `--control NAME=VALUE` set them. The first value is the default.\n\n";
    text += "| control | holds for | values | effect |\n|---|---|---|---|\n";
    for control in control::REGISTRY {
        text += &row(*control);
    }
    text += "\n## Media\n\n| medium | argument | meaning |\n|---|---|---|\n";
    for medium in medium::REGISTRY {
        let argument = medium.argument().map_or_else(String::new, |argument| {
            format!("`{}`: {}, such as `{}`", argument.form, argument.about, argument.example)
        });
        let _ = writeln!(text, "| `{}` | {argument} | {} |", medium.name(), cell(medium.about()));
    }
    text
}

/// The table of options, by group and name.
fn options(options: &[DeclaredOption]) -> String {
    let mut options: Vec<&DeclaredOption> = options.iter().collect();
    options.sort_by_key(|option| (option.group, option.name));
    let mut text = "| option | values | default | effect |\n|---|---|---|---|\n".to_owned();
    for option in options {
        let needs = option.needs.map_or_else(String::new, |needs| format!("; {needs}"));
        let [values, about] = [option.values(), format!("{}{needs}", option.about)].map(|text| cell(&text));
        let _ = writeln!(text, "| `{}` | {values} | {} | {about} |", option.name, option.default);
    }
    text
}

/// The row of a control.
fn row(control: &dyn control::Control) -> String {
    let scope = match control.scope() {
        Scope::Run => "the run",
        Scope::Visit => "a target",
    };
    let values = control.values().iter().map(|value| match &value.kind {
        Some(kind) => format!("`{}` ({}): {}", value.name, kind.values(), value.about),
        None => format!("`{}`: {}", value.name, value.about),
    });
    let excludes = control.excludes().map_or_else(String::new, |other| format!(" Not together with `{other}`."));
    let values = values.collect::<Vec<_>>().join("<br>");
    format!("| `{}` | {scope} | {} | {}{excludes} |\n", control.name(), cell(&values), cell(control.about()))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
