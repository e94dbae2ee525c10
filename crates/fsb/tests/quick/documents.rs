//! The documentation: every command in a code block is executed, and every link and path leads to a
//! file.
//!
//! The tests run `fsb run` twice. The first time, they run it as documented, up to the plan
//! (`--print-plan`), which needs no root, no device and no kernel. The second time, they run it for
//! real, with the null file system as every target and with small sizes, and measure runs that
//! become the same once. They run `fsb compare` and `fsb report` as documented, in a directory that
//! has such files. Of all other commands only clap reads the command line, because they would take
//! minutes, or fetch something.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{expect_code, fsb, lay_results, lay_trace, scratch, stdout, succeeds};

/// Returns the top of the source tree; a package contains no documentation.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the source tree")
}

/// Returns every page of the documentation.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![top().join("docs")];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    found.extend(["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|name| top().join(name)));
    found.sort();
    found
}

/// Returns the lines of code blocks. A block of text is the output of a program.
fn code(text: &str) -> Vec<&str> {
    let mut block = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            block = if block.is_some() {
                None
            } else {
                Some(language)
            };
        } else if block.is_some_and(|language| language != "text") {
            lines.push(line);
        }
    }
    lines
}

/// Returns the words of a line that calls the program, without `sudo`, comments and shell
/// redirections of the output.
fn call(line: &str) -> Option<Vec<String>> {
    let line = line.trim().trim_start_matches("sudo ");
    // A line with an arrow belongs to a diagram.
    let call = line
        .strip_prefix("fsb ")
        .filter(|call| !call.contains('▶'))?;
    let words = shlex::split(call).unwrap_or_else(|| panic!("a shell does not take: {line}"));
    let end = words
        .iter()
        .position(|word| ["|", ">", "&&", "#"].contains(&word.as_str()));
    Some(words[..end.unwrap_or(words.len())].to_vec())
}

/// Returns the calls in the documentation and in the examples of the help, each once.
fn calls() -> BTreeSet<Vec<String>> {
    let directory = scratch();
    let mut found = BTreeSet::new();
    for page in pages() {
        found.extend(
            code(&fs::read_to_string(page).unwrap())
                .into_iter()
                .filter_map(call),
        );
    }
    for command in [
        "run",
        "micro",
        "iozone",
        "postmark",
        "filebench",
        "fio",
        "compare",
        "export",
        "report",
        "kernel",
        "clean",
        "doctor",
    ] {
        let help = stdout(&fsb(directory.path(), &[command, "--help"]));
        for line in help
            .lines()
            .filter(|line| line.starts_with("  fsb ") || line.starts_with("  sudo fsb "))
        {
            // Two spaces separate an example from its description.
            found.extend(call(
                line.trim()
                    .split("   ")
                    .next()
                    .unwrap()
                    .split("  ")
                    .next()
                    .unwrap(),
            ));
        }
    }
    found
}

/// Options of `fsb run` without a value.
const SWITCHES: [&str; 17] = [
    "-i",
    "--ignore-failure",
    "--gate",
    "--here",
    "--verify-same",
    "--risky",
    "--mkfs-defaults",
    "--verify",
    "--print-plan",
    "--quiet",
    "--force-root-user",
    "--allow-concurrent",
    "--keep-affected",
    "--explain",
    "--sudo",
    "--reuse",
    "--wait",
];

/// Returns the options of `fsb run` with their values, the targets, and the command after them with
/// its dashes.
fn parts_of(words: &[String]) -> (Vec<[&str; 2]>, Vec<&str>, Vec<&str>) {
    let (mut options, mut targets) = (Vec::new(), Vec::new());
    let end = words
        .iter()
        .position(|word| word == "--")
        .unwrap_or(words.len());
    let command = words[end..].iter().map(String::as_str).collect();
    let mut words = words[..end].iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            word if SWITCHES.contains(&word) || word.starts_with("--verify=") => {
                options.push([word, ""])
            }
            "--versus" | "--versus-git" | "-L" => {
                options.push([word, words.next().expect("a value")]);
                options.extend(words.next().map(|word| [word, ""]));
            }
            word if word.starts_with('-') => options.push([word, words.next().expect("a value")]),
            word => targets.push(word),
        }
    }
    (options, targets, command)
}

