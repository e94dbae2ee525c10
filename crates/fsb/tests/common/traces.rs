//! Recorded programs and mutated traces. Each mutated trace is refused or replayed, within its
//! budget, and only below the target.
//!
//! A few cases by default. With `FSB_REPLAYS=10000` the engine performs that many, and every
//! fiftieth is a whole run as well. `FSB_REPLAYS_SEED=N` begins with case N, to repeat one that
//! failed: `FSB_REPLAYS=1 FSB_REPLAYS_SEED=N`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fsb_engine::{EngineError, Gate, Ready, Sizing, Step, Task, worker};
use fsb_model::WorkloadSpec;
use fsb_trace::{
    ALL_KINDS, Call, CallKind, Header, Initial, Reader, State, Totals, TracePart, Writer, flags,
};
use serde_json::Value;

use crate::common::*;

/// The budget of a whole run.
pub const BUDGET: &str = "3s";
/// A replay that has not ended by then hangs.
pub const HANGS: Duration = Duration::from_secs(600);

/// Shell programs that are recorded and then mutated.
pub const PROGRAMS: [&str; 3] = [
    "mkdir d; echo hello > d/one; cp d/one d/two; mv d/two d/three; cat d/three before > all; ls d; sync d/one; rm d/one",
    "for i in 1 2 3 4; do (mkdir $i; echo $i > $i/f; ln -s f $i/l; ln $i/f $i/h; cat $i/l; mv $i/f $i/g) & done; wait",
    "i=0; while [ $i -lt 40 ]; do echo $i >> log; cat log > copy; truncate -s 100 copy; rm copy; i=$((i+1)); done; sleep 0.1",
];

/// A sequence that a seed determines (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// A number of bytes, or a place, that programs do not use.
    pub fn extreme(&mut self) -> u64 {
        const LIMITS: [u64; 10] = [
            0,
            1,
            4095,
            1 << 20,
            1 << 31,
            1 << 40,
            (1 << 62) + 1,
            i64::MAX as u64 - 1,
            1 << 63,
            u64::MAX - 7,
        ];
        match self.below(3) {
            0 => self.next(),
            _ => LIMITS[self.below(LIMITS.len())],
        }
    }

    pub fn name(&mut self) -> Vec<u8> {
        let deep = |part: &str, times: usize| [part].repeat(times).join("/").into_bytes();
        let times = self.below(100) + 1;
        match self.below(10) {
            0 => deep("d", times),
            1 => deep(&"x".repeat(250), times.min(15)),
            2 => b"../outside/kept".to_vec(),
            3 => b"d/../../outside/kept".to_vec(),
            4 => b"/etc/passwd".to_vec(),
            5 => deep("..", times),
            6 => vec![b'a', 0, b'b'],
            7 => vec![0xff; times],
            _ => format!("n{}", self.below(20)).into_bytes(),
        }
    }
}

/// A trace in memory. Calls refer to names by their numbers.
#[derive(Clone)]
pub struct Content {
    pub header: Header,
    pub names: Vec<Vec<u8>>,
    pub initial: Vec<Initial>,
    pub calls: Vec<Call>,
}

impl Content {
    pub fn read(bytes: &[u8]) -> Content {
        let mut reader = Reader::new(bytes).unwrap();
        let (mut initial, mut calls) = (Vec::new(), Vec::new());
        while let Some(part) = reader.next_part().unwrap() {
            match part {
                TracePart::Initial(some) => initial.extend(some),
                TracePart::Calls(some) => calls.extend(some),
                TracePart::End(_) => {}
            }
        }
        let names = (0..reader.names().len())
            .map(|number| reader.names().get(number).to_vec())
            .collect();
        Content {
            header: reader.header().clone(),
            names,
            initial,
            calls,
        }
    }

    /// Returns its bytes; `None` if the writer refuses it.
    pub fn write(&self) -> Option<Vec<u8>> {
        let mut out = Writer::new(Vec::new(), &self.header).ok()?;
        let numbers = self
            .names
            .iter()
            .map(|name| out.name(name))
            .collect::<Result<Vec<_>, _>>()
            .ok()?;
        let number = |name: u32| numbers[name as usize % numbers.len()];
        for Initial { name, state } in &self.initial {
            let state = match state {
                State::Same { name } => State::Same {
                    name: number(*name),
                },
                other => other.clone(),
            };
            out.initial(Initial {
                name: number(*name),
                state,
            })
            .ok()?;
        }
        for call in &self.calls {
            out.call(&Call {
                name: number(call.name),
                second: number(call.second),
                ..*call
            })
            .ok()?;
        }
        Some(out.finish(Totals::default()).ok()?.0)
    }

