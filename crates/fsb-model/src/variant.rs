//! Variants of a command: texts that replace `{}` in it, such as the paths of two builds.

use serde_json::Value;

use crate::WorkloadSpec;
use crate::workload::DIRECTORY;

/// The placeholder in commands.
pub const PLACEHOLDER: &str = "{}";

/// The parameters of the workload `command` that hold commands, and the directory that they run in.
const COMMANDS: [&str; 6] = [
    "command", "setup", "prepare", "cleanup", "verify", DIRECTORY,
];
/// The parameter that holds a list of services, and their commands.
const SERVICE: &str = "service";
const OF_SERVICE: [&str; 2] = ["command", "ready"];

/// Returns whether a command of the workload has the placeholder.
pub fn has_placeholder(workload: &WorkloadSpec) -> bool {
    filled(workload, "") != *workload
}

/// Returns the workload with `text` in place of each `{}` in its commands. In a list of words, a
/// word `{}` becomes the words of the text, split as a shell would split them.
pub fn filled(workload: &WorkloadSpec, text: &str) -> WorkloadSpec {
    let mut filled = workload.clone();
    for (key, value) in &mut filled.params {
        if COMMANDS.contains(&key.as_str()) {
            fill(value, text);
        } else if key == SERVICE {
            fill_services(value, text);
        }
    }
    filled
}

fn fill_services(services: &mut Value, text: &str) {
    let each = match services {
        Value::Array(list) => list.as_mut_slice(),
        one => std::slice::from_mut(one),
    };
    for service in each {
        for key in OF_SERVICE {
            if let Some(command) = service.get_mut(key) {
                fill(command, text);
            }
        }
    }
}

/// Fills a line for the shell, or a list of words.
fn fill(command: &mut Value, text: &str) {
    match command {
        Value::String(line) => *line = line.replace(PLACEHOLDER, text),
        Value::Array(words) => {
            let mut all = Vec::new();
            for word in words.drain(..) {
                match word {
                    Value::String(word) if word == PLACEHOLDER => {
                        let split = shlex::split(text).unwrap_or_else(|| vec![text.to_owned()]);
                        all.extend(split.into_iter().map(Value::from));
                    }
                    Value::String(word) => all.push(word.replace(PLACEHOLDER, text).into()),
                    other => all.push(other),
                }
            }
            *words = all;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workload(params: Value) -> WorkloadSpec {
        WorkloadSpec::new("command", serde_json::from_value(params).unwrap())
    }

    #[test]
    fn every_command_is_filled_and_nothing_else() {
        let one = workload(json!({
            "command": ["{}", "-C{}", "run"], "setup": "{} init > {}", "input": ["{}"],
            "service": [{ "command": ["{}/server"], "ready": "{}/ping", "stop": "{}" }],
        }));
        let found = filled(&one, "/old -v");
        let expected = workload(json!({
            "command": ["/old", "-v", "-C/old -v", "run"], "setup": "/old -v init > /old -v", "input": ["{}"],
            "service": [{ "command": ["/old -v/server"], "ready": "/old -v/ping", "stop": "{}" }],
        }));
        assert_eq!(found, expected);
        assert!(has_placeholder(&one) && !has_placeholder(&found));
        assert!(!has_placeholder(&workload(
            json!({ "command": "true", "label": "{}" })
        )));
    }

    #[test]
    fn an_empty_text_leaves_no_word() {
        let one = workload(json!({ "command": ["prog", "{}"] }));
        assert_eq!(filled(&one, "").params["command"], json!(["prog"]));
    }
}
