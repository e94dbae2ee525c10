//! `fsb list`: prints the members of the registries.

mod details;
mod suites;

use std::collections::BTreeSet;

use clap::Args;
use fsb_model::{metric, nearest};
use fsb_report::show::entry;
use fsb_testbed::{control, doctor, fs, medium, watch};

use crate::columns;
use crate::results::print;
use crate::{code, exit};

const EXAMPLES: &str = "\
Examples:
  fsb list                  the families
  fsb list suites           the suites and how long each takes
  fsb list workloads read   the parameters of one workload and their defaults
  fsb list controls swap    the values of one control
  fsb list file-systems     the file systems and the packages that format them
  fsb list ext4             the mount options of one file system";

/// List file systems, media, workloads, suites and more
///
/// The families are file-systems, media, controls, disturbances, workloads, backends, suites, plans, tools, exporters,
/// metrics and formats.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Family, or name of a member [default: all families]
    #[arg(value_name = "FAMILY")]
    family: Option<String>,
    /// Member of the family to describe
    #[arg(value_name = "NAME")]
    member: Option<String>,
}

/// A family with its description and its members.
struct Family {
    name: &'static str,
    about: &'static str,
    members: fn() -> Vec<(String, String)>,
}

const WORKLOADS: &str = "workloads";
const SUITES: &str = "suites";
const CONTROLS: &str = "controls";
const FILE_SYSTEMS: &str = "file-systems";
const MEDIA: &str = "media";
const TOOLS: &str = "tools";
const ERRORS: &str = "errors";

/// Every family.
static FAMILIES: &[Family] = &[
    Family {
        name: FILE_SYSTEMS,
        about: "File systems that fsb formats",
        members: || {
            let here = doctor::file_systems();
            let about = |fs: &dyn fs::FileSystem| {
                let driver = here.iter().find(|support| support.name == fs.name()).is_none_or(|support| support.driver);
                let place = if driver { "" } else { "; no driver is loaded here: --in vm" };
                match fs.tools() {
                    Some(tools) => format!("{} (Debian package {}{place})", fs.about(), tools.package),
                    None => fs.about().to_owned(),
                }
            };
            fs::REGISTRY.iter().map(|fs| (fs.name().to_owned(), about(*fs))).collect()
        },
    },
    Family {
        name: MEDIA,
        about: "Media that hold a file system",
        members: || {
            medium::REGISTRY.iter().map(|medium| (medium.name().to_owned(), medium.about().to_owned())).collect()
        },
    },
    Family {
        name: CONTROLS,
        about: "Settings of the machine that fsb controls during a run",
        members: || {
            let about = |control: &dyn control::Control| {
                let values: Vec<_> = control.values().iter().map(|value| value.name).collect();
                format!("{} ({})", control.about(), values.join(", "))
            };
            control::REGISTRY.iter().map(|control| (control.name().to_owned(), about(*control))).collect()
        },
    },
    Family {
        name: "disturbances",
        about: "Interference that fsb watches during a trial",
        members: || {
            watch::REGISTRY.iter().map(|source| (source.name().to_owned(), source.about().to_owned())).collect()
        },
    },
    Family {
        name: WORKLOADS,
        about: "Operations that fsb measures",
        members: || {
            let pair = |workload: &&dyn fsb_engine::Workload| (workload.name().to_owned(), workload.about().to_owned());
            fsb_engine::workload::REGISTRY.iter().map(pair).collect()
        },
    },
    Family {
        name: "backends",
        about: "Interfaces of the kernel that workloads use",
        members: || {
            let backends = fsb_engine::backend::REGISTRY.iter();
            backends.map(|backend| (backend.name().to_owned(), backend.about().to_owned())).collect()
        },
    },
    Family {
        name: SUITES,
        about: "Named lists of workloads, with their times",
        members: || {
            let suites = fsb_runner::suite::REGISTRY.iter();
            suites.map(|suite| (suite.name.to_owned(), suite.about.to_owned())).collect()
        },
    },
    Family {
        name: "plans",
        about: "Shipped plans: fsb run NAME",
        members: || {
            let plans = fsb_runner::shipped_plan::REGISTRY.iter();
            plans.map(|plan| (plan.name.to_owned(), plan.about.to_owned())).collect()
        },
    },
    Family {
        name: TOOLS,
        about: "Tools whose results fsb compares",
        members: || fsb_compat::TOOLS.iter().map(|tool| (tool.name.to_owned(), tool.about.to_owned())).collect(),
    },
    Family {
        name: "exporters",
        about: "Tools that fsb writes plans for: fsb export NAME",
        members: || {
            let exporters = fsb_compat::export::EXPORTERS.iter();
            exporters.map(|exporter| (exporter.name.to_owned(), exporter.about.to_owned())).collect()
        },
    },
    Family {
        name: "metrics",
        about: "Values that fsb records of a trial",
        members: || {
            let about = |kind: &metric::MetricKind| format!("{} [{}]", kind.about, kind.unit.name());
            metric::REGISTRY.iter().map(|kind| (kind.name.to_owned(), about(kind))).collect()
        },
    },
    Family {
        name: ERRORS,
        about: "Error codes of --message-format json",
        members: || code::all().map(|code| (code.name.to_owned(), code.meaning.to_owned())).collect(),
    },
    Family {
        name: "formats",
        about: "Formats of a report",
        members: || {
            let formats = fsb_report::FORMATS.iter();
            formats.map(|format| (format.name.to_owned(), format.about.to_owned())).collect()
        },
    },
];

