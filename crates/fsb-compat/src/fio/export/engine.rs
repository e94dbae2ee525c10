//! fio's engines for our backends.

/// Returns the options that make fio call the kernel as the backend does, or the reason why none do.
pub(super) fn of(backend: &str) -> Result<&'static [(&'static str, &'static str)], String> {
    const DEEP: [(&str, &str); 3] = [("ioengine", "io_uring"), ("fixedbufs", "1"), ("registerfiles", "1")];
    const DIRECT: [(&str, &str); 4] = [DEEP[0], DEEP[1], DEEP[2], ("direct", "1")];
    Ok(match backend {
        "psync" => &[("ioengine", "psync")],
        "direct" => &[("ioengine", "psync"), ("direct", "1")],
        "osync" => &[("ioengine", "psync"), ("sync", "sync")],
        "dsync" => &[("ioengine", "psync"), ("sync", "dsync")],
        "mmap" => &[("ioengine", "mmap")],
        "posix-aio" => &[("ioengine", "posixaio")],
        "uring" => &DEEP,
        "uring-direct" => &DIRECT,
        "null" => &[("ioengine", "null")],
        "psyncv" => return Err("fio's pvsync moves a record in one part, psyncv in sixteen".to_owned()),
        "stdio" => return Err("fio has no engine that goes through the C library's streams".to_owned()),
        "mmap-async" | "mmap-sync" => return Err(format!("fio's mmap does not call msync as {backend} does")),
        other => return Err(format!("fio has no engine that does what backend {other} does")),
    })
}
