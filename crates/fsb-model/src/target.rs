//! A target: a file system with options on a medium, or a directory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Bytes;
use crate::code::{self, Coded, ErrorCode};
use crate::error_codes;

/// A target: one column of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Target {
    /// The name that the user gave, or else the whole text. Unique in a plan.
    pub name: String,
    /// A file system or a directory.
    #[serde(flatten)]
    pub kind: TargetKind,
    /// Controls in which it differs from the other targets, by name. The text form does not hold
    /// them: only plans do.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub controls: BTreeMap<String, String>,
    /// Release of the kernel that it is measured on, in a plan of several kernels. The text form
    /// does not hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The text that replaces [`PLACEHOLDER`](crate::variant::PLACEHOLDER) in the commands that are
    /// measured on it. The text form does not hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Whether the run continues without this target, with a warning, if the machine cannot make
    /// it. Only plans set it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// The two kinds of target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "a plan has few targets, and nearly all are file systems"
)]
pub enum TargetKind {
    /// A file system that the testbed formats.
    FileSystem(FileSystemSpec),
    /// An existing directory, measured as it is.
    Directory(PathBuf),
}

/// A file system as requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileSystemSpec {
    /// The name in the registry of file systems.
    pub fs: String,
    /// The command that starts a FUSE server, and its placeholders: [`DIRECTORY`] or [`DEVICE`],
    /// [`MOUNT_POINT`], [`USER`] and [`GROUP`]. Empty if [`FileSystemSpec::fs`] is not [`FUSE`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server: Vec<String>,
    /// The command that prepares the directory or the device before that server is started for the
    /// first time, with the same placeholders. Empty if the server needs none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init: Vec<String>,
    /// Mount options, each as `mount -o` takes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Arguments for the mkfs program, after the defaults. A program that takes the place of the
    /// installed one comes first, see [`FileSystemSpec::mkfs_program`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mkfs: Vec<String>,
    /// Arguments of each run of the program that changes the features of the new file system, in
    /// order: tune2fs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tune: Vec<Vec<String>>,
    /// The medium of an external journal. `None` if the journal is within the file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<Medium>,
    /// The medium that holds it.
    #[serde(default)]
    pub medium: Medium,
}

impl FileSystemSpec {
    /// Returns all its media: its own, and that of an external journal.
    pub fn media(&self) -> impl Iterator<Item = &Medium> {
        std::iter::once(&self.medium).chain(&self.journal)
    }

    /// Returns whether the target requests nothing but the defaults of its file system.
    pub fn is_default(&self) -> bool {
        self.options.is_empty()
            && self.server.is_empty()
            && self.mkfs.is_empty()
            && self.tune.is_empty()
            && self.journal.is_none()
    }

    /// Returns whether the files are encrypted: the option `encrypt`, which fsb performs and mount
    /// does not know.
    pub fn is_encrypted(&self) -> bool {
        self.options.iter().any(|option| option == ENCRYPT)
    }

    /// Returns the options that mount takes.
    pub fn mount_options(&self) -> Vec<String> {
        self.options
            .iter()
            .filter(|option| *option != ENCRYPT)
            .cloned()
            .collect()
    }

    /// Returns the path of the mkfs program that the target names: the first word of its mkfs
    /// arguments, as in `ext4,mkfs="/opt/e2fsprogs/mkfs.ext4 -m 0"`. Returns `None` if it is the
    /// installed one.
    pub fn mkfs_program(&self) -> Option<&str> {
        match self.mkfs.first() {
            Some(first) if is_mkfs(first) => Some(first),
            _ => None,
        }
    }

    /// Returns the words of [`FileSystemSpec::mkfs`] after that program.
    pub fn mkfs_words(&self) -> &[String] {
        &self.mkfs[usize::from(self.mkfs_program().is_some())..]
    }

    /// Returns the arguments for the mkfs program, with the feature that encryption needs. Programs
    /// let a second `-O` replace the first one.
    pub fn mkfs_arguments(&self) -> Vec<String> {
        let mut arguments = self.mkfs_words().to_vec();
        if !self.is_encrypted() {
            return arguments;
        }
        match arguments.iter().rposition(|word| word.starts_with("-O")) {
            Some(at) if arguments[at] != "-O" => arguments[at] += &format!(",{ENCRYPT}"),
            Some(at) if at + 1 < arguments.len() => arguments[at + 1] += &format!(",{ENCRYPT}"),
            _ => arguments.extend(["-O", ENCRYPT].map(str::to_owned)),
        }
        arguments
    }
}

