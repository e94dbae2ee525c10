//! Options that exclude each other, and options that need another one.

use super::options::{Check, Means, Msync, Options, OptionsError, Sizes, Typed, Unit};
use super::sequence;
use super::test::Test;

/// Checks that the typed options are consistent. Returns them in their final form.
pub(super) fn settle(typed: Typed) -> Result<Options, OptionsError> {
    let means = means(&typed)?;
    let file = typed.file;
    let mut options = typed.options;
    options.means = means;
    for sizes in [&options.file_sizes, &options.record_sizes] {
        // More than one size is a table of its own, with all of its rows.
        if sizes.list.len() > 1 {
            (options.auto, options.all_records) = (true, true);
        }
    }
    if options.throughput() {
        throughput(&options, file)?
    } else {
        table(&options)?
    }
    sizes(&options)?;
    if options.check != Check::Sample && options.repeat_until.is_some() {
        return refuse("--repeat-until measures, -V and -+d check: choose one");
    }
    Ok(options)
}

fn refuse<T>(message: impl Into<String>) -> Result<T, OptionsError> {
    Err(OptionsError::new(message))
}

fn means(typed: &Typed) -> Result<Means, OptionsError> {
    let mapped = typed.map || typed.map_async;
    let means = match (typed.bcopy, typed.no_copy) {
        (Some(_), Some(_)) => return refuse("-H and -k exclude each other: with the copy or without"),
        (Some(depth), None) => Means::Async { depth, copy: true },
        (None, Some(depth)) => Means::Async { depth, copy: false },
        (None, None) if typed.map_async && typed.map_sync => {
            return refuse("-D and -G exclude each other: MS_ASYNC or MS_SYNC");
        }
        (None, None) if typed.map_sync && !mapped => return refuse("-G (msync) needs -B (mmap)"),
        (None, None) if typed.map_sync => Means::Mapping(Msync::Sync),
        (None, None) if typed.map_async => Means::Mapping(Msync::Async),
        (None, None) if typed.map => Means::Mapping(Msync::Never),
        (None, None) => Means::Calls,
    };
    if matches!(means, Means::Async { .. }) && (mapped || typed.map_sync) {
        return refuse("-H and -k go with neither -B, -D nor -G: asynchronous requests or a mapping");
    }
    if typed.options.direct && mapped {
        return refuse("-I and -B exclude each other: a mapping is the page cache");
    }
    Ok(means)
}

fn throughput(options: &Options, file: bool) -> Result<(), OptionsError> {
    let automatic = options.auto || options.all_records;
    let limits = [&options.file_sizes, &options.record_sizes].map(|sizes| sizes.least.or(sizes.most));
    if automatic || limits.iter().any(Option::is_some) {
        return refuse(
            "-t, -l and -u measure one file size and one record size: not with -a -A -z -n -g -y -q, nor several -s or -r",
        );
    }
    if file {
        return refuse("-t needs a file for each process: -F in place of -f");
    }
    if options.unit == Unit::Microseconds {
        return refuse("-N is not for -t: it prints rates");
    }
    if options.remount.is_some() {
        return refuse("-U is not for -t: IOzone does not remount between its throughput tests");
    }
    let counts = sequence::counts(options);
    let most = counts.iter().copied().max().unwrap_or(1) as usize;
    if counts.is_empty() {
        return refuse("-l is more than -u: no number of processes lies between them");
    }
    if !options.files.is_empty() && options.files.len() != most {
        let names = options.files.len();
        return refuse(format!("-F names {names} files, and at most {most} processes run: name one for each"));
    }
    for (at, file) in options.files.iter().enumerate() {
        if options.files[..at].contains(file) {
            return refuse(format!("-F names {} twice: the processes would measure each other", file.display()));
        }
    }
    if options.tests.contains(Test::RecordRewrite) {
        return refuse("-i 4 (record rewrite) is not a throughput test of IOzone: leave it out");
    }
    mapped_streams(options)
}

fn table(options: &Options) -> Result<(), OptionsError> {
    let only = [
        (options.threads, "-T"),
        (!options.stonewall, "-x"),
        (options.show_children, "-C"),
        (options.read_percent.is_some(), "-+p"),
        (!options.files.is_empty(), "-F"),
    ];
    if let Some((_, name)) = only.iter().find(|(given, _)| *given) {
        return refuse(format!("{name} is for throughput mode: give -t N too"));
    }
    for test in options.tests.iter() {
        match test {
            Test::Mix => return refuse("-i 8 (random mix) is for throughput mode: give -t N too"),
            Test::Pwrite | Test::Pread => {
                let number = test.number();
                return refuse(format!(
                    "-i {number} (pwrite, pread) is for throughput mode (-t N); in a table it needs IOzone's -E, which is not supported"
                ));
            }
            _ => {}
        }
    }
    mapped_streams(options)
}

/// Refuses the tests of C stdio if another interface moves the bytes. IOzone silently leaves them out.
fn mapped_streams(options: &Options) -> Result<(), OptionsError> {
    let streams = options.tests.contains(Test::Fwrite) || options.tests.contains(Test::Fread);
    if streams && options.means != Means::Calls {
        return refuse("-i 6 and -i 7 are C stdio, which does its own calls: not with -B, -D, -H or -k");
    }
    Ok(())
}

fn sizes(options: &Options) -> Result<(), OptionsError> {
    for (sizes, names) in [(&options.file_sizes, "-n and -g"), (&options.record_sizes, "-y and -q")] {
        if !options.auto && (sizes.least.is_some() || sizes.most.is_some()) {
            return refuse(format!("{names} limit automatic mode: give -a too"));
        }
    }
    let limits = |sizes: &Sizes, least: &str, most: &str| match (sizes.least, sizes.most) {
        (Some(low), Some(high)) if low > high => {
            refuse(format!("{least} ({low} kB) is above {most} ({high} kB): no size lies between them"))
        }
        _ => Ok(()),
    };
    limits(&options.file_sizes, "-n", "-g")?;
    limits(&options.record_sizes, "-y", "-q")?;
    let (files, records) = (sequence::file_sizes(options), sequence::record_sizes(options));
    let (Some(smallest), false) = (records.iter().min(), files.is_empty()) else {
        return refuse("no size lies between the limits: -n or -g is beyond the usual ones, or -y or -q");
    };
    let rows = sequence::rows(options);
    if let Some(file) = files.into_iter().find(|file| rows.iter().all(|row| row.file != *file)) {
        return refuse(format!(
            "a record of {smallest} kB is larger than a file of {file} kB: choose a smaller -r or -y, or a larger -s or -n"
        ));
    }
    // Automatic mode runs all pairs, as IOzone does. A single pair that the user chose must fit.
    if rows.iter().all(|row| !row.is_whole())
        && let Some(row) = rows.first()
    {
        return refuse(format!(
            "a file of {} kB is not a multiple of a record of {} kB: the rest of the file would never be accessed",
            row.file, row.record
        ));
    }
    Ok(())
}
