//! A target as plans write it: its text, or a table where it differs from the others in a control.
//!
//! `targets = ["ext4", { target = "bare=ext4", controls = { barriers = "off" } }]`. A target that
//! not every machine can make is `{ target = "ext4@raid0:loop+loop", optional = true }`: if it
//! cannot be made, the others are still measured. In a plan of several kernels, a table may also
//! name the kernel of the target by its release. `variant = "/srv/old"` is the text that replaces
//! `{}` in the commands on that target.

use std::collections::BTreeMap;
use std::fmt;

use fsb_model::target::TargetError;
use fsb_model::{Target, TargetKind};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A target as written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetFile {
    /// The text, as on the command line.
    pub text: String,
    /// Controls in which it differs from the run.
    pub controls: BTreeMap<String, String>,
    /// Release of its kernel; all kernels of the plan if absent.
    pub kernel: Option<String>,
    /// The text that replaces `{}` in commands on it.
    pub variant: Option<String>,
    /// Whether the run leaves the target out if this machine cannot make it.
    pub optional: bool,
}

/// The table form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    target: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    controls: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    variant: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    optional: bool,
}

impl From<String> for TargetFile {
    fn from(text: String) -> Self {
        TargetFile {
            text,
            ..TargetFile::default()
        }
    }
}

impl TargetFile {
    /// Returns the form that resolves to `target` again.
    pub fn from_target(target: &Target) -> TargetFile {
        let body = match &target.kind {
            TargetKind::FileSystem(spec) => spec.to_string(),
            TargetKind::Directory(path) => path.display().to_string(),
        };
        let unnamed = TargetFile {
            text: body,
            controls: target.controls.clone(),
            kernel: target.kernel.clone(),
            variant: target.variant.clone(),
            optional: target.optional,
        };
        let is_named_so = unnamed
            .resolve()
            .is_ok_and(|again| again.name == target.name);
        if is_named_so {
            unnamed
        } else {
            TargetFile {
                text: target.to_string(),
                ..unnamed
            }
        }
    }

    /// Returns the target.
    pub fn resolve(&self) -> Result<Target, TargetError> {
        let target: Target = self.text.parse()?;
        // A default name is the text itself, which would not distinguish this target from the
        // others.
        let name = if target.name == self.text {
            self.full_name()
        } else {
            target.name
        };
        Ok(Target {
            name,
            controls: self.controls.clone(),
            kernel: self.kernel.clone(),
            variant: self.variant.clone(),
            optional: self.optional,
            kind: target.kind,
        })
    }

    /// Returns the text with the controls, the variant and the kernel, in characters that a name
    /// may contain: `ext4 barriers off`.
    fn full_name(&self) -> String {
        let controls = self
            .controls
            .iter()
            .map(|(name, value)| format!(" {name} {value}"));
        let variant = self.variant.iter().map(|text| format!(" {text}"));
        let differences = controls
            .chain(variant)
            .collect::<String>()
            .chars()
            .map(|c: char| {
                if c.is_alphanumeric() || "-_.% ".contains(c) {
                    c
                } else {
                    '-'
                }
            })
            .collect::<String>();
        let kernel = self
            .kernel
            .as_ref()
            .map(|release| format!("%{release}"))
            .unwrap_or_default();
        self.text.clone() + &differences + &kernel
    }
}

impl Serialize for TargetFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_text = self.controls.is_empty() && self.kernel.is_none() && self.variant.is_none();
        if is_text && !self.optional {
            return serializer.serialize_str(&self.text);
        }
        let TargetFile {
            text,
            controls,
            kernel,
            variant,
            optional,
        } = self.clone();
        Table {
            target: text,
            controls,
            kernel,
            variant,
            optional,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TargetFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EitherForm)
    }
}

/// Distinguishes the two forms by the type of the value, so that errors keep their place in the
/// file.
struct EitherForm;

impl<'de> Visitor<'de> for EitherForm {
    type Value = TargetFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a target such as \"ext4\", or { target = \"ext4\", controls = { NAME = \"VALUE\" } }",
        )
    }

    fn visit_str<E>(self, text: &str) -> Result<TargetFile, E> {
        Ok(text.to_owned().into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TargetFile, A::Error> {
        let Table {
            target,
            controls,
            kernel,
            variant,
            optional,
        } = Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(TargetFile {
            text: target,
            controls,
            kernel,
            variant,
            optional,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::plan_file;

    const PLAN: &str = r#"
targets = ["ext4", { target = "bare=ext4", controls = { barriers = "off" } },
    { target = "ext4,noatime", controls = { cpus = "0,2", barriers = "off" } },
    { target = "striped=ext4@raid0:loop+loop", optional = true }]
[controls]
guest-memory = "off"
"#;

    #[test]
    fn a_target_may_differ_in_a_control() {
        let plan = plan_file::parse(PLAN, "plan.toml").unwrap();
        let resolved = plan.resolve(1, 7).unwrap().plan;
        assert!(resolved.targets[0].controls.is_empty());
        assert_eq!(resolved.targets[1].name, "bare");
        assert_eq!(
            resolved.targets[2].name,
            "ext4,noatime barriers off cpus 0-2"
        );
        let optional: Vec<bool> = resolved
            .targets
            .iter()
            .map(|target| target.optional)
            .collect();
        assert_eq!(optional, [false, false, false, true]);
        let over = resolved.targets[1].controls_over(&resolved.controls);
        assert_eq!(
            over,
            [("barriers", "off"), ("guest-memory", "off")]
                .map(|(a, b)| (a.into(), b.into()))
                .into()
        );
        let printed = plan_file::print(&resolved).unwrap();
        let again = plan_file::parse(&printed, "printed")
            .unwrap()
            .resolve(1, 7)
            .unwrap()
            .plan;
        assert_eq!(again, resolved, "{printed}");
    }

    #[test]
    fn targets_that_nobody_named_are_printed_so_that_they_are_the_same() {
        let text = "targets = ['ext4,noatime', 'ext4,noatime', 'ext4@loop', 'ext4@loop']";
        let resolved = plan_file::parse(text, "plan.toml")
            .unwrap()
            .resolve(1, 7)
            .unwrap();
        let names: Vec<&str> = resolved
            .plan
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["ext4,noatime", "ext4,noatime#2", "ext4@loop", "ext4@loop#2"]
        );
        let printed = plan_file::print(&resolved.plan).unwrap();
        let again = plan_file::parse(&printed, "printed")
            .unwrap()
            .resolve(1, 7)
            .unwrap();
        assert_eq!(
            (again.plan, again.work.cells()),
            (resolved.plan, resolved.work.cells()),
            "{printed}"
        );
    }

    #[test]
    fn slips_are_shown_where_they_stand() {
        for (wrong, word) in [
            ("{ targt = \"ext4\" }", "targt"),
            ("{ controls = {} }", "target"),
            ("7", "a target such"),
        ] {
            let text = format!("name = \"x\"\ntargets = [{wrong}]\n");
            let error = plan_file::parse(&text, "plan.toml")
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("plan.toml, line 2") && error.contains(word),
                "{error}"
            );
        }
        let error = plan_file::parse("targets = [{ target = \"ext4,\" }]", "p")
            .unwrap()
            .resolve(1, 1)
            .unwrap_err();
        assert!(
            error.to_string().starts_with("p, line 1, column 12"),
            "{error}"
        );
    }
}
