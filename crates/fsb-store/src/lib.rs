//! A run directory on disk.
