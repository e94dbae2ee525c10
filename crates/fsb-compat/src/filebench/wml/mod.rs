//! filebench's workload model language: files that end in `.f`.
//!
//! A file is read in three steps, which all keep the line numbers. `parser::tokens` splits the text
//! into tokens. `parser::parse` builds commands from the tokens. `lower` builds a
//! [`fsb_model::flow::Flow`] from the definitions that precede a `run`: like filebench, it binds a
//! variable when it is used, not when it is named. Features that only filebench has are reported by
//! line, and then nothing runs, because half a workload is a different workload.
//!
//! Both dialects are read: 1.4's `define randvar`, `filesizegamma` and sums of variables, and 1.5's
//! `randvar(…)` and `cvar(…)`. A plain number is that number, as 1.5 has it.

mod lower;
mod parser;

pub(crate) use parser::USUAL_SECONDS;
pub use parser::{Reading, Remark, Run, Script};

/// Reads a file.
///
/// # Errors
/// All problems of the file, by line; never empty.
pub fn read(text: &str, reading: &Reading<'_>) -> Result<Script, Vec<Remark>> {
    let tokens = parser::tokens(text).map_err(|problem| vec![problem])?;
    lower::lower(parser::parse(&tokens), reading, tokens.last_line)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use fsb_model::Bytes;
    use fsb_model::flow::{Flow, Op, Quit, Spread};
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, name: &str, implied: Option<u64>) -> Result<Script, Vec<Remark>> {
        super::read(
            text,
            &Reading {
                name,
                implied,
                values: &[],
            },
        )
    }

    fn directory(below: &str) -> BTreeMap<String, String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("testdata/filebench/wml")
            .join(below);
        let files = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "f"));
        files
            .map(|path| {
                (
                    path.file_stem().unwrap().to_string_lossy().into(),
                    std::fs::read_to_string(path).unwrap(),
                )
            })
            .collect()
    }

    fn read_one(name: &str) -> Script {
        read(&directory("")[name], name, None)
            .unwrap_or_else(|problems| panic!("{name}: {problems:?}"))
    }

    fn flow(name: &str) -> Flow {
        read_one(name).runs.remove(0).flow
    }

    /// Returns the problems of a file, by line.
    fn problems(text: &str) -> Vec<String> {
        read(text, "test", None)
            .unwrap_err()
            .iter()
            .map(Remark::to_string)
            .collect()
    }

    #[test]
    fn the_personalities_are_understood() {
        let all = directory("");
        assert!(all.len() >= 23, "{}", all.len());
        for name in all.keys() {
            let script = read_one(name);
            assert_eq!(script.runs.len(), 1, "{name}");
            let run = &script.runs[0];
            assert_eq!(
                (run.directory.as_path(), run.flow.name.as_str()),
                (Path::new("/tmp"), name.as_str())
            );
            assert_eq!(run.flow.check(), [], "{name}");
            assert_eq!(
                Flow::from_toml(&run.flow.to_toml()).unwrap(),
                run.flow,
                "{name}"
            );
        }
    }

    #[test]
    fn varmail_has_its_published_numbers() {
        let script = read_one("varmail");
        assert_eq!(
            script.said,
            ["Varmail Version 3.0 personality successfully loaded"]
        );
        assert_eq!((script.notes.len(), script.runs[0].seconds), (0, 60));
        let flow = &script.runs[0].flow;
        let set = &flow.filesets[0];
        assert_eq!(
            (
                set.name.as_str(),
                set.files,
                set.preallocated,
                set.width.mean
            ),
            ("files", 1000, 0.8, 1_000_000)
        );
        assert_eq!(
            set.size,
            Spread::Gamma {
                mean: Bytes(16 << 10),
                shape: 1.5
            }
        );
        let thread = &flow.threads[0];
        assert_eq!(
            (thread.process.as_str(), thread.processes, thread.threads),
            ("server", 1, 16)
        );
        let ops: Vec<Op> = thread.steps.iter().map(|step| step.op).collect();
        let append = [Op::Append, Op::Sync, Op::Close];
        let expected = [
            &[Op::Delete, Op::Create][..],
            &append,
            &[Op::Open, Op::ReadWhole],
            &append,
            &[Op::Open, Op::ReadWhole, Op::Close],
        ];
        assert_eq!(ops, expected.concat());
        assert_eq!(
            thread.steps[2].size,
            Some(Spread::Uniform {
                low: Bytes(0),
                high: Bytes(16 << 10)
            })
        );
        assert_eq!(thread.steps[6].record, Some(Bytes(1 << 20)));
        assert_eq!(thread.steps[3].title(), "fsyncfile2");
    }

    #[test]
    fn other_files_keep_what_makes_them_themselves() {
        let oltp = flow("oltp");
        assert_eq!(oltp.instances(), 211);
        let writer = oltp
            .threads
            .iter()
            .find(|thread| thread.process == "dbwriter")
            .unwrap();
        let write = &writer.steps[0];
        assert!(write.rotate && write.random && write.dsync && !write.direct);
        assert_eq!(
            (write.iterations, write.working_set, oltp.rate),
            (Some(100), None, None)
        );
        assert_eq!(writer.steps[2].high_water, Some(2000));
        let notes = read_one("oltp").notes;
        assert_eq!(
            (notes.len(), notes[0].line),
            (2, 19),
            "each set's reuse: {notes:?}"
        );

        let video = flow("videoserver");
        assert_eq!(
            (video.rate, video.filesets[0].name.as_str()),
            (Some(96.0), "activevids")
        );
        assert_eq!(
            (
                video.filesets[0].preallocated,
                video.filesets[1].preallocated
            ),
            (1.0, 0.5)
        );
        assert_eq!(video.threads[0].steps[4].seconds, Some(10.0));

        assert_eq!(flow("copyfiles").quit, Quit::FirstDone);
        assert_eq!(
            flow("createfiles").filesets[0].size,
            Spread::Exact(Bytes(16 << 10))
        );
        let made = flow("makedirs");
        assert_eq!(
            (made.filesets[0].files, made.filesets[0].directories),
            (0, 10_000)
        );
        let random = read_one("randomrw");
        assert!(
            random
                .notes
                .iter()
                .any(|note| note.message.contains("psrun")),
            "{:?}",
            random.notes
        );
        assert_eq!(
            flow("cvar").threads[0].steps[1].size,
            Some(Spread::Uniform {
                low: Bytes(4096),
                high: Bytes(8193)
            })
        );

        // Expanded: before, five or four times two files, after.
        let made_of_others = flow("compflow");
        let steps: Vec<usize> = made_of_others
            .threads
            .iter()
            .map(|thread| thread.steps.len())
            .collect();
        assert_eq!(steps, [3 + 5 * 6 + 2, 3 + 4 * 6 + 2]);
        assert_eq!(
            made_of_others.threads[1].steps[4].set.as_deref(),
            Some("more")
        );
    }

    #[test]
    fn unsupported_syntax_is_reported_by_line() {
        let refused = directory("refused");
        let of = |name: &str| problems(&refused[name]);
        let netsfs = of("netsfs");
        assert_eq!(netsfs.len(), 2, "{netsfs:?}");
        assert!(
            netsfs[0].starts_with("line 4: $wrtiosize: type=tabular"),
            "{netsfs:?}"
        );
        assert!(
            netsfs[1].starts_with("line 9: $fileidx: a randvar needs a mean"),
            "{netsfs:?}"
        );
        assert_eq!(
            of("createdelete-swing"),
            ["line 22: createandclose: 10000 repetitions have more than 4096 steps"]
        );
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once_in_words_of_the_language() {
        let text = around(
            "system \"ls\"\nsleep 5\nbanana split\nstats snap",
            "flowop read fd=1,iosise=4k",
            "run banana",
        );
        let said = problems(&text);
        let lines: Vec<_> = said
            .iter()
            .map(|said| said.split(':').next().unwrap())
            .collect();
        assert_eq!(
            lines,
            ["line 2", "line 3", "line 4", "line 5", "line 10", "line 14"],
            "{said:#?}"
        );
        assert!(
            said[5].ends_with("expected a number of seconds such as 60, found 'banana'"),
            "{said:?}"
        );
        let said = problems(&around("", "flowop openfile name=x,iosize=4k,fd=2", "run"));
        assert!(
            said.iter().any(|said| said.ends_with("takes no iosize")),
            "{said:?}"
        );
        assert!(
            said.iter()
                .any(|said| said.ends_with("needs attribute filesetname")),
            "{said:?}"
        );
        // A line that was not understood may have set it.
        assert_eq!(
            problems(&around("sett $n=4k", "flowop read fd=1,iosize=$n", "run")).len(),
            1
        );
        assert!(problems(&format!("{} x", "y".repeat(200)))[0].len() < 300);
    }

    /// Returns a file with one set and one thread around the tested lines.
    fn around(before: &str, steps: &str, after: &str) -> String {
        format!(
            "set $dir=/tmp\n{before}\ndefine fileset name=s,path=$dir,size=4k,entries=10,prealloc\n\
         define process name=p {{\nthread name=t {{\nflowop openfile name=o,filesetname=s,fd=1\n{steps}\n\
         flowop closefile name=c,fd=1\n}}\n}}\n{after}\n"
        )
    }

    #[test]
    fn a_loop_performs_its_commands_with_each_value() {
        let looped = around(
            "",
            "flowop read fd=1,iosize=$n",
            "foreach $n in 1k,$k,8k {\necho \"size $n\"\nrun 5\n}\nrun 7",
        );
        let script = read(&format!("set $k=2k\n{looped}"), "test", None).unwrap();
        let sizes: Vec<_> = script
            .runs
            .iter()
            .map(|run| (run.seconds, run.flow.threads[0].steps[1].size))
            .collect();
        let exact = |size| Some(Spread::Exact(Bytes(size)));
        assert_eq!(
            sizes,
            [
                (5, exact(1024)),
                (5, exact(2048)),
                (5, exact(8192)),
                (7, exact(8192))
            ]
        );
        assert_eq!(script.said, ["size 1024", "size 2048", "size 8192"]);
        let nested = "foreach $n in 1k,2k { foreach $m in 3,4 { run $m } }";
        let nested = read(
            &around("", "flowop read fd=1,iosize=$n", nested),
            "test",
            None,
        )
        .unwrap();
        assert_eq!(
            nested
                .runs
                .iter()
                .map(|run| run.seconds)
                .collect::<Vec<_>>(),
            [3, 4, 3, 4]
        );
        for (text, said) in [
            (
                "foreach $n in 1,2 { run 5",
                "line 11: the foreach that begins here has no closing '}'",
            ),
            (
                "foreach n in 1,2 { run 5 }",
                "line 11: expected a variable such as $iosize, found 'n'",
            ),
            (
                "foreach $n of 1,2 { run 5 }",
                "line 11: expected 'in', found 'of'",
            ),
            (
                "foreach $n in 1,2 {\nbanana\n}",
                "line 12: unknown command 'banana'",
            ),
        ] {
            let found = problems(&around("", "", text));
            assert!(
                found.iter().any(|found| found.starts_with(said)),
                "{text}: {found:?}"
            );
        }
        let values = [("n".to_owned(), "4k".to_owned())];
        let given = Reading {
            name: "test",
            implied: None,
            values: &values,
        };
        let refused = super::read(
            &around(
                "",
                "flowop read fd=1,iosize=$n",
                "foreach $n in 1k { run 5 }",
            ),
            &given,
        );
        assert!(
            refused.unwrap_err()[0]
                .message
                .contains("the foreach sets it")
        );
    }

    #[test]
    fn mistakes_are_named_with_their_lines() {
        assert!(read(&around("", "", "run 5"), "test", None).is_ok());
        for (before, steps, after, said) in [
            ("", "", "", "line 10: the file has no 'run'"),
            (
                "",
                "flowop raed fd=1,iosize=4k",
                "run",
                "line 7: unknown flowop 'raed': did you mean 'read'?",
            ),
            (
                "",
                "flowop read fd=1,iosise=4k",
                "run",
                "line 7: flowop read: unknown attribute 'iosise': did you mean 'iosize'?",
            ),
            (
                "",
                "flowop read fd=1,iosize=$n",
                "run",
                "line 7: flowop read: iosize: unknown variable 'n'",
            ),
            (
                "",
                "flowop read fd=1",
                "run",
                "line 7: thread t, step 2 (read): read needs attribute iosize",
            ),
            (
                "",
                "flowop read fd=2,iosize=4k",
                "run",
                "line 7: thread t, step 2 (read): fd 2 is not open",
            ),
            (
                "",
                "flowop statfile filesetname=t",
                "run",
                "line 7: thread t, step 2 (stat): unknown fileset 't'",
            ),
            (
                "",
                "flowop read fd=1,iosize=many",
                "run",
                "line 7: flowop read: iosize=many is not a number",
            ),
            ("sytem \"rm\"", "", "run", "line 2: unknown command 'sytem'"),
            (
                "system \"rm -rf /\"",
                "",
                "run",
                "line 2: system is not supported: fsb runs no shell commands",
            ),
            (
                "set $x=cvar(type=cvar-normal,parameters=mean:1)",
                "",
                "run",
                "line 2: $x: unknown distribution 'cvar-normal'",
            ),
            (
                "set $x=cvar(type=cvar-gamma,parameters=mean:1)",
                "",
                "run",
                "line 2: $x: cvar-gamma needs a parameter 'gamma'",
            ),
            (
                "set $x=randvar(type=uniform,min=5,mean=3)",
                "",
                "run",
                "line 2: $x: mean=3 is below min=5",
            ),
            (
                "set $x=randvar(mean=5k,round=1k)",
                "",
                "run",
                "line 2: $x: round=1024 is not supported",
            ),
            (
                "set $x=3\nset $y=$x / 0",
                "",
                "run",
                "line 3: $y: 3 / 0 is not a number",
            ),
            (
                "enable multi master=a,client=b",
                "",
                "run",
                "line 2: enable multi: fsb runs on one machine only",
            ),
            (
                "set mode quit soon",
                "",
                "run",
                "line 2: set mode quit: unknown mode 'soon'",
            ),
            (
                "define file name=f,path=/srv,size=1m",
                "",
                "run",
                "all sets must be in one directory",
            ),
            (
                "define fileset name=f,path=$dir,entries=1,prealloc=200",
                "",
                "run",
                "line 2: fileset: prealloc=200 is not a percentage",
            ),
            ("", "", "run 0", "line 11: run 0: a run lasts from 1 to"),
            (
                "define flowop name=a { flowop a }",
                "flowop a",
                "run",
                "a: flowops are nested too deeply",
            ),
            (
                "echo \"open",
                "",
                "run",
                "line 2: the text that begins here has no closing",
            ),
            (
                "",
                "flowop read {",
                "run",
                "line 7: expected 'flowop' or '}', found '{'",
            ),
        ] {
            let found = problems(&around(before, steps, after));
            assert!(
                found.iter().any(|problem| problem.contains(said)),
                "{said}: {found:?}"
            );
        }
        // One reading reports all problems.
        let both = problems(&around(
            "set $a=$b",
            "flowop raed fd=1\nflowop red fd=1",
            "run",
        ));
        assert_eq!(both.len(), 3, "{both:?}");
    }

    #[test]
    fn values_are_those_of_the_moment_of_the_run() {
        let text = around(
            "set $n=2\nset $m=$n * 3",
            "flowop read fd=1,iosize=4k,iters=$m",
            "run $n\nset $m=9\nrun 7\nquit\nrun 8",
        );
        let script = read(&text, "test", None).unwrap();
        let runs: Vec<_> = script
            .runs
            .iter()
            .map(|run| (run.seconds, run.flow.threads[0].steps[1].iterations))
            .collect();
        assert_eq!(runs, [(2, Some(6)), (7, Some(9))]);
        let implied = read(&around("", "", ""), "test", Some(3)).unwrap();
        assert_eq!((implied.runs[0].seconds, implied.runs[0].line), (3, None));
        // The syntax of 1.4 for the distribution of sizes.
        let old = around(
            "define randvar name=$size, type=gamma, mean=8k, gamma=2000",
            "flowop read fd=1,iosize=$size",
            "run",
        );
        let size = read(&old, "test", None).unwrap().runs[0].flow.threads[0].steps[1].size;
        assert_eq!(
            size,
            Some(Spread::Gamma {
                mean: Bytes(8192),
                shape: 2.0
            })
        );
    }

    #[test]
    fn variables_may_be_given_other_values() {
        let values = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        let text = &directory("")["varmail"];
        let given = values(&[
            ("nfiles", "7"),
            ("dir", "/srv/x"),
            ("iosize", "4k"),
            ("filesize", "2k"),
        ]);
        let script = super::read(
            text,
            &Reading {
                name: "x",
                implied: None,
                values: &given,
            },
        )
        .unwrap();
        let run = &script.runs[0];
        let set = &run.flow.filesets[0];
        assert_eq!(
            (set.files, run.directory.as_path(), set.size),
            (7, Path::new("/srv/x"), Spread::Exact(Bytes(2048)))
        );
        assert_eq!(run.flow.threads[0].steps[6].record, Some(Bytes(4096)));
        let unknown = values(&[("nfile", "7")]);
        let problems = super::read(
            text,
            &Reading {
                name: "x",
                implied: None,
                values: &unknown,
            },
        )
        .unwrap_err();
        assert!(
            problems[0].message.contains("did you mean 'nfiles'"),
            "{problems:?}"
        );
    }

    /// Checks that each problem has a line of the file, and that each flow is valid and can be
    /// written as TOML and read again.
    fn judged(text: &str) {
        let lines = text.matches('\n').count() + 1;
        match read(text, "x", Some(1)) {
            Ok(script) => {
                assert!(!script.runs.is_empty());
                for run in script.runs {
                    assert_eq!(run.flow.check(), []);
                    Flow::from_toml(&run.flow.to_toml()).unwrap();
                }
            }
            Err(problems) => {
                assert!(!problems.is_empty());
                assert!(
                    problems
                        .iter()
                        .all(|problem| (1..=lines).contains(&problem.line)),
                    "{problems:?}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_judged(text in "\\PC{0,300}") {
            judged(&text);
        }

        #[test]
        fn any_words_of_the_language_are_judged(
            words in proptest::collection::vec(proptest::sample::select(vec![
                "set", "$a", "=", "define", "fileset", "file", "process", "thread", "flowop", "name=x", ",", "{", "}", "(",
                ")", "randvar", "cvar", "type=gamma", "mean=16k", "run", "60", "$b", "*", "\"", "openfile", "read", "fd=1",
                "path=/tmp", "iters=9999999999", "size=4k", "entries=10", "\n", "x", "psrun", "-10", "echo", "mode", "quit",
            ]), 0..120)
        ) {
            judged(&words.join(" "));
        }

        #[test]
        fn a_personality_with_a_hole_is_judged(
            which in 0usize..64, from in 0usize..2000, length in 0usize..200, put in "[ -~]{0,6}"
        ) {
            let all = directory("");
            let text = all.values().nth(which % all.len()).unwrap();
            let from = from.min(text.len());
            let to = (from + length).min(text.len());
            judged(&format!("{}{put}{}", &text[..from], &text[to..]));
        }
    }

    #[test]
    fn deep_nesting_is_refused() {
        judged(&format!("set $x={}", "cvar(type=".repeat(100_000)));
        judged(&format!("set $x={}", "1*".repeat(100_000)));
        judged(&format!("set $x={}", "{".repeat(100_000)));
        judged(&format!(
            "{}run{}",
            "foreach $a in 1,2,3 { ".repeat(1000),
            " }".repeat(1000)
        ));
        judged(&format!(
            "{}run{}",
            "foreach $a in 1".to_owned() + &",1".repeat(20_000) + "{",
            "}"
        ));
        let mut text = String::new();
        for level in 0..8 {
            let inner = format!("flowop l{} iters=999999999\n", level + 1).repeat(200);
            text += &format!("define flowop name=l{level} {{\n{inner}}}\n");
        }
        text += "define flowop name=l8 {\n}\n";
        judged(&around(&text, "flowop l0 iters=999999999", "run"));
    }
}
