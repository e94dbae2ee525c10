//! PostMark 1.5x: its command language, its generator, its report.
//!
//! Its operations follow from the generator ([`Twister`]) and from the pool of
//! [`fsb_model::postmark`]: `fsb postmark` creates the same files as PostMark, byte by byte. The
//! engine makes the calls.

pub mod print;
mod results;

use std::fmt::Write;
use std::ops::RangeInclusive;

use fsb_model::nearest::unknown;
use fsb_model::postmark::{Draw, LARGEST_FILE, MOST_BIAS, MOST_FILES, OFF, Pool, Shape};
use serde::{Deserialize, Serialize};

pub(crate) use results::TOOL;
pub use results::{BENAS, DORDEVIC, PublishedRate, benas, dordevic};

// The settings of a run, and the output of `show`.

/// The form of the report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Style {
    /// For people.
    #[default]
    Verbose,
    /// One line of numbers.
    Terse,
}

/// A directory for files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    pub path: String,
    /// The share of the files.
    pub weight: u32,
}

/// Everything that commands can set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The parameters that determine the operations. `whole_shape` adds the weights of the
    /// locations.
    pub shape: Shape,
    /// The seed of the generator.
    pub seed: u32,
    /// The directories of the files; the working directory if there are none.
    pub locations: Vec<Location>,
    /// Bytes of one read.
    pub read_block: u32,
    /// Bytes of one write.
    pub write_block: u32,
    /// Uses the streams of the C library if true, system calls if false.
    pub buffered: bool,
    /// The form of the report.
    pub style: Style,
}

impl Default for Settings {
    /// Returns the settings that PostMark starts with.
    fn default() -> Settings {
        Settings {
            shape: Shape::default(),
            seed: 42,
            locations: Vec::new(),
            read_block: 512,
            write_block: 512,
            buffered: true,
            style: Style::Verbose,
        }
    }
}

impl Settings {
    /// Returns the shape with the locations' weights.
    fn whole_shape(&self) -> Shape {
        Shape {
            weights: self
                .locations
                .iter()
                .map(|location| location.weight)
                .collect(),
            ..self.shape.clone()
        }
    }

    /// Returns the answer to `show`.
    pub fn show(&self, working_directory: &str) -> String {
        let Shape {
            size_low,
            size_high,
            number,
            transactions,
            subdirectories,
            bias_read,
            bias_create,
            ..
        } = self.shape;
        let mut text = format!(
            "Current configuration is:\nThe base number of files is {number}\nTransactions: {transactions}\n"
        );
        _ = match size_low == size_high {
            true => writeln!(text, "Files are {} in size", scaled(size_low)),
            false => writeln!(
                text,
                "Files range between {} and {} in size",
                scaled(size_low),
                scaled(size_high)
            ),
        };
        let (ies, here) = match self.locations.len() {
            0 => ("y", working_directory),
            1 => ("y", ""),
            _ => ("ies", ""),
        };
        _ = writeln!(text, "Working director{ies}: {here}");
        for Location { path, weight } in &self.locations {
            _ = writeln!(text, "\t{path} (weight={weight})");
        }
        if subdirectories > 0 {
            let ies = if subdirectories == 1 { "y" } else { "ies" };
            _ = writeln!(text, "{subdirectories} subdirector{ies} will be used");
        }
        let (read, write) = (scaled(self.read_block), scaled(self.write_block));
        let using = if self.buffered { "Using" } else { "Not using" };
        let style = match self.style {
            Style::Verbose => "verbose",
            Style::Terse => "terse",
        };
        _ = write!(
            text,
            "Block sizes are: read={read}, write={write}\n\
             Biases are: read/append={bias_read}, create/delete={bias_create}\n\
             {using} Unix buffered file I/O\n\
             Random number generator seed is {}\n\
             Report format is {style}.\n",
            self.seed
        );
        text
    }
}

/// Returns the bytes in the unit that PostMark takes.
fn scaled(bytes: u32) -> String {
    match bytes {
        0x10_0000.. => format!("{:.2} megabytes", bytes as f32 / 1_048_576.0),
        0x400.. => format!("{:.2} kilobytes", bytes as f32 / 1024.0),
        _ => format!("{bytes} bytes"),
    }
}

// The command language: one line, one command.
//
// fsb accepts the input that PostMark accepts, with the same meaning. Input that PostMark accepts
// although it cannot be meant (a size with a unit, because it reads only the digits; a high bound
// below the low one) is refused, or executed with a remark.

