//! Finds, fetches and examines kernels and their modules.

pub(crate) mod bare;
mod deb;
mod fetch;
mod find;
mod header;
mod image;
mod resolve;
pub(crate) mod tree;

pub use fetch::{fetch, tidy, unpacked};
pub use find::list;
pub use resolve::{is_path, resolve};

pub use crate::cache::{cache, cache_path};
pub(crate) use image::FETCH;
pub use image::{Kernel, Origin};
use image::{has_modules, look_for_modules, readable};