/// Returns whether a word is the path of a mkfs program: it begins with `/`, `./` or `../`, and its
/// name with `mk`, as in mkfs.ext4, mke2fs and mkntfs. No other program takes the place of one.
pub fn is_mkfs(word: &str) -> bool {
    let is_path = ["/", "./", "../"]
        .iter()
        .any(|start| word.starts_with(start));
    match word.rsplit_once('/') {
        Some((_, name)) => is_path && name.starts_with("mk"),
        None => false,
    }
}

/// The name of a file system that the user's command serves, and the word before that command.
pub const FUSE: &str = "fuse";

/// The placeholder for a directory of the file system beneath a FUSE server.
pub const DIRECTORY: &str = "{dir}";

/// The placeholder for the block device of a FUSE server.
pub const DEVICE: &str = "{dev}";

/// The placeholder for the mount point of a FUSE server.
pub const MOUNT_POINT: &str = "{mnt}";

/// The placeholder for the number of the user who must be able to write.
pub const USER: &str = "{uid}";

/// The placeholder for the number of that user's group.
pub const GROUP: &str = "{gid}";

/// The option of a target whose files are encrypted, and the feature of its format.
pub const ENCRYPT: &str = "encrypt";

/// The requested medium of a file system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Medium {
    /// The name in the registry of media: `loop`, `ram`, `device`, …
    pub name: String,
    /// The text after the name: the path of a device, the members of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
}

/// Media that are made of other media: arrays, an encrypted device, a logical volume. Their
/// argument is `SETTING=VALUE+…+MEMBER+…`.
pub const COMPOSED: [&str; 6] = ["raid0", "raid1", "raid5", "raid10", "luks", "lvm"];

impl Medium {
    /// Returns whether it is made of other media.
    pub fn is_composed(&self) -> bool {
        COMPOSED.contains(&self.name.as_str())
    }

    /// Returns the texts of the media that it is made of: `loop`, `/dev/sdb`. For a device, returns
    /// its path.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.parts().filter(|part| !is_setting(part))
    }

    /// Returns the settings of a medium that is made of others, such as `chunk=512K`.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts().filter_map(|part| {
            if is_setting(part) {
                part.split_once('=')
            } else {
                None
            }
        })
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        let argument = self.argument.as_deref().into_iter();
        argument.flat_map(|argument| argument.split('+'))
    }
}

/// Returns whether a part of the argument of a medium is `SETTING=VALUE`. Paths of devices may
/// contain `=`.
pub fn is_setting(part: &str) -> bool {
    !part.starts_with('/') && part.contains('=')
}

/// Returns the last value of an option, which is the one that counts.
pub fn last_value<'a>(options: &'a [String], name: &str) -> Option<&'a str> {
    let mut values = options
        .iter()
        .rev()
        .filter_map(|option| option.split_once('='));
    values.find_map(|(key, value)| (key == name).then_some(value))
}

/// Returns the mount options of the client of an NFS target as the kernel reads them: `rsize=65536`
/// for `rsize=64K`. The others belong to the server or to the network between them.
pub fn nfs_client_options(options: &[String]) -> Vec<String> {
    let read = options
        .iter()
        .filter_map(|option| match option.split_once('=') {
            None if option == "sync" || option == "async" => None,
            Some(("export" | "server" | "delay" | "rate" | "clients", _)) => None,
            Some((name @ ("rsize" | "wsize"), size)) => Some(
                size.parse::<Bytes>()
                    .map_or_else(|_| option.clone(), |bytes| format!("{name}={}", bytes.0)),
            ),
            _ => Some(option.clone()),
        });
    read.collect()
}

impl Default for Medium {
    fn default() -> Self {
        Medium {
            name: "loop".to_owned(),
            argument: None,
        }
    }
}

impl Target {
    /// Returns whether it is measured on the kernel of that release. A target that names no kernel
    /// is measured on any.
    pub fn runs_on(&self, release: &str) -> bool {
        self.kernel
            .as_deref()
            .is_none_or(|kernel| kernel == release)
    }