    pub fn add_name(&mut self, name: Vec<u8>) -> u32 {
        self.names.push(name);
        self.names.len() as u32 - 1
    }

    pub fn mutate(&mut self, dice: &mut Dice) {
        let at = dice.below(self.calls.len());
        match dice.below(16) {
            0..=3 => self.calls[at] = changed(self.calls[at], self.names.len(), dice),
            4 => self.calls.swap(at, 0),
            5 => drop(self.calls.remove(at)),
            6 => self.calls.extend_from_within(at..),
            7 => self.calls.reverse(),
            8 => self.wait_long(at, dice),
            9 => {
                let lanes = [4, 40, 400][dice.below(3)];
                self.calls
                    .iter_mut()
                    .for_each(|call| call.lane = dice.below(lanes) as u32);
            }
            10 => self.depend_on_each_other(dice),
            11 => self.find_files(dice),
            12 => self.remove_everything(),
            13 => self.make_many(dice),
            14 => {
                let name = self.add_name(dice.name());
                self.calls[at].name = name;
                self.calls[at].second = name;
            }
            _ => self.write_far(dice),
        }
        if self.calls.is_empty() {
            self.calls.push(Call::new(CallKind::StatName));
        }
    }

    /// Thinks for seconds or for a century before a call.
    pub fn wait_long(&mut self, at: usize, dice: &mut Dice) {
        let ns = [1_000_000_000, 20_000_000_000, 3_000_000_000_000_000_000][dice.below(3)];
        self.calls[at..].iter_mut().for_each(|call| {
            call.start_ns = call.start_ns.saturating_add(ns).min(i64::MAX as u64 / 2)
        });
    }

    /// Adds lanes that wake each other in a circle and wait for each other's end.
    pub fn depend_on_each_other(&mut self, dice: &mut Dice) {
        let lanes = 2 + dice.below(5) as u32;
        for turn in 0..dice.below(200) as u32 {
            let kind = [
                CallKind::Woken,
                CallKind::Wake,
                CallKind::Wait,
                CallKind::Spawn,
                CallKind::Exit,
            ][dice.below(5)];
            let call = Call {
                lane: turn % lanes,
                other: (turn + 1) % lanes,
                offset: dice.extreme(),
                ..Call::new(kind)
            };
            let at = dice.below(self.calls.len());
            self.calls.insert(at, call);
        }
    }

    /// Adds files that exist before the first call: with exabytes, with holes, links out or to each
    /// other, hundreds of them.
    pub fn find_files(&mut self, dice: &mut Dice) {
        let count = [1, 10, 200][dice.below(3)];
        for _ in 0..count {
            let name = match dice.below(3) {
                0 => dice.below(self.names.len()) as u32,
                _ => self.add_name(
                    [dice.name(), format!("/{}", dice.below(5000)).into_bytes()].concat(),
                ),
            };
            let other = dice.below(self.names.len()) as u32;
            let size = dice.extreme();
            let state = match dice.below(7) {
                0 => State::Directory,
                1 => State::File { size, data: None },
                2 => State::File {
                    size,
                    data: Some(vec![(dice.extreme(), dice.extreme() % (1 << 14))]),
                },
                3 => State::File {
                    size: size % (1 << 14),
                    data: None,
                },
                4 => State::Link { to: dice.name() },
                5 => State::Link {
                    to: self.names[other as usize].clone(),
                },
                _ => State::Same { name: other },
            };
            self.initial.push(Initial { name, state });
        }
    }

    pub fn remove_everything(&mut self) {
        for name in (0..self.names.len() as u32).rev() {
            for kind in [
                CallKind::Unlink,
                CallKind::RemoveDirectory,
                CallKind::Rename,
            ] {
                self.calls.push(Call {
                    name,
                    ..Call::new(kind)
                });
            }
        }
    }

    pub fn make_many(&mut self, dice: &mut Dice) {
        let deep = dice.below(2) == 0;
        let mut path = Vec::new();
        for number in 0..[100, 300, 1900][dice.below(3)] {
            path = if deep {
                [&path[..], b"/d"].concat()
            } else {
                format!("/many{number}").into_bytes()
            };
            let name = self.add_name(path[1..].to_vec());
            self.calls.push(Call {
                name,
                length: 0o755,
                ..Call::new(CallKind::MakeDirectory)
            });
        }
    }

