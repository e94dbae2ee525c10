use super::*;
use crate::Bytes;

const MAIL: &str = r#"
name = "mail"
about = "a mail server"
[[fileset]]
name = "mails"
files = 1000
size = { mean = "16K", gamma = 1.5 }
width = { mean = 20, gamma = 1.5 }
preallocated = 0.8
[[thread]]
name = "reader"
threads = 16
steps = [
    { op = "delete", set = "mails" },
    { op = "create", set = "mails", fd = 1 },
    { op = "append", fd = 1, size = { low = 0, high = "16K" } },
    { op = "sync", fd = 1 },
    { op = "close", fd = 1 },
    { op = "open", set = "mails", fd = 1 },
    { op = "read-whole", fd = 1, record = "1M" },
    { op = "close", fd = 1 },
]
"#;

fn changed(from: &str, to: &str) -> Result<Flow, String> {
    assert!(MAIL.contains(from), "{from}");
    Flow::from_toml(&MAIL.replace(from, to))
}

#[test]
fn a_flow_survives_its_own_text() {
    let flow = Flow::from_toml(MAIL).unwrap();
    assert_eq!(Flow::from_toml(&flow.to_toml()).unwrap(), flow);
    assert_eq!(flow.filesets[0].size, Spread::Gamma { mean: Bytes(16 << 10), shape: 1.5 });
    assert_eq!((flow.instances(), flow.filesets[0].size.mean()), (16, 16 << 10));
    assert!(flow.is_durable_each());
    assert!(!changed("{ op = \"sync\", fd = 1 },", "").unwrap().is_durable_each());
}

#[test]
fn every_operation_has_the_name_that_it_is_written_with() {
    for op in Op::ALL {
        assert_eq!(serde_json::to_value(op).unwrap(), op.name());
    }
}

#[test]
fn errors_name_their_place() {
    for (from, to, said) in [
        (
            "set = \"mails\" }",
            "set = \"mail\" }",
            "thread reader, step 1 (delete): unknown fileset 'mail': did you mean 'mails'?",
        ),
        ("op = \"sync\", fd = 1", "op = \"sync\", fd = 2", "step 4 (sync): fd 2 is not open"),
        ("{ op = \"sync\", fd = 1 },\n    { op = \"close\", fd = 1 },", "", "fd 1 is still open"),
        ("fd = 1, record = \"1M\"", "fd = 1, random = true", "step 7 (read-whole): read-whole takes no random"),
        (", size = { low = 0, high = \"16K\" }", "", "append needs a size"),
        ("low = 0", "low = \"32K\"", "low = 32K is not below high = 16K"),
        ("size = { mean", "size = { maen", "a size is \"16K\""),
        ("gamma = 1.5 }\nwidth", "gamma = 0 }\nwidth", "gamma = 0 is not above 0"),
        ("threads = 16", "threads = 5000", "from 1 to 1024"),
        ("preallocated = 0.8", "preallocated = 80", "not a share from 0 to 1"),
        ("op = \"delete\"", "op = \"unlink\"", "unknown variant `unlink`"),
        ("files = 1000", "files = 1000\nfilez = 3", "unknown field `filez`"),
    ] {
        let error = changed(from, to).unwrap_err();
        assert!(error.contains(said), "{from} -> {to}: {error}");
    }
}

#[test]
fn a_set_named_where_nothing_is_open_is_opened_beforehand() {
    let flow =
        changed("{ op = \"delete\", set = \"mails\" },", "{ op = \"append\", set = \"mails\", fd = 2, size = 100 },")
            .unwrap();
    let beforehand = flow.threads[0].beforehand();
    assert_eq!(beforehand.len(), 1);
    assert_eq!((beforehand[0].0, beforehand[0].1.op), (2, Op::Append));
    assert!(!flow.is_durable_each());
}
