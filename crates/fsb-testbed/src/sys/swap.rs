//! Swap areas as /proc/swaps shows them (proc_swaps(5)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::Roots;

/// A swap area that is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SwapArea {
    /// The file or device.
    pub path: PathBuf,
    /// Bytes that are in use.
    pub used: u64,
    /// Negative where the kernel chose it.
    pub priority: i32,
}

/// The areas that are on, in the kernel's order.
pub(crate) fn active(roots: &Roots) -> Vec<SwapArea> {
    let text = roots.proc_text("swaps").unwrap_or_default();
    text.lines().skip(1).filter_map(parse).collect()
}

/// `/swapfile  file  2097148  1024  -2`, blanks in the name as `\\040`.
fn parse(line: &str) -> Option<SwapArea> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let [path, _, _, used, priority] = fields[..] else { return None };
    Some(SwapArea {
        path: PathBuf::from(OsString::from_vec(super::mountinfo::unescape(path.as_bytes()))),
        used: used.parse::<u64>().ok()? * 1024,
        priority: priority.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_read_with_their_priorities() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots { proc: tree.path().to_owned(), sys: tree.path().to_owned() };
        assert!(active(&roots).is_empty());
        let text = "Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/sda2                               partition\t2097148\t\t1024\t\t-2\n\
                    /var/a\\040b                            file\t\t1048572\t\t0\t\t5\n";
        std::fs::write(tree.path().join("swaps"), text).unwrap();
        let areas = active(&roots);
        assert_eq!(areas[0], SwapArea { path: "/dev/sda2".into(), used: 1 << 20, priority: -2 });
        assert_eq!(areas[1].path, PathBuf::from("/var/a b"));
        assert_eq!(areas.len(), 2);
    }
}
