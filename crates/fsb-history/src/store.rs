//! The store of the index: a SQLite database.
//!
//! Each run is added in one transaction, so a killed process leaves a run whole or not at all. Writers of several
//! processes wait for each other. The identity of a run follows from its contents, so adding it twice replaces it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::code::{self, Coded, ErrorCode};
use fsb_model::error_codes;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use serde_json::{Map, Value};

use crate::data::{Conditions, Entry, IndexedRun, IndexedSeries, StoredPoint, digest};

/// The statements that lead from each version of the schema to the next one. A store has a version for each.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE runs (
        id TEXT PRIMARY KEY, source TEXT NOT NULL, name TEXT NOT NULL, tool TEXT NOT NULL, at TEXT NOT NULL,
        labels TEXT NOT NULL
    );
    CREATE TABLE series (id TEXT PRIMARY KEY, definition TEXT NOT NULL);
    CREATE TABLE environments (id TEXT PRIMARY KEY, conditions TEXT NOT NULL);
    CREATE TABLE points (
        series TEXT NOT NULL REFERENCES series, at TEXT NOT NULL, run TEXT NOT NULL REFERENCES runs,
        environment TEXT NOT NULL REFERENCES environments, log_mean DOUBLE PRECISION NOT NULL,
        squared_error DOUBLE PRECISION, blocks INTEGER NOT NULL,
        PRIMARY KEY (series, at, run)
    ) WITHOUT ROWID;
    CREATE INDEX points_of_run ON points (run);
"];

const RUN: &str = "SELECT id, source, name, tool, at, labels FROM runs WHERE id = $1";

/// The time that a writer waits for others.
const PATIENCE: Duration = Duration::from_secs(120);

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// SQLite refused an operation.
    #[error("cannot {what} the history {path}: {source}")]
    Database {
        /// The operation.
        what: &'static str,
        /// The file of the store.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The store does not exist.
    #[error("the history {0} does not exist; {ADD_FIRST}")]
    Missing(PathBuf),
    /// The file is not a store of this program.
    #[error("{0} is not a history of fsb; name another file with --store")]
    Foreign(PathBuf),
    /// A newer fsb wrote the store.
    #[error(
        "{path} was written by a newer fsb: its schema is {found}, and this one knows up to {known}; use that version"
    )]
    Newer {
        /// The file of the store.
        path: PathBuf,
        /// The version of its schema.
        found: usize,
        /// The newest version that this program knows.
        known: usize,
    },
    /// A stored text is not what this program writes.
    #[error("{path} is damaged: {message}; remove it and add the runs again")]
    Damaged {
        /// The file of the store.
        path: PathBuf,
        /// The message of the JSON parser.
        message: String,
    },
}

/// The remedy for a missing store.
const ADD_FIRST: &str = "add runs to it: fsb history add fsb-results/*";

error_codes! {
    DATABASE = "history/database", code::MACHINE, "SQLite cannot read or write the history.", "Follow SQLite's answer in the message.";
    MISSING = "history/missing", code::REQUEST, "The history does not exist.", "Add runs to it: fsb history add fsb-results/*.";
    FOREIGN = "history/not-a-history", code::REQUEST, "The named store is not a history of fsb.", "Name another file with --store.";
    NEWER = "history/newer", code::REQUEST, "A newer fsb wrote the history.", "Use that version of fsb.";
    DAMAGED = "history/damaged", code::REQUEST, "The history holds something that fsb does not write.", "Remove the file and add the runs again.";
    UNKNOWN_SERIES = "history/unknown-series", code::REQUEST, "The history has no such series, or several.", "Use an id of fsb history list.";
    UNKNOWN_RUN = "history/unknown-run", code::REQUEST, "The history has no such run, or several.", "Use an id of fsb history show SERIES, or the path of a run.";
    NO_TIME = "history/no-time", code::REQUEST, "The time of results of another tool is not known.", "Name it with --at.";
}

