//! The description of a published run: what was removed from it, and what was kept at the user's
//! request.

use serde::{Deserialize, Serialize};

/// The schema that this version writes.
pub const SCHEMA: &str = "fsbench/publication/1";

/// The first line of the data in a published page. The record of the run and its trials follow, a
/// line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Publication {
    /// Always [`SCHEMA`] in what this version writes.
    pub schema: String,
    /// The version of the program that published the run.
    pub fsb_version: String,
    /// The values that were removed from the record and the trials, or replaced by stand-ins.
    pub removed: Vec<Removal>,
    /// The classes of identifying values that were kept at the user's request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// Values of one kind that were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Removal {
    /// The class of the values, as `fsb publish --keep` names it: `serials`.
    pub class: String,
    /// The values: `serial numbers of devices`.
    pub what: String,
    /// The number of different values.
    pub values: usize,
}

/// A class of values that identify a host, its users or their work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identifying {
    /// The host: its name, its boots, the command line of its kernel.
    Host,
    /// Numbers of users and groups, and mount options that name a user.
    User,
    /// Serial numbers of devices, UUIDs and labels of file systems.
    Serials,
    /// Paths and names of devices, and addresses of servers.
    Devices,
    /// Directories and files.
    Paths,
    /// Commands of the user, and what they printed.
    Commands,
    /// Names that the user gave to the plan, to targets and to cases.
    Names,
    /// Sentences that may quote any of these: errors, notes, warnings.
    Texts,
}

impl Identifying {
    /// All classes, in the order in which help lists them.
    pub const ALL: [Identifying; 8] = [
        Identifying::Host,
        Identifying::User,
        Identifying::Serials,
        Identifying::Devices,
        Identifying::Paths,
        Identifying::Commands,
        Identifying::Names,
        Identifying::Texts,
    ];

    /// Returns the word after `--keep`.
    pub fn name(self) -> &'static str {
        match self {
            Identifying::Host => "host",
            Identifying::User => "user",
            Identifying::Serials => "serials",
            Identifying::Devices => "devices",
            Identifying::Paths => "paths",
            Identifying::Commands => "commands",
            Identifying::Names => "names",
            Identifying::Texts => "texts",
        }
    }
}

impl Removal {
    /// Returns a line for people: `serial numbers of devices (3, serials)`.
    pub fn line(&self) -> String {
        format!("{} ({}, {})", self.what, self.values, self.class)
    }
}
