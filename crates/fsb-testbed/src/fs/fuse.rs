//! FUSE servers under test: known ones by name, and any other by its command.
//!
//! A server gets a directory of a file system of its own (`{dir}`) or the block device itself
//! (`{dev}`), and a mount point. It runs as root in the foreground or as a daemon, in a mount
//! namespace of its own. It is ended with each unmount, because a target is cold only if the server
//! forgets what it cached.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fsb_model::target::{DEVICE, DIRECTORY, FUSE, GROUP, MOUNT_POINT, USER};
use fsb_model::{FileSystemSpec, Geometry};
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::mount::unmount_patiently;
use fsb_sys::{Roots, mount_isolation, mountinfo, program};

use super::file_system::{
    Beneath, DeviceSize, FileSystem, Idle, Inspection, Journal, MountRequest, Mounted, Tools, Tune,
    version_in,
};
use super::kernel_compatibility::Version;
use super::option_table::OptionTable;
use super::over::{self, OVER};
use super::server_process::{PATIENCE, ServerProcess};
use crate::declared::{DeclaredOption, key};

/// A FUSE server.
#[derive(Debug)]
struct Server {
    /// The name in targets.
    name: &'static str,
    about: &'static str,
    /// The Debian package of the program, the first word of the command.
    package: &'static str,
    /// Further programs that it starts, with their Debian packages.
    helpers: &'static [(&'static str, &'static str)],
    /// Prepares the directory or the device before the server is first started. May be empty.
    init: &'static [&'static str],
    /// Starts the server.
    command: &'static [&'static str],
    /// Whether the server's options follow the command as `-o OPTION,…`.
    takes_options: bool,
    note: Option<&'static str>,
}

/// A FUSE server on a device, or over a directory of another file system.
pub(super) struct Fuse {
    server: &'static Server,
    /// The file system of the device. `None` if the server gets a device without one.
    beneath: Option<Beneath>,
}

static BINDFS_SERVER: Server = Server {
    name: "bindfs",
    about: "A directory mounted at a second place through FUSE.",
    package: "bindfs",
    helpers: &[],
    init: &[],
    command: &["bindfs", "-f", "-o", "allow_other", DIRECTORY, MOUNT_POINT],
    takes_options: true,
    note: None,
};

/// Without `minfreespace=0` it refuses to create files on less than 4 GiB of free space.
static MERGERFS_SERVER: Server = Server {
    name: "mergerfs",
    about: "A union of directories through FUSE; here of one directory.",
    package: "mergerfs",
    helpers: &[],
    init: &[],
    command: &[
        "mergerfs",
        "-f",
        "-o",
        "allow_other,minfreespace=0",
        DIRECTORY,
        MOUNT_POINT,
    ],
    takes_options: true,
    note: None,
};

/// `-scryptn 10`: the cost of a password does not matter here, and the usual one takes a second at
/// each mount.
static GOCRYPTFS_SERVER: Server = Server {
    name: "gocryptfs",
    about: "Files encrypted one by one through FUSE.",
    package: "gocryptfs",
    helpers: &[("fusermount3", "fuse3"), ("echo", "coreutils")],
    init: &[
        "gocryptfs",
        "-init",
        "-q",
        "-scryptn",
        "10",
        "-extpass",
        "echo fsb",
        DIRECTORY,
    ],
    command: &[
        "gocryptfs",
        "-fg",
        "-q",
        "-allow_other",
        "-extpass",
        "echo fsb",
        DIRECTORY,
        MOUNT_POINT,
    ],
    takes_options: true,
    note: None,
};

/// The program at the other end of SFTP.
const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";

/// The SFTP server is a child of the client, so no network and no encryption takes part.
static SSHFS_SERVER: Server = Server {
    name: "sshfs",
    about: "A directory through SFTP and FUSE; here without ssh between client and server.",
    package: "sshfs",
    helpers: &[("sh", "dash"), (SFTP_SERVER, "openssh-sftp-server")],
    init: &[],
    command: &[
        "sshfs",
        "-f",
        "-o",
        "allow_other",
        "-o",
        "ssh_command=sh -c /usr/lib/openssh/sftp-server",
        "fsb:{dir}",
        MOUNT_POINT,
    ],
    takes_options: true,
    note: Some(
        "client and SFTP server are connected by a pipe: without the network and the encryption of ssh",
    ),
};

