//! The command language: one line, one command.
//!
//! fsb accepts the input that PostMark accepts, with the same meaning. Input that PostMark accepts although it cannot
//! be meant (a size with a unit, because it reads only the digits; a high bound below the low one) is refused, or
//! executed with a remark.

use std::ops::RangeInclusive;

use fsb_model::nearest::unknown;
use fsb_model::postmark::{LARGEST_FILE, MOST_BIAS, MOST_FILES, OFF};

use super::settings::{Location, Settings, Style};

/// Every command with its line of `help`.
pub(crate) const COMMANDS: [(&str, &str); 17] = [
    ("set size", "Sets low and high bounds of files"),
    ("set number", "Sets number of simultaneous files"),
    ("set seed", "Sets seed for random number generator"),
    ("set transactions", "Sets number of transactions"),
    ("set location", "Sets location of working files"),
    ("set subdirectories", "Sets number of subdirectories"),
    ("set read", "Sets read block size"),
    ("set write", "Sets write block size"),
    ("set buffering", "Sets usage of buffered I/O"),
    ("set bias read", "Sets the chance of choosing read over append"),
    ("set bias create", "Sets the chance of choosing create over delete"),
    ("set report", "Choose verbose or terse report format"),
    ("run", "Runs one iteration of benchmark"),
    ("load", "Read configuration file"),
    ("show", "Displays current configuration"),
    ("help", "Prints out available commands"),
    ("quit", "Exit program"),
];

/// The hint that names the command which lists the language.
pub const LANGUAGE_NEXT: &str = "'help' lists the commands";

/// Ranges as PostMark has them, and no more than fits.
const COUNT: RangeInclusive<i64> = 1..=i32::MAX as i64;
const FILES: RangeInclusive<i64> = 1..=MOST_FILES as i64;
const SIZE: RangeInclusive<i64> = 1..=LARGEST_FILE as i64;
const BIAS: RangeInclusive<i64> = OFF as i64..=MOST_BIAS as i64;
/// More directories than this are not made one after another in a sensible time.
const SUBDIRECTORIES: RangeInclusive<i64> = 1..=10_000_000;
/// The sum of a few of them must not overflow.
const WEIGHT: RangeInclusive<i64> = 1..=1_000_000;

/// The request of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A setting was changed, or the line was empty; with a remark if there is one.
    Done(Option<String>),
    /// One run; its report is added to a file where one is named.
    Run(Option<String>),
    /// Commands from a file.
    Load(String),
    /// The settings, added to a file where one is named.
    Show(Option<String>),
    /// The commands that begin so.
    Help(Option<String>),
    /// The end.
    Quit,
}

/// Parses a line and applies it to the settings.
///
/// # Errors
/// Fails if the line is not a command or if a value is invalid. The error names the closest known commands or the valid
/// values.
pub fn parse(line: &str, settings: &mut Settings) -> Result<Command, String> {
    let line = line.trim();
    match line {
        "" => return Ok(Command::Done(None)),
        "?" => return Ok(Command::Help(None)),
        "exit" => return Ok(Command::Quit),
        _ if line.starts_with('#') => return Ok(Command::Done(None)),
        _ if line.starts_with('!') => return Err("fsb postmark runs no shell commands: use a shell".to_owned()),
        _ => {}
    }
    let (name, value) = split(line).ok_or_else(|| {
        let words = line.split_whitespace().take(if line.starts_with("set bias") { 3 } else { 2 });
        let typed = match line.starts_with("set") {
            true => words.collect::<Vec<_>>().join(" "),
            false => words.take(1).collect(),
        };
        unknown("command", &typed, COMMANDS.iter().map(|(name, _)| *name))
    })?;
    let optional = (!value.is_empty()).then(|| value.to_owned());
    let shape = &mut settings.shape;
    match name {
        "set size" => {
            let remark = set_size(settings, value)?;
            return Ok(Command::Done(remark));
        }
        "set number" => shape.number = number(name, value, FILES)? as u32,
        "set seed" => settings.seed = number(name, value, COUNT)? as u32,
        "set transactions" => shape.transactions = number(name, value, COUNT)? as u32,
        "set location" => set_location(settings, value)?,
        "set subdirectories" => shape.subdirectories = number(name, value, SUBDIRECTORIES)? as u32,
        "set read" => settings.read_block = number(name, value, SIZE)? as u32,
        "set write" => settings.write_block = number(name, value, SIZE)? as u32,
        "set buffering" => settings.buffered = word(name, value, [("true", true), ("false", false)])?,
        "set bias read" => shape.bias_read = number(name, value, BIAS)? as i32,
        "set bias create" => shape.bias_create = number(name, value, BIAS)? as i32,
        "set report" => {
            settings.style = word(name, value, [("verbose", Style::Verbose), ("terse", Style::Terse)])?;
        }
        "run" => return Ok(Command::Run(optional)),
        "load" => return optional.map(Command::Load).ok_or_else(|| "load: name a file of commands".to_owned()),
        "show" => return Ok(Command::Show(optional)),
        "help" => return Ok(Command::Help(optional)),
        _ => return Ok(Command::Quit),
    }
    Ok(Command::Done(None))
}

