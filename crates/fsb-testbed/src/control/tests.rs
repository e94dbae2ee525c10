use std::collections::BTreeMap;

use fsb_sys::Roots;

use super::*;

fn asked(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn members_are_unique_and_described() {
    let roots = Roots::default();
    let mut names = std::collections::BTreeSet::new();
    for control in REGISTRY {
        let name = control.name();
        assert!(names.insert(name), "{name} twice");
        assert!(!control.about().is_empty() && !control.about().contains('\n'), "{name}");
        assert!(!control.values().is_empty(), "{name} takes nothing");
        for value in control.values() {
            assert!(!value.about.is_empty() && !value.about.contains('\n'), "{name}={}", value.name);
        }
        let default = &control.values()[0];
        assert!(!default.stands_for_many(), "the default of {name} is not a value");
        check(&asked(&[(name, default.name)]), &roots).unwrap();
        assert_eq!(value_of(*control, &BTreeMap::new()), default.name);
        assert_eq!(value_of(*control, &asked(&[(name, "other")])), "other");
        assert!(!control.observe(&roots, &TargetDevice::default()).is_empty(), "{name}");
    }
}

#[test]
fn nonsense_is_a_wrong_request_everywhere() {
    let roots = Roots { proc: "/nonexistent".into(), sys: "/nonexistent".into() };
    for control in REGISTRY {
        for value in ["", "no such value!"] {
            let refused = control.check(value, &roots).unwrap_err();
            assert_eq!(refused.kind, crate::Kind::Request, "{}={value}: {refused}", control.name());
        }
    }
}

#[test]
fn slips_get_the_nearest_name() {
    let refusal = |name: &str, value: &str| check(&asked(&[(name, value)]), &Roots::default()).unwrap_err().to_string();
    assert!(refusal("page-cach", "remount").contains("did you mean 'page-cache'"));
    assert!(refusal("page-cache", "remout").contains("did you mean 'remount'"));
    assert!(refusal("guest-memory", "perhaps").contains("known are auto, off"));
}

#[test]
fn a_name_alone_asks_for_what_stands_behind_keep() {
    for (name, value) in [("swap", "off"), ("governor", "performance"), ("barriers", "off"), ("scheduler", "none")] {
        assert_eq!(value_of_name(name).unwrap(), value);
    }
    for (name, word) in
        [("cpus", "cpus=VALUE: keep, LIST"), ("guest-memory", "needs a value"), ("swop", "did you mean 'swap'")]
    {
        let refused = value_of_name(name).unwrap_err().to_string();
        assert!(refused.contains(word), "{refused}");
    }
}

#[test]
fn targets_ask_for_themselves_only_what_ends_with_their_visit() {
    let refused = check_target(&asked(&[("guest-memory", "off")]), &Roots::default()).unwrap_err();
    assert_eq!(refused.kind, crate::Kind::Request);
    assert!(refused.to_string().contains("for the whole run"), "{refused}");
}
