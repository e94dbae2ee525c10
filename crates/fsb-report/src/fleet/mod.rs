//! One answer from the runs of many hosts.
//!
//! ```text
//! run of each host ─▶ HostResult ─▶ Fleet (random effects, property that explains) ─▶ text, page, figures, JSON
//! ```

mod assemble;
mod document;
pub(crate) mod figure;
mod host;
mod page;
mod text;

pub use document::{
    Explained, ExplainedGroup, Explanation, Fleet, FleetComparison, FleetHost, HostRatio, LeftOut,
    SCHEMA, Unmatched, VerdictCounts,
};
pub use host::{HostResult, Properties};
pub use page::page;
pub use text::screen;

#[cfg(test)]
mod tests {
    use fsb_model::Better;
    use fsb_stats::{Effect, Interval, Verdict};
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64Mcg;

    use super::host::HostEffect;
    use super::*;
    use crate::summary::Summary;
    use crate::{fleet_figures, sample};

    const CASE: &str = "create 4K files, durable";

    /// Returns the result of a host of the sample run.
    fn sample_host() -> HostResult {
        let (record, trials) = sample::run(&["ext4", "xfs"], 6);
        HostResult::new(
            "host".to_owned(),
            &record,
            &Summary::of_run(&record, &trials),
            "ext4",
        )
        .unwrap()
    }

    /// Returns a host for each log-ratio, with one case. The last `rotating` hosts have rotating
    /// disks.
    fn hosts(log_ratios: &[f64], rotating: usize) -> Vec<HostResult> {
        let mut base = sample_host();
        base.cells.retain(|cell| cell.workload == CASE);
        let host = |(place, log_ratio): (usize, &f64)| {
            let mut host = HostResult {
                name: format!("web{place}"),
                ..base.clone()
            };
            let disk = if place >= log_ratios.len() - rotating {
                "rotating disk"
            } else {
                "solid-state disk"
            };
            host.properties.insert("disk".to_owned(), disk.to_owned());
            let effect = Effect {
                log_ratio: *log_ratio,
                error: 0.01,
                degrees: 10.0,
            };
            let interval = Interval {
                lo: (log_ratio - 0.0223).exp(),
                hi: (log_ratio + 0.0223).exp(),
            };
            let verdict = match () {
                () if interval.lo > 1.0 => Verdict::ProbablyFaster,
                () if interval.hi < 1.0 => Verdict::ProbablySlower,
                () => Verdict::Inconclusive,
            };
            host.cells[0].found = Ok(HostEffect {
                effect,
                interval,
                verdict,
            });
            host
        };
        log_ratios.iter().enumerate().map(host).collect()
    }

