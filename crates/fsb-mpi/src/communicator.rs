//! The calls between ranks that a run needs: MPI makes them between processes,
//! [`threads`](crate::threads) between threads.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A call between ranks that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {reason}")]
pub struct CommunicatorError {
    /// The call: `MPI_Barrier`.
    pub call: &'static str,
    /// The reason, as the library gives it.
    pub reason: String,
}

impl CommunicatorError {
    /// Returns the error of a call.
    pub fn new(call: &'static str, reason: impl Into<String>) -> CommunicatorError {
        CommunicatorError {
            call,
            reason: reason.into(),
        }
    }
}

type Result<T> = std::result::Result<T, CommunicatorError>;

/// The ranks of a job, as one of them sees them. All ranks make the same collective calls in the
/// same order.
pub trait Communicator {
    /// Returns the number of this rank, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn size(&self) -> usize;

    /// Returns when all ranks have called it.
    fn barrier(&self) -> Result<()>;

    /// Replaces `bytes` by those of rank 0.
    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<()>;

    /// Sends bytes to another rank.
    fn send(&self, to: usize, bytes: &[u8]) -> Result<()>;

    /// Returns the next bytes that another rank sent to this one.
    fn receive(&self, from: usize) -> Result<Vec<u8>>;

    /// Returns the name and the version of the library that carries the calls.
    fn library(&self) -> String;

    /// Ends all ranks, finished or not, with this exit code.
    fn abort(&self, code: i32);
}

/// Returns the value of rank 0 on every rank. Only rank 0's `value` is used.
pub fn broadcast<T: Serialize + DeserializeOwned>(
    communicator: &dyn Communicator,
    value: Option<&T>,
) -> Result<T> {
    let mut bytes = value.map(encode).transpose()?.unwrap_or_default();
    communicator.broadcast(&mut bytes)?;
    decode(&bytes)
}

/// Returns the values of all ranks in their order on rank 0, and `None` on the others.
///
/// Rank 0 calls `waiting` before it waits for a rank. Ranks are asked in turn, so that the rank
/// that does not answer is known.
pub fn gather<T: Serialize + DeserializeOwned>(
    communicator: &dyn Communicator,
    value: T,
    waiting: &mut dyn FnMut(usize),
) -> Result<Option<Vec<T>>> {
    if communicator.rank() > 0 {
        communicator.send(0, &encode(&value)?)?;
        return Ok(None);
    }
    let mut values = Vec::with_capacity(communicator.size());
    values.push(value);
    for rank in 1..communicator.size() {
        waiting(rank);
        values.push(decode(&communicator.receive(rank)?)?);
    }
    Ok(Some(values))
}

/// Returns on each rank its own of the values of rank 0.
pub fn scatter<T: Serialize + DeserializeOwned>(
    communicator: &dyn Communicator,
    values: Option<Vec<T>>,
) -> Result<T> {
    if communicator.rank() > 0 {
        return decode(&communicator.receive(0)?);
    }
    let mut values = values.into_iter().flatten();
    let own = values
        .next()
        .ok_or_else(|| CommunicatorError::new("scatter", "rank 0 has no values"))?;
    for (rank, value) in (1..communicator.size()).zip(values) {
        communicator.send(rank, &encode(&value)?)?;
    }
    Ok(own)
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| CommunicatorError::new("encode", error.to_string()))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| CommunicatorError::new("decode", error.to_string()))
}
