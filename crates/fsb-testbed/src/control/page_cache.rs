//! The method that makes data cold between preparation and measurement.
//!
//! The control changes nothing for the length of a run. It decides what the testbed does before
//! each cold repetition.

use fsb_sys::Roots;
use fsb_sys::error::{Refusal, TestbedError};
use serde::{Deserialize, Serialize};

use super::interface::{Applied, Context, Control, Scope, TargetDevice, Value};

pub(crate) struct PageCache;

/// The name of the control, for code that reads its value.
pub(crate) const PAGE_CACHE: &str = "page-cache";

const REMOUNT: &str = "remount";
const DROP_CACHES: &str = "drop-caches";
const EVICT: &str = "evict";

/// A method that makes data cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColdMethod {
    /// Unmount, `drop_caches`, mount: data and metadata.
    Remount,
    /// `drop_caches` alone: unused data and metadata.
    DropCaches,
    /// `POSIX_FADV_DONTNEED` by the worker itself: data only.
    Evict,
}

impl ColdMethod {
    /// Returns whether the method empties the kernel's caches, of data and of metadata.
    pub(crate) fn empties_kernel_caches(self) -> bool {
        self != ColdMethod::Evict
    }
}

impl Control for PageCache {
    fn name(&self) -> &'static str {
        PAGE_CACHE
    }

    fn about(&self) -> &'static str {
        "Method of emptying caches before a cold workload."
    }

    fn scope(&self) -> Scope {
        Scope::Run
    }

    fn values(&self) -> &'static [Value] {
        const {
            &[
                Value::word(
                    REMOUNT,
                    "unmount, drop_caches, mount; directories: drop_caches (default)",
                ),
                Value::word(DROP_CACHES, "drop_caches alone; pages in use stay"),
                Value::word(
                    EVICT,
                    "POSIX_FADV_DONTNEED on the files: data only, needs no root",
                ),
            ]
        }
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        if can_drop(roots) {
            Ok(())
        } else {
            Err(Refusal::NeedsRoot(
                "/proc/sys/vm/drop_caches cannot be written: only data can be made cold".into(),
            ))
        }
    }

    fn set(&self, value: &str, context: &mut Context<'_>) -> Result<Applied, TestbedError> {
        let effective = value == EVICT || can_drop(context.roots);
        Ok(Applied {
            effective,
            ..Applied::so(self.observe(context.roots, context.place))
        })
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        self.probe(roots).map_or_else(
            |why| why.to_string(),
            |()| "drop_caches can be written".to_owned(),
        )
    }
}

fn can_drop(roots: &Roots) -> bool {
    rustix::fs::access(
        roots.proc.join("sys/vm/drop_caches"),
        rustix::fs::Access::WRITE_OK,
    )
    .is_ok()
}

/// Returns the method that is possible for a value of this control. Only a file system that fsb
/// mounted can be remounted.
pub(crate) fn cold_method(value: &str, can_remount: bool, roots: &Roots) -> ColdMethod {
    match value {
        EVICT => ColdMethod::Evict,
        _ if !can_drop(roots) => ColdMethod::Evict,
        REMOUNT if can_remount => ColdMethod::Remount,
        _ => ColdMethod::DropCaches,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_that_is_possible_is_done() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().to_owned(),
        };
        assert_eq!(cold_method(REMOUNT, false, &roots), ColdMethod::Evict);
        assert!(PageCache.probe(&roots).is_err());
        std::fs::create_dir_all(tree.path().join("sys/vm")).unwrap();
        std::fs::write(tree.path().join("sys/vm/drop_caches"), "0").unwrap();
        assert!(PageCache.probe(&roots).is_ok());
        assert_eq!(cold_method(REMOUNT, true, &roots), ColdMethod::Remount);
        assert_eq!(cold_method(REMOUNT, false, &roots), ColdMethod::DropCaches);
        assert_eq!(
            cold_method(DROP_CACHES, true, &roots),
            ColdMethod::DropCaches
        );
        assert_eq!(cold_method(EVICT, true, &roots), ColdMethod::Evict);
    }
}
