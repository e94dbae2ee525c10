//! The commit that the program was built from, for the record of every run. Without git there is none.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-changed=../../.git/refs/heads");
    let Ok(output) = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output() else { return };
    if output.status.success() {
        println!("cargo::rustc-env=FSB_COMMIT={}", String::from_utf8_lossy(&output.stdout).trim());
    }
}
