//! Flows and filebench's personalities, on the null file system and on real ones.

pub const PERSONALITIES: [&str; 6] = ["fileserver", "webserver", "webproxy", "varmail", "oltp", "videoserver"];
