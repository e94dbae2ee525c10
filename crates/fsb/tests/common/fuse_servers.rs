//! FUSE servers from Debian's packages, each over a directory or an image, for tests that mount
//! them.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{WAIT, expect_code, scratch, wait_until};

/// The size of an image, in which all of the formats fit.
const IMAGE_BYTES: u64 = 256 << 20;

/// A program that serves a file system through FUSE.
pub struct FuseServer {
    /// The name of the server: `bindfs`.
    pub name: &'static str,
    /// The programs that the mount needs.
    programs: &'static [&'static str],
    /// Debian's package of the server.
    pub package: &'static str,
    start: fn(&mut FuseMount, &[&str]),
}

/// All servers.
pub static FUSE_SERVERS: [FuseServer; 13] = [
    FuseServer {
        name: "bindfs",
        programs: &["bindfs"],
        package: "bindfs",
        start: |mount, arguments| {
            let mut command = Command::new("bindfs");
            command.arg("-f").args(arguments).arg(&mount.backing);
            mount.serve(command);
        },
    },
    FuseServer {
        name: "mergerfs",
        programs: &["mergerfs"],
        package: "mergerfs",
        start: |mount, arguments| {
            let second = mount.make_directory("second");
            let branches = format!("{}:{}", mount.backing.display(), second.display());
            let mut command = Command::new("mergerfs");
            command.arg("-f").args(arguments).arg(branches);
            mount.serve(command);
        },
    },
    FuseServer {
        name: "gocryptfs",
        programs: &["gocryptfs"],
        package: "gocryptfs",
        start: |mount, arguments| {
            let password = mount.password();
            let mut init = Command::new("gocryptfs");
            init.args(["-init", "-q", "-scryptn", "10", "-passfile"])
                .args([&password, &mount.backing]);
            succeeds(&mut init);
            let mut command = Command::new("gocryptfs");
            command.args(["-fg", "-q", "-passfile"]).arg(password);
            command.args(arguments).arg(&mount.backing);
            mount.serve(command);
        },
    },
    FuseServer {
        name: "encfs",
        programs: &["encfs"],
        package: "encfs",
        start: |mount, arguments| {
            let mut command = Command::new("encfs");
            command
                .args(["-f", "--standard", "--stdinpass"])
                .args(arguments);
            command.arg(&mount.backing);
            mount.serve_with_password(command);
        },
    },
    FuseServer {
        name: "cryfs",
        programs: &["cryfs"],
        package: "cryfs",
        start: |mount, arguments| {
            let mut command = Command::new("cryfs");
            command.env("CRYFS_FRONTEND", "noninteractive");
            command.env("CRYFS_NO_UPDATE_CHECK", "true");
            // cryfs keeps the ids of its file systems in the home directory.
            command.env("HOME", mount.directory());
            command.arg("-f").args(arguments).arg(&mount.backing);
            mount.serve_with_password(command);
        },
    },
    FuseServer {
        name: "sshfs",
        programs: &["sshfs", "sshd", "ssh-keygen"],
        package: "sshfs",
        start: start_sshfs,
    },
    FuseServer {
        name: "unionfs",
        programs: &["unionfs"],
        package: "unionfs-fuse",
        start: |mount, arguments| {
            let mut command = Command::new("unionfs");
            command.arg("-f").args(arguments);
            command.arg(format!("{}=RW", mount.backing.display()));
            mount.serve(command);
        },
    },
    FuseServer {
        name: "fuse-overlayfs",
        programs: &["fuse-overlayfs"],
        package: "fuse-overlayfs",
        start: |mount, arguments| {
            let (lower, work) = (mount.make_directory("lower"), mount.make_directory("work"));
            let layers = format!(
                "lowerdir={},upperdir={},workdir={}",
                lower.display(),
                mount.backing.display(),
                work.display()
            );
            let mut command = Command::new("fuse-overlayfs");
            command.arg("-f").args(arguments).args(["-o", &layers]);
            mount.serve(command);
        },
    },
    FuseServer {
        name: "ntfs-3g",
        programs: &["ntfs-3g", "mkntfs"],
        package: "ntfs-3g",
        start: |mount, arguments| {
            let image = mount.image("mkntfs", &["-F", "-Q", "-q"]);
            let mut command = Command::new("ntfs-3g");
            command.args(["-o", "no_detach"]).args(arguments).arg(image);
            mount.serve(command);
        },
    },
    FuseServer {
        name: "fuse2fs",
        programs: &["fuse2fs", "mke2fs"],
        package: "fuse2fs",
        start: |mount, arguments| {
            let image = mount.image("mke2fs", &["-q", "-F", "-t", "ext4", "-b", "4096"]);
            let mut command = Command::new("fuse2fs");
            command.args(["-f", "-o", "rw"]).args(arguments).arg(image);
            mount.serve(command);
        },
    },
    FuseServer {
        name: "rclone",
        programs: &["rclone"],
        package: "rclone",
        start: |mount, arguments| {
            let mut command = rclone();
            command.arg("mount").args(arguments);
            command.arg(format!(":local:{}", mount.backing.display()));
            mount.serve(command);
        },
    },
    FuseServer {
        name: "glusterfs",
        programs: &["glusterfs", "glusterfsd"],
        package: "glusterfs-server",
        start: start_glusterfs,
    },
    FuseServer {
        name: "davfs2",
        programs: &["mount.davfs", "rclone"],
        package: "davfs2",
        start: start_davfs2,
    },
];

