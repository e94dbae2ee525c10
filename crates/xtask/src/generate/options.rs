//! `docs/options.md`: options of file systems, values of controls, arguments of media.

use std::fmt::Write;

use fsb_testbed::control::{self, Scope};
use fsb_testbed::declared::{DeclaredOption, OptionKind};
use fsb_testbed::fs::{COMMON, FileSystem, Home, REGISTRY};
use fsb_testbed::medium;

/// Options that this number of sections declare alike are described once.
const SHARED: usize = 3;

const HEAD: &str = "\
# Options of file systems, controls and media

`cargo xtask generate` writes this page from the tables in the source. `fsb list file-systems NAME`, `fsb list controls NAME`
and `fsb list media NAME` print one table.

A target is `[NAME=]FS[,OPTION…][@MEDIUM]`, such as `ext4,data=journal,noatime@/dev/sdb`. `mkfs=\"…\"` holds arguments of the
mkfs program, and each `tune=\"…\"` those of one run of tune2fs on the new ext2, ext3 or ext4; `e2fsck -f -y` follows the
last run. The file system is mounted during a run that begins with `mounted`: `tune=\"mounted -j\"`. tune2fs chooses the size
of a new journal by the size of the slice; `-J size=8` sets 8 MiB.

The path of a mkfs program before those arguments takes the place of the installed one, so that two builds can be
compared: `fsb run ext4 'own=ext4,mkfs=\"./misc/mke2fs -t ext4\"'`. It begins with `/`, `./` or `../`, from the working
directory, its name begins with `mk`, and it runs as root. Only mkfs is replaced: tune2fs, e2fsck and what makes an
external journal stay the installed programs. `fsb bisect --candidates 1.45,1.46,1.47
'ext4,mkfs=\"/opt/e2fsprogs-{}/mkfs.ext4\"' --workload create` finds the version that made a difference.

`journal=\"/dev/NAME\"`, `journal=loop` and `journal=ram` put the journal of ext3, ext4, xfs or reiserfs on another medium. A
device that is not empty must be named with `--wipe`. An image has an eighth of `--size`, from 64 MiB to 1 GiB. Targets with
external journals are measured one at a time, and not in a virtual machine.

`encrypt` is an option of ext4 and f2fs that fsb performs itself: mkfs makes the feature `encrypt`, and the directory of the
files gets a policy of fscrypt, AES-256-XTS for contents and AES-256-CTS for names. The key is random and ends with the
mount.

fsb refuses an option that only other file systems have, a value out of range, and options that exclude each
other. It passes options that no table contains to the driver, because drivers are newer than this page.

A list entry is the option, its values and default in parentheses, and its effect. An option without parentheses takes no
value.

";

/// Returns the page.
pub(super) fn page() -> String {
    let sections = sections();
    let shared = shared(&sections);
    let mut text = HEAD.to_owned();
    text += "## Options of every file system\n\n";
    text += &option_list(COMMON.iter());
    text += "\n## Options of several file systems\n\nEach section names those that its file systems take.\n\n";
    text += &option_list(shared.iter().copied());
    for members in &sections {
        section(&mut text, members, &shared);
    }
    text += "\n## Controls\n\n`[controls]` of a plan and `--control NAME=VALUE` set them. The default is \
              `keep`, which changes nothing, or the value so marked. Controls of a target are marked with *target*; the \
              others hold for the run.\n\n";
    for control in control::REGISTRY {
        text += &control_entry(*control);
    }
    text += "\n## Media\n\n| medium | argument | meaning |\n|---|---|---|\n";
    for medium in medium::REGISTRY {
        let argument = medium.argument().map_or_else(String::new, |argument| {
            format!(
                "`{}`: {}, such as `{}`",
                argument.form, argument.about, argument.example
            )
        });
        let _ = writeln!(
            text,
            "| `{}` | {argument} | {} |",
            medium.name(),
            cell(medium.about())
        );
    }
    text
}

