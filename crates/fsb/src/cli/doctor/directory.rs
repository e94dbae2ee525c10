//! The table of what the file system of a directory does.

use fsb_report::show::entry;
use fsb_testbed::probe::{DirectoryProbe, Property, PropertyState};

/// Returns the heading, one line per property, and why properties are missing.
pub(super) fn table(probe: &DirectoryProbe, columns: usize) -> String {
    let driver = probe.driver.as_deref().unwrap_or("unknown");
    let source = probe
        .source
        .as_ref()
        .map(|source| format!(", mounted from {}", source.display()))
        .unwrap_or_default();
    let mut text = entry(
        "",
        &format!(
            "what the file system of {} does ({driver}{source}):",
            probe.directory.display()
        ),
        columns,
    );
    text.push('\n');
    let width = |shown: fn(&Property) -> String| {
        let widths = probe
            .properties
            .iter()
            .map(|one| shown(one).chars().count());
        widths.max().unwrap_or(0)
    };
    let (label, answer) = (width(|one| one.label.clone()), width(shown));
    for property in &probe.properties {
        let before = format!("{:label$}  {:answer$}  ", property.label, shown(property));
        text += &match property.consequence.as_str() {
            "" => before.trim_end().to_owned(),
            consequence => entry(&before, &format!("→ {consequence}"), columns),
        };
        text.push('\n');
    }
    if let Some(failure) = &probe.failure {
        text += &entry("missing  ", &failure.text, columns);
        text.push('\n');
        if !failure.advice.is_empty() {
            text += &entry("         → ", &failure.advice, columns);
            text.push('\n');
        }
    }
    text
}

/// Returns the answer. An error that only a text names would be hard to search for.
fn shown(property: &Property) -> String {
    match (property.state, &property.errno) {
        (PropertyState::No, Some(errno)) => format!("no: {errno}"),
        (_, Some(errno)) => format!("unknown: {errno}"),
        (_, None) => property.text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use fsb_testbed::probe::ProbeFailure;

    use super::*;

    fn property(label: &str, state: PropertyState, text: &str, consequence: &str) -> Property {
        Property {
            name: "name".to_owned(),
            label: label.to_owned(),
            state,
            errno: None,
            number: None,
            text: text.to_owned(),
            consequence: consequence.to_owned(),
        }
    }

    #[test]
    fn answers_are_aligned_and_name_errors_and_consequences() {
        let refused = Property {
            errno: Some("EINVAL".to_owned()),
            ..property(
                "exchange",
                PropertyState::No,
                "Invalid argument (EINVAL)",
                "so",
            )
        };
        let probe = DirectoryProbe {
            directory: "/mnt".into(),
            driver: Some("fuse.x".to_owned()),
            source: Some("/srv".into()),
            properties: vec![property("mmap", PropertyState::Yes, "works", ""), refused],
            failure: Some(ProbeFailure {
                text: "no answer within 15 s: fsync".to_owned(),
                advice: "end its server".to_owned(),
                hangs: true,
            }),
        };
        assert_eq!(
            table(&probe, 100),
            "what the file system of /mnt does (fuse.x, mounted from /srv):\n\
             mmap      works\n\
             exchange  no: EINVAL  → so\n\
             missing  no answer within 15 s: fsync\n         → end its server\n"
        );
    }
}
