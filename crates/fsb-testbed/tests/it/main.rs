//! Tests on the real kernel. Those that need root skip loudly elsewhere, and fail in CI.

mod confinement;
mod devices;
mod directories;
mod file_systems;
mod killed;
mod stage;