static FUSE_OVERLAYFS_SERVER: Server = Server {
    name: "fuse-overlayfs",
    about: "An overlay of directories through FUSE, as rootless containers use it; here above an empty one.",
    package: "fuse-overlayfs",
    helpers: &[],
    init: &["mkdir", "{dir}/lower", "{dir}/upper", "{dir}/work"],
    command: &[
        "fuse-overlayfs",
        "-f",
        "-o",
        "allow_other,lowerdir={dir}/lower,upperdir={dir}/upper,workdir={dir}/work",
        MOUNT_POINT,
    ],
    takes_options: true,
    note: None,
};

/// Without `--vfs-cache-mode writes` it cannot change existing files. Its cache is on the target,
/// too.
static RCLONE_SERVER: Server = Server {
    name: "rclone",
    about: "A directory through rclone mount, with its cache of writes.",
    package: "rclone",
    helpers: &[("fusermount3", "fuse3")],
    init: &["mkdir", "{dir}/files", "{dir}/cache"],
    command: &[
        "rclone",
        "mount",
        "--allow-other",
        "--uid",
        USER,
        "--gid",
        GROUP,
        "--config",
        "/dev/null",
        "--vfs-cache-mode",
        "writes",
        "--cache-dir",
        "{dir}/cache",
        "{dir}/files",
        MOUNT_POINT,
    ],
    takes_options: false,
    note: Some(
        "writes go to rclone's cache on the same file system first, and to the files five seconds later",
    ),
};

static FUSE2FS_SERVER: Server = Server {
    name: "fuse2fs",
    about: "ext4, or with over= ext2 or ext3, by a program instead of the kernel.",
    package: "fuse2fs",
    helpers: &[],
    init: &[],
    command: &["fuse2fs", "-f", "-o", "allow_other", DEVICE, MOUNT_POINT],
    takes_options: true,
    note: None,
};

/// The member whose server the target names.
static COMMAND_SERVER: Server = Server {
    name: FUSE,
    about: "Any FUSE server by its command: fuse:'./myfs {dir} {mnt}' or fuse:'./myfs {dev} {mnt}'.",
    package: "",
    helpers: &[],
    init: &[],
    command: &[],
    takes_options: false,
    note: None,
};

pub(super) static BINDFS: Fuse = Fuse::known(&BINDFS_SERVER);
pub(super) static MERGERFS: Fuse = Fuse::known(&MERGERFS_SERVER);
pub(super) static GOCRYPTFS: Fuse = Fuse::known(&GOCRYPTFS_SERVER);
pub(super) static SSHFS: Fuse = Fuse::known(&SSHFS_SERVER);
pub(super) static FUSE_OVERLAYFS: Fuse = Fuse::known(&FUSE_OVERLAYFS_SERVER);
pub(super) static RCLONE: Fuse = Fuse::known(&RCLONE_SERVER);
pub(super) static FUSE2FS: Fuse = Fuse::known(&FUSE2FS_SERVER);
pub(super) static COMMAND: Fuse = Fuse {
    server: &COMMAND_SERVER,
    beneath: None,
};

impl Fuse {
    const fn known(server: &'static Server) -> Fuse {
        Fuse {
            server,
            beneath: Some(over::USUAL),
        }
    }

    fn has(&self, placeholder: &str) -> bool {
        let mut words = self.server.command.iter();
        words.any(|word| word.contains(placeholder))
    }

    /// Returns whether it serves a directory of the file system beneath, which is mounted then.
    fn serves_directory(&self) -> bool {
        self.has(DIRECTORY)
    }

