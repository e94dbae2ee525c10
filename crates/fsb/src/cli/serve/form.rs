//! The form of a new run, from the tables that declare file systems, media, suites, workloads and
//! controls; and the plan that its answers make.

use std::path::PathBuf;

use fsb_engine::workload::parameter::{Parameter, ParameterDefault, ParameterGroup, ParameterKind};
use fsb_model::setting::{self, SETTINGS, Setting, SettingKind};
use fsb_runner::plan_file::{self, PlanFile, typed};
use fsb_runner::suite;
use fsb_serve::{Answers, Field, FieldKind, Section};
use fsb_testbed::{control, fs};

use super::policy::{Permitted, is_offered};
use crate::cli::list::disks;
use crate::cli::plan_text::workloads;

const FILE_SYSTEM: &str = "fs";
const MEDIUM: &str = "medium";
const TARGETS: &str = "targets";
const SUITE: &str = "suite";
const WORKLOAD: &str = "workload";
/// The prefix of the names of a workload's parameters.
const PARAMETER: &str = "p.";
/// The prefix of the names of controls.
const CONTROL: &str = "c.";

/// The choice of no single workload.
const NO_WORKLOAD: &str = "the suite";

/// Describes the devices of `--wipe`, and names those that the server could offer. `usable` is
/// `None` if this process cannot see which these are.
fn about_media(permitted: &[PathBuf], usable: Option<&[(PathBuf, String)]>) -> String {
    let mut about = "An image in a file, in memory, or a device of --wipe.".to_owned();
    let mut others = Vec::new();
    for (path, facts) in usable.unwrap_or_default() {
        if permitted.contains(path) {
            about += &format!(" {}: {facts}.", path.display());
        } else {
            others.push(format!("--wipe {} ({facts})", path.display()));
        }
    }
    if usable.is_none() {
        about += " Only root sees which disks of this machine are not in use: sudo fsb list disks.";
    } else if !others.is_empty() {
        let others = others.join(", ");
        about += &format!(
            " Other disks of this machine that are not in use are offered if the server starts with {others}; \
             their content is then lost."
        );
    }
    about
}

