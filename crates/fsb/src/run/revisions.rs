//! Revisions of a git repository as candidates of a bisection, and trees with their builds.
//!
//! Each tree is a clone of its own below the directory of the bisection, which shares the objects
//! of the repository. So nothing is written to the repository, and a killed bisection leaves
//! nothing in it. Under sudo, git and the build run as the invoking user.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fsb_model::{code, failure, notice, shell};
use fsb_report::bisection::Candidate;
use fsb_store::{input, owner};
use fsb_sys::{InvokingUser, poll_until, program, sandbox};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::exit::Signals;
use crate::message::notify;
use crate::output::make_directory;

/// The weight of a commit that touches a suspected path; that of others is 1.
const SUSPECTED: f64 = 10.0;
/// The directory of the trees, beside the runs.
const TREES: &str = "trees";
/// The directory of the outputs of builds.
const LOGS: &str = "builds";
/// The largest part of a build's output that is read for its last lines.
const LARGEST_LOG: u64 = 1 << 28;

/// Returns the repository that holds the current directory.
///
/// # Errors
///
/// There is none: with this advice.
pub fn repository(advice: &str) -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir()?;
    let top = git(&here, &["rev-parse", "--show-toplevel"]).map_err(|why| {
        let message = format!("{} is in no work tree of git: {why}", here.display());
        failure::advised(&code::NO_HISTORY, message, advice)
    })?;
    Ok(PathBuf::from(top))
}

/// Returns the place of the current directory in the repository.
pub fn place(repository: &Path) -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir()?;
    let place = here.strip_prefix(repository.canonicalize()?).ok();
    Ok(place.unwrap_or(Path::new("")).to_owned())
}

/// Returns the commits from `good` to `bad` along first parents, both included. Those that touch a
/// path of `suspects` weigh more.
pub fn candidates(
    repository: &Path,
    good: &str,
    bad: &str,
    suspects: &[String],
) -> anyhow::Result<Vec<Candidate>> {
    let first = commit(repository, "--good", good)?;
    let last = commit(repository, "--bad", bad)?;
    let range = format!("{first}..{last}");
    let listed = git(
        repository,
        &[
            "log",
            "--first-parent",
            "--reverse",
            "--format=%H %P%x09%s",
            &range,
        ],
    );
    let listed = listed.map_err(|why| failure::error(&code::NO_HISTORY, why))?;
    let mut lines = Vec::new();
    for line in listed.lines() {
        let (commits, subject) = line.split_once('\t').unwrap_or((line, ""));
        lines.push((commits.split(' ').collect::<Vec<_>>(), subject));
    }
    let is_line = match lines.first() {
        Some((commits, _)) => commits.get(1) == Some(&first.as_str()),
        None => false,
    };
    if !is_line {
        return Err(no_line(repository, [good, &first], [bad, &last]));
    }
    let suspected = suspected(repository, &range, suspects)?;
    let subject = git(repository, &["log", "-1", "--format=%s", &first]).ok();
    let mut candidates = vec![Candidate::new(first, subject)];
    for (commits, subject) in lines {
        let mut candidate = Candidate::new(commits[0], Some(subject.to_owned()));
        if suspected.iter().any(|known| known == commits[0]) {
            candidate.weight = SUSPECTED;
        }
        candidates.push(candidate);
    }
    Ok(candidates)
}

/// Returns a name and the commit of the present state of tracked files: that of HEAD, or a new one
/// that no branch has.
pub fn present(repository: &Path) -> anyhow::Result<(String, String)> {
    let head = commit(repository, "git", "HEAD")?;
    let changed = git(repository, &["stash", "create"]);
    match changed.map_err(|why| failure::error(&code::NO_HISTORY, why))? {
        none if none.is_empty() => Ok(("HEAD".to_owned(), head)),
        changed => Ok(("HEAD with changes".to_owned(), changed)),
    }
}

/// Returns the commit that a text of an option names.
pub fn commit(repository: &Path, option: &str, text: &str) -> anyhow::Result<String> {
    let revision = format!("{text}^{{commit}}");
    let arguments = ["rev-parse", "--verify", "--end-of-options", &revision];
    git(repository, &arguments).map_err(|why| {
        let message = format!("{option} {text}: {why}");
        failure::advised(&code::NO_HISTORY, message, "name a commit, tag or branch")
    })
}

