//! Values of options: numbers, sizes, names.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;

use super::options::OptionsError;

/// The most processes that IOzone runs at once.
const MOST_PROCESSES: u32 = 256;
/// The largest record of IOzone, in kilobytes.
const LARGEST_RECORD: u64 = 16 * 1024;

/// A value and the option that it belongs to.
pub(super) struct Value {
    /// The option, as it is typed.
    pub option: &'static str,
    /// What follows it.
    pub text: OsString,
}

impl Value {
    fn text(&self) -> Cow<'_, str> {
        self.text.to_string_lossy()
    }

    /// A name.
    pub fn path(self) -> Result<PathBuf, OptionsError> {
        if self.text.is_empty() {
            return Err(OptionsError::new(format!("{}: the name is empty", self.option)));
        }
        Ok(PathBuf::from(self.text))
    }

    /// A whole number between limits.
    pub fn number(&self, least: u64, most: u64) -> Result<u64, OptionsError> {
        let text = self.text();
        let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            OptionsError::new(format!("{} {text}: write a whole number from {least} to {most}", self.option))
        })
    }

    /// A number of processes.
    pub fn processes(&self) -> Result<u32, OptionsError> {
        Ok(self.number(1, u64::from(MOST_PROCESSES))? as u32)
    }

    /// A size in kilobytes: a number with k, m, g, or none of them for kilobytes.
    pub fn size(&self) -> Result<u64, OptionsError> {
        let text = self.text();
        let (digits, factor) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1),
            Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 10),
            Some(b'g' | b'G') => (&text[..text.len() - 1], 1 << 20),
            _ => (&*text, 1u64),
        };
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = plain.then(|| digits.parse::<u64>().ok()?.checked_mul(factor)).flatten();
        // A kilobyte more than this and the size in bytes would be no file offset.
        number.filter(|size| (1..=i64::MAX as u64 >> 10).contains(size)).ok_or_else(|| {
            let option = self.option;
            OptionsError::new(format!("{option} {text}: write a size in kB, or with k, m or g, such as 512, 64k or 2g"))
        })
    }

    /// The size of a record, in kilobytes.
    pub fn record(&self) -> Result<u64, OptionsError> {
        let size = self.size()?;
        if size > LARGEST_RECORD {
            let option = self.option;
            return Err(OptionsError::new(format!("{option} {}: IOzone's largest record is 16m", self.text())));
        }
        Ok(size)
    }
}