/// Every command with its line of `help`.
const COMMANDS: [(&str, &str); 17] = [
    ("set size", "Sets low and high bounds of files"),
    ("set number", "Sets number of simultaneous files"),
    ("set seed", "Sets seed for random number generator"),
    ("set transactions", "Sets number of transactions"),
    ("set location", "Sets location of working files"),
    ("set subdirectories", "Sets number of subdirectories"),
    ("set read", "Sets read block size"),
    ("set write", "Sets write block size"),
    ("set buffering", "Sets usage of buffered I/O"),
    (
        "set bias read",
        "Sets the chance of choosing read over append",
    ),
    (
        "set bias create",
        "Sets the chance of choosing create over delete",
    ),
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
/// Fails if the line is not a command or if a value is invalid. The error names the closest known
/// commands or the valid values.
pub fn parse(line: &str, settings: &mut Settings) -> Result<Command, String> {
    let line = line.trim();
    match line {
        "" => return Ok(Command::Done(None)),
        "?" => return Ok(Command::Help(None)),
        "exit" => return Ok(Command::Quit),
        _ if line.starts_with('#') => return Ok(Command::Done(None)),
        _ if line.starts_with('!') => {
            return Err("fsb postmark runs no shell commands: use a shell".to_owned());
        }
        _ => {}
    }
    let (name, value) = split(line).ok_or_else(|| {
        let words = line
            .split_whitespace()
            .take(if line.starts_with("set bias") { 3 } else { 2 });
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
        "set buffering" => {
            settings.buffered = word(name, value, [("true", true), ("false", false)])?
        }
        "set bias read" => shape.bias_read = number(name, value, BIAS)? as i32,
        "set bias create" => shape.bias_create = number(name, value, BIAS)? as i32,
        "set report" => {
            settings.style = word(
                name,
                value,
                [("verbose", Style::Verbose), ("terse", Style::Terse)],
            )?;
        }
        "run" => return Ok(Command::Run(optional)),
        "load" => {
            return optional
                .map(Command::Load)
                .ok_or_else(|| "load: name a file of commands".to_owned());
        }
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

fn word<T: Copy, const N: usize>(
    name: &str,
    text: &str,
    known: [(&'static str, T); N],
) -> Result<T, String> {
    let found = known
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, value)| *value);
    let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
    found.ok_or_else(|| format!("{name}: give {}", words.join(" or ")))
}

/// Sets one bound, or two. Like PostMark, ignores a high bound below the low one, and returns a
/// remark then.
fn set_size(settings: &mut Settings, value: &str) -> Result<Option<String>, String> {
    let mut words = value.split_whitespace();
    let low = number("set size", words.next().unwrap_or_default(), SIZE)? as u32;
    let high = words
        .next()
        .map(|word| number("set size", word, SIZE))
        .transpose()?
        .map_or(low, |high| high as u32);
    if let Some(more) = words.next() {
        return Err(format!(
            "set size: a low and a high bound, and nothing after them: '{more}'"
        ));
    }
    (settings.shape.size_low, settings.shape.size_high) = (low, high.max(low));
    let remark = format!(
        "the high bound, {high}, is below the low one: all files begin with {low} bytes, as in PostMark"
    );
    Ok((high < low).then_some(remark))
}

/// Sets `PATH` or `PATH WEIGHT`. `+PATH` adds a location, `-PATH` removes one.
fn set_location(settings: &mut Settings, value: &str) -> Result<(), String> {
    if let Some(path) = value.strip_prefix('-') {
        let known = settings
            .locations
            .iter()
            .position(|location| location.path == path);
        let index = known.ok_or_else(|| {
            let paths = settings
                .locations
                .iter()
                .map(|location| location.path.as_str());
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
        Some((path, weight)) => (
            path.trim_end(),
            number("set location: the weight", weight, WEIGHT)? as u32,
        ),
        None => (path, 1),
    };
    if path.is_empty() {
        return Err("set location: name a directory".to_owned());
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
    settings.locations.push(Location {
        path: path.to_owned(),
        weight,
    });
    Ok(())
}

/// Returns the text that every file begins with, and the generator in its state after that text.
/// PostMark makes twice as many bytes as it ever writes, and the operations depend on how many it
/// made.
pub fn source(settings: &Settings) -> (Vec<u8>, Twister) {
    let mut twister = Twister::new(settings.seed);
    let largest = settings.shape.size_high as usize;
    let text = (0..largest).map(|_| 32 + twister.below(95) as u8).collect();
    (0..largest).for_each(|_| _ = twister.below(95));
    (text, twister)
}

/// Returns the operations of a run.
pub fn pool(settings: &Settings, twister: Twister) -> Pool<Twister> {
    Pool::new(settings.whole_shape(), twister)
}

// The generator: MT19937 of 1998 as its authors seeded it in 1999, with the multiplier 69069.
//
// M. Matsumoto and T. Nishimura, "Mersenne Twister: A 623-dimensionally equidistributed uniform
// pseudorandom number generator", 1998. Libraries of today seed it as its authors proposed in 2002,
// which gives other numbers.

/// Words of state.
const WORDS: usize = 624;
/// The distance to the word that each word is combined with.
const AHEAD: usize = 397;
const MULTIPLIER: u32 = 69_069;

/// The generator in one of its states.
#[derive(Debug, Clone)]
pub struct Twister {
    state: [u32; WORDS],
    next: usize,
}

impl Twister {
    /// Seeds the state. Half of each word comes from one step of a linear congruence, half from the
    /// next.
    pub fn new(seed: u32) -> Twister {
        let mut linear = seed;
        let mut upper_half = || {
            let half = linear & 0xffff_0000;
            linear = linear.wrapping_mul(MULTIPLIER).wrapping_add(1);
            half
        };
        let state = std::array::from_fn(|_| upper_half() | upper_half() >> 16);
        Twister { state, next: WORDS }
    }

    /// Computes a whole new state.
    fn twist(&mut self) {
        for index in 0..WORDS {
            let following = self.state[(index + 1) % WORDS];
            let joined = self.state[index] & 0x8000_0000 | following & 0x7fff_ffff;
            let twisted = if joined & 1 == 0 { 0 } else { 0x9908_b0df };
            self.state[index] = self.state[(index + AHEAD) % WORDS] ^ joined >> 1 ^ twisted;
        }
        self.next = 0;
    }
}

impl Draw for Twister {
    #[inline]
    fn draw(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }
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
        assert_eq!(
            (
                shape.size_low,
                shape.size_high,
                shape.number,
                shape.transactions
            ),
            (1000, 300_000, 20, 7)
        );
        assert_eq!(
            (shape.subdirectories, shape.bias_read, shape.bias_create),
            (3, -1, 10)
        );
        assert_eq!(
            (settings.read_block, settings.write_block, settings.seed),
            (4096, 8192, 9)
        );
        assert!(!settings.buffered && settings.style == Style::Terse);
    }

    #[test]
    fn locations_are_replaced_added_and_taken_away() {
        let settings = all(&[
            "set location /a",
            "set location /b 3",
            "set location +/c 2",
            "set location +/d",
        ]);
        let paths: Vec<_> = settings
            .locations
            .iter()
            .map(|at| (at.path.as_str(), at.weight))
            .collect();
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
        assert_eq!(
            refused("set numbers 4"),
            "unknown command 'set numbers': did you mean 'set number'?"
        );
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
        assert_eq!(
            (settings.shape.size_low, settings.shape.size_high),
            (500, 500)
        );
    }

    #[test]
    fn commands_take_what_follows_them() {
        let mut settings = Settings::default();
        let mut of = |line: &str| parse(line, &mut settings).unwrap();
        assert_eq!(of("run"), Command::Run(None));
        assert_eq!(of("run to file"), Command::Run(Some("to file".to_owned())));
        assert_eq!(of("show f"), Command::Show(Some("f".to_owned())));
        assert_eq!(of("load f"), Command::Load("f".to_owned()));
        assert_eq!(
            (of("?"), of("help set b")),
            (Command::Help(None), Command::Help(Some("set b".to_owned())))
        );
        assert_eq!((of("quit"), of("exit")), (Command::Quit, Command::Quit));
    }

    /// Compares with the content of PostMark's files: a character for each number. From a trace of
    /// Debian's PostMark 1.53, seed 7.
    #[test]
    fn it_gives_the_numbers_of_postmark() {
        let mut twister = Twister::new(7);
        let text: String = (0..32)
            .map(|_| char::from(32 + twister.below(95) as u8))
            .collect();
        assert_eq!(text, "~D>WgrDWVc2w%/'Rj0VFG;M{dM}PfUkA");
    }
}