/// Returns the server with that name.
pub fn fuse_server(name: &str) -> &'static FuseServer {
    let found = FUSE_SERVERS.iter().find(|server| server.name == name);
    found.unwrap_or_else(|| panic!("no FUSE server is called {name}"))
}

impl FuseServer {
    /// Returns an error that names what a mount lacks here: root, or a program. For
    /// `needs!(server.available())`.
    pub fn available(&self) -> Result<(), String> {
        fsb_testkit::root()?;
        fsb_testkit::programs(self.programs)?;
        if !Path::new("/dev/fuse").exists() {
            return Err("/dev/fuse".to_owned());
        }
        Ok(())
    }

    /// Returns whether `make test` installs the server. Packages that start services are left out.
    pub fn is_installed_for_tests(&self) -> bool {
        !["glusterfs", "davfs2"].contains(&self.name)
    }

    /// Returns the version of the installed package. `None` without dpkg or the package.
    pub fn installed_version(&self) -> Option<String> {
        let mut command = Command::new("dpkg-query");
        command.args(["-W", "-f=${Version}", self.package]);
        let output = command.output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Mounts the server over a new directory in TMPDIR, until the result is dropped.
    pub fn mount(&self) -> FuseMount {
        self.mount_with(&[])
    }

    /// Like [`FuseServer::mount`], with more arguments of the server, such as `-o allow_other`.
    pub fn mount_with(&self, arguments: &[&str]) -> FuseMount {
        let scratch = scratch();
        let mut mount = self.mount_in(scratch.path(), arguments);
        mount.scratch = Some(scratch);
        mount
    }

    /// Mounts the server on `mnt` in `directory`, with more arguments of the server. It keeps its
    /// files in `directory`, too, so that the caller chooses the storage.
    pub fn mount_in(&self, directory: &Path, arguments: &[&str]) -> FuseMount {
        // Other users must be able to reach the mount point.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("our directory");
        let mut mount = FuseMount {
            point: directory.join("mnt"),
            backing: directory.join("backing"),
            helpers: Vec::new(),
            server: None,
            scratch: None,
        };
        fs::create_dir(&mount.point).expect("a new directory");
        fs::create_dir(&mount.backing).expect("a new directory");
        (self.start)(&mut mount, arguments);
        mount
    }
}

/// Starts sshd with new keys on a free port, and sshfs for a directory of it.
fn start_sshfs(mount: &mut FuseMount, arguments: &[&str]) {
    for key in ["host_key", "id"] {
        let mut make = Command::new("ssh-keygen");
        make.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
        succeeds(make.arg(mount.path(key)));
    }
    // The directory in which sshd separates its privileges.
    fs::create_dir_all("/run/sshd").expect("root makes directories");
    let port = free_port();
    let here = mount.directory().display().to_string();
    let configuration = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {here}/host_key\n\
         AuthorizedKeysFile {here}/id.pub\nPidFile none\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n"
    );
    let mut sshd = Command::new("/usr/sbin/sshd");
    sshd.args(["-D", "-e", "-f"])
        .arg(mount.write("sshd_config", &configuration));
    mount.help(sshd);
    wait_for_port(port);
    let mut command = Command::new("sshfs");
    let options = format!(
        "port={port},IdentityFile={here}/id,StrictHostKeyChecking=no,\
         UserKnownHostsFile={here}/known_hosts"
    );
    command.args(["-f", "-o", &options]).args(arguments);
    command.arg(format!("root@127.0.0.1:{}", mount.backing.display()));
    mount.serve(command);
}

