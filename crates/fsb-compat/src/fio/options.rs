//! What fio's job options say about a direction: its operation and its sizes.

use serde_json::Value;

use super::document::Options;

/// A direction of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
    Trim,
    /// All of them in one, under `unified_rw_reporting`.
    Mixed,
    /// fsync and its like.
    Sync,
}

/// The options of a job, with those of all jobs behind them.
pub(super) struct Merged<'a> {
    pub job: &'a Options,
    pub global: &'a Options,
}

impl<'a> Merged<'a> {
    fn get(&self, names: &[&str]) -> Option<&'a str> {
        let find = |options: &'a Options| names.iter().find_map(|name| options.get(*name)).and_then(Value::as_str);
        find(self.job).or_else(|| find(self.global))
    }

    /// The value of `rw`, which is `read` where nothing is said.
    fn rw(&self) -> &'a str {
        self.get(&["rw", "readwrite"]).unwrap_or("read").split(':').next().unwrap_or("read")
    }

    /// What a direction is called here.
    pub fn operation(&self, way: Way) -> &'static str {
        let random = self.rw().starts_with("rand");
        match (way, random) {
            (Way::Read, false) => "read",
            (Way::Read, true) => "random_read",
            (Way::Write, false) => "write",
            (Way::Write, true) => "random_write",
            (Way::Trim, false) => "trim",
            (Way::Trim, true) => "random_trim",
            (Way::Mixed, _) => "mixed",
            (Way::Sync, _) => "sync",
        }
    }

    /// Whether the job was to do that at all.
    pub(crate) fn asks_for(&self, way: Way) -> bool {
        let rw = self.rw();
        let both = matches!(rw, "rw" | "readwrite" | "randrw");
        match way {
            Way::Read => both || rw.ends_with("read"),
            Way::Write => both || rw.ends_with("write"),
            Way::Trim => rw.contains("trim"),
            Way::Mixed | Way::Sync => false,
        }
    }

    /// Bytes of a file, where the options say so.
    pub fn file_size(&self) -> Option<u64> {
        if let Some(size) = self.get(&["filesize"]) {
            return self.bytes(size);
        }
        let files = self.get(&["nrfiles"]).map_or(Some(1), |text| text.parse().ok()).filter(|files| *files > 0)?;
        Some(self.bytes(self.get(&["size"])?)? / files)
    }

    /// Bytes of a call in a direction, where there is one size: 4 KiB where nothing is said.
    pub fn record_size(&self, way: Way) -> Option<u64> {
        if self.get(&["bsrange", "blocksize_range", "bssplit", "bs_unaligned"]).is_some() || way == Way::Sync {
            return None;
        }
        let sizes: Vec<&str> = self.get(&["bs", "blocksize"]).unwrap_or("4k").split(',').collect();
        if way == Way::Mixed && sizes.len() > 1 {
            return None;
        }
        let at = match way {
            Way::Write => 1,
            Way::Trim => 2,
            _ => 0,
        };
        self.bytes(sizes.get(at).or(sizes.last())?)
    }

    /// A size as fio reads it: `k` is 1024 unless `kb_base` says otherwise. What `ki` means has changed between versions
    /// and settings, so that it is not read.
    fn bytes(&self, text: &str) -> Option<u64> {
        let text = text.trim().to_ascii_lowercase();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let power = match unit.strip_suffix('b').unwrap_or(unit) {
            "" => 0,
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            _ => return None,
        };
        if power > 0 && self.get(&["kb_base"]).is_some_and(|base| base != "1024") {
            return None;
        }
        number.parse::<u64>().ok()?.checked_mul(1 << (10 * power)).filter(|bytes| *bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with<T>(job: Value, global: Value, ask: impl Fn(&Merged) -> T) -> T {
        let options = |value: Value| value.as_object().unwrap().clone().into_iter().collect::<Options>();
        let (job, global) = (options(job), options(global));
        ask(&Merged { job: &job, global: &global })
    }

    #[test]
    fn the_job_overrules_what_holds_for_all() {
        with(json!({"rw": "randrw:2"}), json!({"rw": "write", "bs": "4k,8k", "size": "1g"}), |merged| {
            assert_eq!(merged.operation(Way::Write), "random_write");
            assert!(merged.asks_for(Way::Read) && merged.asks_for(Way::Write) && !merged.asks_for(Way::Trim));
            assert_eq!(merged.record_size(Way::Read), Some(4096));
            assert_eq!((merged.record_size(Way::Write), merged.record_size(Way::Trim)), (Some(8192), Some(8192)));
            assert_eq!(merged.file_size(), Some(1 << 30));
        });
    }

    #[test]
    fn only_certain_sizes_are_read() {
        let size = |job: Value| with(job, json!({}), |merged| merged.file_size());
        assert_eq!(size(json!({"size": "256m"})), Some(256 << 20));
        assert_eq!(size(json!({"size": "4KB", "nrfiles": "2"})), Some(2048));
        assert_eq!(size(json!({"size": "1g", "filesize": "64k"})), Some(65536));
        for unsure in ["50%", "1ki", "4k-8k", "99999999999999999999", "16777216t", ""] {
            assert_eq!(size(json!({ "size": unsure })), None, "{unsure}");
        }
        assert_eq!(size(json!({"size": "1k", "kb_base": "1000"})), None);
        let record = |job: Value| with(job, json!({}), |merged| merged.record_size(Way::Read));
        assert_eq!((record(json!({})), record(json!({"bsrange": "1k-4k"}))), (Some(4096), None));
    }
}