impl Coded for HistoryError {
    fn code(&self) -> &'static ErrorCode {
        match self {
            HistoryError::Database { .. } => &DATABASE,
            HistoryError::Missing(_) => &MISSING,
            HistoryError::Foreign(_) => &FOREIGN,
            HistoryError::Newer { .. } => &NEWER,
            HistoryError::Damaged { .. } => &DAMAGED,
        }
    }

    fn fields(&self) -> Map<String, Value> {
        let (HistoryError::Database { path, .. }
        | HistoryError::Missing(path)
        | HistoryError::Foreign(path)
        | HistoryError::Newer { path, .. }
        | HistoryError::Damaged { path, .. }) = self;
        code::fields([("path", path.to_string_lossy().into())])
    }

    fn help(&self) -> Option<String> {
        matches!(self, HistoryError::Missing(_)).then(|| ADD_FIRST.to_owned())
    }
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

impl Store {
    /// Opens the store for writing, and creates it if it does not exist.
    pub fn open_or_create(path: &Path) -> Result<Store, HistoryError> {
        let mut store = Store::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        store.migrate()?;
        Ok(store)
    }

    /// Opens an existing store.
    pub fn open(path: &Path) -> Result<Store, HistoryError> {
        if !path.exists() {
            return Err(HistoryError::Missing(path.to_owned()));
        }
        Store::open_or_create(path)
    }

    /// Makes all later reads of this value see one state, whatever other processes write. It cannot write any more.
    pub fn freeze(&self) -> Result<(), HistoryError> {
        self.connection.execute_batch("BEGIN").map_err(self.failed("read"))
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Store, HistoryError> {
        let failed = |source| HistoryError::Database { what: "open", path: path.to_owned(), source };
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        // A store may come from anywhere: its views and triggers, of which fsb makes none, must not call functions.
        let set = connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON;");
        let store = Store { path: path.to_owned(), connection };
        set.map_err(|error| store.failed("open")(error))?;
        Ok(store)
    }

    /// Returns a function that names the store and the operation in an error.
    fn failed(&self, what: &'static str) -> impl Fn(rusqlite::Error) -> HistoryError + use<> {
        let path = self.path.clone();
        move |source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => HistoryError::Foreign(path.clone()),
            _ => HistoryError::Database { what, path: path.clone(), source },
        }
    }

    /// Brings the schema to the newest version, in one transaction.
    fn migrate(&mut self) -> Result<(), HistoryError> {
        let path = self.path.clone();
        let failed = self.failed("open");
        if self.version()? == Some(MIGRATIONS.len()) {
            return Ok(());
        }
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
        // Another process may have migrated it since the first look.
        let found = match version(&transaction).map_err(&failed)? {
            Some(found) => found,
            None if is_empty(&transaction).map_err(&failed)? => {
                transaction.execute_batch("CREATE TABLE fsb_history (version INTEGER NOT NULL)").map_err(&failed)?;
                transaction.execute("INSERT INTO fsb_history (version) VALUES ($1)", [0]).map_err(&failed)?;
                0
            }
            None => return Err(HistoryError::Foreign(path)),
        };
        if found > MIGRATIONS.len() {
            return Err(HistoryError::Newer { path, found, known: MIGRATIONS.len() });
        }
        for statements in &MIGRATIONS[found..] {
            transaction.execute_batch(statements).map_err(&failed)?;
        }
        transaction.execute("UPDATE fsb_history SET version = $1", [MIGRATIONS.len() as i64]).map_err(&failed)?;
        transaction.commit().map_err(&failed)
    }

    fn version(&self) -> Result<Option<usize>, HistoryError> {
        version(&self.connection).map_err(self.failed("open"))
    }

    /// Adds a run, or replaces what the index has of it. Labels are added to those that it already has. Returns whether
    /// the run is new.
    pub fn add(&mut self, entry: &Entry) -> Result<bool, HistoryError> {
        let failed = self.failed("write");
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
        let is_new = insert(&transaction, entry).map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
        Ok(is_new)
    }

    /// Returns all runs in the order of time.
    pub fn runs(&self) -> Result<Vec<IndexedRun>, HistoryError> {
        self.select("SELECT id, source, name, tool, at, labels FROM runs ORDER BY at, id", &[], indexed_run)
    }

