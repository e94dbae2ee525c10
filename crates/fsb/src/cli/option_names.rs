//! The options that a message names. Crates below the command line do not know which command runs,
//! so their remedies may name an option of another one; the message then says whose it is.

use std::collections::BTreeSet;

/// The command whose options the remedies of crates below the command line name.
const FIRST: &str = "fsb run";
/// The commands that measure with the same crates and have other options. No text of theirs
/// contains a command of the user, whose options would be mistaken for those of fsb.
const BESIDE: [&str; 5] = [
    "fsb micro",
    "fsb iozone",
    "fsb postmark",
    "fsb filebench",
    "fsb fio",
];

/// Returns each command with its full name, `fsb` first.
pub fn commands(root: &clap::Command) -> Vec<(String, &clap::Command)> {
    let mut found = vec![(root.get_name().to_owned(), root)];
    let mut at = 0;
    while let Some((name, command)) = found.get(at).cloned() {
        for inner in command.get_subcommands() {
            found.push((format!("{name} {}", inner.get_name()), inner));
        }
        at += 1;
    }
    found
}

/// Returns whether a command has an option of that long name, which begins with `--`.
pub fn has(root: &clap::Command, command: &clap::Command, option: &str) -> bool {
    let name = option.trim_start_matches('-');
    let is_global = root
        .get_arguments()
        .any(|argument| argument.is_global_set() && argument.get_long() == Some(name));
    let is_own = command.get_arguments().any(|argument| {
        let aliases = argument.get_all_aliases().unwrap_or_default();
        argument.get_long() == Some(name) || aliases.contains(&name)
    });
    // clap passes the options of IOzone on.
    let is_passed_on =
        command.get_name() == "iozone" && fsb_compat::iozone::LONG_OPTIONS.contains(&option);
    is_global || is_own || is_passed_on || ["help", "version"].contains(&name)
}

/// An option in a text.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedOption {
    /// The name, with `--`.
    pub option: String,
    /// The command that the text names before it in the same clause, such as `fsb run`.
    pub command: Option<String>,
}

/// Returns the options that a text names. `is_command` knows the subcommands of fsb. Words in
/// quotes are what the user typed, or commands.
pub fn named(text: &str, is_command: impl Fn(&str) -> bool) -> Vec<NamedOption> {
    let mut found = Vec::new();
    let (mut command, mut is_quoted): (Vec<&str>, bool) = (Vec::new(), false);
    for word in text.split_whitespace() {
        let bare = word.trim_start_matches(['(', '[', '<']);
        let opens = bare.starts_with(['\'', '"', '`']);
        is_quoted |= opens;
        let plain = bare.trim_end_matches([',', ';', '.', ')', ':', ']']);
        match plain {
            "fsb" => command = vec!["fsb"],
            _ if command.len() == 1 && is_command(plain) => command.push(plain),
            _ if bare.starts_with("--") && !is_quoted => {
                let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
                let end = bare.find(|letter| !is_part(letter)).unwrap_or(bare.len());
                let option = bare[..end].trim_end_matches('-');
                if !option.is_empty() {
                    found.push(NamedOption {
                        option: option.to_owned(),
                        command: (command.len() == 2).then(|| command.join(" ")),
                    });
                }
            }
            _ => {}
        }
        if plain.ends_with(['\'', '"', '`']) && (!opens || plain.len() > 1) {
            is_quoted = false;
        }
        if word.ends_with([',', ';', '.', ')', ':']) {
            command.clear();
        }
    }
    found
}

/// Returns the note that a text needs in one of [`BESIDE`]: which of its options it lacks and
/// [`FIRST`] has. Returns `None` if there are none.
pub fn note(text: &str, running: &str, root: &clap::Command) -> Option<String> {
    if !BESIDE.contains(&running) {
        return None;
    }
    let all = commands(root);
    let find = |name: &str| all.iter().find(|(found, _)| found == name);
    let (own, first) = (find(running)?.1, find(FIRST)?.1);
    let mut notes = BTreeSet::new();
    for NamedOption { option, command } in named(text, |name| root.find_subcommand(name).is_some())
    {
        if command.is_none() && !has(root, own, &option) && has(root, first, &option) {
            notes.insert(format!("{option} is an option of {FIRST}"));
        }
    }
    let notes: Vec<String> = notes.into_iter().collect();
    (!notes.is_empty()).then(|| notes.join(", "))
}