/// Returns the names of all families.
pub fn families() -> Vec<String> {
    FAMILIES.iter().map(|family| family.name.to_owned()).collect()
}

/// Returns the names of all members of all families, each once.
pub fn members() -> Vec<String> {
    let members = FAMILIES.iter().filter(|family| family.name != ERRORS).flat_map(|family| (family.members)());
    members.map(|(name, _)| name).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let family = |name: &str| FAMILIES.iter().find(|family| family.name == name);
    let rows = match (&arguments.family, &arguments.member) {
        (None, _) => FAMILIES
            .iter()
            .map(|family| (family.name.to_owned(), format!("{} ({})", family.about, (family.members)().len())))
            .collect(),
        (Some(name), None) if name == SUITES => {
            print(&suites::text(columns::of(std::io::stdout())))?;
            return Ok(exit::DONE);
        }
        (Some(name), None) if family(name).is_none() => return of_any_family(name),
        (Some(name), Some(_)) if family(name).is_none() && is_file_system(name) => {
            return Err(exit::advised(
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
                        exit::failure(
                            &code::UNKNOWN_MEMBER,
                            nearest::unknown(
                                &format!("member of {}", known.name),
                                member,
                                members.iter().map(|(name, _)| name.as_str()),
                            ),
                        )
                    })?;
                    return describe(known, member, about);
                }
            }
        }
    };
    print(&details::lines(&rows))?;
    Ok(exit::DONE)
}

fn is_file_system(name: &str) -> bool {
    fs::REGISTRY.iter().any(|known| known.name() == name)
}

fn unknown_family(name: &str) -> anyhow::Error {
    let families = FAMILIES.iter().map(|family| family.name);
    // Users search for names as other programs spell them: random_read, ext5.
    let members: Vec<String> = FAMILIES.iter().flat_map(|family| (family.members)()).map(|(name, _)| name).collect();
    let near = match name {
        "fs" => Some(FILE_SYSTEMS),
        "devices" | "disks" => Some(MEDIA),
        _ => nearest::nearest(name, families.clone().chain(members.iter().map(String::as_str))),
    };
    exit::failure(
        &code::UNKNOWN_FAMILY,
        match near {
            Some(near) => format!("unknown name '{}': did you mean '{near}'?", nearest::shortened(name)),
            None => nearest::unknown("family", name, families),
        },
    )
}

/// Prints a member that was named without its family.
fn of_any_family(name: &str) -> anyhow::Result<u8> {
    let mut found = Vec::new();
    for family in FAMILIES {
        found.extend(
            (family.members)().into_iter().filter(|(known, _)| known == name).map(|(_, about)| (family, about)),
        );
    }
    if found.is_empty() {
        let Some(suite) = suites::of_machine(name) else { return Err(unknown_family(name)) };
        return of_any_family(suite);
    }
    for (family, about) in found {
        describe(family, name, &about)?;
    }
    Ok(exit::DONE)
}

/// Prints all that is known of one member: its line, and the table that it declares.
fn describe(family: &Family, name: &str, about: &str) -> anyhow::Result<u8> {
    let columns = columns::of(std::io::stdout());
    let suite = fsb_runner::suite::REGISTRY.iter().find(|suite| suite.name == name && family.name == SUITES);
    let about = suite.map_or_else(|| about.to_owned(), suites::about);
    let details = match family.name {
        WORKLOADS => details::workload(name, columns),
        CONTROLS => details::control(name),
        FILE_SYSTEMS => details::file_system(name),
        MEDIA => details::medium(name),
        TOOLS => fsb_compat::TOOLS
            .iter()
            .find(|tool| tool.name == name)
            .map_or_else(String::new, |tool| entry("Recognized by: ", tool.looks_for, columns) + "\n"),
        _ => String::new(),
    };
    print(&format!("{}\n{details}", entry(&format!("{name} ({}): ", family.name), &about, columns)))?;
    Ok(exit::DONE)
}