    /// Adds calls that write, grow, reserve and copy at offsets beyond any file.
    pub fn write_far(&mut self, dice: &mut Dice) {
        let name = self.add_name(b"far".to_vec());
        let handle = 1_000_000 + dice.below(1000) as u32;
        let open = Call {
            handle,
            name,
            flags: flags::READ | flags::WRITE | flags::CREATE,
            length: 0o644,
            ..Call::new(CallKind::Open)
        };
        self.calls.push(open);
        let kinds = [
            CallKind::WriteAt,
            CallKind::Truncate,
            CallKind::Allocate,
            CallKind::Seek,
            CallKind::Write,
            CallKind::ReadAt,
            CallKind::Copy,
        ];
        for _ in 0..dice.below(10) {
            let length = dice.extreme();
            // The replay allocates memory for the longest successful write.
            let length = if dice.below(8) > 0 {
                length % (1 << 20)
            } else {
                length
            };
            let kind = kinds[dice.below(kinds.len())];
            let result = if dice.below(2) == 0 { length as i64 } else { 0 };
            self.calls.push(Call {
                handle,
                other: handle,
                offset: dice.extreme(),
                length,
                result,
                ..Call::new(kind)
            });
        }
    }
}

/// Returns the call with one field changed.
pub fn changed(call: Call, names: usize, dice: &mut Dice) -> Call {
    let number = dice.next() as u32;
    match dice.below(10) {
        0 => Call {
            kind: ALL_KINDS[dice.below(ALL_KINDS.len())].kind,
            ..call
        },
        1 => Call {
            offset: dice.extreme(),
            ..call
        },
        2 => Call {
            length: dice.extreme(),
            ..call
        },
        // The replay allocates as much memory as the longest call moved.
        3 if dice.below(8) > 0 => Call {
            result: dice.extreme() as i64 % (1 << 16),
            ..call
        },
        3 => Call {
            result: dice.extreme() as i64,
            ..call
        },
        4 => Call {
            handle: [0, 1, number][dice.below(3)],
            ..call
        },
        5 => Call {
            other: [0, 1, number][dice.below(3)],
            ..call
        },
        6 => Call {
            flags: [number, 1 << dice.below(32)][dice.below(2)],
            ..call
        },
        7 => Call {
            lane: dice.below(2000) as u32,
            ..call
        },
        8 => Call {
            name: dice.below(names) as u32,
            ..call
        },
        _ => Call {
            second: dice.below(names) as u32,
            ..call
        },
    }
}

/// A target, and beside it a file that must not change.
pub struct Bench {
    pub scratch: tempfile::TempDir,
    pub program: tempfile::NamedTempFile,
}