    fn scattered(mean: f64, scatter: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut normal = || (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0;
        (0..count).map(|_| mean + scatter * normal()).collect()
    }

    fn only(fleet: &Fleet) -> &FleetComparison {
        assert_eq!(fleet.comparisons.len(), 1);
        &fleet.comparisons[0]
    }

    /// Returns the answer of forty hosts. The last two have rotating disks and lower ratios.
    fn forty() -> Fleet {
        let mut ratios = scattered(0.086, 0.02, 38, 1);
        ratios.extend([-0.2, -0.24]);
        Fleet::new(&hosts(&ratios, 2), Vec::new(), "ext4")
    }

    #[test]
    fn the_disk_explains_why_two_hosts_differ() {
        let fleet = forty();
        let comparison = only(&fleet);
        let Explanation::Explained(explained) = &comparison.explanation else {
            panic!("{:?}", comparison.explanation)
        };
        assert_eq!(explained.properties, ["disk"]);
        assert_eq!(
            explained
                .groups
                .iter()
                .map(|group| group.hosts.len())
                .collect::<Vec<_>>(),
            [38, 2]
        );
        assert_eq!(explained.groups[1].value, "rotating disk");
        assert!(explained.p_value <= 0.05 && explained.explained > 0.8);
        let sentence = &comparison.sentence;
        assert!(
            sentence.starts_with(
                "xfs is 9.4 % faster than ext4 at create 4K files, durable on 38 of 40 hosts ["
            ),
            "{sentence}"
        );
        assert!(
            sentence.contains(
                "], with solid-state disk; on the 2 with rotating disk it is 20 % slower ["
            ),
            "{sentence}"
        );
        assert!(sentence.ends_with("] (only 2 hosts)."), "{sentence}");
        assert_eq!(
            (comparison.verdicts.slower, comparison.hosts.len()),
            (2, 40)
        );
        assert_eq!(
            comparison.hosts[0].host, "web39",
            "the smallest ratio is first"
        );
    }

    #[test]
    fn hosts_that_differ_without_a_reason_are_reported_so() {
        let mut all = hosts(&scattered(0.1, 0.1, 24, 2), 12);
        all.iter_mut().enumerate().for_each(|(place, host)| {
            drop(
                host.properties
                    .insert("kernel".to_owned(), (place % 3).to_string()),
            )
        });
        let fleet = Fleet::new(&all, Vec::new(), "ext4");
        let comparison = only(&fleet);
        assert_eq!(
            comparison.explanation,
            Explanation::Unexplained { tested: 2 }
        );
        assert!(
            comparison
                .sentence
                .contains("the mean of 24 hosts; faster on "),
            "{}",
            comparison.sentence
        );
        let text = screen(&fleet, 80, false);
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            joined.contains("none of 2 properties that divide the hosts explains how they differ"),
            "{text}"
        );
        assert!(
            joined.contains("next host [") && joined.contains("I² 9"),
            "{text}"
        );
    }

    #[test]
    fn properties_that_divide_the_hosts_alike_are_one_test_with_all_their_names() {
        let mut all = hosts(
            &[
                0.1, 0.11, 0.09, 0.1, 0.105, -0.1, -0.11, -0.09, -0.1, -0.105,
            ],
            5,
        );
        for host in &mut all {
            let disk = host.properties["disk"].clone();
            host.properties
                .insert("processor".to_owned(), format!("sold with {disk}"));
        }
        let fleet = Fleet::new(&all, Vec::new(), "ext4");
        let Explanation::Explained(explained) = &only(&fleet).explanation else {
            panic!("{:?}", fleet.comparisons)
        };
        assert_eq!((explained.properties.len(), explained.tested), (2, 1));
        assert!(
            screen(&fleet, 1000, false)
                .contains("2 properties that divide the hosts in the same way")
        );
    }

    #[test]
    fn equal_hosts_need_no_explanation() {
        let fleet = Fleet::new(&hosts(&scattered(0.1, 0.01, 20, 3), 10), Vec::new(), "ext4");
        assert_eq!(only(&fleet).explanation, Explanation::NoDifferences);
    }

    #[test]
    fn few_hosts_are_answered_with_what_they_can_show() {
        let one = Fleet::new(&hosts(&[0.1], 0), Vec::new(), "ext4");
        assert!(
            only(&one).sentence.contains("only one host (web0)"),
            "{}",
            only(&one).sentence
        );
        let two = Fleet::new(&hosts(&[0.1, 0.12], 0), Vec::new(), "ext4");
        assert!(screen(&two, 200, false).contains("a prediction for the next host needs 3 hosts"));
        assert_eq!(only(&two).explanation, Explanation::TooFewHosts);
    }

    #[test]
    fn ratios_of_times_are_printed_as_speeds() {
        let mut all = hosts(&[-0.1, -0.11, -0.105], 0);
        all.iter_mut()
            .for_each(|host| host.cells[0].better = Better::Lower);
        let fleet = Fleet::new(&all, Vec::new(), "ext4");
        assert!(only(&fleet).together.as_ref().unwrap().ratio < 1.0);
        assert!(
            only(&fleet).sentence.contains("xfs is 11 % faster")
                || only(&fleet).sentence.contains("xfs is 11."),
            "{}",
            only(&fleet).sentence
        );
    }

