//! Traces of file calls: what an application did to its files, call by call, so that it can be done again elsewhere.
//!
//! A trace names what calls are about by numbers: names below one directory, descriptors, lanes (threads, or several that
//! lived one after another). [`Writer`] and [`Reader`] are streams over any bytes; [`Resolver`] makes calls of what a
//! tracer or another tool's log saw; [`Order`] says which calls must wait for which; [`import`] reads other tools' traces,
//! [`Summary`] says what a program does, [`reduce`] makes a flow of it. Nothing here touches a file.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod anonymous;
mod call;
mod error;
mod format;
pub mod import;

mod initial;
mod order;
mod path;
mod reduce;

mod resolve;
pub mod summary;

pub use anonymous::Disguise;
pub use call::{ALL_KINDS, Call, Kind, LOST_UNIT, flags};
pub use error::{CODES, TraceError};
pub use format::{Header, Names, Overhead, Part, Reader, Skimmed, Totals, VERSION, Writer};
pub use initial::{Initial, State};
pub use order::{Order, Turn};
pub use path::{is_inside, normal};

pub use reduce::{Reduction, reduce};
pub use resolve::{AT_CWD, Before, Begun, RawCall, Resolver, Shared, Sink, Times, Unseen, World};
pub use summary::Summary;
