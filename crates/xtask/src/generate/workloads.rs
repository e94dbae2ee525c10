//! `docs/workloads.md`: every workload with its parameters.

use std::fmt::Write;

use fsb_engine::Workload;
use fsb_engine::workload::REGISTRY;
use fsb_engine::workload::parameter::{Parameter, ParameterGroup};

/// Parameters that this number of workloads declare alike are described once.
const SHARED: usize = 10;

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
* Each workload may also have `label`, `sample_time` (length of a timed sample, such as `\"10s\"`) and `sustain`
  (repeat until the target's journal was written this number of times).
";

/// The page.
pub fn text() -> String {
    let tables: Vec<(&dyn Workload, Vec<Parameter>)> = REGISTRY.iter().map(|one| (*one, one.parameters())).collect();
    let shared = shared(&tables);
    let mut text = HEAD.to_owned();
    text += "\n## Shared parameters\n\nThese have the same values, default and effect in each workload that lists them.\n\n";
    text += &table(&shared);
    let mut listed: Vec<&str> = Vec::new();
    for (workload, parameters) in &tables {
        if listed.contains(&workload.name()) {
            continue;
        }
        let alike: Vec<_> = tables.iter().filter(|(_, other)| other == parameters).map(|(other, _)| *other).collect();
        listed.extend(alike.iter().map(|one| one.name()));
        section(&mut text, &alike, parameters, &shared);
    }
    text
}

/// The declarations that many workloads have in common, at most one for each name.
fn shared(tables: &[(&dyn Workload, Vec<Parameter>)]) -> Vec<Parameter> {
    let mut counted: Vec<(Parameter, usize)> = Vec::new();
    for parameter in tables.iter().flat_map(|(_, parameters)| parameters) {
        match counted.iter_mut().find(|(known, _)| known == parameter) {
            Some((_, count)) => *count += 1,
            None => counted.push((parameter.clone(), 1)),
        }
    }
    counted.retain(|(_, count)| *count >= SHARED);
    counted.sort_by_key(|(parameter, count)| (parameter.group, parameter.name, std::cmp::Reverse(*count)));
    counted.dedup_by_key(|(parameter, _)| parameter.name);
    counted.into_iter().map(|(parameter, _)| parameter).collect()
}

/// Workloads with the same parameters.
fn section(text: &mut String, alike: &[&dyn Workload], parameters: &[Parameter], shared: &[Parameter]) {
    let names: Vec<_> = alike.iter().map(|one| one.name()).collect();
    let _ = writeln!(text, "\n## {}\n", names.join(", "));
    for one in alike {
        let _ = writeln!(text, "* `{}`: {}", one.name(), one.about());
    }
    let (common, mut own): (Vec<&Parameter>, Vec<&Parameter>) =
        parameters.iter().filter(|one| one.group != ParameterGroup::Resolved).partition(|one| shared.contains(one));
    let mut common: Vec<_> = common.iter().map(|one| format!("`{}`", one.name)).collect();
    common.sort();
    own.sort_by_key(|one| (one.group, one.name));
    text.push('\n');
    *text += &table(&own.into_iter().cloned().collect::<Vec<_>>());
    let _ = writeln!(text, "\nShared: {}", common.join(", "));
}

fn table(parameters: &[Parameter]) -> String {
    let mut text = "| parameter | values | default | effect |\n|---|---|---|---|\n".to_owned();
    for parameter in parameters.iter().filter(|one| one.group != ParameterGroup::Resolved) {
        let default = parameter.default_text().unwrap_or_default();
        let needs = parameter.needs.map_or_else(String::new, |needs| format!("; {needs}"));
        let cells = [parameter.values(), default.into_owned(), format!("{}{needs}", parameter.about)];
        let [values, default, about] = cells.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(text, "| `{}` | {values} | {default} | {about} |", parameter.name);
    }
    text
}
