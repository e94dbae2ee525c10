//! A browser for tests of pages.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::common::{Running, wait_until};

/// A browser that is driven by the DevTools protocol over pipes.
pub struct Browser {
    _process: Running,
    to: File,
    from: BufReader<File>,
    session: Value,
    calls: u64,
    events: VecDeque<Value>,
    /// The messages on the console.
    console: Vec<String>,
    /// The addresses of all requests.
    pub requests: Vec<String>,
}

impl Browser {
    pub fn start(directory: &Path) -> Browser {
        let [to, from] = ["to", "from"].map(|name| directory.join(name));
        [&to, &from].iter().for_each(|path| {
            mknodat(
                CWD,
                path.as_path(),
                FileType::Fifo,
                Mode::RUSR | Mode::WUSR,
                0,
            )
            .unwrap()
        });
        let process = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<\"$TO\" 4>\"$FROM\"", "sh"])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .args([
                "--remote-debugging-pipe",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ])
            .arg(format!(
                "--user-data-dir={}",
                directory.join("profile").display()
            ))
            .arg("about:blank")
            .envs([("TO", &to), ("FROM", &from)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Each waits until the shell opens the other end, in this order.
        let to = File::options().write(true).open(&to).unwrap();
        let from = BufReader::new(File::open(&from).unwrap());
        let (session, events, process) =
            (Value::Null, VecDeque::new(), Running::from_child(process));
        let (console, requests) = (Vec::new(), Vec::new());
        let mut browser = Browser {
            _process: process,
            to,
            from,
            session,
            calls: 0,
            events,
            console,
            requests,
        };
        let target =
            browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attach = json!({"targetId": target, "flatten": true});
        browser.session = browser.call("Target.attachToTarget", attach)["sessionId"].clone();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol and returns its result.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        let answer = self.answer(method, parameters);
        assert!(answer["error"].is_null(), "{method}: {answer:#}");
        answer["result"].clone()
    }

    /// Calls a method of the protocol and returns its answer, which may be an error.
    fn answer(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut call = json!({"id": self.calls, "method": method, "params": parameters});
        if !self.session.is_null() {
            call["sessionId"] = self.session.clone();
        }
        self.to.write_all(format!("{call}\0").as_bytes()).unwrap();
        loop {
            let message = self.receive();
            if message["id"] == self.calls {
                return message;
            }
        }
    }

    /// Receives a message and notes what it reports.
    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "the browser has ended");
        let message: Value = serde_json::from_slice(&message).unwrap();
        let parameters = &message["params"];
        match message["method"].as_str() {
            Some("Log.entryAdded") => self.console.push(parameters["entry"].to_string()),
            Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown") => {
                self.console.push(parameters.to_string())
            }
            Some("Network.requestWillBeSent") => {
                self.requests
                    .push(parameters["request"]["url"].as_str().unwrap().to_owned());
            }
            Some("Page.loadEventFired") => self.events.push_back(message.clone()),
            _ => {}
        }
        message
    }

    /// Does something that loads a page, and waits for that page.
    fn load(&mut self, method: &str, parameters: Value) {
        self.events.clear();
        self.call(method, parameters);
        while self.events.is_empty() {
            self.receive();
        }
    }

    /// Opens an address.
    pub fn open(&mut self, address: &str) {
        self.load("Page.navigate", json!({"url": address}));
    }

    /// Clicks an element that leads to another page.
    pub fn click(&mut self, selector: &str) {
        let script = format!("document.querySelector({}).click()", json!(selector));
        self.load("Runtime.evaluate", json!({"expression": script}));
    }

    /// Returns the value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", parameters);
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result:#}"
        );
        result["result"]["value"].clone()
    }

    /// Returns the text of an element; empty if there is none, or while another page is loaded.
    pub fn text(&mut self, selector: &str) -> String {
        let expression = format!("document.querySelector({})?.textContent", json!(selector));
        let answer = self.answer(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true}),
        );
        answer["result"]["result"]["value"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Asserts that the pages so far wrote nothing to the console, and that all requests went to
    /// this address.
    pub fn expect_only_requests_to(&self, address: &str) {
        assert_eq!(self.console, Vec::<String>::new());
        let own = format!("http://{address}/");
        let foreign = self
            .requests
            .iter()
            .filter(|found| !found.starts_with(&own) && !found.starts_with("data:"));
        assert_eq!(foreign.collect::<Vec<_>>(), Vec::<&String>::new());
    }

    /// Asserts that axe-core finds no serious fault in the page, if the variable FSB_AXE names its
    /// file. Its licence differs from that of this project, so the file is not in the repository.
    pub fn expect_accessible(&mut self) {
        let Some(path) = std::env::var_os("FSB_AXE") else {
            return;
        };
        self.value(&(fs::read_to_string(path).unwrap() + ";0"));
        for scheme in ["dark", "light"] {
            let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
            self.call("Emulation.setEmulatedMedia", features);
            let faults = self.value(
                "axe.run().then((found) =>
                    found.violations.filter((fault) => ['serious', 'critical'].includes(fault.impact))
                        .map((fault) => fault.id + ': ' + fault.nodes.map((node) => node.html).join(' ')))",
            );
            assert_eq!(faults, json!([]), "{scheme}: {faults:#}");
        }
    }

    /// Asserts that the page is not wider than the screen of a telephone.
    pub fn expect_fits_a_telephone(&mut self) {
        let screen = json!({"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": true});
        self.call("Emulation.setDeviceMetricsOverride", screen);
        let width = self.value("document.documentElement.scrollWidth");
        assert!(
            width.as_u64().is_some_and(|width| width <= 390),
            "{width} pixels wide"
        );
        self.call("Emulation.clearDeviceMetricsOverride", json!({}));
    }

    /// Waits until an element has a text.
    pub fn wait_for(&mut self, selector: &str, wanted: &str) {
        wait_until(wanted, Duration::from_secs(120), || {
            self.text(selector).contains(wanted)
        });
    }
}
