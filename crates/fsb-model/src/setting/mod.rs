//! The settings of plans: name, values, default, group and help of each.
//!
//! [`SETTINGS`] is the only declaration of a setting. The command lines of `fsb run`, `choose`,
//! `export`, `compare` and `history`, the form of `fsb serve`, the reader and the writer of plan
//! files, `docs/schema/plan.json`, the comparison of plans and the anonymiser are made from it.

mod declared;
mod given;
mod table;
mod value;

pub use declared::{
    Setting, SettingClass, SettingCommand, SettingDefault, SettingGroup, SettingKind, Stored,
};
pub use given::Settings;
pub(crate) use given::same_work;
pub use table::{
    BLOCK_LIMIT, BUDGET, IMAGE, LONGEST_BUDGET, SETTINGS, SUITE, THETA, VM_MEMORY, find,
    of_command, of_table,
};
pub use value::SettingValue;