    /// Returns whether it is a null target, whose times are simulated.
    pub fn is_simulated(&self) -> bool {
        self.file_system().is_some_and(|spec| spec.fs == "null")
    }

    /// Returns the file system of the target, or `None` for a directory.
    pub fn file_system(&self) -> Option<&FileSystemSpec> {
        match &self.kind {
            TargetKind::FileSystem(spec) => Some(spec),
            TargetKind::Directory(_) => None,
        }
    }

    /// Returns the controls that apply to it in a run that requests the controls `run`.
    pub fn controls_over(&self, run: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut controls = run.clone();
        controls.extend(self.controls.clone());
        controls
    }

    /// Returns the directory, or `None` for a file system.
    pub fn directory(&self) -> Option<&Path> {
        match &self.kind {
            TargetKind::FileSystem(_) => None,
            TargetKind::Directory(path) => Some(path),
        }
    }
}

/// Gives every repeated name a number, so that `ext4 ext4` is an A/A test of `ext4` against
/// `ext4#2`.
pub fn make_names_unique(targets: &mut [Target]) {
    for index in 1..targets.len() {
        let wanted = targets[index].name.clone();
        let mut number = 2;
        while targets[..index]
            .iter()
            .any(|earlier| earlier.name == targets[index].name)
        {
            targets[index].name = format!("{wanted}#{number}");
            number += 1;
        }
    }
}

// The text form of a target is `[NAME=]FS[,OPTION…][@MEDIUM]`, or a path that starts with `/` or
// `.`. FS may be `fuse:COMMAND`. The command is in double quotes, or it ends at the first `,` or
// `@` after its `{mnt}`. `init="…"` holds the command that prepares its directory or device.
// Options are those of `mount -o`. `mkfs="…"` holds arguments for the mkfs program, split as a
// shell would, and its quotes protect commas and `@`. Each `tune="…"` holds the arguments of one
// run of tune2fs in the same way. `journal=loop`, `journal=ram` and `journal="/dev/NAME"` name the
// medium of an external journal. A name that contains `=`, `,`, `@`, `/` or `"` is written in
// double quotes, and its own double quotes are doubled.
//
// The parser does not know which file systems and media exist: the testbed's registries do.

/// The error of a text that is not a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The text is empty.
    #[error(
        "a target cannot be empty: name a file system such as ext4, or a directory such as /srv/data"
    )]
    Empty,
    /// A `"` is not closed.
    #[error("target '{0}': a quote is not closed")]
    Quote(String),
    /// An option between commas is empty: `a,,b` or `a,`.
    #[error("target '{0}': an option between commas is empty")]
    EmptyOption(String),
    /// The arguments of mkfs or tune or the words of a command cannot be split as a shell would, or
    /// contain a double quote.
    #[error(
        "target '{0}': the arguments of mkfs or tune, or the words of a command, cannot be split, or hold a double \
             quote: check their quotes"
    )]
    Arguments(String),
    /// Something other than options and a medium follows the command of a server.
    #[error(
        "target '{0}': after its command, a server has only options, each after a comma, and a medium such as \
             @/dev/sdb1: write a command with other commas in double quotes"
    )]
    AfterCommand(String),
    /// The name is empty or contains a control character.
    #[error("target '{0}': the name '{1}' is empty or holds a control character")]
    Name(String, String),
}

error_codes! {
    INVALID_TARGET = "target/invalid", code::REQUEST, "The text cannot be read as a target.", "Write [NAME=]FS[,OPTION…][@MEDIUM], or a path that begins with / or a dot.";
}

impl Coded for TargetError {
    fn code(&self) -> &'static ErrorCode {
        &INVALID_TARGET
    }

    fn fields(&self) -> Map<String, Value> {
        match self {
            TargetError::Empty => Map::new(),
            TargetError::Quote(target)
            | TargetError::EmptyOption(target)
            | TargetError::Arguments(target)
            | TargetError::AfterCommand(target)
            | TargetError::Name(target, _) => code::fields([("target", target.as_str().into())]),
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (name, body) = split_name(text);
        if body.is_empty() {
            return Err(TargetError::Empty);
        }
        let served = split_command(body);
        let name = match (&name, served) {
            (Some(name), _) => name.clone(),
            (None, Some((command, rest))) => server_name(&words(text, command)?, rest).into(),
            (None, None) => text.into(),
        };
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(TargetError::Name(text.to_owned(), name.into_owned()));
        }
        let kind = match served {
            Some((command, rest)) => {
                let mut spec = parse_file_system(text, &format!("{FUSE}{rest}"))?;
                if spec.fs != FUSE {
                    return Err(TargetError::AfterCommand(text.to_owned()));
                }
                spec.server = words(text, command)?;
                TargetKind::FileSystem(spec)
            }
            None if body.starts_with(['/', '.']) => TargetKind::Directory(PathBuf::from(body)),
            None => TargetKind::FileSystem(parse_file_system(text, body)?),
        };
        Ok(Target {
            name: name.into_owned(),
            kind,
            controls: BTreeMap::new(),
            kernel: None,
            variant: None,
            optional: false,
        })
    }
}

