//! Data of which compression and deduplication save a part that the plan chose.

use crate::common::mixtures::*;
use crate::common::{expect_code, fsb, scratch, stderr};

#[test]
fn shares_that_make_no_sense_are_refused() {
    let scratch = scratch();
    let refused = |data: &str, said: &str| {
        plan(scratch.path(), data);
        let output = fsb(scratch.path(), &["run", "plan.toml", "null", "--out", "run"]);
        expect_code(&output, 2);
        assert!(stderr(&output).contains(said), "{data}: {}", stderr(&output));
    };
    refused("{ compressible = '160%' }", "data: compressible: \"160%\" is not a share from \"0%\" to \"100%\"");
    refused("'60%'", "data: \"60%\" is not a table");
    refused("{ compressable = '60%' }", "did you mean 'compressible'");
}
