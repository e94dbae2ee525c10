//! `fsb list`: prints the members of the registries, and the disks of the machine.

pub(super) mod disks;

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use fsb_engine::workload::parameter::{Parameter, ParameterDefault};
use fsb_engine::workload::recordings;
use fsb_model::units::show_duration;
use fsb_model::{Repetition, Settings, code, failure, metric, nearest};
use fsb_report::show::entry;
use fsb_report::summary::ROLES;
use fsb_runner::plan_file::{self, Needed, PlanFile, typed};
use fsb_runner::schedule::{self, Expected};
use fsb_runner::shipped_plan;
use fsb_runner::suite::{self, Suite};
use fsb_testbed::control::{self, Scope};
use fsb_testbed::declared::DeclaredOption;
use fsb_testbed::fs::{self, Cause, Choice, Hazard};
use fsb_testbed::{doctor, medium, watch};
use serde::Serialize;

use crate::all_codes::all_codes;
use crate::results::{DocumentFormat, json_text, print, print_data};
use crate::run::coordinator;
use crate::run::record;
use crate::{exit, terminal};

const EXAMPLES: &str = "\
Examples:
  fsb list                  the families
  fsb list suites           the suites and how long each takes
  fsb list presets          the programs whose work fsb measures
  fsb list workloads read   the parameters of one workload and their defaults
  fsb list controls swap    the values of one control
  fsb list file-systems     the file systems and the packages that format them
  fsb list ext4             the mount options of one file system
  fsb list disks            the disks of this machine, and the command for each";

/// List file systems, media, disks, workloads, suites and more
///
/// The families are file-systems, media, disks, controls, interference, workloads, backends,
/// suites, presets, recordings, plans, tools, published, exporters, metrics and formats.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Family, or name of a member [default: all families]
    #[arg(value_name = "FAMILY")]
    family: Option<String>,
    /// Member of the family to describe
    #[arg(value_name = "NAME")]
    member: Option<String>,
    /// Format of the output: text or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = DocumentFormat::Text, hide_possible_values = true)]
    format: DocumentFormat,
}

/// A family or a member in the output as JSON.
#[derive(Serialize)]
struct Named {
    name: String,
    about: String,
}

/// A family with its description and its members.
struct Family {
    name: &'static str,
    about: &'static str,
    members: fn() -> Vec<(String, String)>,
}

const WORKLOADS: &str = "workloads";
const SUITES: &str = "suites";
const PRESETS: &str = "presets";
const CONTROLS: &str = "controls";
const FILE_SYSTEMS: &str = "file-systems";
const MEDIA: &str = "media";
const DISKS: &str = "disks";
const TOOLS: &str = "tools";
const PUBLISHED: &str = "published";
const ERRORS: &str = "errors";