/// The characters that only a quoted name may contain.
const BEYOND_NAMES: [char; 5] = ['=', ',', '@', '/', '"'];

/// Splits off NAME, which is quoted, or ends at the first `=` before any `,`, `@` or `/`.
fn split_name(text: &str) -> (Option<Cow<'_, str>>, &str) {
    if let Some((name, body)) = split_quoted_name(text) {
        return (Some(Cow::Owned(name)), body);
    }
    // A command may contain `=`.
    if split_command(text).is_some() {
        return (None, text);
    }
    match text.find(['=', ',', '@', '/']) {
        Some(at) if text.as_bytes()[at] == b'=' => {
            (Some(Cow::Borrowed(&text[..at])), &text[at + 1..])
        }
        _ => (None, text),
    }
}

/// Splits off a quoted name: `"ext4,noatime#2"=ext4,noatime`. Repeated targets without a name of
/// their own get such names.
fn split_quoted_name(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut name = String::new();
    loop {
        let (piece, after) = rest.split_once('"')?;
        name += piece;
        match after.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, after.strip_prefix('=')?)),
        }
    }
}

/// Splits `fuse:COMMAND,OPTION…@MEDIUM` into the command and the rest, which begins with a comma or
/// an `@` unless it is empty.
fn split_command(body: &str) -> Option<(&str, &str)> {
    let command = body.strip_prefix(FUSE)?.strip_prefix(':')?;
    if let Some((inner, rest)) = command
        .strip_prefix('"')
        .and_then(|quoted| quoted.split_once('"'))
    {
        return Some((inner, rest));
    }
    let last = command
        .find(MOUNT_POINT)
        .map_or(0, |at| at + MOUNT_POINT.len());
    let end = command[last..]
        .find([',', '@'])
        .map_or(command.len(), |at| last + at);
    Some(command.split_at(end))
}

/// Returns the name of a target that the user did not name: the program without its directory, and
/// the options.
fn server_name(command: &[String], rest: &str) -> String {
    let program = command.first().map_or("", String::as_str);
    let name = program.rsplit('/').next().unwrap_or(program);
    format!("{name}{rest}")
}

fn parse_file_system(text: &str, body: &str) -> Result<FileSystemSpec, TargetError> {
    let (body, medium) = split_medium(text, body)?;
    let mut parts = split_outside_quotes(body, ',')
        .ok_or_else(|| TargetError::Quote(text.to_owned()))?
        .into_iter();
    let fs = parts.next().unwrap_or_default().to_owned();
    if fs.is_empty() {
        return Err(TargetError::Empty);
    }
    let (options, mkfs, tune) = (Vec::new(), Vec::new(), Vec::new());
    let is_served = fs == FUSE;
    let mut spec = FileSystemSpec {
        fs,
        server: Vec::new(),
        init: Vec::new(),
        options,
        mkfs,
        tune,
        journal: None,
        medium,
    };
    for part in parts {
        if part.is_empty() {
            return Err(TargetError::EmptyOption(text.to_owned()));
        }
        match part.split_once('=') {
            Some(("mkfs", quoted)) => spec.mkfs.extend(words(text, quoted)?),
            Some(("tune", quoted)) => spec.tune.push(words(text, quoted)?),
            Some(("init", quoted)) if is_served => spec.init.extend(words(text, quoted)?),
            Some(("journal", named)) if journal(named).is_some() => spec.journal = journal(named),
            _ => spec.options.push(part.to_owned()),
        }
    }
    Ok(spec)
}

