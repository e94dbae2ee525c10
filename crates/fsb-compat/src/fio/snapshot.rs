//! Reports that fio printed during a run (`--status-interval`): they are part of the run that ends
//! after them.

use super::document::{Document, Fields, Job};

/// The directions of a job that count operations.
static WAYS: [&str; 4] = ["read", "write", "trim", "mixed"];

/// Returns whether a report was printed during the run of the next one. `continues` says whether an
/// earlier report was printed during the run of this one.
pub(super) fn is_snapshot(document: &Document, next: &Document, continues: bool) -> bool {
    if !is_same_work(document, next)
        || was_printed_later(document, next)
        || !repeats_errors(document, next)
    {
        return false;
    }
    let elapsed = next
        .jobs
        .iter()
        .filter_map(|job| job.fields.whole("elapsed"))
        .max();
    // Seconds of `elapsed` are rounded up, so the run began after this moment, and at most a second
    // later.
    let earliest = |end: i64, unit: i64| Some(end.saturating_sub(elapsed?.saturating_mul(unit)));
    if let (Some(printed), Some(end)) = (document.timestamp_ms, next.timestamp_ms)
        && let Some(begin) = earliest(end, 1000)
    {
        return begin.saturating_add(1000) <= printed;
    }
    if let (Some(printed), Some(end)) = (document.timestamp, next.timestamp)
        && let Some(begin) = earliest(end, 1)
    {
        // Both are rounded down to seconds: it is certain with a margin of two, and impossible with
        // none.
        if begin.saturating_add(2) <= printed {
            return true;
        }
        if begin > printed {
            return false;
        }
    }
    continues_counters(document, next) && (continues || ran_longer(document, next))
}

/// Returns whether the next report has an earlier time: files of reports need not be in the order
/// of time.
fn was_printed_later(document: &Document, next: &Document) -> bool {
    let milliseconds = document.timestamp_ms.zip(next.timestamp_ms);
    let seconds = document.timestamp.zip(next.timestamp);
    [milliseconds, seconds]
        .into_iter()
        .flatten()
        .any(|(one, other)| one > other)
}

/// Returns whether the next report has every error of this one. An error stays until the end of a
/// run.
fn repeats_errors(document: &Document, next: &Document) -> bool {
    let sums = document.sum.iter().zip(&next.sum);
    let mut pairs = document.jobs.iter().zip(&next.jobs).chain(sums);
    document.sum.is_some() == next.sum.is_some()
        && pairs.all(|(one, other)| {
            one.unknown_error().is_none()
                && one
                    .error()
                    .is_none_or(|(error, _)| other.error().is_some_and(|(other, _)| other == error))
        })
}

fn is_same_work(document: &Document, next: &Document) -> bool {
    document.version == next.version
        && document.jobs.len() == next.jobs.len()
        && !next.jobs.is_empty()
        && document.jobs.iter().zip(&next.jobs).all(|(one, other)| {
            let [options, next] = [one, other].map(|job| {
                let options = job.fields.get("job options")?.get();
                Some(options.split_whitespace().collect::<String>())
            });
            (&one.name, one.group, &one.host) == (&other.name, other.group, &other.host)
                && options == next
        })
}

/// Returns whether every counter of the next report may have grown from this one.
fn continues_counters(document: &Document, next: &Document) -> bool {
    document.jobs.iter().zip(&next.jobs).all(|(one, other)| {
        ["elapsed", "ctx"]
            .iter()
            .all(|key| not_less(&one.fields, &other.fields, key))
            && WAYS.iter().all(|way| grew_in(one, other, way))
    })
}

fn grew_in(one: &Job, other: &Job, way: &str) -> bool {
    let (Some(one), Some(other)) = (one.fields.object(way), other.fields.object(way)) else {
        return true;
    };
    if one.count("total_ios") == Some(0) {
        return true;
    }
    let limits = ["clat_ns", "clat", "lat_ns", "lat"]
        .into_iter()
        .all(|times| match (one.object(times), other.object(times)) {
            (Some(one), Some(other)) => {
                not_less(&other, &one, "min") && not_less(&one, &other, "max")
            }
            _ => true,
        });
    limits && not_less(&one, &other, "total_ios") && not_less(&one, &other, "runtime")
}

/// Returns whether a counter of `other` is at least that of `one`, as far as both have it.
fn not_less(one: &Fields, other: &Fields, key: &str) -> bool {
    one.whole(key)
        .zip(other.whole(key))
        .is_none_or(|(one, other)| one <= other)
}

/// Returns whether the next report counts clearly more operations of a longer time. The last report
/// of a run may follow another one at once, but repetitions of one job have similar times as well.
fn ran_longer(document: &Document, next: &Document) -> bool {
    document.jobs.iter().zip(&next.jobs).any(|(one, other)| {
        let seconds = growth(&one.fields, &other.fields, "elapsed");
        seconds.is_none_or(|seconds| seconds >= 0)
            && WAYS
                .iter()
                .any(|way| ran_longer_in(one, other, way, seconds))
    })
}