    /// Makes the member for the server and the file system beneath that a target names.
    fn make(&self, spec: &FileSystemSpec) -> Result<Fuse, TestbedError> {
        let mut server = self.server;
        if !spec.server.is_empty() {
            let leaked = |words: &[String]| -> &'static [&'static str] {
                let mut words = words.to_vec();
                if let Some(program) = words.first_mut() {
                    *program = absolute(program);
                }
                let words: Vec<&'static str> =
                    words.into_iter().map(|word| &*word.leak()).collect();
                words.leak()
            };
            server = Box::leak(Box::new(Server {
                init: leaked(&spec.init),
                command: leaked(&spec.server),
                ..COMMAND_SERVER
            }));
        }
        let made = Fuse {
            server,
            beneath: None,
        };
        let needs_one = made.serves_directory() || self.beneath.is_some();
        let named = Beneath::from_options(&spec.options)?;
        Ok(Fuse {
            beneath: named.or(self.beneath).or(needs_one.then_some(over::USUAL)),
            ..made
        })
    }

    /// Returns the words of a command with the values of its placeholders.
    fn filled(words: &[&str], request: &MountRequest<'_>, directory: Option<&Path>) -> Vec<String> {
        let directory = directory.map_or(String::new(), |path| path.display().to_string());
        let (uid, gid) = request.owner;
        words
            .iter()
            .map(|word| {
                word.replace(DIRECTORY, &directory)
                    .replace(DEVICE, &request.source.display().to_string())
                    .replace(MOUNT_POINT, &request.point.display().to_string())
                    .replace(USER, &uid.to_string())
                    .replace(GROUP, &gid.to_string())
            })
            .collect()
    }

    /// Returns the command that starts the server with the options of the target.
    fn start_command(&self, request: &MountRequest<'_>, directory: Option<&Path>) -> Vec<String> {
        let mut words = Fuse::filled(self.server.command, request, directory);
        self.add_options(&mut words, request.options);
        words
    }

    /// Adds the options of the target that belong to the server to its command.
    fn add_options(&self, words: &mut Vec<String>, options: &[String]) {
        let discard_off = self.discard_off();
        let own: Vec<&str> = options
            .iter()
            .filter(|option| key(option) != OVER && Some(option.as_str()) != discard_off)
            .map(String::as_str)
            .collect();
        if self.server.takes_options && !own.is_empty() {
            // Before the first operand: not every program takes options after it.
            words.splice(1..1, ["-o".to_owned(), own.join(",")]);
        }
    }

    fn refused(&self, what: &str) -> TestbedError {
        TestbedError::request(format!("{}: {what}", self.name()))
            .coded(&fsb_model::error::UNKNOWN_OPTION)
    }

    /// Refuses a command of the user whose placeholders or options cannot be served.
    fn check_command(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        let count = |words: &[String], placeholder: &str| {
            words
                .iter()
                .filter(|word| word.contains(placeholder))
                .count()
        };
        let has = |placeholder| count(&spec.server, placeholder) > 0;
        if !has(MOUNT_POINT) || has(DIRECTORY) == has(DEVICE) {
            return Err(self
                .refused("its command needs {mnt}, and either {dir} or {dev}")
                .tried(format!("the command is '{}'", spec.server.join(" ")))
                .advice("write fuse:'./myfs {dir} {mnt}' for a server over a directory, fuse:'./myfs {dev} {mnt}' for one on a block device"));
        }
        if count(&spec.init, MOUNT_POINT) > 0 || count(&spec.init, DIRECTORY) > 0 && has(DEVICE) {
            return Err(self
                .refused("its init= runs before it is mounted")
                .tried(format!("the command is '{}'", spec.init.join(" ")))
                .advice("use only the placeholder {dir} or {dev} that the server has"));
        }
        if let Some(option) = spec.options.iter().find(|option| key(option) != OVER) {
            return Err(self
                .refused(&format!("'{option}' is no option of fsb"))
                .field("option", option.as_str())
                .advice("write options of the server into its command, in double quotes if they hold commas after {mnt}; those of the file system beneath into over=\"ext4,OPTION\""));
        }
        if self.beneath.is_none() && !spec.mkfs.is_empty() {
            return Err(self
                .refused("no mkfs program takes these arguments")
                .coded(&fsb_model::error::NO_MKFS)
                .advice("name the whole command as init=\"COMMAND {dev}\", or a file system as over=ext4"));
        }
        Ok(())
    }

    /// Returns the version that a known server prints. Programs that the user named are not asked.
    fn version(&self) -> Option<String> {
        let name = self
            .server
            .command
            .first()
            .filter(|_| !self.server.package.is_empty())?;
        let output = program::run(&program::find(name)?, &["--version"]).ok()?;
        let text = [output.stdout, output.stderr].concat();
        version_of(name, &String::from_utf8_lossy(&text)).map(str::to_owned)
    }

    /// Starts the server and waits until its files can be reached.
    fn serve(
        &self,
        request: &MountRequest<'_>,
        directory: Option<&Path>,
    ) -> Result<ServerProcess, TestbedError> {
        let words = self.start_command(request, directory);
        let path = require_server(&words[0], self.server.package)?;
        let mut command = Command::new(&path);
        command.args(&words[1..]);
        let root = request.point.parent().unwrap_or(Path::new("/"));
        mount_isolation::start_apart(&mut command, root)
            .map_err(|error| TestbedError::machine(attempt("cannot execute", &path, &error)))?;
        let mut server = ServerProcess::start_apart(&mut command)?;
        let served = server
            .wait_until(|| mountinfo::at(request.point).is_some_and(|mount| is_fuse(&mount.kind)))
            .and_then(|()| {
                let kept: Vec<PathBuf> = [request.point.to_owned()]
                    .into_iter()
                    .chain(directory.map(Path::to_owned))
                    .collect();
                server
                    .namespace()
                    .and_then(|namespace| {
                        mount_isolation::let_go(&namespace, root, request.point, &kept)
                    })
                    .map_err(|error| attempt("separate the server of", request.point, &error))
            })
            .and_then(|()| match answers(request.point) {
                true => Ok(()),
                false => Err(format!("it did not answer for {} s", PATIENCE.as_secs()).into()),
            });
        let Err(why) = served else {
            return Ok(server);
        };
        let complaint = server.complaint();
        // A server that does not answer would not end by itself.
        server.end(Duration::ZERO);
        let _ = mount_isolation::keep_private(root);
        let _ = unmount_patiently(request.point, PATIENCE);
        let separator = if complaint.is_empty() { "" } else { ": " };
        Err(TestbedError::trial(format!("the server {} does not serve", words[0]))
            .tried(format!("{}: {why}{separator}{complaint}", words.join(" ")))
            .advice(
                "run the command by hand: it must mount a file system at its last argument and go on serving it",
            ))
    }
}

