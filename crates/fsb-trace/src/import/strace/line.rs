//! A line of the log: process, time and content; and the call in it, split into arguments.

use crate::import::lines::nanoseconds;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line<'l> {
    pub(super) process: u32,
    pub(super) time_ns: u64,
    pub(super) took_ns: u64,
    pub(super) what: What<'l>,
}

/// The content of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What<'l> {
    /// A whole call: `name(arguments) = result`.
    Call(&'l str),
    /// A call that others interrupt: `name(arguments`.
    Begun(&'l str),
    /// The remainder of an interrupted call.
    Resumed(&'l str),
    /// The process has ended.
    Ended,
    /// A signal.
    Other,
}

impl Line<'_> {
    pub(super) fn parse(text: &str) -> Option<Line<'_>> {
        let mut text = text.trim();
        let mut process = 0;
        if let Some(rest) = text.strip_prefix("[pid") {
            let (number, rest) = rest.split_once(']')?;
            (process, text) = (number.trim().parse().ok()?, rest.trim_start());
        } else if let Some((number, rest)) = text.split_once(' ')
            && !number.contains('.')
            && let Ok(number) = number.parse()
        {
            (process, text) = (number, rest.trim_start());
        }
        let (time, rest) = text.split_once(' ')?;
        let time_ns = time.contains('.').then(|| nanoseconds(time))??;
        let rest = rest.trim();
        if rest.starts_with("+++ ") {
            return Some(Line { process, time_ns, took_ns: 0, what: What::Ended });
        }
        if rest.starts_with("--- ") || rest.starts_with("strace: ") {
            return Some(Line { process, time_ns, took_ns: 0, what: What::Other });
        }
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            return Some(Line { process, time_ns, took_ns: 0, what: What::Begun(begun.trim_end()) });
        }
        let (body, took_ns) = match rest.rsplit_once(" <") {
            Some((body, took)) if took.ends_with('>') => (body, nanoseconds(&took[..took.len() - 1])?),
            _ => (rest, 0),
        };
        let what = match body.strip_prefix("<... ") {
            Some(resumed) => What::Resumed(resumed.split_once(" resumed>")?.1),
            None => {
                let name = body.split_once('(')?.0;
                let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                What::Call(is_name.then_some(body)?)
            }
        };
        Some(Line { process, time_ns, took_ns, what })
    }
}

/// A call, cut into its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call<'l> {
    pub(super) name: &'l str,
    pub(super) arguments: Vec<&'l str>,
    pub(super) result: i64,
}

impl Call<'_> {
    pub(super) fn parse(text: &str) -> Option<Call<'_>> {
        let (name, rest) = text.split_once('(')?;
        let (arguments, after) = cut(rest)?;
        let result = after.trim_start().strip_prefix('=')?.trim();
        let mut words = result.split_whitespace();
        let number = words.next()?;
        let result = match number.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()? as i64,
            // With -y, strace prints a path after a descriptor.
            None => number.split('<').next()?.parse().ok()?,
        };
        let result = if result == -1 { -i64::from(error(words.next()?)) } else { result };
        Some(Call { name, arguments, result })
    }
}

/// Splits the arguments up to the closing bracket. Returns them and the text after it.
fn cut(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut arguments, mut begin, mut depth) = (Vec::new(), 0, 0u32);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = text[begin..at].trim();
                if !last.is_empty() || !arguments.is_empty() {
                    arguments.push(last);
                }
                return Some((arguments, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                arguments.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// Decodes a text as strace writes it, with its escapes. Returns `None` if strace shortened it.
pub(super) fn text(argument: &str) -> Option<Vec<u8>> {
    let inner = argument.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < inner.len() {
        let byte = inner[at];
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let escape = *inner.get(at)?;
        at += 1;
        match escape {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'v' => out.push(0x0b),
            b'f' => out.push(0x0c),
            b'x' => {
                let digits = std::str::from_utf8(inner.get(at..at + 2)?).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 2;
            }
            b'0'..=b'7' => {
                let mut number = u32::from(escape - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = inner.get(at).copied() else { break };
                    number = number * 8 + u32::from(digit - b'0');
                    at += 1;
                }
                out.push(number as u8);
            }
            other => out.push(other),
        }
    }
    Some(out)
}

/// Returns the number of an error, as Linux defines it on most machines.
fn error(name: &str) -> i32 {
    const NAMES: [(&str, i32); 26] = [
        ("EPERM", 1),
        ("ENOENT", 2),
        ("EINTR", 4),
        ("EIO", 5),
        ("EBADF", 9),
        ("EAGAIN", 11),
        ("ENOMEM", 12),
        ("EACCES", 13),
        ("EFAULT", 14),
        ("EBUSY", 16),
        ("EEXIST", 17),
        ("EXDEV", 18),
        ("ENOTDIR", 20),
        ("EISDIR", 21),
        ("EINVAL", 22),
        ("EMFILE", 24),
        ("ENOTTY", 25),
        ("EFBIG", 27),
        ("ENOSPC", 28),
        ("ESPIPE", 29),
        ("EROFS", 30),
        ("EMLINK", 31),
        ("ENAMETOOLONG", 36),
        ("ENOTEMPTY", 39),
        ("ELOOP", 40),
        ("EOPNOTSUPP", 95),
    ];
    NAMES.iter().find(|(known, _)| *known == name).map_or(5, |(_, number)| *number)
}
