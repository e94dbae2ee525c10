//! Cases on names: files that are created, examined or deleted.

use super::engine;
use super::section::Section;
use super::share::Share;

/// Returns the section, or the reason why there is none.
pub(super) fn section(share: &Share<'_>) -> Result<Section, String> {
    let Share { piece, units, .. } = *share;
    let name = piece.workload.name.as_str();
    let (durability, backend) = (piece.word("durability"), piece.word("backend"));
    if durability == "end" {
        return Err("fio has no syncfs, which makes all files durable at the end".to_owned());
    }
    if piece.word("cache") == "cold" {
        return Err("fio reads the attributes of every file before its clock starts, so inodes and directories are \
            warm"
            .to_owned());
    }
    if piece.word("access") == "random" {
        return Err("fio's engines for names take files in their order only".to_owned());
    }
    if !matches!(backend, "psync" | "null") {
        return Err(format!("fio's engines for names do not go through backend {backend}"));
    }
    let (file_size, block_size) = (piece.number("file_size"), piece.number("block_size"));
    let mut section = Section::default();
    match (name, file_size) {
        ("create", 0) if durability == "each" => {
            return Err("fio's filecreate does not sync the files that it creates".to_owned());
        }
        ("create", 0) => section.set("ioengine", "filecreate"),
        ("create", _) if !file_size.is_multiple_of(block_size) => {
            return Err("fio writes whole records, but the last record of a file is shorter".to_owned());
        }
        ("create", _) => {
            engine::of(backend)?.iter().for_each(|(key, value)| section.set(key, value));
            section.set("create_on_open", 1);
            if durability == "each" {
                section.set("fsync", file_size / block_size);
            }
        }
        ("stat", _) => section.set("ioengine", "filestat"),
        (_, 0) if durability == "none" => section.set("ioengine", "filedelete"),
        (_, 0) => return Err("fio's filedelete does not sync what it deleted".to_owned()),
        _ => return Err("fio's filedelete makes the files that it deletes empty".to_owned()),
    }
    let jobs = piece.number("threads").max(1);
    // The next unit examines the same files again, but creates or deletes other files.
    let (files, passes) = if share.own_files { (piece.operations * units, 1) } else { (piece.number("files"), units) };
    let written = name == "create" && file_size > 0;
    section.set("rw", "write");
    section.set("bs", if written { block_size } else { 4096 });
    section.set("filesize", if written { file_size } else { 4096 });
    section.set("nrfiles", (files / jobs).max(1));
    section.set("openfiles", 1);
    section.set("file_service_type", "sequential");
    if passes > 1 {
        section.set("loops", passes);
    }
    if jobs > 1 {
        section.set("thread", 1);
        section.set("numjobs", jobs);
        section.jobs_have_files = true;
    }
    let each = piece.number("files_per_directory");
    if files > each {
        section.remark(format!("All files are in one directory; fsb puts at most {each} into each."));
    }
    Ok(section)
}
