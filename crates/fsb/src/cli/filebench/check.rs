//! Checks of a run before anything is changed.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use fsb_compat::filebench::wml::Run;
use fsb_engine::{Job, workload};
use rustix::fs::Access;

use super::measure::Choices;
use crate::result_owner::Rights;
use crate::space::{Need, Room};
use crate::{code, exit};

/// Checks the directory, the flow (by asking the engine) and the free space.
pub fn check(run: &Run, request: &Choices) -> anyhow::Result<()> {
    let directory = &run.directory;
    check_directory(directory)?;
    Rights::below(directory)?;
    let (spec, sizing) = request.workload(run);
    let job =
        workload::parse(&spec, &sizing).map_err(|error| exit::failure(&code::INVALID_WORKLOAD, error.to_string()))?;
    check_space(directory, job.as_ref())
}

fn check_directory(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    let metadata = std::fs::metadata(directory).map_err(|error| {
        exit::failure(
            &code::DIRECTORY,
            format!("the directory {shown} cannot be used: {error}; name another one with --dir DIR"),
        )
    })?;
    if metadata.file_type().is_block_device() {
        let advice = format!("mount it first, or measure file systems on it: fsb run ext4@{shown} --suite fileserver");
        let message = format!("{shown} is a block device, but filebench makes files in a directory: {advice}");
        let fields = [("path", shown.to_string().into()), ("kind", "block_device".into())];
        return Err(exit::failure_about(&code::DIRECTORY, fields, message));
    }
    if !metadata.is_dir() {
        return Err(exit::failure(&code::DIRECTORY, format!("{shown} is not a directory: name one with --dir DIR")));
    }
    rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| {
        exit::failure(&code::DIRECTORY_NOT_WRITABLE, format!("the directory {shown} cannot be written to: {errno}"))
    })
}

fn check_space(directory: &Path, job: &dyn Job) -> anyhow::Result<()> {
    let profile = job.profile();
    let need = Need { bytes: profile.space, files: profile.inodes };
    match Room::of(directory) {
        Some(room) if !room.holds(need) => Err(exit::failure(
            &code::NO_SPACE,
            format!("this workload {}: set fewer or smaller files, such as --set nfiles=1000", room.lacks(need)),
        )),
        _ => Ok(()),
    }
}
