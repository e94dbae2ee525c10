//! Numbers in as few bytes as they need (LEB128), and lists of them.

use crate::TraceError;

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a difference: small ones of either sign are short.
pub(super) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)) as u64);
}

/// Appends bytes with their number before them.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes numbers from the coordinator.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cut<'b>(pub(super) &'b [u8]);

impl<'b> Cut<'b> {
    pub(super) fn byte(&mut self) -> Result<u8, TraceError> {
        let (first, rest) = self.0.split_first().ok_or_else(short)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self) -> Result<u64, TraceError> {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            if shift > 63 || (shift == 63 && byte > 1) {
                return Err(TraceError::damaged("a number of more than 64 bits"));
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    pub(super) fn signed(&mut self) -> Result<i64, TraceError> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(super) fn short(&mut self) -> Result<u32, TraceError> {
        u32::try_from(self.number()?).map_err(|_| TraceError::damaged("a number of more than 32 bits"))
    }

    pub(super) fn bytes(&mut self) -> Result<&'b [u8], TraceError> {
        let length = usize::try_from(self.number()?).ok().filter(|length| *length <= self.0.len());
        let (bytes, rest) = self.0.split_at(length.ok_or_else(short)?);
        self.0 = rest;
        Ok(bytes)
    }
}

fn short() -> TraceError {
    TraceError::damaged("a section is shorter than its contents")
}
