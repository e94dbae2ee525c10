//! Cases that move records of files.

use super::section::Section;
use super::share::{Share, pass};
use super::{data, engine};
use crate::export::request::Piece;

/// The most files of a set that fsb holds open. In larger sets, fsb opens and closes each file inside the timed
/// interval.
const HELD_FILES: u64 = 16;

/// The direction of the data, and for writes whether the files hold data before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    WriteNew,
    WriteOver,
    Mix,
}

/// Returns the direction in which a workload moves records, or the reason why fio cannot run it.
pub(super) fn direction(name: &str, piece: &Piece) -> Result<Direction, String> {
    Ok(match name {
        "read" | "reread" | "random-read" | "pread" | "repread" | "preadv" | "repreadv" => Direction::Read,
        "write" if piece.flag("overwrite") => Direction::WriteOver,
        "write" | "append" | "pwrite" | "pwritev" => Direction::WriteNew,
        "rewrite" | "random-write" | "repwrite" | "repwritev" => Direction::WriteOver,
        "random-mix" => Direction::Mix,
        "fread" | "freread" | "fwrite" | "frewrite" => {
            return Err("fio has no engine that goes through the C library's streams".to_owned());
        }
        "backward-read" => {
            return Err("fio reads backwards from the first record and leaves out the last one".to_owned());
        }
        "stride-read" => return Err("fio restarts at the first record after one strided pass".to_owned()),
        "record-rewrite" => return Err("fio would make the file as small as its one record".to_owned()),
        "rename" => return Err("fio renames nothing".to_owned()),
        "scan" | "readdir" => return Err("fio lists no directories inside its clock".to_owned()),
        "fallocate" => return Err("fio allocates space for whole files only, and punches no holes".to_owned()),
        "command" => return Err("the workload is a command of the user".to_owned()),
        other => return Err(format!("fio has no work like {other}")),
    })
}

/// Returns the section, or the reason why there is none.
pub(super) fn section(direction: Direction, share: &Share<'_>) -> Result<Section, String> {
    let piece = share.piece;
    possible(direction, piece)?;
    let random = piece.word("access") == "random";
    let mut section = Section { cold: piece.word("cache") == "cold", ..Section::default() };
    section.prepared = direction != Direction::WriteNew;
    engine::of(piece.word("backend"))?.iter().for_each(|(key, value)| section.set(key, value));
    section.set(
        "rw",
        match (direction, random) {
            (Direction::Read, false) => "read",
            (Direction::Read, true) => "randread",
            (Direction::Mix, _) => "randrw",
            (_, false) => "write",
            (_, true) => "randwrite",
        },
    );
    section.set("bs", piece.number("block_size"));
    let distribution = piece.word("random_distribution");
    if !distribution.is_empty() {
        section.set("random_distribution", distribution);
        section.remark("fio makes other records frequent, in the same distribution.");
    }
    if direction == Direction::Mix {
        let percent = piece.word("mix").trim_end_matches('%').parse::<f64>().unwrap_or(50.0);
        section.set("rwmixread", percent.round());
    }
    if matches!(direction, Direction::WriteOver | Direction::Mix) {
        section.set("overwrite", 1);
    }
    cache(&mut section, direction, piece);
    depth(&mut section, piece);
    if direction != Direction::Read {
        data::add(&mut section, piece);
    }
    if share.own_files {
        files_of_units(&mut section, direction, share)
    } else {
        one_set(&mut section, share)
    }
    durable(&mut section, share);
    rate(&mut section, piece);
    Ok(section)
}

/// Refuses work that fio would do differently.
fn possible(direction: Direction, piece: &Piece) -> Result<(), String> {
    let refuse = |why: &str| Err(why.to_owned());
    let (files, random) = (piece.number("files"), piece.word("access") == "random");
    let (writes, durability) = (direction != Direction::Read, piece.word("durability"));
    let workers = piece.number("threads").max(piece.number("processes"));
    if piece.word("cache") == "out" {
        return refuse("the case limits the memory that caches its files, which fio cannot");
    }
    if piece.word("cache") == "cold" && files > HELD_FILES {
        return refuse(
            "fio reads the attributes of every file before its clock starts, so inodes and directories are \
            warm",
        );
    }
    if random && files > HELD_FILES {
        return refuse("fio does not open and close a file around each record");
    }
    if writes && durability == "end" && files > 1 {
        return refuse("fio has no syncfs, which makes all files durable at the end");
    }
    if writes && durability == "end" && workers > 1 {
        return refuse("each fio job would sync the file, which fsb syncs once for all");
    }
    if writes && durability != "none" && piece.word("backend") == "mmap" {
        return refuse("fio's mmap calls msync and no fsync");
    }
    if piece.word("random_distribution") == "zipf:1" {
        return refuse("fio has no Zipf distribution with the exponent 1");
    }
    if piece.word("random_distribution").starts_with("normal:") {
        return refuse("the normal distribution of fio is another one");
    }
    match ["close", "lock", "verify"].iter().find(|key| piece.flag(key) || !piece.word(key).is_empty()) {
        Some(key) => Err(format!("fio has no equivalent of {key} inside the timed part")),
        None => Ok(()),
    }
}

