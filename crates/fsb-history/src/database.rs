//! The two databases that can hold an index, SQLite and PostgreSQL, behind the operations that the
//! store needs.
//!
//! Both databases execute the same statements, with values `$1`, `$2`, …, so that the store has
//! each statement once.

use std::path::Path;
use std::time::Duration;

use rusqlite::OpenFlags;
use rusqlite::types::ValueRef;

/// The time that a writer waits for other writers.
const PATIENCE: Duration = Duration::from_secs(120);

/// An error of a database.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// SQLite refused an operation.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL refused an operation, or did not answer.
    #[cfg(feature = "postgresql")]
    #[error("{}", with_causes(.0))]
    Postgresql(#[from] postgres::Error),
    /// A column has another type than the schema of fsb.
    #[error("column {0} holds something that fsb does not write")]
    Column(usize),
    /// A text is not the JSON that fsb wrote.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl DatabaseError {
    /// Returns whether the file is not a database of SQLite.
    pub(crate) fn is_foreign_file(&self) -> bool {
        matches!(self, DatabaseError::Sqlite(error)
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase))
    }
}

type Result<T> = std::result::Result<T, DatabaseError>;

/// Receives each row of a statement, which it may empty.
type ReadRow<'r> = &'r mut dyn FnMut(&mut Row) -> Result<()>;

/// A value of a statement or of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// No value.
    Null,
    /// A number without fraction.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(String),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

/// A row of the result of a query.
#[derive(Debug, Default)]
pub(crate) struct Row(Vec<Value>);

impl Row {
    /// Removes and returns the text of a column.
    pub(crate) fn text(&mut self, column: usize) -> Result<String> {
        match self
            .0
            .get_mut(column)
            .map(|value| std::mem::replace(value, Value::Null))
        {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(DatabaseError::Column(column)),
        }
    }

    /// Returns the number of a column, or `None` if it is empty.
    pub(crate) fn real(&self, column: usize) -> Result<Option<f64>> {
        match self.0.get(column) {
            Some(Value::Null) => Ok(None),
            Some(Value::Real(number)) => Ok(Some(*number)),
            _ => Err(DatabaseError::Column(column)),
        }
    }

    /// Returns the number of a column.
    pub(crate) fn integer(&self, column: usize) -> Result<i64> {
        match self.0.get(column) {
            Some(Value::Integer(number)) => Ok(*number),
            _ => Err(DatabaseError::Column(column)),
        }
    }
}

/// A connection to a database.
pub(crate) trait Database: std::fmt::Debug + Send {
    /// Executes statements without values.
    fn batch(&mut self, statements: &str) -> Result<()>;
    /// Executes a statement.
    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<()>;
    /// Passes each row of a statement to `read`. Ends with its first error.
    fn read_rows(&mut self, statement: &str, values: &[Value], read: ReadRow<'_>) -> Result<()>;
    /// Returns the rows of a statement.
    fn query(&mut self, statement: &str, values: &[Value]) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.read_rows(statement, values, &mut |row| {
            rows.push(std::mem::take(row));
            Ok(())
        })?;
        Ok(rows)
    }
    /// Begins a transaction that waits for other writers, and excludes them until it ends.
    fn begin_writing(&mut self) -> Result<()>;
    /// Begins a read-only transaction whose statements see one state.
    fn begin_reading(&mut self) -> Result<()>;
    /// Returns the names of all tables.
    fn tables(&mut self) -> Result<Vec<String>>;
    /// Returns a text that differs after another process has written; it may also differ for other
    /// reasons.
    fn version_of_data(&mut self) -> Result<String>;
    /// Executes the statements of a migration. PostgreSQL gets them without `WITHOUT ROWID`, which
    /// only SQLite has.
    fn migrate(&mut self, statements: &str) -> Result<()>;
}

/// A file of SQLite.
#[derive(Debug)]
pub(crate) struct Sqlite(rusqlite::Connection);

impl Sqlite {
    /// Opens a file, and creates it if it does not exist.
    pub(crate) fn open(path: &Path) -> Result<Sqlite> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        // A store may be from another user. fsb makes no views and triggers, so none in the store
        // may call functions.
        connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON;")?;
        Ok(Sqlite(connection))
    }
}

