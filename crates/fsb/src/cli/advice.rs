//! Help on command lines that the parser refuses: the nearest command or option, and the option of
//! fsb that corresponds to one of another tool.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use fsb_compat::pokorny::KEYS;
use fsb_model::{nearest, shell};

use super::run::is_program;

/// Options of other tools and the help on them.
struct Foreign {
    /// The commands that get the help.
    commands: &'static [&'static str],
    options: &'static [&'static str],
    help: &'static str,
}

/// The options that users of mount, mkfs, fio and others try first.
static FOREIGN: &[Foreign] = &[
    Foreign {
        commands: &["run", "choose"],
        options: &["-t", "--type", "--fs", "--fstype", "--filesystem"],
        help: "name file systems as targets: fsb run ext4 xfs",
    },
    Foreign {
        commands: &["run", "choose"],
        options: &["--mount-options", "--mount", "--options", "--opts"],
        help: "write mount options after the file system: fsb run ext4,noatime",
    },
    Foreign {
        commands: &["run", "choose"],
        options: &[
            "--runtime",
            "--time",
            "--duration",
            "--time_based",
            "--timeout",
        ],
        help: "limit the time with --budget 5m",
    },
    Foreign {
        commands: &["run", "choose"],
        options: &["-d", "--directory", "--device", "--disk", "--path"],
        help: "name directories and devices as targets: fsb run /srv/data, fsb run ext4@/dev/sdb1",
    },
    Foreign {
        commands: &["run", "choose"],
        options: &[
            "--rw",
            "--readwrite",
            "--rwmixread",
            "--bs",
            "--blocksize",
            "--ioengine",
            "--iodepth",
            "--numjobs",
            "--direct",
            "--fsync",
            "--end_fsync",
            "--name",
            "--filename",
            "--filesize",
        ],
        help: "fsb runs suites and plans instead of fio jobs: see 'fsb list suites' and 'fsb list workloads'",
    },
    Foreign {
        commands: &["run", "choose"],
        options: &["--loops", "--count", "--repeat", "--iterations"],
        help: "set the number of repetitions with --blocks 10",
    },
    // Those of hyperfine.
    Foreign {
        commands: &["run"],
        options: &["-r", "-m", "-M", "--min-runs", "--max-runs"],
        help: "fsb repeats commands until they are compared: limit that with --blocks 10 or --budget 1m",
    },
    Foreign {
        commands: &["run"],
        options: &["-N"],
        help: "run commands without a shell with --shell none",
    },
    Foreign {
        commands: &["run"],
        options: &["-P", "--parameter-scan", "-D", "--parameter-step-size"],
        help: "list the values: -L threads 1,2,4",
    },
    Foreign {
        commands: &["run"],
        options: &["-u", "--time-unit", "--style", "--sort"],
        help: "leave it out: fsb chooses units and order; -o run.json has seconds",
    },
    Foreign {
        commands: &["run"],
        options: &["--reference", "--reference-name"],
        help: "name the command that others are compared with first",
    },
    Foreign {
        commands: &["run"],
        options: &["-C", "--conclude"],
        help: "--cleanup CMD runs after each block, and --prepare CMD before each run",
    },
    Foreign {
        commands: &["run"],
        options: &["--show-output"],
        help: "write the output to a file in the command: 'CMD >> log'",
    },
    Foreign {
        commands: &["run"],
        options: &["--export-json", "--export-csv"],
        help: "write a report with -o run.json or -o run.csv",
    },
    Foreign {
        commands: &["run"],
        options: &["--export-markdown", "--export-asciidoc", "--export-orgmode"],
        help: "write a report with -o run.comment.md",
    },
    Foreign {
        commands: &["run", "choose"],
        options: &["-y", "--yes", "--overwrite"],
        help: "name the device that fsb may overwrite: --wipe /dev/sdb1",
    },
    Foreign {
        commands: &["run", "report", "compare"],
        options: &["--json", "--html", "--csv", "--xlsx", "--pdf"],
        help: "choose the format with --format html, or write a file with -o report.html",
    },
    Foreign {
        commands: &["record"],
        options: &["-f", "-ff", "-e", "-T", "-tt", "-ttt"],
        help: "leave out options of strace: fsb record follows all threads and processes",
    },
    Foreign {
        commands: &["record"],
        options: &["-p"],
        help: "name the process with --pid PID",
    },
    Foreign {
        commands: &["report"],
        options: &["--last", "--latest"],
        help: "without DIR, fsb report prints the last run",
    },
    Foreign {
        commands: &["clean"],
        options: &["-n", "--dry-run"],
        help: "fsb clean --list changes nothing",
    },
    Foreign {
        commands: &["clean"],
        options: &["-a", "-f", "--all", "--force"],
        help: "fsb clean reverts all changes of killed runs without an option",
    },
    Foreign {
        commands: &["doctor"],
        options: &["--fix", "--repair"],
        help: "fsb doctor changes nothing: follow the remedies that it prints",
    },
    Foreign {
        commands: &["micro"],
        options: &["-d", "--dir", "--directory"],
        help: "name the directory with --output DIR",
    },
    Foreign {
        commands: &["filebench"],
        options: &["-f"],
        help: "name the file without -f: fsb filebench FILE.f",
    },
    Foreign {
        commands: &["postmark"],
        options: &["-f"],
        help: "name the file without -f: fsb postmark FILE",
    },
    Foreign {
        commands: &["postmark"],
        options: &["--size", "--number", "--transactions", "--location"],
        help: "write settings as commands into FILE: set number 1000",
    },
];

