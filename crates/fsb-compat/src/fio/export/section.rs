//! A section of a job file.

/// What a row becomes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// Options, in the order in which they are written.
    pub options: Vec<(&'static str, String)>,
    /// What a reader must know of them, a line each.
    pub remarks: Vec<String>,
    /// Each job has files of its own.
    pub jobs_have_files: bool,
    /// Its files are there before.
    pub prepared: bool,
    /// Nothing of its files may lie in memory.
    pub cold: bool,
    /// What it writes is on the device when it ends.
    pub durable: bool,
}

impl Section {
    /// Adds an option.
    pub fn set(&mut self, key: &'static str, value: impl ToString) {
        self.options.push((key, value.to_string()));
    }

    /// Adds a remark.
    pub fn remark(&mut self, line: impl Into<String>) {
        self.remarks.push(line.into());
    }
}
