//! The part of the work that each rank has: which ranks take part, whose data a rank reads, and
//! where its transfers and files are.

use fsb_engine::mix;

use crate::suite::{Group, Layout, Shared};

/// Returns the ranks in the order in which they take part: one of each host, then the second ones,
/// and so on. `hosts` has the host of each rank. The first n ranks of this order are spread over as
/// many hosts as possible.
pub(crate) fn order(hosts: &[usize]) -> Vec<usize> {
    let mut seen: Vec<usize> = vec![0; hosts.iter().max().map_or(0, |most| most + 1)];
    let mut ranks: Vec<(usize, usize, usize)> = Vec::with_capacity(hosts.len());
    for (rank, host) in hosts.iter().enumerate() {
        ranks.push((seen[*host], *host, rank));
        seen[*host] += 1;
    }
    ranks.sort_unstable();
    ranks.into_iter().map(|(_, _, rank)| rank).collect()
}

/// The distance from a rank to the one whose data it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shift {
    /// Places in the order of ranks; 0 if there is one rank.
    pub by: usize,
    /// Whether the writer is always on another host, so that the reader's page cache does not have
    /// its data.
    pub crosses_hosts: bool,
}

/// Returns the smallest shift to another host for all ranks, or to another rank if there is none.
/// `hosts` has the host of each rank that takes part, in their order.
pub(crate) fn shift(hosts: &[usize]) -> Shift {
    let n = hosts.len();
    // A shift of all ranks cannot cross if most of them are on one host.
    match (1..n).find(|by| (0..n).all(|at| hosts[at] != hosts[(at + by) % n])) {
        Some(by) => Shift {
            by,
            crosses_hosts: true,
        },
        None => Shift {
            by: usize::from(n > 1),
            crosses_hosts: false,
        },
    }
}

/// Returns the offsets of all transfers of a rank in its file, in the order of the calls.
pub(crate) fn offsets(group: &Group, owner: usize, ranks: usize, seed: u64) -> Vec<u64> {
    let (transfer, block) = (group.transfer_size.0, group.block_size.0);
    let in_block = block / transfer;
    let count = group.segments * in_block;
    let (owner, ranks) = match group.shared {
        Shared::File => (owner as u64, ranks as u64),
        Shared::Directory | Shared::None => (0, 1),
    };
    let mut offsets: Vec<u64> = (0..count)
        .map(|number: u64| match group.layout {
            Layout::Strided => (number * ranks + owner) * transfer,
            Layout::Segmented | Layout::Random => {
                ((number / in_block) * ranks + owner) * block + (number % in_block) * transfer
            }
        })
        .collect();
    if group.layout == Layout::Random {
        // Fisher and Yates.
        for at in (1..offsets.len()).rev() {
            let other = mix(seed ^ mix(owner) ^ at as u64) % (at as u64 + 1);
            offsets.swap(at, other as usize);
        }
    }
    offsets
}

/// Returns the paths of the directories of a tree, parents first. The first one is the root,
/// without a name.
pub(crate) fn directories(group: &Group) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut level = vec![String::new()];
    for _ in 0..group.depth {
        let below = level.iter().flat_map(|parent| {
            (0..group.branching).map(move |number| format!("{parent}d{number}/"))
        });
        level = below.collect();
        all.extend(level.iter().cloned());
    }
    all
}

/// Returns the number of the directory of a file: the files of a rank are spread evenly, in order.
pub(crate) fn directory_of(file: u64, files: u64, directories: usize) -> usize {
    (u128::from(file) * directories as u128 / u128::from(files)) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::suite::Suite;

    fn group(text: &str) -> Group {
        Suite::parse(&format!("[[groups]]\n{text}"))
            .unwrap()
            .groups
            .remove(0)
    }

    #[test]
    fn ranks_take_part_host_by_host_and_read_from_another_host() {
        let hosts = [0, 0, 1, 1];
        assert_eq!(order(&hosts), [0, 2, 1, 3]);
        let ordered: Vec<usize> = order(&hosts).into_iter().map(|rank| hosts[rank]).collect();
        assert_eq!(
            shift(&ordered),
            Shift {
                by: 1,
                crosses_hosts: true
            }
        );
        assert_eq!(
            shift(&[0, 0, 1, 1]),
            Shift {
                by: 2,
                crosses_hosts: true
            }
        );
        assert_eq!(
            shift(&[0, 0, 0, 1]),
            Shift {
                by: 1,
                crosses_hosts: false
            }
        );
        assert_eq!(
            shift(&[0, 0]),
            Shift {
                by: 1,
                crosses_hosts: false
            }
        );
        assert_eq!(
            shift(&[0]),
            Shift {
                by: 0,
                crosses_hosts: false
            }
        );
    }

    #[test]
    fn the_transfers_of_all_ranks_cover_a_shared_file_exactly_once() {
        for layout in ["segmented", "strided", "random"] {
            let group = group(&format!(
                "phases = ['write']\nshared = 'file'\nlayout = '{layout}'\nblock_size = 4096\ntransfer_size = 1024\nsegments = 3"
            ));
            let all: Vec<u64> = (0..5)
                .flat_map(|rank| offsets(&group, rank, 5, 7))
                .collect();
            let expected: BTreeSet<u64> = (0..60).map(|number| number * 1024).collect();
            assert_eq!(
                (all.len(), all.iter().copied().collect::<BTreeSet<_>>()),
                (60, expected),
                "{layout}"
            );
        }
    }

    #[test]
    fn layouts_place_the_first_transfers_as_ior_does() {
        let first = |layout: &str, rank: usize| {
            let text = "phases = ['write']\nshared = 'file'\nblock_size = 4096\ntransfer_size = 1024\nsegments = 2";
            offsets(&group(&format!("{text}\nlayout = '{layout}'")), rank, 4, 7)
        };
        assert_eq!(
            first("segmented", 1)[..5],
            [4096, 5120, 6144, 7168, 5 * 4096]
        );
        assert_eq!(first("strided", 1)[..3], [1024, 5 * 1024, 9 * 1024]);
        let random = first("random", 1);
        assert!(!random.is_sorted() && random != first("random", 2));
        assert_eq!(
            BTreeSet::from_iter(random),
            BTreeSet::from_iter(first("segmented", 1))
        );
    }

    #[test]
    fn files_of_their_own_begin_at_zero() {
        let group =
            group("phases = ['write']\nshared = 'none'\nblock_size = 4096\ntransfer_size = 1024");
        assert_eq!(offsets(&group, 3, 4, 7), [0, 1024, 2048, 3072]);
    }

    #[test]
    fn a_tree_has_its_directories_and_every_directory_has_files() {
        let group =
            group("phases = ['create']\nshared = 'none'\nfiles = 14\ndepth = 2\nbranching = 2");
        let directories = directories(&group);
        assert_eq!(
            directories,
            ["", "d0/", "d1/", "d0/d0/", "d0/d1/", "d1/d0/", "d1/d1/"]
        );
        assert_eq!(directories.len() as u64, group.directories());
        let used: Vec<usize> = (0..14).map(|file| directory_of(file, 14, 7)).collect();
        assert_eq!(used, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]);
    }
}
