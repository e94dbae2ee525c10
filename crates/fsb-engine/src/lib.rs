//! The hot path: workloads, backends, file sets, the clock and latency histograms.
