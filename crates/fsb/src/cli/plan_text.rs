//! Parses plans and workloads that the command line names.

use std::path::Path;
use std::process::{Command, Stdio};

use fsb_engine::workload::recordings;
use fsb_model::error::TOOL_MISSING;
use fsb_model::workload::DIRECTORY;
use fsb_model::{Background, Params, WorkloadSpec, code, failure, nearest, notice};
use fsb_runner::plan_file::{self, Need, Needed, PlanFile};
use fsb_runner::shipped_plan;
use fsb_store::input::LARGEST_SCRIPT;
use serde_json::Value;

use crate::message::notify;

/// Parses a workload of an option such as `--workload`: `KIND[,PARAM=VALUE…]`, for example
/// `read,access=random,block_size=[4K,64K]`.
fn workload(option: &str, text: &str) -> anyhow::Result<WorkloadSpec> {
    let mut parts = outside_brackets(text);
    let name = parts.next().unwrap_or_default();
    let mut params = Params::new();
    for part in parts {
        let pair = part
            .split_once('=')
            .map(|(key, value)| (key.trim(), value.trim()));
        let Some((key, value)) = pair.filter(|(key, value)| !key.is_empty() && !value.is_empty())
        else {
            return Err(failure::advised(
                &code::INVALID_VALUE,
                format!("{option} {text}: '{part}' is not PARAM=VALUE"),
                format!("'fsb list workloads {name}' lists its parameters"),
            ));
        };
        let list = value
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'));
        let value = list.map_or_else(
            || scalar(value),
            |inner| inner.split(',').map(|item| scalar(item.trim())).collect(),
        );
        if params.insert(key.to_owned(), value).is_some() {
            let message = format!("{option} {text}: '{key}' is given twice");
            return Err(failure::error(&code::INVALID_VALUE, message));
        }
    }
    Ok(WorkloadSpec::new(name, params))
}

/// Parses a number, a boolean or a table as a plan does; returns anything else as text.
fn scalar(text: &str) -> Value {
    if text.starts_with('{')
        && let Ok(table) = toml::from_str::<Params>(&format!("value = {text}"))
    {
        // A value with a line break could hold further keys.
        return if table.len() == 1 {
            table.into_values().next().unwrap_or_default()
        } else {
            Value::from(text)
        };
    }
    serde_json::from_str(text)
        .ok()
        .filter(|value: &Value| value.is_number() || value.is_boolean())
        .unwrap_or_else(|| Value::from(text))
}