    /// Returns all series that have values.
    pub fn series(&self) -> Result<Vec<IndexedSeries>, HistoryError> {
        let statement =
            "SELECT id, definition FROM series WHERE EXISTS (SELECT 1 FROM points WHERE series = series.id)";
        let mut found = self.select(statement, &[], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
        found.sort();
        found.into_iter().map(|(id, text)| Ok(IndexedSeries { key: self.parse(&text)?, id })).collect()
    }

    /// Returns the values of a series in the order of time.
    pub fn points(&self, series: &str) -> Result<Vec<StoredPoint>, HistoryError> {
        let statement = "SELECT run, at, environment, log_mean, squared_error, blocks FROM points WHERE series = $1 \
                         ORDER BY at, run";
        self.select(statement, &[&series], |row| {
            Ok(StoredPoint {
                run: row.get(0)?,
                at: row.get(1)?,
                environment: row.get(2)?,
                log_mean: row.get(3)?,
                squared_error: row.get(4)?,
                blocks: row.get(5)?,
            })
        })
    }

    /// Returns the conditions of all environments by their identity.
    pub fn environments(&self) -> Result<BTreeMap<String, Conditions>, HistoryError> {
        let found = self.select("SELECT id, conditions FROM environments", &[], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        found.into_iter().map(|(id, text)| Ok((id, self.parse(&text)?))).collect()
    }

    /// Removes runs, and series and environments that no run has any more, in one transaction.
    pub fn remove(&mut self, runs: &[String]) -> Result<(), HistoryError> {
        let failed = self.failed("write");
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
        let remove = || {
            for run in runs {
                transaction.execute("DELETE FROM points WHERE run = $1", [run])?;
                transaction.execute("DELETE FROM runs WHERE id = $1", [run])?;
            }
            for (table, column) in [("series", "series"), ("environments", "environment")] {
                let statement = format!("DELETE FROM {table} WHERE id NOT IN (SELECT {column} FROM points)");
                transaction.execute(&statement, [])?;
            }
            Ok(())
        };
        remove().map_err(&failed)?;
        transaction.commit().map_err(&failed)
    }

    fn select<T>(
        &self,
        statement: &str,
        values: &[&dyn rusqlite::ToSql],
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, HistoryError> {
        let rows = || {
            let mut statement = self.connection.prepare_cached(statement)?;
            statement.query_map(values, |row| read(row))?.collect::<rusqlite::Result<Vec<T>>>()
        };
        rows().map_err(self.failed("read"))
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, text: &str) -> Result<T, HistoryError> {
        let damaged =
            |error: serde_json::Error| HistoryError::Damaged { path: self.path.clone(), message: error.to_string() };
        serde_json::from_str(text).map_err(damaged)
    }
}

/// Returns the version of the schema, or `None` if the database has no table of it.
fn version(connection: &Connection) -> rusqlite::Result<Option<usize>> {
    // A query, because rusqlite's table_exists answers from the schema that the connection has read before.
    let exists = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'fsb_history')";
    if !connection.query_row(exists, [], |row| row.get(0))? {
        return Ok(None);
    }
    let found: i64 = connection.query_row("SELECT version FROM fsb_history", [], |row| row.get(0))?;
    Ok(Some(usize::try_from(found).unwrap_or(usize::MAX)))
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

fn indexed_run(row: &Row<'_>) -> rusqlite::Result<IndexedRun> {
    let labels: String = row.get(5)?;
    let labels = serde_json::from_str(&labels)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(5, rusqlite::types::Type::Text, Box::new(error)))?;
    Ok(IndexedRun {
        id: row.get(0)?,
        source: PathBuf::from(row.get::<_, String>(1)?),
        name: row.get(2)?,
        tool: row.get(3)?,
        at: row.get(4)?,
        labels,
    })
}

/// Writes a run and its points, and returns whether the run is new. Series and environments are added if they are new.
fn insert(transaction: &Transaction<'_>, entry: &Entry) -> rusqlite::Result<bool> {
    let run = &entry.run;
    let known = transaction.prepare_cached(RUN)?.query_row([&run.id], indexed_run).optional()?;
    let is_new = known.is_none();
    let mut labels = known.map(|known| known.labels).unwrap_or_default();
    labels.extend(run.labels.clone());
    let labels = text(&labels)?;
    transaction.prepare_cached("DELETE FROM points WHERE run = $1")?.execute([&run.id])?;
    transaction
        .prepare_cached(
            "INSERT INTO runs (id, source, name, tool, at, labels) VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (id) DO UPDATE SET source = excluded.source, name = excluded.name, tool = excluded.tool, \
             at = excluded.at, labels = excluded.labels",
        )?
        .execute(params![run.id, run.source.to_string_lossy(), run.name, run.tool, run.at, labels])?;
    for point in &entry.points {
        let (series, environment) = (point.key.id(), digest(&point.conditions));
        transaction
            .prepare_cached("INSERT INTO series (id, definition) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING")?
            .execute(params![series, text(&point.key)?])?;
        transaction
            .prepare_cached("INSERT INTO environments (id, conditions) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING")?
            .execute(params![environment, text(&point.conditions)?])?;
        transaction
            .prepare_cached(
                "INSERT INTO points (series, at, run, environment, log_mean, squared_error, blocks) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
            )?
            .execute(params![series, run.at, run.id, environment, point.log_mean, point.squared_error, point.blocks])?;
    }
    Ok(is_new)
}

fn text(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use crate::data::{EntryPoint, SeriesKey};

    use super::*;

    fn entry(id: &str, at: &str, targets: &[&str], labels: &[(&str, &str)]) -> Entry {
        let key = |target: &str| SeriesKey {
            tool: "fsb".to_owned(),
            case: "write 1M".to_owned(),
            operation: "write".to_owned(),
            target: target.to_owned(),
            metric: "throughput".to_owned(),
            unit: "bytes_per_second".to_owned(),
            higher_is_better: true,
            machine: "a machine".to_owned(),
            parameters: "{}".to_owned(),
        };
        let point = |target: &&str| EntryPoint {
            key: key(target),
            conditions: Conditions::from([("kernel".to_owned(), "6.1".to_owned())]),
            log_mean: 0.1 + 0.2,
            squared_error: None,
            blocks: 5,
        };
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Entry {
            run: IndexedRun {
                id: id.to_owned(),
                source: PathBuf::from("/results").join(id),
                name: String::new(),
                tool: "fsb".to_owned(),
                at: at.to_owned(),
                labels,
            },
            points: targets.iter().map(point).collect(),
            left_out: Vec::new(),
        }
    }

    #[test]
    fn a_run_that_is_added_again_is_replaced_and_keeps_its_labels() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index");
        let mut store = Store::open_or_create(&path).unwrap();
        assert!(store.add(&entry("one", "2026-01-02T00:00:00Z", &["ext4", "xfs"], &[("commit", "abc")])).unwrap());
        assert!(store.add(&entry("two", "2026-01-01T00:00:00Z", &["ext4"], &[])).unwrap());
        assert!(!store.add(&entry("one", "2026-01-02T00:00:00Z", &["ext4"], &[("branch", "main")])).unwrap());
        let mut other = Store::open(&path).unwrap();
        let [series] = &other.series().unwrap()[..] else { panic!("xfs has no values any more") };
        let points = other.points(&series.id).unwrap();
        assert_eq!(points.iter().map(|point| point.run.as_str()).collect::<Vec<_>>(), ["two", "one"]);
        assert_eq!((points[0].log_mean, points[0].squared_error), (0.1 + 0.2, None), "to the last digit");
        assert_eq!(other.runs().unwrap()[1].labels.len(), 2);
        other.remove(&["one".to_owned(), "two".to_owned()]).unwrap();
        assert_eq!((store.series().unwrap().len(), store.environments().unwrap().len()), (0, 0));
    }

    #[test]
    fn a_newer_schema_and_other_databases_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index");
        assert!(matches!(Store::open(&path), Err(HistoryError::Missing(_))));
        let store = Store::open_or_create(&path).unwrap();
        store.connection.execute("UPDATE fsb_history SET version = 99", []).unwrap();
        let newer = Store::open(&path).unwrap_err();
        assert!(matches!(newer, HistoryError::Newer { found: 99, known: 1, .. }), "{newer}");
        let other = directory.path().join("other");
        Connection::open(&other).unwrap().execute("CREATE TABLE cars (id TEXT)", []).unwrap();
        assert!(matches!(Store::open(&other), Err(HistoryError::Foreign(_))));
        assert_eq!(newer.fields()["path"], path.display().to_string());
    }

    /// An older schema is brought to the newest one, whichever process opens it first.
    #[test]
    fn several_processes_may_create_one_store() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    let id = format!("run {number}");
                    let mut store = Store::open_or_create(path).unwrap();
                    store.add(&entry(&id, "2026-01-01T00:00:00Z", &["ext4"], &[])).unwrap();
                });
            }
        });
        assert_eq!(Store::open(&path).unwrap().runs().unwrap().len(), 8);
    }
}
