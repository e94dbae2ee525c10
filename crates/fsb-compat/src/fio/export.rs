//! Exports a plan as fio's job file: a section for each case, and the reasons for missing cases.

use serde_json::Value;

use crate::export::{
    self, Export, ExportCase, ExportFile, ExportRequest, Piece, ScriptStep, Tool, UnitPiece, plain,
};

/// Returns a job file with a section for each case, and a script that formats and mounts the
/// targets.
pub fn export(request: &ExportRequest) -> Export {
    let (mut sections, mut left_out) = (Vec::new(), Vec::new());
    for (number, row) in (1..).zip(&request.rows) {
        match section(row, request) {
            Ok(section) => {
                sections.push((format!("{number:02}-{}", plain(&row.label)), row, section))
            }
            Err(why) => left_out.push((row.label.clone(), why)),
        }
    }
    let jobs = format!("{}.fio", request.name);
    let steps: Vec<ScriptStep> = sections
        .iter()
        .map(|(name, _, section)| ScriptStep {
            name: name.clone(),
            cold: section.cold,
            prepared: section.prepared,
            durable: section.durable,
        })
        .collect();
    let fio = "fio --section=\"$1\" --output-format=json";
    let tool = Tool {
        program: "fio",
        prepare: format!("{fio} --create_only=1 --output=/dev/null \"$here/{jobs}\""),
        measure: format!("{fio} --output=\"$2.json\" \"$here/{jobs}\""),
        compare: "Afterwards: fsb compare RESULTS/TARGET RESULTS/TARGET",
    };
    let script = export::script(request, &tool, &steps);
    Export {
        files: vec![
            ExportFile {
                name: jobs,
                text: text(request, &sections, &left_out),
                is_program: false,
            },
            ExportFile {
                name: format!("{}.sh", request.name),
                text: script,
                is_program: true,
            },
        ],
        rows: sections.len(),
        left_out,
    }
}

/// The options of all cases. Without one of them, fio would do something that fsb does not do.
const GLOBAL: &str = "\
[global]
# Files are below the working directory, in NAME.files for each case: fio would take a directory NAME for a file.
# No hints to the kernel, no preallocation, and dropped caches only where a case begins cold.
fadvise_hint=0
fallocate=none
invalidate=0
# Buffers are page-aligned, and fio measures one latency for each operation.
iomem_align=4096
disable_slat=1
disable_lat=1
group_reporting=1
";

fn text(
    request: &ExportRequest,
    sections: &[(String, &ExportCase, Section)],
    left_out: &[(String, String)],
) -> String {
    let ExportRequest {
        name,
        author,
        units,
        seed,
        ..
    } = request;
    let mut text = format!(
        "# The cases of '{name}' that fio can run. Written by {author}.\n\
         # A case has the units of fsb, one after the other: here {units} of them, or as many as fit.\n\
         # {name}.sh makes each target, prepares the files of a case, empties caches where it begins cold, and calls\n\
         #   fio --section=CASE {name}.fio\n"
    );
    if !left_out.is_empty() {
        text += "#\n# Cases that fio cannot run:\n";
    }
    for (label, why) in left_out {
        text += &format!("#   {label}: {why}\n");
    }
    text += &format!("\n{GLOBAL}randseed={seed}\n");
    for (section_name, row, section) in sections {
        text += &format!(
            "\n# {}\n[{section_name}]\nstonewall\nfilename_format={section_name}.files/",
            row.label
        );
        text += if section.jobs_have_files {
            "$jobnum.$filenum\n"
        } else {
            "$filenum\n"
        };
        for line in &section.remarks {
            text += &format!("# {line}\n");
        }
        for (key, value) in &section.options {
            text += &format!("{key}={value}\n");
        }
    }
    text
}