/// Every family.
static FAMILIES: &[Family] = &[
    Family {
        name: FILE_SYSTEMS,
        about: "File systems that fsb formats",
        members: || {
            let here = doctor::file_systems();
            let about = |fs: &dyn fs::FileSystem| {
                let driver = here
                    .iter()
                    .find(|support| support.name == fs.name())
                    .is_none_or(|support| support.driver);
                let place = if driver {
                    ""
                } else {
                    "; no driver is loaded here: fsb run --in vm"
                };
                let package = match (fs.server_program(), fs.tools()) {
                    (Some((_, package)), _) => Some(package),
                    (None, tools) => tools.map(|tools| tools.package),
                };
                match package {
                    Some(package) => {
                        format!("{} (Debian package {package}{place})", fs.about())
                    }
                    None => fs.about().to_owned(),
                }
            };
            fs::REGISTRY
                .iter()
                .map(|fs| (fs.name().to_owned(), about(*fs)))
                .collect()
        },
    },
    Family {
        name: MEDIA,
        about: "Media that hold a file system",
        members: || {
            medium::REGISTRY
                .iter()
                .map(|medium| (medium.name().to_owned(), medium.about().to_owned()))
                .collect()
        },
    },
    Family {
        name: DISKS,
        about: "Disks and partitions of this machine, with the command for each",
        members: disks::members,
    },
    Family {
        name: CONTROLS,
        about: "Settings of the machine that fsb controls during a run",
        members: || {
            let about = |control: &dyn control::Control| {
                let values: Vec<_> = control.values().iter().map(|value| value.name).collect();
                format!("{} ({})", control.about(), values.join(", "))
            };
            control::REGISTRY
                .iter()
                .map(|control| (control.name().to_owned(), about(*control)))
                .collect()
        },
    },
    Family {
        name: "interference",
        about: "Interference that fsb watches during a trial",
        members: || {
            watch::REGISTRY
                .iter()
                .map(|source| (source.name().to_owned(), source.about().to_owned()))
                .collect()
        },
    },
    Family {
        name: WORKLOADS,
        about: "Operations that fsb measures",
        members: || {
            fsb_engine::workload::REGISTRY
                .iter()
                .map(|workload| (workload.name().to_owned(), workload.about().to_owned()))
                .collect()
        },
    },
    Family {
        name: "backends",
        about: "Interfaces of the kernel that workloads use",
        members: || {
            let backends = fsb_engine::backend::REGISTRY.iter();
            backends
                .map(|backend| (backend.name().to_owned(), backend.about().to_owned()))
                .collect()
        },
    },
    Family {
        name: SUITES,
        about: "Named lists of workloads, with their times",
        members: || {
            let suites = fsb_runner::suite::REGISTRY.iter();
            suites
                .map(|suite| (suite.name.to_owned(), suite.about.to_owned()))
                .collect()
        },
    },
    Family {
        name: PRESETS,
        about: "Work of programs: fsb run ext4 xfs --preset NAME",
        members: || {
            shipped_plan::presets()
                .map(|plan| (plan.preset().to_owned(), plan.about.to_owned()))
                .collect()
        },
    },
    Family {
        name: "recordings",
        about: "Recordings of programs: fsb run ext4 xfs --trace NAME",
        members: || {
            let about = "replayed as recorded; docs/programs.md has its counts";
            recordings()
                .into_iter()
                .map(|name| (name, about.to_owned()))
                .collect()
        },
    },
    Family {
        name: "plans",
        about: "Shipped plans: fsb run NAME",
        members: || {
            let plans = shipped_plan::REGISTRY.iter();
            plans
                .filter(|plan| !plan.is_preset)
                .map(|plan| (plan.name.to_owned(), plan.about.to_owned()))
                .collect()
        },
    },
    Family {
        name: TOOLS,
        about: "Tools whose results fsb compares",
        members: || {
            fsb_compat::TOOLS
                .iter()
                .map(|tool| (tool.name.to_owned(), tool.about.to_owned()))
                .collect()
        },
    },
    Family {
        name: PUBLISHED,
        about: "Published results for 'fsb compare NAME[/PART] …'",
        members: || {
            fsb_compat::BUILT_IN
                .iter()
                .map(|found| (found.name.to_owned(), found.about.to_owned()))
                .collect()
        },
    },
    Family {
        name: "exporters",
        about: "Tools that fsb writes plans for: fsb export NAME",
        members: || {
            let about = "a job file with a section for each case, and a script that formats and mounts the targets";
            vec![("fio".to_owned(), about.to_owned())]
        },
    },
    Family {
        name: "metrics",
        about: "Values that fsb records of a trial",
        members: || {
            metric::REGISTRY
                .iter()
                .map(|kind| {
                    (
                        kind.name.to_owned(),
                        format!("{} [{}]", kind.about, kind.unit.name()),
                    )
                })
                .collect()
        },
    },
    Family {
        name: ERRORS,
        about: "Error codes of --message-format json",
        members: || {
            all_codes()
                .map(|code| (code.name.to_owned(), code.meaning.to_owned()))
                .collect()
        },
    },
    Family {
        name: "formats",
        about: "Formats of a report",
        members: || {
            let formats = fsb_report::FORMATS.iter();
            formats
                .map(|format| (format.name.to_owned(), format.about.to_owned()))
                .collect()
        },
    },
];

/// Returns the names of all families.
pub fn families() -> Vec<String> {
    FAMILIES
        .iter()
        .map(|family| family.name.to_owned())
        .collect()
}

