//! The last uses of a resource.

/// The way in which a call uses a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// Overlaps with other shared uses.
    Shared,
    Alone,
}

/// Uses of one lane that are remembered. If all of them overlap a call, the uses before them need not be known.
const REMEMBERED: usize = 3;

#[derive(Debug, Clone, Copy, Default)]
struct Last {
    number: u32,
    end_ns: u64,
}

#[derive(Debug)]
struct OfLane {
    lane: u32,
    /// The newest first.
    shared: [Last; REMEMBERED],
    alone: [Last; REMEMBERED],
}

/// The last uses of a resource, by lane.
#[derive(Debug, Default)]
pub(super) struct Uses(Vec<OfLane>);

impl Uses {
    /// Returns the last uses of other lanes that had ended when a call began, if one of the two is exclusive: lane,
    /// number, and the end, which is 0 if it is not known.
    pub(super) fn before(&self, lane: u32, start_ns: u64, how: Use) -> Vec<(u32, u32, u64)> {
        let others = self.0.iter().filter(|of| of.lane != lane);
        others
            .filter_map(|of| {
                let shared = if how == Use::Alone { ended(&of.shared, start_ns) } else { Last::default() };
                let alone = ended(&of.alone, start_ns);
                let last = if shared.number > alone.number { shared } else { alone };
                (last.number > 0).then_some((of.lane, last.number, last.end_ns))
            })
            .collect()
    }

    pub(super) fn add(&mut self, lane: u32, number: u32, end_ns: u64, how: Use) {
        let at = self.0.iter().position(|of| of.lane == lane).unwrap_or_else(|| {
            self.0.push(OfLane { lane, shared: Default::default(), alone: Default::default() });
            self.0.len() - 1
        });
        let of = &mut self.0[at];
        let list = if how == Use::Alone { &mut of.alone } else { &mut of.shared };
        list.rotate_right(1);
        list[0] = Last { number, end_ns };
    }
}

/// Returns the newest use that had ended. If more uses overlap than are remembered, returns the call before them.
fn ended(list: &[Last; REMEMBERED], start_ns: u64) -> Last {
    let found = list.iter().find(|last| last.number > 0 && last.end_ns <= start_ns);
    let before = || Last { number: list[REMEMBERED - 1].number.saturating_sub(1), end_ns: 0 };
    found.copied().unwrap_or_else(before)
}
