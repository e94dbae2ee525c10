//! Mappings of files below the root, which msync(2) names by their addresses.

use std::rc::Rc;

use crate::call::Call;

#[derive(Debug)]
struct Mapping {
    task: u32,
    address: u64,
    length: u64,
    /// The offset in the file.
    offset: u64,
    path: Rc<[u8]>,
}

/// The mappings that tasks made. A later one replaces those at the same address.
#[derive(Debug, Default)]
pub(super) struct Mappings(Vec<Mapping>);

impl Mappings {
    /// Adds the mapping that a call made.
    pub(super) fn add(&mut self, task: u32, address: u64, call: &Call, path: &[u8]) {
        self.0
            .retain(|known| known.task != task || known.address != address);
        self.0.push(Mapping {
            task,
            address,
            length: call.length,
            offset: call.offset,
            path: path.into(),
        });
    }

    /// Returns the file at an address, and the offset in it. Threads and children use the mappings
    /// of others.
    pub(super) fn find(&self, task: u32, address: u64) -> Option<(Rc<[u8]>, u64)> {
        let mut holding = self.0.iter().rev().filter(|known| {
            let at = address.checked_sub(known.address);
            at.is_some_and(|at| at < known.length)
        });
        let own = holding.clone().find(|known| known.task == task);
        let found = own.or_else(|| holding.next())?;
        Some((
            found.path.clone(),
            found.offset.saturating_add(address - found.address),
        ))
    }
}
