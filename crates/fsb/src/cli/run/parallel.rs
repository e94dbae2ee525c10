//! `fsb run --hosts`: prints and runs the command line of `fsb-mpi`, which measures from all hosts
//! at once.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use fsb_model::{code, failure, shell};

use crate::exit;
use crate::message::say;

/// The option. Everything else on the command line is for `fsb-mpi`, which refuses what it does not
/// know.
const OPTION: &str = "--hosts";

/// Runs `mpirun` with the arguments of this process, and returns its exit code.
pub fn main(hosts: &[String]) -> anyhow::Result<u8> {
    let line = command_line(hosts, std::env::args_os(), program().into());
    let words: Vec<_> = line.iter().map(|word| word.to_string_lossy()).collect();
    say(&shell::line(words.iter().map(|word| &**word)));
    let status = Command::new(&line[0])
        .args(&line[1..])
        .status()
        .map_err(|error| {
            let help = "install openmpi-bin or mpich here, or run this line on a host that has it";
            failure::advised_call(&code::UNABLE, &error, format!("mpirun: {error}"), help)
        })?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(exit::MACHINE))
}

/// Returns the program beside this one, or its name if it is not there.
fn program() -> PathBuf {
    let own = std::env::current_exe()
        .unwrap_or_default()
        .with_file_name("fsb-mpi");
    if own.is_file() {
        own
    } else {
        PathBuf::from("fsb-mpi")
    }
}

/// Returns the command line for hosts, each HOST or HOST:RANKS, from that of this process.
fn command_line(
    hosts: &[String],
    own: impl Iterator<Item = OsString>,
    program: OsString,
) -> Vec<OsString> {
    let ranks = |host: &String| {
        host.rsplit_once(':')
            .and_then(|(_, ranks)| ranks.parse::<u64>().ok())
            .unwrap_or(1)
    };
    let all: u64 = hosts.iter().map(ranks).sum();
    let mut line: Vec<OsString> = ["mpirun", "-n", &all.to_string(), "--host", &hosts.join(",")]
        .map(OsString::from)
        .into();
    line.extend([program, "run".into()]);
    let mut rest = own.skip_while(|word| word != "run").skip(1);
    while let Some(word) = rest.next() {
        if word == OPTION {
            rest.next();
        } else if !word.to_string_lossy().starts_with("--hosts=") {
            line.push(word);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_of_fsb_mpi_has_everything_but_the_hosts() {
        let line = |hosts: &[&str], own: &str| {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            let words = command_line(&hosts, own.split(' ').map(OsString::from), "fsb-mpi".into());
            words.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(
            line(
                &["h1", "h2"],
                "fsb --color never run --hosts h1,h2 /mnt --blocks 5"
            ),
            "mpirun -n 2 --host h1,h2 fsb-mpi run /mnt --blocks 5"
        );
        assert_eq!(
            line(&["h1:4", "h2:3"], "fsb run a b --hosts=h1:4,h2:3"),
            "mpirun -n 7 --host h1:4,h2:3 fsb-mpi run a b"
        );
    }
}