/// Returns the medium of an external journal. Returns `None` for another text, which is a mount
/// option.
fn journal(named: &str) -> Option<Medium> {
    match named
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(named)
    {
        name @ ("loop" | "ram") => Some(Medium {
            name: name.to_owned(),
            argument: None,
        }),
        path if path.starts_with('/') => Some(Medium {
            name: "device".to_owned(),
            argument: Some(path.to_owned()),
        }),
        _ => None,
    }
}

/// Splits the arguments of a program as a shell would, without the double quotes around all of
/// them.
fn words(text: &str, quoted: &str) -> Result<Vec<String>, TargetError> {
    let inner = quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(quoted);
    // Printing puts double quotes around all words.
    let words = shlex::split(inner).filter(|words| words.iter().all(|word| !word.contains('"')));
    words.ok_or_else(|| TargetError::Arguments(text.to_owned()))
}

/// The last `@` outside quotes starts a medium, but only before a word that begins one: `uid=a@b`
/// is an option.
fn split_medium<'a>(text: &str, body: &'a str) -> Result<(&'a str, Medium), TargetError> {
    let pieces =
        split_outside_quotes(body, '@').ok_or_else(|| TargetError::Quote(text.to_owned()))?;
    let last = pieces.last().copied().unwrap_or_default();
    let medium = match last {
        "loop" | "ram" => Medium {
            name: last.to_owned(),
            argument: None,
        },
        path if path.starts_with('/') => Medium {
            name: "device".to_owned(),
            argument: Some(path.to_owned()),
        },
        composed if composed_medium(composed).is_some() => {
            composed_medium(composed).unwrap_or_default()
        }
        // For tests of fsb itself.
        fault if fault.starts_with("fault:") => Medium {
            name: "fault".to_owned(),
            argument: Some(fault["fault:".len()..].to_owned()),
        },
        _ => return Ok((body, Medium::default())),
    };
    if pieces.len() < 2 {
        return Ok((body, Medium::default()));
    }
    Ok((&body[..body.len() - last.len() - 1], medium))
}

/// Parses a medium that is made of others: `raid0:/dev/sdb+/dev/sdc`.
fn composed_medium(text: &str) -> Option<Medium> {
    let (name, argument) = text.split_once(':')?;
    COMPOSED.contains(&name).then(|| Medium {
        name: name.to_owned(),
        argument: Some(argument.to_owned()),
    })
}

/// Splits at `separator`, but not between double quotes. Returns `None` if a quote is not closed.
fn split_outside_quotes(text: &str, separator: char) -> Option<Vec<&str>> {
    let mut pieces = Vec::new();
    let (mut start, mut quoted) = (0, false);
    for (at, c) in text.char_indices() {
        if c == '"' {
            quoted = !quoted;
        } else if c == separator && !quoted {
            pieces.push(&text[start..at]);
            start = at + c.len_utf8();
        }
    }
    pieces.push(&text[start..]);
    (!quoted).then_some(pieces)
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name.as_str(), &self.argument) {
            ("device", Some(path)) => f.write_str(path),
            (name, Some(argument)) => write!(f, "{name}:{argument}"),
            (name, None) => f.write_str(name),
        }
    }
}

impl fmt::Display for FileSystemSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = WithoutMedium(self).to_string();
        // The default medium is left out, unless an option ends in a text that would be read as a
        // medium.
        let is_plain = split_medium("", &body).is_ok_and(|(all, _)| all.len() == body.len());
        match self.medium == Medium::default() && is_plain {
            true => f.write_str(&body),
            false => write!(f, "{body}@{}", self.medium),
        }
    }
}

/// Prints the file system with its options.
struct WithoutMedium<'s>(&'s FileSystemSpec);

impl fmt::Display for WithoutMedium<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WithoutMedium(spec) = self;
        let quoted = |words: &[String]| {
            words
                .iter()
                .map(|word| quote_word(word))
                .collect::<Vec<_>>()
                .join(" ")
        };
        f.write_str(&spec.fs)?;
        if !spec.server.is_empty() {
            write!(f, ":\"{}\"", quoted(&spec.server))?;
        }
        for option in &spec.options {
            write!(f, ",{option}")?;
        }
        if !spec.init.is_empty() {
            write!(f, ",init=\"{}\"", quoted(&spec.init))?;
        }
        if !spec.mkfs.is_empty() {
            write!(f, ",mkfs=\"{}\"", quoted(&spec.mkfs))?;
        }
        spec.tune
            .iter()
            .try_for_each(|words| write!(f, ",tune=\"{}\"", quoted(words)))?;
        match &spec.journal {
            Some(Medium {
                argument: Some(path),
                ..
            }) => write!(f, ",journal=\"{path}\""),
            Some(medium) => write!(f, ",journal={medium}"),
            None => Ok(()),
        }
    }
}

