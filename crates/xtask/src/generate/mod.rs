//! Documentation that is generated from the source.

mod parts;
mod plan_schema;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use clap::Args;
use fsb_engine::Workload;
use fsb_engine::workload::REGISTRY;
use fsb_engine::workload::parameter::{Parameter, ParameterGroup};
use fsb_history::series::{self, Document as History};
use fsb_history::{COMPARISON_SCHEMA, RunsCompared};
use fsb_model::notice::{self, Notice};
use fsb_model::publication::{self, Publication};
use fsb_model::{ErrorCode, RunRecord, run, schema, trial};
use fsb_report::choice::{self, Choice};
use fsb_report::fleet::{self, Fleet};
use fsb_report::json;
use fsb_stats::compare::{self, Document};
use fsb_testbed::control::{self, Scope};
use fsb_testbed::declared::DeclaredOption;
use fsb_testbed::fs::{FileSystem, Home};
use fsb_testbed::medium;
use fsb_trace::document;

/// The arguments of `xtask generate`.
#[derive(Debug, Args)]
pub struct Options {
    /// Write nothing; fail if a file is out of date
    #[arg(long)]
    check: bool,
}

/// A generated file.
struct GeneratedFile {
    /// The path below `docs`.
    path: &'static str,
    /// Returns the content.
    produce: fn() -> String,
}

/// All generated files.
const FILES: &[GeneratedFile] = &[
    GeneratedFile {
        path: "errors.md",
        produce: errors_page,
    },
    GeneratedFile {
        path: "options.md",
        produce: options_page,
    },
    GeneratedFile {
        path: "workloads.md",
        produce: workloads_page,
    },
    GeneratedFile {
        path: "schema/plan.json",
        produce: plan_schema::text,
    },
    GeneratedFile {
        path: "schema/choice.json",
        produce: || schema::text::<Choice>(choice::SCHEMA),
    },
    GeneratedFile {
        path: "schema/comparison.json",
        produce: || schema::text::<Document>(compare::SCHEMA),
    },
    GeneratedFile {
        path: "schema/fleet.json",
        produce: || schema::text::<Fleet>(fleet::SCHEMA),
    },
    GeneratedFile {
        path: "schema/history.json",
        produce: || schema::text::<History>(series::SCHEMA),
    },
    GeneratedFile {
        path: "schema/history-diff.json",
        produce: || schema::text::<RunsCompared>(COMPARISON_SCHEMA),
    },
    GeneratedFile {
        path: "schema/openapi.json",
        produce: fsb_serve::openapi,
    },
    GeneratedFile {
        path: "schema/publication.json",
        produce: || schema::text::<Publication>(publication::SCHEMA),
    },
    GeneratedFile {
        path: "schema/report.json",
        produce: json::schema,
    },
    GeneratedFile {
        path: "schema/run.json",
        produce: || schema::text::<RunRecord>(run::SCHEMA),
    },
    GeneratedFile {
        path: "schema/trace.json",
        produce: || schema::text::<document::Document>(document::SCHEMA),
    },
    GeneratedFile {
        path: "schema/trial.json",
        produce: || schema::text::<trial::JournalLine>(trial::SCHEMA),
    },
];

