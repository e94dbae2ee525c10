//! Messages on standard error.

use std::io::Write;

use fsb_report::show::wrapped;

use crate::columns;

/// Prints a line where progress goes; what would act on the terminal or hide there is written out. Whoever closed that
/// end does not want it; the run goes on.
pub fn say(text: &str) {
    let stderr = std::io::stderr();
    let _ = writeln!(stderr.lock(), "{}", wrapped(text, columns::of(&stderr)));
}