/// Returns the file systems that declare options, those with equal options together.
fn sections() -> Vec<Vec<&'static dyn FileSystem>> {
    let mut sections: Vec<Vec<&'static dyn FileSystem>> = Vec::new();
    for member in REGISTRY.iter().copied() {
        if member.options().is_empty() {
            continue;
        }
        match sections
            .iter_mut()
            .find(|members| members[0].options() == member.options())
        {
            Some(members) => members.push(member),
            None => sections.push(vec![member]),
        }
    }
    sections
}

/// Returns the options that many sections have in common, at most one for each name.
fn shared(sections: &[Vec<&'static dyn FileSystem>]) -> Vec<&'static DeclaredOption> {
    let mut shared: Vec<&DeclaredOption> = Vec::new();
    for option in sections.iter().flat_map(|members| members[0].options()) {
        let count = sections
            .iter()
            .filter(|members| members[0].options().contains(option))
            .count();
        if count >= SHARED && shared.iter().all(|known| known.name != option.name) {
            shared.push(option);
        }
    }
    shared
}

/// Adds the section of file systems with the same options.
fn section(text: &mut String, members: &[&dyn FileSystem], shared: &[&DeclaredOption]) {
    let names: Vec<&str> = members.iter().map(|member| member.name()).collect();
    let _ = writeln!(text, "\n## {}\n", names.join(", "));
    if members[0].home() == Home::Nowhere {
        *text += "It takes these options only.\n\n";
    }
    let (common, own): (Vec<&DeclaredOption>, Vec<&DeclaredOption>) = members[0]
        .options()
        .iter()
        .partition(|option| shared.contains(option));
    *text += &option_list(own.into_iter());
    let mut common: Vec<String> = common
        .iter()
        .map(|option| format!("`{}`", option.name))
        .collect();
    common.sort();
    if !common.is_empty() {
        let _ = writeln!(
            text,
            "\nOf [several file systems](#options-of-several-file-systems): {}",
            common.join(", ")
        );
    }
}

/// Returns the list of options, by group and name. Options that differ in their name alone share an
/// entry.
fn option_list<'a>(options: impl Iterator<Item = &'a DeclaredOption>) -> String {
    let mut options: Vec<&DeclaredOption> = options.collect();
    options.sort_by_key(|option| (option.group, option.name));
    let mut entries: Vec<(String, Vec<String>)> = Vec::new();
    for option in options {
        let (name, description) = (format!("`{}`", option.name), description(option));
        match entries.iter_mut().find(|(known, _)| *known == description) {
            Some((_, names)) => names.push(name),
            None => entries.push((description, vec![name])),
        }
    }
    entries
        .into_iter()
        .map(|(description, names)| format!("* {}{description}\n", names.join(", ")))
        .collect()
}

/// Returns the values, the default and the effect of an option.
fn description(option: &DeclaredOption) -> String {
    let mut details = Vec::new();
    if option.kind != OptionKind::Flag {
        details.push(
            option
                .values()
                .replace("number from 0 to 4294967295", "number below 2^32"),
        );
    }
    if !option.default.is_empty() {
        details.push(format!("default {}", option.default));
    }
    let details = match details.join("; ") {
        none if none.is_empty() => none,
        details => format!(" ({details})"),
    };
    let needs = option
        .needs
        .map_or_else(String::new, |needs| format!("; {needs}"));
    format!("{details}: {}{needs}", option.about)
}

/// Returns the list entry of a control.
fn control_entry(control: &dyn control::Control) -> String {
    let scope = match control.scope() {
        Scope::Run => "",
        Scope::Target => ", *target*",
    };
    let excludes = control.excludes().map_or_else(String::new, |other| {
        format!(" Not together with `{other}`.")
    });
    let mut text = format!(
        "* `{}`{scope}: {}{excludes}\n",
        control.name(),
        control.about()
    );
    for value in control.values() {
        if value.name == "keep" && value.about.starts_with("unchanged (default)") {
            continue;
        }
        let _ = match &value.kind {
            Some(kind) => writeln!(
                text,
                "  * `{}` ({}): {}",
                value.name,
                kind.values(),
                value.about
            ),
            None => writeln!(text, "  * `{}`: {}", value.name, value.about),
        };
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
