//! Plans for other tools: the files that make another tool run the cases of a plan.
//!
//! [`fio::export`](crate::fio::export) turns an [`ExportRequest`] into job files and names the cases
//! that fio cannot run, with the reasons. The script that creates, mounts and removes targets is
//! here.

use fsb_model::{WorkloadSpec, shell};

/// A plan in the format of another tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The files. Their names hold no directory.
    pub files: Vec<ExportFile>,
    /// The number of cases in the files.
    pub rows: usize,
    /// The labels of the cases that the tool cannot run, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// A file of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportFile {
    pub name: String,
    /// The content.
    pub text: String,
    /// The file is a script that the user runs.
    pub is_program: bool,
}

// The input of an exporter: the cases of a plan, and the targets that they run on.

/// A plan, as far as another tool needs it.
#[derive(Debug, Clone)]
pub struct ExportRequest {
    /// The plan's name, of characters that file names may have.
    pub name: String,
    /// The program that wrote the plan: `fsb 0.1.0`.
    pub author: String,
    /// The seed of orders and data.
    pub seed: u64,
    /// The number of units of each case, reduced if they do not fit on the target.
    pub units: u64,
    /// Bytes that each target may be filled with.
    pub space: u64,
    /// The directory of the images.
    pub dir: String,
    /// In the plan's order.
    pub rows: Vec<ExportCase>,
    /// In the plan's order.
    pub targets: Vec<TargetRecipe>,
}

/// A case of a plan.
#[derive(Debug, Clone)]
pub struct ExportCase {
    /// The name: `write 1M, durable`.
    pub label: String,
    pub whole: Piece,
    /// The unit that fsb measures the case in; `None` if fsb measures the whole.
    pub unit: Option<UnitPiece>,
}

/// Some work with all its parameters.
#[derive(Debug, Clone)]
pub struct Piece {
    /// The member of the registry of workloads, its parameters complete and in numbers.
    pub workload: WorkloadSpec,
    pub operations: u64,
    /// Bytes that its files need.
    pub space: u64,
}

/// The fixed piece of work that fsb measures a case in.
#[derive(Debug, Clone)]
pub struct UnitPiece {
    /// The work.
    pub piece: Piece,
    /// Each unit has files of its own.
    pub own_files: bool,
}

/// A target, and the commands that create and mount it.
#[derive(Debug, Clone)]
pub struct TargetRecipe {
    /// The user's name of the target.
    pub name: String,
    pub made: Made,
}

/// The kinds of targets.
#[derive(Debug, Clone)]
pub enum Made {
    /// A directory as it is.
    Directory(String),
    /// A file system. `mkfs` lacks only the device, `mount` only the device and the mount point.
    FileSystem {
        /// The command that creates it; empty if it needs none.
        mkfs: Vec<String>,
        mount: Vec<String>,
        /// The device of the file system.
        source: Source,
    },
    /// The script cannot create it, for this reason.
    LeftOut(String),
}

/// The device of a file system.
#[derive(Debug, Clone)]
pub enum Source {
    /// A loop device over an image, in memory or on the disk.
    Image {
        /// Bytes of the image.
        bytes: u64,
        in_memory: bool,
    },
    /// A block device.
    Device(String),
    /// No device: the word that replaces it in the commands.
    Word(String),
}

impl Piece {
    /// Returns a parameter as a number, or 0 if it has no such value.
    pub(crate) fn number(&self, key: &str) -> u64 {
        self.workload
            .params
            .get(key)
            .and_then(serde_json::Value::as_u64)
            .unwrap_or(0)
    }

    /// Returns a parameter as a word, or an empty text if it has no such value.
    pub(crate) fn word(&self, key: &str) -> &str {
        self.workload
            .params
            .get(key)
            .and_then(serde_json::Value::as_str)
            .unwrap_or("")
    }

    /// Returns whether a parameter is true.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.workload
            .params
            .get(key)
            .and_then(serde_json::Value::as_bool)
            .unwrap_or(false)
    }
}

