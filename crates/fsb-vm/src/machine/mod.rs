//! QEMU: its command line, its console, its end.

mod arguments;
mod console;
mod heartbeat;
mod launch;
mod memory;
mod probe;
mod qemu;
mod running;
mod spec;

pub use heartbeat::Patience;
pub use launch::{LAUNCH_ARGUMENT, launch_main};
pub use memory::least_memory;
pub use probe::probe;
pub use qemu::{Aio, Architecture, find as find_qemu};

use running::lock;
pub use running::{Machine, Stop};
pub use spec::{Acceleration, Disk, MachineSpec};