/// Returns the names of all members of all families, each once. Disks come and go, so a script that
/// completes names has none.
pub fn members() -> Vec<String> {
    let members = FAMILIES
        .iter()
        .filter(|family| ![ERRORS, DISKS].contains(&family.name))
        .flat_map(|family| (family.members)());
    members
        .map(|(name, _)| name)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let format = arguments.format;
    let family = |name: &str| FAMILIES.iter().find(|family| family.name == name);
    let rows = match (&arguments.family, &arguments.member) {
        (None, _) => FAMILIES
            .iter()
            .map(|family| {
                (
                    family.name.to_owned(),
                    format!("{} ({})", family.about, (family.members)().len()),
                )
            })
            .collect(),
        (Some(name), None) if name == SUITES && format == DocumentFormat::Text => {
            print(&suites_text(terminal::columns(std::io::stdout())))?;
            return Ok(exit::DONE);
        }
        (Some(name), None) if name == DISKS => return print_disks(None, format),
        (Some(name), None) if family(name).is_none() => return of_any_family(name, format),
        (Some(name), Some(_)) if family(name).is_none() && is_file_system(name) => {
            return Err(failure::advised(
                &code::UNKNOWN_FAMILY,
                format!("{name} is a file system, not a family"),
                format!("'fsb list {name}' prints its options"),
            ));
        }
        (Some(name), member) => {
            let known = family(name).ok_or_else(|| unknown_family(name))?;
            match member {
                None => (known.members)(),
                Some(member) => {
                    let members = (known.members)();
                    let found = members.iter().find(|(name, _)| name == member);
                    let (_, about) = found.ok_or_else(|| {
                        failure::error(
                            &code::UNKNOWN_MEMBER,
                            nearest::unknown(
                                &format!("member of {}", known.name),
                                member,
                                members.iter().map(|(name, _)| name.as_str()),
                            ),
                        )
                    })?;
                    return describe(known, member, about, format);
                }
            }
        }
    };
    print_rows(rows, format)
}

/// Prints names and their descriptions.
fn print_rows(rows: Vec<(String, String)>, format: DocumentFormat) -> anyhow::Result<u8> {
    if format == DocumentFormat::Text {
        print(&lines(&rows))?;
    } else {
        let named = rows.into_iter().map(|(name, about)| Named { name, about });
        print_data(&json_text(&named.collect::<Vec<_>>())?)?;
    }
    Ok(exit::DONE)
}

/// Prints the disks of the machine, or the one at that path.
fn print_disks(path: Option<&str>, format: DocumentFormat) -> anyhow::Result<u8> {
    let documents = disks::documents(path);
    match format {
        DocumentFormat::Text => print(&disks::text(
            &documents,
            terminal::columns(std::io::stdout()),
        ))?,
        DocumentFormat::Json => print_data(&json_text(&documents)?)?,
    }
    Ok(exit::DONE)
}

fn is_file_system(name: &str) -> bool {
    fs::REGISTRY.iter().any(|known| known.name() == name)
}

fn unknown_family(name: &str) -> anyhow::Error {
    let families = FAMILIES.iter().map(|family| family.name);
    // Users search for names as other programs spell them: random_read, ext5.
    let members: Vec<String> = FAMILIES
        .iter()
        .flat_map(|family| (family.members)())
        .map(|(name, _)| name)
        .collect();
    let near = match name {
        "fs" => Some(FILE_SYSTEMS),
        "devices" => Some(DISKS),
        _ => nearest::nearest(
            name,
            families.clone().chain(members.iter().map(String::as_str)),
        ),
    };
    failure::error(
        &code::UNKNOWN_FAMILY,
        match near {
            Some(near) => format!(
                "unknown name '{}': did you mean '{near}'?",
                nearest::shortened(name)
            ),
            None => nearest::unknown("family", name, families),
        },
    )
}

