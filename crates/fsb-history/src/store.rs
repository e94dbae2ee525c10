//! The store of the index: a file of SQLite, or a database of PostgreSQL.
//!
//! Each run is added within one transaction, so a killed process leaves a run whole or not at all.
//! Writers of several processes wait for each other. The identity of a run follows from its
//! contents, so adding it twice replaces it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use fsb_model::code::{self, Coded, ErrorCode};
use fsb_model::error_codes;
use serde_json::Map;

use crate::data::{Conditions, Entry, IndexedRun, IndexedSeries, SeriesKey, StoredPoint, digest};
use crate::database::{Database, DatabaseError, Row, Sqlite, Value};

/// The location of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A file of SQLite.
    File(PathBuf),
    /// The URL of a database of PostgreSQL.
    Server(String),
}

impl Location {
    /// Parses the value of `--store`: a URL that begins with `postgresql://` or `postgres://`, or a
    /// path.
    pub fn parse(text: &OsStr) -> Location {
        match text
            .to_str()
            .filter(|text| text.starts_with("postgresql://") || text.starts_with("postgres://"))
        {
            Some(url) => Location::Server(url.to_owned()),
            None => Location::File(text.into()),
        }
    }

    fn connect(&self) -> Result<Box<dyn Database>, HistoryError> {
        let failed = |source| HistoryError::Database {
            what: "open",
            store: self.clone(),
            source,
        };
        match self {
            Location::File(path) => Ok(Box::new(Sqlite::open(path).map_err(failed)?)),
            #[cfg(feature = "postgresql")]
            Location::Server(url) => Ok(Box::new(
                crate::database::Postgresql::connect(url).map_err(failed)?,
            )),
            #[cfg(not(feature = "postgresql"))]
            Location::Server(_) => Err(HistoryError::NoPostgresql),
        }
    }
}

/// The path, or the URL without user and password.
impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File(path) => write!(formatter, "{}", path.display()),
            #[cfg(feature = "postgresql")]
            Location::Server(url) => match crate::database::name_of_server(url) {
                Some(name) => formatter.write_str(&name),
                None => formatter.write_str("in PostgreSQL"),
            },
            #[cfg(not(feature = "postgresql"))]
            Location::Server(_) => formatter.write_str("in PostgreSQL"),
        }
    }
}

/// The statements that migrate each version of the schema to the next one. The version of a store
/// is the number of migrations that it had.
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

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The database refused an operation.
    #[error("cannot {what} the history {store}: {source}")]
    Database {
        /// The operation.
        what: &'static str,
        /// The store.
        store: Location,
        /// The error of the database.
        source: DatabaseError,
    },
    /// The store does not exist.
    #[error("the history {0} does not exist; {ADD_FIRST}")]
    Missing(Location),
    /// The database is not a store of this program.
    #[error("{0} is not a history of fsb; name another file, or an empty database, with --store")]
    Foreign(Location),
    /// This build has no client of PostgreSQL.
    #[error("--store: this fsb was built without the feature postgresql; {BUILD_IT}")]
    NoPostgresql,
    /// A newer fsb wrote the store.
    #[error(
        "{store} was written by a newer fsb: its schema is {found}, and this one knows up to {known}; use that version"
    )]
    Newer {
        /// The store.
        store: Location,
        /// The version of its schema.
        found: usize,
        /// The newest version that this program knows.
        known: usize,
    },
    /// A stored text does not have the format of fsb.
    #[error("{store} is damaged: {message}; remove it and add the runs again")]
    Damaged {
        /// The store.
        store: Location,
        /// The message of the JSON parser.
        message: String,
    },
}

/// The remedy for a missing store.
const ADD_FIRST: &str = "add runs to it: fsb history add fsb-results/*";
/// The remedy for a build without PostgreSQL.
const BUILD_IT: &str = "cargo build --release -p fsb has it";

