//! The tables that members of families declare: parameters, values, options.

use fsb_engine::workload::REGISTRY;
use fsb_engine::workload::parameter::{Parameter, ParameterDefault};
use fsb_report::show::entry;
use fsb_testbed::control::{self, Scope};
use fsb_testbed::declared::DeclaredOption;
use fsb_testbed::fs::{self, Cause, Choice, Hazard};
use fsb_testbed::medium;

use crate::columns;

/// Returns the parameters of a workload, and how a plan sets them.
pub(super) fn workload(name: &str, columns: usize) -> String {
    let Some(workload) = REGISTRY.iter().find(|known| known.name() == name) else { return String::new() };
    // Text, numbers and booleans have the same syntax in TOML and in JSON.
    let example: String = workload.example().iter().map(|(key, value)| format!("  {key} = {value}\n")).collect();
    let expressions = "Sizes and numbers may be expressions of the image's size: size/8, min(10000, size/64K).";
    format!(
        "\n{}\n{}\n\nIn a plan:\n  [[workload]]\n  name = \"{name}\"\n{example}",
        parameters(workload.parameters(), columns),
        entry("", expressions, columns),
    )
}

/// Formats parameters under the headings of their groups, each with its help, values and default.
fn parameters(mut parameters: Vec<Parameter>, columns: usize) -> String {
    parameters.sort_by_key(|parameter| (parameter.group, parameter.name));
    let width = parameters.iter().map(|parameter| parameter.name.len()).max().unwrap_or(0);
    let (mut text, mut group) = (String::new(), None);
    for parameter in &parameters {
        if group.replace(parameter.group) != Some(parameter.group) {
            text += &format!("{}:\n", parameter.group.title());
        }
        let needs = parameter.needs.map_or_else(String::new, |needs| format!("; {needs}"));
        let default = match (&parameter.default, parameter.default_text()) {
            (ParameterDefault::Required(_), _) => " [required]".to_owned(),
            (_, Some(default)) => format!(" [default: {default}]"),
            (_, None) => String::new(),
        };
        let about = format!("{} ({}{needs}){default}", parameter.about, parameter.values());
        text += &format!("{}\n", entry(&format!("  {:width$}  ", parameter.name), &about, columns));
    }
    text
}

/// Returns the values of a control.
pub(super) fn control(name: &str) -> String {
    let Ok(control) = control::find(name) else { return String::new() };
    let values = control.values().iter().enumerate();
    let rows: Vec<_> = values
        .map(|(index, value)| {
            let default = if index == 0 { " [default]" } else { "" };
            let kind = value.kind.as_ref().map_or_else(String::new, |kind| format!(" ({})", kind.values()));
            (format!("  {}", value.name), format!("{}{kind}{default}", value.about))
        })
        .collect();
    let scope = match control.scope() {
        Scope::Run => "Scope: the whole run.",
        Scope::Visit => "Scope: targets of one run may have different values.",
    };
    let excludes = control.excludes().map_or_else(String::new, |other| format!(" Not together with {other}."));
    let example = control.values().last().map_or(control::KEEP, |value| value.name);
    format!("\nValues:\n{}\n{scope}{excludes}\n\nIn a plan:\n  [controls]\n  {name} = \"{example}\"\n", lines(&rows))
}

/// Returns the mount options of a file system, the options that `fsb choose` tries, and those that weaken durability.
pub(super) fn file_system(name: &str) -> String {
    let Ok(file_system) = fs::find(name) else { return String::new() };
    let choice = |choice: &Choice| {
        let mkfs = choice.mkfs.join(" ");
        let mkfs = (!mkfs.is_empty()).then(|| format!("mkfs=\"{mkfs}\""));
        let options: Vec<_> = choice.mount.iter().map(|option| (*option).to_owned()).chain(mkfs).collect();
        let risk = choice.risk.map_or_else(String::new, |risk| format!("; {risk}"));
        (format!("  {}", options.join(",")), format!("{}{risk}", choice.why))
    };
    let hazard = |hazard: &Hazard| {
        let cause = match hazard.cause {
            Cause::Options(options) => options.join(", "),
            Cause::Without(feature) => format!("without {feature}"),
            Cause::Format(format) => format.to_owned(),
        };
        (format!("  {cause}"), hazard.loss.to_owned())
    };
    let section = |title: &str, rows: Vec<(String, String)>| match rows.is_empty() {
        true => String::new(),
        false => format!("\n{title}:\n{}", lines(&rows)),
    };
    let choices = file_system.choices().iter().map(choice).collect();
    let hazards = file_system.hazards().iter().map(hazard).collect();
    let common = fs::COMMON.iter().map(|option| option.name).collect::<Vec<_>>().join(", ");
    let common = match file_system.home() {
        fs::Home::Nowhere => String::new(),
        _ => format!("\n{}\n", entry("Options of every file system: ", &common, columns::of(std::io::stdout()))),
    };
    options(file_system.options())
        + &common
        + &section("Options that 'fsb choose' tries", choices)
        + &section("Options and formats that weaken durability", hazards)
}

/// Returns the argument of a medium.
pub(super) fn medium(name: &str) -> String {
    let Some(argument) = medium::find(name).ok().and_then(|medium| medium.argument()) else { return String::new() };
    let rows = [(format!("  {}", argument.form), argument.about.to_owned())];
    format!("\nArgument:\n{}\nIn a target:\n  ext4{}\n", lines(&rows), argument.example)
}

/// Formats options under the headings of their groups, each with its help, values and default.
fn options(options: &[DeclaredOption]) -> String {
    let mut options: Vec<&DeclaredOption> = options.iter().collect();
    options.sort_by_key(|option| (option.group, option.name));
    let (mut text, mut group, mut rows) = (String::new(), None, Vec::new());
    for option in options {
        if group.is_some_and(|group| group != option.group) {
            text += &lines(&std::mem::take(&mut rows));
        }
        if group.replace(option.group) != Some(option.group) {
            text += &format!("\n{}:\n", option.group.title());
        }
        let needs = option.needs.map_or_else(String::new, |needs| format!("; {needs}"));
        let default = if option.default.is_empty() { String::new() } else { format!(" [default: {}]", option.default) };
        rows.push((format!("  {}", option.name), format!("{} ({}{needs}){default}", option.about, option.values())));
    }
    text + &lines(&rows)
}

/// Formats names and their descriptions in two columns.
pub(super) fn lines(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let columns = columns::of(std::io::stdout());
    rows.iter().map(|(name, about)| format!("{}\n", entry(&format!("{name:width$}  "), about, columns))).collect()
}
