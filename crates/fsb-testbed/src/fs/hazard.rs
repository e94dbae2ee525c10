//! Hazards: options, formats and devices that may lose synced data where the defaults keep it.
//!
//! A target with a hazard does other work than the targets beside it, because part of what "durable" costs is left out.
//! It is marked unsafe and wins against no safe target unless the user asks for that.

/// A hazard of a file system, declared in its own file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hazard {
    /// Its sign.
    pub cause: Cause,
    /// The loss, in a few words.
    pub loss: &'static str,
}

/// The sign of a hazard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Mount options with the same effect, as they are typed or as the kernel shows them.
    Options(&'static [&'static str]),
    /// A feature that mkfs leaves out.
    Without(&'static str),
    /// The format itself, in a few words.
    Format(&'static str),
}

/// The loss where caches are not flushed.
pub(crate) const UNFLUSHED: &str = "a power failure may lose synced data";

impl Hazard {
    /// Flushes that are switched off by any of these mount options.
    pub(super) const fn unflushed(options: &'static [&'static str]) -> Hazard {
        Hazard { cause: Cause::Options(options), loss: UNFLUSHED }
    }

    /// Data that a commit does not wait for, by this mount option.
    pub(super) const fn writeback(options: &'static [&'static str]) -> Hazard {
        Hazard { cause: Cause::Options(options), loss: "after a crash, files may hold deleted data" }
    }

    /// A format that keeps no journal.
    pub(super) const fn no_journal(cause: Cause) -> Hazard {
        Hazard { cause, loss: "after a crash, fsck may have to discard files" }
    }

    /// The option, feature or format that shows the hazard. Returns `None` if the target does not have it.
    pub(super) fn found_in(&self, options: &[String], mkfs: &[String], features: Option<&[String]>) -> Option<String> {
        match self.cause {
            Cause::Options(names) => options.iter().find(|option| names.contains(&option.as_str())).cloned(),
            Cause::Without(feature) => {
                let off = format!("^{feature}");
                let asked = mkfs.iter().any(|word| word.split(',').any(|part| part.trim_start_matches("-O") == off));
                let seen = features.is_some_and(|all| !all.is_empty() && !all.iter().any(|known| known == feature));
                (asked || seen).then(|| format!("without {feature}"))
            }
            Cause::Format(words) => Some(words.to_owned()),
        }
    }
}
