//! New tasks that the tracer does not know completely.

use std::collections::HashSet;

/// New tasks whose makers were not reported yet, and tasks within a call that makes one.
#[derive(Debug, Default)]
pub(crate) struct Births {
    /// New tasks that stopped before the kernel reported their makers' calls.
    pub(super) early: HashSet<i32>,
    /// Tasks within a call that makes one.
    pub(super) makers: HashSet<i32>,
}