fn plans(words: &[String]) {
    let directory = scratch();
    if words.iter().any(|word| word == "--trace") {
        lay_trace(directory.path());
    }
    let (options, targets, command) = parts_of(&words[1..]);
    // Kernels are files of this machine.
    let options = options
        .iter()
        .filter(|[name, _]| *name != "--kernel")
        .flatten()
        .filter(|word| !word.is_empty());
    // Programs of variants are looked for.
    for (_, path) in words.iter().filter_map(|word| word.split_once("=./")) {
        fs::create_dir_all(directory.path().join(path).parent().unwrap()).unwrap();
        fs::write(directory.path().join(path), "").unwrap();
    }
    let line: Vec<&str> = ["run", "--print-plan"]
        .into_iter()
        .chain(targets)
        .chain(options.copied())
        .chain(command)
        .collect();
    let output = succeeds(directory.path(), &line);
    assert!(
        stdout(&output).contains("[[workload]]"),
        "{words:?}: {}",
        stdout(&output)
    );
}

/// Returns the arguments of a small run on the null file system: those of a documented run, except
/// for options that need a real target or more time. Many documented runs become the same small
/// run.
fn small_run(words: &[String]) -> Vec<String> {
    let (options, targets, command) = parts_of(&words[1..]);
    let replaced = [
        "--in",
        "--kernel",
        "--memory",
        "--cpus",
        "--wipe",
        "--budget",
        "--blocks",
        "--control",
        "--on",
        "--sudo",
        "--dir",
        // These measure in real time, also on the null file system.
        "--explain",
        "--background",
    ];
    let kept = options
        .into_iter()
        .filter(|[name, _]| !replaced.contains(name))
        .flatten();
    let options: Vec<&str> = kept.filter(|word| !word.is_empty()).collect();
    let small = crate::common::words("run small.toml --blocks 1 --control guest-memory=off -q");
    // A plan that is documented with a scale may not work with a smaller one.
    let scale: &[&str] = if options.contains(&"--scale") {
        &[]
    } else {
        &["--scale", "1/64"]
    };
    // A third target is measured as the second one is.
    let targets = &["t0=null", "t1=null"][..targets.len().min(2)];
    [&small[..], scale, &options, targets, &command]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect()
}

fn measures(line: &[String]) {
    let directory = scratch();
    if line.iter().any(|word| word == "--trace") {
        lay_trace(directory.path());
    }
    fs::write(
        directory.path().join("small.toml"),
        "[repetition]\nsample_time = '1ms'\n",
    )
    .unwrap();
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    succeeds(directory.path(), &line);
    let runs: Vec<_> = fs::read_dir(directory.path().join("fsb-results"))
        .unwrap()
        .collect();
    assert_eq!(runs.len(), 1, "{line:?}");
}

#[test]
fn every_command_that_is_documented_does_what_it_says() {
    let calls = calls();
    let results = lay_results();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut small_runs = BTreeSet::new();
    for words in &calls {
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        seen.insert(arguments[0]);
        match arguments[0] {
            // Only a repository has revisions.
            "run" if words.iter().any(|word| word == "--versus-git") => {}
            "run" => {
                plans(words);
                // Presets are measured on real file systems, and programs of others are not here.
                let elsewhere = ["--preset", "--here", "--versus"];
                if !words.iter().any(|word| elsewhere.contains(&word.as_str())) {
                    small_runs.insert(small_run(words));
                }
            }
            // The results here are copies of one, which a gate refuses to compare.
            "compare" if words.iter().any(|word| word == "--fail-if") => {
                expect_code(&fsb(results.path(), &arguments), 2);
            }
            "compare" | "report" | "list" | "completions" => {
                succeeds(results.path(), &arguments);
            }
            "trace" if arguments[1] != "import" => {
                succeeds(results.path(), &arguments);
            }
            // With `--help` as the last argument, clap has read all arguments before it.
            _ => {
                let own = arguments
                    .iter()
                    .position(|word| *word == "--")
                    .unwrap_or(arguments.len());
                succeeds(results.path(), &[&arguments[..own], &["--help"]].concat());
            }
        }
    }
    small_runs.iter().for_each(|line| measures(line));
    assert!(
        calls.len() > 30 && seen.len() >= 9,
        "{} calls of {seen:?}",
        calls.len()
    );
}