impl Database for Sqlite {
    fn batch(&mut self, statements: &str) -> Result<()> {
        Ok(self.0.execute_batch(statements)?)
    }

    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<()> {
        self.0
            .prepare_cached(statement)?
            .execute(rusqlite::params_from_iter(values))?;
        Ok(())
    }

    fn read_rows(&mut self, statement: &str, values: &[Value], read: ReadRow<'_>) -> Result<()> {
        let mut statement = self.0.prepare_cached(statement)?;
        let columns = statement.column_count();
        let mut rows = statement.query(rusqlite::params_from_iter(values))?;
        // One allocation serves all rows.
        let mut row = Row::default();
        while let Some(found) = rows.next()? {
            row.0.clear();
            for column in 0..columns {
                row.0.push(match found.get_ref(column)? {
                    ValueRef::Integer(number) => Value::Integer(number),
                    ValueRef::Real(number) => Value::Real(number),
                    ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                    ValueRef::Null | ValueRef::Blob(_) => Value::Null,
                });
            }
            read(&mut row)?;
        }
        Ok(())
    }

    fn begin_writing(&mut self) -> Result<()> {
        self.batch("BEGIN IMMEDIATE")
    }

    fn begin_reading(&mut self) -> Result<()> {
        self.batch("BEGIN")
    }

    fn tables(&mut self) -> Result<Vec<String>> {
        // rusqlite's table_exists would use the schema that the connection read before.
        let rows = self.query("SELECT name FROM sqlite_schema", &[])?;
        rows.into_iter().map(|mut row| row.text(0)).collect()
    }

    fn version_of_data(&mut self) -> Result<String> {
        let mut rows = self.query(
            "SELECT CAST(data_version AS TEXT) FROM pragma_data_version",
            &[],
        )?;
        rows.first_mut().ok_or(DatabaseError::Column(0))?.text(0)
    }

