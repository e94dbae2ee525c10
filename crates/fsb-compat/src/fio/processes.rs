//! The processes of each job and the hosts that ran them: a sum over processes is wrong if one of
//! them did nothing.

use std::collections::{BTreeMap, HashMap};

use crate::draft::{Draft, Name};

/// One report of a job: of one process, or of all processes on a host with `group_reporting`.
pub(super) struct Process<'j> {
    pub line: u32,
    pub host: &'j str,
    /// The option `numjobs`, if the options are known.
    pub requested: Option<u64>,
    /// The operations that the process did or was requested to do, and whether each has a rate.
    pub operations: Vec<(&'static str, bool)>,
    pub has_error: bool,
}

/// The processes of each workload.
#[derive(Default)]
pub(super) struct Processes<'j> {
    workloads: Vec<(&'j str, Workload<'j>)>,
    index: HashMap<&'j str, usize>,
}

/// The processes of one workload.
#[derive(Default)]
struct Workload<'j> {
    /// The number of reports from each host.
    hosts: BTreeMap<&'j str, u64>,
    requested: Option<u64>,
    total: Share,
    operations: BTreeMap<&'static str, Share>,
}

/// The number of processes, and of those among them that did nothing.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    all: u64,
    idle: u64,
    /// The line of the first idle process.
    line: u32,
}

impl Share {
    fn add(&mut self, is_idle: bool, line: u32) {
        self.all += 1;
        if is_idle {
            self.line = if self.idle == 0 { line } else { self.line };
            self.idle += 1;
        }
    }

    /// Returns whether some processes did nothing while others worked.
    fn is_partial(self) -> bool {
        self.idle > 0 && self.idle < self.all
    }
}

impl<'j> Processes<'j> {
    /// Adds a process of a workload.
    pub fn add(&mut self, workload: &'j str, process: Process<'j>) {
        let at = *self.index.entry(workload).or_insert_with(|| {
            self.workloads.push((workload, Workload::default()));
            self.workloads.len() - 1
        });
        let known = &mut self.workloads[at].1;
        *known.hosts.entry(process.host).or_default() += 1;
        known.requested = known.requested.or(process.requested);
        // The error of a process is a failure of its own.
        let did_nothing =
            process.operations.iter().all(|(_, has_rate)| !has_rate) && !process.has_error;
        known.total.add(did_nothing, process.line);
        for (operation, has_rate) in process.operations {
            known
                .operations
                .entry(operation)
                .or_default()
                .add(!has_rate && !process.has_error, process.line);
        }
    }

    /// Records the number of processes and hosts of each workload, and its failures: a sum that
    /// lacks processes.
    pub fn keep(self, draft: &mut Draft) {
        for (workload, known) in self.workloads {
            known.keep(workload, draft);
        }
    }
}