/// Prints a member that was named without its family.
fn of_any_family(name: &str, format: DocumentFormat) -> anyhow::Result<u8> {
    let mut found = Vec::new();
    for family in FAMILIES {
        found.extend(
            (family.members)()
                .into_iter()
                .filter(|(known, _)| known == name)
                .map(|(_, about)| (family, about)),
        );
    }
    if found.is_empty() {
        let Some(suite) = suite_of_machine(name) else {
            return Err(unknown_family(name));
        };
        return of_any_family(suite, format);
    }
    if format == DocumentFormat::Json && found.iter().all(|(family, _)| family.name != DISKS) {
        let rows = found.into_iter().map(|(_, about)| (name.to_owned(), about));
        return print_rows(rows.collect(), format);
    }
    for (family, about) in found {
        describe(family, name, &about, format)?;
    }
    Ok(exit::DONE)
}

/// Prints all that is known of one member: its line, and the table that it declares. The output as
/// JSON has only the line.
fn describe(
    family: &Family,
    name: &str,
    about: &str,
    format: DocumentFormat,
) -> anyhow::Result<u8> {
    if family.name == DISKS {
        return print_disks(Some(name), format);
    }
    if format == DocumentFormat::Json {
        return print_rows(vec![(name.to_owned(), about.to_owned())], format);
    }
    let columns = terminal::columns(std::io::stdout());
    let suite = fsb_runner::suite::REGISTRY
        .iter()
        .find(|suite| suite.name == name && family.name == SUITES);
    let about = suite.map_or_else(|| about.to_owned(), suite_about);
    let details = match family.name {
        WORKLOADS => workload_details(name, columns),
        CONTROLS => control_details(name),
        FILE_SYSTEMS => file_system_details(name),
        MEDIA => medium_details(name),
        TOOLS => tool_details(name, columns),
        PUBLISHED => published_details(name, columns),
        PRESETS => preset_details(name, columns)?,
        _ => String::new(),
    };
    print(&format!(
        "{}\n{details}",
        entry(&format!("{name} ({}): ", family.name), &about, columns)
    ))?;
    Ok(exit::DONE)
}

/// Returns the comment at the beginning of a plan, without its commands, which are indented.
fn comment_of(plan: &str) -> String {
    let mut words = Vec::new();
    for line in plan.lines().take_while(|line| line.starts_with('#')) {
        let line = line.trim_start_matches("# ");
        if !line.starts_with([' ', '#']) {
            words.push(line);
        }
    }
    words.join(" ")
}

/// Returns the sources of a preset, its cases with the programs that they need, and the targets
/// that 'fsb choose' races.
fn preset_details(name: &str, columns: usize) -> anyhow::Result<String> {
    let Some(preset) = shipped_plan::preset(name) else {
        return Ok(String::new());
    };
    let plan = plan_file::parse(preset.text, preset.name)?;
    let about = comment_of(preset.text);
    let mut text = format!("{}\n\n", entry("", &about, columns));
    for workload in &plan.workloads {
        let label = workload
            .params
            .get("label")
            .and_then(|label| label.as_str());
        let bound = workload
            .params
            .get("p99_below")
            .and_then(|bound| bound.as_str());
        let bound = bound.map(|bound| format!("; passes with a p99 below {bound}"));
        let case = format!(
            "{}{}",
            label.unwrap_or(&workload.name),
            bound.unwrap_or_default()
        );
        text += &(entry("  ", &case, columns) + "\n");
    }
    let mut known = BTreeSet::new();
    for Needed {
        need,
        missing,
        otherwise,
    } in &plan.needed
    {
        let state = match missing {
            None => "is installed".to_owned(),
            Some(missing) => match otherwise {
                Some(otherwise) => format!("lacks {missing}: its {otherwise} is measured"),
                None => format!("lacks {missing}, without which it cannot run"),
            },
        };
        if known.insert(&need.package) {
            text += &(entry(
                "",
                &format!("The program (Debian package {}) {state}.", need.package),
                columns,
            ) + "\n");
        }
    }
    let mut targets = Vec::new();
    for target in &plan.targets {
        targets.push(target.get_ref().text.as_str());
    }
    text += &(entry(
        "",
        &format!("fsb choose --preset {name} races {}.", targets.join(" ")),
        columns,
    ) + "\n");
    Ok(text)
}