/// Returns the absolute path of a program that the user named by a path, which is relative to the
/// directory in which fsb was started. Other names stay.
fn absolute(program: &str) -> String {
    match std::path::absolute(program) {
        Ok(path) if program.contains('/') => path.to_string_lossy().into_owned(),
        _ => program.to_owned(),
    }
}

/// Finds the program of a server. Without a package, the user named the program.
///
/// # Errors
///
/// Fails if it is missing or cannot be executed.
pub(crate) fn require_server(name: &str, package: &str) -> Result<PathBuf, TestbedError> {
    if !package.is_empty() {
        return program::require(name, package);
    }
    program::find(name).ok_or_else(|| {
        TestbedError::machine(format!("the program {name} cannot be executed"))
            .coded(&fsb_model::error::TOOL_MISSING)
            .field("program", name)
            .tried(if name.contains('/') {
                "no executable file is there"
            } else {
                "looked on PATH"
            })
            .advice("name an executable file, such as fuse:'./myfs {dir} {mnt}'")
    })
}

/// Returns the line with the version of the program `name`. Other lines may have that of a library.
fn version_of<'t>(name: &str, text: &'t str) -> Option<&'t str> {
    let own = text
        .lines()
        .find(|line| line.to_lowercase().starts_with(name))
        .and_then(version_in);
    own.or_else(|| version_in(text))
}

/// Returns whether the name of a driver in mountinfo is that of FUSE.
fn is_fuse(kind: &str) -> bool {
    kind == "fuse" || kind == "fuseblk" || kind.starts_with("fuse.")
}

/// Returns whether the server of the file system at `point` answers within the limit. A server that
/// does not leaves a thread waiting until its connection ends.
fn answers(point: &Path) -> bool {
    let (sender, receiver) = mpsc::channel();
    let point = point.to_owned();
    std::thread::spawn(move || {
        let _ = sender.send(std::fs::metadata(point).is_ok());
    });
    receiver.recv_timeout(PATIENCE).is_ok()
}

