//! Files and filesets: the files that flows work on, and their directory.

use std::path::PathBuf;

use fsb_model::Bytes;
use fsb_model::flow::{FileSet, Pick, Spread, Width};

use super::{Lower, Places};
use crate::filebench::wml::Remark;
use crate::filebench::wml::syntax::Attribute;
use crate::filebench::wml::value::{Given, Value};

/// Bytes of a file without a given size: filebench's default.
const USUAL_SIZE: u64 = 1024;
/// The default shape of a gamma distribution, in thousandths.
const USUAL_GAMMA: u64 = 1500;

impl Lower<'_> {
    pub(super) fn filesets(&mut self, line: usize, places: &mut Places) -> Vec<FileSet> {
        let files = self.files.clone();
        if files.is_empty() && !self.scope.incomplete {
            self.say(line, "run: no file or fileset is defined");
        }
        let sets = files.into_iter().map(|(line, one, attributes)| {
            let set = self.fileset(line, one, attributes);
            places.put(format!("fileset {}", set.name), line);
            set
        });
        sets.collect()
    }

    fn fileset(&mut self, line: usize, one: bool, attributes: &[Attribute]) -> FileSet {
        let mut notes = Vec::new();
        let mut note = |line, message: &str| notes.push(Remark { line, message: message.to_owned() });
        let what = if one { "file" } else { "fileset" };
        let mut given = Given::new(what, line, attributes, &self.scope, &mut self.problems);
        let name = given.word("name").unwrap_or_default();
        // `directory` reads the path of all sets.
        given.word("path");
        let size = given.spread("size").or_else(|| given.spread("filesize"));
        let size = size.unwrap_or(Spread::Exact(Bytes(USUAL_SIZE)));
        let prealloc = match given.value("prealloc") {
            None | Some((_, Value::Flag(false))) => 0,
            Some((_, Value::Flag(true))) => 100,
            Some((_, Value::Number(share @ 0..=100))) => share,
            Some((line, other)) => {
                given.say(line, format!("prealloc={} is not a percentage", other.text()));
                0
            }
        };
        // Files are made by several threads anyway.
        given.flag("paralloc");
        if let Some((line, true)) = given.flag("reuse") {
            note(line, "reuse: fsb makes new files and removes them at the end");
        }
        if let Some((line, true)) = given.flag("cached") {
            note(line, "cached: new files are in the page cache as far as they fit; fsb does not read them in advance");
        }
        let read_only = given.flag("readonly").is_some_and(|(_, flag)| flag);
        let mut set = FileSet {
            name,
            files: 1,
            directories: 0,
            size,
            width: Width::default(),
            preallocated: prealloc as f64 / 100.0,
            pick: Pick::Rotate,
            read_only,
        };
        if !one {
            set.files = given.number("entries").unwrap_or(0);
            set.directories = given.number("leafdirs").unwrap_or(0);
            if let Some((line, true)) = given.flag("trusttree") {
                note(line, "trusttree: fsb makes new files and removes them at the end");
            }
            // Version 1.4 describes distributions with these two.
            if let Some(gamma) = given.number("filesizegamma").filter(|gamma| *gamma > 0) {
                set.size = Spread::Gamma { mean: Bytes(set.size.mean()), shape: gamma as f64 / 1000.0 };
            }
            let gamma = given.number("dirgamma").unwrap_or(USUAL_GAMMA);
            if let Some(mean) = given.number("dirwidth").filter(|mean| *mean > 0) {
                set.width = Width { mean, shape: gamma as f64 / 1000.0 };
            }
        }
        given.finish();
        self.script.notes.extend(notes);
        set
    }

    /// Returns the one directory of all sets.
    pub(super) fn directory(&mut self, line: usize) -> PathBuf {
        let mut found: Option<(usize, PathBuf)> = None;
        for (line, one, attributes) in self.files.clone() {
            let what = if one { "file" } else { "fileset" };
            let mut ignored = Vec::new();
            // `fileset` has reported the other problems already.
            let mut given = Given::new(what, line, attributes, &self.scope, &mut ignored);
            let Some(path) = given.word("path").map(PathBuf::from) else {
                self.say(line, format!("{what}: a path is missing"));
                continue;
            };
            match &found {
                Some((first, other)) if *other != path => {
                    let (first, other) = (*first, other.display().to_string());
                    let message = format!(
                        "{what}: path={}, and that of line {first} is {other}: all sets must be in one directory",
                        path.display()
                    );
                    self.say(line, message);
                }
                Some(_) => {}
                None => found = Some((line, path)),
            }
        }
        if found.is_none() && self.problems.is_empty() {
            self.say(line, "run: no directory: set path=DIR, or use --dir DIR");
        }
        found.map(|(_, path)| path).unwrap_or_default()
    }
}
