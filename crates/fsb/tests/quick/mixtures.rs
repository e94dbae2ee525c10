//! Data with a share that compression and deduplication save; the plan chooses the share.

use crate::common::mixtures::*;
use crate::common::{expect_refused_plans, scratch};

#[test]
fn shares_that_make_no_sense_are_refused() {
    let scratch = scratch();
    let plans = ["{ compressible = '160%' }", "'60%'", "{ compressable = '60%' }"].map(|data| {
        plan(scratch.path(), data);
        let plan = std::fs::read_to_string(scratch.path().join("plan.toml")).unwrap();
        (format!("targets = ['null']\n{plan}"), "plan/invalid-value")
    });
    expect_refused_plans("mixtures", scratch.path(), &plans);
}