/// Returns the form with the answers so far.
pub(super) fn sections(permitted: &Permitted, answers: &Answers) -> Vec<Section> {
    let given = |name: &str| -> Vec<String> {
        answers
            .iter()
            .filter(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
            .collect()
    };
    let field = |name: &str, label: &str, about: &str, kind: FieldKind| Field {
        name: name.to_owned(),
        label: label.to_owned(),
        about: about.to_owned(),
        kind,
        given: given(name),
    };
    let media = ["loop".to_owned(), "ram".to_owned()].into_iter();
    let media = media
        .chain(
            permitted
                .wipe
                .iter()
                .map(|device| device.display().to_string()),
        )
        .collect();
    let directories = permitted
        .directories
        .iter()
        .map(|directory| directory.display().to_string());
    let directories: Vec<String> = directories.collect();
    let more = match directories.as_slice() {
        [] => "Separated by spaces, as for fsb run, such as ext4,data=journal.".to_owned(),
        known => format!(
            "Separated by spaces, as for fsb run, such as ext4,data=journal or {}.",
            known.join(" ")
        ),
    };
    let mut sections = vec![Section {
        title: "Targets".to_owned(),
        about: "The first target is the baseline.".to_owned(),
        fields: vec![
            field(
                FILE_SYSTEM,
                "File systems",
                "fsb list file-systems describes them.",
                FieldKind::Several(fs::REGISTRY.iter().map(|fs| fs.name().to_owned()).collect()),
            ),
            field(
                MEDIUM,
                "Medium",
                &about_media(&permitted.wipe, disks::usable()),
                FieldKind::One(media),
            ),
            field(
                TARGETS,
                "Further targets",
                &more,
                FieldKind::Text(String::new()),
            ),
        ],
    }];
    let all = std::iter::once(NO_WORKLOAD).chain(
        fsb_engine::workload::REGISTRY
            .iter()
            .map(|workload| workload.name()),
    );
    let all = all.map(str::to_owned).collect();
    sections.push(Section {
        title: "Work".to_owned(),
        about: String::new(),
        fields: vec![
            field(
                SUITE,
                "Suite",
                "A named list of workloads: fsb list suites describes them.",
                FieldKind::One(
                    suite::REGISTRY
                        .iter()
                        .map(|suite| suite.name.to_owned())
                        .collect(),
                ),
            ),
            field(
                WORKLOAD,
                "Workload",
                "A single workload instead of the suite.",
                FieldKind::One(all),
            ),
        ],
    });
    let workload = given(WORKLOAD).pop().unwrap_or_default();
    if let Some(workload) = fsb_engine::workload::REGISTRY
        .iter()
        .find(|known| known.name() == workload)
    {
        sections.extend(parameters(workload.parameters(), &field));
    }
    let of_form = SETTINGS.iter().filter(|setting| setting.is_offered());
    sections.push(Section {
        title: "Options".to_owned(),
        about: String::new(),
        fields: of_form
            .map(|setting| {
                field(
                    setting.name,
                    &setting.title(),
                    &format!("{}.", setting.about),
                    kind(setting),
                )
            })
            .collect(),
    });
    let control = |control: &&dyn control::Control| {
        let values: Vec<&str> = control.values().iter().map(|value| value.name).collect();
        let about = format!("{}: {}", control.about(), values.join(", "));
        field(
            &format!("{CONTROL}{}", control.name()),
            control.name(),
            &about,
            FieldKind::Text(values[0].to_owned()),
        )
    };
    sections.push(Section {
        title: "Controls".to_owned(),
        about: "Settings of the machine during the run.".to_owned(),
        fields: control::REGISTRY.iter().map(control).collect(),
    });
    sections
}

/// Returns the control that asks for a setting.
fn kind(setting: &Setting) -> FieldKind {
    match setting.kind {
        SettingKind::Flag => FieldKind::Flag,
        SettingKind::Word(words) => {
            FieldKind::One(words.iter().map(|word| (*word).to_owned()).collect())
        }
        _ => FieldKind::Text(setting.default_text().unwrap_or_else(|| "none".to_owned())),
    }
}

/// Returns the parameters of a workload, under the headings of their groups.
fn parameters(
    mut parameters: Vec<Parameter>,
    field: &dyn Fn(&str, &str, &str, FieldKind) -> Field,
) -> Vec<Section> {
    parameters.retain(|parameter| {
        parameter.group != ParameterGroup::Resolved && is_offered(&parameter.kind)
    });
    parameters.sort_by_key(|parameter| (parameter.group, parameter.name));
    let mut sections: Vec<Section> = Vec::new();
    for parameter in parameters {
        let title = format!("Parameters: {}", parameter.group.title());
        if sections.last().is_none_or(|section| section.title != title) {
            sections.push(Section {
                title,
                about: String::new(),
                fields: Vec::new(),
            });
        }
        let default = match (&parameter.default, parameter.default_text()) {
            (ParameterDefault::Required(example), _) => format!("required, such as {example}"),
            (_, Some(text)) => text.into_owned(),
            (_, None) => "none".to_owned(),
        };
        let needs = parameter
            .needs
            .map_or_else(String::new, |needs| format!("; {needs}"));
        let about = format!("{}: {}{needs}", parameter.about, parameter.values());
        let words = |words: &[&str]| {
            let default = format!("default: {default}");
            FieldKind::One(
                std::iter::once(default)
                    .chain(words.iter().map(|word| (*word).to_owned()))
                    .collect(),
            )
        };
        let kind = match &parameter.kind {
            ParameterKind::Word(all) => words(all),
            ParameterKind::Flag => words(&["true", "false"]),
            _ => FieldKind::Text(default),
        };
        if let Some(section) = sections.last_mut() {
            section.fields.push(field(
                &format!("{PARAMETER}{}", parameter.name),
                parameter.name,
                &about,
                kind,
            ));
        }
    }
    sections
}

/// Returns the plan that the answers make, in TOML.
///
/// # Errors
///
/// An answer is not one of the form, or its text cannot be read.
pub(super) fn plan(answers: &Answers) -> Result<String, String> {
    let mut file = PlanFile::default();
    let (mut systems, mut medium, mut more, mut workload) = (Vec::new(), "", "", "");
    let mut parameters = String::new();
    for (name, value) in answers {
        let (name, value) = (name.as_str(), value.trim());
        match name {
            FILE_SYSTEM => systems.push(value),
            MEDIUM => medium = value,
            TARGETS => more = value,
            WORKLOAD => workload = value,
            _ if name == SUITE || setting::find(name).is_some_and(Setting::is_offered) => {
                let read = file.settings.read(name, value);
                read.map_err(|why| format!("{name}: {why}"))?;
            }
            _ => match (name.strip_prefix(CONTROL), name.strip_prefix(PARAMETER)) {
                (Some(control), _) => {
                    drop(file.controls.insert(control.to_owned(), value.to_owned()))
                }
                (_, Some(parameter)) => parameters += &format!(",{parameter}={value}"),
                _ => return Err(format!("the form has no field {name}")),
            },
        }
    }
    let medium = if medium.is_empty() {
        String::new()
    } else {
        format!("@{medium}")
    };
    // The null file system has no medium.
    let on_medium = |name: &&str| match fs::find(name).is_ok_and(|fs| fs.home() == fs::Home::Device)
    {
        true => format!("{name}{medium}"),
        false => (*name).to_owned(),
    };
    let more = shlex::split(more).ok_or("targets: a quote is not closed")?;
    let targets = systems.iter().map(on_medium).chain(more);
    file.targets = targets.map(|target| typed(&target)).collect();
    if !workload.is_empty() {
        file.settings.unset(SUITE);
        file.workloads =
            workloads(&[format!("{workload}{parameters}")]).map_err(|error| error.to_string())?;
    } else if !parameters.is_empty() {
        return Err("choose the workload that the parameters are for".to_owned());
    }
    plan_file::write(&file).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(pairs: &[(&str, &str)]) -> Answers {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn every_field_of_the_form_sets_something_in_the_plan() {
        let chosen = answers(&[(WORKLOAD, "read")]);
        let permitted = Permitted {
            wipe: vec!["/dev/sdx".into()],
            ..Permitted::default()
        };
        let mut fields = 0;
        for field in sections(&permitted, &chosen)
            .into_iter()
            .flat_map(|section| section.fields)
        {
            let value = match &field.kind {
                FieldKind::Several(values) | FieldKind::One(values) => {
                    values.last().unwrap().clone()
                }
                FieldKind::Flag => "true".to_owned(),
                FieldKind::Text(_) => match field.name.as_str() {
                    TARGETS => "other=null",
                    "blocks" | "seed" => "7",
                    "like_disk" => "1T",
                    _ => "5",
                }
                .to_owned(),
            };
            // A medium has no effect without a file system, and a workload replaces a suite.
            let mut given = match field.name.as_str() {
                MEDIUM => answers(&[(FILE_SYSTEM, "ext4")]),
                SUITE => Answers::new(),
                _ => chosen.clone(),
            };
            let before = plan(&given).unwrap();
            given.push((field.name.clone(), value.clone()));
            let after = plan(&given).unwrap_or_else(|why| panic!("{}={value}: {why}", field.name));
            assert!(
                after != before || field.name == WORKLOAD,
                "{}={value}: {before}",
                field.name
            );
            fields += 1;
        }
        assert!(fields > 30, "{fields}");
    }

    #[test]
    fn the_form_describes_permitted_disks_and_names_the_others() {
        let usable = [("/dev/sdx", "1 TiB, Old"), ("/dev/sdy", "2 TiB, New")];
        let usable = usable.map(|(path, facts)| (PathBuf::from(path), facts.to_owned()));
        let about = about_media(&["/dev/sdx".into()], Some(&usable));
        assert!(about.contains("/dev/sdx: 1 TiB, Old."), "{about}");
        assert!(
            about.contains("starts with --wipe /dev/sdy (2 TiB, New);"),
            "{about}"
        );
        assert!(!about_media(&[], Some(&[])).contains("Other disks"));
        let unseen = about_media(&["/dev/sdx".into()], None);
        assert!(
            unseen.contains("Only root sees") && !unseen.contains("Other disks"),
            "{unseen}"
        );
    }

    #[test]
    fn answers_that_no_field_gives_are_refused() {
        let all: [(&[(&str, &str)], &str); 7] = [
            (&[("dir", "/etc")], "no field dir"),
            (&[("risky", "yes")], "risky: 'yes'"),
            (&[("blocks", "many")], "blocks: not a whole number"),
            (&[("size", "2GB")], "size: "),
            (&[("scale", "1/8")], "no field scale"),
            (&[("targets", "\"ext4")], "a quote is not closed"),
            (&[("p.files", "7")], "choose the workload"),
        ];
        for (wrong, expected) in all {
            let why = plan(&answers(wrong)).unwrap_err();
            assert!(why.contains(expected), "{wrong:?}: {why}");
        }
    }
}