/// The section of a case.
#[derive(Debug, Default, PartialEq, Eq)]
struct Section {
    /// Options, in the order in which they are written.
    options: Vec<(&'static str, String)>,
    /// Remarks for the reader of the job file, one per line.
    remarks: Vec<String>,
    /// Whether each job has its own files.
    jobs_have_files: bool,
    /// Whether the files must exist before the case begins.
    prepared: bool,
    /// Whether the page cache must not hold the files when the case begins.
    cold: bool,
    /// Whether the data must be on the device when the case ends.
    durable: bool,
}

impl Section {
    /// Adds an option.
    fn set(&mut self, key: &'static str, value: impl ToString) {
        self.options.push((key, value.to_string()));
    }

    /// Adds a remark.
    fn remark(&mut self, line: impl Into<String>) {
        self.remarks.push(line.into());
    }

    /// Sets the options that make fio call the kernel as the backend does.
    fn set_engine(&mut self, backend: &str) -> Result<(), String> {
        for (key, value) in engine_options(backend)? {
            self.set(key, value);
            match *key {
                "uncached" => self.remark(
                    "Needs a fio with RWF_DONTCACHE: 3.33 passes a flag that Linux 6.11 and later read as RWF_ATOMIC.",
                ),
                "atomic" => self.remark(
                    "Needs a fio with RWF_ATOMIC: 3.33 passes no flag, and its writes are ordinary direct writes.",
                ),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The share of a case that fio runs.
struct Share<'r> {
    /// The repeated work.
    piece: &'r Piece,
    /// The number of repetitions.
    units: u64,
    /// Whether each repetition has its own files.
    own_files: bool,
}

/// Returns the number of records in all files.
fn pass(piece: &Piece) -> u64 {
    let [files, file_size, block_size] =
        ["files", "file_size", "block_size"].map(|key| piece.number(key));
    files * (file_size / block_size.max(1))
}

/// Returns the number of units that fit in nine tenths of the space. The file system needs the rest
/// for its metadata.
fn fits(space: u64, piece: &Piece) -> u64 {
    (space / 10 * 9) / piece.space.max(1)
}

/// Returns the share of a case that fio runs. Units follow each other. Threads that share a unit's
/// files would have to wait for each other between two units, so such a case runs as a whole, as
/// does one that accesses a part of several files.
fn share_of<'r>(row: &'r ExportCase, request: &ExportRequest) -> Share<'r> {
    let whole = Share {
        piece: &row.whole,
        units: 1,
        own_files: false,
    };
    let Some(UnitPiece { piece, own_files }) = &row.unit else {
        return whole;
    };
    let share = Share {
        piece,
        units: request.units,
        own_files: *own_files,
    };
    if !own_files {
        return share;
    }
    let is_data = !matches!(piece.workload.name.as_str(), "create" | "stat" | "delete");
    let part = piece.number("files") > 1 && piece.operations < pass(piece);
    if is_data && (part || piece.number("threads") > 1) {
        return whole;
    }
    Share {
        units: request.units.min(fits(request.space, piece)).max(1),
        ..share
    }
}

/// Returns the section that does the same as the case, or the reason why fio cannot.
fn section(row: &ExportCase, request: &ExportRequest) -> Result<Section, String> {
    if row.whole.workload.sustain.is_some() {
        return Err(
            "fio cannot detect that a journal was written, which ends this case".to_owned(),
        );
    }
    if row.whole.workload.background.is_some() {
        return Err("a section of fio has no background that is repeated until it ends".to_owned());
    }
    let share = share_of(row, request);
    let mut section = match row.whole.workload.name.as_str() {
        "create" | "stat" | "delete" => names_section(&share)?,
        name => records_section(direction(name, share.piece)?, &share)?,
    };
    section.durable = !matches!(share.piece.word("durability"), "none" | "");
    let all = if share.own_files {
        ", each on files of its own"
    } else {
        ""
    };
    let operations = share.piece.operations;
    match share.units {
        1 => section.remark(format!("{operations} operations.")),
        units => section.remark(format!("{units} units of {operations} operations{all}.")),
    }
    Ok(section)
}

// Cases on names: files that are created, examined or deleted.

/// Returns the section, or the reason why there is none.
fn names_section(share: &Share<'_>) -> Result<Section, String> {
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
        return Err(format!(
            "fio's engines for names do not go through backend {backend}"
        ));
    }
    let (file_size, block_size) = (piece.number("file_size"), piece.number("block_size"));
    let mut section = Section::default();
    match (name, file_size) {
        ("create", 0) if durability == "each" => {
            return Err("fio's filecreate does not sync the files that it creates".to_owned());
        }
        ("create", 0) => section.set("ioengine", "filecreate"),
        ("create", _) if !file_size.is_multiple_of(block_size) => {
            return Err(
                "fio writes whole records, but the last record of a file is shorter".to_owned(),
            );
        }
        ("create", _) => {
            section.set_engine(backend)?;
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
    // The next unit examines the same files again. Units that create or delete files have their
    // own.
    let (files, passes) = if share.own_files {
        (piece.operations * units, 1)
    } else {
        (piece.number("files"), units)
    };
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
        section.remark(format!(
            "All files are in one directory; fsb puts at most {each} into each."
        ));
    }
    Ok(section)
}

// Cases that move records of files.

/// The maximum number of files of a set that fsb holds open. In larger sets, fsb opens and closes
/// each file inside the timed interval.
const HELD_FILES: u64 = 16;

/// The direction of the data, and for writes whether the files hold data before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    WriteNew,
    WriteOver,
    Mix,
}

/// Returns the direction in which a workload moves records, or the reason why fio cannot run it.
fn direction(name: &str, piece: &Piece) -> Result<Direction, String> {
    Ok(match name {
        "read" | "reread" | "random-read" | "pread" | "repread" | "preadv" | "repreadv" => {
            Direction::Read
        }
        "write" if piece.flag("overwrite") => Direction::WriteOver,
        "write" | "append" | "pwrite" | "pwritev" => Direction::WriteNew,
        "rewrite" | "random-write" | "repwrite" | "repwritev" => Direction::WriteOver,
        "random-mix" | "sequential-mix" => Direction::Mix,
        "fread" | "freread" | "fwrite" | "frewrite" => {
            return Err("fio has no engine that goes through the C library's streams".to_owned());
        }
        "backward-read" => {
            return Err(
                "fio reads backwards from the first record and leaves out the last one".to_owned(),
            );
        }
        "cache-warm-up" => return Err("fio reports no time constant of a cache".to_owned()),
        "stride-read" => {
            return Err("fio restarts at the first record after one strided pass".to_owned());
        }
        "read-modify-write" => {
            return Err("fio writes no record at the place where it has just read it".to_owned());
        }
        "record-rewrite" => {
            return Err("fio would make the file as small as its one record".to_owned());
        }
        "rename" => return Err("fio renames nothing".to_owned()),
        "scan" | "readdir" => return Err("fio lists no directories inside its clock".to_owned()),
        "fallocate" => {
            return Err(
                "fio allocates space for whole files only, and punches no holes".to_owned(),
            );
        }
        "command" => return Err("the workload is a command of the user".to_owned()),
        other => return Err(format!("fio has no work like {other}")),
    })
}

/// Returns the section, or the reason why there is none.
fn records_section(direction: Direction, share: &Share<'_>) -> Result<Section, String> {
    let piece = share.piece;
    possible(direction, piece)?;
    let random = piece.word("access") == "random";
    let mut section = Section {
        cold: piece.word("cache") == "cold",
        ..Section::default()
    };
    section.prepared = direction != Direction::WriteNew;
    section.set_engine(piece.word("backend"))?;
    section.set(
        "rw",
        match (direction, random) {
            (Direction::Read, false) => "read",
            (Direction::Read, true) => "randread",
            (Direction::Mix, false) => "rw",
            (Direction::Mix, true) => "randrw",
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
    let sequential = percent(piece, "sequential");
    if sequential > 0.0 {
        section.set("percentage_random", 100.0 - sequential.round());
    }
    match piece.word("record_sizes") {
        "" => {}
        range if range.contains('-') => section.set("bsrange", range),
        sizes => section.set("bssplit", sizes.replace('%', "")),
    }
    for (key, option) in [
        ("fsync", "fsync"),
        ("fdatasync", "fdatasync"),
        ("think_every", "thinktime_blocks"),
    ] {
        if piece.number(key) > 0 {
            section.set(option, piece.number(key));
        }
    }
    if !piece.word("think_time").is_empty() {
        section.set("thinktime", piece.word("think_time"));
    }
    calls_between(&mut section, piece);
    if direction == Direction::Mix {
        section.set("rwmixread", percent(piece, "mix").round());
    }
    if matches!(direction, Direction::WriteOver | Direction::Mix) {
        section.set("overwrite", 1);
    }
    cache(&mut section, direction, piece);
    depth(&mut section, piece);
    if direction != Direction::Read {
        add_data(&mut section, piece);
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

/// Sets the options of calls and waits between operations, which have the meaning of fio's.
fn calls_between(section: &mut Section, piece: &Piece) {
    let [reads, writes] =
        ["read_bandwidth", "write_bandwidth"].map(|key| match piece.number(key) {
            0 => String::new(),
            rate => rate.to_string(),
        });
    if !reads.is_empty() || !writes.is_empty() {
        section.set("rate", format!("{reads},{writes}"));
    }
    if piece.number("sync_file_range") > 0 {
        let steps = piece.word("range_steps").replace('+', ",");
        section.set(
            "sync_file_range",
            format!("{steps}:{}", piece.number("sync_file_range")),
        );
    }
    match piece.word("open_sync") {
        "osync" => section.set("sync", "sync"),
        "dsync" => section.set("sync", "dsync"),
        _ => {}
    }
    if !piece.word("hint").is_empty() {
        section.set("fadvise_hint", piece.word("hint"));
    }
    if piece.flag("evict_passes") {
        section.set("invalidate", 1);
    }
    if piece.flag("end_fsync") {
        section.set("end_fsync", 1);
    }
}

/// Returns the number of a parameter in per cent, or 0.
fn percent(piece: &Piece, key: &str) -> f64 {
    piece
        .word(key)
        .trim_end_matches('%')
        .parse()
        .unwrap_or_default()
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
    if piece.number("length") > 0 {
        return refuse(
            "the case accesses a part of each file, and fio would end the files with the part",
        );
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
    if direction == Direction::Mix && !random && files > 1 {
        return refuse("fio goes on in each file where it was, fsb over all files");
    }
    if direction == Direction::Mix && !piece.word("sequential").is_empty() {
        return refuse("fio has a place in sequence for each direction, fsb one for both");
    }
    if !piece.word("write_sizes").is_empty() {
        return refuse("fio counts records of two sizes in one random map");
    }
    if piece.flag("sync_last") {
        return refuse("fio does not sync after the last write");
    }
    if piece.flag("sync_passes") || piece.flag("end_fdatasync") {
        return refuse("fio has no option for the syncs at the end of passes");
    }
    if piece.number("prefetch") > 0 {
        return refuse("fio asks the kernel for no record before it reads it");
    }
    if piece.word("random_distribution") == "zipf:1" {
        return refuse("fio has no Zipf distribution with the exponent 1");
    }
    if piece.word("random_distribution").starts_with("normal:") {
        return refuse("the normal distribution of fio is another one");
    }
    match ["close", "lock", "verify"]
        .iter()
        .find(|key| piece.flag(key) || !piece.word(key).is_empty())
    {
        Some(key) => Err(format!(
            "fio has no equivalent of {key} inside the timed part"
        )),
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
    let [files, file_size, block_size] =
        ["files", "file_size", "block_size"].map(|key| piece.number(key));
    let ends = direction == Direction::WriteNew && piece.operations < pass(piece);
    section.set(
        "filesize",
        if ends {
            piece.operations * block_size
        } else {
            file_size
        },
    );
    // fio syncs before the next operation, so one more operation must begin.
    let more = u64::from(piece.word("durability") == "end");
    section.set("nrfiles", files * units + more);
    if ends || piece.operations >= pass(piece) {
        section.set("openfiles", 1);
        section.set("file_service_type", "sequential");
    } else {
        section.set("openfiles", files * units + more);
        section.set(
            "file_service_type",
            format!("roundrobin:{}", piece.operations),
        );
        section.set("number_ios", piece.operations * units);
    }
}

/// Sets the options of units, or the whole, on one set of files.
fn one_set(section: &mut Section, share: &Share<'_>) {
    let Share { piece, units, .. } = *share;
    let [files, file_size, block_size] =
        ["files", "file_size", "block_size"].map(|key| piece.number(key));
    let (threads, processes) = (
        piece.number("threads").max(1),
        piece.number("processes").max(1),
    );
    let (jobs, random) = (threads * processes, piece.word("access") == "random");
    section.set("filesize", file_size);
    section.set("nrfiles", files);
    if files > HELD_FILES {
        section.set("openfiles", 1);
    }
    if files > 1 {
        section.set(
            "file_service_type",
            if random { "random" } else { "sequential" },
        );
    }
    if piece.word("durability") == "end" {
        // Each unit is a pass, and fio syncs at the end of each pass.
        section.set("loops", units);
    } else if !piece.word("record_sizes").is_empty() {
        section.set("io_size", piece.operations * units * block_size / jobs);
    } else {
        let operations = piece.operations * units / jobs;
        section.set("number_ios", operations);
        // The bytes exceed the operations, so that the number of operations ends the job.
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
        // A sync of fio covers no write that is in flight.
        "each" if piece.number("depth") > 1 => {
            section.set("sync", "dsync");
            section.remark("fio makes each write durable by O_DSYNC, fsb by fdatasync after it.");
        }
        "each" => section.set("fdatasync", 1),
        "end" if share.own_files => {
            section.set("fsync", piece.operations);
            section.set("number_ios", piece.operations * units + 1);
            section.remark(
                "fio syncs before the next operation: one more operation syncs the last unit.",
            );
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
        section.remark(
            "fio measures the latency of an operation from its start, fsb from its due time.",
        );
    }
}

/// The size in bytes of the pieces that fsb fills files with. Each piece has its compressible part
/// at the end.
const CHUNK: u64 = 512;

/// Adds the options for the parameter `data`.
fn add_data(section: &mut Section, piece: &Piece) {
    let Some(Value::Object(shares)) = piece.workload.params.get("data") else {
        return;
    };
    let percent = |key: &str| {
        let text = shares.get(key)?.as_str()?.trim_end_matches('%');
        text.parse::<f64>()
            .ok()
            .map(|percent| percent.round().clamp(0.0, 100.0) as u64)
    };
    section.set("refill_buffers", 1);
    if let Some(percent) = percent("compressible") {
        section.set("buffer_compress_percentage", percent);
        section.set("buffer_compress_chunk", CHUNK);
    }
    if let Some(percent) = percent("duplicate") {
        section.set("dedupe_percentage", percent);
    }
    section
        .remark("fio fills its buffers inside the timed part; fsb prepares its data in advance.");
}

/// Returns the options that make fio call the kernel as the backend does, or the reason why none
/// do.
fn engine_options(backend: &str) -> Result<&'static [(&'static str, &'static str)], String> {
    const DEEP: [(&str, &str); 3] = [
        ("ioengine", "io_uring"),
        ("fixedbufs", "1"),
        ("registerfiles", "1"),
    ];
    const DIRECT: [(&str, &str); 4] = [DEEP[0], DEEP[1], DEEP[2], ("direct", "1")];
    const UNCACHED: [(&str, &str); 4] = [DEEP[0], DEEP[1], DEEP[2], ("uncached", "1")];
    // The kernel refuses atomic writes from registered memory.
    const ATOMIC: [(&str, &str); 4] = [DEEP[0], DEEP[2], DIRECT[3], ("atomic", "1")];
    Ok(match backend {
        "psync" => &[("ioengine", "psync")],
        "direct" => &[("ioengine", "psync"), ("direct", "1")],
        "osync" => &[("ioengine", "psync"), ("sync", "sync")],
        "dsync" => &[("ioengine", "psync"), ("sync", "dsync")],
        "lseek" => &[("ioengine", "sync")],
        "lseek-direct" => &[("ioengine", "sync"), ("direct", "1")],
        "preadv2" => &[("ioengine", "pvsync2")],
        "preadv2-direct" => &[("ioengine", "pvsync2"), ("direct", "1")],
        "preadv2-hipri" => &[("ioengine", "pvsync2"), ("direct", "1"), ("hipri", "1")],
        "uncached" => &[("ioengine", "pvsync2"), ("uncached", "1")],
        "atomic" => &[("ioengine", "pvsync2"), ("direct", "1"), ("atomic", "1")],
        "mmap" => &[("ioengine", "mmap")],
        "posix-aio" => &[("ioengine", "posixaio")],
        "libaio" => &[("ioengine", "libaio")],
        "libaio-atomic" => &[("ioengine", "libaio"), ("direct", "1"), ("atomic", "1")],
        "libaio-direct" => &[("ioengine", "libaio"), ("direct", "1")],
        "uring" => &DEEP,
        "uring-direct" => &DIRECT,
        "uring-uncached" => &UNCACHED,
        "uring-atomic" => &ATOMIC,
        "null" => &[("ioengine", "null")],
        "psyncv" => {
            return Err("fio's pvsync moves a record in one part, psyncv in sixteen".to_owned());
        }
        "stdio" => {
            return Err("fio has no engine that goes through the C library's streams".to_owned());
        }
        "mmap-async" | "mmap-sync" => {
            return Err(format!("fio's mmap does not call msync as {backend} does"));
        }
        other => {
            return Err(format!(
                "fio has no engine that does what backend {other} does"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the section of sixteen operations of a workload on records.
    fn section_of(workload: Value) -> Result<Section, String> {
        let piece = Piece {
            workload: serde_json::from_value(workload).unwrap(),
            operations: 16,
            space: 65536,
        };
        let name = piece.workload.name.as_str();
        let share = Share {
            piece: &piece,
            units: 1,
            own_files: false,
        };
        records_section(direction(name, &piece).unwrap(), &share)
    }

    #[test]
    fn orders_sizes_and_pauses_become_fios_options() {
        let options = |workload: Value| section_of(workload).unwrap().options;
        let found = options(
            json!({"name": "random-write", "access": "random", "backend": "libaio-direct", "cache": "any",
            "files": 1, "file_size": 65536, "block_size": 4096, "threads": 1, "sequential": "30%", "fsync": 8,
            "record_sizes": "4K/60%:16K/40%", "think_time": "500us", "durability": "none"}),
        );
        for option in [
            ("ioengine", "libaio"),
            ("direct", "1"),
            ("percentage_random", "70"),
            ("bssplit", "4K/60:16K/40"),
            ("fsync", "8"),
            ("thinktime", "500us"),
            ("io_size", "65536"),
        ] {
            assert!(
                found
                    .iter()
                    .any(|(key, value)| (*key, value.as_str()) == option),
                "{option:?} in {found:?}"
            );
        }
        let durable = |backend: &str, depth: u64| {
            options(
                json!({"name": "random-write", "access": "random", "backend": backend, "cache": "any", "files": 1,
                "file_size": 65536, "block_size": 4096, "threads": 1, "depth": depth, "durability": "each"}),
            )
        };
        for (options, wanted) in [
            (durable("psync", 1), ("fdatasync", "1")),
            (durable("libaio-direct", 8), ("sync", "dsync")),
        ] {
            let syncs: Vec<_> = options
                .iter()
                .filter(|(key, _)| key.contains("sync"))
                .map(|(key, value)| (*key, value.as_str()))
                .collect();
            assert_eq!(syncs, [wanted]);
        }
        let found = options(
            json!({"name": "sequential-mix", "access": "sequential", "backend": "psync", "cache": "any",
            "files": 1, "file_size": 65536, "block_size": 4096, "threads": 1, "mix": "70%", "durability": "none"}),
        );
        assert!(
            found.contains(&("rw", "rw".to_owned()))
                && found.contains(&("rwmixread", "70".to_owned())),
            "{found:?}"
        );
    }

    #[test]
    fn calls_and_waits_between_operations_become_fios_options() {
        let workload = json!({"name": "random-mix", "access": "random", "backend": "preadv2-hipri", "files": 1,
            "file_size": 65536, "block_size": 4096, "threads": 1, "cache": "any", "durability": "none", "mix": "50%",
            "write_bandwidth": 1048576, "sync_file_range": 8, "range_steps": "wait_before+write", "open_sync": "dsync",
            "hint": "random", "evict_passes": true, "end_fsync": true});
        let options = section_of(workload).unwrap().options;
        for (option, value) in [
            ("rate", ",1048576"),
            ("sync_file_range", "wait_before,write:8"),
            ("sync", "dsync"),
            ("fadvise_hint", "random"),
            ("end_fsync", "1"),
            ("hipri", "1"),
        ] {
            assert!(
                options.contains(&(option, value.to_owned())),
                "{option}: {options:?}"
            );
        }
    }

    #[test]
    fn a_distribution_becomes_fios_option_unless_fio_lacks_it() {
        let section = |distribution: &str| {
            let workload = json!({"name": "random-read", "access": "random", "backend": "psync", "cache": "warm", "files": 1,
                "file_size": 65536, "block_size": 4096, "threads": 1, "random_distribution": distribution});
            section_of(workload)
        };
        let options = section("zipf:1.1").unwrap().options;
        assert!(
            options.contains(&("random_distribution", "zipf:1.1".to_owned())),
            "{options:?}"
        );
        assert!(section("zipf:1").unwrap_err().contains("exponent 1"));
        assert!(section("normal:10").unwrap_err().contains("another one"));
    }

    #[test]
    fn flags_of_calls_are_fios_options_and_a_prefetch_has_none() {
        let section = |backend: &str, prefetch: u64| {
            let workload = json!({"name": "random-read", "access": "random", "backend": backend, "cache": "any",
                "files": 1, "file_size": 65536, "block_size": 4096, "threads": 1, "prefetch": prefetch});
            section_of(workload)
        };
        for (backend, engine, flag) in [
            ("uncached", "pvsync2", "uncached"),
            ("uring-uncached", "io_uring", "uncached"),
            ("atomic", "pvsync2", "atomic"),
            ("libaio-atomic", "libaio", "atomic"),
            ("uring-atomic", "io_uring", "atomic"),
        ] {
            let Section {
                options, remarks, ..
            } = section(backend, 0).unwrap();
            let needs = remarks
                .iter()
                .any(|remark| remark.starts_with("Needs a fio with RWF_"));
            assert!(needs, "{backend}: {remarks:?}");
            assert!(
                options.contains(&("ioengine", engine.to_owned()))
                    && options.contains(&(flag, "1".to_owned())),
                "{backend}: {options:?}"
            );
        }
        for backend in ["uring-nowait", "libaio-uncached"] {
            assert!(section(backend, 0).unwrap_err().contains(backend));
        }
        assert!(section("psync", 8).unwrap_err().contains("before it reads"));
    }
}