impl Bench {
    pub fn new(scratch: tempfile::TempDir) -> Bench {
        let bench = Bench {
            scratch,
            program: public_copy(),
        };
        fs::set_permissions(bench.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["target", "outside", "user"] {
            fs::create_dir(bench.at(name)).unwrap();
            fs::set_permissions(bench.at(name), fs::Permissions::from_mode(0o777)).unwrap();
        }
        fs::write(bench.at("outside/kept"), "mine").unwrap();
        bench
    }

    pub fn path(&self) -> &Path {
        self.scratch.path()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn record(&self) -> Vec<Content> {
        let record = |(number, program): (usize, &&str)| {
            let work = self.at(&format!("work{number}"));
            fs::create_dir(&work).unwrap();
            fs::write(work.join("before"), vec![7; 10_000]).unwrap();
            succeeds(
                &work,
                &[
                    "record",
                    "-o",
                    "../a.trace",
                    "--overwrite",
                    "--",
                    "sh",
                    "-c",
                    program,
                ],
            );
            Content::read(&fs::read(self.at("a.trace")).unwrap())
        };
        let recorded = PROGRAMS.iter().enumerate().map(record).collect();
        (0..PROGRAMS.len())
            .for_each(|number| fs::remove_dir_all(self.at(&format!("work{number}"))).unwrap());
        recorded
    }

    /// Asserts that no file outside the target was written, and that the target is empty.
    pub fn expect_unharmed(&self) {
        let names = |path: &Path| {
            let mut names: Vec<_> = fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            names
        };
        assert_eq!(
            names(&self.at("target")),
            Vec::<std::ffi::OsString>::new(),
            "left in the target"
        );
        assert_eq!(names(&self.at("outside")), ["kept"]);
        let kept = fs::metadata(self.at("outside/kept")).unwrap();
        assert_eq!(
            (
                fs::read(self.at("outside/kept")).unwrap(),
                kept.mode() & 0o777
            ),
            (b"mine".to_vec(), 0o644)
        );
        assert!(names(self.path()).iter().all(|name| {
            ["a.trace", "outside", "target", "user"]
                .iter()
                .any(|known| name == known)
        }));
    }

    /// Performs a case with the engine alone. Returns whether it was replayed.
    pub fn perform(&self) -> bool {
        struct Open;
        impl Gate for Open {
            fn ready(&mut self, _: Ready) -> Result<(), EngineError> {
                Ok(())
            }
        }
        let mut spec = WorkloadSpec::new("replay", Default::default());
        spec.params.insert(
            "trace".to_owned(),
            self.at("a.trace").to_str().unwrap().into(),
        );
        spec.params.insert("pace".to_owned(), "none".into());
        let (root, (ended, ends)) = (self.at("target"), mpsc::channel());
        let steps = std::thread::spawn(move || {
            let sizing = Sizing {
                size: 64 << 20,
                cpus: 2,
            };
            let task = |step| Task::plain(step, spec.clone(), sizing, &root, 42, u64::MAX);
            let prepared = worker::perform(&task(Step::Prepare), &mut Open);
            let measured = prepared.and_then(|_| worker::perform(&task(Step::Measure), &mut Open));
            // The cleanup of a trace that cannot be read fails, too: no file was made.
            let cleaned = worker::perform(&task(Step::Cleanup), &mut Open);
            let _ = ended.send(());
            assert!(measured.is_err() || cleaned.is_ok(), "{cleaned:?}");
            measured.is_ok()
        });
        let hangs = matches!(
            ends.recv_timeout(HANGS),
            Err(mpsc::RecvTimeoutError::Timeout)
        );
        assert!(!hangs, "the replay does not end");
        steps
            .join()
            .unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }

    /// Performs a case in a whole run. Returns its exit code and its duration.
    pub fn run(&self, as_user: bool) -> (i32, Duration) {
        let mut command = Command::new(FSB);
        if as_user {
            command = Command::new("setpriv");
            command
                .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
                .arg(self.program.path());
        }
        let run = self.at(if as_user { "user/run" } else { "run" });
        let words = [
            "run",
            "./target",
            "--trace",
            "a.trace",
            "--force",
            "--budget",
            BUDGET,
            "--control",
            "guest-memory=off",
        ];
        command
            .args(words)
            .args(["-q", "--allow-concurrent", "--out"])
            .arg(&run)
            .current_dir(self.path());
        command
            .env("HOME", self.at("user"))
            .env_remove("SUDO_UID")
            .env_remove("SUDO_GID");
        let said = fs::File::create(self.at("run.said")).unwrap();
        let started = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .expect("the program starts");
        let mut coordinator = Running::from_child(child);
        let code = loop {
            if let Some(status) = coordinator.ended() {
                break status.code();
            }
            assert!(started.elapsed() < HANGS, "the run does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let took = started.elapsed();
        let said = fs::read_to_string(self.at("run.said")).unwrap();
        assert!(
            matches!(code, Some(0 | 2 | 3 | 4)) && !said.contains("panicked"),
            "{code:?}\n{said}"
        );
        for trial in trials(&run) {
            let error = trial["error"].as_str().unwrap_or_default();
            assert!(
                !error.contains("panicked") && !error.contains("the worker ended early"),
                "{error}"
            );
        }
        // A refused trace has no run.
        let _ = fs::remove_dir_all(&run);
        fs::remove_file(self.at("run.said")).unwrap();
        (code.unwrap_or_default(), took)
    }
}

// Recorded programs: the recorded calls.

pub fn record_program(directory: &Path, arguments: &[&str], program: &[&str]) -> Output {
    let all = [
        &["record", "-o", "../app.trace"],
        arguments,
        &["--"],
        program,
    ]
    .concat();
    fsb_json(directory, &all)
}

/// Returns the summary of the trace beside the directory.
pub fn summary(directory: &Path) -> Value {
    json(directory, "trace show --format json ../app.trace")
}

/// Returns the count of a call in a summary, 0 if the program never made it.
pub fn count(summary: &Value, call: &str) -> u64 {
    summary["kinds"][call]["calls"].as_u64().unwrap_or_default()
}

/// Returns how often activity of that kind is missing from the trace of a summary.
pub fn missing(summary: &Value, what: &str) -> Option<u64> {
    let gaps = summary["incomplete"].as_array().expect("a list");
    gaps.iter().find(|gap| gap["what"] == what)?["times"].as_u64()
}
