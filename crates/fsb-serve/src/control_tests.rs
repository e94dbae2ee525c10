//! Requests to the pages that start runs: with and without the token, from other sites, and with
//! hostile values.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use fsb_history::{Location, Store};
use fsb_report::live::{LiveRun, RunState};
use tempfile::TempDir;
use tower::ServiceExt;

use crate::tests::{HOST, HOSTILE, attributes};
use crate::{
    Answers, Control, Field, FieldKind, Hosts, Planned, Problem, RunStatus, Runs, Section, Site,
    router,
};

/// Notes what is requested.
#[derive(Default)]
struct FakeRuns {
    requests: Mutex<Vec<String>>,
    status: Mutex<RunStatus>,
}

impl FakeRuns {
    fn note(&self, request: String) {
        self.requests.lock().unwrap().push(request);
    }
}

impl Runs for Arc<FakeRuns> {
    fn form(&self, answers: &Answers) -> Vec<Section> {
        let given = |name: &str| -> Vec<String> {
            answers
                .iter()
                .filter(|(known, _)| known == name)
                .map(|(_, value)| value.clone())
                .collect()
        };
        let field = |name: &str, kind: FieldKind| Field {
            name: name.to_owned(),
            label: format!("{name} {HOSTILE}"),
            about: "an effect".to_owned(),
            kind,
            given: given(name),
        };
        let values = || vec!["ext4".to_owned(), HOSTILE.to_owned()];
        let fields = vec![
            field("fs", FieldKind::Several(values())),
            field("suite", FieldKind::One(values())),
            field("risky", FieldKind::Flag),
            field("size", FieldKind::Text("2G".to_owned())),
        ];
        vec![Section {
            title: "Targets".to_owned(),
            about: String::new(),
            fields,
        }]
    }

    fn plan(&self, answers: &Answers) -> Result<Planned, Problem> {
        if answers.is_empty() {
            return Err(Problem::Invalid(format!("no target {HOSTILE}")));
        }
        let text = answers
            .iter()
            .map(|(name, value)| format!("{name} = '{value}'\n"))
            .collect();
        let (cases, targets) = (vec!["read 1M".to_owned()], vec![HOSTILE.to_owned()]);
        let (digest, time) = ("abc".to_owned(), "at most 5 min".to_owned());
        Ok(Planned {
            digest,
            text,
            cases,
            targets,
            time,
            warnings: vec![HOSTILE.to_owned()],
        })
    }

    fn start(&self, digest: &str) -> Result<(), Problem> {
        self.note(format!("start {digest}"));
        match digest {
            "abc" => Ok(()),
            "busy" => Err(Problem::Conflict("A run is measured already.".to_owned())),
            _ => Err(Problem::TooMany("Too many requests.".to_owned())),
        }
    }

    fn stop(&self) -> Result<(), Problem> {
        self.note("stop".to_owned());
        Ok(())
    }

    fn status(&self) -> Result<RunStatus, Problem> {
        Ok(self.status.lock().unwrap().clone())
    }

    fn report(&self) -> Result<String, Problem> {
        Ok("<!doctype html><title>report</title>".to_owned())
    }
}

/// A server with a token.
struct Fixture {
    _directory: TempDir,
    router: Router,
    runs: Arc<FakeRuns>,
    login: String,
    cookie: String,
}

type Answered = (StatusCode, HeaderMap, String);

