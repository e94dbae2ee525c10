//! `--resume`: fsb retries the whole unfinished block, and nothing else.

use std::collections::BTreeSet;

use crate::common::resume::*;
use crate::common::*;

/// The resumed run has a new image with new slices: effects of places must not be carried over.
#[test]
fn a_resumed_run_has_slices_of_its_own() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let before = traces();
    let scratch = scratch();
    tiny_plan(scratch.path());
    let arguments = ["run", "tiny.toml", "ext4", "ext2", "--blocks", "2", "--size", "256M", "--out", "run", "-q"];
    expect_code(&fsb(scratch.path(), &arguments), 0);
    let run = scratch.path().join("run");
    // Keep one trial of block 2.
    let until_block_2 = trials(&run).iter().take_while(|trial| trial["block"] != 2).count();
    cut(&run, until_block_2 + 1);
    expect_code(&fsb(scratch.path(), &["run", "--resume", "run", "-q"]), 0);
    let slices = |block: u64, superseded: bool| -> BTreeSet<u64> {
        let of_block =
            |trial: &&serde_json::Value| trial["block"] == block && (trial["superseded"] == true) == superseded;
        trials(&run).iter().filter(of_block).map(|trial| trial["part"].as_u64().unwrap()).collect()
    };
    assert_eq!((slices(1, false), slices(2, false)), ([0, 1].into(), [2, 3].into()));
    assert!(slices(2, true).is_subset(&[0, 1].into()));
    expect_no_traces(&before);
}
