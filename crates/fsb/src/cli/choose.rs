//! `fsb choose`: which of many is the fastest for this work.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use fsb_model::plan::{Candidate, Factor, Refused};
use fsb_model::setting::SettingCommand;
use fsb_model::{FileSystemSpec, Race, Settings, Target, TargetKind, code, failure, notice};
use fsb_report::show::entry;
use fsb_runner::plan_file::{PlanFile, Resolved, typed};
use fsb_runner::work;
use fsb_testbed::doctor;
use fsb_testbed::fs::{self, Choice, FileSystem};

use super::plan_text::{read_preset, workloads};
use super::run::{CommandArguments, check_units, check_words};
use super::settings::{SettingArguments, TakesSettings};
use crate::help::heading;
use crate::message::{notify, say};
use crate::results::{self, Output, print};
use crate::run::progress::Verbosity;
use crate::run::stage::Turn;
use crate::run::{coordinator, race};
use crate::{exit, terminal};

const EXAMPLES: &str = "\
Examples:
  sudo fsb choose ext4 -- git clone -q /srv/linux .  best options for a command
  sudo fsb choose --preset sqlite --budget 30m       options for SQLite
  fsb choose ext4 xfs --list --risky                 list the candidates";

/// Find the fastest of many file systems and their options
///
/// The candidates race with a command or a suite. FS means the file system with its defaults and
/// with each of a curated list of options; a TARGET with options is one candidate.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(override_usage = "fsb choose [OPTIONS] [FS | TARGET]… [-- COMMAND…]")]
pub struct Arguments {
    /// File system or target to race [default: all file systems]
    #[arg(value_name = "TARGET", hide_short_help = true)]
    targets: Vec<String>,
    #[command(flatten)]
    settings: SettingArguments<ChooseSettings>,
    /// Race exactly the targets that are named, without the list of options
    #[arg(long, requires = "targets", conflicts_with = "effects", help_heading = heading::TARGETS)]
    only: bool,
    /// First measure each option of one file system
    #[arg(long, help_heading = heading::TARGETS)]
    effects: bool,
    /// List the candidates and the reasons, and exit
    #[arg(long, help_heading = heading::TARGETS)]
    list: bool,
    /// Work of a program to race with; without targets, the options that matter for it race; see
    /// 'fsb list presets'
    #[arg(long, value_name = "NAME", hide_short_help = true, help_heading = heading::WORKLOAD, conflicts_with_all = ["suite", "workloads", "command", "effects"])]
    preset: Option<String>,
    /// Workload to run, KIND[,PARAM=VALUE…]; see 'fsb list workloads'; repeatable
    #[arg(long = "workload", value_name = "KIND", hide_short_help = true, help_heading = heading::WORKLOAD, conflicts_with = "suite")]
    workloads: Vec<String>,
    /// Measure although another fsb measures; both results are marked
    #[arg(long, hide_short_help = true, help_heading = heading::MACHINE)]
    allow_concurrent: bool,
    /// Wait until no other fsb measures
    #[arg(long, hide_short_help = true, help_heading = heading::MACHINE, conflicts_with = "allow_concurrent")]
    wait: bool,
    /// Run directory [default: fsb-results/TIME-choose]
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(flatten)]
    command: CommandArguments,
}

/// Targets of a race round, the baseline included.
const PLACES: u32 = 4;
/// The probability with which the answer may be wrong.
const ERROR: f64 = 0.05;
/// Size of the image: a quarter for each target of a race round.
const SIZE: u64 = 4 << 30;
/// Time limit of the race.
const BUDGET: &str = "10m";

/// The settings of `fsb choose`.
#[derive(Debug)]
enum ChooseSettings {}

impl TakesSettings for ChooseSettings {
    const COMMAND: SettingCommand = SettingCommand::Choose;
    const ABOUT: &'static [(&'static str, &'static str)] = &[
        ("risky", "Include dangerous options, such as barriers off"),
        ("budget", "Time limit, report included"),
        ("size", "Image size, a quarter for each target"),
    ];

    fn defaults() -> Settings {
        Settings::default()
            .with_text("budget", BUDGET)
            .with_number("size", SIZE)
    }
}