impl Fixture {
    fn new() -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let path = Location::File(directory.path().join("index"));
        Store::open_or_create(&path).unwrap();
        let site = Site::open(path).unwrap().allowing_runs();
        let runs = Arc::new(FakeRuns::default());
        let control = Control::new(Box::new(Arc::clone(&runs)), 8080).unwrap();
        let login = format!("/{}", control.address());
        let router = router(
            Arc::new(site),
            Hosts::new(HOST.parse().unwrap(), &[]),
            Some(control),
        );
        let cookie = format!("fsb-8080={}", login.split_once("token=").unwrap().1);
        Fixture {
            _directory: directory,
            router,
            runs,
            login,
            cookie,
        }
    }

    fn ask(&self, request: Request<Body>) -> Answered {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.unwrap();
            let (parts, body) = response.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap();
            (
                parts.status,
                parts.headers,
                String::from_utf8(body.to_vec()).unwrap(),
            )
        })
    }

    fn get(&self, path: &str, cookie: &str) -> Answered {
        let request = Request::builder()
            .uri(path)
            .header("Host", HOST)
            .header("Cookie", cookie);
        self.ask(request.body(Body::empty()).unwrap())
    }

    /// Sends a form with the cookie and these headers.
    fn post(&self, path: &str, headers: &[(&str, &str)], form: &str) -> StatusCode {
        let mut request = Request::builder().method("POST").uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.ask(request.body(Body::from(form.to_owned())).unwrap())
            .0
    }

    /// Returns the token of forms, as a page holds it.
    fn form_token(&self) -> String {
        let page = self.get("/plan?fs=ext4", &self.cookie).2;
        let place = page.split("name=\"form_token\"").nth(1).unwrap();
        attributes(place, "value")[0].to_owned()
    }

    fn requests(&self) -> Vec<String> {
        self.runs.requests.lock().unwrap().clone()
    }
}

const ORIGIN: &str = "http://127.0.0.1:8080";
const PAGES: [&str; 5] = [
    "/new",
    "/plan?fs=ext4",
    "/live",
    "/live/events",
    "/live/report",
];

#[test]
fn the_token_becomes_a_cookie_that_opens_the_pages() {
    let fixture = Fixture::new();
    let (status, headers, _) = fixture.get(&fixture.login, "");
    assert_eq!(
        (status, &headers["location"]),
        (StatusCode::SEE_OTHER, &"new".parse().unwrap())
    );
    let cookie = headers["set-cookie"].to_str().unwrap();
    assert_eq!(
        cookie,
        format!("{}; HttpOnly; SameSite=Strict; Path=/", fixture.cookie)
    );
    for page in PAGES {
        assert_eq!(
            fixture.get(page, &format!("other=1; {}", fixture.cookie)).0,
            StatusCode::OK,
            "{page}"
        );
        let wrong = [
            String::new(),
            "fsb-8080=".to_owned(),
            fixture.cookie[..fixture.cookie.len() - 1].to_owned(),
            fixture.cookie.replace("fsb-8080", "fsb-8081"),
            fixture.cookie.to_uppercase(),
        ];
        for cookie in wrong {
            let (status, _, body) = fixture.get(page, &cookie);
            assert_eq!(status, StatusCode::FORBIDDEN, "{page} {cookie}");
            assert!(!body.contains("form_token"), "{page}");
        }
    }
    for wrong in ["/login", "/login?token=", "/login?token=0"] {
        let (status, headers, _) = fixture.get(wrong, "");
        assert!(
            status == StatusCode::FORBIDDEN && !headers.contains_key("set-cookie"),
            "{wrong}"
        );
    }
    // The history stays open to all, and does not reveal the token.
    let (status, _, home) = fixture.get("/", "");
    assert!(
        status == StatusCode::OK && home.contains("./new") && !home.contains(&fixture.cookie[9..]),
        "{home}"
    );
}

