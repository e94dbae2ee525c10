//! The file sets of Fedorchuk 2008, made by recipe: what was said of them, not the files themselves.

use fsb_model::shape::Shape;

use crate::hash::mix;

/// A published set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PublishedSet {
    Music,
    Portage,
    Avi,
    Iso,
    All,
}

/// Decimal, as disks and their files were told.
const MB: u64 = 1_000_000;
/// MB of the 16 files of music: 357 in all.
const MUSIC: [u64; 16] = [10, 15, 18, 20, 21, 22, 23, 23, 24, 24, 25, 25, 26, 27, 27, 27];
const AVI: u64 = 3400 * MB;
const ISO: u64 = 586 * MB;
const PORTAGE: u64 = 229 * MB;
/// Files and directories of the tree of packages.
const ENTRIES: u64 = 12_000;
/// Packages of a category.
const CATEGORY: u64 = 80;
/// Files of the tree for each large one.
const LARGE: u64 = 10;
/// Bytes of the small ones.
const SMALL: std::ops::Range<u64> = 200..4000;

impl PublishedSet {
    pub(super) const ALL: [PublishedSet; 5] =
        [PublishedSet::Music, PublishedSet::Portage, PublishedSet::Avi, PublishedSet::Iso, PublishedSet::All];

    pub(super) fn name(self) -> &'static str {
        match self {
            PublishedSet::Music => "music",
            PublishedSet::Portage => "portage",
            PublishedSet::Avi => "avi",
            PublishedSet::Iso => "iso",
            PublishedSet::All => "all",
        }
    }

    /// The set, with `scale` of its bytes: of the tree of packages fewer files, of the others smaller ones.
    pub(super) fn shape(self, scale: f64) -> Shape {
        let flat = |sizes: &[u64]| {
            let mut shape = Shape::default();
            sizes.iter().for_each(|size| shape.add_file(0, scaled(*size, scale)));
            shape
        };
        match self {
            PublishedSet::Music => flat(&MUSIC.map(|size| size * MB)),
            PublishedSet::Avi => flat(&[AVI]),
            PublishedSet::Iso => flat(&[ISO]),
            PublishedSet::Portage => packages(scaled(ENTRIES, scale), scaled(PORTAGE, scale)),
            PublishedSet::All => {
                let mut all = Shape::default();
                PublishedSet::ALL
                    .into_iter()
                    .filter(|set| *set != PublishedSet::All)
                    .for_each(|set| all.add_tree(&set.shape(scale)));
                all
            }
        }
    }
}

/// At least one of everything.
pub(super) fn scaled(size: u64, scale: f64) -> u64 {
    if scale == 1.0 { size } else { ((size as f64 * scale).round() as u64).max(1) }
}

/// A tree of packages: categories, in each packages of six files, every other one with a directory of two more. Nine of
/// ten files have hundreds of bytes to a few thousand; the others share what is left of `bytes`.
fn packages(entries: u64, bytes: u64) -> Shape {
    let mut shape = Shape::default();
    let (mut left, mut category, mut package) = (entries, 0, 0);
    let mut files = Vec::new();
    // The last package may lack some of its files.
    let mut spend = |wanted: u64| {
        let given = wanted.min(left);
        left -= given;
        given
    };
    loop {
        if package % CATEGORY == 0 && spend(1) == 1 {
            category = shape.add_directory(0);
        }
        if spend(1) == 0 {
            break;
        }
        let directory = shape.add_directory(category);
        (0..spend(6)).for_each(|_| files.push(directory));
        if package % 2 == 1 && spend(1) == 1 {
            let patches = shape.add_directory(directory);
            (0..spend(2)).for_each(|_| files.push(patches));
        }
        package += 1;
    }
    let is_large = |index: u64| index % LARGE == LARGE / 2;
    let small = |index: u64| SMALL.start + mix(index) % (SMALL.end - SMALL.start);
    let count = files.len() as u64;
    let smalls: u64 = (0..count).filter(|index| !is_large(*index)).map(small).sum();
    let mut larges = (0..count).filter(|index| is_large(*index)).count() as u64;
    let mut rest = bytes.saturating_sub(smalls);
    for (index, directory) in (0..).zip(files) {
        let size = if is_large(index) {
            // Half to one and a half of an equal share; the last one takes what is left.
            let share = rest / larges;
            let size = if larges == 1 { rest } else { share / 2 + mix(index) % share.max(1) };
            (larges, rest) = (larges - 1, rest - size);
            size
        } else {
            small(index)
        };
        shape.add_file(directory, size);
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_have_the_sizes_that_were_published() {
        let of = |set: PublishedSet| {
            let shape = set.shape(1.0);
            (shape.entries(), shape.bytes())
        };
        assert_eq!(of(PublishedSet::Music), (16, 357 * MB));
        assert_eq!(of(PublishedSet::Avi), (1, 3400 * MB));
        assert_eq!(of(PublishedSet::Iso), (1, 586 * MB));
        assert_eq!(of(PublishedSet::Portage), (12_000, 229 * MB));
        assert_eq!(of(PublishedSet::All), (16 + 1 + 1 + 12_000 + 4, (357 + 3400 + 586 + 229) * MB));
        assert!(PublishedSet::Music.shape(1.0).sizes().all(|size| (10 * MB..=27 * MB).contains(&size)));
        let portage = PublishedSet::Portage.shape(1.0);
        let small = portage.sizes().filter(|size| SMALL.contains(size)).count() as u64;
        assert!(small * 100 >= portage.files() * 89, "{small} of {}", portage.files());
        let depth = |mut directory: usize| {
            let mut depth = 0;
            while directory != 0 {
                (directory, depth) = (portage.directories()[directory].parent, depth + 1);
            }
            depth
        };
        assert_eq!((0..portage.directories().len()).map(depth).max(), Some(3), "category, package, files");
    }

    #[test]
    fn a_scale_keeps_sixteen_pieces_of_music_and_thins_out_packages() {
        for scale in [0.5, 1.0 / 16.0, 1.0 / 1024.0] {
            assert_eq!(PublishedSet::Music.shape(scale).files(), 16);
            let portage = PublishedSet::Portage.shape(scale);
            assert_eq!(portage.entries(), (12_000.0 * scale).round() as u64, "{scale}");
            // So few files that none of them is large have only their own bytes.
            let wanted = 229e6 * scale;
            assert!(portage.files() < 6 || (portage.bytes() as f64 - wanted).abs() <= wanted * 0.2, "{scale}");
        }
        assert_eq!(PublishedSet::Portage.shape(1e-9).entries(), 1);
    }
}