    #[test]
    fn cases_that_a_host_defines_differently_are_not_compared() {
        let mut all = hosts(&[0.1, 0.11, 0.12, 0.5, 0.6], 0);
        all[3].cells[0]
            .definition
            .insert("files".to_owned(), 7.into());
        all[4].targets[0].definition = "[\"ext4\",[\"data=journal\"]]".to_owned();
        let left_out = vec![LeftOut {
            host: "db9".to_owned(),
            reason: "no route".to_owned(),
        }];
        let fleet = Fleet::new(&all, left_out, "ext4");
        assert_eq!(only(&fleet).hosts.len(), 3);
        let found: Vec<(&str, &str)> = fleet
            .unmatched
            .iter()
            .map(|one| (one.host.as_str(), one.subject.as_str()))
            .collect();
        assert_eq!(found, [("web3", CASE), ("web4", "ext4")]);
        assert!(
            fleet.unmatched[0]
                .reason
                .contains("files is 7 instead of absent"),
            "{:?}",
            fleet.unmatched
        );
        let text = screen(&fleet, 200, true);
        for part in [
            "left out: db9: no route",
            "not compared: 1 host (web3)",
            "web2",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn versions_and_unfinished_runs_are_warnings() {
        let mut all = hosts(&[0.1, 0.11, 0.12], 0);
        all[0].fsb_version = "0.0.9".to_owned();
        all[1].is_complete = false;
        let fleet = Fleet::new(&all, Vec::new(), "ext4");
        assert!(
            fleet.warnings[0].contains("0.0.9 on 1; 0.1.0 on 2"),
            "{:?}",
            fleet.warnings
        );
        assert!(fleet.warnings[1].contains("web1"), "{:?}", fleet.warnings);
    }

    #[test]
    fn a_page_has_the_sentences_and_a_figure_of_each_comparison() {
        let fleet = forty();
        let figures = fleet_figures(&fleet);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["overview", "hosts-create-4k-files-durable-xfs"]);
        let page = page(&fleet);
        assert!(
            page.contains(&only(&fleet).sentence)
                && page.matches("<svg ").count() == 2
                && page.ends_with("</html>\n")
        );
        assert!(!page.contains("NaN") && !page.contains("<script"));
        let svg = figures[1].svg();
        // A point of each host, and a diamond.
        assert!(
            svg.matches("<circle ").count() >= 40,
            "{}",
            svg.matches("<circle ").count()
        );
        let mut pdf = Vec::new();
        figures[0].write_pdf(&mut pdf).unwrap();
        assert!(pdf.starts_with(b"%PDF-1."));
    }

    #[test]
    fn a_thousand_hosts_are_one_answer() {
        let truth = scattered(0.1, 0.05, 1000, 4);
        let fleet = Fleet::new(&hosts(&truth, 0), Vec::new(), "ext4");
        let together = only(&fleet).together.as_ref().unwrap();
        let (interval, prediction) = (together.interval.unwrap(), together.prediction.unwrap());
        let mean = truth.iter().sum::<f64>() / 1000.0;
        assert!((together.ratio.ln() - mean).abs() < 1e-3, "{together:?}");
        // 1.96 · √(0.05² + 0.01²) / √1000 to each side.
        assert!(
            (0.0060..0.0068).contains(&(interval.hi / interval.lo).ln()),
            "{interval:?}"
        );
        let within = truth
            .iter()
            .filter(|log| (prediction.lo.ln()..prediction.hi.ln()).contains(*log))
            .count();
        assert!(
            (930..=970).contains(&within),
            "{within} of 1000 in {prediction:?}"
        );
        // The figure of many hosts fits on one page.
        assert!(page(&fleet).contains("1000 hosts against ext4"));
    }

    #[test]
    fn every_document_is_json() {
        let text = serde_json::to_string(&forty()).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["schema"], SCHEMA);
        assert_eq!(
            document["comparisons"][0]["explanation"]["result"],
            "explained"
        );
        assert_eq!(
            document["comparisons"][0]["hosts"]
                .as_array()
                .unwrap()
                .len(),
            40
        );
    }
}