/// Runs the subcommand.
pub fn main(arguments: Arguments) -> anyhow::Result<u8> {
    check_output(&arguments.output)?;
    let preset = arguments.preset.as_deref().map(read_preset).transpose()?;
    let mut settings = arguments.settings.given;
    if let Some(preset) = &preset {
        settings = settings.over(preset.settings.clone());
    }
    let settings = settings.over(ChooseSettings::defaults());
    let (targets, only) = match &preset {
        // The plan of a preset names the options that matter for it.
        Some(preset) if arguments.targets.is_empty() => (texts(preset), true),
        _ => (arguments.targets, arguments.only),
    };
    let budget = settings.text("budget").unwrap_or(BUDGET).to_owned();
    check_words(&targets, Some(&budget))?;
    check_units(&settings)?;
    let risky = settings.flag("risky");
    let (raced, refused) = all_candidates(&targets, risky, only)?;
    let (raced, refused) = without_effects_of_size(raced, refused, &settings)?;
    if arguments.list {
        return list(&raced, &refused, risky);
    }
    let mut workloads = workloads(&arguments.workloads)?;
    let command = arguments.command.workload(None, true, None)?;
    if command.is_some() && (settings.has("suite") || !workloads.is_empty()) {
        let message = "a command excludes --suite and --workload: give one of them";
        return Err(failure::error(&code::CONFLICT, message));
    }
    workloads.extend(command);
    workloads.extend(preset.into_iter().flat_map(|preset| preset.workloads));
    let (raced, first_stage, factors) = match arguments.effects {
        true => design(raced, PLACES as usize)?,
        false => (raced, Vec::new(), Vec::new()),
    };
    if let (true, Some(refused)) = (raced.len() < 2, refused.first()) {
        return Err(failure::error(
            &code::NOT_RACED,
            format!("{} is not raced: {}", refused.name, refused.why),
        ));
    }
    for refused in &refused {
        let fields = [
            ("target", refused.name.as_str().into()),
            ("reason", refused.why.as_str().into()),
        ];
        notify(
            &notice::NOT_RACED,
            fields,
            &format!("note: {} is not raced: {}", refused.name, refused.why),
        );
    }
    if raced.len() < 2 {
        return Err(failure::error(
            &code::NOT_RACED,
            format!(
                "{} is the only candidate: name another target, or a file system that has options to choose from ('fsb choose --list')",
                raced[0].target.name
            ),
        ));
    }
    say(&announcement(raced.len(), targets.len(), only, &budget));
    let race = Race {
        refused,
        first_stage,
        factors,
        ..race_of(&raced)
    };
    let plan = PlanFile {
        workloads,
        ..plan_of(&raced, settings, race)
    };
    let resolved: Resolved = plan.resolve(coordinator::cpus(), coordinator::fresh_seed())?;
    let out = arguments
        .out
        .unwrap_or_else(|| results::default_directory("choose"));
    race::choose(
        resolved,
        &targets,
        &out,
        &arguments.output,
        arguments.verbosity,
        Turn::of_run(arguments.allow_concurrent, arguments.wait),
    )
}

/// Returns the targets of a plan as on the command line.
fn texts(plan: &PlanFile) -> Vec<String> {
    let targets = plan.targets.iter();
    targets
        .map(|target| target.get_ref().text.clone())
        .collect()
}

/// Returns the text about the number of candidates that is printed before the race.
fn announcement(raced: usize, named: usize, only: bool, budget: &str) -> String {
    let fewer = match named {
        2.. if named < raced => {
            format!("; --only races the {named} that you named, and --list shows all")
        }
        _ if only => String::new(),
        _ => "; --list shows them".to_owned(),
    };
    let places = raced.min(PLACES as usize);
    format!("{raced} candidates race in rounds of {places} targets, for at most {budget}{fewer}")
}

/// Refuses an output format that a choice cannot be printed in, before an hour of measuring.
fn check_output(output: &Output) -> anyhow::Result<()> {
    output.of_choice().map(drop)
}

/// Reasons begin in one column, beside names that are no wider.
const WIDEST: usize = 32;

