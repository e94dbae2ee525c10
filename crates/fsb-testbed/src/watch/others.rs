//! CPU time of processes that belong neither to this run nor to the kernel.

use fsb_sys::error::Refusal;

use super::processes;
use super::source::{Finish, Source, Watched, one, seconds};

pub(super) struct Others;

pub(crate) const SECONDS: &str = "others_cpu_seconds";

impl Source for Others {
    fn name(&self) -> &'static str {
        "others"
    }

    fn about(&self) -> &'static str {
        "CPU time of other processes, those that ended meanwhile included."
    }

    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal> {
        let here = processes::read(place.roots);
        match here.iter().any(|process| process.id == place.coordinator) {
            true => Ok(()),
            false => Err("the processes of this machine cannot be seen".into()),
        }
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        self.probe(place).ok()?;
        let (roots, coordinator) = (place.roots.clone(), place.coordinator);
        let before = processes::read(&roots);
        Some(Box::new(move || {
            let after = processes::read(&roots);
            let others = processes::used_by_others(&before, &after, coordinator);
            one(SECONDS, seconds(others.iter().map(|(_, ticks)| ticks).sum()))
        }))
    }
}