/// Starts a brick of glusterfs without glusterd, and a client of it.
fn start_glusterfs(mount: &mut FuseMount, arguments: &[&str]) {
    let port = free_port();
    let brick = format!(
        "volume posix\n type storage/posix\n option directory {}\nend-volume\n\
         volume locks\n type features/locks\n subvolumes posix\nend-volume\n\
         volume brick\n type performance/io-threads\n subvolumes locks\nend-volume\n\
         volume server\n type protocol/server\n option transport-type tcp\n \
         option transport.socket.bind-address 127.0.0.1\n \
         option transport.socket.listen-port {port}\n \
         option auth.addr.brick.allow 127.0.0.1\n subvolumes brick\nend-volume\n",
        mount.backing.display()
    );
    let client = format!(
        "volume client\n type protocol/client\n option transport-type tcp\n \
         option remote-host 127.0.0.1\n option remote-port {port}\n \
         option remote-subvolume brick\nend-volume\n\
         volume cache\n type performance/io-cache\n subvolumes client\nend-volume\n"
    );
    let gluster = |mount: &FuseMount, program: &str, role: &str, volumes: &str| {
        let mut command = Command::new(program);
        command.arg("-N").args(["-l", "/dev/stderr", "-f"]);
        command.arg(mount.write(&format!("{role}.vol"), volumes));
        command.arg("--pid-file");
        command.arg(mount.path(&format!("{role}.pid")));
        command
    };
    let server = gluster(mount, "glusterfsd", "brick", &brick);
    mount.help(server);
    wait_for_port(port);
    let mut command = gluster(mount, "glusterfs", "client", &client);
    command.args(arguments);
    mount.serve(command);
}

/// Starts a WebDAV server, and davfs2 for it.
fn start_davfs2(mount: &mut FuseMount, arguments: &[&str]) {
    let port = free_port();
    let mut server = rclone();
    server.args(["serve", "webdav", "--addr"]);
    server.arg(format!("127.0.0.1:{port}"));
    server.arg(format!(":local:{}", mount.backing.display()));
    mount.help(server);
    wait_for_port(port);
    // davfs2 drops its privileges: its user writes the cache.
    let cache = mount.make_directory("cache");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o1777)).expect("our directory");
    let configuration = format!("ask_auth 0\ncache_dir {}\n", cache.display());
    let configuration = mount.write("davfs2.conf", &configuration);
    let mut command = Command::new("mount.davfs");
    command.arg(format!("http://127.0.0.1:{port}"));
    command.arg(&mount.point).arg("-o");
    command.arg(format!("conf={}", configuration.display()));
    // The server puts itself into the background once it has mounted.
    succeeds(command.args(arguments));
    assert!(mount.is_mounted(), "mount.davfs mounted nothing");
}

fn rclone() -> Command {
    let mut command = Command::new("rclone");
    command.env("RCLONE_CONFIG", "/dev/null");
    command
}

