//! The workload files that come with the program, with the structure and the numbers of filebench's
//! own, and the sizes that its documentation recommends for small and large systems.

/// The extension of workload files.
const EXTENSION: &str = ".f";

/// A workload file that can be run by its name.
#[derive(Debug)]
pub struct Personality {
    /// The name of its file without the extension.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
    /// The variables that have recommended values.
    recommended: &'static [Recommended],
}

/// A class of systems with recommended sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemSize {
    /// One or two disks.
    Small,
    /// More than twenty disks.
    Large,
}

/// A variable with its recommended values.
#[derive(Debug, Clone, Copy)]
struct Recommended {
    variable: &'static str,
    /// `None` where the file's own value is for such systems.
    small: Option<&'static str>,
    large: &'static str,
}

/// 50,000 files, or 100,000.
const FILES: Recommended = Recommended {
    variable: "nfiles",
    small: Some("50000"),
    large: "100000",
};
/// [`FILES`], for the file that uses another name for the variable.
const COUNT: Recommended = Recommended {
    variable: "count",
    ..FILES
};
/// A file of 1 GiB, or of 5 GiB.
const FILE: Recommended = Recommended {
    variable: "filesize",
    small: Some("1g"),
    large: "5g",
};
/// 256 threads of random reads and writes.
const THREADS: Recommended = Recommended {
    variable: "nthreads",
    small: None,
    large: "256",
};

macro_rules! personalities {
    ($($name:literal: [$($recommended:expr),*],)*) => {
        &[$(Personality {
            name: $name,
            text: include_str!(concat!("personality/", $name, ".f")),
            recommended: &[$($recommended),*],
        }),*]
    };
}

/// Every workload file, in alphabetical order.
pub static PERSONALITIES: &[Personality] = personalities! {
    "copyfiles": [FILES],
    "createfiles": [FILES],
    "deletefiles": [COUNT],
    "filemicro_statfile": [FILES],
    "fileserver": [FILES],
    "fivestreamread": [FILE],
    "fivestreamreaddirect": [FILE],
    "fivestreamwrite": [FILE],
    "fivestreamwritedirect": [FILE],
    "listdirs": [FILES],
    "makedirs": [],
    "oltp": [FILE],
    "openfiles": [FILES],
    "randomread": [FILE, THREADS],
    "randomrw": [FILE, THREADS],
    "randomwrite": [FILE, THREADS],
    "removedirs": [],
    "singlestreamread": [FILE],
    "singlestreamreaddirect": [FILE],
    "singlestreamwrite": [],
    "singlestreamwritedirect": [FILE],
    "varmail": [FILES],
    "videoserver": [],
    "webproxy": [FILES],
    "webserver": [FILES],
};

/// Returns the workload file of that name, which includes the extension.
pub fn find(name: &str) -> Option<&'static Personality> {
    let name = name.strip_suffix(EXTENSION)?;
    PERSONALITIES
        .iter()
        .find(|personality| personality.name == name)
}

impl Personality {
    /// Returns the recommended values of variables; empty if none are recommended.
    pub fn recommended(&self, size: SystemSize) -> Vec<(String, String)> {
        let value = |recommended: &Recommended| {
            let value = match size {
                SystemSize::Small => recommended.small?,
                SystemSize::Large => recommended.large,
            };
            Some((recommended.variable.to_owned(), value.to_owned()))
        };
        self.recommended.iter().filter_map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filebench::wml::{self, Reading};

    #[test]
    fn every_file_can_be_run_with_its_own_and_with_recommended_sizes() {
        for personality in PERSONALITIES {
            let sizes =
                [SystemSize::Small, SystemSize::Large].map(|size| personality.recommended(size));
            for values in [&Vec::new(), &sizes[0], &sizes[1]] {
                let script = wml::read(
                    personality.text,
                    &Reading {
                        name: personality.name,
                        implied: None,
                        values,
                    },
                );
                let script =
                    script.unwrap_or_else(|problems| panic!("{}: {problems:?}", personality.name));
                assert_eq!(script.runs.len(), 1, "{}", personality.name);
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_in_the_list() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/filebench/personality");
        let entries = std::fs::read_dir(directory).unwrap();
        let mut files: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let names: Vec<String> = PERSONALITIES
            .iter()
            .map(|one| format!("{}{EXTENSION}", one.name))
            .collect();
        assert_eq!(names, files);
    }

    #[test]
    fn large_systems_have_more_files_larger_files_and_more_threads() {
        let value =
            |name: &str, size: SystemSize| find(&format!("{name}.f")).unwrap().recommended(size);
        let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        assert_eq!(
            value("fileserver", SystemSize::Small),
            pairs(&[("nfiles", "50000")])
        );
        assert_eq!(
            value("randomread", SystemSize::Large),
            pairs(&[("filesize", "5g"), ("nthreads", "256")])
        );
        assert_eq!(
            value("randomread", SystemSize::Small),
            pairs(&[("filesize", "1g")])
        );
        assert!(find("nothing.f").is_none() && find("varmail").is_none());
    }
}
