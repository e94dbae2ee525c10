//! The null file system: fsb formats, mounts and changes nothing. Tests of whole runs use it
//! without root.

use std::path::Path;

use fsb_model::error::Tried;
use fsb_model::{FileSystemSpec, nearest};
use fsb_sys::error::TestbedError;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::file_system::{
    Cause, FileSystem, Hazard, Home, Inspection, Tools, refuse_mkfs_and_medium,
};
use super::option_table::OptionTable;
use crate::declared::{DeclaredOption, OptionValue, key};

pub(crate) struct Null;

pub(super) static NULL: Null = Null;

/// The parameters of the fake times of the null file system.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fake {
    /// The relative increase of all times: 0.1 for 10 %.
    pub slowdown: f64,
    /// Standard deviation of trials, relative.
    pub noise: f64,
    /// Share of trials that are affected by interference, retries included.
    pub interference: f64,
}

/// The parsed options of a null target.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NullOptions {
    /// The parameters of the simulated times.
    pub fake: Fake,
    /// The failure that provisioning returns, if any.
    pub failure: Option<&'static Failure>,
}

impl Default for NullOptions {
    fn default() -> Self {
        NullOptions {
            fake: Fake {
                slowdown: 0.0,
                noise: 0.05,
                interference: 0.0,
            },
            failure: None,
        }
    }
}

/// A way in which a target can fail.
#[derive(Debug, PartialEq)]
pub(crate) struct Failure {
    name: &'static str,
    what: &'static str,
    /// The call that fails, and the kernel's error; without one, what mkfs says.
    tried: (&'static str, Option<Errno>),
}

static FAILURES: &[Failure] = &[
    Failure {
        name: "mkfs",
        what: "mkfs.null failed (exit status: 1)",
        tried: ("mkfs.null: asked to fail", None),
    },
    Failure {
        name: "mount",
        what: "null could not be mounted",
        tried: ("mount", Some(Errno::INVAL)),
    },
    Failure {
        name: "enospc",
        what: "null is full",
        tried: ("mkdir", Some(Errno::NOSPC)),
    },
    Failure {
        name: "eio",
        what: "null is broken",
        tried: ("mkdir", Some(Errno::IO)),
    },
    Failure {
        name: "erofs",
        what: "null is read-only",
        tried: ("mkdir", Some(Errno::ROFS)),
    },
];

impl Failure {
    pub fn error(&self) -> TestbedError {
        let (call, errno) = self.tried;
        let tried = errno.map_or_else(|| call.into(), |errno| Tried::call(call, &errno.into()));
        TestbedError::trial(self.what).tried(tried)
    }
}

impl Null {
    pub fn options(spec: &FileSystemSpec) -> Result<NullOptions, TestbedError> {
        let mut options = NullOptions::default();
        for option in &spec.options {
            let refused = |what: String| {
                TestbedError::request(what)
                    .coded(&fsb_model::error::UNKNOWN_OPTION)
                    .field("option", option.as_str())
            };
            let names = OPTIONS.iter().map(|declared| declared.name);
            let declared = OPTIONS
                .iter()
                .find(|declared| declared.name == key(option))
                .ok_or_else(|| {
                    refused(format!(
                        "null: {}",
                        nearest::unknown("option", key(option), names)
                    ))
                    .advice("'fsb list file-systems null' shows the values")
                })?;
            let value = declared
                .parse(option)
                .map_err(|why| refused(format!("null: option '{option}'")).tried(why))?;
            match (declared.name, value) {
                ("slowdown", OptionValue::Share(share)) => options.fake.slowdown = share,
                ("noise", OptionValue::Share(share)) => options.fake.noise = share,
                ("interference", OptionValue::Share(share)) => options.fake.interference = share,
                ("fail", OptionValue::Text(name)) => {
                    let names = FAILURES.iter().map(|failure| failure.name);
                    options.failure = Some(
                        FAILURES
                            .iter()
                            .find(|known| known.name == name)
                            .ok_or_else(|| {
                                TestbedError::request(nearest::unknown("failure", &name, names))
                            })?,
                    );
                }
                _ => {}
            }
        }
        Ok(options)
    }
}

impl FileSystem for Null {
    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    fn hazards(&self) -> &'static [Hazard] {
        &[Hazard {
            cause: Cause::Options(&["unsafe"]),
            loss: "the file system is simulated and stores nothing",
        }]
    }

    fn name(&self) -> &'static str {
        "null"
    }

    fn about(&self) -> &'static str {
        "Touches nothing and measures fsb itself with made-up times: slowdown=10%, noise=5%, interference=20%, unsafe, fail=enospc."
    }

    fn home(&self) -> Home {
        Home::Nowhere
    }

    fn tools(&self) -> Option<&'static Tools> {
        None
    }

    fn driver(&self) -> Option<&'static str> {
        None
    }

    fn modules(&self) -> &'static [&'static str] {
        &[]
    }

    fn minimum_size(&self) -> u64 {
        0
    }

    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        refuse_mkfs_and_medium(spec, "it has no storage")?;
        Null::options(spec).map(drop)
    }

    fn inspect(&self, _: &Path) -> Inspection {
        Inspection::default()
    }
}

static OPTIONS: OptionTable = OptionTable::new(include_str!("null.options"));

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<NullOptions, TestbedError> {
        let target: fsb_model::Target = text.parse().unwrap();
        Null::options(target.file_system().unwrap())
    }

    #[test]
    fn options_are_read_and_others_refused() {
        assert_eq!(options("null").unwrap(), NullOptions::default());
        let fake = options("null,slowdown=10%,noise=1%,interference=50%")
            .unwrap()
            .fake;
        assert_eq!(
            fake,
            Fake {
                slowdown: 0.1,
                noise: 0.01,
                interference: 0.5
            }
        );
        let full = options("null,fail=enospc")
            .unwrap()
            .failure
            .unwrap()
            .error();
        assert_eq!(full.fields["errno"], "ENOSPC", "{full}");
        for text in [
            "null,slowdown=x",
            "null,slowdown=-1%",
            "null,noise=often",
            "null,interference=",
            "null,fail=nothing",
            "null,noatime",
        ] {
            assert!(options(text).is_err(), "{text}");
        }
    }
}