impl Workload<'_> {
    fn keep(self, workload: &str, draft: &mut Draft) {
        let (reports, hosts) = (self.total.all, self.hosts.len() as u64);
        // fio does not print `group_reporting`. With it, each host prints one report of all its
        // processes.
        let is_grouped = reports == hosts;
        let requested = self.requested.map(|jobs| jobs.saturating_mul(hosts));
        draft.setting(
            Some(workload),
            "processes",
            requested.filter(|_| is_grouped).unwrap_or(reports),
        );
        if !self.hosts.contains_key("") {
            draft.setting(Some(workload), "hosts", hosts);
        }
        let line = (self.total.idle > 0).then_some(self.total.line);
        if self.total.is_partial() {
            let text = format!(
                "job '{workload}': {} of {reports} processes report no I/O",
                self.total.idle
            );
            draft.fail(line, Some(workload), text);
        } else {
            for (operation, share) in self
                .operations
                .into_iter()
                .filter(|(_, share)| share.is_partial())
            {
                let Share { all, idle, line } = share;
                let text = format!(
                    "job '{workload}', {operation}: {idle} of {all} processes have no rate"
                );
                draft.fail_operation(
                    line,
                    Name {
                        workload: Some(workload),
                        operation,
                    },
                    text,
                );
            }
        }
        if let Some(requested) = requested.filter(|requested| !is_grouped && *requested != reports)
        {
            let places = if hosts > 1 {
                format!(" on {hosts} hosts")
            } else {
                String::new()
            };
            let jobs = self.requested.unwrap_or_default();
            let text = format!(
                "job '{workload}': reports of {reports} processes, but numjobs={jobs}{places}"
            );
            match reports < requested {
                true => draft.fail(None, Some(workload), text),
                false => draft.remark(None, text),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::set::Run;

    use super::*;

    /// Returns the run of one workload from the host and the operations of each process.
    fn run(requested: Option<u64>, processes: &[(&'static str, &[(&'static str, bool)])]) -> Run {
        let mut all = Processes::default();
        for ((host, operations), line) in processes.iter().zip(1..) {
            let operations = operations.to_vec();
            all.add(
                "w",
                Process {
                    line,
                    host,
                    requested,
                    operations,
                    has_error: false,
                },
            );
        }
        let mut draft = Draft::new("fio");
        all.keep(&mut draft);
        draft.run
    }

    fn texts(run: &Run) -> (Vec<&str>, Vec<String>) {
        let remarks = run.warnings.iter().map(|remark| &*remark.text).collect();
        let place = |line: Option<u32>| line.map_or(String::new(), |line| format!("{line}: "));
        (
            remarks,
            run.failures
                .iter()
                .map(|one| format!("{}{}", place(one.line), one.text))
                .collect(),
        )
    }

    const WORKS: &[(&str, bool)] = &[("read", true), ("write", true)];

    #[test]
    fn an_idle_process_fails_its_workload() {
        let found = run(
            None,
            &[
                ("", WORKS),
                ("", &[]),
                ("", &[("read", false), ("write", false)]),
            ],
        );
        assert_eq!(
            texts(&found).1,
            ["2: job 'w': 2 of 3 processes report no I/O"]
        );
        assert_eq!(
            (
                found.failures[0].workload.as_deref(),
                &found.failures[0].operation
            ),
            (Some("w"), &None)
        );
        // All of them did nothing: the gaps say so.
        assert!(run(None, &[("", &[]), ("", &[])]).failures.is_empty());
    }

    #[test]
    fn an_operation_that_one_process_lacks_fails() {
        let found = run(
            None,
            &[("", WORKS), ("", &[("read", true), ("write", false)])],
        );
        assert_eq!(
            texts(&found).1,
            ["2: job 'w', write: 1 of 2 processes have no rate"]
        );
        assert_eq!(found.failures[0].operation.as_deref(), Some("write"));
    }

    #[test]
    fn the_numbers_of_processes_and_hosts_are_settings() {
        let settings = |run: &Run| -> Vec<String> {
            run.settings
                .iter()
                .map(|setting| format!("{} {}", setting.name, setting.value))
                .collect()
        };
        assert_eq!(settings(&run(Some(4), &[("", WORKS)])), ["processes 4"]);
        assert_eq!(
            settings(&run(None, &[("", WORKS), ("", WORKS)])),
            ["processes 2"]
        );
        assert_eq!(
            settings(&run(Some(4), &[("a", WORKS), ("b", WORKS)])),
            ["processes 8", "hosts 2"]
        );
    }

    #[test]
    fn fewer_processes_than_numjobs_fail_and_more_have_a_remark() {
        let three = [("", WORKS), ("", WORKS), ("", WORKS)];
        let text = |numjobs: u64| format!("job 'w': reports of 3 processes, but numjobs={numjobs}");
        assert_eq!(texts(&run(Some(4), &three)), (vec![], vec![text(4)]));
        assert_eq!(texts(&run(Some(1), &three)), (vec![&*text(1)], vec![]));
        assert_eq!(texts(&run(Some(3), &three)), (vec![], vec![]));
        let lost = run(Some(2), &[("a", WORKS), ("a", WORKS), ("b", WORKS)]);
        assert_eq!(
            texts(&lost).1,
            ["job 'w': reports of 3 processes, but numjobs=2 on 2 hosts"]
        );
    }
}