fn growth(one: &Fields, other: &Fields, key: &str) -> Option<i64> {
    Some(other.whole(key)?.saturating_sub(one.whole(key)?))
}

fn ran_longer_in(one: &Job, other: &Job, way: &str, seconds: Option<i64>) -> bool {
    let (Some(one), Some(other)) = (one.fields.object(way), other.fields.object(way)) else {
        return false;
    };

    // `runtime` is in milliseconds. Half of the growth of `elapsed` allows for its
    // rounding, and a tenth of the time for the jitter of repetitions.
    let least = one.whole("runtime").unwrap_or_default() / 10 + 1;
    let time = match (growth(&one, &other, "runtime"), seconds) {
        (Some(milliseconds), Some(seconds)) => {
            milliseconds >= seconds.saturating_mul(500).max(least)
        }
        (Some(milliseconds), None) => milliseconds >= least,
        (None, Some(seconds)) => seconds > 0,
        (None, None) => false,
    };
    time && growth(&one, &other, "total_ios").is_some_and(|operations| operations > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::document::parse;

    fn report(time: &str, elapsed: u32, operations: u32, runtime: u32) -> String {
        format!(
            "{{\"fio version\": \"fio-2.1.3\", {time} \"jobs\": [{{\"jobname\": \"w\", \"groupid\": 0, \"elapsed\": {elapsed}, \
             \"write\": {{\"total_ios\": {operations}, \"runtime\": {runtime}, \"clat\": {{\"min\": 3, \"max\": 50}}}}}}]}}"
        )
    }

    fn snapshot(one: &str, other: &str, continues: bool) -> bool {
        is_snapshot(&parse(one).document, &parse(other).document, continues)
    }

    #[test]
    fn without_times_of_day_growing_counters_are_one_run() {
        let [first, second, last] = [(2, 1000, 1000), (3, 2000, 2000), (3, 2100, 2050)]
            .map(|(elapsed, operations, runtime)| report("", elapsed, operations, runtime));
        assert!(snapshot(&first, &second, false));
        // Intervals may be shorter than a second.
        assert!(snapshot(
            &report("", 1, 400, 400),
            &report("", 1, 800, 800),
            false
        ));
        // The last report follows a snapshot at once.
        assert!(snapshot(&second, &last, true) && !snapshot(&second, &last, false));
        assert!(!snapshot(&second, &first, false) && !snapshot(&second, &first, true));
    }

    #[test]
    fn repetitions_with_similar_times_are_runs() {
        let runs =
            [(11, 50_000, 10_000), (12, 50_400, 10_001)].map(|(e, o, r)| report("", e, o, r));
        assert!(!snapshot(&runs[0], &runs[1], false));
        let other_job = runs[1].replace("\"w\"", "\"x\"");
        assert!(!snapshot(&report("", 2, 1000, 1000), &other_job, false));
    }

    #[test]
    fn times_of_day_decide_where_they_can() {
        let at = |second: u32, elapsed, operations| {
            report(
                &format!("\"timestamp\": {second},"),
                elapsed,
                operations,
                1000,
            )
        };
        assert!(snapshot(&at(100, 5, 10), &at(103, 8, 20), false));
        assert!(!snapshot(&at(100, 5, 10), &at(130, 8, 20), false));
    }

    #[test]
    fn reports_in_reverse_order_are_kept_apart() {
        for key in ["timestamp", "timestamp_ms"] {
            let unit = if key == "timestamp" { 1 } else { 1000 };
            let at = |second: u32| report(&format!("\"{key}\": {},", second * unit), 5, 10, 1000);
            assert!(snapshot(&at(100), &at(102), false) && snapshot(&at(100), &at(100), false));
            assert!(
                !snapshot(&at(102), &at(100), false) && !snapshot(&at(9000), &at(100), true),
                "{key}"
            );
        }
        // Reports of clients have a time, but no elapsed seconds.
        let of_client = |second: u32, operations: u32| {
            report(
                &format!("\"timestamp\": {second},"),
                1,
                operations,
                operations,
            )
            .replace("\"elapsed\": 1,", "")
        };
        assert!(snapshot(
            &of_client(100, 1000),
            &of_client(101, 2000),
            false
        ));
        assert!(!snapshot(
            &of_client(101, 1000),
            &of_client(100, 2000),
            false
        ));
    }

    #[test]
    fn an_error_that_the_next_report_lacks_keeps_its_report() {
        let with = |second: u32, error: &str| {
            let time = format!("\"timestamp\": {second},");
            report(&time, 5, 10, 1000)
                .replace("\"groupid\"", &format!("\"error\": {error}, \"groupid\""))
        };
        assert!(
            snapshot(&with(100, "28"), &with(102, "28"), false)
                && snapshot(&with(100, "0"), &with(102, "28"), false)
        );
        for (error, next) in [("28", "0"), ("28", "5"), ("\"many\"", "0")] {
            assert!(
                !snapshot(&with(100, error), &with(102, next), false),
                "{error}"
            );
        }
    }
}
