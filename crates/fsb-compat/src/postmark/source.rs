//! The content of the files, and the state of the generator at the first operation.

use fsb_model::postmark::{Draw, Pool};

use super::{Settings, Twister};

/// Returns the text that every file begins with, and the generator in its state after that text. PostMark makes twice
/// as many bytes as it ever writes, and the operations depend on how many it made.
pub fn source(settings: &Settings) -> (Vec<u8>, Twister) {
    let mut twister = Twister::new(settings.seed);
    let largest = settings.shape.size_high as usize;
    let text = (0..largest).map(|_| 32 + twister.below(95) as u8).collect();
    (0..largest).for_each(|_| _ = twister.below(95));
    (text, twister)
}

/// Returns the operations of a run.
pub fn pool(settings: &Settings, twister: Twister) -> Pool<Twister> {
    Pool::new(settings.whole_shape(), twister)
}
