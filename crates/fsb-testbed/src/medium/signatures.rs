//! What is known to be on a device, by programs that know all signatures.

use crate::error::Refusal;
use crate::sys::pinned::Pinned;
use crate::sys::program;

/// Names of the signatures on a device; an error where nothing could look.
pub(super) fn signatures(device: &Pinned) -> Result<Vec<String>, Refusal> {
    let mut tried = Vec::new();
    for (name, arguments) in [("wipefs", ["-n", "-p"].as_slice()), ("blkid", &["-p", "-o", "udev"])] {
        let Some(program) = program::find(name) else {
            tried.push(format!("{name} is missing (package util-linux)"));
            continue;
        };
        let output = program::run_on(&program, arguments, device.descriptor()).map_err(|error| error.to_string())?;
        match (name, output.status.code()) {
            ("wipefs", Some(0)) => return Ok(wipefs_types(&String::from_utf8_lossy(&output.stdout))),
            // 0: found, 8: found several, 2: found nothing, but also where it could not read.
            ("blkid", Some(0 | 8)) => return Ok(vec![blkid_type(&String::from_utf8_lossy(&output.stdout))]),
            ("blkid", Some(2)) if output.stderr.is_empty() => return Ok(Vec::new()),
            _ => tried.push(format!("{name}: {}: {}", output.status, program::last_lines(&output.stderr))),
        }
    }
    Err(tried.join("; ").into())
}

/// `offset,uuid,label,type` lines; a heading starts with `#`. A line of any other form is a signature too.
fn wipefs_types(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.rsplit(',').find(|part| !part.is_empty()).unwrap_or(line).to_owned()).collect()
}

fn blkid_type(text: &str) -> String {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
    value("ID_FS_TYPE=").or_else(|| value("ID_PART_TABLE_TYPE=")).unwrap_or_else(|| {
        "a signature that blkid \
        recognizes"
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_wipefs_is_a_signature() {
        assert_eq!(wipefs_types("# offset,uuid,label,type\n0x438,6bcb,a\\x20b,ext4\n0x1fe,,,dos\n"), ["ext4", "dos"]);
        assert_eq!(wipefs_types("weird\n"), ["weird"]);
        assert!(wipefs_types("\n# offset,uuid,label,type\n").is_empty());
    }

    #[test]
    fn what_blkid_names_is_repeated() {
        assert_eq!(blkid_type("ID_FS_UUID=1\nID_FS_TYPE=swap\n"), "swap");
        assert_eq!(blkid_type("ID_PART_TABLE_TYPE=gpt\n"), "gpt");
        assert!(blkid_type("").contains("blkid"));
    }
}
