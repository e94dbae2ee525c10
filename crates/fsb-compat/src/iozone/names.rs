//! The names of IOzone's operations.

/// An operation and its other names.
struct Operation {
    name: &'static str,
    /// Other names, without blanks, hyphens and underscores, in lower case: the titles of `-R`, the rows of throughput
    /// mode, the comparator's short names, and the captions of its figures.
    others: &'static [&'static str],
}

/// In the order of IOzone's columns.
#[rustfmt::skip] // a table reads as one
static OPERATIONS: &[Operation] = &[
    Operation { name: "write", others: &["writer", "iwrite", "initialwrite", "initialwriter", "initialwriters"] },
    Operation { name: "rewrite", others: &["rewriter", "rewriters"] },
    Operation { name: "read", others: &["reader", "readers", "iread"] },
    Operation { name: "reread", others: &["rereader", "rereaders"] },
    Operation { name: "random_read", others: &["randrd", "randread", "randomreader", "randomreaders"] },
    Operation { name: "random_write", others: &["randwr", "randwrite", "randomwriter", "randomwriters"] },
    Operation { name: "backward_read", others: &["bkwdrd", "bkwdread", "backwardsread", "readbackwards", "reverseread", "reversereaders"] },
    Operation { name: "record_rewrite", others: &["recrewr", "recordrewriters", "rewriterecord"] },
    Operation { name: "stride_read", others: &["striderd", "stridedread", "stridereaders"] },
    Operation { name: "fwrite", others: &["fwriter", "fwriters"] },
    Operation { name: "frewrite", others: &["refwrite", "refwriters"] },
    Operation { name: "fread", others: &["freader", "freaders"] },
    Operation { name: "freread", others: &["refread", "refreaders"] },
    Operation { name: "mixed", others: &["mixedworkload", "randommix"] },
    Operation { name: "pwrite", others: &["pwriters", "pwritewriters"] },
    Operation { name: "repwrite", others: &["repwriters"] },
    Operation { name: "pread", others: &["preaders", "preadreaders"] },
    Operation { name: "repread", others: &["repreaders"] },
    Operation { name: "pwritev", others: &["pwritevwriters"] },
    Operation { name: "repwritev", others: &[] },
    Operation { name: "preadv", others: &["preadvreaders"] },
    Operation { name: "repreadv", others: &[] },
];

/// Returns the name of one of IOzone's operations for any of its names: the one used here, IOzone's column heading, the
/// titles of its `-R` report (`Re-writer`), its throughput mode (`initial writers`), or the comparator's (`randrd`).
///
/// Case, blanks, hyphens and underscores do not matter.
pub fn operation(name: &str) -> Option<&'static str> {
    let plain = |name: &str| -> String {
        name.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).flat_map(char::to_lowercase).collect()
    };
    let wanted = plain(name);
    let found = OPERATIONS
        .iter()
        .find(|operation| operation.others.contains(&wanted.as_str()) || plain(operation.name) == wanted)?;
    Some(found.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_means_one_operation() {
        for known in OPERATIONS {
            assert_eq!(operation(known.name), Some(known.name));
            for other in known.others {
                assert_eq!(operation(other), Some(known.name), "{other}");
            }
        }
    }

    #[test]
    fn the_names_of_the_2011_figure_and_its_comparator_are_known() {
        let figure = [
            "Write",
            "Re-write",
            "Read",
            "Re-read",
            "Random read",
            "Random write",
            "Backwards read",
            "Record rewrite",
            "Strided Read",
            "Fwrite",
            "Frewrite",
            "Fread",
            "Freread",
        ];
        let comparator = [
            "iwrite", "rewrite", "iread", "reread", "randrd", "randwr", "bkwdrd", "recrewr", "striderd", "fwrite",
            "frewrite", "fread", "freread",
        ];
        let columns = OPERATIONS.iter().map(|operation| operation.name);
        for ((figure, comparator), name) in figure.into_iter().zip(comparator).zip(columns) {
            assert_eq!((operation(figure), operation(comparator)), (Some(name), Some(name)));
        }
        assert_eq!(operation("ALL"), None);
        assert_eq!(operation(""), None);
    }
}
