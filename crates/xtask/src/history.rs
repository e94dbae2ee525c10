//! The index of `fsb history` with the values of many trials. Runs are inserted beside `sqlite3
//! .import` of the same rows, and a series is read beside the bare SQL statement. The overview of
//! `fsb serve` is requested beside a static file of its size. `fsb history changes` over a million
//! values runs beside an earlier build.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use fsb_history::{Conditions, Entry, EntryPoint, IndexedRun, Labels, Location, SeriesKey, Store};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use rusqlite::Connection;

use crate::compare::{program, verdict};
use crate::peers::{self, Median};
use crate::runs;

/// The series of each run: cases on targets.
const SERIES: usize = 200;
/// The trials of a run in each series. The index holds their mean.
const BLOCKS: u32 = 5;
/// The limits of the times, as factors of those of the peers.
const INSERTING: f64 = 3.0;
const READING: f64 = 2.0;
const SERVING: f64 = 3.0;
/// The largest ratios of the time and the memory of `fsb history changes` to those of the earlier
/// build.
const CHANGES: runs::Cost = [0.5, 1.0];
/// The number of values that `fsb history changes` searches.
const VALUES: usize = 1_000_000;
/// The number of runs that are inserted together.
const RUNS_AT_ONCE: usize = 100;
/// The number of times that a round reads the series, and requests the page.
const READS: usize = 20;
const REQUESTS: usize = 50;
/// The tables of the index, with the order in which their rows are inserted.
const TABLES: [(&str, &str); 5] = [
    ("fsb_history", "1"),
    ("runs", "at"),
    ("series", "1"),
    ("environments", "1"),
    ("points", "at"),
];
/// The statement of `Store::points`.
const POINTS: &str = "SELECT run, at, environment, log_mean, squared_error, blocks FROM points WHERE series = ?1 \
                      ORDER BY at, run";

/// Measures and prints.
pub fn run(directory: &Path, rounds: u32, trials: u64) -> anyhow::Result<()> {
    if !peers::is_here("sqlite3") {
        println!("\nsqlite3 is missing and the history is left out: apt-get install sqlite3");
        return Ok(());
    }
    let directory = peers::work_directory(directory)?;
    let runs = usize::try_from(trials / (SERIES as u64 * u64::from(BLOCKS)))?.max(2);
    let entries: Vec<Entry> = Entries::new(runs).collect();
    println!(
        "\nfsb history with {} trials: {runs} runs of {SERIES} series with {BLOCKS} blocks, {} values; {rounds} rounds",
        runs * SERIES * BLOCKS as usize,
        runs * SERIES
    );
    let store = directory.path().join("index.sqlite");
    inserting(&store, &entries, rounds)?;
    reading(&store, &entries[0].points[0].key.id(), rounds)?;
    serving(&store, rounds)?;
    changes(directory.path(), rounds)
}

/// Searches a million values for changes beside the earlier build.
fn changes(directory: &Path, rounds: u32) -> anyhow::Result<()> {
    let Some(before) = std::env::var_os(runs::BEFORE).map(PathBuf::from) else {
        println!("{} names no earlier build", runs::BEFORE);
        return Ok(());
    };
    let path = directory.join("changes.sqlite");
    let mut store = Store::open_or_create(&Location::File(path.clone()))?;
    let mut made = Entries::new(VALUES / SERIES);
    while !made.is_empty() {
        store.add_all(&made.by_ref().take(RUNS_AT_ONCE).collect::<Vec<_>>())?;
    }
    drop(store);
    let store = path.display().to_string();
    let arguments = ["history", "changes", "--store", &store].map(str::to_owned);
    let name = format!("fsb history changes over {VALUES} values");
    runs::beside(&before, &program()?, &name, &arguments, CHANGES, rounds)
}

/// Runs an hour after each other, whose values scatter by a few percent. Each series becomes slower
/// by a tenth in the middle.
struct Entries {
    random: Pcg64Mcg,
    keys: Vec<SeriesKey>,
    conditions: Conditions,
    numbers: std::ops::Range<usize>,
    middle: usize,
}

