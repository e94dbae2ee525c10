mod comparison;
mod run;

use super::escape;

#[test]
fn names_cannot_break_the_table() {
    assert_eq!(escape("a|b*c_d<e\nf"), "a\\|b\\*c\\_d\\<e\\\\nf");
}
