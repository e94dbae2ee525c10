//! Kernel modules: which there are, what each needs, in what order they load.
//!
//! An installed kernel's `modules.dep`, `modules.softdep` and `modules.alias` say it. A package that nobody installed
//! has none of them (depmod runs when it is installed); then each module's own `.modinfo` section is read.

pub(crate) mod build_tree;
mod file;
mod index;
mod order;
mod strip;

pub(crate) use file::{name_of, normal, read};
pub(crate) use index::Index;
pub(crate) use order::Order;
pub(crate) use strip::without_debug;
