//! Kernel modules: their dependencies and their load order.
//!
//! An installed kernel has them in `modules.dep`, `modules.softdep` and `modules.alias`. An unpacked package has none
//! of these files, because depmod runs at installation. In that case each module's own `.modinfo` section is read.

pub(crate) mod build_tree;
mod file;
mod index;
mod order;
mod strip;

pub(crate) use file::{name_of, normal, read};
pub(crate) use index::Index;
pub(crate) use order::Order;
pub(crate) use strip::without_debug;
