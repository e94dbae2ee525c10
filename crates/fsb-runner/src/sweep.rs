//! Expands a workload with lists of sizes into one workload per combination.
//!
//! `file_size` and `block_size` may be lists (`["64K", "1M"]`) or ranges of doublings
//! (`"64K..512M"`). Combinations are those that IOzone's automatic mode visits: no record is larger
//! than its file, and files of 32 MiB and more get no records below 64 KiB unless `every_record`
//! asks for them. `threads` and `depth` may be lists of numbers too, `[1, 4, 16]`, or ranges of
//! doublings: `"1..4*cpus"`. So may `rate`: `"1000..32000/s"`. In sizes and numbers, the word
//! `memory` is the machine's memory in bytes, and `cpus` the number of its processors.

use fsb_engine::workload::REGISTRY;
use fsb_engine::workload::parameter::ParameterKind;
use fsb_model::{Params, WorkloadSpec, expression};
use serde_json::Value;

/// Files from this size on get no small records, as in IOzone.
const LARGE_FILE: u64 = 32 << 20;
/// Records below this are small.
const SMALL_RECORD: u64 = 64 << 10;
/// More combinations of one workload are refused.
const MOST: usize = 10_000;
/// The longest list.
const LONGEST: usize = 1000;

const FILE: &str = "file_size";
const RECORD: &str = "block_size";
const THREADS: &str = "threads";
const DEPTH: &str = "depth";
const RATE: &str = "rate";
/// Parameters that are counts, in the order in which they are swept.
const COUNTS: [&str; 3] = [THREADS, DEPTH, RATE];
const CPUS: &str = "cpus";
const EVERY: &str = "every_record";
const MEMORY: &str = "memory";

/// The error of an invalid sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepError {
    /// The parameter at fault.
    pub key: &'static str,
    /// The error.
    pub message: String,
}

/// The values that sizes may refer to.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// Bytes of the image.
    pub size: u64,
    /// Bytes of memory that the machine has.
    pub memory: u64,
    /// The processors of the machine.
    pub cpus: u32,
}

/// Returns all combinations, in the order of threads, depths, files, records; the workload itself
/// if nothing is swept.
pub fn expand(spec: &WorkloadSpec, scope: Scope) -> Result<Vec<WorkloadSpec>, SweepError> {
    check_lists(spec)?;
    let mut all = vec![spec.clone()];
    for key in COUNTS {
        let Some(counts) = counts(&spec.params, key, scope)? else {
            continue;
        };
        let with = |one: &WorkloadSpec, count: &Value| {
            let mut one = one.clone();
            one.params.insert(key.to_owned(), count.clone());
            one
        };
        all = all
            .iter()
            .flat_map(|one| counts.iter().map(move |count| with(one, count)))
            .collect();
    }
    let each: Vec<Vec<WorkloadSpec>> = all
        .iter()
        .map(|one| expand_sizes(one, scope))
        .collect::<Result<_, SweepError>>()?;
    Ok(each.into_iter().flatten().collect())
}

/// Refuses lists and ranges of parameters that accept one value only.
fn check_lists(spec: &WorkloadSpec) -> Result<(), SweepError> {
    let Some(workload) = REGISTRY
        .iter()
        .find(|workload| workload.name() == spec.name)
    else {
        return Ok(());
    };
    let table = workload.parameters();
    for key in [FILE, RECORD].into_iter().chain(COUNTS) {
        let listed = match spec.params.get(key) {
            Some(Value::Array(_)) => true,
            Some(Value::String(text)) => text.contains(".."),
            _ => false,
        };
        if listed
            && table
                .iter()
                .any(|parameter| parameter.name == key && !parameter.sweeps)
        {
            return Err(wrong(
                key,
                format!(
                    "{key}: {} accepts one value, not a list or a range",
                    spec.name
                ),
            ));
        }
    }
    Ok(())
}

/// Returns the counts that a parameter lists, or `None` if it is one count or missing.
fn counts(
    params: &Params,
    key: &'static str,
    scope: Scope,
) -> Result<Option<Vec<Value>>, SweepError> {
    let counts: Vec<Value> = match params.get(key) {
        Some(Value::Array(counts)) => counts.clone(),
        Some(Value::String(text)) if text.contains("..") => {
            let text = text.trim().strip_suffix("/s").unwrap_or(text);
            range(text, key, scope)?
                .into_iter()
                .flatten()
                .map(Value::from)
                .collect()
        }
        _ => return Ok(None),
    };
    match counts.len() {
        1..=LONGEST => Ok(Some(counts)),
        wrong_number => Err(wrong(
            key,
            format!("{wrong_number} numbers: a list has from 1 to {LONGEST}"),
        )),
    }
}

