//! Traces of file calls: the calls of an application on its files, recorded so that they can be
//! repeated elsewhere.
//!
//! A trace refers to names below one directory, descriptors, and lanes by numbers. A lane is a
//! thread, or several threads that lived one after another.
//!
//! * [`Writer`] and [`Reader`] are streams over any bytes.
//! * [`Resolver`] turns the observations of a tracer, or of another tool's log, into calls.
//! * [`Order`] determines which calls must wait for which.
//! * [`import`] reads other tools' traces, [`Summary`] counts the calls of a program, and
//!   [`reduce`] turns them into a flow.
//!
//! Only `record`, a feature, touches files: it records the calls of a program.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod call;
mod codec;
pub mod document;
mod durable;
mod error;
mod format;
pub mod import;
mod order;
#[cfg(feature = "record")]
pub mod record;
pub mod recordings;
mod reduce;
mod remark;
mod resolve;
pub mod summary;

pub use call::{
    ALL_KINDS, Call, CallKind, Initial, LOST_UNIT, State, VERSION, flags, is_inside, normal,
};
pub use codec::Names;
pub use error::{CODES, TraceError};
pub use format::{Disguise, Header, Overhead, Reader, Skimmed, Totals, TracePart, Writer};
pub use order::{Order, Turn};
pub use reduce::{Reduction, reduce};
pub use remark::{Gap, Remark, Remarks, TraceNote, Unseen};
pub use resolve::{AT_CWD, Before, Begun, RawCall, Resolver, Shared, Sink, Times, World};
pub use summary::Summary;