error_codes! {
    DATABASE = "history/database", code::MACHINE, "The database cannot read or write the history.", "Follow the answer of SQLite or PostgreSQL in the message.";
    MISSING = "history/missing", code::REQUEST, "The history does not exist.", "Add runs to it: fsb history add fsb-results/*.";
    FOREIGN = "history/not-a-history", code::REQUEST, "The named store is not a history of fsb.", "Name another file, or an empty database, with --store.";
    NO_POSTGRESQL = "history/no-postgresql", code::REQUEST, "This fsb was built without PostgreSQL.", "Build fsb with the feature postgresql, or name a file with --store.";
    NEWER = "history/newer", code::REQUEST, "A newer fsb wrote the history.", "Use that version of fsb.";
    DAMAGED = "history/damaged", code::REQUEST, "The history has data that fsb did not write.", "Remove the file and add the runs again.";
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
            HistoryError::NoPostgresql => &NO_POSTGRESQL,
            HistoryError::Newer { .. } => &NEWER,
            HistoryError::Damaged { .. } => &DAMAGED,
        }
    }

    fn fields(&self) -> Map<String, serde_json::Value> {
        match self {
            HistoryError::Database { store, .. }
            | HistoryError::Missing(store)
            | HistoryError::Foreign(store)
            | HistoryError::Newer { store, .. }
            | HistoryError::Damaged { store, .. } => {
                code::fields([("path", store.to_string().into())])
            }
            HistoryError::NoPostgresql => Map::new(),
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            HistoryError::Missing(_) => Some(ADD_FIRST.to_owned()),
            HistoryError::NoPostgresql => Some(BUILD_IT.to_owned()),
            _ => None,
        }
    }
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    location: Location,
    database: RefCell<Box<dyn Database>>,
}

impl Store {
    /// Opens the store for writing, and creates it if it does not exist.
    pub fn open_or_create(location: &Location) -> Result<Store, HistoryError> {
        Store::connect(location)?.migrated()
    }

    /// Opens an existing store.
    pub fn open(location: &Location) -> Result<Store, HistoryError> {
        if let Location::File(path) = location
            && !path.exists()
        {
            return Err(HistoryError::Missing(location.clone()));
        }
        let mut store = Store::connect(location)?;
        let tables = store
            .database
            .get_mut()
            .tables()
            .map_err(store.failed("open"))?;
        // A server has databases that hold nothing.
        if matches!(location, Location::Server(_)) && tables.is_empty() {
            return Err(HistoryError::Missing(location.clone()));
        }
        store.migrated()
    }

    fn connect(location: &Location) -> Result<Store, HistoryError> {
        Ok(Store {
            location: location.clone(),
            database: RefCell::new(location.connect()?),
        })
    }

    fn migrated(mut self) -> Result<Store, HistoryError> {
        if self.version()? != Some(MIGRATIONS.len()) {
            self.migrate()?;
        }
        Ok(self)
    }

    /// Returns the location of the store.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Returns a text that differs from the text of an earlier call if another process has written
    /// in between.
    pub fn version_of_data(&self) -> Result<String, HistoryError> {
        self.database
            .borrow_mut()
            .version_of_data()
            .map_err(self.failed("read"))
    }

    /// Makes all later reads through this value see one state, whatever other processes write. The
    /// store is read-only from then on.
    pub fn freeze(&self) -> Result<(), HistoryError> {
        self.database
            .borrow_mut()
            .begin_reading()
            .map_err(self.failed("read"))
    }

    /// Returns a function that names the store and the operation in an error.
    fn failed(&self, what: &'static str) -> impl Fn(DatabaseError) -> HistoryError + use<> {
        let store = self.location.clone();
        move |source| match source {
            source if source.is_foreign_file() => HistoryError::Foreign(store.clone()),
            DatabaseError::Column(_) | DatabaseError::Json(_) => HistoryError::Damaged {
                store: store.clone(),
                message: source.to_string(),
            },
            source => HistoryError::Database {
                what,
                store: store.clone(),
                source,
            },
        }
    }

    fn version(&self) -> Result<Option<usize>, HistoryError> {
        version(&mut **self.database.borrow_mut()).map_err(self.failed("open"))
    }

    /// Migrates the schema to the newest version, in one transaction.
    fn migrate(&mut self) -> Result<(), HistoryError> {
        let location = self.location.clone();
        self.write("open", |database| {
            // Another process may have migrated the store since this one read the version.
            let found = match version(database)? {
                Some(found) => found,
                None if database.tables()?.is_empty() => {
                    database.batch("CREATE TABLE fsb_history (version INTEGER NOT NULL)")?;
                    database.execute(
                        "INSERT INTO fsb_history (version) VALUES ($1)",
                        &[Value::Integer(0)],
                    )?;
                    0
                }
                None => return Ok(Err(HistoryError::Foreign(location))),
            };
            let known = MIGRATIONS.len();
            if found > known {
                return Ok(Err(HistoryError::Newer {
                    store: location,
                    found,
                    known,
                }));
            }
            for statements in &MIGRATIONS[found..] {
                database.migrate(statements)?;
            }
            database.execute(
                "UPDATE fsb_history SET version = $1",
                &[Value::Integer(known as i64)],
            )?;
            Ok(Ok(()))
        })?
    }

