//! A run: checks of the request, the processes of the run, what is shown meanwhile, and the run
//! directory. `remote/` makes the run on another host.

pub mod backends;
pub mod bisect;
pub mod coordinator;
mod gate;
mod judge;
#[cfg(feature = "vm")]
pub mod kernels;
pub mod live;
pub mod next_command;
pub mod progress;
pub mod race;
pub mod record;
pub mod remote;
pub mod revisions;
pub mod show;
pub mod space;
pub mod stage;
