//! The options of a job: the direction, pattern and sizes of its work, and the settings that are
//! compared.

use std::collections::BTreeMap;

use super::document::Options;

/// Options that change neither the work nor its time: names, places, reports and the order of jobs.
static OTHER_OPTIONS: &[&str] = &[
    "allrandrepeat",
    "aux_path",
    "clat_percentiles",
    "create_serialize",
    "description",
    "directory",
    "exitall",
    "exitall_on_error",
    "filename",
    "filename_format",
    "group_reporting",
    "hostname",
    "kb_base",
    "lat_percentiles",
    "lockfile",
    "name",
    "new_group",
    "opendir",
    "per_job_logs",
    "percentile_list",
    "randrepeat",
    "randseed",
    "significant_figures",
    "slat_percentiles",
    "stonewall",
    "unified_rw_reporting",
    "unique_filename",
    "unit_base",
    "unlink",
    "wait_for",
    "wait_for_previous",
];

/// Other names of options.
static ALIASES: &[(&str, &str)] = &[
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("timeout", "runtime"),
    ("io_limit", "io_size"),
    ("fdatasync_interval", "fdatasync"),
];

/// Options for which 0 is not the default.
static ZERO_MATTERS: &[&str] = &[
    "buffered",
    "fallocate",
    "invalidate",
    "rwmixread",
    "rwmixwrite",
];

/// Options that are times.
static TIMES: &[&str] = &["runtime", "ramp_time", "startdelay"];

/// A direction of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
    Trim,
    /// The sum of all directions, with `unified_rw_reporting`.
    Mixed,
    /// Calls such as fsync.
    Sync,
}

/// The options of a job, with those of all jobs behind them.
pub(super) struct Merged<'a> {
    pub job: &'a Options,
    pub global: &'a Options,
    /// Whether fio printed the options. Before 2.16 it did not.
    pub are_known: bool,
}