/// Replaces the characters that file names, sections and shell functions cannot contain.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '.' || c == '_' {
            c
        } else {
            '-'
        };
        if c != '-' || !plain.ends_with('-') {
            plain.push(c);
        }
    }
    plain.trim_matches(['-', '.']).to_owned()
}

// The shell script that creates each target, runs the cases on it and removes it, with the commands
// that fsb uses.

/// A case as a step of the script.
pub(crate) struct ScriptStep {
    /// The name of the case in the tool's files, made of characters that a shell does not
    /// interpret.
    pub name: String,
    /// Whether the page cache must not hold the files when the case begins.
    pub cold: bool,
    /// Whether the files must exist before the case begins.
    pub prepared: bool,
    /// Whether the data must be on the device when the case ends.
    pub durable: bool,
}

/// The parts of the script that depend on the tool.
pub(crate) struct Tool {
    pub program: &'static str,
    /// The body of a function that creates the files of the case `$1` in the directory `$1.files`
    /// of the working directory.
    pub prepare: String,
    /// The body of a function that runs the case `$1` there and writes its result to the file `$2`.
    pub measure: String,
    /// The hint that names the command to compare results with, with placeholders for the paths.
    pub compare: &'static str,
}

pub(crate) fn script(request: &ExportRequest, tool: &Tool, steps: &[ScriptStep]) -> String {
    let Tool {
        program,
        prepare,
        measure,
        compare,
    } = tool;
    let ExportRequest {
        name, author, dir, ..
    } = request;
    let numbered = || (1..).zip(&request.targets);
    let targets: String = numbered()
        .map(|(number, target)| function(number, target))
        .collect();
    let calls: String = numbered()
        .map(|(number, target)| call(number, target))
        .collect();
    let word = |yes: bool, word: &'static str| if yes { word } else { "-" };
    let row = |step: &ScriptStep| {
        let ScriptStep {
            name,
            cold,
            prepared,
            durable,
        } = step;
        let words = [
            word(*cold, "cold"),
            word(*prepared, "prepared"),
            word(*durable, "durable"),
        ];
        format!("    run_case {name} {}\n", words.join(" "))
    };
    let rows: String = steps.iter().map(row).collect();
    let rows = if rows.is_empty() {
        "    :\n".to_owned()
    } else {
        rows
    };
    let dir = shell::word(dir);
    format!(
        r#"#!/bin/sh
# Runs the cases of '{name}' that {program} can do on each target, which it formats, mounts and removes as fsb does.
# Written by {author}. It needs {program}, and root for file systems.
#
# usage: {name}.sh [RESULTS]      one file for each case: RESULTS/TARGET/ROUND-CASE; ROUNDS=5 repeats everything five times
# {compare}
set -eu
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
here=$(cd "$(dirname "$0")" && pwd)
results=${{1:-$here/{name}-results}}
rounds=${{ROUNDS:-1}}
dir=${{FSB_DIR:-{dir}}}
mkdir -p "$results"
results=$(cd "$results" && pwd)
dir=$(cd "$dir" && pwd)
point=$(mktemp -d)
image= loop= attached=

detach() {{
    cd /
    if [ -n "$attached" ]; then umount "$point"; fi
    attached=
}}
undo() {{
    detach
    if [ -n "$loop" ]; then losetup --detach "$loop"; fi
    loop=
    if [ -n "$image" ]; then rm -f "$image"; fi
    image=
}}
trap 'undo; rmdir "$point"' EXIT
trap 'exit 130' INT TERM HUP

# Makes an image of $1 bytes in the directory $2, written once and used without the page cache ($3, $4).
make_image() {{
    image=$(mktemp "$2/fsb-image.XXXXXX")
    fallocate -l "$1" "$image" || :
    dd if=/dev/urandom of="$image" bs=1M count=$(($1 / 1048576)) conv=notrunc,fsync status=none $3
    loop=$(losetup --find --show "$4" "$image")
    # No discards during a measurement.
    echo 0 >"/sys/block/${{loop#/dev/}}/queue/discard_max_bytes" || :
    device=$loop
}}

# Overwrites a device only if FSB_WIPE names it: FSB_WIPE=/dev/sdb1.
may_wipe() {{
    case " ${{FSB_WIPE:-}} " in
    *" $1 "*) device=$1 ;;
    *) echo "$1 would be overwritten: set FSB_WIPE=$1 to allow that" >&2; exit 2 ;;
    esac
}}