    /// Adds a run, or replaces it if the index has it. New labels are added to the stored ones.
    /// Returns whether the run is new.
    pub fn add(&mut self, entry: &Entry) -> Result<bool, HistoryError> {
        self.write("write", |database| {
            insert(database, entry, &mut Inserted::default())
        })
    }

    /// Adds several runs as [`Store::add`] does, all or none. A transaction takes much longer than
    /// the runs in it. Returns for each run whether it is new.
    pub fn add_all(&mut self, entries: &[Entry]) -> Result<Vec<bool>, HistoryError> {
        self.write("write", |database| {
            let mut inserted = Inserted::default();
            entries
                .iter()
                .map(|entry| insert(database, entry, &mut inserted))
                .collect()
        })
    }

    /// Returns all runs in the order of time.
    pub fn runs(&self) -> Result<Vec<IndexedRun>, HistoryError> {
        let statement = "SELECT id, source, name, tool, at, labels FROM runs ORDER BY at, id";
        self.select(statement, &[], indexed_run)
    }

    /// Returns all series that have values.
    pub fn series(&self) -> Result<Vec<IndexedSeries>, HistoryError> {
        let statement = "SELECT id, definition FROM series WHERE EXISTS (SELECT 1 FROM points WHERE series = series.id)";
        let mut found = self.select(statement, &[], |row| {
            Ok(IndexedSeries {
                id: row.text(0)?,
                key: parsed(&row.text(1)?)?,
            })
        })?;
        found.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(found)
    }

    /// Returns the values of a series in the order of time.
    pub fn points(&self, series: &str) -> Result<Vec<StoredPoint>, HistoryError> {
        let statement = "SELECT run, at, environment, log_mean, squared_error, blocks FROM points WHERE series = $1 \
                         ORDER BY at, run";
        self.select(statement, &[series.into()], |row| {
            Ok(StoredPoint {
                run: row.text(0)?,
                at: row.text(1)?,
                environment: row.text(2)?,
                log_mean: row.real(3)?.ok_or(DatabaseError::Column(3))?,
                squared_error: row.real(4)?,
                blocks: u32::try_from(row.integer(5)?).map_err(|_| DatabaseError::Column(5))?,
            })
        })
    }

    /// Returns the conditions of all environments by their identity.
    pub fn environments(&self) -> Result<BTreeMap<String, Conditions>, HistoryError> {
        Ok(self
            .select("SELECT id, conditions FROM environments", &[], |row| {
                Ok((row.text(0)?, parsed(&row.text(1)?)?))
            })?
            .into_iter()
            .collect())
    }

    /// Removes runs, and the series and environments without runs, in one transaction.
    pub fn remove(&mut self, runs: &[String]) -> Result<(), HistoryError> {
        self.write("write", |database| {
            for run in runs {
                database.execute("DELETE FROM points WHERE run = $1", &[run.as_str().into()])?;
                database.execute("DELETE FROM runs WHERE id = $1", &[run.as_str().into()])?;
            }
            for (table, column) in [("series", "series"), ("environments", "environment")] {
                database.batch(&format!(
                    "DELETE FROM {table} WHERE id NOT IN (SELECT {column} FROM points)"
                ))?;
            }
            Ok(())
        })
    }

    /// Does work in one transaction. No other process writes during it.
    fn write<T>(
        &mut self,
        what: &'static str,
        work: impl FnOnce(&mut dyn Database) -> Result<T, DatabaseError>,
    ) -> Result<T, HistoryError> {
        let database = &mut **self.database.get_mut();
        let done = database
            .begin_writing()
            .and_then(|()| work(database))
            .and_then(|value| {
                database.batch("COMMIT")?;
                Ok(value)
            });
        if done.is_err() {
            // The caller gets the first error. A lost connection also ends the transaction.
            let _ = database.batch("ROLLBACK");
        }
        done.map_err(self.failed(what))
    }

    fn select<T>(
        &self,
        statement: &str,
        values: &[Value],
        read: impl Fn(&mut Row) -> Result<T, DatabaseError>,
    ) -> Result<Vec<T>, HistoryError> {
        let mut found = Vec::new();
        let done = self
            .database
            .borrow_mut()
            .read_rows(statement, values, &mut |row| {
                found.push(read(row)?);
                Ok(())
            });
        done.map(|()| found).map_err(self.failed("read"))
    }
}