#[test]
fn every_run_of_the_five_works_has_a_plan() {
    let page = fs::read_to_string(top().join("docs/five-works.md")).unwrap();
    let mut found = BTreeSet::new();
    // Every second part is between backticks. A call without arguments only names the command.
    for part in page.split('`').skip(1).step_by(2) {
        found.extend(call(part).filter(|words| words[0] == "run" && words.len() > 1));
    }
    assert!(found.len() > 80, "{found:?}");
    found.iter().for_each(|words| plans(words));
}

#[test]
fn links_lead_to_pages_and_headings() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let links = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap().join(file)
            };
            assert!(target.exists(), "{}: {link} leads nowhere", page.display());
            let text = if heading.is_empty() {
                String::new()
            } else {
                fs::read_to_string(target).unwrap()
            };
            let known = text
                .lines()
                .filter(|line| line.starts_with('#'))
                .any(|line| anchor(line) == heading);
            assert!(
                heading.is_empty() || known,
                "{}: {link} is not a heading there",
                page.display()
            );
        }
    }
}

/// Source files and folders in code spans, such as `workload/spec.rs` and `resolve/`, are the end
/// of a path in the tree.
#[test]
fn paths_in_code_spans_exist() {
    let mut known = Vec::new();
    let mut waiting = ["crates", "docs", "plans", "scripts"]
        .map(|name| top().join(name))
        .to_vec();
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            waiting.extend(path.is_dir().then(|| path.clone()));
            known.push(path);
        }
    }
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(top().join(page)).unwrap();
        let spans = text
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|span| !span.contains(' ') && !span.contains("NAME"));
        for span in spans.filter(|span| {
            [".rs", ".md", "/"]
                .iter()
                .any(|ending| span.ends_with(ending))
        }) {
            assert!(
                known.iter().any(|path| path.ends_with(span)),
                "{page}: `{span}` does not exist"
            );
        }
    }
}

/// Returns the anchor of a heading in links.
fn anchor(line: &str) -> String {
    let kept = line
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn every_target_of_make_that_is_documented_exists() {
    let makefile = fs::read_to_string(top().join("Makefile")).unwrap();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for line in code(&text)
            .into_iter()
            .filter_map(|line| line.trim().strip_prefix("make "))
        {
            let target = line.split_whitespace().next().unwrap();
            assert!(
                makefile.contains(&format!("\n{target}:")),
                "{}: make {target}",
                page.display()
            );
        }
    }
}

/// Readers do not finish long list items either.
#[test]
fn no_paragraph_of_the_methods_is_longer_than_a_hundred_and_fifty_words() {
    for page in pages()
        .into_iter()
        .filter(|page| page.to_string_lossy().contains("docs/methods"))
    {
        let mut paragraphs = vec![String::new()];
        for line in fs::read_to_string(&page).unwrap().lines() {
            let item = line
                .trim_start()
                .trim_start_matches(|c: char| c.is_ascii_digit());
            if line.is_empty() || item.starts_with(". ") || item.starts_with("* ") {
                paragraphs.push(String::new());
            }
            *paragraphs.last_mut().unwrap() += &format!("{line}\n");
        }
        for paragraph in paragraphs
            .iter()
            .filter(|paragraph| !paragraph.lines().any(|line| line.starts_with('|')))
        {
            let words = paragraph.split_whitespace().count();
            assert!(
                words <= 150,
                "{}: {words} words: {paragraph}",
                page.display()
            );
        }
    }
}