impl Entries {
    fn new(runs: usize) -> Entries {
        let key = |series: usize| SeriesKey {
            tool: "fsb".to_owned(),
            case: format!("case {}", series / 4),
            operation: "write".to_owned(),
            target: ["ext4", "xfs", "btrfs", "f2fs"][series % 4].to_owned(),
            metric: "throughput".to_owned(),
            unit: "bytes_per_second".to_owned(),
            higher_is_better: true,
            machine: "a machine, 8 processors, 16.0 GiB".to_owned(),
            parameters:
                "{\"block_size\":1048576,\"file_size\":\"size/8\",\"cache\":\"cold\",\"threads\":1}"
                    .to_owned(),
        };
        let conditions = [
            "kernel",
            "fsb",
            "distribution",
            "suite",
            "size",
            "method",
            "medium",
            "mkfs",
            "mount options",
        ];
        let conditions =
            conditions.map(|name| (name.to_owned(), format!("the {name} of all runs")));
        Entries {
            random: Pcg64Mcg::seed_from_u64(1),
            keys: (0..SERIES).map(key).collect(),
            conditions: Conditions::from(conditions),
            numbers: 0..runs,
            middle: runs / 2,
        }
    }

    fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

impl Iterator for Entries {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let number = self.numbers.next()?;
        let day = number / 24;
        let mut points = Vec::with_capacity(SERIES);
        for key in &self.keys {
            points.push(EntryPoint {
                key: key.clone(),
                conditions: self.conditions.clone(),
                log_mean: 18.0 + self.random.random_range(-0.05..0.05)
                    - if number < self.middle { 0.0 } else { 0.1 },
                squared_error: Some(1e-4),
                blocks: BLOCKS,
            });
        }
        let run = IndexedRun {
            id: format!("{number:016x}"),
            source: PathBuf::from(format!("/srv/results/run-{number}")),
            name: String::new(),
            tool: "fsb".to_owned(),
            // Months of 28 days have the order of all months.
            at: format!(
                "{}-{:02}-{:02}T{:02}:00:00Z",
                2026 + day / 336,
                1 + day / 28 % 12,
                1 + day % 28,
                number % 24
            ),
            labels: Labels::from([("commit".to_owned(), format!("{number:040x}"))]),
        };
        Some(Entry {
            run,
            points,
            left_out: Vec::new(),
        })
    }
}

/// Inserts all runs into new stores, beside imports of the rows of the first one.
fn inserting(store: &Path, entries: &[Entry], rounds: u32) -> anyhow::Result<()> {
    let insert = |path: &Path| -> anyhow::Result<f64> {
        let start = Instant::now();
        let mut store = Store::open_or_create(&Location::File(path.to_owned()))?;
        store.add_all(entries)?;
        Ok(start.elapsed().as_secs_f64())
    };
    insert(store)?;
    let mut script = format!("{}.mode csv\n", output(sqlite3(store).arg(".schema"))?);
    for (table, order) in TABLES {
        let rows = store.with_file_name(format!("{table}.csv"));
        let statement = format!("SELECT * FROM {table} ORDER BY {order}");
        fs::write(&rows, output(sqlite3(store).arg("-csv").arg(statement))?)?;
        script += &format!(".import {} {table}\n", rows.display());
    }
    let file = store.with_file_name("import.sql");
    fs::write(&file, script)?;
    let import = |path: &Path| -> anyhow::Result<f64> {
        let start = Instant::now();
        output(sqlite3(path).stdin(fs::File::open(&file)?))?;
        Ok(start.elapsed().as_secs_f64())
    };
    let fresh = store.with_file_name("fresh.sqlite");
    let [ours, theirs] = in_turn(rounds, [&|| insert(&fresh), &|| import(&fresh)], &|| {
        remove(&fresh)
    })?;
    print(
        "inserting all runs",
        &ours,
        "sqlite3 .import",
        &theirs,
        INSERTING,
    );
    Ok(())
}

fn sqlite3(path: &Path) -> Command {
    let mut command = Command::new("sqlite3");
    command.arg("-batch").arg("-bail").arg(path);
    command
}

fn remove(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        fs::remove_file(path).map_err(Into::into)
    } else {
        Ok(())
    }
}

