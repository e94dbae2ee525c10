//! A simulation of the bookkeeping of many ranks: threads of one process that touch no files.

use std::path::Path;
use std::time::{Duration, Instant};

use fsb_model::{RunRecord, Trial};

use crate::communicator::Communicator;
use crate::job::{self, Hello, JobError, JobStore};
use crate::suite::{Request, Suite};
use crate::threads;
use crate::watch::Watch;

/// Ranks on a simulated host.
const RANKS_OF_HOST: usize = 64;

/// Phases of both kinds whose calls do nothing.
const SUITE: &str = "
[[groups]]
phases = ['write', 'read']
shared = 'file'
backend = 'null'
block_size = '64K'
transfer_size = '4K'

[[groups]]
phases = ['create', 'stat', 'delete']
shared = 'directory'
backend = 'null'
files = 16
";

/// The costs of a simulated job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Simulated {
    /// Ranks.
    pub ranks: usize,
    /// Trials, with those of the warm-up.
    pub trials: usize,
    /// Seconds of the whole job, with starting its threads.
    pub seconds: f64,
    /// Messages between ranks.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
}

/// A journal that keeps nothing.
struct Nothing;

impl JobStore for Nothing {
    fn owns(&mut self, _directory: &Path) -> Result<(), String> {
        Ok(())
    }

    fn record(&mut self, _record: &RunRecord) -> Result<(), String> {
        Ok(())
    }

    fn trial(&mut self, _trial: &Trial) -> Result<(), String> {
        Ok(())
    }

    fn progress(&mut self, _text: &str) {}
}

/// Simulates a job of `ranks` ranks on hosts of 64 ranks each, with one block.
///
/// # Errors
/// Fails with the reason if threads cannot be started, or if the job fails.
pub fn simulate(ranks: usize) -> Result<Simulated, String> {
    let suite = Suite::parse(SUITE)?;
    let request = Request {
        targets: vec![
            "simulated=/"
                .parse()
                .map_err(|error: fsb_model::target::TargetError| error.to_string())?,
        ],
        suite_name: "simulation".to_owned(),
        suite,
        blocks: 1,
        ranks: vec![ranks],
        seed: 1,
    };
    fsb_sys::process::enlarge_futex_table(ranks);
    let since = Instant::now();
    let work = |rank: &threads::ThreadRank| -> Result<usize, JobError> {
        let hello = Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: (rank.rank() / RANKS_OF_HOST).to_string(),
            host: format!("host{}", rank.rank() / RANKS_OF_HOST),
        };
        let mut journal = Nothing;
        // A watch is a second thread of each rank. Only rank 0's is needed here.
        let watch = if rank.rank() == 0 {
            Watch::new(Duration::from_secs(3600), |_| {})
        } else {
            Watch::none()
        };
        let is_first = rank.rank() == 0;
        let request = is_first.then(|| Ok(request.clone()));
        let journal: Option<&mut dyn JobStore> = if is_first { Some(&mut journal) } else { None };
        Ok(job::run(rank, hello, request, journal, &watch)?
            .map_or(0, |finished| finished.trials.len()))
    };
    let (results, traffic) = threads::run(ranks, work).map_err(|error| error.to_string())?;
    let seconds = since.elapsed().as_secs_f64();
    let trials: Vec<usize> = results
        .into_iter()
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    Ok(Simulated {
        ranks,
        trials: trials[0],
        seconds,
        messages: traffic.messages(),
        bytes: traffic.bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_bytes_of_a_rank_do_not_grow_with_the_number_of_ranks() {
        let (few, many) = (simulate(64).unwrap(), simulate(512).unwrap());
        assert_eq!((few.trials, many.trials), (10, 10));
        let each = |simulated: &Simulated, total: u64| total as f64 / simulated.ranks as f64;
        let messages = (each(&few, few.messages), each(&many, many.messages));
        let bytes = (each(&few, few.bytes), each(&many, many.bytes));
        // The hosts beyond the first one exchange their clocks.
        assert!(messages.1 < messages.0 * 1.1, "{few:?} {many:?}");
        assert!(bytes.1 < bytes.0 * 1.2, "{few:?} {many:?}");
    }
}