drop_caches() {{
    sync
    if [ -w /proc/sys/vm/drop_caches ]; then echo 3 >/proc/sys/vm/drop_caches; fi
}}
{targets}
# The steps of a case that {program} does.
prepare() {{
    {prepare}
}}
measure() {{
    {measure}
}}

# run_case NAME cold|- prepared|- durable|-
run_case() {{
    if [ "$memory" = yes ] && [ "$2$4" != -- ]; then
        echo "$target $round $1: left out: files in memory are neither cold nor durable" >&2
        return
    fi
    echo "$target $round $1" >&2
    files=$1.files
    mkdir "$root/$files"
    cd "$root"
    if [ "$3" = prepared ]; then
        prepare "$1"
        # The first read writes access times: read now.
        sleep 0.02
        find "$files" -type f -exec cat {{}} + >/dev/null
    fi
    sync -f "$root"
    if [ "$2" = cold ]; then cold; fi
    cd "$root"
    measure "$1" "$results/$target/$round-$1"
    cd /
    rm -r "${{root:?}}/$files"
    sync -f "$root"
}}
run_cases() {{
    mkdir -p "$root" "$results/$target"
{rows}}}

round=1
while [ "$round" -le "$rounds" ]; do
{calls}    round=$((round + 1))
done
"#
    )
}

/// Returns the function that creates and mounts a target, runs its cases and removes it.
fn function(number: usize, target: &TargetRecipe) -> String {
    let name = plain(&target.name);
    let function = format!("target_{number}");
    match &target.made {
        Made::LeftOut(why) => format!("\n# {} is left out: {why}.\n", target.name),
        Made::Directory(path) => format!(
            "\n# {}, a directory.\n{function}() {{\n    target={} memory=no\n    root=$(cd {} && pwd)/fsb-cases\n    cold() {{ cd /; drop_caches; }}\n    run_cases\n    rmdir \"$root\"\n}}\n",
            target.name,
            shell::word(&name),
            shell::word(path),
        ),
        Made::FileSystem {
            mkfs,
            mount,
            source,
        } => {
            let device = match source {
                Source::Image {
                    bytes,
                    in_memory: false,
                } => {
                    format!("make_image {bytes} \"$dir\" oflag=direct --direct-io=on")
                }
                Source::Image {
                    bytes,
                    in_memory: true,
                } => format!("make_image {bytes} /dev/shm \"\" --direct-io=off"),
                Source::Device(path) => format!("may_wipe {}", shell::word(path)),
                Source::Word(word) => format!("device={}", shell::word(word)),
            };
            let making = if mkfs.is_empty() {
                String::new()
            } else {
                format!("    {} \"$device\"\n", joined(mkfs))
            };
            format!(
                "\n# {}\n{function}() {{\n    target={} memory={}\n    root=$point/fsb\n    {device}\n{making}    \
                 attach() {{ {} \"$device\" \"$point\"; attached=yes; }}\n    \
                 cold() {{ sync -f \"$root\"; detach; drop_caches; attach; }}\n    attach\n    run_cases\n    undo\n}}\n",
                target.name,
                shell::word(&name),
                if matches!(source, Source::Word(_)) {
                    "yes"
                } else {
                    "no"
                },
                joined(mount),
            )
        }
    }
}

fn call(number: usize, target: &TargetRecipe) -> String {
    match target.made {
        Made::LeftOut(_) => String::new(),
        _ => format!("    target_{number}\n"),
    }
}

fn joined(words: &[String]) -> String {
    shell::line(words.iter().map(String::as_str))
}
