//! The remote procedure calls of a mounted NFS client, as /proc/self/mountstats counts them.

use std::path::Path;

use fsb_model::observed::Rpcs;
use fsb_sys::Roots;

/// Returns the calls of the NFS client at this mount point since it was mounted. Returns `None` if no NFS client is
/// there.
pub(crate) fn of_mount(roots: &Roots, point: &Path) -> Option<Rpcs> {
    parse(&roots.proc_text("self/mountstats")?, &point.to_string_lossy())
}

/// Parses the counters of each procedure: calls, transmissions, timeouts, bytes sent, bytes received, and times
/// (`rpc_clnt_show_stats` of net/sunrpc/stats.c).
fn parse(text: &str, point: &str) -> Option<Rpcs> {
    let is_device = |line: &&str| line.starts_with("device ");
    let of_point = |line: &&str| is_device(line) && line.contains(&format!(" mounted on {point} with fstype nfs"));
    let mut lines = text.lines().skip_while(|line| !of_point(line));
    lines.next()?;
    let mut rpcs = Rpcs::default();
    let mount = lines.take_while(|line| !is_device(line));
    for line in mount.skip_while(|line| line.trim() != "per-op statistics").skip(1) {
        let Some((name, counters)) = line.trim().split_once(": ") else { continue };
        let counters: Vec<u64> = counters.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [calls, transmissions, _timeouts, sent, received, ..] = counters[..] else { continue };
        if calls == 0 {
            continue;
        }
        rpcs.calls += calls;
        rpcs.retransmissions += transmissions.saturating_sub(calls);
        rpcs.sent_bytes += sent;
        rpcs.received_bytes += received;
        if name == "READ" {
            rpcs.read_bytes = received;
        }
        rpcs.procedures.insert(name.to_owned(), calls);
    }
    Some(rpcs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
device proc mounted on /proc with fstype proc
device 127.1.0.1:/254-1 mounted on /run/fsb/1 with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576
\tage:\t7
\tevents:\t1 2 0 0 0 5 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
\tbytes:\t0 0 0 0 0 0 0 0
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 0 0 1 0 7 20 20 0 20 0 2 0 0
\tper-op statistics
\t        NULL: 0 0 0 0 0 0 0 0 0
\t        READ: 3 4 0 600 12600 0 1 1 0
\t     GETATTR: 2 2 0 400 480 0 0 0 0

device 127.1.0.2:/254-2 mounted on /run/fsb/12 with fstype nfs4 statvers=1.1
\tper-op statistics
\t       WRITE: 1 1 0 4300 120 0 0 0 0
";

    #[test]
    fn calls_and_bytes_of_one_mount_are_added_up() {
        let rpcs = parse(TEXT, "/run/fsb/1").unwrap();
        assert_eq!((rpcs.calls, rpcs.retransmissions), (5, 1));
        assert_eq!((rpcs.sent_bytes, rpcs.received_bytes, rpcs.read_bytes), (1000, 13_080, 12_600));
        assert_eq!(rpcs.procedures, [("GETATTR".to_owned(), 2), ("READ".to_owned(), 3)].into());
        assert_eq!(parse(TEXT, "/run/fsb/12").unwrap().sent_bytes, 4300);
    }

    #[test]
    fn a_mount_that_is_not_nfs_has_no_calls() {
        assert_eq!(parse(TEXT, "/proc"), None);
        assert_eq!(parse(TEXT, "/run/fsb"), None);
        assert_eq!(parse("", "/"), None);
    }
}
