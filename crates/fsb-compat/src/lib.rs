//! Other tools' options, scripts, results and reports.