impl FileSystem for Fuse {
    fn name(&self) -> &'static str {
        self.server.name
    }

    fn about(&self) -> &'static str {
        self.server.about
    }

    fn example(&self) -> &'static str {
        match self.server.name {
            FUSE => "fuse:bindfs -o allow_other {dir} {mnt}",
            name => name,
        }
    }

    fn variant(&self, spec: &FileSystemSpec) -> Option<&'static dyn FileSystem> {
        static MADE: Mutex<BTreeMap<String, &'static Fuse>> = Mutex::new(BTreeMap::new());
        let text = spec.to_string();
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(&text) {
            return Some(*known);
        }
        // [`FileSystem::check`] reports the error.
        let member: &'static Fuse = Box::leak(Box::new(self.make(spec).ok()?));
        made.insert(text, member);
        Some(member)
    }

    fn beneath(&self) -> Option<&Beneath> {
        self.beneath.as_ref()
    }

    fn tools(&self) -> Option<&'static Tools> {
        self.beneath?.member.tools()
    }

    fn server_program(&self) -> Option<(&'static str, &'static str)> {
        Some((self.server.command.first()?, self.server.package))
    }

    fn server_helpers(&self) -> &'static [(&'static str, &'static str)] {
        self.server.helpers
    }

    fn server_version(&self) -> Option<String> {
        self.version()
    }

    fn by_hand(&self, options: &[String]) -> Vec<Vec<String>> {
        let owned = |words: &[&str]| -> Vec<String> {
            words.iter().map(|word| (*word).to_owned()).collect()
        };
        let beneath = self.beneath.filter(|_| self.serves_directory());
        let beneath = beneath.map(|beneath| {
            let mut mount = beneath.member.mount_command(beneath.options, 0);
            mount.extend([DEVICE, DIRECTORY].map(str::to_owned));
            mount
        });
        let init = Some(owned(self.server.init)).filter(|words| !words.is_empty());
        let mut serve = owned(self.server.command);
        self.add_options(&mut serve, options);
        beneath.into_iter().chain(init).chain([serve]).collect()
    }

    fn driver(&self) -> Option<&'static str> {
        Some("fuse")
    }

    fn modules(&self) -> &'static [&'static str] {
        &["fuse"]
    }

    fn modules_of_options(&self, _: &[String]) -> Vec<&'static str> {
        self.beneath
            .map_or_else(Vec::new, |beneath| beneath.member.modules().to_vec())
    }

    fn helper_modules(&self) -> &'static [&'static str] {
        self.beneath
            .map_or(&[], |beneath| beneath.member.helper_modules())
    }

    fn mkfs_for(&self, user: &[String], oldest: Version, program: Option<Version>) -> Vec<String> {
        self.beneath.map_or_else(
            || user.to_vec(),
            |beneath| beneath.member.mkfs_for(user, oldest, program),
        )
    }

    fn fit(&self, large: &Geometry, bytes: u64, user: &[String]) -> Vec<String> {
        self.beneath
            .map_or_else(Vec::new, |beneath| beneath.member.fit(large, bytes, user))
    }

    fn tune(&self) -> Option<&'static Tune> {
        self.beneath?.member.tune()
    }

    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    fn device_size(&self) -> Option<&'static DeviceSize> {
        self.beneath?.member.device_size()
    }

    fn note(&self) -> Option<&'static str> {
        self.server.note
    }

    fn minimum_size(&self) -> u64 {
        /// Bytes of a device without a file system that are written over.
        const LEAST: u64 = 1 << 20;
        self.beneath
            .map_or(LEAST, |beneath| beneath.member.minimum_size())
    }

    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        Beneath::from_options(&spec.options)?;
        if spec.fs != FUSE {
            if let (false, Some(option)) = (
                self.server.takes_options,
                spec.options.iter().find(|option| key(option) != OVER),
            ) {
                return Err(self
                    .refused(&format!("fsb passes it no option such as '{option}'"))
                    .field("option", option.as_str())
                    .advice("write its command yourself: 'fsb list file-systems fuse' shows how"));
            }
            return Ok(());
        }
        self.check_command(spec)
    }

    fn discard_off(&self) -> Option<&'static str> {
        self.beneath
            .filter(|_| self.serves_directory())?
            .member
            .discard_off()
    }

    fn inspect(&self, device: &Path) -> Inspection {
        self.beneath.map_or_else(Inspection::default, |beneath| {
            beneath.member.inspect(device)
        })
    }

    /// Runs the command that prepares the directory or the device. A device without a file system
    /// begins with zeros, so that no block finds the files of an earlier one.
    fn prepare(&self, request: &MountRequest<'_>) -> Result<(), TestbedError> {
        if self.beneath.is_none() {
            let zeros = vec![0; 1 << 20];
            File::options()
                .write(true)
                .open(request.source)
                .and_then(|device| {
                    device.write_all_at(&zeros, 0)?;
                    device.sync_all()
                })
                .map_err(|error| {
                    TestbedError::trial("the device of a server could not be written over")
                        .tried(attempt("write to", request.source, &error))
                })?;
        }
        if self.server.init.is_empty() {
            return Ok(());
        }
        let beneath = match (self.serves_directory(), &self.beneath) {
            (true, Some(beneath)) => Some(beneath.mount(request)?),
            _ => None,
        };
        let directory = beneath.as_ref().map(|(_, directory)| directory.as_path());
        let words = Fuse::filled(self.server.init, request, directory);
        let ran = require_server(&words[0], self.server.package).and_then(|path| {
            let output =
                program::run_alone(&path, &words[1..], directory.unwrap_or(request.source))?;
            match output.status.success() {
                true => Ok(()),
                false => Err(TestbedError::trial(format!(
                    "{} failed ({})",
                    words[0], output.status
                ))
                .tried(format!(
                    "{}: {}",
                    words.join(" "),
                    program::last_lines(&[output.stdout, output.stderr].concat())
                ))),
            }
        });
        let unmounted = beneath.map_or(Ok(None), |(point, _)| over::unmount(&point));
        ran.and(unmounted.map(drop))
    }

    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        let beneath = match (self.serves_directory(), &self.beneath) {
            (true, Some(beneath)) => Some(beneath.mount(request)?),
            _ => None,
        };
        let directory = beneath.as_ref().map(|(_, directory)| directory.as_path());
        let point_beneath = beneath.as_ref().map(|(point, _)| point.clone());
        let mounted = Mounted {
            beneath: point_beneath,
            ..Mounted::default()
        };
        let served =
            self.serve(request, directory)
                .and_then(|server| match reaches_users(request) {
                    Ok(()) => Ok(server),
                    Err(error) => {
                        let _ = unmount_patiently(request.point, PATIENCE);
                        let mut server = server;
                        server.end(PATIENCE);
                        Err(error)
                    }
                });
        match served {
            Ok(server) => Ok(Mounted {
                server: Some(server),
                ..mounted
            }),
            Err(error) => {
                // The first error is the one that explains.
                let _ = mounted.beneath.map(|point| over::unmount(&point));
                Err(error)
            }
        }
    }

    /// Writes out the file system beneath, which a syncfs of the FUSE mount does not reach, or the
    /// block device, whose own pages a server writes through.
    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        let (path, beneath) = match &self.beneath {
            Some(beneath) if self.serves_directory() => {
                (over::point_beneath(idle.point), Some(beneath))
            }
            _ => (idle.source.to_owned(), None),
        };
        File::open(&path)
            .and_then(|file| match beneath {
                Some(_) => Ok(rustix::fs::syncfs(&file)?),
                None => file.sync_all(),
            })
            .map_err(|error| {
                TestbedError::trial("the target could not be written out")
                    .tried(attempt("sync", &path, &error))
            })?;
        beneath.map_or(Ok(()), |beneath| {
            beneath.member.finish_background_work(&Idle {
                point: &path,
                source: idle.source,
            })
        })
    }

    fn journal(&self, device: &Path, name: &str, roots: &Roots) -> Option<Journal> {
        self.beneath?.member.journal(device, name, roots)
    }

    fn served_by(&self, _: &Path) -> Option<String> {
        let program = self.server.command.first()?;
        let over = match &self.beneath {
            Some(beneath) if self.serves_directory() => format!(" over {}", beneath.member.name()),
            _ => String::new(),
        };
        Some(format!("{program} (FUSE){over}"))
    }
}