/// Sets the content of the page cache at the start.
fn cache(section: &mut Section, direction: Direction, piece: &Piece) {
    match piece.word("cache") {
        "cold" => {
            section.remark(
                "The script remounts before this case; without the script, fio drops the data, not the \
                    metadata, from the cache.",
            );
            section.set("invalidate", 1);
        }
        "warm" if direction != Direction::WriteNew => section.set("pre_read", 1),
        _ => {}
    }
}

/// Sets the number of requests in flight.
fn depth(section: &mut Section, piece: &Piece) {
    let (depth, batch) = (piece.number("depth"), piece.number("batch"));
    if depth > 1 {
        section.set("iodepth", depth);
    }
    if batch > 1 {
        section.set("iodepth_batch_submit", batch);
        section.set("iodepth_batch_complete_min", batch);
        section.set("iodepth_batch_complete_max", batch);
    }
}

/// Sets the options of consecutive units, each with its own files.
fn files_of_units(section: &mut Section, direction: Direction, share: &Share<'_>) {
    let Share { piece, units, .. } = *share;
    let [files, file_size, block_size] = ["files", "file_size", "block_size"].map(|key| piece.number(key));
    let ends = direction == Direction::WriteNew && piece.operations < pass(piece);
    section.set("filesize", if ends { piece.operations * block_size } else { file_size });
    // One more operation begins, because fio syncs before the operation that follows.
    let more = u64::from(piece.word("durability") == "end");
    section.set("nrfiles", files * units + more);
    if ends || piece.operations >= pass(piece) {
        section.set("openfiles", 1);
        section.set("file_service_type", "sequential");
    } else {
        section.set("openfiles", files * units + more);
        section.set("file_service_type", format!("roundrobin:{}", piece.operations));
        section.set("number_ios", piece.operations * units);
    }
}

/// Sets the options of units, or the whole, on one set of files.
fn one_set(section: &mut Section, share: &Share<'_>) {
    let Share { piece, units, .. } = *share;
    let [files, file_size, block_size] = ["files", "file_size", "block_size"].map(|key| piece.number(key));
    let (threads, processes) = (piece.number("threads").max(1), piece.number("processes").max(1));
    let (jobs, random) = (threads * processes, piece.word("access") == "random");
    section.set("filesize", file_size);
    section.set("nrfiles", files);
    if files > HELD_FILES {
        section.set("openfiles", 1);
    }
    if files > 1 {
        section.set("file_service_type", if random { "random" } else { "sequential" });
    }
    if piece.word("durability") == "end" {
        // Each unit is a pass, at whose end fio syncs.
        section.set("loops", units);
    } else {
        let operations = piece.operations * units / jobs;
        section.set("number_ios", operations);
        // More bytes than operations, so that the number of operations ends it.
        section.set("io_size", (operations + 1) * block_size);
    }
    if threads > 1 {
        section.set("thread", 1);
        if !random && files == 1 {
            let records = file_size / block_size.max(1) / threads;
            section.set("size", records * block_size);
            section.set("offset_increment", records * block_size);
        }
    }
    if jobs > 1 {
        section.set("numjobs", jobs);
    }
    section.jobs_have_files = processes > 1;
}

/// Sets the moment at which data must be on the device.
fn durable(section: &mut Section, share: &Share<'_>) {
    let Share { piece, units, .. } = *share;
    match piece.word("durability") {
        "each" => section.set("fdatasync", 1),
        "end" if share.own_files => {
            section.set("fsync", piece.operations);
            section.set("number_ios", piece.operations * units + 1);
            section.remark("fio syncs before the next operation: one more operation syncs the last unit.");
        }
        "end" => section.set("end_fsync", 1),
        _ => {}
    }
}

/// Sets the rate of operations that start at even intervals.
fn rate(section: &mut Section, piece: &Piece) {
    let rate = piece.number("rate");
    if rate > 0 {
        let jobs = piece.number("threads").max(1) * piece.number("processes").max(1);
        section.set("rate_iops", (rate / jobs).max(1));
        section.remark("fio measures the latency of an operation from its start, fsb from its due time.");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_distribution_becomes_fios_option_unless_fio_lacks_it() {
        let section = |distribution: &str| {
            let workload = json!({"name": "random-read", "access": "random", "backend": "psync", "cache": "warm", "files": 1,
                "file_size": 65536, "block_size": 4096, "threads": 1, "random_distribution": distribution});
            let piece = Piece { workload: serde_json::from_value(workload).unwrap(), operations: 16, space: 65536 };
            super::section(Direction::Read, &Share { piece: &piece, units: 1, own_files: false })
        };
        let options = section("zipf:1.1").unwrap().options;
        assert!(options.contains(&("random_distribution", "zipf:1.1".to_owned())), "{options:?}");
        assert!(section("zipf:1").unwrap_err().contains("exponent 1"));
        assert!(section("normal:10").unwrap_err().contains("another one"));
    }
}