/// Returns how the results of a tool are recognized, their units, and the part of them that is one
/// run.
fn tool_details(name: &str, columns: usize) -> String {
    let Some(tool) = fsb_compat::TOOLS.iter().find(|tool| tool.name == name) else {
        return String::new();
    };
    let facts = [
        ("Recognized by: ", tool.looks_for),
        ("Values: ", tool.values),
        ("One run: ", tool.repetition),
    ];
    facts
        .into_iter()
        .map(|(label, text)| entry(label, text, columns) + "\n")
        .collect()
}

/// Returns the parts of published results, and the command that prints their values.
fn published_details(name: &str, columns: usize) -> String {
    let Some(found) = fsb_compat::BUILT_IN.iter().find(|found| found.name == name) else {
        return String::new();
    };
    let parts = (found.parts)().join(", ");
    let values = format!("fsb compare {name} -o DIR/");
    let facts = [("Parts: ", &parts), ("Every value as CSV: ", &values)];
    facts
        .into_iter()
        .map(|(label, text)| entry(label, text, columns) + "\n")
        .collect()
}

// The suites, each with the time that it takes and the kind of machine that it emulates.

/// Two file systems that most machines can make.
const TARGETS: [&str; 2] = ["ext4", "xfs"];

/// Returns the text of `fsb list suites` in lines of at most `columns` columns.
fn suites_text(columns: usize) -> String {
    let times: Vec<String> = suite::REGISTRY.iter().map(suite_time).collect();
    let name = suite::REGISTRY
        .iter()
        .map(|suite| suite.name.len())
        .max()
        .unwrap_or(0);
    let time = times
        .iter()
        .map(|time| time.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (suite, took) in suite::REGISTRY.iter().zip(&times) {
        text += &entry(
            &format!("{:name$}  {took:time$}  ", suite.name),
            suite.about,
            columns,
        );
        text.push('\n');
    }
    text.push('\n');
    let machines = || {
        suite::REGISTRY
            .iter()
            .filter_map(|suite| Some((suite.machine?, suite.name)))
    };
    let widest = machines()
        .map(|(machine, _)| machine.len())
        .max()
        .unwrap_or(0);
    let targets = TARGETS.join(" ");
    for (machine, suite) in machines() {
        let mut commands = Vec::new();
        if let Some(role) = ROLES.iter().find(|role| role.machine == machine) {
            commands.push(format!("fsb run {targets} --preset {}", role.preset));
        }
        commands.push(format!("fsb run {targets} --suite {suite}  # an emulation"));
        let mut asked = format!("A {machine}?");
        for command in commands {
            let head = std::mem::take(&mut asked);
            text += &(entry(&format!("{head:0$}  ", widest + 3), &command, columns) + "\n");
        }
    }
    text.push('\n');
    text += &entry(
        "",
        "Times are for two file systems. 'Up to' is the budget: fsb run --budget changes it, and fsb prints the \
         workloads that it leaves out. 'About' is the time of five blocks: fsb run --budget 10m chooses the workloads \
         that fit ten minutes, and fsb run --scale 1/8 makes all files smaller. Plans measure more: 'fsb list plans'.",
        columns,
    );
    text.push('\n');
    text
}

/// Returns the description of one suite, with its time and its machine.
fn suite_about(suite: &Suite) -> String {
    let machine = suite
        .machine
        .map(|machine| format!(" It emulates the work of a {machine}."))
        .unwrap_or_default();
    format!(
        "{}{machine} Two file systems take {}.",
        suite.about,
        suite_time(suite)
    )
}

/// Returns the suite for a kind of machine as a user names it: `mail`, `a mail server?`.
fn suite_of_machine(name: &str) -> Option<&'static str> {
    let wanted = name
        .trim_start_matches("a ")
        .trim_end_matches('?')
        .to_lowercase();
    suite::REGISTRY
        .iter()
        .find(|suite| {
            suite.machine.is_some_and(|machine| {
                machine == wanted || machine.split(' ').next() == Some(&wanted)
            })
        })
        .map(|suite| suite.name)
}

