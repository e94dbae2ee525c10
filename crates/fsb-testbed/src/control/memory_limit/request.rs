//! The values of the control: a size, and which mechanism must hold it.

use std::str::FromStr;

use fsb_model::Bytes;
use fsb_model::units::show_bytes;

use crate::error::Refusal;

/// Less than this a worker's own memory takes.
pub const LEAST: u64 = 16 << 20;

/// What can hold a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mechanism {
    /// A cgroup with a memory controller.
    Cgroup,
    /// A process that locks all other memory.
    Ballast,
}

/// A limit that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    pub bytes: u64,
    /// The one that must hold it; any where none was named.
    pub mechanism: Option<Mechanism>,
}

impl FromStr for Limit {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Limit, Refusal> {
        let (size, mechanism) = match text.split_once(':') {
            None => (text, None),
            Some((size, "cgroup")) => (size, Some(Mechanism::Cgroup)),
            Some((size, "eater")) => (size, Some(Mechanism::Ballast)),
            Some((_, other)) => {
                return Err(format!("'{other}' holds no memory: write SIZE:cgroup or SIZE:eater").into());
            }
        };
        let Bytes(bytes) = size.parse().map_err(|error: fsb_model::units::UnitError| error.to_string())?;
        Ok(Limit { bytes, mechanism })
    }
}

impl Limit {
    /// Whether a machine with so much memory can have it; why not.
    pub(super) fn check(&self, memory: u64) -> Result<(), Refusal> {
        let show = |bytes: u64| show_bytes(bytes as f64);
        if self.bytes < LEAST {
            return Err(format!("{} are too little: at least {}", show(self.bytes), show(LEAST)).into());
        }
        if self.bytes > memory {
            return Err(format!("{} are more than this machine has ({})", show(self.bytes), show(memory)).into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_size_and_who_holds_it() {
        let request = |text: &str| text.parse::<Limit>();
        assert_eq!(request("512M"), Ok(Limit { bytes: 512 << 20, mechanism: None }));
        assert_eq!(request("1g:cgroup"), Ok(Limit { bytes: 1 << 30, mechanism: Some(Mechanism::Cgroup) }));
        assert_eq!(request("64M:eater"), Ok(Limit { bytes: 64 << 20, mechanism: Some(Mechanism::Ballast) }));
        for text in ["", "half", "512M:", "512M:cat", "-1", ":eater", "9999999999999G"] {
            assert!(request(text).is_err(), "{text}");
        }
    }

    #[test]
    fn absurd_limits_are_refused() {
        let check = |bytes| Limit { bytes, mechanism: None }.check(1 << 30);
        assert_eq!(check(LEAST), Ok(()));
        assert_eq!(check(1 << 30), Ok(()));
        assert!(check(LEAST - 1).unwrap_err().to_string().contains("too little"));
        assert!(check(2 << 30).unwrap_err().to_string().contains("more than this machine has (1.00 GiB)"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9kmgt:a-z-]{0,12}") {
            let _ = text.parse::<Limit>();
        }
    }
}