fn expand_sizes(spec: &WorkloadSpec, scope: Scope) -> Result<Vec<WorkloadSpec>, SweepError> {
    let (files, records) = (
        sizes(&spec.params, FILE, scope)?,
        sizes(&spec.params, RECORD, scope)?,
    );
    if !files.swept && !records.swept {
        return Ok(vec![of_machine(spec, scope)]);
    }
    let every = match spec.params.get(EVERY) {
        None => false,
        Some(Value::Bool(every)) => *every,
        Some(other) => return Err(wrong(EVERY, format!("{other} is not true or false"))),
    };
    let fits = |file: Option<u64>, record: Option<u64>| match (file, record) {
        (Some(file), Some(record)) => {
            record <= file && (every || file < LARGE_FILE || record >= SMALL_RECORD)
        }
        _ => true,
    };
    let mut all = Vec::new();
    for &file in &files.values {
        all.extend(
            records
                .values
                .iter()
                .filter(|record| fits(file, **record))
                .map(|record| (file, *record)),
        );
    }
    match all.len() {
        0 => Err(wrong(
            RECORD,
            "no record fits any of the files: none is as small as one of them, or is large enough"
                .into(),
        )),
        count if count > MOST => Err(wrong(
            FILE,
            format!("{count} combinations are too many: at most {MOST}"),
        )),
        _ => Ok(all
            .into_iter()
            .map(|(file, record)| one(spec, file, record))
            .collect()),
    }
}

/// Returns one combination.
fn one(spec: &WorkloadSpec, file: Option<u64>, record: Option<u64>) -> WorkloadSpec {
    let mut params = spec.params.clone();
    params.remove(EVERY);
    params.insert("matrix".to_owned(), true.into());
    for (key, size) in [(FILE, file), (RECORD, record)] {
        if let Some(size) = size {
            params.insert(key.to_owned(), size.into());
        }
    }
    WorkloadSpec {
        params,
        ..spec.clone()
    }
}

/// The sizes that a parameter names; a single `None` if it is missing.
struct Sizes {
    values: Vec<Option<u64>>,
    swept: bool,
}

fn sizes(params: &Params, key: &'static str, scope: Scope) -> Result<Sizes, SweepError> {
    let size = |value: &Value| match value {
        Value::String(text) => evaluate(text, scope).map_err(|message| wrong(key, message)),
        value => value
            .as_u64()
            .ok_or_else(|| wrong(key, format!("{value} is not a size"))),
    };
    let (values, swept) = match params.get(key) {
        None => (vec![None], false),
        Some(Value::Array(list)) => (
            list.iter()
                .map(|value| size(value).map(Some))
                .collect::<Result<_, _>>()?,
            true,
        ),
        Some(Value::String(text)) if text.contains("..") => (range(text, key, scope)?, true),
        // The workload itself reports the error of a single value.
        Some(value) => (vec![size(value).ok()], false),
    };
    match values.len() {
        0 => Err(wrong(key, "the list is empty".to_owned())),
        count if count > LONGEST => Err(wrong(
            key,
            format!("{count} sizes are too many: at most {LONGEST}"),
        )),
        _ => Ok(Sizes { values, swept }),
    }
}

/// Returns the sizes of a range such as `64K..512M`: the first, and its doublings up to the last.
fn range(text: &str, key: &'static str, scope: Scope) -> Result<Vec<Option<u64>>, SweepError> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let [from, to] = [from, to].map(|end| evaluate(end, scope));
    let (from, to) = from
        .and_then(|from| Ok((from, to?)))
        .map_err(|message| wrong(key, message))?;
    if from == 0 || from > to {
        return Err(wrong(
            key,
            format!("'{text}' is not a range: write the smaller size first, such as 64K..512M"),
        ));
    }
    let doublings = std::iter::successors(Some(from), |size| size.checked_mul(2));
    Ok(doublings.take_while(|size| *size <= to).map(Some).collect())
}