fn list(raced: &[Raced], refused: &[Refused], risky: bool) -> anyhow::Result<u8> {
    let width = terminal::columns(std::io::stdout());
    let mut text = String::new();
    let widest = raced
        .iter()
        .map(|raced| raced.target.name.chars().count())
        .max()
        .unwrap_or_default()
        .min(WIDEST);
    for Raced { target, beside, .. } in raced {
        let risk = beside
            .risk
            .as_ref()
            .map(|risk| format!("; RISK: {risk}"))
            .unwrap_or_default();
        text += &(entry(
            &format!("{:widest$}  ", target.name),
            &format!("{}{risk}", beside.why),
            width,
        ) + "\n");
    }
    for Refused { name, why } in refused {
        text += &(entry(
            &format!("{name:widest$}  "),
            &format!("not raced: {why}"),
            width,
        ) + "\n");
    }
    text += &format!(
        "{} candidates; the first one is the baseline of every race round",
        raced.len()
    );
    text += if risky {
        "\n"
    } else {
        " (--risky adds dangerous ones, --only leaves out the list of options)\n"
    };
    print(&text)?;
    Ok(exit::DONE)
}

// Candidates of a race: the name of a file system means its defaults and all its curated options; a
// target with options is one candidate.

/// A target with its description.
#[derive(Debug, Clone)]
struct Raced {
    target: Target,
    beside: Candidate,
    /// The option that it adds to a file system's defaults, if it adds exactly one of the list.
    choice: Option<&'static Choice>,
}

/// Returns all candidates of the arguments, the baseline first, and named targets that do not race
/// because they are unsafe. Without `risky`, unsafe and otherwise risky options do not take part.
/// With `only`, the name of a file system means one candidate: its defaults.
fn all_candidates(
    arguments: &[String],
    risky: bool,
    only: bool,
) -> anyhow::Result<(Vec<Raced>, Vec<Refused>)> {
    let here = of_this_machine();
    let arguments = if arguments.is_empty() {
        &here
    } else {
        arguments
    };
    if arguments.is_empty() {
        return Err(failure::error(
            &code::UNABLE,
            "this machine can format no file system that has options to choose from: see 'fsb doctor'",
        ));
    }
    let mut raced: Vec<Raced> = Vec::new();
    let mut refused: Vec<Refused> = Vec::new();
    for argument in arguments {
        for one in candidates_of(argument, risky, only)? {
            let unsafe_by = one
                .target
                .file_system()
                .map(fs::requested_risks)
                .unwrap_or_default();
            if let Some(risk) = unsafe_by.first().filter(|_| !risky) {
                let why = format!(
                    "unsafe: {} ({}); --risky lets it race",
                    risk.loss, risk.cause
                );
                refused.push(Refused {
                    name: one.target.name,
                    why,
                });
            } else if !raced
                .iter()
                .any(|known| known.target.kind == one.target.kind)
            {
                raced.push(one);
            }
        }
    }
    Ok((raced, refused))
}

/// Returns a race of candidates without a first stage.
fn race_of(raced: &[Raced]) -> Race {
    Race {
        places: PLACES,
        error: ERROR,
        candidates: raced.iter().map(|raced| raced.beside.clone()).collect(),
        refused: Vec::new(),
        first_stage: Vec::new(),
        factors: Vec::new(),
    }
}

/// Returns the plan of a race with the default workloads.
fn plan_of(raced: &[Raced], settings: Settings, race: Race) -> PlanFile {
    let targets = raced.iter().map(|raced| raced.target.to_string());
    PlanFile {
        settings,
        targets: targets.map(|text| typed(&text)).collect(),
        race: Some(race),
        ..PlanFile::default()
    }
}

/// Moves options to the refused ones if their effect follows the size of the device, and theirs is
/// too small.
fn without_effects_of_size(
    raced: Vec<Raced>,
    mut refused: Vec<Refused>,
    settings: &Settings,
) -> anyhow::Result<(Vec<Raced>, Vec<Refused>)> {
    let plan = plan_of(&raced, settings.clone(), race_of(&raced));
    let Resolved {
        plan, placement, ..
    } = plan.resolve(coordinator::cpus(), 0)?;
    let small = work::on_small_devices(&plan, &placement);
    let (moved, raced): (Vec<Raced>, Vec<Raced>) = raced.into_iter().partition(|raced| {
        raced.choice.is_some_and(|choice| choice.follows_size)
            && small.contains(&raced.target.name.as_str())
    });
    let why = "its effect on a device of this size is another one than on a large disk";
    refused.extend(moved.into_iter().map(|moved| Refused {
        name: moved.target.name,
        why: why.to_owned(),
    }));
    Ok((raced, refused))
}

