//! Flows and filebench's personalities: on nothing, and on real file systems.

pub const PERSONALITIES: [&str; 6] = ["fileserver", "webserver", "webproxy", "varmail", "oltp", "videoserver"];
