//! Values that a plan may write in more than one way, if only one meaning is possible.
//!
//! `budget = 300` can only be seconds, as on the command line, and `theta = 5` can only be per cent. `theta = 0.05` may
//! be five per cent or a twentieth of one per cent, and is refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

/// A text, or another TOML value.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string, such as \"5m\" or \"3%\"")]
enum Written {
    Text(String),
    Flag(bool),
    Whole(i64),
    Number(f64),
}

impl Written {
    /// Returns the text as on the command line. A share below 1 without its sign has two meanings and is refused.
    fn text<E: de::Error>(self, is_share: bool) -> Result<String, E> {
        match self {
            Written::Text(text) => Ok(text),
            Written::Flag(flag) => Err(E::custom(format!("{flag} is not a quantity"))),
            Written::Whole(number) => Ok(number.to_string()),
            Written::Number(number) if is_share && number < 1.0 => Err(E::custom(format!(
                "{number} may be a share or less than one per cent: write it with its sign, such as \"{}%\"",
                (number * 1e4).round() / 100.0
            ))),
            Written::Number(number) => Ok(number.to_string()),
        }
    }
}

/// Reads a length of time: `"5m"`, or a number of seconds.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Written::deserialize(deserializer)?.text(false).map(Some)
}

/// Reads a share: `"5%"`, or a number of per cent from 1 on.
pub(super) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Written::deserialize(deserializer)?.text(true).map(Some)
}

/// Reads a share with its place.
pub(super) fn share_at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Spanned<String>>, D::Error> {
    at(deserializer, true)
}

/// Reads a factor with its place: `"1/8"`, `0.125`.
pub(super) fn factor_at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Spanned<String>>, D::Error> {
    at(deserializer, false)
}

fn at<'de, D: Deserializer<'de>>(deserializer: D, is_share: bool) -> Result<Option<Spanned<String>>, D::Error> {
    let written = Spanned::<Written>::deserialize(deserializer)?;
    let span = written.span();
    Ok(Some(Spanned::new(span, written.into_inner().text(is_share)?)))
}

/// Reads values of controls: `swap = false` is `swap = "off"`.
pub(super) fn controls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let written = BTreeMap::<String, Written>::deserialize(deserializer)?;
    let value = |(name, value)| match value {
        Written::Flag(flag) => Ok((name, if flag { "on" } else { "off" }.to_owned())),
        other => other.text(false).map(|text| (name, text)),
    };
    written.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use crate::plan_file;

    fn plan(head: &str, repetition: &str) -> String {
        format!(
            "targets = ['null']\n{head}\n[repetition]\n{repetition}\n[[workload]]\nname = 'write'\nfile_size = '1M'\n"
        )
    }

    #[test]
    fn numbers_and_truths_stand_for_the_texts_that_they_can_only_mean() {
        for (head, repetition, text_head, text_repetition) in [
            ("theta = 5", "budget = 300", "theta = '5%'", "budget = '5m'"),
            ("theta = 2.5", "budget = 90.5", "theta = '2.5%'", "budget = '90.5s'"),
            ("scale = 0.5", "precision = 2", "scale = '1/2'", "precision = '2%'"),
            ("scale = 1", "sample_time = 2", "", "sample_time = '2s'"),
            ("controls = { swap = false }", "blocks = 5", "controls = { swap = 'off' }", "blocks = 5"),
        ] {
            let resolved =
                |head, rest| plan_file::parse(&plan(head, rest), "p").unwrap().resolve(2, 7).map(|found| found.plan);
            assert_eq!(resolved(head, repetition).unwrap(), resolved(text_head, text_repetition).unwrap(), "{head}");
        }
    }

    #[test]
    fn a_share_that_may_be_meant_in_two_ways_is_refused_with_the_likelier_one() {
        for (head, repetition) in [("theta = 0.05", ""), ("", "precision = 0.05")] {
            let error = plan_file::parse(&plan(head, repetition), "p").unwrap_err().to_string();
            assert!(error.contains("such as \"5%\""), "{error}");
        }
        let error = plan_file::parse(&plan("theta = [5]", ""), "p").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("expected a string"), "{error}");
    }
}