/// Returns the file systems with a list of options that this machine can make and mount; the
/// commonest baseline first.
fn of_this_machine() -> Vec<String> {
    let here = doctor::file_systems();
    let listed = fs::REGISTRY.iter().filter(|fs| !fs.choices().is_empty());
    let mut names: Vec<String> = listed
        .filter(|fs| {
            here.iter()
                .any(|known| known.name == fs.name() && known.is_here())
        })
        .map(|fs| fs.name().to_owned())
        .collect();
    // The best-known file system has the longest list.
    names.sort_by_key(|name| std::cmp::Reverse(fs::find(name).map_or(0, |fs| fs.choices().len())));
    names
}

fn candidates_of(argument: &str, risky: bool, only: bool) -> anyhow::Result<Vec<Raced>> {
    let target: Target = argument.parse::<Target>()?;
    let TargetKind::FileSystem(spec) = &target.kind else {
        return Err(failure::error(
            &code::NOT_RACED,
            format!(
                "{argument}: a directory has no options to choose from: name a file system such as ext4, or use \
                fsb run {argument}"
            ),
        ));
    };
    let member = fs::find(&spec.fs)?;
    let is_default = spec.is_default();
    let why = if is_default {
        "its defaults"
    } else {
        "as named"
    };
    let risk = fs::requested_risks(spec)
        .into_iter()
        .next()
        .map(|risk| risk.loss);
    let own = Raced {
        beside: Candidate {
            why: why.to_owned(),
            risk,
        },
        target: target.clone(),
        choice: None,
    };
    if !is_default || only {
        return Ok(vec![own]);
    }
    let offered = member
        .choices()
        .iter()
        .filter(|choice| risky || fs::risk_of_choice(member, choice).is_none());
    Ok(std::iter::once(own)
        .chain(offered.map(|choice| candidate_with(member, spec, &[choice])))
        .collect())
}

