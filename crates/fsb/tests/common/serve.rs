//! A server of `fsb serve` that only reads, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use serde_json::Value;

use crate::common::history::Series;
use crate::common::{command, words};

/// A server that ends with this value.
pub struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    pub fn start(series: &Series, more: &[&str]) -> Server {
        let arguments = words("serve --store index.sqlite --listen 127.0.0.1:0");
        let mut child = command(series.path(), &[&arguments, more].concat())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("http://")
            .and_then(|rest| rest.strip_suffix('/'))
            .unwrap();
        Server {
            child,
            address: address.to_owned(),
        }
    }

    /// Returns the address of a page.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the status and the body of an answer.
    pub fn get(&self, path: &str, host: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    pub fn page(&self, path: &str) -> String {
        let (status, body) = self.get(path, &self.address);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.page(path)).unwrap()
    }

    /// Ends the server by a signal and returns its exit code.
    pub fn end(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens ten thousand connections, or as many as the limit on open files permits beside the other
/// files of this process.
pub fn connect_many(address: &str) -> Vec<TcpStream> {
    const CONNECTIONS: u64 = 10_000;
    const OTHER_FILES: u64 = 200;
    let files = getrlimit(Resource::Nofile);
    let limit = files
        .maximum
        .unwrap_or(u64::MAX)
        .min(CONNECTIONS + OTHER_FILES);
    let current = files.current.map(|current| current.max(limit));
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current,
            maximum: files.maximum,
        },
    )
    .unwrap();
    (OTHER_FILES..limit)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect()
}