/// Returns the error of ends that no line of first parents joins. Each end is its text and its
/// commit.
fn no_line(repository: &Path, good: [&str; 2], bad: [&str; 2]) -> anyhow::Error {
    let [good, first] = good;
    let [bad, last] = bad;
    let is_ancestor =
        |older, newer| git(repository, &["merge-base", "--is-ancestor", older, newer]).is_ok();
    if first == last {
        let message = format!("--good {good} and --bad {bad} are the same commit");
        return failure::error(&code::NO_HISTORY, message);
    }
    if is_ancestor(last, first) {
        return failure::advised(
            &code::NO_HISTORY,
            format!("--good {good} is newer than --bad {bad}"),
            "exchange them to find since when it is faster",
        );
    }
    let advice = match git(repository, &["merge-base", first, last]) {
        Ok(base) if base != first => format!("both have the ancestor {base}: name it as --good"),
        _ => "name a commit from which first parents lead to --bad".to_owned(),
    };
    let message = format!("--good {good} is not on the first-parent line of --bad {bad}");
    failure::advised(&code::NO_HISTORY, message, advice)
}

/// Returns the commits of a range that touch a path.
fn suspected(repository: &Path, range: &str, suspects: &[String]) -> anyhow::Result<Vec<String>> {
    let mut commits = Vec::new();
    for path in suspects {
        let pattern = format!(":(glob){path}");
        let arguments = ["rev-list", "--first-parent", range, "--", &pattern];
        let found = git(repository, &arguments).map_err(|why| {
            failure::error(&code::INVALID_VALUE, format!("--suspect {path}: {why}"))
        })?;
        if found.is_empty() {
            return Err(failure::advised(
                &code::INVALID_VALUE,
                format!("--suspect {path}: no commit between the ends touches it"),
                "name a path from the top of the repository, such as 'src/**'",
            ));
        }
        commits.extend(found.lines().map(str::to_owned));
    }
    Ok(commits)
}

/// Runs git and returns its output without the last line break, or what it complained of.
fn git(directory: &Path, arguments: &[impl AsRef<OsStr>]) -> Result<String, String> {
    let mut command = as_user("git");
    command.arg("-C").arg(directory).args(arguments);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(program::complaint(&output));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.trim_end_matches('\n').to_owned())
}

/// Variables that make git work on another repository than that of the directory, as `git rev-parse
/// --local-env-vars` of version 2.39 lists them. Git sets them for its hooks.
const OF_REPOSITORY: [&str; 16] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
];

/// Returns a command that runs as the invoking user.
fn as_user(program: &str) -> Command {
    let mut command = Command::new(program);
    for variable in OF_REPOSITORY {
        command.env_remove(variable);
    }
    if let Some(user) = InvokingUser::current() {
        user.run(&mut command);
    }
    command
}

/// Returns the path that the tree of a revision has or will have in a directory.
pub fn tree_path(directory: &Path, revision: &str) -> anyhow::Result<PathBuf> {
    Ok(owner::absolute(directory)?.join(TREES).join(revision))
}

/// Trees of revisions.
#[derive(Debug)]
pub struct Trees<'a> {
    /// The directory that holds them: that of the bisection.
    pub directory: &'a Path,
    pub repository: &'a Path,
    /// The command that builds a tree.
    pub build: Option<&'a str>,
    pub signals: &'a Signals,
}

