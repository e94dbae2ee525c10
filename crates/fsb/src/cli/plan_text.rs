//! Parses plans and workloads that the command line names.

use std::path::Path;

use fsb_model::{Background, Params, WorkloadSpec, code, failure, nearest};
use fsb_runner::plan_file::{self, PlanFile};
use fsb_runner::shipped_plan;
use fsb_store::input::LARGEST_SCRIPT;
use serde_json::Value;

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
    let text = plan_text(path)?;
    let mut plan = plan_file::parse(&text, &path.display().to_string())?;
    if let Some(stem) = path.file_stem()
        && !plan.settings.has("name")
    {
        plan.settings = plan.settings.with_text("name", stem.to_string_lossy());
    }
    Ok(plan)
}

/// Returns the content of the file, or of the plan of that name that is shipped with the program.
fn plan_text(path: &Path) -> anyhow::Result<String> {
    let error = match fsb_store::input::read_text(path, LARGEST_SCRIPT) {
        Ok(text) => return Ok(text),
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
        return Ok(plan.text.to_owned());
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