/// Returns the version of the schema, or `None` if the database has no table of it.
fn version(database: &mut dyn Database) -> Result<Option<usize>, DatabaseError> {
    if !database
        .tables()?
        .iter()
        .any(|table| table == "fsb_history")
    {
        return Ok(None);
    }
    let rows = database.query("SELECT version FROM fsb_history", &[])?;
    let found = rows.first().ok_or(DatabaseError::Column(0))?.integer(0)?;
    Ok(Some(usize::try_from(found).unwrap_or(usize::MAX)))
}

fn indexed_run(row: &mut Row) -> Result<IndexedRun, DatabaseError> {
    Ok(IndexedRun {
        id: row.text(0)?,
        source: PathBuf::from(row.text(1)?),
        name: row.text(2)?,
        tool: row.text(3)?,
        at: row.text(4)?,
        labels: parsed(&row.text(5)?)?,
    })
}

/// The identities of the series and environments that a transaction has inserted.
#[derive(Default)]
struct Inserted<'e> {
    series: BTreeMap<&'e SeriesKey, String>,
    environments: BTreeMap<&'e Conditions, String>,
}

/// Inserts a series or an environment that the table does not have, and returns its identity.
fn insert_once<'e, T: Ord + serde::Serialize>(
    database: &mut dyn Database,
    statement: &str,
    item: &'e T,
    inserted: &mut BTreeMap<&'e T, String>,
) -> Result<Value, DatabaseError> {
    if let Some(id) = inserted.get(item) {
        return Ok(id.as_str().into());
    }
    let id = digest(item);
    database.execute(statement, &[id.as_str().into(), Value::Text(text(item)?)])?;
    let value = id.as_str().into();
    inserted.insert(item, id);
    Ok(value)
}

const SERIES: &str =
    "INSERT INTO series (id, definition) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";
const ENVIRONMENT: &str =
    "INSERT INTO environments (id, conditions) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";

/// Writes a run and its points, and returns whether the run is new. Series and environments are
/// added if they are new.
fn insert<'e>(
    database: &mut dyn Database,
    entry: &'e Entry,
    inserted: &mut Inserted<'e>,
) -> Result<bool, DatabaseError> {
    let run = &entry.run;
    let id = || Value::from(run.id.as_str());
    let known = database
        .query(RUN, &[id()])?
        .first_mut()
        .map(indexed_run)
        .transpose()?;
    let is_new = known.is_none();
    let mut labels = known.map(|known| known.labels).unwrap_or_default();
    labels.extend(run.labels.clone());
    database.execute("DELETE FROM points WHERE run = $1", &[id()])?;
    let source = run.source.to_string_lossy().into_owned();
    let columns = [&source, &run.name, &run.tool, &run.at, &text(&labels)?]
        .map(|column| Value::from(column.as_str()));
    database.execute(
        "INSERT INTO runs (id, source, name, tool, at, labels) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (id) DO UPDATE SET source = excluded.source, name = excluded.name, tool = excluded.tool, \
         at = excluded.at, labels = excluded.labels",
        &[&[id()][..], &columns].concat(),
    )?;
    for point in &entry.points {
        let series = insert_once(database, SERIES, &point.key, &mut inserted.series)?;
        let environment = insert_once(
            database,
            ENVIRONMENT,
            &point.conditions,
            &mut inserted.environments,
        )?;
        let squared_error = point.squared_error.map_or(Value::Null, Value::Real);
        database.execute(
            "INSERT INTO points (series, at, run, environment, log_mean, squared_error, blocks) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            &[
                series,
                run.at.as_str().into(),
                id(),
                environment,
                Value::Real(point.log_mean),
                squared_error,
                Value::Integer(point.blocks.into()),
            ],
        )?;
    }
    Ok(is_new)
}

fn text(value: &impl serde::Serialize) -> Result<String, DatabaseError> {
    Ok(serde_json::to_string(value)?)
}

fn parsed<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, DatabaseError> {
    Ok(serde_json::from_str(text)?)
}