/// The subcommands that this build leaves out, and the features that provide them.
static LEFT_OUT: &[(&str, &str)] = &[
    #[cfg(not(feature = "emulations"))]
    ("micro", "emulations"),
    #[cfg(not(feature = "emulations"))]
    ("iozone", "emulations"),
    #[cfg(not(feature = "emulations"))]
    ("postmark", "emulations"),
    #[cfg(not(feature = "emulations"))]
    ("filebench", "emulations"),
    #[cfg(not(feature = "emulations"))]
    ("fio", "emulations"),
    #[cfg(not(feature = "history"))]
    ("history", "history"),
    #[cfg(not(feature = "serve"))]
    ("serve", "serve"),
    #[cfg(not(feature = "traces"))]
    ("record", "traces"),
    #[cfg(not(feature = "traces"))]
    ("trace", "traces"),
    #[cfg(not(feature = "vm"))]
    ("kernel", "vm"),
];

/// Returns the remedy for an error of the parser. `root` is the definition of the command line.
pub(super) fn advice(
    error: &clap::Error,
    arguments: &[OsString],
    root: &clap::Command,
) -> Option<String> {
    let (path, command) = named_command(arguments, root);
    let more = || format!("'{} --help' lists the options", path.join(" "));
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => Some(on_command(
            text(ContextKind::InvalidSubcommand)?,
            &path,
            command,
            arguments,
        )),
        ErrorKind::UnknownArgument => {
            let typed = text(ContextKind::InvalidArg)?;
            let own = on_argument(typed, &path)
                .or_else(|| of_the_2023_tool(&path, arguments))
                .or_else(|| on_command_words(&path, arguments));
            let near =
                text(ContextKind::SuggestedArg).map(|near| format!("did you mean '{near}'?"));
            Some(own.or(near).unwrap_or_else(more))
        }
        ErrorKind::MissingRequiredArgument => usage(error),
        ErrorKind::InvalidValue => match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(values)) if !values.is_empty() => {
                let near = text(ContextKind::SuggestedValue)
                    .map(|near| format!("did you mean '{near}'? "));
                Some(format!(
                    "{}use {}",
                    near.unwrap_or_default(),
                    values.join(", ")
                ))
            }
            _ => Some(more()),
        },
        ErrorKind::ValueValidation
            if text(ContextKind::InvalidArg).is_some_and(|name| name.starts_with("--pid")) =>
        {
            Some("find the number of a process with pgrep NAME".to_owned())
        }
        ErrorKind::ArgumentConflict => Some("leave one of them out".to_owned()),
        _ => None,
    }
}

/// Returns the usage line of the error without its beginning.
fn usage(error: &clap::Error) -> Option<String> {
    let text = error.to_string();
    text.lines()
        .find_map(|line| line.strip_prefix("Usage: "))
        .map(str::to_owned)
}

/// Returns the full name of the subcommand that the arguments name, such as `fsb history add`.
pub(super) fn command_name(arguments: &[OsString], root: &clap::Command) -> String {
    named_command(arguments, root).0.join(" ")
}

/// Returns the words of the subcommand that the arguments name, `fsb` first, and its definition.
fn named_command<'a>(
    arguments: &'a [OsString],
    root: &'a clap::Command,
) -> (Vec<&'a str>, &'a clap::Command) {
    let (mut path, mut command) = (vec!["fsb"], root);
    for word in arguments
        .iter()
        .skip(1)
        .filter_map(|word| word.to_str())
        .filter(|word| !word.starts_with('-'))
    {
        match command.find_subcommand(word) {
            Some(inner) => (command, path) = (inner, [path, vec![word]].concat()),
            None => break,
        }
    }
    (path, command)
}

fn on_command(
    typed: &str,
    path: &[&str],
    command: &clap::Command,
    arguments: &[OsString],
) -> String {
    let names: Vec<&str> = command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
        .map(clap::Command::get_name)
        .collect();
    let after = || {
        let words = arguments
            .iter()
            .skip_while(|word| *word != typed)
            .map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    };
    if let Some((_, feature)) = LEFT_OUT
        .iter()
        .find(|(name, _)| path.len() == 1 && *name == typed)
    {
        return format!(
            "this fsb was built without the feature {feature}: cargo build --release -p fsb has it"
        );
    }
    let is_path = typed.starts_with(['/', '.']) || Path::new(typed).exists();
    match path[1..] {
        [] if typed == "help" => "'fsb --help' and 'fsb COMMAND --help' print help".to_owned(),
        [] if typed == "explain" => {
            "'fsb list errors' prints the meanings of error codes".to_owned()
        }
        [] if is_path || is_file_system(typed) => {
            format!("a command comes first: fsb run {}", after())
        }
        ["trace"] if typed == "replay" || typed == "run" => {
            "replay a trace with fsb run ext4 xfs --trace FILE".to_owned()
        }
        ["trace"] if is_path || typed.ends_with(".trace") => {
            format!("a command comes first: fsb trace show {}", after())
        }
        _ => match nearest::nearest(typed, names.iter().copied()) {
            Some(near) => format!("did you mean '{} {near}'?", path.join(" ")),
            None if path.len() == 1 => "'fsb --help' lists the commands".to_owned(),
            None => format!(
                "the commands of {} are {}",
                path.join(" "),
                names.join(", ")
            ),
        },
    }
}