/// Returns text such as `up to 5 min`, `about 3 h`.
fn suite_time(suite: &Suite) -> String {
    let plan = PlanFile {
        targets: TARGETS.iter().map(|name| typed(name)).collect(),
        settings: Settings::default().with_text("suite", suite.name),
        ..PlanFile::default()
    };
    // A test checks that all shipped suites resolve; if one did not, the missing time would not
    // matter.
    let Ok(resolved) = plan.resolve(coordinator::cpus(), 1) else {
        return String::new();
    };
    match resolved.plan.repetition {
        Repetition::Budget { seconds }
        | Repetition::Precision { seconds, .. }
        | Repetition::Blocks {
            seconds: Some(seconds),
            ..
        } => {
            format!("up to {}", rough(Duration::from_secs_f64(seconds)))
        }
        Repetition::Blocks { .. } => match record::new_record(resolved) {
            Ok((record, work)) => {
                let Expected { time, .. } = schedule::expected(&record, &work);
                format!("about {}", rough(time))
            }
            Err(_) => String::new(),
        },
    }
}

/// Whole minutes, hours from two on: the model is off by a factor of two or three.
fn rough(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 90.0 => show_duration(time),
        seconds if seconds < 2.0 * 3600.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 48.0 * 3600.0 => format!("{:.0} h", seconds / 3600.0),
        seconds => format!("{:.0} days", seconds / 86_400.0),
    }
}

// The tables that members of families declare: parameters, values, options.

/// Returns the parameters of a workload, and how a plan sets them.
fn workload_details(name: &str, columns: usize) -> String {
    let Some(workload) = fsb_engine::workload::REGISTRY
        .iter()
        .find(|known| known.name() == name)
    else {
        return String::new();
    };
    // Text, numbers and booleans have the same syntax in TOML and in JSON.
    let example: String = workload
        .example()
        .iter()
        .map(|(key, value)| format!("  {key} = {value}\n"))
        .collect();
    let expressions =
        "Sizes and numbers may be expressions of the image's size: size/8, min(10000, size/64K).";
    format!(
        "\n{}\n{}\n\nIn a plan:\n  [[workload]]\n  name = \"{name}\"\n{example}",
        parameters(workload.parameters(), columns),
        entry("", expressions, columns),
    )
}

/// Formats parameters under the headings of their groups, each with its help, values and default.
fn parameters(mut parameters: Vec<Parameter>, columns: usize) -> String {
    parameters.sort_by_key(|parameter| (parameter.group, parameter.name));
    let width = parameters
        .iter()
        .map(|parameter| parameter.name.len())
        .max()
        .unwrap_or(0);
    let (mut text, mut group) = (String::new(), None);
    for parameter in &parameters {
        if group.replace(parameter.group) != Some(parameter.group) {
            text += &format!("{}:\n", parameter.group.title());
        }
        let needs = parameter
            .needs
            .map_or_else(String::new, |needs| format!("; {needs}"));
        let default = match (&parameter.default, parameter.default_text()) {
            (ParameterDefault::Required(_), _) => " [required]".to_owned(),
            (_, Some(default)) => format!(" [default: {default}]"),
            (_, None) => String::new(),
        };
        let about = format!(
            "{} ({}{needs}){default}",
            parameter.about,
            parameter.values()
        );
        text += &format!(
            "{}\n",
            entry(&format!("  {:width$}  ", parameter.name), &about, columns)
        );
    }
    text
}

/// Returns the values of a control.
fn control_details(name: &str) -> String {
    let Ok(control) = control::find(name) else {
        return String::new();
    };
    let values = control.values().iter().enumerate();
    let rows: Vec<_> = values
        .map(|(index, value)| {
            let default = if index == 0 { " [default]" } else { "" };
            let kind = value
                .kind
                .as_ref()
                .map_or_else(String::new, |kind| format!(" ({})", kind.values()));
            (
                format!("  {}", value.name),
                format!("{}{kind}{default}", value.about),
            )
        })
        .collect();
    let scope = match control.scope() {
        Scope::Run => "Scope: the whole run.",
        Scope::Target => "Scope: targets of one run may have different values.",
    };
    let excludes = control
        .excludes()
        .map_or_else(String::new, |other| format!(" Not together with {other}."));
    let example = control
        .values()
        .last()
        .map_or(control::KEEP, |value| value.name);
    format!(
        "\nValues:\n{}\n{scope}{excludes}\n\nIn a plan:\n  [controls]\n  {name} = \"{example}\"\n",
        lines(&rows)
    )
}

