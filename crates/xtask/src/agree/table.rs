//! What is printed: a table in Markdown, which docs/peers.md takes as it is.

use crate::summary::Median;

/// A row on a file system.
pub struct Line {
    pub target: &'static str,
    pub medium: &'static str,
    pub row: String,
    /// Units of each side of a pair.
    pub units: u64,
    /// Seconds of one of ours.
    pub unit_seconds: Median,
    /// fio's time divided by ours.
    pub ratio: Median,
}

/// How far from 1 two that do the same may be.
const WITHIN: [f64; 2] = [0.95, 1.05];

/// Prints what the table is about.
pub fn print_head(pairs: u32) {
    println!(
        "\nrows of the suite 'quick' beside fio, {pairs} pairs in an order that is drawn; medians of fio's time / ours,"
    );
    println!("with the 95 % interval of the median: above 1 fsb took less time\n");
    println!("| medium | file system | row | units a side | a unit, ms | fio / fsb | within 5 % |");
    println!("|---|---|---|--:|--:|---|---|");
}

impl Line {
    /// Whether the whole interval lies within 5 %.
    pub fn agrees(&self) -> bool {
        let [low, high] = self.ratio.interval;
        low >= WITHIN[0] && high <= WITHIN[1]
    }

    fn verdict(&self) -> &'static str {
        let [low, high] = self.ratio.interval;
        match () {
            () if self.agrees() => "yes",
            () if low > WITHIN[1] || high < WITHIN[0] => "no",
            () => "not decided",
        }
    }

    pub fn print(&self) {
        let Line { target, medium, row, units, unit_seconds, ratio } = self;
        let unit = unit_seconds.value * 1e3;
        println!("| {medium} | {target} | {row} | {units} | {unit:.2} | {ratio} | {} |", self.verdict());
    }
}