fn succeeds(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output();
    expect_code(&output.expect("the program runs"), 0);
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

fn wait_for_port(port: u16) {
    wait_until("the server listens", WAIT, || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
}

/// A mounted FUSE server. Dropping it unmounts the file system and ends its processes.
pub struct FuseMount {
    /// The mount point.
    pub point: PathBuf,
    /// The directory over which the server is mounted. Servers of images leave it empty.
    pub backing: PathBuf,
    /// Processes that the server needs, such as sshd.
    helpers: Vec<Child>,
    /// The server, unless it left its parent, as davfs2 does.
    server: Option<Child>,
    /// Holds everything if the helper made the directory.
    scratch: Option<TempDir>,
}

impl FuseMount {
    /// Returns the process id of the server. davfs2 has none that a test knows.
    pub fn server_id(&self) -> u32 {
        self.server.as_ref().expect("it runs").id()
    }

    /// Kills the server: calls on the mount fail with ENOTCONN afterwards.
    pub fn kill_server(&mut self) {
        let mut server = self.server.take().expect("it runs");
        server.kill().expect("our own child");
        server.wait().expect("our own child");
    }

    fn directory(&self) -> &Path {
        self.point.parent().expect("the point is in a directory")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    fn make_directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a new directory");
        path
    }

    /// Writes a file that only root can read.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a new file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our file");
        path
    }

    fn password(&self) -> PathBuf {
        self.write("password", "secret\n")
    }

    /// Makes a sparse image and formats it.
    fn image(&self, mkfs: &str, arguments: &[&str]) -> PathBuf {
        let path = self.path("image");
        let file = File::create_new(&path).expect("a new image");
        file.set_len(IMAGE_BYTES).expect("a sparse file");
        succeeds(Command::new(mkfs).args(arguments).arg(&path));
        path
    }

    /// Starts a process whose output goes to a log.
    fn spawn(&self, command: &mut Command, name: &str) -> Child {
        let log = File::create_new(self.path(name)).expect("a new log");
        command.env("LC_ALL", "C");
        command.stdout(log.try_clone().expect("a descriptor"));
        command.stderr(log).spawn().expect("the server starts")
    }

    /// Starts a process that the server needs.
    fn help(&mut self, mut command: Command) {
        command.stdin(Stdio::null());
        let helper = self.spawn(&mut command, "helper.log");
        self.helpers.push(helper);
    }

    /// Starts the server, which stays in the foreground, with the mount point as its last argument.
    /// Waits until it has mounted.
    fn serve(&mut self, mut command: Command) {
        command.stdin(Stdio::null());
        self.wait_for_mount(command);
    }

    /// Like [`FuseMount::serve`], with the password as the input.
    fn serve_with_password(&mut self, mut command: Command) {
        command.stdin(File::open(self.password()).expect("the password"));
        self.wait_for_mount(command);
    }

    fn wait_for_mount(&mut self, mut command: Command) {
        command.arg(&self.point);
        let mut server = self.spawn(&mut command, "server.log");
        wait_until("the FUSE server mounts", WAIT, || {
            if let Ok(Some(status)) = server.try_wait() {
                let log = fs::read_to_string(self.path("server.log")).unwrap_or_default();
                panic!("{command:?}: {status}: {log}");
            }
            self.is_mounted()
        });
        self.server = Some(server);
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("the mounts");
        let point = self.point.to_string_lossy();
        mounts
            .lines()
            .any(|line| line.split(' ').nth(4) == Some(&point))
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        let unmount = |options: &[&str]| {
            let mut command = Command::new("umount");
            command.args(options).arg(&self.point);
            command.output().is_ok_and(|output| output.status.success())
        };
        // A failed test may leave a process in the mount.
        let _ = !self.is_mounted() || unmount(&[]) || unmount(&["--lazy"]);
        if let Some(server) = &mut self.server {
            // Servers write what they hold back, and end.
            fsb_sys::poll_until(WAIT, || matches!(server.try_wait(), Ok(Some(_)) | Err(_)));
        }
        for child in self.server.iter_mut().chain(&mut self.helpers) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