impl Trees<'_> {
    /// Returns the path of the tree of a revision.
    pub fn path(&self, revision: &str) -> anyhow::Result<PathBuf> {
        tree_path(self.directory, revision)
    }

    /// Makes and builds the tree of a revision anew. Returns the reason if it does not build.
    pub fn make(&self, revision: &str) -> anyhow::Result<Result<(), String>> {
        let path = self.path(revision)?;
        remove(&path)?;
        for name in [TREES, LOGS] {
            make_directory(&self.directory.join(name))?;
        }
        let failed = |why| {
            let message = format!("cannot check {revision} out to {}: {why}", path.display());
            failure::error(&code::OUTPUT_FAILED, message)
        };
        let shown = path.display().to_string();
        if shell::word(&shown) != shown {
            return Err(failed(
                "a shell would split this path: name another --out".to_owned(),
            ));
        }
        self.share(&path).map_err(failed)?;
        git(&path, &["checkout", "--quiet", "--detach", revision]).map_err(failed)?;
        self.check_out_submodules(&path, Path::new(""));
        match self.build {
            Some(build) => self.build(build, revision, &path),
            None => Ok(Ok(())),
        }
    }

    /// Makes an empty tree that shares the objects of the repository and has its tags. A clone of a
    /// shallow repository would have its branches alone.
    fn share(&self, path: &Path) -> Result<(), String> {
        let [from, to] = [self.repository, path].map(Path::as_os_str);
        git(
            Path::new("/"),
            &["init".as_ref(), "--quiet".as_ref(), "--".as_ref(), to],
        )?;
        let of_git = |name: &str| {
            let found = git(self.repository, &["rev-parse", "--git-path", name])?;
            Ok::<_, String>(self.repository.join(found))
        };
        let (objects, shallow) = (of_git("objects")?, of_git("shallow")?);
        let written = owner::result_owner().act(|| {
            let alternates = path.join(".git/objects/info/alternates");
            std::fs::write(alternates, format!("{}\n", objects.display()))?;
            if shallow.exists() {
                std::fs::copy(&shallow, path.join(".git/shallow"))?;
            }
            Ok(())
        });
        let written = written.and_then(|written: io::Result<()>| written);
        written.map_err(|error| error.to_string())?;
        let tags = ["fetch", "--quiet", "--no-tags", "--"].map(OsStr::new);
        git(
            path,
            &[&tags[..], &[from, "refs/tags/*:refs/tags/*".as_ref()]].concat(),
        )?;
        Ok(())
    }

    /// Checks the submodules of a tree out that the repository has copies of, and theirs. Prints
    /// those that are not. `modules` is the place of the tree among these copies.
    fn check_out_submodules(&self, tree: &Path, modules: &Path) {
        let arguments = [
            "config",
            "-z",
            "--file",
            ".gitmodules",
            "--get-regexp",
            "^submodule\\..*\\.path$",
        ];
        for entry in git(tree, &arguments).unwrap_or_default().split('\0') {
            let Some((key, path)) = entry.split_once('\n') else {
                continue;
            };
            let name = key.strip_prefix("submodule.").unwrap_or(key);
            let name = name.strip_suffix(".path").unwrap_or(name);
            let modules = modules.join("modules").join(name);
            match self.check_out_submodule(tree, (name, path), &modules) {
                Ok(()) => self.check_out_submodules(&tree.join(path), &modules),
                Err(why) => {
                    let shown = tree.join(path).display().to_string();
                    let text = format!(
                        "warning: the submodule {shown} is not checked out: {why}; fetch it in the repository, or \
                         with --build"
                    );
                    notify(&notice::NO_SUBMODULE, [("path", shown.into())], &text);
                }
            }
        }
    }

    /// Checks a submodule out from the copy of the repository, without a network.
    fn check_out_submodule(
        &self,
        tree: &Path,
        (name, path): (&str, &str),
        modules: &Path,
    ) -> Result<(), String> {
        // A linked worktree has copies of its own.
        let of_git = git(
            self.repository,
            &["rev-parse", "--git-dir", "--git-common-dir"],
        )?;
        let mut copies = of_git
            .lines()
            .map(|place| self.repository.join(place).join(modules));
        let copy = copies
            .find(|copy| matches!(owner::looking(|| copy.is_dir()), Ok(true)))
            .ok_or("the repository has no copy of it")?;
        let url = format!("submodule.{name}.url");
        git(tree, &["config", &url, &copy.display().to_string()])?;
        let update = [
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "update",
            "--init",
            "--",
            path,
        ];
        git(tree, &update).map(drop)
    }

    /// Builds a tree. Returns the last lines of the output if the command fails.
    fn build(
        &self,
        build: &str,
        revision: &str,
        path: &Path,
    ) -> anyhow::Result<Result<(), String>> {
        let log = self.directory.join(LOGS).join(format!("{revision}.log"));
        owner::replace(&log, b"")?;
        let output = owner::append(&log)?;
        let mut command = as_user("sh");
        command.args(["-c", build]).current_dir(path);
        command.stdin(Stdio::null()).stderr(output.try_clone()?);
        sandbox::end_with_parent(&mut command);
        // Ctrl-C is for fsb, which then ends all processes of the build.
        let mut child = command.stdout(output).process_group(0).spawn()?;
        let status = self.wait(&mut child)?;
        if status.success() {
            return Ok(Ok(()));
        }
        let text = input::read(&log, LARGEST_LOG).unwrap_or_default();
        let lines = program::last_lines(&text);
        let reason = format!(
            "its build ended with {status}: {lines}; see {}",
            log.display()
        );
        Ok(Err(reason))
    }

    /// Waits for the end of a build. A signal ends its processes.
    fn wait(&self, child: &mut Child) -> anyhow::Result<std::process::ExitStatus> {
        const FOREVER: Duration = Duration::MAX;
        let mut ended = Ok(None);
        poll_until(FOREVER, || {
            ended = child.try_wait();
            !matches!(ended, Ok(None)) || self.signals.is_interrupted()
        });
        if let Some(status) = ended? {
            return Ok(status);
        }
        if let Some(group) = Pid::from_raw(child.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        Ok(child.wait()?)
    }

    /// Removes all trees.
    pub fn remove_all(&self) -> anyhow::Result<()> {
        remove(&self.directory.join(TREES))
    }
}

/// Removes a tree with the rights of the user that made it.
pub fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = owner::result_owner().act(|| std::fs::remove_dir_all(path))?;
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let message = format!("cannot remove {}: {error}", path.display());
            Err(failure::failed_call(&code::OUTPUT_FAILED, &error, message))
        }
        _ => Ok(()),
    }
}