#[test]
fn a_run_starts_and_stops_only_with_the_form_of_this_server() {
    let fixture = Fixture::new();
    let token = fixture.form_token();
    let cookie = fixture.cookie.as_str();
    let form = format!("form_token={token}&digest=abc");
    let own = [
        ("Host", HOST),
        ("Cookie", cookie),
        ("Origin", ORIGIN),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    assert_eq!(fixture.post("/start", &own, &form), StatusCode::SEE_OTHER);
    assert_eq!(
        fixture.post("/start", &own[..3], &form),
        StatusCode::SEE_OTHER,
        "an older browser"
    );
    assert_eq!(fixture.post("/stop", &own, &form), StatusCode::SEE_OTHER);
    assert_eq!(fixture.requests(), ["start abc", "start abc", "stop"]);
    let tunnel = [
        ("Host", "localhost:9000"),
        ("Cookie", cookie),
        ("Origin", "http://localhost:9000"),
    ];
    assert_eq!(fixture.post("/stop", &tunnel, &form), StatusCode::SEE_OTHER);
    let asked = fixture.requests();

    let without_cookie = [("Host", HOST), ("Origin", ORIGIN)];
    assert_eq!(
        fixture.post("/start", &without_cookie, &form),
        StatusCode::FORBIDDEN
    );
    for origin in [
        "https://evil.example",
        "null",
        "",
        "https://127.0.0.1:8080",
        "http://127.0.0.1:9000",
        "http://127.0.0.1",
        "http://localhost:8080",
        "http://127.0.0.1:8080.evil.example",
    ] {
        let foreign = [("Host", HOST), ("Cookie", cookie), ("Origin", origin)];
        assert_eq!(
            fixture.post("/start", &foreign, &form),
            StatusCode::FORBIDDEN,
            "{origin}"
        );
    }
    assert_eq!(
        fixture.post("/start", &own[..2], &form),
        StatusCode::FORBIDDEN,
        "no origin"
    );
    let two = [own[0], own[1], own[2], ("Origin", ORIGIN)];
    assert_eq!(
        fixture.post("/start", &two, &form),
        StatusCode::FORBIDDEN,
        "two origins"
    );
    for site in ["cross-site", "same-site", "none"] {
        let other = [own[0], own[1], own[2], ("Sec-Fetch-Site", site)];
        assert_eq!(
            fixture.post("/stop", &other, &form),
            StatusCode::FORBIDDEN,
            "{site}"
        );
    }
    let foreign = [
        ("Host", "evil.example"),
        ("Cookie", cookie),
        ("Origin", "http://evil.example"),
    ];
    assert_eq!(
        fixture.post("/stop", &foreign, &form),
        StatusCode::MISDIRECTED_REQUEST
    );
    let wrong = [
        "",
        "form_token=",
        "form_token=0",
        &format!("form_token={}", &cookie[9..]),
        &form[..40],
    ];
    for form in wrong {
        assert_eq!(
            fixture.post("/stop", &own, form),
            StatusCode::FORBIDDEN,
            "{form}"
        );
    }
    let large = format!("{form}&x={}", "x".repeat(1 << 20));
    assert_eq!(fixture.post("/stop", &own, &large), StatusCode::BAD_REQUEST);
    for path in ["/new", "/live", "/plan", "/", "/stop/", "/start/x"] {
        assert_eq!(
            fixture.post(path, &own, &form),
            StatusCode::METHOD_NOT_ALLOWED,
            "{path}"
        );
    }
    assert_eq!(
        fixture.get("/start", cookie).0,
        StatusCode::METHOD_NOT_ALLOWED
    );
    assert_eq!(
        fixture.requests(),
        asked,
        "no refused request reached the runs"
    );
    let busy = format!("form_token={token}&digest=busy");
    assert_eq!(fixture.post("/start", &own, &busy), StatusCode::CONFLICT);
    assert_eq!(
        fixture.post("/start", &own, &busy.replace("busy", "often")),
        StatusCode::TOO_MANY_REQUESTS
    );
}

#[test]
fn pages_hold_the_answers_and_escape_every_text() {
    let fixture = Fixture::new();
    let hostile = "%22%27%3E%3Cscript%3Ealert(1)%3C/script%3E";
    let pages = [
        format!("/new?fs=ext4&size=4G{hostile}&risky=true"),
        format!("/plan?fs={hostile}"),
        "/plan".to_owned(),
    ];
    for page in pages {
        let (_, headers, body) = fixture.get(&page, &fixture.cookie);
        assert!(
            !body.contains("<script") && !body.contains('\u{202e}') && body.contains("alert(1)"),
            "{page}: {body}"
        );
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(!policy.contains("script-src"), "{policy}");
        // Browsers send forms of a page with the policy `no-referrer` with the origin `null`.
        let has_form = body.contains("method=\"post\"");
        assert_eq!(
            headers["referrer-policy"] == "same-origin",
            has_form || page.starts_with("/new"),
            "{page}"
        );
    }
    let form = fixture
        .get("/new?fs=ext4&size=4G&risky=true", &fixture.cookie)
        .2;
    assert_eq!(form.matches(" checked").count(), 2, "{form}");
    assert!(
        form.contains("value=\"4G\"") && form.contains("placeholder=\"2G\""),
        "{form}"
    );
    let (status, _, body) = fixture.get("/plan", &fixture.cookie);
    assert!(
        status == StatusCode::BAD_REQUEST && body.contains("no target"),
        "{body}"
    );
    let plan = fixture.get("/plan?fs=ext4", &fixture.cookie).2;
    assert!(
        plan.contains("name=\"digest\" value=\"abc\"") && plan.contains("./new?fs=ext4"),
        "{plan}"
    );
}

#[test]
fn the_page_of_a_run_follows_it_and_works_without_scripts() {
    let fixture = Fixture::new();
    let none = fixture.get("/live", &fixture.cookie).2;
    assert!(
        none.contains("No run was started.") && !none.contains("<script"),
        "{none}"
    );
    let live = LiveRun {
        name: "ext4 · quick".to_owned(),
        state: RunState::Measuring,
        progress: "block 1 of 3, 2 of 6 trials".to_owned(),
        done: 2,
        of: 6,
        time: "40 s so far, about 1 min 20 s left".to_owned(),
        table: format!("ext4 {HOSTILE}\nread 1M\n"),
        affected: "interference affected 1 trial".to_owned(),
        notes: vec!["ext4: read: affected".to_owned()],
    };
    let status = RunStatus {
        is_running: true,
        directory: "/srv/run".to_owned(),
        live: Some(live),
        error: String::new(),
    };
    *fixture.runs.status.lock().unwrap() = status.clone();
    let (_, headers, page) = fixture.get("/live", &fixture.cookie);
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(
        policy.contains("script-src 'self'; connect-src 'self'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert!(
        page.contains("<noscript><meta http-equiv=\"refresh\"") && page.contains("action=\"stop\""),
        "{page}"
    );
    assert!(
        page.contains("value=\"2\"")
            && page.contains("max=\"6\"")
            && page.contains("about 1 min 20 s left")
    );
    assert!(
        !page.contains("alert(1)</script>") && !page.contains('\u{202e}'),
        "{page}"
    );

    *fixture.runs.status.lock().unwrap() = RunStatus {
        is_running: false,
        ..status
    };
    let (_, headers, events) = fixture.get("/live/events", &fixture.cookie);
    assert_eq!(headers["content-type"], "text/event-stream");
    // The run has ended, so one event ends the stream.
    let event = events
        .strip_prefix("data: ")
        .and_then(|event| event.strip_suffix("\n\n"))
        .unwrap();
    let texts: serde_json::Value = serde_json::from_str(event).unwrap();
    assert_eq!(
        (&texts["done"], &texts["is_running"]),
        (&2.into(), &false.into())
    );
    assert!(
        !texts["table"].as_str().unwrap().contains('\u{202e}'),
        "{texts}"
    );
    let ended = fixture.get("/live", &fixture.cookie).2;
    assert!(
        ended.contains("href=\"live/report\"")
            && !ended.contains("<script")
            && !ended.contains("stop"),
        "{ended}"
    );
    let (_, headers, _) = fixture.get("/live/report", &fixture.cookie);
    assert!(
        headers["content-security-policy"]
            .to_str()
            .unwrap()
            .contains("sandbox")
    );
}
