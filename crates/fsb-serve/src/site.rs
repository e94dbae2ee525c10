//! The source of all pages: the store, read again when it has changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fsb_history::{Document, HistoryError, Index, IndexedRun, IndexedSeries, Location, Store};

use crate::problem::Problem;
use crate::query::Rules;

/// A store of the history.
pub struct Site {
    store: Location,
    read: Mutex<Option<Read>>,
    allows_runs: bool,
}

/// The state of the store when it was read last.
struct Read {
    /// The connection that detects writes of other processes.
    store: Store,
    version: String,
    file: Option<(u64, u64)>,
    snapshot: Arc<Snapshot>,
}

/// The state of the store at one moment.
pub(crate) struct Snapshot {
    /// The runs by identity.
    pub(crate) runs: BTreeMap<String, IndexedRun>,
    /// All series, analysed by the default rules.
    pub(crate) document: Document,
    /// The first page of the server by the default rules, once it was requested.
    pub(crate) home: OnceLock<String>,
}

impl Snapshot {
    fn new(runs: BTreeMap<String, IndexedRun>, document: Document) -> Arc<Snapshot> {
        Arc::new(Snapshot {
            runs,
            document,
            home: OnceLock::new(),
        })
    }

    /// Returns a run.
    pub(crate) fn run(&self, id: &str) -> Result<&IndexedRun, Problem> {
        self.runs
            .get(id)
            .ok_or_else(|| Problem::NotFound(format!("The history has no run {id}.")))
    }
}

impl Site {
    /// Returns the site of a store. Opens the store once, so that a missing store is an error here.
    pub fn open(store: Location) -> Result<Site, HistoryError> {
        Store::open(&store)?;
        Ok(Site {
            store,
            read: Mutex::new(None),
            allows_runs: false,
        })
    }

    /// Returns the site with links to the pages that start runs.
    #[must_use]
    pub fn allowing_runs(self) -> Site {
        Site {
            allows_runs: true,
            ..self
        }
    }

    pub(crate) fn allows_runs(&self) -> bool {
        self.allows_runs
    }

    /// Returns the runs, and all series by the default rules.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>, Problem> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self.file();
        if let Some(read) = &*read
            && read.file == file
            // A restarted database server has closed the connection.
            && read.store.version_of_data().is_ok_and(|version| version == read.version)
        {
            return Ok(Arc::clone(&read.snapshot));
        }
        let store = Store::open(&self.store)?;
        // A write between this line and the next one makes the next request read the store again.
        let version = store.version_of_data()?;
        let index = self.index()?;
        let document = index.analyse_all(&[], Rules::default().theta)?;
        let snapshot = Snapshot::new(index.runs, document);
        *read = Some(Read {
            store,
            version,
            file,
            snapshot: Arc::clone(&snapshot),
        });
        Ok(snapshot)
    }

    /// Returns the snapshot with the document by these rules.
    pub(crate) fn analysed(&self, rules: &Rules) -> Result<Arc<Snapshot>, Problem> {
        if *rules == Rules::default() {
            return self.snapshot();
        }
        let index = self.index()?;
        check(rules, &index)?;
        let document = index.analyse_all(&rules.across, rules.theta)?;
        Ok(Snapshot::new(index.runs, document))
    }

    /// Returns the document of one series by these rules.
    pub(crate) fn series(&self, id: &str, rules: &Rules) -> Result<Document, Problem> {
        let snapshot = self.snapshot()?;
        let found = snapshot
            .document
            .series
            .iter()
            .find(|series| series.id == id);
        let found =
            found.ok_or_else(|| Problem::NotFound(format!("The history has no series {id}.")))?;
        let series = if *rules == Rules::default() {
            found.clone()
        } else {
            let index = self.index()?;
            check(rules, &index)?;
            index.analyse(
                IndexedSeries {
                    id: found.id.clone(),
                    key: found.key.clone(),
                },
                &rules.across,
                rules.theta,
            )?
        };
        let Rules { theta, across } = rules.clone();
        Ok(Document {
            schema: snapshot.document.schema.clone(),
            theta,
            across,
            series: vec![series],
            unchanged: Vec::new(),
        })
    }

    /// Opens the store again and reads its index.
    pub(crate) fn index(&self) -> Result<Index, Problem> {
        let index = Index::read(Store::open(&self.store)?)?;
        // A store may be from another user, and identities become parts of addresses and file
        // names.
        let series = index.series_by_name()?;
        let ids = index
            .runs
            .keys()
            .chain(series.iter().map(|series| &series.id));
        match ids.into_iter().find(|id| !is_identity(id)) {
            Some(id) => Err(HistoryError::Damaged {
                store: self.store.clone(),
                message: format!("{id:?} is not an identity that fsb writes"),
            }
            .into()),
            None => Ok(index),
        }
    }

    /// Returns the device and the inode of the store, which differ after it was replaced; `None`
    /// for a database on a server.
    fn file(&self) -> Option<(u64, u64)> {
        let Location::File(path) = &self.store else {
            return None;
        };
        fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
    }
}

fn is_identity(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn check(rules: &Rules, index: &Index) -> Result<(), Problem> {
    let unknown = rules.across.iter().find(|name| {
        let mut environments = index.environments.values();
        !environments.any(|conditions| conditions.contains_key(*name))
    });
    match unknown {
        Some(name) => Err(Problem::Invalid(format!(
            "across: no run has the condition '{name}'"
        ))),
        None => Ok(()),
    }
}