#[cfg(test)]
mod tests {
    use crate::data::EntryPoint;

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
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
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
        let path = Location::File(directory.path().join("index"));
        let mut store = Store::open_or_create(&path).unwrap();
        assert!(
            store
                .add(&entry(
                    "one",
                    "2026-01-02T00:00:00Z",
                    &["ext4", "xfs"],
                    &[("commit", "abc")]
                ))
                .unwrap()
        );
        assert!(
            store
                .add(&entry("two", "2026-01-01T00:00:00Z", &["ext4"], &[]))
                .unwrap()
        );
        assert!(
            !store
                .add(&entry(
                    "one",
                    "2026-01-02T00:00:00Z",
                    &["ext4"],
                    &[("branch", "main")]
                ))
                .unwrap()
        );
        let mut other = Store::open(&path).unwrap();
        let [series] = &other.series().unwrap()[..] else {
            panic!("xfs has no values any more")
        };
        let points = other.points(&series.id).unwrap();
        assert_eq!(
            points
                .iter()
                .map(|point| point.run.as_str())
                .collect::<Vec<_>>(),
            ["two", "one"]
        );
        assert_eq!(
            (points[0].log_mean, points[0].squared_error),
            (0.1 + 0.2, None),
            "to the last digit"
        );
        assert_eq!(other.runs().unwrap()[1].labels.len(), 2);
        other.remove(&["one".to_owned(), "two".to_owned()]).unwrap();
        assert_eq!(
            (
                store.series().unwrap().len(),
                store.environments().unwrap().len()
            ),
            (0, 0)
        );
    }

    #[test]
    fn runs_that_share_a_transaction_are_added_as_one_by_one() {
        let directory = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            Store::open_or_create(&Location::File(directory.path().join(name))).unwrap()
        };
        let (mut together, mut alone) = (open("together"), open("alone"));
        let entries = [
            entry("one", "2026-01-02T00:00:00Z", &["ext4", "xfs"], &[]),
            entry(
                "two",
                "2026-01-01T00:00:00Z",
                &["xfs"],
                &[("commit", "abc")],
            ),
            entry("one", "2026-01-02T00:00:00Z", &["xfs"], &[]),
        ];
        assert_eq!(together.add_all(&entries).unwrap(), [true, true, false]);
        assert_eq!(
            entries.each_ref().map(|entry| alone.add(entry).unwrap()),
            [true, true, false]
        );
        assert_eq!(together.runs().unwrap(), alone.runs().unwrap());
        assert_eq!(
            together.environments().unwrap(),
            alone.environments().unwrap()
        );
        let series = alone.series().unwrap();
        assert_eq!(
            (together.series().unwrap(), series.len()),
            (series.clone(), 1)
        );
        assert_eq!(
            together.points(&series[0].id).unwrap(),
            alone.points(&series[0].id).unwrap()
        );
        // An error in the middle leaves none of them.
        let wrong = entry("three", "2026-01-03T00:00:00Z", &["ext4", "ext4"], &[]);
        assert!(
            together
                .add_all(&[entry("four", "2026-01-04T00:00:00Z", &["ext4"], &[]), wrong])
                .is_err()
        );
        assert_eq!(together.runs().unwrap().len(), 2);
    }

    #[test]
    fn a_newer_schema_and_other_databases_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = Location::File(directory.path().join("index"));
        assert!(matches!(Store::open(&path), Err(HistoryError::Missing(_))));
        let store = Store::open_or_create(&path).unwrap();
        store
            .database
            .borrow_mut()
            .batch("UPDATE fsb_history SET version = 99")
            .unwrap();
        let newer = Store::open(&path).unwrap_err();
        assert!(
            matches!(
                newer,
                HistoryError::Newer {
                    found: 99,
                    known: 1,
                    ..
                }
            ),
            "{newer}"
        );
        let other = directory.path().join("other");
        Sqlite::open(&other)
            .unwrap()
            .batch("CREATE TABLE cars (id TEXT)")
            .unwrap();
        assert!(matches!(
            Store::open(&Location::File(other)),
            Err(HistoryError::Foreign(_))
        ));
        assert_eq!(newer.fields()["path"], path.to_string());
    }

    /// The first process that opens a new store makes its tables, and the other processes find
    /// them.
    #[test]
    fn several_processes_may_create_one_store() {
        let directory = tempfile::tempdir().unwrap();
        let path = Location::File(directory.path().join("index"));
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    let id = format!("run {number}");
                    let mut store = Store::open_or_create(path).unwrap();
                    store
                        .add(&entry(&id, "2026-01-01T00:00:00Z", &["ext4"], &[]))
                        .unwrap();
                });
            }
        });
        assert_eq!(Store::open(&path).unwrap().runs().unwrap().len(), 8);
    }
}
