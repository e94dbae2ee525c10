//! `docs/workloads.md`: every workload with its parameters.

use std::fmt::Write;

use fsb_engine::Workload;
use fsb_engine::workload::REGISTRY;
use fsb_engine::workload::parameter::{Parameter, ParameterGroup, ParameterKind};

/// Parameters that this number of workloads declare alike are described once.
const SHARED: usize = 4;

const HEAD: &str = "\
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
* A workload with `needs = { programs = [\"sqlite3\"], package = \"sqlite3\" }` is measured where these programs are
  installed. Elsewhere its `otherwise`, a table with another workload, takes its place.

A list entry is the parameter, its values and default in parentheses, and its effect. A flag is `true` or `false`, and
`false` by default. [Shared parameters](#shared-parameters) have one description; a workload that lists one with other values
or another default has these. A workload that is \"as\" another one has its parameters, except for those that it lists.
";

/// A workload and the parameters that a plan may give it.
struct Entry {
    workload: &'static dyn Workload,
    parameters: Vec<Parameter>,
}

/// Returns the page.
pub(super) fn page() -> String {
    let entries: Vec<Entry> = REGISTRY.iter().map(|one| entry(*one)).collect();
    let shared = shared(&entries);
    let mut text = HEAD.to_owned();
    text += "\n## Shared parameters\n\n";
    for parameter in &shared {
        text += &parameter_line(parameter.name, &[parameter], &[], None);
    }
    let mut listed: Vec<&Entry> = Vec::new();
    let mut complete: Vec<Section> = Vec::new();
    for first in &entries {
        if listed
            .iter()
            .any(|entry| entry.workload.name() == first.workload.name())
        {
            continue;
        }
        let alike: Vec<&Entry> = entries
            .iter()
            .filter(|other| differ_in_defaults_only(first, other))
            .collect();
        listed.extend(&alike);
        section(&mut text, &alike, &shared, &mut complete);
    }
    text
}

fn entry(workload: &'static dyn Workload) -> Entry {
    let mut parameters = workload.parameters();
    parameters.retain(|one| one.group != ParameterGroup::Resolved);
    Entry {
        workload,
        parameters,
    }
}

/// Returns the declarations that many workloads have in common, at most one for each name.
fn shared(entries: &[Entry]) -> Vec<Parameter> {
    let mut counted: Vec<(Parameter, usize)> = Vec::new();
    for parameter in entries.iter().flat_map(|entry| &entry.parameters) {
        match counted.iter_mut().find(|(known, _)| known == parameter) {
            Some((_, count)) => *count += 1,
            None => counted.push((parameter.clone(), 1)),
        }
    }
    counted.retain(|(_, count)| *count >= SHARED);
    counted.sort_by_key(|(parameter, count)| (parameter.name, std::cmp::Reverse(*count)));
    counted.dedup_by_key(|(parameter, _)| parameter.name);
    counted.sort_by_key(|(parameter, _)| (parameter.group, parameter.name));
    counted
        .into_iter()
        .map(|(parameter, _)| parameter)
        .collect()
}

fn differ_in_defaults_only(one: &Entry, other: &Entry) -> bool {
    one.parameters.len() == other.parameters.len()
        && one.parameters.iter().all(|a| {
            other
                .parameters
                .iter()
                .any(|b| differ_in_default_only(a, b))
        })
}

fn differ_in_default_only(a: &Parameter, b: &Parameter) -> bool {
    a.name == b.name && a.about == b.about && a.needs == b.needs && a.values() == b.values()
}

/// A section that lists all its parameters.
struct Section {
    /// The first of its workloads.
    workload: &'static str,
    lines: Vec<Line>,
}

/// A parameter in a section.
#[derive(PartialEq)]
struct Line {
    name: &'static str,
    /// The line of the list; absent for a shared parameter.
    text: Option<String>,
}

/// Adds the section of workloads whose parameters differ in their defaults only.
fn section(text: &mut String, alike: &[&Entry], shared: &[Parameter], complete: &mut Vec<Section>) {
    let names: Vec<&str> = alike.iter().map(|entry| entry.workload.name()).collect();
    let _ = writeln!(text, "\n## {}\n", names.join(", "));
    if let [only] = alike {
        let _ = writeln!(text, "{}\n", only.workload.about());
    } else {
        for entry in alike {
            let _ = writeln!(
                text,
                "* `{}`: {}",
                entry.workload.name(),
                entry.workload.about()
            );
        }
        *text += "\nParameters:\n\n";
    }
    let lines = lines(alike, &names, shared);
    let derived = complete
        .iter()
        .map(|base| derived(&lines, base))
        .min_by_key(|derived| words(derived));
    let whole = whole(&lines);
    match derived {
        Some(derived) if 4 * words(&derived) < 3 * words(&whole) => *text += &derived,
        _ => {
            *text += &whole;
            complete.push(Section {
                workload: alike[0].workload.name(),
                lines,
            });
        }
    }
}

/// Returns the parameters of a section in the order of the page.
fn lines(alike: &[&Entry], names: &[&str], shared: &[Parameter]) -> Vec<Line> {
    let mut sorted: Vec<&Parameter> = alike[0].parameters.iter().collect();
    sorted.sort_by_key(|one| (one.group, one.name));
    let mut lines = Vec::new();
    for parameter in sorted {
        let declared: Vec<&Parameter> = alike
            .iter()
            .flat_map(|entry| &entry.parameters)
            .filter(|one| one.name == parameter.name)
            .collect();
        let base = shared.iter().find(|one| one.name == parameter.name);
        let is_shared = declared.iter().all(|one| Some(*one) == base);
        lines.push(Line {
            name: parameter.name,
            text: (!is_shared).then(|| parameter_line(parameter.name, &declared, names, base)),
        });
    }
    lines
}

/// Returns all parameters of a section.
fn whole(lines: &[Line]) -> String {
    let mut text: String = lines.iter().filter_map(|line| line.text.clone()).collect();
    let mut common: Vec<&str> = shared_names(lines.iter());
    common.sort_unstable();
    // A long list is easier to read in several items.
    for names in common.chunks(MOST_NAMES) {
        text += &format!("* Shared: {}\n", quoted(names));
    }
    text
}

/// Returns the parameters of a section as the difference from those of another one.
fn derived(lines: &[Line], base: &Section) -> String {
    let without: Vec<&str> = base
        .lines
        .iter()
        .map(|line| line.name)
        .filter(|name| lines.iter().all(|line| line.name != *name))
        .collect();
    let others: Vec<&Line> = lines
        .iter()
        .filter(|line| !base.lines.contains(line))
        .collect();
    let mut text = format!("* As `{}`", base.workload);
    if !without.is_empty() {
        let _ = write!(text, " without {}", quoted(&without));
    }
    let with = shared_names(others.iter().copied());
    if !with.is_empty() {
        let _ = write!(text, ", and shared {}", quoted(&with));
    }
    text.push('\n');
    text.extend(others.iter().filter_map(|line| line.text.clone()));
    text
}

/// Returns the names of the shared parameters among these.
fn shared_names<'a>(lines: impl Iterator<Item = &'a Line>) -> Vec<&'a str> {
    lines
        .filter(|line| line.text.is_none())
        .map(|line| line.name)
        .collect()
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// A sentence has room for this number of names.
const LISTED: usize = 24;

