//! An entry of the undo ledger.

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::owner::Owner;

/// The content of an entry's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The boot in which it was written.
    pub boot_id: String,
    /// The process that lives as long as the run.
    pub owner: Owner,
    /// The control that changed it; absent where no control did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// The action that undoes the change.
    pub action: Action,
}
