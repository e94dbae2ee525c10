//! A server of `fsb serve --allow-runs`, and requests to it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{command, on_two_processors, scratch};

/// A server that makes runs. It ends with this value.
pub struct Server {
    directory: TempDir,
    pub child: Child,
    pub address: String,
    token: String,
}

/// An answer: status, head and body.
pub struct Answer(pub u16, pub String, pub String);

impl Server {
    /// Starts a server in a new directory.
    pub fn start(more: &[&str]) -> Server {
        let directory = scratch();
        // Without sudo, the web process of root is that of user nobody, who makes the index.
        let store = directory.path().join("store");
        [&store, &directory.path().join("data")]
            .iter()
            .for_each(|path| fs::create_dir(path).unwrap());
        for (path, mode) in [(directory.path(), 0o755), (&store, 0o777)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let command = command(directory.path(), &[]);
        Server::start_by(command, directory, more)
    }

    /// Starts a server by a command that runs fsb, and keeps the directory that it needs.
    pub fn start_by(mut command: Command, directory: TempDir, more: &[&str]) -> Server {
        on_two_processors();
        command
            .args([
                "serve",
                "--allow-runs",
                "--store",
                "store/index",
                "--listen",
                "127.0.0.1:0",
            ])
            .args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let (address, token) = line
            .trim()
            .split_once("/login?token=")
            .unwrap_or_else(|| panic!("no token: {line}"));
        let address = address.strip_prefix("http://").unwrap().to_owned();
        Server {
            address,
            token: token.to_owned(),
            directory,
            child,
        }
    }

    /// Returns the address with the token.
    pub fn login(&self) -> String {
        format!("http://{}/login?token={}", self.address, self.token)
    }

    /// Returns the directory of the server.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the head of a request with the cookie of the token and a form of `length` bytes.
    pub fn head(&self, method: &str, path: &str, length: usize) -> String {
        let (address, token) = (&self.address, &self.token);
        let port = address.rsplit(':').next().unwrap();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nCookie: fsb-{port}={token}\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n"
        )
    }

    /// Sends a request with the cookie of the token and returns the connection.
    pub fn send(&self, method: &str, path: &str, form: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .write_all((self.head(method, path, form.len()) + form).as_bytes())
            .unwrap();
        stream
    }

    /// Returns the answer to a request with the cookie.
    pub fn ask(&self, method: &str, path: &str, form: &str) -> Answer {
        let mut answer = String::new();
        self.send(method, path, form)
            .read_to_string(&mut answer)
            .unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer(status, head.to_owned(), body.to_owned())
    }

    /// Returns the page of an address, which must be there.
    pub fn page(&self, path: &str) -> String {
        let Answer(status, _, body) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Starts the plan of a form and returns the text of the plan that was shown.
    pub fn run(&self, form: &str) -> String {
        let page = self.page(&format!("/plan?{form}"));
        let form = format!(
            "form_token={}&digest={}",
            hidden(&page, "form_token"),
            hidden(&page, "digest")
        );
        let Answer(status, head, body) = self.ask("POST", "/start", &form);
        assert_eq!(status, 303, "{body}");
        assert!(head.to_lowercase().contains("location: live"), "{head}");
        let text = page
            .rsplit("<pre")
            .next()
            .unwrap()
            .split_once('>')
            .unwrap()
            .1
            .split("</pre>")
            .next()
            .unwrap();
        text.replace("&#34;", "\"")
            .replace("&#39;", "'")
            .replace("&quot;", "\"")
    }

    /// Reads events until one has what is wanted, or until the run has ended. Returns the last one.
    pub fn watch(&self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for line in BufReader::new(self.send("GET", "/live/events", "")).lines() {
            let line = line.unwrap();
            let Some(event) = line.strip_prefix("data: ") else {
                continue;
            };
            last = serde_json::from_str(event).unwrap();
            if is_wanted(&last) {
                break;
            }
        }
        last
    }

    /// Waits until a run has results and goes on, and returns the event.
    pub fn watch_results(&self) -> Value {
        let event = self.watch(|event| !event["table"].as_str().unwrap().is_empty());
        assert_eq!(event["is_running"], true, "{event:#}");
        event
    }

    /// Waits for the end of a run, and returns the last event.
    pub fn watch_end(&self) -> Value {
        let event = self.watch(|_| false);
        assert_eq!(event["is_running"], false, "{event:#}");
        event
    }

    /// Returns the directory of the only run.
    pub fn only_run(&self) -> PathBuf {
        let mut runs = fs::read_dir(self.path().join("fsb-results")).unwrap();
        let run = runs.next().unwrap().unwrap().path();
        assert!(runs.next().is_none());
        run
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Returns the value of a hidden field.
pub fn hidden(page: &str, name: &str) -> String {
    let field = page.split(&format!("name=\"{name}\" value=\"")).nth(1);
    field
        .unwrap_or_else(|| panic!("no {name}: {page}"))
        .split('"')
        .next()
        .unwrap()
        .to_owned()
}