/// Returns the mount options of a file system, the options that `fsb choose` tries, and those that
/// weaken durability.
fn file_system_details(name: &str) -> String {
    let Ok(file_system) = fs::find(name) else {
        return String::new();
    };
    let choice = |choice: &Choice| {
        let mkfs = choice.mkfs.join(" ");
        let mkfs = (!mkfs.is_empty()).then(|| format!("mkfs=\"{mkfs}\""));
        let options: Vec<_> = choice
            .mount
            .iter()
            .map(|option| (*option).to_owned())
            .chain(mkfs)
            .collect();
        let risk = choice
            .risk
            .map_or_else(String::new, |risk| format!("; {risk}"));
        (
            format!("  {}", options.join(",")),
            format!("{}{risk}", choice.why),
        )
    };
    let hazard = |hazard: &Hazard| {
        let cause = match hazard.cause {
            Cause::Options(options) => options.join(", "),
            Cause::Without(feature) => format!("without {feature}"),
            Cause::Lacks(_, format) | Cause::Format(format) => format.to_owned(),
        };
        (format!("  {cause}"), hazard.loss.to_owned())
    };
    let section = |title: &str, rows: Vec<(String, String)>| match rows.is_empty() {
        true => String::new(),
        false => format!("\n{title}:\n{}", lines(&rows)),
    };
    let choices = file_system.choices().iter().map(choice).collect();
    let hazards = file_system.hazards().iter().map(hazard).collect();
    let common = fs::COMMON
        .iter()
        .map(|option| option.name)
        .collect::<Vec<_>>()
        .join(", ");
    let common = match file_system.home() {
        fs::Home::Nowhere => String::new(),
        _ => format!(
            "\n{}\n",
            entry(
                "Options of every file system: ",
                &common,
                terminal::columns(std::io::stdout())
            )
        ),
    };
    options(file_system.options())
        + &common
        + &section("Options that 'fsb choose' tries", choices)
        + &section("Options and formats that weaken durability", hazards)
}

/// Returns the argument of a medium.
fn medium_details(name: &str) -> String {
    let Some(argument) = medium::find(name).ok().and_then(|medium| medium.argument()) else {
        return String::new();
    };
    let rows = [(format!("  {}", argument.form), argument.about.to_owned())];
    format!(
        "\nArgument:\n{}\nIn a target:\n  ext4{}\n",
        lines(&rows),
        argument.example
    )
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
        let needs = option
            .needs
            .map_or_else(String::new, |needs| format!("; {needs}"));
        let default = if option.default.is_empty() {
            String::new()
        } else {
            format!(" [default: {}]", option.default)
        };
        rows.push((
            format!("  {}", option.name),
            format!("{} ({}{needs}){default}", option.about, option.values()),
        ));
    }
    text + &lines(&rows)
}

/// Formats names and their descriptions in two columns.
fn lines(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let columns = terminal::columns(std::io::stdout());
    rows.iter()
        .map(|(name, about)| format!("{}\n", entry(&format!("{name:width$}  "), about, columns)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_rough_as_the_model() {
        let of = |seconds: u64| rough(Duration::from_secs(seconds));
        assert_eq!(
            [of(20), of(300), of(7199), of(8000), of(400_000)],
            ["20 s", "5 min", "120 min", "2 h", "5 days"]
        );
    }

    #[test]
    fn a_machine_finds_its_suite() {
        let found = ["mail", "a mail server?", "Database", "build machine"].map(suite_of_machine);
        assert_eq!(
            found,
            ["varmail", "varmail", "oltp", "untar-build"].map(Some)
        );
        assert_eq!(
            (suite_of_machine("server"), suite_of_machine("")),
            (None, None)
        );
    }

    #[test]
    fn every_suite_has_its_time() {
        for suite in suite::REGISTRY {
            let time = suite_time(suite);
            assert!(
                time.starts_with("up to ") || time.starts_with("about "),
                "{}: {time}",
                suite.name
            );
        }
    }
}
