//! Which descriptor of the trace is kept where. A place that was given up is used again by the same lane alone, whose order is
//! sure: memory grows with what is open at once, not with the trace.

use std::collections::HashMap;

use fsb_trace::{Call, Kind};

/// The places of descriptors.
#[derive(Debug, Default)]
pub(super) struct Slots {
    places: HashMap<u32, u32>,
    free: HashMap<u32, Vec<u32>>,
    next: u32,
}

impl Slots {
    /// A new place for what a call opens, where it worked.
    fn take(&mut self, call: &Call) -> u32 {
        let again = self.free.get_mut(&call.lane).and_then(Vec::pop);
        let place = again.unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        if call.result < 0 {
            // It is closed at once, should it be there after all.
            self.free.entry(call.lane).or_default().push(place);
        } else if let Some(lost) = self.places.insert(call.handle, place) {
            // No recorder uses a number twice; who made this trace did.
            self.free.entry(call.lane).or_default().push(lost);
        }
        place
    }

    /// The places of a call's descriptors, and whether all of them were opened.
    pub(super) fn of(&mut self, call: &Call) -> (u32, u32, bool) {
        let find = |places: &HashMap<u32, u32>, handle: u32| places.get(&handle).copied();
        match call.kind {
            Kind::Open => (self.take(call), 0, true),
            Kind::Duplicate => {
                let old = find(&self.places, call.other);
                (self.take(call), old.unwrap_or_default(), old.is_some())
            }
            Kind::Close => match self.places.remove(&call.handle) {
                Some(place) => {
                    self.free.entry(call.lane).or_default().push(place);
                    (place, 0, true)
                }
                None => (0, 0, false),
            },
            Kind::Copy => {
                let both = (find(&self.places, call.handle), find(&self.places, call.other));
                (both.0.unwrap_or_default(), both.1.unwrap_or_default(), both.0.is_some() && both.1.is_some())
            }
            Kind::SyncFileSystem if call.handle == 0 => (u32::MAX, 0, true),
            _ if call.handle == 0 => (0, 0, call.kind.is_about_names()),
            _ => {
                let place = find(&self.places, call.handle);
                (place.unwrap_or_default(), 0, place.is_some())
            }
        }
    }
}