fn evaluate(text: &str, scope: Scope) -> Result<u64, String> {
    expression::evaluate(&numbers(text, scope), scope.size).map_err(|error| error.to_string())
}

/// Replaces the words that name properties of the machine by their numbers.
fn numbers(text: &str, scope: Scope) -> String {
    text.replace(MEMORY, &scope.memory.to_string())
        .replace(CPUS, &scope.cpus.to_string())
}

/// Replaces these words in all sizes and numbers of a workload.
fn of_machine(spec: &WorkloadSpec, scope: Scope) -> WorkloadSpec {
    let workload = REGISTRY
        .iter()
        .find(|workload| workload.name() == spec.name);
    let table = workload.map_or_else(Vec::new, |workload| workload.parameters());
    let mut spec = spec.clone();
    for parameter in table {
        let Some(Value::String(text)) = spec.params.get_mut(parameter.name) else {
            continue;
        };
        let is_number = matches!(
            parameter.kind,
            ParameterKind::Size(_) | ParameterKind::Number(_)
        );
        if is_number && evaluate(text, scope).is_ok() {
            *text = numbers(text, scope);
        }
    }
    spec
}

fn wrong(key: &'static str, message: String) -> SweepError {
    SweepError {
        key,
        message: format!("{key}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    const SCOPE: Scope = Scope {
        size: 2 << 30,
        memory: 3 << 30,
        cpus: 2,
    };

    fn spec(params: Value) -> WorkloadSpec {
        WorkloadSpec::new("write", serde_json::from_value(params).unwrap())
    }

    fn pairs(params: Value) -> Vec<(u64, u64)> {
        let size = |spec: &WorkloadSpec, key: &str| spec.params[key].as_u64().unwrap();
        expand(&spec(params), SCOPE)
            .unwrap()
            .iter()
            .map(|one| (size(one, FILE), size(one, RECORD)))
            .collect()
    }

    /// The first two columns of a table that IOzone 3.327 printed: `-a -n 4k -g 4096m`.
    #[test]
    fn combinations_are_those_that_iozone_visits() {
        let table = include_str!("../testdata/iozone-2010/xfs/xfs1.iozone");
        let row = |line: &str| {
            line.split_whitespace()
                .map(|word| word.parse().ok())
                .collect::<Option<Vec<u64>>>()
        };
        let rows = table.lines().filter_map(row).filter(|row| row.len() > 10);
        let visited: Vec<(u64, u64)> = rows.map(|row| (row[0] << 10, row[1] << 10)).collect();
        assert_eq!(visited.len(), 163);
        assert_eq!(
            pairs(json!({"file_size": "4K..4G", "block_size": "4K..16M"})),
            visited
        );
    }

    #[test]
    fn every_record_means_every_record() {
        let all = pairs(
            json!({"file_size": ["32M", "64M"], "block_size": "4K..16M", "every_record": true}),
        );
        assert_eq!(all.len(), 26);
        assert_eq!(
            pairs(json!({"file_size": ["32M", "64M"], "block_size": "4K..16M"})).len(),
            18
        );
    }

    #[test]
    fn threads_may_be_a_list() {
        let all = expand(
            &spec(json!({"threads": [1, 4], "file_size": ["1M", "2M"]})),
            SCOPE,
        )
        .unwrap();
        let found: Vec<_> = all
            .iter()
            .map(|one| (one.params[THREADS].as_u64(), one.params[FILE].as_u64()))
            .collect();
        let (small, large) = (Some(1 << 20), Some(2 << 20));
        assert_eq!(
            found,
            [
                (Some(1), small),
                (Some(1), large),
                (Some(4), small),
                (Some(4), large)
            ]
        );
        assert_eq!(
            expand(&spec(json!({"threads": []})), SCOPE)
                .unwrap_err()
                .key,
            THREADS
        );
        assert_eq!(
            expand(&spec(json!({"threads": [2]})), SCOPE).unwrap(),
            [spec(json!({"threads": 2}))]
        );
    }

    #[test]
    fn counts_may_be_doublings_up_to_a_multiple_of_the_processors() {
        let found = |params: Value| -> Vec<(u64, u64)> {
            let all = expand(&spec(params), SCOPE).unwrap();
            all.iter()
                .map(|one| {
                    (
                        one.params[THREADS].as_u64().unwrap(),
                        one.params[DEPTH].as_u64().unwrap(),
                    )
                })
                .collect()
        };
        assert_eq!(
            found(json!({"threads": "1..4*cpus", "depth": 1})),
            [(1, 1), (2, 1), (4, 1), (8, 1)]
        );
        assert_eq!(
            found(json!({"threads": [1, 2], "depth": "1..4"})),
            [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4)]
        );
        assert_eq!(
            expand(&spec(json!({"depth": "8..1"})), SCOPE)
                .unwrap_err()
                .key,
            DEPTH
        );
        let rates = expand(&spec(json!({"rate": "1000..5000/s"})), SCOPE).unwrap();
        let rates: Vec<_> = rates
            .iter()
            .map(|one| one.params[RATE].as_u64().unwrap())
            .collect();
        assert_eq!(rates, [1000, 2000, 4000]);
    }

    #[test]
    fn lists_hold_numbers_and_expressions_and_one_size_goes_with_all() {
        let found = pairs(json!({"file_size": [65_536, "size/1024"], "block_size": "64K"}));
        assert_eq!(found, [(65_536, 65_536), (2 << 20, 65_536)]);
        assert_eq!(
            pairs(json!({"file_size": ["4K", "1M"], "block_size": "64K"})),
            [(1 << 20, 65_536)]
        );
    }

    #[test]
    fn a_sweep_changes_only_its_parameters_and_the_memory() {
        let plain = spec(json!({"file_size": "size/8", "label": "of memory"}));
        assert_eq!(expand(&plain, SCOPE).unwrap(), [plain]);
        let named = spec(json!({"label": "memory", "files": "2*cpus"}));
        assert_eq!(
            expand(&named, SCOPE).unwrap(),
            [spec(json!({"label": "memory", "files": "2*2"}))]
        );
        let scaled = spec(json!({"file_size": "min(4G, memory*4/3)"}));
        let text = &expand(&scaled, SCOPE).unwrap()[0].params[FILE];
        assert_eq!(expression::evaluate(text.as_str().unwrap(), 0), Ok(4 << 30));
    }

    #[test]
    fn a_list_for_a_parameter_of_one_value_is_refused_with_its_key() {
        for value in [json!(["1K", "2K"]), json!("1K..4K")] {
            let mut create = spec(json!({ "file_size": value }));
            create.name = "create".to_owned();
            let error = expand(&create, SCOPE).unwrap_err();
            assert_eq!(error.key, FILE);
            assert!(
                error.message.contains("create accepts one value"),
                "{}",
                error.message
            );
        }
    }

    #[test]
    fn senseless_sweeps_are_refused_with_their_key() {
        for (params, key, message) in [
            (json!({"file_size": []}), FILE, "the list is empty"),
            (
                json!({"file_size": "1M..64K"}),
                FILE,
                "write the smaller size first",
            ),
            (json!({"file_size": "0..64K"}), FILE, "not a range"),
            (json!({"file_size": "64K..x"}), FILE, "'x' is not a size"),
            (
                json!({"file_size": ["64K", true]}),
                FILE,
                "true is not a size",
            ),
            (
                json!({"file_size": ["4K"], "block_size": ["8K"]}),
                RECORD,
                "no record fits",
            ),
            (
                json!({"file_size": ["4K"], "every_record": 1}),
                EVERY,
                "1 is not true or false",
            ),
        ] {
            let error = expand(&spec(params.clone()), SCOPE).unwrap_err();
            assert_eq!(error.key, key, "{params}");
            assert!(
                error.message.contains(message),
                "{params}: {}",
                error.message
            );
        }
    }

    #[test]
    fn combinations_are_told_apart_by_their_sizes_alone() {
        let all = expand(
            &spec(json!({"file_size": "64K..1M", "block_size": "4K..1M", "close": true})),
            SCOPE,
        )
        .unwrap();
        let shared = |one: &WorkloadSpec| {
            let rest = one
                .params
                .iter()
                .filter(|(key, _)| ![FILE, RECORD].contains(&key.as_str()));
            format!("{:?}", rest.collect::<Vec<_>>())
        };
        assert_eq!(all.iter().map(shared).collect::<BTreeSet<_>>().len(), 1);
        assert!(
            all.iter()
                .all(|one| one.params["matrix"] == true && !one.params.contains_key(EVERY))
        );
    }
}