/// Returns the line of a parameter. `declared` has its declaration in each of the `workloads`, or
/// one. What it has in common with `base` is left out.
fn parameter_line(
    name: &str,
    declared: &[&Parameter],
    workloads: &[&str],
    base: Option<&Parameter>,
) -> String {
    let parameter = declared[0];
    let mut details = Vec::new();
    if base.is_none_or(|base| base.values() != parameter.values()) {
        details.push(match parameter.kind {
            ParameterKind::Flag => "flag".to_owned(),
            // Its effect says which command lists them.
            _ if words(&parameter.values()) > LISTED => "name".to_owned(),
            _ => parameter.values(),
        });
    }
    let defaults = defaults(declared, workloads);
    if !defaults.is_empty() && defaults != parameter.values() {
        details.push(format!("default {defaults}"));
    }
    let details = match details.join("; ") {
        none if none.is_empty() => none,
        details => format!(" ({details})"),
    };
    let needs = |one: &Parameter| {
        one.needs
            .map_or_else(String::new, |needs| format!("; {needs}"))
    };
    let effect = format!("{}{}", parameter.about, needs(parameter));
    match base {
        Some(base) if effect == format!("{}{}", base.about, needs(base)) => {
            format!("* `{name}`{details}\n")
        }
        _ => format!("* `{name}`{details}: {effect}\n"),
    }
}

/// Returns the default of most workloads, and the workloads with another one.
fn defaults(declared: &[&Parameter], workloads: &[&str]) -> String {
    let texts: Vec<String> = declared.iter().map(|one| default_text(one)).collect();
    let count = |text: &String| texts.iter().filter(|other| *other == text).count();
    let mut usual = &texts[0];
    for text in &texts {
        if count(text) > count(usual) {
            usual = text;
        }
    }
    let mut parts = vec![usual.clone()];
    for (text, workload) in texts.iter().zip(workloads) {
        if text != usual {
            parts.push(format!("{text} in {workload}"));
        }
    }
    parts.join(", ")
}

/// Returns the default in words, or nothing for a feature that is off.
fn default_text(parameter: &Parameter) -> String {
    let text = parameter.default_text().unwrap_or_default();
    if parameter.kind == ParameterKind::Flag && text == "false" {
        return String::new();
    }
    text.into_owned()
}

/// The most names of parameters in one item of a list.
const MOST_NAMES: usize = 32;

fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
