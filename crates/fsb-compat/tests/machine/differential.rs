//! The readers beside independent ones in Python, on damaged output: no number differs without a
//! word about it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fsb_compat::TOOLS;
use fsb_model::set::Run;

/// Damaged outputs of each tool.
const EACH: usize = 200;

/// The real outputs of each tool.
const OUTPUTS: [(&str, &[&str]); 10] = [
    (
        "bonnie++",
        &[
            "testdata/tool-output/bonnie++-2.00a.txt",
            "tests/golden/bonnie++/2.00a-small.csv",
        ],
    ),
    ("fio", &["testdata/tool-output/fio-3.33.json"]),
    (
        "filebench",
        &["testdata/tool-output/filebench-1.5-varmail.txt"],
    ),
    (
        "io500",
        &[
            "tests/golden/io500/two-tasks-summary.txt",
            "tests/golden/io500/two-tasks-terminal.txt",
        ],
    ),
    (
        "ior",
        &[
            "tests/golden/ior/3.0.1-file-per-process.txt",
            "tests/golden/ior/4.1-random.txt",
            "tests/golden/ior/4.1-two-tests.txt",
        ],
    ),
    (
        "iozone",
        &[
            "testdata/tool-output/iozone-3.471-single.txt",
            "testdata/tool-output/iozone-3.471-throughput.txt",
            "testdata/iozone-aa/ext4/ext4_1.iozone",
        ],
    ),
    (
        "mdtest",
        &[
            "tests/golden/mdtest/3.3-two-runs.txt",
            "tests/golden/mdtest/4.1-three-iterations.txt",
        ],
    ),
    ("phoronix", &["testdata/tool-output/phoronix-10.8.6.xml"]),
    (
        "postmark",
        &[
            "testdata/tool-output/postmark-1.53.txt",
            "tests/golden/postmark/1.53-two-runs.txt",
        ],
    ),
    (
        "sysbench",
        &[
            "tests/golden/sysbench/1.0.20-rndrw.txt",
            "tests/golden/sysbench/1.0.20-seqrd.txt",
        ],
    ),
];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Numbers that are the same in every run: Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most.max(1) as u64) as usize
    }
}

/// Returns the text with one damage. A text without digits holds no number that could be damaged.
fn damaged(text: &str, random: &mut Random) -> String {
    if !text.contains(|letter: char| letter.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = random.below(lines.len());
    let other = random.below(lines.len());
    match random.below(8) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(other, lines[at].clone()),
        2 => lines.swap(at, other),
        3 | 4 => {
            let digits: Vec<usize> = text
                .bytes()
                .enumerate()
                .filter(|(_, byte)| byte.is_ascii_digit())
                .map(|(at, _)| at)
                .collect();
            let at = digits[random.below(digits.len())];
            return format!("{}{}{}", &text[..at], random.below(10), &text[at + 1..]);
        }
        5 => {
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            return text[..ends[random.below(ends.len())]].to_owned();
        }
        6 => lines[at].insert_str(0, "3: "),
        _ => lines[at] = lines[at].replace('.', ","),
    }
    lines.join("\n") + "\n"
}

/// A value that a reader found: line, operation, metric.
type Place = (u32, String, String);
type Values = BTreeMap<Place, Vec<f64>>;

fn values(runs: &[Run]) -> Values {
    let mut values = Values::new();
    for series in runs.iter().flat_map(|run| &run.series) {
        for point in &series.points {
            let place = (point.line, series.operation.clone(), series.metric.clone());
            values.entry(place).or_default().push(point.value);
        }
    }
    values
}

