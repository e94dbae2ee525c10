//! Asking for the sizes and the free space of the file system, by the name of every file.

use super::names::{self, Changes, NameCall, Turn};
use super::simple::SimpleWorkload;
use super::spec::{NAMES_BACKENDS, Rules};
use super::stat::STAT;
use crate::clock::OperationKind;
use crate::fileset::{Names, WholePaths};

/// The member.
pub(super) static STATFS: SimpleWorkload = SimpleWorkload {
    rules: Rules { name: "statfs", backends: NAMES_BACKENDS, ..STAT.rules },
    about: "ask for the sizes and the free space of the file system, by the name of every file",
    profile: |spec| spec.profile("statfs", spec.files_label("statfs")),
    measure: |spec, profile, context, gate| {
        // statfs takes no directory.
        let paths = WholePaths::new(&context.set(), &Names::new(&spec.layout), &spec.layout);
        let act = |turn: &mut Turn<'_>| turn.calls().file_system(paths.path(turn.file));
        let call = NameCall::new("statfs", OperationKind::Stat, Changes::Nothing, &act);
        names::measure(spec, call, profile, context, gate)
    },
    ..STAT
};
