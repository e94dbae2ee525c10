//! The result of a race: the fastest of many candidates, or those that are not significantly
//! different from it.

mod document;
mod replay;
mod screen;

pub use document::{Candidate, CandidateState, Choice, Dropped, Effect, SCHEMA};
pub use replay::Replay;
pub use screen::{screen, standing};

#[cfg(test)]
mod tests;
