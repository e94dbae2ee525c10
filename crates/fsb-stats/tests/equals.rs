//! Twelve runs of one command on one file system, split six against six: what is found there is found by chance.

mod iozone;

use std::ops::Not;

use fsb_model::set::Run;
use fsb_stats::Verdict;
use fsb_stats::compare::{Document, Request, compare};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

const SPLITS: usize = 200;
const REQUEST: Request = Request::new(0, 0.03);

/// Six against six, drawn with a fixed seed; `change` may alter the second half.
fn splits(change: fn(&mut Run)) -> Vec<Document> {
    let runs = iozone::runs("iozone-aa/ext4");
    assert_eq!(runs.len(), 12);
    let mut generator = Pcg64::seed_from_u64(12);
    let mut places: Vec<usize> = (0..12).collect();
    let mut split = || {
        for last in (1..12).rev() {
            places.swap(last, (generator.next_u64() % (last as u64 + 1)) as usize);
        }
        let half = |places: &[usize]| places.iter().map(|place| runs[*place].clone()).collect::<Vec<_>>();
        let (a, mut b) = (half(&places[..6]), half(&places[6..]));
        b.iter_mut().for_each(change);
        compare(&[iozone::set("a", a), iozone::set("b", b)], &REQUEST).unwrap()
    };
    (0..SPLITS).map(|_| split()).collect()
}

#[test]
fn between_equals_hardly_anything_is_found() {
    let documents = splits(|_| {});
    let with_findings = documents.iter().filter(|document| document.findings.is_empty().not()).count();
    assert!(with_findings * 20 <= SPLITS, "{with_findings} of {SPLITS} splits");
    let verdicts = documents.iter().flat_map(|document| &document.operations).map(|operation| {
        assert_eq!(operation.cells.is_empty(), operation.operation == "ALL");
        operation.estimate.against["b"].as_ref().unwrap().verdict
    });
    let verdicts: Vec<Verdict> = verdicts.collect();
    assert_eq!(verdicts.len(), 14 * SPLITS);
    let told_apart = verdicts.iter().filter(|verdict| verdict.differs()).count();
    assert!(told_apart as f64 <= 0.06 * verdicts.len() as f64, "{told_apart} of {}", verdicts.len());
}

#[test]
fn a_loss_of_thirty_percent_is_found() {
    let documents = splits(|run| {
        run.series.iter_mut().flat_map(|series| &mut series.points).for_each(|point| point.value *= 0.7);
    });
    let finds = |document: &&Document| {
        document.findings.iter().any(|finding| !finding.faster && (0.6..0.8).contains(&finding.ratio))
    };
    let found = documents.iter().filter(finds).count();
    assert!(found * 20 >= SPLITS * 19, "{found} of {SPLITS} splits");
    let operations: usize = documents
        .iter()
        .map(|document| {
            iozone::OPERATIONS.iter().filter(|o| document.findings.iter().any(|f| f.operation == **o)).count()
        })
        .sum();
    println!("{:.3} of the operations", operations as f64 / (13 * SPLITS) as f64);
}
