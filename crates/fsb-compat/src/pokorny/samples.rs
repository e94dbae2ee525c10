//! The exported samples of the 2023 tool, in the form of the tables of its Appendix C.

use std::fmt::Write;

/// Returns the samples as CSV in the columns of Appendix C: number, value, unit. The values are microseconds with three
/// decimals, because the clock counts nanoseconds.
pub fn samples_csv(seconds: &[f64]) -> String {
    let mut text = "#,value,unit\n".to_owned();
    for (number, seconds) in (1..).zip(seconds) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{number},{:.3},µs", seconds * 1e6);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first rows of Appendix C, for ext2.
    #[test]
    fn samples_have_the_columns_of_the_appendix() {
        assert_eq!(
            samples_csv(&[0.144_738, 0.448_067, 1.5e-9]),
            "#,value,unit\n1,144738.000,µs\n2,448067.000,µs\n3,0.002,µs\n"
        );
    }
}
