//! A target: a file system with options on a medium, or a directory.
//!
//! `text` parses and prints the form that users type.

pub(crate) mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use text::TargetError;

/// A target: one column of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Target {
    /// The name that the user gave, or else the whole text. Unique in a plan.
    pub name: String,
    /// A file system or a directory.
    #[serde(flatten)]
    pub kind: TargetKind,
    /// Controls in which it differs from the other targets, by name. The text form does not hold them: only plans do.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub controls: BTreeMap<String, String>,
    /// Release of the kernel that it is measured on, in a plan of several kernels. The text form does not hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Whether the run continues without this target, with a warning, if the machine cannot make it. Only plans set it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// The two kinds of target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A file system that the testbed makes anew.
    FileSystem(FileSystemSpec),
    /// An existing directory, measured as it is.
    Directory(PathBuf),
}

/// A file system as requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileSystemSpec {
    /// Its name in the registry of file systems.
    pub fs: String,
    /// Mount options, each as `mount -o` takes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Arguments for the mkfs program, after the defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mkfs: Vec<String>,
    /// The medium that holds it.
    #[serde(default)]
    pub medium: Medium,
}

/// The requested medium of a file system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Medium {
    /// Its name in the registry of media: `loop`, `ram`, `device`, …
    pub name: String,
    /// The text after the name: the path of a device, the members of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
}

impl Default for Medium {
    fn default() -> Self {
        Medium { name: "loop".to_owned(), argument: None }
    }
}

impl Target {
    /// Returns whether it is measured on the kernel of that release. A target that names no kernel is measured on any.
    pub fn runs_on(&self, release: &str) -> bool {
        self.kernel.as_deref().is_none_or(|kernel| kernel == release)
    }

    /// Returns the file system of the target, or `None` for a directory.
    pub fn file_system(&self) -> Option<&FileSystemSpec> {
        match &self.kind {
            TargetKind::FileSystem(spec) => Some(spec),
            TargetKind::Directory(_) => None,
        }
    }

    /// Returns the controls that apply to it in a run that requests the controls `run`.
    pub fn controls_over(&self, run: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut controls = run.clone();
        controls.extend(self.controls.clone());
        controls
    }

    /// Returns the directory, or `None` for a file system.
    pub fn directory(&self) -> Option<&Path> {
        match &self.kind {
            TargetKind::FileSystem(_) => None,
            TargetKind::Directory(path) => Some(path),
        }
    }
}

/// Gives every repeated name a number, so that `ext4 ext4` is an A/A test of `ext4` against `ext4#2`.
pub fn make_names_unique(targets: &mut [Target]) {
    for index in 1..targets.len() {
        let wanted = targets[index].name.clone();
        let mut number = 2;
        while targets[..index].iter().any(|earlier| earlier.name == targets[index].name) {
            targets[index].name = format!("{wanted}#{number}");
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_get_numbers() {
        let mut targets = ["ext4", "ext4", "ext4#2=xfs", "ext4"].map(|text| text.parse::<Target>().unwrap());
        make_names_unique(&mut targets);
        let names: Vec<_> = targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["ext4", "ext4#2", "ext4#2#2", "ext4#3"]);
    }
}