/// Returns the parts between commas that are not in a list or a table, trimmed. A list or a table
/// begins with a bracket or a brace at the beginning of a value.
fn outside_brackets(text: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut before, mut is_quoted) = (0_usize, ' ', false);
    let parts = text.split(move |c: char| {
        is_quoted ^= c == '"' && depth > 0;
        match c {
            '[' | '{' if depth > 0 && !is_quoted || before == '=' => depth += 1,
            ']' | '}' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c != ' ' {
            before = c;
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim)
}

/// Parses the workloads of all `--workload` options.
pub fn workloads(texts: &[String]) -> anyhow::Result<Vec<WorkloadSpec>> {
    texts
        .iter()
        .map(|text| workload("--workload", text))
        .collect()
}

/// Parses the workload of `--background`.
pub fn background(text: &str) -> anyhow::Result<Background> {
    Background::try_from(workload("--background", text)?)
        .map_err(|why| anyhow::anyhow!("--background: {why}"))
}

/// Returns whether an argument names a plan.
pub fn is_plan(text: &str) -> bool {
    text.ends_with(".toml")
}

/// Reads the plan in a file, or the shipped plan of that name.
pub fn read_plan(path: &Path) -> anyhow::Result<PlanFile> {
    let name = path.display().to_string();
    let (text, is_shipped) = plan_text(path)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    parsed(&text, &name, &stem, is_shipped)
}

/// Refuses commands that would run in an existing directory as the user who starts fsb, and not
/// confined. The programs of a plan may be hostile.
pub fn check_confined(file: &PlanFile) -> anyhow::Result<()> {
    let is_free = |workload: &WorkloadSpec| workload.params.contains_key(DIRECTORY);
    if !file.workloads.iter().any(is_free) {
        return Ok(());
    }
    Err(failure::advised(
        &code::CONFLICT,
        "the plan has a 'directory': its commands would run there as your user, not confined",
        "read the plan, and allow that with fsb run PLAN.toml --here",
    ))
}

/// Reads the shipped plan of a preset.
pub fn read_preset(name: &str) -> anyhow::Result<PlanFile> {
    let Some(plan) = shipped_plan::preset(name) else {
        let names = shipped_plan::presets().map(|plan| plan.preset());
        let wanted = format!("recording:{}", name.trim_start_matches("recording:"));
        let start = format!("{wanted}-");
        let known = recordings();
        let recorded = known
            .iter()
            .find(|known| **known == wanted)
            .or_else(|| known.iter().find(|known| known.starts_with(&start)));
        let advice = match (recorded, nearest::nearest(name, names)) {
            (Some(recorded), _) => format!("a recording has that name: --trace {recorded}"),
            (None, Some(near)) => format!("did you mean '{near}'?"),
            (None, None) => "'fsb list presets' lists them".to_owned(),
        };
        let message = format!("--preset {name}: no such preset");
        return Err(failure::advised(&code::INVALID_VALUE, message, advice));
    };
    parsed(plan.text, plan.name, plan.preset(), true)
}

fn parsed(text: &str, origin: &str, name: &str, is_shipped: bool) -> anyhow::Result<PlanFile> {
    let mut plan = plan_file::parse(text, origin)?;
    if !plan.settings.has("name") {
        plan.settings = plan.settings.with_text("name", name);
    }
    for (place, needed) in plan.needed.iter().enumerate() {
        // Several workloads of a plan need the same program.
        if !plan.needed[..place].contains(needed) {
            check_need(needed, is_shipped)?;
        }
    }
    Ok(plan)
}

/// Says what takes the place of a program that is not installed, and whether an installed one has
/// another version than the recorded one. Refuses a workload whose program is missing and has no
/// replacement.
fn check_need(
    Needed {
        need,
        missing,
        otherwise,
    }: &Needed,
    is_shipped: bool,
) -> anyhow::Result<()> {
    let package = &need.package;
    let Some(program) = missing else {
        if is_shipped {
            tell_version(need);
        }
        return Ok(());
    };
    let advice = format!("install it: apt-get install {package}");
    let Some(otherwise) = otherwise else {
        let message = format!("{program}, which a workload needs, is not installed");
        return Err(failure::advised(&TOOL_MISSING, message, advice));
    };
    let text = format!(
        "note: {program} is not installed, so its {otherwise} is measured; to measure the program, {advice}"
    );
    let fields = [
        ("program", program.as_str().into()),
        ("package", package.as_str().into()),
    ];
    notify(&notice::PROGRAM_MISSING, fields, &text);
    Ok(())
}

/// Compares the version of an installed program with the one that `docs/programs.md` describes.
fn tell_version(need: &Need) {
    let (Some(recorded), [program, arguments @ ..]) = (&need.recorded, &need.version[..]) else {
        return;
    };
    let Ok(output) = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
    else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || has_version(&said, recorded) {
        return;
    }
    let found = said.lines().next().unwrap_or_default().trim();
    let text = format!(
        "note: this is {found}; {program} {recorded} is the version in 'What programs ask'"
    );
    let fields = [
        ("program", program.as_str().into()),
        ("recorded", recorded.as_str().into()),
    ];
    notify(&notice::PROGRAM_VERSION, fields, &text);
}

/// Returns whether a text has the version as a word of its own.
fn has_version(text: &str, version: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .any(|word| word.trim_start_matches('v') == version)
}

/// Returns the content of the file, or of the plan of that name that is shipped with the program,
/// and whether it is shipped.
fn plan_text(path: &Path) -> anyhow::Result<(String, bool)> {
    let error = match fsb_store::input::read_text(path, LARGEST_SCRIPT) {
        Ok(text) => return Ok((text, false)),
        Err(error) => error,
    };
    let name = path.to_string_lossy();
    if error.kind() != std::io::ErrorKind::NotFound {
        return Err(failure::failed_call(
            &code::PLAN_UNREADABLE,
            &error,
            format!("cannot read the plan {name}: {error}"),
        ));
    }
    if let Some(plan) = shipped_plan::find(&name) {
        return Ok((plan.text.to_owned(), true));
    }
    let advice = match nearest::nearest(&name, shipped_plan::REGISTRY.iter().map(|plan| plan.name))
    {
        Some(near) => format!("did you mean '{near}'?"),
        None => "'fsb list plans' lists the shipped plans".to_owned(),
    };
    Err(failure::failed_call(
        &code::PLAN_UNREADABLE,
        &error,
        format!("cannot read the plan {name}: {error}; {advice}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_word_of_what_a_program_prints() {
        assert!(has_version("3.40.1 2022-12-28 14:03:47", "3.40.1"));
        assert!(has_version("etcd Version: 3.4.23\nGit SHA: x", "3.4.23"));
        assert!(has_version(
            "Redis server v=7.0.15 sha=00000000:0",
            "7.0.15"
        ));
        assert!(has_version("git version 2.39.5 (v2.39.5)", "2.39.5"));
        assert!(!has_version("3.40.12", "3.40.1") && !has_version("13.40.1", "3.40.1"));
    }

    #[test]
    fn lists_and_tables_may_hold_commas() {
        let workload = |text: &str| workload("--workload", text);
        let read = workload(
            r#"read,data={compressible="60%", duplicate="10%"},block_size=[4K, 64K],threads=2"#,
        )
        .unwrap();
        let expected = serde_json::json!({
            "data": { "compressible": "60%", "duplicate": "10%" }, "block_size": ["4K", "64K"], "threads": 2,
        });
        assert_eq!(
            (
                read.name.as_str(),
                serde_json::to_value(&read.params).unwrap()
            ),
            ("read", expected)
        );
        let read = workload("read,label=a{b,threads=2").unwrap();
        assert_eq!(
            (&read.params["label"], &read.params["threads"]),
            (&"a{b".into(), &2.into())
        );
        assert!(workload("read,data={broken").is_ok_and(|read| read.params["data"] == "{broken"));
    }
}
