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

A list entry is the parameter, its values and default in parentheses, and its effect. A flag is `true` or `false`, and
`false` by default. [Shared parameters](#shared-parameters) have one description; a workload that lists one with other values
or another default has these.
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
    // The first workload of each section before, with the names of its shared parameters.
    let mut earlier: Vec<(&str, Vec<&str>)> = Vec::new();
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
        section(&mut text, &alike, &shared, &mut earlier);
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
    let same = |a: &Parameter, b: &Parameter| {
        a.name == b.name && a.about == b.about && a.needs == b.needs && a.values() == b.values()
    };
    one.parameters.len() == other.parameters.len()
        && one
            .parameters
            .iter()
            .all(|a| other.parameters.iter().any(|b| same(a, b)))
}

/// Adds the section of workloads whose parameters differ in their defaults only.
fn section<'a>(
    text: &mut String,
    alike: &[&'a Entry],
    shared: &[Parameter],
    earlier: &mut Vec<(&'a str, Vec<&'a str>)>,
) {
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
    let mut sorted: Vec<&Parameter> = alike[0].parameters.iter().collect();
    sorted.sort_by_key(|one| (one.group, one.name));
    let mut common = Vec::new();
    for parameter in sorted {
        let declared: Vec<&Parameter> = alike
            .iter()
            .flat_map(|entry| &entry.parameters)
            .filter(|one| one.name == parameter.name)
            .collect();
        let base = shared.iter().find(|one| one.name == parameter.name);
        if declared.iter().all(|one| Some(*one) == base) {
            common.push(parameter.name);
        } else {
            *text += &parameter_line(parameter.name, &declared, &names, base);
        }
    }
    common.sort_unstable();
    match difference(&common, earlier) {
        Some(difference) => *text += &format!("* Shared: {difference}\n"),
        // A long list is easier to read in several items.
        None => {
            for names in common.chunks(MOST_NAMES) {
                *text += &format!("* Shared: {}\n", quoted(names));
            }
        }
    }
    earlier.push((names[0], common));
}

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

/// Returns the difference of these shared parameters from those of an earlier section, if that is
/// shorter than their names.
fn difference(names: &[&str], earlier: &[(&str, Vec<&str>)]) -> Option<String> {
    let (workload, without, with) = earlier
        .iter()
        .map(|(workload, theirs)| (workload, missing(names, theirs), missing(theirs, names)))
        .min_by_key(|(_, without, with)| without.len() + with.len())?;
    if without.len() + with.len() + 3 >= names.len() {
        return None;
    }
    let mut text = format!("those of `{workload}`");
    if !without.is_empty() {
        let _ = write!(text, " without {}", quoted(&without));
    }
    if !with.is_empty() {
        let _ = write!(text, " and {}", quoted(&with));
    }
    Some(text)
}

/// Returns the `names` that `from` lacks.
fn missing<'a>(from: &[&str], names: &[&'a str]) -> Vec<&'a str> {
    let missing = names.iter().filter(|name| !from.contains(name));
    missing.copied().collect()
}

fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}