/// Splits a line into the command and the rest, after a space or, as in many files, an equals sign.
fn split(line: &str) -> Option<(&'static str, &str)> {
    COMMANDS.iter().find_map(|(name, _)| {
        let rest = line.strip_prefix(name)?;
        let apart = rest.is_empty() || rest.starts_with([' ', '\t', '=']);
        apart.then(|| (*name, rest.trim_start_matches([' ', '\t', '=']).trim_end()))
    })
}

fn number(name: &str, text: &str, range: RangeInclusive<i64>) -> Result<i64, String> {
    let (least, most) = (range.start(), range.end());
    let wanted = format!("a whole number from {least} to {most}");
    if text.is_empty() {
        return Err(format!("{name}: give {wanted}"));
    }
    match text.parse::<i64>() {
        Ok(value) if range.contains(&value) => Ok(value),
        Ok(value) => Err(format!("{name}: {value} is out of range: give {wanted}")),
        Err(_) => Err(format!("{name}: '{text}' is not {wanted}, without a unit")),
    }
}

fn word<T: Copy, const N: usize>(name: &str, text: &str, known: [(&'static str, T); N]) -> Result<T, String> {
    let found = known.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
    found.ok_or_else(|| format!("{name}: give {}", words.join(" or ")))
}

/// Sets one bound, or two. Like PostMark, ignores a high bound below the low one, and returns a remark then.
fn set_size(settings: &mut Settings, value: &str) -> Result<Option<String>, String> {
    let mut words = value.split_whitespace();
    let low = number("set size", words.next().unwrap_or_default(), SIZE)? as u32;
    let high = words.next().map(|word| number("set size", word, SIZE)).transpose()?.map_or(low, |high| high as u32);
    if let Some(more) = words.next() {
        return Err(format!("set size: a low and a high bound, and nothing after them: '{more}'"));
    }
    (settings.shape.size_low, settings.shape.size_high) = (low, high.max(low));
    let remark =
        format!("the high bound, {high}, is below the low one: all files begin with {low} bytes, as in PostMark");
    Ok((high < low).then_some(remark))
}

/// Sets `PATH` or `PATH WEIGHT`. `+PATH` adds a location, `-PATH` removes one.
fn set_location(settings: &mut Settings, value: &str) -> Result<(), String> {
    let no_path = || "set location: name a directory".to_owned();
    if let Some(path) = value.strip_prefix('-') {
        let known = settings.locations.iter().position(|location| location.path == path);
        let index = known.ok_or_else(|| {
            let paths = settings.locations.iter().map(|location| location.path.as_str());
            format!("set location: {}", unknown("location", path, paths))
        })?;
        settings.locations.remove(index);
        return Ok(());
    }
    let (path, adds) = match value.strip_prefix('+') {
        Some(path) => (path, true),
        None => (value, false),
    };
    let (path, weight) = match path.rsplit_once(' ') {
        Some((path, weight)) => (path.trim_end(), number("set location: the weight", weight, WEIGHT)? as u32),
        None => (path, 1),
    };
    if path.is_empty() {
        return Err(no_path());
    }
    if path.contains('\0') {
        return Err("set location: a path cannot contain a NUL byte".to_owned());
    }
    if !adds {
        settings.locations.clear();
    }
    if settings.locations.len() >= 1000 {
        return Err("set location: more than 1000 locations".to_owned());
    }
    settings.locations.push(Location { path: path.to_owned(), weight });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &[&str]) -> Settings {
        let mut settings = Settings::default();
        for line in lines {
            parse(line, &mut settings).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        settings
    }

    fn refused(line: &str) -> String {
        let mut settings = Settings::default();
        let error = parse(line, &mut settings).expect_err(line);
        assert_eq!(settings, Settings::default(), "{line} changed something");
        error
    }

    #[test]
    fn settings_are_set() {
        let settings = all(&[
            "set size 1000 300000",
            "set number=20",
            "set transactions  7 ",
            "set subdirectories 3",
            "set read 4096",
            "set write 8192",
            "set bias read -1",
            "set bias create 10",
            "set buffering false",
            "set seed 9",
            "set report terse",
            "# a remark",
            "",
        ]);
        let shape = &settings.shape;
        assert_eq!((shape.size_low, shape.size_high, shape.number, shape.transactions), (1000, 300_000, 20, 7));
        assert_eq!((shape.subdirectories, shape.bias_read, shape.bias_create), (3, -1, 10));
        assert_eq!((settings.read_block, settings.write_block, settings.seed), (4096, 8192, 9));
        assert!(!settings.buffered && settings.style == Style::Terse);
    }

    #[test]
    fn locations_are_replaced_added_and_taken_away() {
        let settings = all(&["set location /a", "set location /b 3", "set location +/c 2", "set location +/d"]);
        let paths: Vec<_> = settings.locations.iter().map(|at| (at.path.as_str(), at.weight)).collect();
        assert_eq!(paths, [("/b", 3), ("/c", 2), ("/d", 1)]);
        assert_eq!(settings.whole_shape().weights, [3, 2, 1]);
        let settings = all(&["set location /b 3", "set location +/c", "set location -/b"]);
        assert_eq!(settings.locations.len(), 1);
        assert!(refused("set location -/nowhere").contains("/nowhere"));
        assert!(refused("set location /b heavy").contains("'heavy' is not a whole number from 1"));
        assert!(refused("set location").contains("name a directory"));
    }

    #[test]
    fn other_spellings_are_refused_with_the_right_command() {
        assert_eq!(refused("set numbers 4"), "unknown command 'set numbers': did you mean 'set number'?");
        assert!(refused("ruin").contains("did you mean 'run'"));
        assert!(refused("set bias reed 4").contains("did you mean 'set bias read'"));
        assert!(refused("set size 1k").contains("'1k' is not a whole number"));
        assert!(refused("set size").contains("give a whole number from 1"));
        assert!(refused("set size 1 2 3").contains("'3'"));
        assert!(refused("set bias read 11").contains("from -1 to 10"));
        assert!(refused("set seed 0").contains("0 is out of range"));
        assert!(refused("set seed 5000000000").contains("2147483647"));
        assert!(refused("set buffering yes").contains("give true or false"));
        assert!(refused("set report").contains("give verbose or terse"));
        assert!(refused("load").contains("name a file"));
        assert!(refused("!rm -r /").contains("use a shell"));
    }

    #[test]
    fn a_high_bound_below_the_low_one_is_taken_as_postmark_takes_it_and_said() {
        let mut settings = Settings::default();
        let remark = parse("set size 500 100", &mut settings).unwrap();
        assert!(matches!(remark, Command::Done(Some(text)) if text.contains("below the low one")));
        assert_eq!((settings.shape.size_low, settings.shape.size_high), (500, 500));
    }

    #[test]
    fn commands_take_what_follows_them() {
        let mut settings = Settings::default();
        let mut of = |line: &str| parse(line, &mut settings).unwrap();
        assert_eq!(of("run"), Command::Run(None));
        assert_eq!(of("run to file"), Command::Run(Some("to file".to_owned())));
        assert_eq!(of("show f"), Command::Show(Some("f".to_owned())));
        assert_eq!(of("load f"), Command::Load("f".to_owned()));
        assert_eq!((of("?"), of("help set b")), (Command::Help(None), Command::Help(Some("set b".to_owned()))));
        assert_eq!((of("quit"), of("exit")), (Command::Quit, Command::Quit));
    }
}