/// Returns the values that the readers in Python find in the texts.
fn independent(texts: &[(&str, String)]) -> Vec<Values> {
    let mut child = Command::new("python3")
        .arg(path("tests/machine/independent_reader.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut requests = String::new();
    for (tool, text) in texts {
        writeln!(
            requests,
            "{}",
            serde_json::json!({ "tool": tool, "text": text })
        )
        .unwrap();
    }
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(requests.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    let found = String::from_utf8(output.stdout).unwrap();
    let parse = |line: &str| {
        let mut values = Values::new();
        let found: Vec<(u32, String, String, f64)> = serde_json::from_str(line).unwrap();
        for (line, operation, metric, value) in found {
            values
                .entry((line, operation, metric))
                .or_default()
                .push(value);
        }
        values
    };
    found.lines().map(parse).collect()
}

/// Returns whether a reader reported anything that explains a difference in a line: a remark on it,
/// a gap there, a failure of the work, or a remark that names the line of another value.
fn is_explained(runs: &[Run], (line, operation, metric): &Place) -> bool {
    runs.iter().any(|run| {
        let remark = run.warnings.iter().any(|remark| {
            let after = remark.text.contains("those after it are left out")
                && remark.line.is_some_and(|at| at <= *line);
            let places_unknown = [
                "the JSON is cut or damaged here",
                "is printed as",
                "occurs twice",
                "is not a count",
            ];
            let after = after || places_unknown.iter().any(|text| remark.text.contains(text));
            let named = remark.text.contains(&format!("line {line} has"));
            after || named || remark.line == Some(*line) || remark.text.contains("not shown")
        });
        let gap = run.series.iter().any(|series| {
            let same = series.operation == *operation && series.metric == *metric;
            same && series.gaps.iter().any(|gap| gap.line == *line)
        });
        remark || gap || !run.failures.is_empty()
    })
}

/// Returns the differences that nothing explains. In a last line that may be cut, the readers of
/// fsb know more numbers to be complete: a test in `quick` proves that a cut gives no other value.
fn silent(ours: &[Run], theirs: &Values, text: &str) -> Vec<String> {
    let found = values(ours);
    let cut = text.lines().count() as u32;
    let places = found
        .keys()
        .chain(theirs.keys().filter(|place| !found.contains_key(*place)));
    let places = places.filter(|place| place.0 != cut);
    let differ = |place: &&Place| {
        let [ours, theirs] =
            [&found, theirs].map(|values| values.get(*place).map_or(&[][..], Vec::as_slice));
        // A zero is a gap, or a value that the test does not have.
        let theirs: Vec<f64> = theirs
            .iter()
            .copied()
            .filter(|value| *value != 0.0)
            .collect();
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * b.abs();
        ours.len() != theirs.len() || !ours.iter().zip(&theirs).all(close)
    };
    let text = |place: &Place| {
        format!(
            "{place:?}: {:?}, and {:?}",
            found.get(place),
            theirs.get(place)
        )
    };
    places
        .filter(differ)
        .filter(|place| !is_explained(ours, place))
        .map(text)
        .collect()
}

#[test]
fn no_number_of_damaged_output_differs_silently() {
    needs!(program "python3");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut texts = Vec::new();
    for (tool, outputs) in OUTPUTS {
        for number in 0..EACH {
            let text = std::fs::read_to_string(path(outputs[number % outputs.len()])).unwrap();
            // The first ones are whole, the others have one damage or two.
            let damages = if number < outputs.len() {
                0
            } else {
                1 + random.below(2)
            };
            let text = (0..damages).fold(text, |text, _| damaged(&text, &mut random));
            texts.push((tool, text));
        }
    }
    let theirs = independent(&texts);
    assert_eq!(theirs.len(), texts.len());
    let (mut problems, mut compared) = (Vec::new(), 0);
    for ((tool, text), theirs) in texts.iter().zip(&theirs) {
        let reader = TOOLS.iter().find(|known| known.name == *tool).unwrap();
        let Ok(runs) = (reader.read)(&mut text.as_bytes()) else {
            continue;
        };
        compared += theirs.len();
        let found = silent(&runs, theirs, text);
        if !found.is_empty() {
            let remarks: Vec<String> = runs
                .iter()
                .flat_map(|run| run.warnings.iter().map(ToString::to_string))
                .collect();
            problems.push(format!("{tool}: {found:#?}\n{remarks:#?}\n{text}"));
        }
    }
    assert!(compared > OUTPUTS.len() * EACH, "{compared}");
    assert!(
        problems.is_empty(),
        "{} of {} texts:\n{}",
        problems.len(),
        texts.len(),
        problems.join("\n")
    );
}
