//! Estimates, comparisons and verdicts; pure.