/// Quotes a word with single quotes, because double quotes surround all mkfs arguments.
fn quote_word(word: &str) -> String {
    if !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_=,.:/^+@%{}".contains(c))
    {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Prints the text that parses back to this target.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = match &self.kind {
            TargetKind::FileSystem(spec) => spec.to_string(),
            TargetKind::Directory(path) => path.display().to_string(),
        };
        // A default name is left out: the text itself, or that of a server's program.
        let is_default = match split_command(&body) {
            Some(_) => body
                .parse::<Target>()
                .is_ok_and(|again| again.name == self.name),
            None => body == self.name && split_name(&body).0.is_none(),
        };
        if is_default {
            f.write_str(&body)
        } else if self.name.contains(BEYOND_NAMES) || split_command(&self.name).is_some() {
            write!(f, "\"{}\"={body}", self.name.replace('"', "\"\""))
        } else {
            write!(f, "{}={body}", self.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn repeats_get_numbers() {
        let mut targets =
            ["ext4", "ext4", "ext4#2=xfs", "ext4"].map(|text| text.parse::<Target>().unwrap());
        make_names_unique(&mut targets);
        let names: Vec<_> = targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["ext4", "ext4#2", "ext4#2#2", "ext4#3"]);
    }

    fn parse(text: &str) -> Target {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn spec(text: &str) -> FileSystemSpec {
        parse(text).file_system().expect("a file system").clone()
    }

    #[test]
    fn encryption_is_a_feature_of_the_format_and_no_mount_option() {
        for (text, mkfs, mount) in [
            ("ext4", "", ""),
            ("ext4,encrypt", "-O encrypt", ""),
            (
                "ext4,noatime,encrypt,commit=9",
                "-O encrypt",
                "noatime commit=9",
            ),
            (
                r#"ext4,encrypt,mkfs="-b 1024 -O ^metadata_csum -L x""#,
                "-b 1024 -O ^metadata_csum,encrypt -L x",
                "",
            ),
            (r#"f2fs,encrypt,mkfs="-Oquota""#, "-Oquota,encrypt", ""),
        ] {
            let spec = spec(text);
            assert_eq!(
                (
                    spec.mkfs_arguments().join(" "),
                    spec.mount_options().join(" ")
                ),
                (mkfs.into(), mount.into())
            );
            assert_eq!(spec.is_encrypted(), text.contains("encrypt"));
        }
    }

    #[test]
    fn the_examples_of_the_manual_parse() {
        assert_eq!(spec("ext4").medium, Medium::default());
        assert_eq!(spec("ext3,data=journal").options, ["data=journal"]);
        let small = parse(r#"small-inodes=ext4,mkfs="-i 32704""#);
        assert_eq!(small.name, "small-inodes");
        assert_eq!(small.file_system().unwrap().mkfs, ["-i", "32704"]);
        let old = spec(r#"ext4,encrypt,mkfs="/opt/e2fsprogs/mke2fs -m 0""#);
        assert_eq!(old.mkfs_program(), Some("/opt/e2fsprogs/mke2fs"));
        assert_eq!(old.mkfs_arguments(), ["-m", "0", "-O", "encrypt"]);
        assert_eq!(spec(r#"btrfs,mkfs="/dev/null""#).mkfs_program(), None);
        assert_eq!(spec(r#"ext4,mkfs="-d/srv/mkdata""#).mkfs_program(), None);
        assert_eq!(spec(r#"xfs,mkfs="-d agcount=8""#).mkfs_program(), None);
        let device = spec("xfs,allocsize=512k@/dev/sdb1");
        assert_eq!(
            device.medium,
            Medium {
                name: "device".into(),
                argument: Some("/dev/sdb1".into())
            }
        );
        assert_eq!(spec("xfs@ram").medium.name, "ram");
        assert_eq!(
            spec("xfs@raid0:/dev/a+/dev/b").medium.argument.as_deref(),
            Some("/dev/a+/dev/b")
        );
        assert_eq!(parse("/srv/data").directory(), Some(Path::new("/srv/data")));
        assert_eq!(parse("disk=/srv/data").name, "disk");
        assert_eq!(parse("/srv/a=b").name, "/srv/a=b");
    }

    #[test]
    fn quotes_protect_commas_and_at_signs() {
        let spec = spec(r#"btrfs,mkfs="-L a@loop -O x,y",compress=zstd@ram"#);
        assert_eq!(spec.mkfs, ["-L", "a@loop", "-O", "x,y"]);
        assert_eq!(spec.options, ["compress=zstd"]);
        assert_eq!(spec.medium.name, "ram");
    }

    #[test]
    fn each_tune_is_a_run_of_its_own() {
        let spec = spec(r#"ext2,tune="-j -J size=16",noatime,tune="-O ^has_journal"@ram"#);
        assert_eq!(
            spec.tune,
            [vec!["-j", "-J", "size=16"], vec!["-O", "^has_journal"]]
        );
        assert_eq!(
            spec.to_string(),
            r#"ext2,noatime,tune="-j -J size=16",tune="-O ^has_journal"@ram"#
        );
    }

    #[test]
    fn an_external_journal_is_a_medium_beside_that_of_the_target() {
        let ext4 = spec(r#"ext4,journal="/dev/sdc1",noatime@/dev/sdb1"#);
        assert_eq!(
            ext4.journal.as_ref().map(Medium::to_string).as_deref(),
            Some("/dev/sdc1")
        );
        assert_eq!(
            (ext4.medium.to_string().as_str(), &ext4.options[..]),
            ("/dev/sdb1", &["noatime".to_owned()][..])
        );
        let image = spec("xfs,journal=loop@ram");
        assert_eq!(
            (image.journal, image.medium.name.as_str()),
            (Some(Medium::default()), "ram")
        );
        // A mount option of the driver.
        assert_eq!(spec("ext3,journal=update").options, ["journal=update"]);
    }

    #[test]
    fn an_at_sign_before_anything_else_belongs_to_the_option() {
        assert_eq!(spec("ext4,foo=a@b").options, ["foo=a@b"]);
    }

    #[test]
    fn a_command_is_a_server_with_options_and_a_medium() {
        let words = |words: &[String]| words.join(" ");
        for (text, name, server, options, medium) in [
            (
                "fuse:./myfs {dir} {mnt}",
                "myfs",
                "./myfs {dir} {mnt}",
                "",
                "loop",
            ),
            (
                "fuse:/opt/my fs -o a=b,c {dir} {mnt},over=xfs@/dev/sdb",
                "my,over=xfs@/dev/sdb",
                "/opt/my fs -o a=b,c {dir} {mnt}",
                "over=xfs",
                "/dev/sdb",
            ),
            (
                r#"fuse:"myfs {dev} {mnt} -o a,b",over="ext4,noatime"@ram"#,
                r#"myfs,over="ext4,noatime"@ram"#,
                "myfs {dev} {mnt} -o a,b",
                r#"over="ext4,noatime""#,
                "ram",
            ),
            (
                "a b=fuse:myfs {dir} {mnt}",
                "a b",
                "myfs {dir} {mnt}",
                "",
                "loop",
            ),
            (
                "fuse:sh -c 'x {dir} {mnt}'",
                "sh",
                "sh -c x {dir} {mnt}",
                "",
                "loop",
            ),
        ] {
            let target = parse(text);
            let spec = target.file_system().unwrap();
            assert_eq!(
                (
                    target.name.as_str(),
                    spec.fs.as_str(),
                    words(&spec.server).as_str(),
                    words(&spec.options).as_str(),
                    spec.medium.to_string().as_str()
                ),
                (name, FUSE, server, options, medium),
                "{text}"
            );
            assert_eq!(parse(&target.to_string()), target, "{target}");
        }
        let made = spec(r#"fuse:myfs {dev} {mnt},init="mkmyfs -q {dev}",mkfs="-x""#);
        assert_eq!(made.init, ["mkmyfs", "-q", "{dev}"]);
        assert_eq!(made.mkfs, ["-x"]);
        // The name of another target may look like a command.
        let mut other = parse("ext4");
        other.name = "fuse:x".to_owned();
        assert_eq!(parse(&other.to_string()), other);
        assert_eq!(spec("ext4,init=x").options, ["init=x"]);
    }

    #[test]
    fn broken_targets_say_what_is_broken() {
        for text in [
            "",
            "=",
            "a=",
            "ext4,",
            "ext4,,noatime",
            r#"ext4,mkfs="-i"#,
            "=ext4",
            r#"ext4,mkfs="it's""#,
            r#"ext4,mkfs='a"b"'"#,
        ] {
            assert!(text.parse::<Target>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_that_targets_get_by_themselves_are_printed_so_that_they_are_read_again() {
        let mut targets = [
            parse("ext4,noatime"),
            parse("ext4,noatime"),
            parse(r#"ext4,mkfs="-O x""#),
        ];
        make_names_unique(&mut targets);
        targets[2].name += "#2";
        let texts: Vec<String> = targets.iter().map(Target::to_string).collect();
        let expected = [
            "ext4,noatime",
            r##""ext4,noatime#2"=ext4,noatime"##,
            r##""ext4,mkfs=""-O x""#2"=ext4,mkfs="-O x""##,
        ];
        assert_eq!(texts, expected);
        for (text, target) in texts.iter().zip(targets) {
            assert_eq!(parse(text), target);
        }
        for text in [
            "ext4@loop",
            "a@loop@loop",
            "ext4,foo=a@ram@loop",
            r#"eext4,mkfs="-s_jmax(al -I xt6138"@ram"#,
            r#"ext4,mkfs="-L it\'s -O a""#,
            r#""b=c"=b=c"#,
            r#""x",noatime"#,
            r#"a="x""#,
        ] {
            assert_eq!(parse(&parse(text).to_string()), parse(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_target_survives_its_own_text(
            name in "[a-z][a-z0-9 =,@/\"#-]{0,8}",
            fs in "[a-z][a-z0-9]{1,6}",
            options in prop::collection::vec("[a-z]{1,6}(=[a-z0-9]{1,4})?", 0..3),
            mkfs in prop::collection::vec("[-a-zA-Z0-9,=^@]{1,6}|[a-z ]{1,5}", 0..3),
            tune in prop::collection::vec(prop::collection::vec("[-a-zA-Z0-9,=^@]{1,6}", 0..3), 0..3),
            journal in prop::sample::select(vec!["", ",journal=loop", ",journal=ram", ",journal=\"/dev/disk/a,b@c\""]),
            medium in prop::sample::select(vec!["", "@ram", "@/dev/sdb1", "@raid0:/dev/a+/dev/b", "@raid5:chunk=512K+loop+loop+loop", "@lvm:kind=thin+loop"]),
        ) {
            let is_word = |option: &String| !option.starts_with("mkfs=") && !option.starts_with("tune=");
            let options: Vec<_> = options.into_iter().filter(is_word).collect();
            let FileSystemSpec { journal, medium, .. } = spec(&format!("ext4{journal}{medium}"));
            let (server, init) = (Vec::new(), Vec::new());
            let kind = TargetKind::FileSystem(FileSystemSpec { fs, server, init, options, mkfs, tune, journal, medium });
            let target = Target { name, kind, controls: BTreeMap::new(), kernel: None, variant: None, optional: false };
            prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
        }

        #[test]
        fn a_server_survives_its_own_text(
            name in "[a-z][a-z0-9 =,@/\"#-]{0,8}",
            server in prop::collection::vec("[-a-zA-Z0-9,=^@'{} ]{1,6}|[{](dir|dev|mnt|uid)[}]", 1..4),
            init in prop::collection::vec("[-a-zA-Z0-9,=^@ ]{1,6}", 0..3),
            option in prop::sample::select(vec!["", ",over=xfs", ",over=\"ext4,noatime\"", ",over=xfs@ram"]),
        ) {
            let mut target = parse(&format!("fuse:x{option}"));
            target.name = name;
            if let TargetKind::FileSystem(spec) = &mut target.kind {
                (spec.server, spec.init) = (server, init);
            }
            prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
        }

        #[test]
        fn no_text_panics(text in "(fuse:)?[a-z=,@\"'/. ]{0,24}([{]mnt[}][a-z=,@\"]{0,6})?") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
            }
        }
    }
}
