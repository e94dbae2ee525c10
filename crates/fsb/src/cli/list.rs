//! `fsb list`: what the registries hold.

use clap::Args;
use fsb_model::{metric, nearest};
use fsb_report::show::entry;
use fsb_testbed::{control, doctor, fs, medium, watch};

use super::COMPACT_HELP;
use crate::exit;
use crate::results::{print, screen_width};

const MORE: &str = "\
Examples:
  fsb list                families and how many members each has
  fsb list workloads      what can be done to a file
  fsb list file-systems   what can be formatted, and by which package";

/// List a family: file-systems, media, controls, disturbances, workloads, backends, suites, plans, tools, metrics or formats
#[derive(Debug, Args)]
#[command(after_help = MORE, help_template = COMPACT_HELP)]
pub struct Arguments {
    /// The family; all of them where none is named
    #[arg(value_name = "FAMILY")]
    family: Option<String>,
}

/// A family and how its members are told.
struct Family {
    name: &'static str,
    about: &'static str,
    members: fn() -> Vec<(String, String)>,
}

/// Every family.
static FAMILIES: &[Family] = &[
    Family {
        name: "file-systems",
        about: "What a target is formatted with",
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
        name: "media",
        about: "Where a file system lives",
        members: || {
            medium::REGISTRY.iter().map(|medium| (medium.name().to_owned(), medium.about().to_owned())).collect()
        },
    },
    Family {
        name: "controls",
        about: "What is held still while a run measures",
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
        about: "What is watched while a trial is measured",
        members: || {
            watch::REGISTRY.iter().map(|source| (source.name().to_owned(), source.about().to_owned())).collect()
        },
    },
    Family {
        name: "workloads",
        about: "What is done",
        members: || {
            let pair = |workload: &&dyn fsb_engine::Workload| (workload.name().to_owned(), workload.about().to_owned());
            fsb_engine::workload::REGISTRY.iter().map(pair).collect()
        },
    },
    Family {
        name: "backends",
        about: "How a call reaches the kernel",
        members: || {
            let backends = fsb_engine::backend::REGISTRY.iter();
            backends.map(|backend| (backend.name().to_owned(), backend.about().to_owned())).collect()
        },
    },
    Family {
        name: "suites",
        about: "Named lists of workloads",
        members: || {
            let suites = fsb_runner::suite::REGISTRY.iter();
            suites.map(|suite| (suite.name.to_owned(), suite.about.to_owned())).collect()
        },
    },
    Family {
        name: "plans",
        about: "Plans that are shipped: fsb run NAME",
        members: || {
            let plans = fsb_runner::shipped_plan::REGISTRY.iter();
            plans.map(|plan| (plan.name.to_owned(), plan.about.to_owned())).collect()
        },
    },
    Family {
        name: "tools",
        about: "Whose results can be compared",
        members: || fsb_compat::TOOLS.iter().map(|tool| (tool.name.to_owned(), tool.about.to_owned())).collect(),
    },
    Family {
        name: "metrics",
        about: "What is recorded of a trial",
        members: || {
            let about = |kind: &metric::MetricKind| format!("{} [{}]", kind.about, kind.unit.name());
            metric::REGISTRY.iter().map(|kind| (kind.name.to_owned(), about(kind))).collect()
        },
    },
    Family {
        name: "formats",
        about: "Forms of a report",
        members: || {
            let formats = fsb_report::FORMATS.iter();
            formats.map(|format| (format.name.to_owned(), format.about.to_owned())).collect()
        },
    },
];

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let rows = match &arguments.family {
        None => FAMILIES
            .iter()
            .map(|family| (family.name.to_owned(), format!("{} ({})", family.about, (family.members)().len())))
            .collect(),
        Some(name) => {
            let known = FAMILIES.iter().find(|family| family.name == *name).ok_or_else(|| {
                exit::request(nearest::unknown("family", name, FAMILIES.iter().map(|family| family.name)))
            })?;
            (known.members)()
        }
    };
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let columns = screen_width();
    let lines: String =
        rows.iter().map(|(name, about)| format!("{}\n", entry(&format!("{name:width$}  "), about, columns))).collect();
    print(&lines)?;
    Ok(exit::DONE)
}