/// Fails if the worker's user cannot reach the files of a new mount.
fn reaches_users(request: &MountRequest<'_>) -> Result<(), TestbedError> {
    let mount = mountinfo::at(request.point);
    let options = mount.map(|mount| mount.super_options).unwrap_or_default();
    let user = format!("user_id={}", request.owner.0);
    if options
        .iter()
        .any(|option| *option == "allow_other" || *option == user)
    {
        return Ok(());
    }
    Err(
        TestbedError::trial("only root can reach the files of the server")
            .tried(format!("it mounted with {}", options.join(",")))
            .advice(
                "add -o allow_other to its command, or run the workload as root: --force-root-user",
            ),
    )
}

static OPTIONS: OptionTable = OptionTable::new(include_str!("fuse.options"));

#[cfg(test)]
mod tests {
    use super::super::{check, of_target, target_beneath};
    use super::*;

    fn spec(text: &str) -> FileSystemSpec {
        let target: fsb_model::Target = text.parse().unwrap();
        target.file_system().unwrap().clone()
    }

    fn refusal(text: &str) -> String {
        let spec = spec(text);
        let member = of_target(&spec).unwrap();
        let error = super::super::check(member, &spec).unwrap_err();
        assert_eq!(error.kind, crate::Kind::Request, "{text}");
        error.to_string()
    }