impl<'a> Merged<'a> {
    fn get(&self, names: &[&str]) -> Option<&'a str> {
        [self.job, self.global]
            .into_iter()
            .find_map(|options| names.iter().find_map(|name| options.get(*name))?.as_str())
    }

    /// Returns the value of `rw`, which is `read` by default; `None` if it is unknown or a log of
    /// calls takes its place.
    pub fn rw(&self) -> Option<&'a str> {
        if !self.are_known || self.get(&["read_iolog", "replay"]).is_some() {
            return None;
        }
        self.get(&["rw", "readwrite"])
            .unwrap_or("read")
            .split(':')
            .next()
    }

    /// Returns the name of a direction, with its pattern if that is known.
    pub fn operation(&self, way: Way) -> &'static str {
        let random = self.rw().is_some_and(|rw| rw.starts_with("rand"));
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

    /// Returns whether the options of the job request this direction.
    pub fn asks_for(&self, way: Way) -> bool {
        let Some(rw) = self.rw() else { return false };
        let both = matches!(rw, "rw" | "readwrite" | "randrw");
        match way {
            Way::Read => both || rw.ends_with("read"),
            Way::Write => both || rw.ends_with("write"),
            Way::Trim => rw.contains("trim"),
            Way::Mixed | Way::Sync => false,
        }
    }

    /// Returns the number of processes that the options request on each host; `None` if it is
    /// unknown.
    pub fn processes(&self) -> Option<u64> {
        if self.are_known {
            self.get(&["numjobs"])
                .map_or(Some(1), |text| text.trim().parse().ok())
        } else {
            None
        }
    }

    /// Returns the bytes of a file, if the options give them.
    pub fn file_size(&self) -> Option<u64> {
        if let Some(size) = self.get(&["filesize"]) {
            return self.bytes(size);
        }
        let files = self
            .get(&["nrfiles"])
            .map_or(Some(1), |text| text.parse().ok())
            .filter(|files| *files > 0)?;
        Some(self.bytes(self.get(&["size"])?)? / files)
    }

    /// Returns the bytes of a call in a direction: 4 KiB by default. Returns `None` if they are
    /// unknown or differ.
    pub fn record_size(&self, way: Way) -> Option<u64> {
        let differ = [
            "bsrange",
            "blocksize_range",
            "bssplit",
            "bs_unaligned",
            "bs_is_seq_rand",
            "blocksize_unaligned",
        ];
        if self.rw().is_none() || self.get(&differ).is_some() || way == Way::Sync {
            return None;
        }
        let sizes: Vec<&str> = self
            .get(&["bs", "blocksize"])
            .unwrap_or("4k")
            .split(',')
            .collect();
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

    /// Parses a size as fio does: `k` is 1024 unless `kb_base` says otherwise. The meaning of `ki`
    /// depends on versions and settings, so it is not parsed.
    fn bytes(&self, text: &str) -> Option<u64> {
        let text = text.trim().to_ascii_lowercase();
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
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
        number
            .parse::<u64>()
            .ok()?
            .checked_mul(1 << (10 * power))
            .filter(|bytes| *bytes > 0)
    }

    /// Returns why the counters of a direction contradict the options: it has operations that
    /// nothing requests.
    pub fn contradiction(&self, way: Way) -> Option<String> {
        let rw = self.rw().filter(|_| !self.asks_for(way))?;
        let requested: &[&str] = match way {
            Way::Read => &["verify", "do_verify", "experimental_verify", "verify_only"],
            Way::Trim => &["trim_percentage"],
            Way::Write => &[],
            Way::Mixed | Way::Sync => return None,
        };
        if self.get(requested).is_some_and(|value| value != "0") {
            return None;
        }
        let sum = if self.get(&["group_reporting"]).is_some() {
            "; the report is a sum of its group"
        } else {
            ""
        };
        Some(format!("rw={rw} requests none{sum}"))
    }

    /// Returns the settings that change the work or its time, in one spelling; none if they are
    /// unknown. `version` is that of fio, on which the default engine depends.
    pub fn settings(&self, version: &str) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::new();
        if !self.are_known {
            return settings;
        }
        let engine = if version.starts_with("2.") || version.starts_with("1.") {
            "sync"
        } else {
            "psync"
        };
        for (name, value) in [
            ("ioengine", engine),
            ("iodepth", "1"),
            ("direct", "0"),
            ("numjobs", "1"),
            ("rw", "read"),
        ] {
            settings.insert(name.to_owned(), value.to_owned());
        }
        for (name, value) in self.global.iter().chain(self.job) {
            let Some((name, value)) = value.as_str().and_then(|value| self.setting(name, value))
            else {
                continue;
            };
            match (name, value.as_str()) {
                ("buffered", value) => {
                    _ = settings.insert("direct".to_owned(), u8::from(value == "0").to_string())
                }
                (_, "0") if !settings.contains_key(name) && !ZERO_MATTERS.contains(&name) => {}
                _ => _ = settings.insert(name.to_owned(), value),
            }
        }
        settings
    }

    /// Returns the usual name and spelling of a setting; `None` for an option that does not change
    /// the work.
    fn setting<'n>(&self, name: &'n str, value: &str) -> Option<(&'n str, String)> {
        let name = ALIASES
            .iter()
            .find(|(alias, _)| *alias == name)
            .map_or(name, |(_, usual)| usual);
        let is_report =
            name.starts_with("log_") || name.starts_with("disable_") || name.ends_with("_log");
        if is_report || OTHER_OPTIONS.contains(&name) || name.starts_with("write_iolog") {
            return None;
        }
        let value = value.trim();
        let value = match name {
            _ if value.is_empty() => "1", // a flag
            "sync" if value == "none" => "0",
            _ if TIMES.contains(&name) => value.strip_suffix('s').unwrap_or(value),
            _ => value,
        };
        Some((
            name,
            value
                .split(',')
                .map(|part| {
                    self.bytes(part)
                        .map_or_else(|| part.to_owned(), |bytes| bytes.to_string())
                })
                .collect::<Vec<_>>()
                .join(","),
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn with<T>(job: Value, global: Value, ask: impl Fn(&Merged) -> T) -> T {
        let options = |value: Value| {
            value
                .as_object()
                .unwrap()
                .clone()
                .into_iter()
                .collect::<Options>()
        };
        let (job, global) = (options(job), options(global));
        ask(&Merged {
            job: &job,
            global: &global,
            are_known: true,
        })
    }

    #[test]
    fn the_job_overrules_what_holds_for_all() {
        with(
            json!({"rw": "randrw:2"}),
            json!({"rw": "write", "bs": "4k,8k", "size": "1g"}),
            |merged| {
                assert_eq!(merged.operation(Way::Write), "random_write");
                assert!(
                    merged.asks_for(Way::Read)
                        && merged.asks_for(Way::Write)
                        && !merged.asks_for(Way::Trim)
                );
                assert_eq!(merged.record_size(Way::Read), Some(4096));
                assert_eq!(
                    (
                        merged.record_size(Way::Write),
                        merged.record_size(Way::Trim)
                    ),
                    (Some(8192), Some(8192))
                );
                assert_eq!(merged.file_size(), Some(1 << 30));
            },
        );
    }

    #[test]
    fn only_certain_sizes_are_read() {
        let size = |job: Value| with(job, json!({}), |merged| merged.file_size());
        assert_eq!(size(json!({"size": "256m"})), Some(256 << 20));
        assert_eq!(size(json!({"size": "4KB", "nrfiles": "2"})), Some(2048));
        assert_eq!(size(json!({"size": "1g", "filesize": "64k"})), Some(65536));
        for unsure in [
            "50%",
            "1ki",
            "4k-8k",
            "99999999999999999999",
            "16777216t",
            "",
        ] {
            assert_eq!(size(json!({ "size": unsure })), None, "{unsure}");
        }
        assert_eq!(size(json!({"size": "1k", "kb_base": "1000"})), None);
        let record = |job: Value| with(job, json!({}), |merged| merged.record_size(Way::Read));
        assert_eq!(
            (record(json!({})), record(json!({"bsrange": "1k-4k"}))),
            (Some(4096), None)
        );
    }

    #[test]
    fn counters_without_a_request_contradict_the_options() {
        let reads = |job: Value| with(job, json!({}), |merged| merged.contradiction(Way::Read));
        assert_eq!(
            reads(json!({"rw": "randwrite"})).as_deref(),
            Some("rw=randwrite requests none")
        );
        assert!(
            reads(json!({"rw": "write", "group_reporting": ""}))
                .unwrap()
                .ends_with("a sum of its group")
        );
        for fine in [
            json!({}),
            json!({"rw": "rw"}),
            json!({"rw": "write", "verify": "crc32c"}),
            json!({"read_iolog": "x"}),
        ] {
            assert_eq!(reads(fine), None);
        }
    }

    #[test]
    fn settings_have_one_spelling() {
        let settings = |job: Value| with(job, json!({}), |merged| merged.settings("3.33"));
        let spelled = [
            json!({"bs": "4k", "runtime": "60s", "time_based": "", "direct": "1", "rate": "1m,2m", "fsync": "0"}),
            json!({"blocksize": "4096", "timeout": "60", "time_based": "1", "buffered": "0", "rate": "1024k,2m"}),
        ];
        assert_eq!(settings(spelled[0].clone()), settings(spelled[1].clone()));
        assert_eq!(
            settings(json!({})),
            settings(
                json!({"name": "a", "filename": "/x", "ioengine": "psync", "write_bw_log": "l"})
            )
        );
        assert_ne!(settings(json!({})), settings(json!({"ioengine": "libaio"})));
        assert_ne!(settings(json!({})), settings(json!({"invalidate": "0"})));
    }

    #[test]
    fn options_that_fio_did_not_print_are_unknown() {
        let none = Options::new();
        let merged = Merged {
            job: &none,
            global: &none,
            are_known: false,
        };
        assert_eq!(
            (
                merged.operation(Way::Write),
                merged.record_size(Way::Write),
                merged.file_size()
            ),
            ("write", None, None)
        );
        assert!(!merged.asks_for(Way::Read) && merged.settings("2.2.10").is_empty());
    }
}
