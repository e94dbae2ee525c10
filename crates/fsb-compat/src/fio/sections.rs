//! The text of fio's job files: sections of options, included files, environment variables and
//! keywords.

use std::collections::BTreeMap;

use super::tables::ALIASES;

/// Something in a file that fsb refuses, or does in another way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// From 1.
    pub line: usize,
    pub message: String,
}

/// The things outside a job file that its text refers to.
#[derive(Clone, Copy)]
pub struct Surroundings<'s> {
    /// Returns the value of an environment variable, or of a keyword of fio such as `$ncpus`, which
    /// is given with its `$`.
    pub variable: &'s dyn Fn(&str) -> Option<String>,
    /// Returns the text of an included file, or the reason why it cannot be read.
    pub include: &'s dyn Fn(&str) -> Result<String, String>,
}

/// The keywords that fio replaces by properties of the machine.
const KEYWORDS: [&str; 3] = ["$mb_memory", "$ncpus", "$pagesize"];

/// The maximum number of sections of a job file.
const MOST_JOBS: usize = 512;

/// The depth of included files; a deeper one includes itself.
const DEEPEST: usize = 8;

/// An option as written.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) line: usize,
    pub(super) value: String,
}

/// Options by name; a later one replaces an earlier one.
pub(super) type Options = BTreeMap<String, Written>;

/// A section as written.
#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) options: Options,
}

impl Section {
    /// Returns the directory and the name of the file, if the section names one.
    pub(super) fn file(&self) -> Option<(Option<String>, String)> {
        let value = |name: &str| self.options.get(name).map(|option| option.value.clone());
        Some((value("directory"), value("filename")?))
    }

    /// Returns whether the job starts when all earlier ones have ended.
    pub(super) fn waits(&self) -> bool {
        self.is_set("stonewall")
    }

    /// Returns whether the job begins a group of results.
    pub(super) fn begins_group(&self) -> bool {
        self.waits() || self.is_set("new_group")
    }

    fn is_set(&self, name: &str) -> bool {
        self.options
            .get(name)
            .is_some_and(|option| option.value != "0")
    }
}

/// Splits the text into sections. Options of `[global]` hold for the sections that follow.
pub(super) fn sections(
    text: &str,
    surroundings: Surroundings<'_>,
    problems: &mut Vec<Remark>,
) -> Vec<Section> {
    let mut splitter = Splitter {
        surroundings,
        problems,
        global: Options::new(),
        jobs: Vec::new(),
        in_global: None,
        line: 0,
    };
    splitter.file(text, 0);
    splitter.jobs
}

struct Splitter<'s> {
    surroundings: Surroundings<'s>,
    problems: &'s mut Vec<Remark>,
    global: Options,
    jobs: Vec<Section>,
    /// Whether the last section was `[global]`. `None` before the first section.
    in_global: Option<bool>,
    /// The line of the job file. Lines of an included file have that of its `include`.
    line: usize,
}

impl Splitter<'_> {
    fn refuse(&mut self, message: String) {
        self.problems.push(Remark {
            line: self.line,
            message,
        });
    }

    /// Takes the lines of a file. `depth` is the number of files that include it.
    fn file(&mut self, text: &str, depth: usize) {
        for (number, written) in (1..).zip(text.lines()) {
            if depth == 0 {
                self.line = number;
            }
            // As in fio, a comment may follow an option.
            let content = written.split([';', '#']).next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            if let Some(name) = content.strip_prefix('[') {
                self.section(name, content);
            } else if let Some(file) = content
                .strip_prefix("include")
                .filter(|rest| rest.starts_with([' ', '\t', '=']))
            {
                self.include(file.trim_start_matches(['=', ' ', '\t']), depth);
            } else {
                self.option(content);
            }
            if self.jobs.len() > MOST_JOBS {
                self.jobs.truncate(MOST_JOBS);
                return self.refuse(format!("more than {MOST_JOBS} jobs"));
            }
        }
    }

    fn section(&mut self, name: &str, content: &str) {
        let Some(name) = name
            .strip_suffix(']')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        else {
            return self.refuse(format!(
                "'{}' is not the name of a section: write [NAME]",
                excerpt(content)
            ));
        };
        self.in_global = Some(name == "global");
        if name != "global" {
            self.jobs.push(Section {
                name: name.to_owned(),
                line: self.line,
                options: self.global.clone(),
            });
        }
    }

    fn include(&mut self, name: &str, depth: usize) {
        if depth == DEEPEST {
            return self.refuse("include: files include each other without end".to_owned());
        }
        match (self.surroundings.include)(name) {
            Ok(text) => self.file(&text, depth + 1),
            Err(why) => self.refuse(format!("include: cannot read {}: {why}", excerpt(name))),
        }
    }

    fn option(&mut self, content: &str) {
        let (name, value) = content.split_once('=').unwrap_or((content, ""));
        let (name, value) = (name.trim(), value.trim());
        // The keywords of this option are part of names that fsb does not use.
        let value = match name {
            "filename_format" => Ok(value.to_owned()),
            _ => substituted(value, self.surroundings.variable),
        };
        let value = match value {
            Ok(value) => value,
            Err(why) => return self.refuse(format!("{}: {why}", excerpt(name))),
        };
        let name = ALIASES
            .iter()
            .find(|(alias, _)| *alias == name)
            .map_or(name, |(_, name)| name)
            .to_owned();
        let option = Written {
            line: self.line,
            value,
        };
        match (self.in_global, self.jobs.last_mut()) {
            (Some(true), _) => drop(self.global.insert(name, option)),
            (Some(false), Some(job)) => drop(job.options.insert(name, option)),
            _ => self.refuse(format!(
                "{}: the option precedes all sections: write [global] before it",
                excerpt(&name)
            )),
        }
    }
}

/// Returns the start of a text, for a message.
pub(super) fn excerpt(text: &str) -> String {
    text.chars()
        .take(40)
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

/// Replaces `${NAME}` by values of environment variables, and fio's keywords by properties of the
/// machine.
fn substituted(value: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), value);
    while let Some(at) = rest.find('$') {
        text += &rest[..at];
        let (name, after) = match rest[at + 1..].strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some(braced) => braced,
            None => KEYWORDS
                .iter()
                .find_map(|keyword| Some((*keyword, rest[at..].strip_prefix(keyword)?)))
                .ok_or("keywords other than $ncpus, $pagesize and $mb_memory are not supported: write the value")?,
        };
        let found = variable(name).filter(|found| !found.contains(['$', '\n']));
        text += &found
            .ok_or_else(|| format!("the environment variable {} is not set", excerpt(name)))?;
        rest = after;
    }
    Ok(text + rest)
}
