//! Reads the memory of a traced process.

use fsb_sys::trace::read_memory;

const PAGE: u64 = 4096;
/// The longest path that the kernel takes.
const LONGEST: usize = 4096;

/// Reads a text that ends with a zero byte.
pub fn text(task: i32, mut address: u64) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    let mut piece = [0; 256];
    while whole.len() < LONGEST {
        // The next page may not be there.
        let most = (PAGE - address % PAGE).min(piece.len() as u64) as usize;
        let read = read_memory(task, address, &mut piece[..most]).ok().filter(|read| *read > 0)?;
        if let Some(end) = piece[..read].iter().position(|byte| *byte == 0) {
            whole.extend_from_slice(&piece[..end]);
            return Some(whole);
        }
        whole.extend_from_slice(&piece[..read]);
        address = address.checked_add(read as u64)?;
    }
    None
}

/// Reads numbers of eight bytes.
pub fn numbers<const N: usize>(task: i32, address: u64) -> Option<[u64; N]> {
    let mut bytes = vec![0; N * 8];
    let read = read_memory(task, address, &mut bytes).ok()?;
    let mut found = [0; N];
    for (number, bytes) in found.iter_mut().zip(bytes[..read].chunks_exact(8)) {
        *number = u64::from_ne_bytes(bytes.try_into().ok()?);
    }
    (read == N * 8).then_some(found)
}

/// Returns the bytes of all pieces of a list.
pub fn length_of_pieces(task: i32, address: u64, count: u64) -> u64 {
    let count = count.min(1024) as usize;
    let mut bytes = vec![0; count * 16];
    let read = read_memory(task, address, &mut bytes).unwrap_or_default();
    let lengths = bytes[..read].chunks_exact(16).map(|piece| {
        let mut length = [0; 8];
        length.copy_from_slice(&piece[8..]);
        u64::from_ne_bytes(length)
    });
    lengths.fold(0, u64::saturating_add)
}
