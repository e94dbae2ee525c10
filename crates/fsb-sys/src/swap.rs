//! Swap areas as listed in /proc/swaps (proc_swaps(5)).

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::Roots;
use crate::error::{Refusal, attempt};

// linux/swap.h
const SWAP_FLAG_PREFER: libc::c_int = 0x8000;
const SWAP_FLAG_PRIO_MASK: libc::c_int = 0x7fff;

/// An active swap area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapArea {
    /// The file or device.
    pub path: PathBuf,
    /// Bytes in use.
    pub used: u64,
    /// Negative if the kernel chose it.
    pub priority: i32,
}

/// Returns the active areas in the kernel's order.
pub fn active(roots: &Roots) -> Vec<SwapArea> {
    let text = roots.proc_text("swaps").unwrap_or_default();
    text.lines().skip(1).filter_map(parse).collect()
}

/// Parses `/swapfile  file  2097148  1024  -2`, with blanks in the name as `\\040`.
fn parse(line: &str) -> Option<SwapArea> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let [path, _, _, used, priority] = fields[..] else {
        return None;
    };
    Some(SwapArea {
        path: PathBuf::from(OsString::from_vec(super::mountinfo::unescape(
            path.as_bytes(),
        ))),
        used: used.parse::<u64>().ok()? * 1024,
        priority: priority.parse().ok()?,
    })
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Switches an area off. The kernel moves its content back to memory first.
pub fn off(path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: a path that ends in a zero byte.
    match unsafe { libc::swapoff(path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Switches an area on with its priority. The kernel chooses the priority if it is negative.
/// Returns a description of the result.
pub fn on(path: &Path, priority: i32) -> Result<String, Refusal> {
    if active(&Roots::default())
        .iter()
        .any(|area| area.path == path)
    {
        return Ok(format!("swap on {} is on already", path.display()));
    }
    let flags = if priority < 0 {
        0
    } else {
        SWAP_FLAG_PREFER | (priority & SWAP_FLAG_PRIO_MASK)
    };
    let raw = c_path(path).map_err(|error| attempt("swapon", path, &error))?;
    // SAFETY: a path that ends in a zero byte.
    match unsafe { libc::swapon(raw.as_ptr(), flags) } {
        0 => Ok(format!("switched swap on {} on again", path.display())),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::NotFound => {
                Ok(format!("{} is gone", path.display()))
            }
            // The file or device lost its swap area, or has no medium. A later attempt would fail
            // too.
            error if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENXIO)) => {
                Ok(format!("{} holds no swap area any more", path.display()))
            }
            error => Err(attempt("swapon", path, &error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_swap_area_stays_off() {
        if !fsb_testkit::root_for("a_former_swap_area_stays_off") {
            return;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        assert!(
            on(file.path(), -1)
                .unwrap()
                .ends_with("holds no swap area any more")
        );
    }

    #[test]
    fn areas_are_read_with_their_priorities() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().to_owned(),
        };
        assert!(active(&roots).is_empty());
        let text = "Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/sda2                               partition\t2097148\t\t1024\t\t-2\n\
                    /var/a\\040b                            file\t\t1048572\t\t0\t\t5\n";
        std::fs::write(tree.path().join("swaps"), text).unwrap();
        let areas = active(&roots);
        assert_eq!(
            areas[0],
            SwapArea {
                path: "/dev/sda2".into(),
                used: 1 << 20,
                priority: -2
            }
        );
        assert_eq!(areas[1].path, PathBuf::from("/var/a b"));
        assert_eq!(areas.len(), 2);
    }
}
