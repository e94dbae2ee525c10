//! Workloads of a program, and what is measured where the program is missing.
//!
//! `needs` of a workload names the program. `otherwise` is the workload that takes its place on a
//! machine without it, such as a recording of the program. The plan that runs has only one of them.

use fsb_model::WorkloadSpec;
use fsb_testbed::doctor;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The programs that a workload needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// The names of the programs, all of which must be installed.
    pub programs: Vec<String>,
    /// Further directories of programs, with `*` in place of a version.
    #[serde(default)]
    pub places: Vec<String>,
    /// The Debian packages that have the programs.
    pub package: String,
    /// The command that prints the version. Only the plans that are shipped run it.
    #[serde(default)]
    pub version: Vec<String>,
    /// The version that `docs/programs.md` describes.
    pub recorded: Option<String>,
}

impl Need {
    /// Returns the first program that is not installed.
    pub fn missing(&self) -> Option<&str> {
        let is_here = |name: &&String| {
            doctor::has_program(name)
                || self
                    .places
                    .iter()
                    .any(|place| is_below(place, name.as_str()))
        };
        self.programs
            .iter()
            .find(|name| !is_here(name))
            .map(String::as_str)
    }
}

/// Returns whether a directory holds the file. One component of the directory may be `*`.
fn is_below(place: &str, name: &str) -> bool {
    let Some((before, after)) = place.split_once("/*/") else {
        return std::path::Path::new(place).join(name).is_file();
    };
    for version in std::fs::read_dir(before).into_iter().flatten().flatten() {
        if version.path().join(after).join(name).is_file() {
            return true;
        }
    }
    false
}

/// A need, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Needed {
    /// The programs.
    pub need: Need,
    /// The program that is not installed.
    pub missing: Option<String>,
    /// The workload that takes its place: `recording` or `emulation`. `None` if there is none.
    pub otherwise: Option<&'static str>,
}

/// A workload as a plan file writes it.
pub(super) struct WrittenWorkload {
    pub(super) spec: WorkloadSpec,
    pub(super) needed: Option<Needed>,
}

impl<'de> Deserialize<'de> for WrittenWorkload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WrittenWorkload, D::Error> {
        let mut written = Map::deserialize(deserializer)?;
        let need = written.remove("needs");
        let otherwise = written.remove("otherwise");
        let spec: WorkloadSpec = of_value(Value::Object(written))?;
        let Some(need) = need else {
            return match otherwise {
                Some(_) => Err(D::Error::custom(
                    "otherwise without needs: name the program",
                )),
                None => Ok(WrittenWorkload { spec, needed: None }),
            };
        };
        let need: Need = of_value(need)?;
        if need.programs.is_empty() {
            return Err(D::Error::custom("needs: name one program or more"));
        }
        let otherwise: Option<WorkloadSpec> = otherwise.map(of_value).transpose()?;
        let missing = need.missing().map(str::to_owned);
        let needed = Needed {
            need,
            missing,
            otherwise: otherwise.as_ref().map(kind),
        };
        let spec = match otherwise.filter(|_| needed.missing.is_some()) {
            Some(otherwise) => labelled(otherwise, &spec),
            None => spec,
        };
        Ok(WrittenWorkload {
            spec,
            needed: Some(needed),
        })
    }
}

fn of_value<T: for<'a> Deserialize<'a>, E: serde::de::Error>(value: Value) -> Result<T, E> {
    serde_json::from_value(value).map_err(E::custom)
}

/// Returns what takes the place of a program.
fn kind(otherwise: &WorkloadSpec) -> &'static str {
    match otherwise.name.as_str() {
        "replay" => "recording",
        _ => "emulation",
    }
}

/// Returns the workload with the label of the program's workload and its own kind.
fn labelled(mut otherwise: WorkloadSpec, program: &WorkloadSpec) -> WorkloadSpec {
    if let Some(label) = program.params.get("label").and_then(Value::as_str)
        && !otherwise.params.contains_key("label")
    {
        let label = format!("{label}, {}", kind(&otherwise));
        otherwise.params.insert("label".to_owned(), label.into());
    }
    otherwise
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn plan(programs: &str, otherwise: &str) -> String {
        format!(
            "targets = ['null']\n[[workload]]\nname = 'command'\nlabel = 'work'\ncommand = 'true'\n\
             needs = {{ programs = {programs}, package = 'p' }}\n{otherwise}"
        )
    }

    #[test]
    fn a_missing_program_is_replaced_and_an_installed_one_is_measured() {
        let otherwise = "[workload.otherwise]\nname = 'rename'\nfiles = 10\n";
        let here = parse(&plan("['sh']", otherwise), "p").unwrap();
        assert_eq!(here.workloads[0].name, "command");
        assert_eq!(here.needed[0].missing, None);
        let absent = parse(&plan("['sh', 'no-such-program']", otherwise), "p").unwrap();
        assert_eq!(absent.workloads[0].name, "rename");
        assert_eq!(absent.workloads[0].params["label"], "work, emulation");
        assert_eq!(absent.needed[0].missing.as_deref(), Some("no-such-program"));
        let none = parse(&plan("['no-such-program']", ""), "p").unwrap();
        assert_eq!(
            (none.workloads[0].name.as_str(), none.needed[0].otherwise),
            ("command", None)
        );
    }

    #[test]
    fn a_program_may_be_in_a_directory_of_its_version() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("15/bin")).unwrap();
        std::fs::write(root.path().join("15/bin/no-such-initdb"), "").unwrap();
        let need = |place: &str| super::Need {
            programs: vec!["no-such-initdb".to_owned()],
            places: vec![format!("{}/{place}", root.path().display())],
            package: String::new(),
            version: Vec::new(),
            recorded: None,
        };
        assert_eq!(need("*/bin").missing(), None);
        assert_eq!(need("15/bin").missing(), None);
        assert_eq!(need("*/sbin").missing(), Some("no-such-initdb"));
    }

    #[test]
    fn incomplete_needs_are_refused() {
        for (text, words) in [
            (plan("[]", ""), "name one program"),
            ("targets = ['null']\n[[workload]]\nname = 'rename'\notherwise = { name = 'read' }\n".to_owned(), "otherwise without needs"),
            (plan("['sh']", "").replace("package", "packages"), "packages"),
        ] {
            let error = parse(&text, "p").unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