/// Writes the files that are out of date, or lists them and fails.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = root.join("docs");
    let mut outdated = Vec::new();
    for part in parts::PARTS {
        let path = root.join(part.path);
        let found =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = part.replace(&found)?;
        if found == text {
            continue;
        }
        outdated.push(part.path.to_owned());
        if !options.check {
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    for file in FILES {
        let (path, text) = (docs.join(file.path), (file.produce)());
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            continue;
        }
        outdated.push(format!("docs/{}", file.path));
        if !options.check {
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let names = outdated.join(", ");
    ensure!(
        !options.check || outdated.is_empty(),
        "out of date: {names}; run 'cargo xtask generate'"
    );
    if !outdated.is_empty() {
        println!("written: {names}");
    }
    Ok(())
}

// `docs/errors.md`: every error code, and the codes of warnings and notes.

/// Returns the page.
fn errors_page() -> String {
    let mut page = include_str!("errors.md").to_owned();
    let mut codes: Vec<&ErrorCode> = fsb_model::codes().chain(fsb_runner::codes()).collect();
    for of_crate in [
        fsb_compat::CODES,
        fsb_history::CODES,
        fsb_store::CODES,
        fsb_trace::CODES,
    ] {
        codes.extend(of_crate);
    }
    codes.sort_by_key(|code| code.name);
    for ErrorCode {
        name,
        exit,
        meaning,
        help,
    } in codes
    {
        let _ = writeln!(page, "| `{name}` | {exit} | {meaning} | {help} |");
    }
    page.push_str(include_str!("notices.md"));
    let mut notices: Vec<&Notice> = notice::ALL.to_vec();
    notices.sort_by_key(|notice| notice.name);
    for Notice {
        name,
        meaning,
        fields,
    } in notices
    {
        let fields: Vec<String> = fields
            .split(", ")
            .filter(|name| !name.is_empty())
            .map(|name| format!("`{name}`"))
            .collect();
        let _ = writeln!(page, "| `{name}` | {meaning} | {} |", fields.join(", "));
    }
    page
}

// `docs/options.md`: the options of file systems, the values of controls and the arguments of
// media.

const OPTIONS_HEAD: &str = "\
# Options of file systems, controls and media

`cargo xtask generate` writes this page from the tables in the source. `fsb list file-systems NAME`, `fsb list controls NAME`
and `fsb list media NAME` print one table.

A target is `[NAME=]FS[,OPTION…][@MEDIUM]`, such as `ext4,data=journal,noatime@/dev/sdb`. `mkfs=\"…\"` holds arguments of the
mkfs program, and each `tune=\"…\"` those of one run of tune2fs on the new ext2, ext3 or ext4; `e2fsck -f -y` follows the
last run. The file system is mounted during a run that begins with `mounted`: `tune=\"mounted -j\"`. tune2fs chooses the size
of a new journal by the size of the slice; `-J size=8` sets 8 MiB.

`journal=\"/dev/NAME\"`, `journal=loop` and `journal=ram` put the journal of ext3, ext4, xfs or reiserfs on another medium. A
device that is not empty must be named with `--wipe`. An image has an eighth of `--size`, from 64 MiB to 1 GiB. Targets with
external journals are measured one at a time, and not in a virtual machine.

`encrypt` is an option of ext4 and f2fs that fsb performs itself: mkfs makes the feature `encrypt`, and the directory of the
files gets a policy of fscrypt, AES-256-XTS for contents and AES-256-CTS for names. The key is random and ends with the
mount.

fsb refuses an option that only other file systems have, a value out of range, and options that exclude each
other. It passes options that no table contains to the driver, because drivers are newer than this page.

";

/// Returns the page.
fn options_page() -> String {
    let mut text = OPTIONS_HEAD.to_owned();
    text += "## Options of every file system\n\n";
    text += &option_table(&fsb_testbed::fs::COMMON);
    let mut listed: Vec<&str> = Vec::new();
    for member in fsb_testbed::fs::REGISTRY
        .iter()
        .filter(|member| !member.options().is_empty())
    {
        if listed.contains(&member.name()) {
            continue;
        }
        let alike = fsb_testbed::fs::REGISTRY
            .iter()
            .filter(|other| other.options() == member.options());
        let alike: Vec<&dyn FileSystem> = alike.copied().collect();
        listed.extend(alike.iter().map(|member| member.name()));
        let names: Vec<&str> = alike.iter().map(|member| member.name()).collect();
        let _ = writeln!(text, "\n## {}\n", names.join(", "));
        if member.home() == Home::Nowhere {
            text += "It takes these options only.\n\n";
        }
        text += &option_table(member.options());
    }
    text += "\n## Controls\n\n`[controls]` of a plan and `--control NAME=VALUE` set them. The first value is the default.\n\n";
    text += "| control | holds for | values | effect |\n|---|---|---|---|\n";
    for control in control::REGISTRY {
        text += &control_row(*control);
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

/// Returns the table of options, by group and name.
fn option_table(options: &[DeclaredOption]) -> String {
    let mut options: Vec<&DeclaredOption> = options.iter().collect();
    options.sort_by_key(|option| (option.group, option.name));
    let mut text = "| option | values | default | effect |\n|---|---|---|---|\n".to_owned();
    for option in options {
        let needs = option
            .needs
            .map_or_else(String::new, |needs| format!("; {needs}"));
        let [values, about] =
            [option.values(), format!("{}{needs}", option.about)].map(|text| cell(&text));
        let _ = writeln!(
            text,
            "| `{}` | {values} | {} | {about} |",
            option.name, option.default
        );
    }
    text
}

/// Returns the row of a control.
fn control_row(control: &dyn control::Control) -> String {
    let scope = match control.scope() {
        Scope::Run => "the run",
        Scope::Target => "a target",
    };
    let values = control.values().iter().map(|value| match &value.kind {
        Some(kind) => format!("`{}` ({}): {}", value.name, kind.values(), value.about),
        None => format!("`{}`: {}", value.name, value.about),
    });
    let excludes = control.excludes().map_or_else(String::new, |other| {
        format!(" Not together with `{other}`.")
    });
    let values = values.collect::<Vec<_>>().join("<br>");
    format!(
        "| `{}` | {scope} | {} | {}{excludes} |\n",
        control.name(),
        cell(&values),
        cell(control.about())
    )
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

// `docs/workloads.md`: every workload with its parameters.

/// Parameters that this number of workloads declare alike are described once.
const SHARED: usize = 10;

const WORKLOADS_HEAD: &str = "\
# Workloads

`cargo xtask generate` writes this page from the tables in the source. `fsb list workloads NAME` prints the
parameters of one workload.

A plan names workloads and gives parameters; all others have their defaults:

```toml
#:schema docs/schema/plan.json

[[workload]]
name = \"read\"
cache = \"cold\"
file_size = \"64M\"
block_size = [\"4K\", \"64K\", \"1M\"]   # three cases
```

The first line tells editors with Taplo (Even Better TOML) where [the JSON Schema of plans](schema/plan.json) is. They
then complete names and values and mark errors.

* A **size** is a number of bytes, a text such as `\"4K\"`, or an expression of the image's size, such as `\"size/8\"` or
  `\"min(10000, size/64K)\"`. A **number** may be such an expression too. In both, `memory` is the machine's memory in
  bytes, and `cpus` the number of its processors.
* A **list or range** (`[1, 4, 16]`, `\"4K..1M\"`, `\"1..4*cpus\"`) makes one case of each value. A range doubles from its
  first value to its last.
* Each workload may also have `label`, `sample_time` (length of a timed sample, such as `\"10s\"`), `sustain`
  (repeat until the target's journal was written this number of times) and `background` (measure alone and
  [beside another workload](methods/neighbours.md)).
";

/// Returns the page.
fn workloads_page() -> String {
    let tables: Vec<(&dyn Workload, Vec<Parameter>)> = REGISTRY
        .iter()
        .map(|one| (*one, one.parameters()))
        .collect();
    let shared = shared(&tables);
    let mut text = WORKLOADS_HEAD.to_owned();
    text += "\n## Shared parameters\n\nThese have the same values, default and effect in each workload that lists them.\n\n";
    text += &parameter_table(&shared);
    let mut listed: Vec<&str> = Vec::new();
    for (workload, parameters) in &tables {
        if listed.contains(&workload.name()) {
            continue;
        }
        let alike: Vec<_> = tables
            .iter()
            .filter(|(_, other)| other == parameters)
            .map(|(other, _)| *other)
            .collect();
        listed.extend(alike.iter().map(|one| one.name()));
        section(&mut text, &alike, parameters, &shared);
    }
    text
}

/// Returns the declarations that many workloads have in common, at most one for each name.
fn shared(tables: &[(&dyn Workload, Vec<Parameter>)]) -> Vec<Parameter> {
    let mut counted: Vec<(Parameter, usize)> = Vec::new();
    for parameter in tables.iter().flat_map(|(_, parameters)| parameters) {
        match counted.iter_mut().find(|(known, _)| known == parameter) {
            Some((_, count)) => *count += 1,
            None => counted.push((parameter.clone(), 1)),
        }
    }
    counted.retain(|(_, count)| *count >= SHARED);
    counted.sort_by_key(|(parameter, count)| {
        (parameter.group, parameter.name, std::cmp::Reverse(*count))
    });
    counted.dedup_by_key(|(parameter, _)| parameter.name);
    counted
        .into_iter()
        .map(|(parameter, _)| parameter)
        .collect()
}

/// Workloads with the same parameters.
fn section(
    text: &mut String,
    alike: &[&dyn Workload],
    parameters: &[Parameter],
    shared: &[Parameter],
) {
    let names: Vec<_> = alike.iter().map(|one| one.name()).collect();
    let _ = writeln!(text, "\n## {}\n", names.join(", "));
    for one in alike {
        let _ = writeln!(text, "* `{}`: {}", one.name(), one.about());
    }
    let (common, mut own): (Vec<&Parameter>, Vec<&Parameter>) = parameters
        .iter()
        .filter(|one| one.group != ParameterGroup::Resolved)
        .partition(|one| shared.contains(one));
    let mut common: Vec<_> = common.iter().map(|one| format!("`{}`", one.name)).collect();
    common.sort();
    own.sort_by_key(|one| (one.group, one.name));
    text.push('\n');
    *text += &parameter_table(&own.into_iter().cloned().collect::<Vec<_>>());
    // A long list is easier to read in several items.
    let lists: Vec<_> = common
        .chunks(MOST_NAMES)
        .map(|names| names.join(", "))
        .collect();
    let _ = match &lists[..] {
        [all] => writeln!(text, "\nShared: {all}"),
        several => writeln!(text, "\nShared:\n\n* {}", several.join("\n* ")),
    };
}

/// The most names of parameters in one item of a list.
const MOST_NAMES: usize = 32;

fn parameter_table(parameters: &[Parameter]) -> String {
    let mut text = "| parameter | values | default | effect |\n|---|---|---|---|\n".to_owned();
    for parameter in parameters
        .iter()
        .filter(|one| one.group != ParameterGroup::Resolved)
    {
        let default = parameter.default_text().unwrap_or_default();
        let needs = parameter
            .needs
            .map_or_else(String::new, |needs| format!("; {needs}"));
        let cells = [
            parameter.values(),
            default.into_owned(),
            format!("{}{needs}", parameter.about),
        ];
        let [values, default, about] = cells.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(
            text,
            "| `{}` | {values} | {default} | {about} |",
            parameter.name
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_up_to_date() {
        run(&Options { check: true }).unwrap();
    }
}
