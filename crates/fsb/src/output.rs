//! The destinations of an answer: standard output, files whose names imply their formats, and
//! directories.
//!
//! `-o FILE` is the one way out of `fsb run`, `choose`, `report`, `compare`, `fleet` and `publish`.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use fsb_model::{code, failure, nearest};
use fsb_report::FORMATS;
use fsb_store::owner;

use crate::help::heading;

/// A format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The name after `--format`.
    pub name: &'static str,
    /// The end of the names of its files.
    pub extension: &'static str,
    /// Terminals do not show it.
    pub is_binary: bool,
}

impl Form {
    /// Returns a format of text whose name is that of its files.
    pub const fn text(name: &'static str, extension: &'static str) -> Form {
        Form {
            name,
            extension,
            is_binary: false,
        }
    }

    /// Returns a format that is not text.
    pub const fn binary(name: &'static str) -> Form {
        Form {
            name,
            extension: name,
            is_binary: true,
        }
    }
}

/// Returns the formats of a report.
pub fn report_forms() -> Vec<Form> {
    FORMATS
        .iter()
        .map(|format| Form {
            name: format.name,
            extension: format.extension,
            is_binary: format.binary,
        })
        .collect()
}

/// A place that an answer is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Standard output, in the format of that name.
    Standard(&'static str),
    /// A file, in the format of that name.
    File(PathBuf, &'static str),
    /// A directory for many files.
    Directory(PathBuf),
}

/// The options that say where an answer goes.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Destinations {
    /// Report file, such as a.html or a.summary.csv: its name implies the format; DIR/ for every
    /// figure; repeatable
    #[arg(short = 'o', long = "output", value_name = "FILE", help_heading = heading::OUTPUT)]
    pub files: Vec<PathBuf>,
    /// Format of standard output, or of a file whose name implies none: see fsb list formats
    #[arg(long, value_name = "FORMAT", hide_short_help = true, help_heading = heading::OUTPUT)]
    pub format: Option<String>,
}

impl Destinations {
    /// Returns the destinations: the files, and standard output if there are none, or if a format
    /// is named that no file needs.
    ///
    /// # Errors
    ///
    /// `output/unknown-format` if an answer has no such format, and `arguments/conflict` if
    /// standard output is a terminal and the format is not text.
    pub fn resolve(&self, forms: &[Form]) -> anyhow::Result<Vec<Destination>> {
        let named = self
            .format
            .as_deref()
            .map(|name| find(forms, name))
            .transpose()?;
        let (mut found, mut is_used) = (Vec::new(), false);
        for file in &self.files {
            let shown = file.display().to_string();
            if shown.ends_with('/') || file.is_dir() {
                found.push(Destination::Directory(file.to_owned()));
                continue;
            }
            let form = match (implied(&shown, forms), named) {
                (Some(form), _) => form,
                (None, Some(form)) => {
                    is_used = true;
                    form
                }
                (None, None) => return Err(unknown(&shown, file.extension(), forms)),
            };
            found.push(Destination::File(file.to_owned(), form.name));
        }
        if found.is_empty() || named.is_some() && !is_used {
            let form = named.unwrap_or(Form::text("text", "txt"));
            if form.is_binary && std::io::stdout().is_terminal() {
                let message = format!(
                    "--format {} is not text: name a file with -o FILE.{}",
                    form.name, form.extension
                );
                return Err(failure::error(&code::CONFLICT, message));
            }
            found.insert(0, Destination::Standard(form.name));
        }
        Ok(found)
    }

    /// Returns whether standard output gets the first screen.
    pub fn is_first_screen(&self) -> bool {
        match &self.format {
            Some(name) => name == "text",
            None => self.files.is_empty(),
        }
    }
}

fn find(forms: &[Form], name: &str) -> anyhow::Result<Form> {
    forms
        .iter()
        .copied()
        .find(|form| form.name == name || form.extension == name)
        .ok_or_else(|| {
            let names = forms.iter().map(|form| form.name);
            failure::error(
                &code::UNKNOWN_FORMAT,
                nearest::unknown("format", name, names),
            )
        })
}

/// Returns the format that the end of a file name implies: of `xfs.summary.csv` it is summary-csv.
fn implied(name: &str, forms: &[Form]) -> Option<Form> {
    forms
        .iter()
        .flat_map(|form| [(form.extension, form), (form.name, form)])
        .filter(|(end, _)| {
            name.strip_suffix(end)
                .is_some_and(|stem| stem.ends_with('.') || end.contains('.'))
        })
        .max_by_key(|(end, _)| end.len())
        .map(|(_, form)| *form)
}

/// Returns the error of a file whose name implies no format.
fn unknown(shown: &str, extension: Option<&OsStr>, forms: &[Form]) -> anyhow::Error {
    match extension {
        Some(extension) => {
            let names = forms.iter().map(|form| form.name);
            let extension = extension.to_string_lossy();
            failure::error(
                &code::UNKNOWN_FORMAT,
                nearest::unknown("format", &extension, names),
            )
        }
        None => failure::advised(
            &code::UNKNOWN_FORMAT,
            format!("-o {shown}: the report file has no extension"),
            format!("write -o {shown}.html; a mount option is part of a target: ext4,{shown}"),
        ),
    }
}

/// Makes the directory of a destination.
///
/// # Errors
///
/// `output/failed` with the reason.
pub fn make_directory(directory: &Path) -> anyhow::Result<()> {
    let made = owner::result_owner()
        .act(|| std::fs::create_dir_all(directory))
        .and_then(|made| made);
    made.map_err(|error| {
        failure::failed_call(
            &code::OUTPUT_FAILED,
            &error,
            format!("cannot make {}: {error}", directory.display()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(files: &[&str], format: Option<&str>) -> anyhow::Result<Vec<Destination>> {
        let destinations = Destinations {
            files: files.iter().map(PathBuf::from).collect(),
            format: format.map(str::to_owned),
        };
        destinations.resolve(&report_forms())
    }

    #[test]
    fn names_imply_formats_and_a_slash_means_a_directory() {
        let found = resolved(&["a.html", "b.summary.csv", "figures/"], Some("json")).unwrap();
        let expected = [
            Destination::Standard("json"),
            Destination::File("a.html".into(), "html"),
            Destination::File("b.summary.csv".into(), "summary-csv"),
            Destination::Directory("figures/".into()),
        ];
        assert_eq!(found, expected);
        assert_eq!(
            resolved(&[], None).unwrap(),
            [Destination::Standard("text")]
        );
        assert_eq!(
            resolved(&["pipe"], Some("csv")).unwrap(),
            [Destination::File("pipe".into(), "csv")]
        );
        for (file, word) in [("a.ods", "unknown format"), ("noatime", "no extension")] {
            let why = resolved(&[file], None).unwrap_err().to_string();
            assert!(why.contains(word), "{why}");
        }
    }
}
