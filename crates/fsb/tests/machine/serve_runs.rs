//! Runs from a browser: on a real file system with the rights of sudo, and by a real browser.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::common::serve_runs::{Answer, Server};
use crate::common::{Running, counting, expect_no_traces, record, scratch, traces, wait_until};
use crate::ownership::{NOBODY, sudo};

#[test]
fn the_helper_of_sudo_measures_a_loop_image_and_the_results_are_those_of_the_invoking_user() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let before = traces();
    let directory = scratch();
    fs::create_dir(directory.path().join("store")).unwrap();
    for path in [directory.path(), &directory.path().join("store")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let server = Server::start_by(sudo(directory.path(), &[]), directory, &[]);
    let Answer(status, _, body) = server.ask("GET", "/plan?fs=ext4&medium=/dev/loop0", "");
    assert!(status == 400 && body.contains("--wipe /dev/loop0"), "{status}: {body}");
    server.run("fs=ext4&workload=stat&p.files=100&size=128M&blocks=2");
    let last = server.watch_end();
    assert!(last["progress"].as_str().unwrap().starts_with("complete: "), "{last:#}");
    let run = server.only_run();
    assert_eq!(fs::metadata(run.join("run.json")).unwrap().uid(), NOBODY);
    assert_eq!(record(&run)["plan"]["targets"][0]["file_system"]["fs"], "ext4");
    drop(server);
    expect_no_traces(&before);
}

/// A browser that is driven by the DevTools protocol over pipes.
struct Browser {
    _process: Running,
    to: File,
    from: BufReader<File>,
    session: Value,
    calls: u64,
    events: VecDeque<Value>,
    /// The messages on the console.
    console: Vec<String>,
    /// The addresses of all requests.
    requests: Vec<String>,
}

impl Browser {
    fn start(directory: &Path) -> Browser {
        let [to, from] = ["to", "from"].map(|name| directory.join(name));
        [&to, &from]
            .iter()
            .for_each(|path| mknodat(CWD, path.as_path(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap());
        let process = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<\"$TO\" 4>\"$FROM\"", "sh"])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--remote-debugging-pipe", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"])
            .arg(format!("--user-data-dir={}", directory.join("profile").display()))
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
        let (session, events, process) = (Value::Null, VecDeque::new(), Running::from_child(process));
        let (console, requests) = (Vec::new(), Vec::new());
        let mut browser = Browser { _process: process, to, from, session, calls: 0, events, console, requests };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
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
            Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown") => self.console.push(parameters.to_string()),
            Some("Network.requestWillBeSent") => {
                self.requests.push(parameters["request"]["url"].as_str().unwrap().to_owned());
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
    fn open(&mut self, address: &str) {
        self.load("Page.navigate", json!({"url": address}));
    }

    /// Clicks an element that leads to another page.
    fn click(&mut self, selector: &str) {
        let script = format!("document.querySelector({}).click()", json!(selector));
        self.load("Runtime.evaluate", json!({"expression": script}));
    }

    /// Returns the value of an expression in the page.
    fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result:#}");
        result["result"]["value"].clone()
    }

    /// Returns the text of an element; empty if there is none, or while another page is loaded.
    fn text(&mut self, selector: &str) -> String {
        let expression = format!("document.querySelector({})?.textContent", json!(selector));
        let answer = self.answer("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        answer["result"]["result"]["value"].as_str().unwrap_or_default().to_owned()
    }

    /// Asserts that axe-core finds no serious fault in the page, if the variable FSB_AXE names its file. Its licence
    /// differs from that of this project, so the file is not in the repository.
    fn expect_accessible(&mut self) {
        let Some(path) = std::env::var_os("FSB_AXE") else { return };
        self.value(&(fs::read_to_string(path).unwrap() + ";0"));
        let faults = self.value(
            "axe.run().then((found) => found.violations.filter((fault) => ['serious', 'critical'].includes(fault.impact))
                .map((fault) => fault.id + ': ' + fault.nodes.map((node) => node.html).join(' ')))",
        );
        assert_eq!(faults, json!([]), "{faults:#}");
    }

    /// Waits until an element has a text.
    fn wait_for(&mut self, selector: &str, wanted: &str) {
        wait_until(wanted, Duration::from_secs(120), || self.text(selector).contains(wanted));
    }
}

#[test]
fn a_browser_plans_starts_watches_and_stops_a_run_and_reads_its_report() {
    needs!(program "chromium");
    let server = Server::start(&[]);
    let profile = scratch();
    let mut browser = Browser::start(profile.path());
    browser.open(&server.login());
    let new_run = format!("http://{}/new", server.address);
    assert_eq!(browser.value("location.href"), new_run, "the token is not in the address");
    browser.expect_accessible();
    browser.value("document.querySelector('input[name=fs][value=null]').checked = true");
    browser.value("document.querySelector('input[name=targets]').value = 'other=null'");
    browser.value("document.querySelector('select[name=workload]').value = 'stat'");
    browser.click("button[formaction=new]");
    assert_eq!(browser.value("document.querySelector('select[name=workload]').value"), "stat");
    assert_eq!(browser.value("document.querySelector('input[name=fs][value=null]').checked"), true);
    browser.value("document.querySelector('input[name=\"p.files\"]').value = '100'");
    browser.value("document.querySelector('input[name=blocks]').value = '10000'");
    browser.click("form.plan button");
    let plan = browser.text("pre");
    assert!(plan.contains("files = 100") && plan.contains("blocks = 10000"), "{plan}");
    browser.expect_accessible();
    browser.click("form[action=start] button");
    browser.value("window.isFirst = true");
    browser.wait_for("[data-live=progress]", " of 10000, ");
    browser.wait_for("[data-live=table]", "stat");
    assert_eq!(browser.value("window.isFirst"), true, "events came without another load of the page");
    browser.expect_accessible();
    browser.click("form[action=stop] button");
    browser.wait_for("main", "fsb run --resume");
    browser.expect_accessible();
    // The numbers are those of the store.
    let run = server.only_run();
    let trials = counting(&run).iter().filter(|trial| trial["phase"] == "measured").count();
    assert!(browser.text("[data-live=progress]").contains(&format!("interrupted, {trials} of ")));
    browser.click("a[href='live/report']");
    browser.wait_for("main", "stat");
    assert_eq!(browser.console, Vec::<String>::new());
    let own = format!("http://{}/", server.address);
    let foreign = browser.requests.iter().filter(|address| !address.starts_with(&own) && !address.starts_with("data:"));
    assert_eq!(foreign.collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(browser.requests.iter().any(|address| address.ends_with("/live/events")));
}
