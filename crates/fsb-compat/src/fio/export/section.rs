//! A section of a job file.

/// The section of a case.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// Options, in the order in which they are written.
    pub options: Vec<(&'static str, String)>,
    /// Remarks for the reader of the job file, one per line.
    pub remarks: Vec<String>,
    /// Each job has its own files.
    pub jobs_have_files: bool,
    /// Its files exist before it begins.
    pub prepared: bool,
    /// Its files must not be cached when it begins.
    pub cold: bool,
    /// Its data must be on the device when it ends.
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
