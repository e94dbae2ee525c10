//! The ends of labels: parts that distinguish cases of any workload, each with a comma in front.

use fsb_model::{Bytes, Durability};

use crate::backend::{self, Backend};

/// Returns a size with its unit: `4K`, or `32 B` for one that 1,024 does not divide.
pub(super) fn size(bytes: u64) -> String {
    let text = Bytes(bytes).to_string();
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text + " B",
        false => text,
    }
}

/// Returns the durability, the verification and the number of workers.
pub(super) fn ending(durability: Durability, verify: bool, threads: u32, processes: u32) -> String {
    format!(
        "{}{}{}",
        durable(durability),
        verified(verify),
        workers(threads, processes)
    )
}

/// Returns the end of a label, such as `, durable`.
pub(super) fn durable(durability: Durability) -> &'static str {
    match durability {
        Durability::None => "",
        Durability::End => ", durable",
        Durability::Each => ", durable each",
    }
}

/// Returns the end of a label that names the backend, such as `, osync`. The backend of plain calls
/// has an empty one.
pub(super) fn backend(backend: &dyn Backend) -> String {
    if backend.name() == backend::CALLS.name() {
        String::new()
    } else {
        format!(", {}", backend.name())
    }
}

/// Returns the end of a label, such as `, verified`.
pub(super) fn verified(verify: bool) -> &'static str {
    if verify { ", verified" } else { "" }
}

/// Returns the end of a label with the numbers of workers above 1, such as `, 2 threads, 3
/// processes`.
pub(super) fn workers(threads: u32, processes: u32) -> String {
    fn several(count: u32, what: &str) -> String {
        if count > 1 {
            format!(", {count} {what}")
        } else {
            String::new()
        }
    }
    several(threads, "threads") + &several(processes, "processes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let shown = [1, 32, 1000, 1024, 4 << 20].map(size);
        assert_eq!(shown, ["1 B", "32 B", "1000 B", "1K", "4M"]);
    }

    #[test]
    fn labels_omit_defaults() {
        assert_eq!(ending(Durability::None, false, 1, 1), "");
        assert_eq!(
            ending(Durability::Each, true, 2, 3),
            ", durable each, verified, 2 threads, 3 processes"
        );
    }
}