/// Returns whether the word begins like a target: `ext4`, `ext4,noatime`, `xfs@/dev/sdb1`.
fn is_file_system(typed: &str) -> bool {
    typed
        .split([',', '@'])
        .next()
        .is_some_and(|name| fsb_testbed::fs::REGISTRY.iter().any(|fs| fs.name() == name))
}

fn on_argument(typed: &str, path: &[&str]) -> Option<String> {
    let command = *path.get(1)?;
    let name = typed.split('=').next().unwrap_or(typed);
    let foreign = FOREIGN
        .iter()
        .find(|known| known.commands.contains(&command) && known.options.contains(&name));
    if let Some(foreign) = foreign {
        return Some(foreign.help.to_owned());
    }
    if typed.starts_with('-') {
        return None;
    }
    Some(match command {
        "record" => format!("write the command after --: fsb record -- {typed}"),
        "doctor" => {
            "fsb doctor checks the machine; name a directory for images with --dir DIR".to_owned()
        }
        "clean" => {
            "fsb clean reverts all changes of killed runs: leave the argument out".to_owned()
        }
        "micro" => format!("name the directory with --output {typed}"),
        "report" => "name one run directory; fsb compare reads several".to_owned(),
        _ => return None,
    })
}

/// Returns the command for the arguments of the 2023 tool, which has no subcommands: `fsb --output
/// /srv --random 1`.
fn of_the_2023_tool(path: &[&str], arguments: &[OsString]) -> Option<String> {
    let words: Vec<&str> = arguments
        .iter()
        .skip(1)
        .filter_map(|word| word.to_str())
        .collect();
    let option = words.first()?.strip_prefix("--")?;
    let name = option.split('=').next().unwrap_or(option);
    let is_own = path.len() == 1 && KEYS.iter().any(|key| key.name == name);
    is_own.then(|| {
        format!(
            "the options of Pokorný's tool belong to fsb micro: fsb micro {}",
            shell::line(words)
        )
    })
}

/// Returns help on an option of a command that was written without `--` before it.
fn on_command_words(path: &[&str], arguments: &[OsString]) -> Option<String> {
    let words = || {
        arguments
            .iter()
            .skip(2)
            .filter_map(|word| word.to_str())
            .filter(|word| !is_file_system(word))
    };
    let is_measuring = matches!(path.get(1), Some(&"run" | &"choose"));
    let program = words().find(|word| is_measuring && is_program(word))?;
    Some(format!(
        "write the command after --: fsb {} ext4 -- {program}",
        path[1]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_options_belong_to_commands_that_do_not_have_them() {
        let root = super::super::tree();
        for foreign in FOREIGN {
            for name in foreign.commands {
                let command = root.find_subcommand(name).expect("a command");
                for option in foreign.options {
                    let own = command.get_arguments().any(|argument| {
                        let long = argument.get_long_and_visible_aliases().unwrap_or_default();
                        let short = argument.get_short().map(|letter| format!("-{letter}"));
                        long.iter().any(|long| format!("--{long}") == *option)
                            || short.as_deref() == Some(option)
                    });
                    assert!(!own, "{name} has {option}");
                }
            }
        }
    }

    #[test]
    fn a_nested_command_is_compared_with_its_siblings_only() {
        let root = super::super::tree();
        let advised = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let error = root
                .clone()
                .try_get_matches_from(&words)
                .expect_err("a mistake");
            advice(&error, &words, &root)
        };
        assert_eq!(
            advised("fsb trace shwo a").as_deref(),
            Some("did you mean 'fsb trace show'?")
        );
        assert_eq!(
            advised("fsb kernel install").as_deref(),
            Some("the commands of fsb kernel are list, fetch")
        );
        assert_eq!(
            advised("fsb --output /srv --random 1").as_deref(),
            Some(
                "the options of Pokorný's tool belong to fsb micro: fsb micro --output /srv --random 1"
            )
        );
        assert_eq!(
            advised("fsb ext4 xfs").as_deref(),
            Some("a command comes first: fsb run ext4 xfs")
        );
        assert_eq!(
            advised("fsb doctor --quik").as_deref(),
            Some("did you mean '--quick'?")
        );
        assert_eq!(
            advised("fsb run ext4 --xyzzy").as_deref(),
            Some("'fsb run --help' lists the options")
        );
    }
}