/// Reads the longest series beside the statement alone, whose rows are not converted.
fn reading(path: &Path, series: &str, rounds: u32) -> anyhow::Result<()> {
    let store = Store::open(&Location::File(path.to_owned()))?;
    let read = || -> anyhow::Result<f64> {
        let start = Instant::now();
        for _ in 0..READS {
            std::hint::black_box(store.points(series)?);
        }
        Ok(start.elapsed().as_secs_f64())
    };
    let connection = Connection::open(path)?;
    let bare = || -> anyhow::Result<f64> {
        let start = Instant::now();
        for _ in 0..READS {
            let mut statement = connection.prepare_cached(POINTS)?;
            let columns = statement.column_count();
            let mut rows = statement.query([series])?;
            while let Some(row) = rows.next()? {
                for column in 0..columns {
                    std::hint::black_box(row.get_ref(column)?);
                }
            }
        }
        Ok(start.elapsed().as_secs_f64())
    };
    let [ours, theirs] = in_turn(rounds, [&read, &bare], &|| Ok(()))?;
    let each = |seconds: Vec<f64>| -> Vec<f64> {
        seconds
            .iter()
            .map(|seconds| seconds / READS as f64)
            .collect()
    };
    print(
        "reading one series",
        &each(ours),
        "the SQL statement",
        &each(theirs),
        READING,
    );
    Ok(())
}

/// Requests the first page of `fsb serve` beside a file of its size from a loop that reads and
/// sends it.
fn serving(store: &Path, rounds: u32) -> anyhow::Result<()> {
    let mut command = Command::new(program()?);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--store"])
        .arg(store)
        .stdout(Stdio::piped());
    let mut server = Killed(command.spawn()?);
    let mut line = String::new();
    BufReader::new(server.0.stdout.as_mut().context("its output")?).read_line(&mut line)?;
    let address = line
        .trim()
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .parse::<SocketAddr>()?;
    let start = Instant::now();
    let page = request(address)?;
    println!(
        "{:<28} {:.3} s (analyses all series)",
        "first request of the page",
        start.elapsed().as_secs_f64()
    );
    let file = store.with_file_name("page.html");
    fs::write(&file, &page)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let of_file = listener.local_addr()?;
    // The thread ends with this process.
    std::thread::spawn(move || {
        listener
            .incoming()
            .flatten()
            .try_for_each(|stream| send_file(stream, &file))
    });
    let requests = |address: SocketAddr| -> anyhow::Result<f64> {
        let start = Instant::now();
        for _ in 0..REQUESTS {
            let answer = request(address)?;
            ensure!(
                answer.len().abs_diff(page.len()) < 1024,
                "{} bytes instead of {}",
                answer.len(),
                page.len()
            );
        }
        Ok(start.elapsed().as_secs_f64() / REQUESTS as f64)
    };
    let [ours, theirs] = in_turn(
        rounds,
        [&|| requests(address), &|| requests(of_file)],
        &|| Ok(()),
    )?;
    print(
        &format!("the page, {} KiB", page.len() / 1024),
        &ours,
        "a static file",
        &theirs,
        SERVING,
    );
    Ok(())
}

/// A process that is killed with this value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Requests the page over a new connection and returns the whole answer.
fn request(address: SocketAddr) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(
        format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    ensure!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    Ok(answer)
}

/// Answers a request with a file that holds a whole answer.
fn send_file(mut stream: TcpStream, file: &Path) -> std::io::Result<()> {
    let mut head = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    while head.read_line(&mut line)? > 2 {
        line.clear();
    }
    stream.write_all(&fs::read(file)?)
}

/// Measures both sides in each round, the second one first in every other round. `reset` precedes
/// each measurement.
fn in_turn(
    rounds: u32,
    sides: [&dyn Fn() -> anyhow::Result<f64>; 2],
    reset: &dyn Fn() -> anyhow::Result<()>,
) -> anyhow::Result<[Vec<f64>; 2]> {
    let mut seconds = [Vec::new(), Vec::new()];
    for round in 0..rounds as usize {
        for turn in 0..2 {
            let side = (round + turn) % 2;
            reset()?;
            seconds[side].push(sides[side]()?);
        }
    }
    Ok(seconds)
}

fn print(name: &str, ours: &[f64], peer: &str, theirs: &[f64], limit: f64) {
    let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
    let ratio = Median::from_values(ratios);
    let milliseconds =
        |seconds: &[f64]| Median::from_values(seconds.iter().map(|seconds| seconds * 1e3));
    println!("{name:<28} {:.3} ms", milliseconds(ours));
    println!("{peer:<28} {:.3} ms", milliseconds(theirs));
    println!(
        "{:<28} {ratio:.2}{}",
        "ratio",
        verdict(ratio.value <= limit, limit)
    );
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    Ok(String::from_utf8(peers::run(command)?.stdout)?)
}