    fn migrate(&mut self, statements: &str) -> Result<()> {
        self.batch(statements)
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

#[cfg(feature = "postgresql")]
pub(crate) use server::{Postgresql, name_of_server};

#[cfg(feature = "postgresql")]
fn with_causes(error: &postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(feature = "postgresql")]
mod server {
    use std::collections::HashMap;
    use std::error::Error;

    use postgres::config::Host;
    use postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
    use postgres::{Client, Config, NoTls, Statement};

    use super::{Database, DatabaseError, Duration, PATIENCE, ReadRow, Result, Row, Value};

    /// The time limit for connecting to a server, unless the URL sets `connect_timeout`.
    const CONNECT: Duration = Duration::from_secs(10);

    /// The advisory lock that writers of an index hold. PostgreSQL keeps these locks per database.
    /// The number is `fsb` in ASCII.
    const WRITERS: &str = "SELECT pg_advisory_xact_lock(6714210)";

    /// A database of PostgreSQL.
    pub(crate) struct Postgresql {
        client: Client,
        prepared: HashMap<String, Statement>,
    }

    impl std::fmt::Debug for Postgresql {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.debug_struct("Postgresql").finish_non_exhaustive()
        }
    }

    impl Postgresql {
        /// Connects to the server and the database of a URL. The password may be in `PGPASSWORD`,
        /// as for psql.
        pub(crate) fn connect(url: &str) -> Result<Postgresql> {
            let mut config: Config = url.parse()?;
            config.application_name("fsb");
            if config.get_connect_timeout().is_none() {
                config.connect_timeout(CONNECT);
            }
            if config.get_password().is_none()
                && let Some(password) = std::env::var_os("PGPASSWORD")
            {
                config.password(password.as_encoded_bytes());
            }
            let mut client = config.connect(NoTls)?;
            client.batch_execute(&format!("SET lock_timeout = '{}s'", PATIENCE.as_secs()))?;
            Ok(Postgresql {
                client,
                prepared: HashMap::new(),
            })
        }

        fn prepare(&mut self, text: &str) -> Result<Statement> {
            if let Some(statement) = self.prepared.get(text) {
                return Ok(statement.clone());
            }
            let statement = self.client.prepare(text)?;
            self.prepared.insert(text.to_owned(), statement.clone());
            Ok(statement)
        }
    }

    impl Database for Postgresql {
        fn batch(&mut self, statements: &str) -> Result<()> {
            Ok(self.client.batch_execute(statements)?)
        }

        fn execute(&mut self, statement: &str, values: &[Value]) -> Result<()> {
            let statement = self.prepare(statement)?;
            self.client.execute(&statement, &parameters(values))?;
            Ok(())
        }

        fn read_rows(
            &mut self,
            statement: &str,
            values: &[Value],
            read: ReadRow<'_>,
        ) -> Result<()> {
            let statement = self.prepare(statement)?;
            let rows = self.client.query(&statement, &parameters(values))?;
            for row in rows {
                let mut values = Vec::with_capacity(row.columns().len());
                for (column, kind) in row.columns().iter().enumerate() {
                    let value = match *kind.type_() {
                        Type::INT4 => row
                            .try_get::<_, Option<i32>>(column)?
                            .map(|n| Value::Integer(n.into())),
                        Type::INT8 => row.try_get::<_, Option<i64>>(column)?.map(Value::Integer),
                        Type::FLOAT8 => row.try_get::<_, Option<f64>>(column)?.map(Value::Real),
                        Type::TEXT | Type::NAME => {
                            row.try_get::<_, Option<String>>(column)?.map(Value::Text)
                        }
                        _ => None,
                    };
                    values.push(value.unwrap_or(Value::Null));
                }
                read(&mut Row(values))?;
            }
            Ok(())
        }

        fn begin_writing(&mut self) -> Result<()> {
            self.batch("BEGIN")?;
            self.batch(WRITERS)
        }

        fn begin_reading(&mut self) -> Result<()> {
            self.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        }

        fn tables(&mut self) -> Result<Vec<String>> {
            let statement =
                "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()";
            self.query(statement, &[])?
                .into_iter()
                .map(|mut row| row.text(0))
                .collect()
        }

        fn version_of_data(&mut self) -> Result<String> {
            // The snapshot names the transactions of all databases of the server that have ended.
            let mut rows = self.query("SELECT CAST(txid_current_snapshot() AS TEXT)", &[])?;
            rows.first_mut().ok_or(DatabaseError::Column(0))?.text(0)
        }

        fn migrate(&mut self, statements: &str) -> Result<()> {
            self.batch(&statements.replace("WITHOUT ROWID", ""))
        }
    }

    fn parameters(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
        values
            .iter()
            .map(|value| value as &(dyn ToSql + Sync))
            .collect()
    }

    impl ToSql for Value {
        fn to_sql(
            &self,
            kind: &Type,
            out: &mut BytesMut,
        ) -> std::result::Result<IsNull, Box<dyn Error + Sync + Send>> {
            match self {
                Value::Null => Ok(IsNull::Yes),
                Value::Integer(number) if *kind == Type::INT4 => {
                    i32::try_from(*number)?.to_sql(kind, out)
                }
                Value::Integer(number) => number.to_sql(kind, out),
                Value::Real(number) => number.to_sql(kind, out),
                Value::Text(text) => text.to_sql(kind, out),
            }
        }

        fn accepts(kind: &Type) -> bool {
            matches!(*kind, Type::INT4 | Type::INT8 | Type::FLOAT8 | Type::TEXT)
        }

        to_sql_checked!();
    }

    /// Returns the URL without user and password: `postgresql://host:5432/fsb`. Returns `None` for
    /// a URL that cannot be read.
    pub(crate) fn name_of_server(url: &str) -> Option<String> {
        let config: Config = url.parse().ok()?;
        let ports = config.get_ports();
        let hosts = config.get_hosts().iter().enumerate().map(|(place, host)| {
            let host = match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(path) => path.display().to_string(),
            };
            let port = ports
                .get(place)
                .or(ports.first())
                .filter(|port| **port != 5432);
            port.map_or(host.clone(), |port| format!("{host}:{port}"))
        });
        let hosts: Vec<String> = hosts.collect();
        Some(format!(
            "postgresql://{}/{}",
            hosts.join(","),
            config.get_dbname().unwrap_or_default()
        ))
    }
}
