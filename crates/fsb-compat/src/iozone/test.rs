//! The tests that can be chosen by number.

/// A test that an option `-i N` chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Test {
    /// 0: write and rewrite.
    Write,
    /// 1: read and reread.
    Read,
    /// 2: random read and random write.
    Random,
    /// 3: read backwards.
    Backward,
    /// 4: rewrite the first record.
    RecordRewrite,
    /// 5: read with a stride.
    Stride,
    /// 6: fwrite and frewrite.
    Fwrite,
    /// 7: fread and freread.
    Fread,
    /// 8: random reads and writes at once, in throughput mode.
    Mix,
    /// 9: pwrite, in throughput mode.
    Pwrite,
    /// 10: pread, in throughput mode.
    Pread,
}

impl Test {
    /// All of them; the place of each is its number.
    pub const ALL: [Test; 11] = [
        Test::Write,
        Test::Read,
        Test::Random,
        Test::Backward,
        Test::RecordRewrite,
        Test::Stride,
        Test::Fwrite,
        Test::Fread,
        Test::Mix,
        Test::Pwrite,
        Test::Pread,
    ];

    /// Returns the number after `-i`.
    pub fn number(self) -> u32 {
        self as u32
    }
}

/// The chosen tests; an empty set means all tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TestSet(u16);

impl TestSet {
    pub(super) fn insert(&mut self, test: Test) {
        self.0 |= 1 << test.number();
    }

    /// Returns whether no test was named.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether the test was named.
    pub fn contains(self, test: Test) -> bool {
        self.0 & (1 << test.number()) != 0
    }

    /// Returns whether the test is to run: it was named, or none was.
    pub fn wants(self, test: Test) -> bool {
        self.is_empty() || self.contains(test)
    }

    /// Returns the named tests, by number.
    pub fn iter(self) -> impl Iterator<Item = Test> {
        Test::ALL.into_iter().filter(move |test| self.contains(*test))
    }
}