    #[test]
    fn a_command_gets_either_a_directory_or_a_device() {
        for text in [
            "fuse:./myfs {dir}",
            "fuse:./myfs {mnt}",
            "fuse:./myfs {dir} {dev} {mnt}",
        ] {
            assert!(refusal(text).contains("either {dir} or {dev}"), "{text}");
        }
        let text = refusal("fuse:./myfs {dir} {mnt},noatime");
        assert!(text.contains("'noatime' is no option of fsb"), "{text}");
        let text = refusal(r#"fuse:./myfs {dev} {mnt},mkfs="-x""#);
        assert!(text.contains("no mkfs program"), "{text}");
        let text = refusal(r#"fuse:./myfs {dev} {mnt},init="./mkmyfs {mnt}""#);
        assert!(text.contains("init= runs before"), "{text}");
        assert!(refusal("rclone,x").contains("passes it no option"));
        assert!(refusal("bindfs,over=tmpfs").contains("not mounted by the kernel"));
    }

    #[test]
    fn options_of_the_file_system_beneath_are_checked() {
        let checked = |text: &str| {
            let spec = spec(text);
            check(of_target(&spec).unwrap(), &spec)
        };
        assert_eq!(checked(r#"bindfs,over="ext4,data=journal""#), Ok(()));
        assert!(checked(r#"bindfs,over="ext4,data=jornal""#).is_err());
    }

    #[test]
    fn the_target_beneath_has_the_arguments_of_mkfs_and_the_medium() {
        let beneath = |text: &str| target_beneath(&spec(text)).map(|beneath| beneath.to_string());
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(beneath("gocryptfs"), is("ext4"));
        assert_eq!(
            beneath(r#"bindfs,no-allow-other,over="xfs,noatime",mkfs="-m crc=0"@ram"#),
            is(r#"xfs,noatime,mkfs="-m crc=0"@ram"#)
        );
        assert_eq!(beneath("fuse:x {dir} {mnt}"), is("ext4"));
        assert_eq!(beneath("fuse:x {dev} {mnt},over=xfs"), is("xfs"));
        assert_eq!(beneath("fuse:x {dev} {mnt}"), None);
        assert_eq!(beneath("ext4"), None);
    }

    #[test]
    fn placeholders_and_options_become_words_of_the_command() {
        let options = ["over=xfs", "nodiscard", "a=1", "b"].map(str::to_owned);
        let request = MountRequest {
            source: Path::new("/dev/loop7"),
            point: Path::new("/run/fsb/mnt/t0"),
            options: &options,
            size: 0,
            owner: (65534, 65533),
            sealed: false,
        };
        let command = |text: &str| -> String {
            let fuse = COMMAND.make(&spec(text)).unwrap();
            let words = fuse.start_command(&request, Some(Path::new("/d")));
            words.join(" ")
        };
        assert_eq!(
            command("fuse:x -o uid={uid},gid={gid} s:{dir} {mnt}"),
            "x -o uid=65534,gid=65533 s:/d /run/fsb/mnt/t0"
        );
        assert_eq!(
            command("fuse:/bin/x {dev} {mnt}"),
            "/bin/x /dev/loop7 /run/fsb/mnt/t0"
        );
        let words = BINDFS.start_command(&request, Some(Path::new("/d")));
        assert_eq!(
            words.join(" "),
            "bindfs -o nodiscard,a=1,b -f -o allow_other /d /run/fsb/mnt/t0"
        );
    }

    #[test]
    fn the_version_is_that_of_the_server() {
        let sshfs =
            "fusermount3 version: 3.14.0\nSSHFS version 3.7.3\nFUSE library version 3.14.0\n";
        assert_eq!(version_of("sshfs", sshfs), Some("SSHFS version 3.7.3"));
        assert_eq!(version_of("x", "y 1.2\n"), Some("y 1.2"));
    }
}