/// Returns a file system with these options in addition to its defaults.
fn candidate_with(
    member: &'static dyn FileSystem,
    spec: &FileSystemSpec,
    choices: &[&'static Choice],
) -> Raced {
    let mut spec = spec.clone();
    let owned = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    for choice in choices {
        spec.options.extend(owned(choice.mount));
        spec.mkfs.extend(owned(choice.mkfs));
    }
    let risk = choices
        .iter()
        .find_map(|choice| fs::risk_of_choice(member, choice));
    let why = choices
        .iter()
        .map(|choice| choice.why)
        .collect::<Vec<_>>()
        .join("; ");
    let beside = Candidate { why, risk };
    let kind = TargetKind::FileSystem(spec);
    let mut target = Target {
        name: String::new(),
        kind,
        controls: Default::default(),
        kernel: None,
        variant: None,
        optional: false,
    };
    // Its own text is the name, so that users can type it again.
    target.name = "x".to_owned();
    let text = target.to_string();
    target.name = text.strip_prefix("x=").unwrap_or(&text).to_owned();
    Raced {
        target,
        beside,
        choice: if let [choice] = choices {
            Some(*choice)
        } else {
            None
        },
    }
}

// The first stage of `--effects`: a fractional factorial design over the options of one file
// system.
//
// Each factor is an option, with or without; options that exclude each other are one factor, the
// first of them. The designs have two levels and come from a Hadamard matrix of Sylvester's kind.
// They are folded over (every row once more with all levels exchanged), which makes their
// resolution IV: the effect of one option is not confounded with interactions of two (G. E. P. Box
// and J. S. Hunter, Technometrics 3, 1961). Race rounds of the stage are fixed before anything is
// measured.

/// The number of race rounds in which each row of the design is measured.
const TURNS: usize = 2;

/// Candidates with the rows of the design among them, the race rounds of the first stage, and the
/// factors.
type Design = (Vec<Raced>, Vec<Vec<u32>>, Vec<Factor>);

/// Creates the design over the options of the file system that all candidates have.
fn design(mut raced: Vec<Raced>, places: usize) -> anyhow::Result<Design> {
    let spec = raced[0].target.file_system().cloned();
    let kinds: BTreeSet<_> = raced
        .iter()
        .filter_map(|raced| Some(raced.target.file_system()?.fs.clone()))
        .collect();
    let Some(spec) = spec.filter(|spec| kinds.len() == 1 && spec.is_default()) else {
        return Err(failure::error(
            &code::NOT_RACED,
            "--effects are those of the options of one file system: name it alone, such as ext4",
        ));
    };
    let member = fs::find(&spec.fs)?;
    let mut sorts = BTreeSet::new();
    let listed = raced.iter().filter_map(|raced| raced.choice);
    let options: Vec<&'static Choice> = listed
        .filter(|choice| choice.sort.is_none_or(|sort| sorts.insert(sort)))
        .collect();
    if options.len() < 2 {
        return Err(failure::error(
            &code::NOT_RACED,
            format!(
                "--effects need two options at least, and {} has fewer in its list",
                spec.fs
            ),
        ));
    }
    let rows = design_rows(options.len());
    let mut places_of_rows = Vec::new();
    for row in &rows {
        let chosen: Vec<&'static Choice> = options
            .iter()
            .zip(row)
            .filter(|(_, with)| **with)
            .map(|(one, _)| *one)
            .collect();
        let one = candidate_with(member, &spec, &chosen);
        let known = raced
            .iter()
            .position(|known| known.target.kind == one.target.kind);
        places_of_rows.push(known.unwrap_or(raced.len()) as u32);
        if known.is_none() {
            raced.push(one);
        }
    }
    let factors = options.iter().enumerate().map(|(at, option)| {
        let having = |wanted: bool| {
            let rows = rows
                .iter()
                .zip(&places_of_rows)
                .filter(move |(row, _)| row[at] == wanted);
            rows.map(|(_, place)| *place).collect::<Vec<_>>()
        };
        let mkfs = (!option.mkfs.is_empty()).then(|| format!("mkfs=\"{}\"", option.mkfs.join(" ")));
        let words = option
            .mount
            .iter()
            .map(|word| (*word).to_owned())
            .chain(mkfs);
        Factor {
            option: words.collect::<Vec<_>>().join(","),
            with: having(true),
            without: having(false),
        }
    });
    Ok((
        raced,
        race_rounds(&places_of_rows, places),
        factors.collect(),
    ))
}

/// Returns the rows of a design for `factors` factors: for each factor, whether the row has its
/// option.
fn design_rows(factors: usize) -> Vec<Vec<bool>> {
    let size = factors.next_power_of_two().max(2);
    // Entry (i, j) of Sylvester's matrix is the parity of the bits that i and j share.
    let half: Vec<Vec<bool>> = (0..size)
        .map(|row| {
            (0..factors)
                .map(|column| (row & column).count_ones().is_multiple_of(2))
                .collect()
        })
        .collect();
    let folded = half
        .iter()
        .map(|row| row.iter().map(|with| !with).collect());
    half.iter().cloned().chain(folded).collect()
}

/// Returns race rounds in which each row occurs [`TURNS`] times, with the baseline and each time
/// with other candidates.
fn race_rounds(rows: &[u32], places: usize) -> Vec<Vec<u32>> {
    let others: Vec<u32> = rows.iter().copied().filter(|row| *row != 0).collect();
    let each = places - 1;
    let mut race_rounds = Vec::new();
    for turn in 0..TURNS {
        let step = others.len().div_ceil(each);
        // In the first turn adjacent rows share a race round, in the second distant ones.
        let order: Vec<u32> = match turn {
            0 => others.clone(),
            _ => (0..step)
                .flat_map(|from| others.iter().copied().skip(from).step_by(step))
                .collect(),
        };
        race_rounds.extend(
            order
                .chunks(each)
                .map(|some| std::iter::once(0).chain(some.iter().copied()).collect()),
        );
    }
    race_rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str], risky: bool) -> Vec<String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        all_candidates(&arguments, risky, false)
            .unwrap()
            .0
            .into_iter()
            .map(|raced| raced.target.name)
            .collect()
    }

    #[test]
    fn a_name_stands_for_all_its_options_and_a_target_for_itself() {
        let found = names(&["ext4", "xfs,noatime", "ext4,noatime"], false);
        assert_eq!(found[0], "ext4");
        assert_eq!(
            found.iter().filter(|name| *name == "ext4,noatime").count(),
            1
        );
        assert!(
            found.contains(&"ext4,mkfs=\"-O fast_commit\"".to_owned()),
            "{found:?}"
        );
        assert!(found.contains(&"xfs,noatime".to_owned()) && !found.contains(&"xfs".to_owned()));
        assert!(
            !found.iter().any(|name| name.contains("barrier")),
            "{found:?}"
        );
        assert!(names(&["ext4"], true).contains(&"ext4,barrier=0".to_owned()));
    }

    #[test]
    fn an_unsafe_target_races_only_if_risk_is_accepted_and_then_carries_it() {
        let arguments = ["xfs".to_owned(), "ext4,barrier=0".to_owned()];
        let (raced, refused) = all_candidates(&arguments, false, false).unwrap();
        assert!(
            !raced
                .iter()
                .any(|raced| raced.target.name.starts_with("ext4"))
        );
        assert_eq!(refused.len(), 1);
        let why = "unsafe: a power failure may lose synced data (barrier=0); --risky lets it race";
        assert_eq!(
            (refused[0].name.as_str(), refused[0].why.as_str()),
            ("ext4,barrier=0", why)
        );
        let (raced, refused) = all_candidates(&arguments, true, false).unwrap();
        let named = raced
            .iter()
            .find(|raced| raced.target.name == "ext4,barrier=0")
            .unwrap();
        assert_eq!(
            named.beside.risk.as_deref(),
            Some("a power failure may lose synced data")
        );
        assert!(refused.is_empty());
    }

    #[test]
    fn every_name_is_its_target() {
        for member in fs::REGISTRY {
            for raced in candidates_of(member.name(), true, false).unwrap() {
                let again: Target = raced.target.name.parse().unwrap();
                assert_eq!(again.kind, raced.target.kind, "{}", raced.target.name);
            }
        }
    }

    #[test]
    fn only_the_targets_that_are_named_race_where_that_is_asked_for() {
        let named = ["ext4".to_owned(), "ext4,noatime".to_owned()];
        assert_eq!(all_candidates(&named, false, true).unwrap().0.len(), 2);
    }

    /// Every pair of columns has all four combinations equally often, and every triple is balanced:
    /// resolution IV.
    #[test]
    fn designs_are_balanced_in_every_three_factors() {
        for factors in 2..=16 {
            let rows = design_rows(factors);
            let sign = |with: bool| if with { 1 } else { -1 };
            for a in 0..factors {
                assert_eq!(
                    rows.iter().map(|row| sign(row[a])).sum::<i32>(),
                    0,
                    "{factors}: {a}"
                );
                for b in 0..a {
                    assert_eq!(
                        rows.iter()
                            .map(|row| sign(row[a]) * sign(row[b]))
                            .sum::<i32>(),
                        0,
                        "{factors}: {a} {b}"
                    );
                    for c in 0..b {
                        let all = rows
                            .iter()
                            .map(|row| sign(row[a]) * sign(row[b]) * sign(row[c]));
                        assert_eq!(all.sum::<i32>(), 0, "{factors}: {a} {b} {c}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_design_holds_every_option_and_the_race_all_candidates() {
        let (raced, _) = all_candidates(&["ext4".to_owned()], false, false).unwrap();
        let singles = raced.len();
        let (raced, race_rounds, factors) = design(raced, 4).unwrap();
        assert!(raced.len() > singles && factors.len() > 5);
        for factor in &factors {
            assert_eq!(factor.with.len(), factor.without.len(), "{factor:?}");
        }
        assert!(
            race_rounds
                .iter()
                .all(|race_round| race_round[0] == 0 && race_round.len() <= 4)
        );
        let (mixed, _) =
            all_candidates(&["ext4".to_owned(), "xfs".to_owned()], false, false).unwrap();
        assert!(design(mixed, 4).is_err());
    }
}
