//! The query parameters of an address, which hold the state of a page.

use fsb_model::setting::THETA;
use fsb_model::units::parse_percent;

use crate::problem::Problem;

/// Names and values in the order of the address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// The rules of an analysis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rules {
    /// The smallest ratio that matters, less one.
    pub(crate) theta: f64,
    /// Conditions that do not separate environments.
    pub(crate) across: Vec<String>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            theta: THETA,
            across: Vec::new(),
        }
    }
}

impl Query {
    pub(crate) fn parse(text: &str) -> Query {
        Query(
            form_urlencoded::parse(text.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// Returns all names and values that are not empty.
    pub(crate) fn pairs(self) -> Vec<(String, String)> {
        self.0
            .into_iter()
            .filter(|(_, value)| !value.trim().is_empty())
            .collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the parameters that are not empty as the end of an address: `?theta=5%25`. Returns
    /// an empty text if there are none.
    pub(crate) fn to_text(&self) -> String {
        let mut parameters = form_urlencoded::Serializer::new(String::new());
        parameters.extend_pairs(self.clone().pairs());
        let text = parameters.finish();
        if text.is_empty() {
            text
        } else {
            format!("?{text}")
        }
    }

    /// Returns all values of a parameter that are not empty.
    pub(crate) fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        let named = self
            .0
            .iter()
            .filter(move |(known, value)| known == name && !value.trim().is_empty());
        named.map(|(_, value)| value.trim())
    }

    /// Returns the last value of a parameter, or an empty text if the address has none.
    pub(crate) fn last<'q>(&'q self, name: &'q str) -> &'q str {
        self.all(name).last().unwrap_or_default()
    }

    /// Returns the rules of the analysis: `theta` and `across`.
    pub(crate) fn rules(&self) -> Result<Rules, Problem> {
        let theta = match self.last("theta") {
            "" => THETA,
            text => {
                parse_percent(text).map_err(|error| Problem::Invalid(format!("theta: {error}")))?
            }
        };
        let mut across: Vec<String> = self.all("across").map(str::to_owned).collect();
        across.sort();
        across.dedup();
        Ok(Rules { theta, across })
    }

    /// Returns the number of the page of a list, from 1 on.
    pub(crate) fn page(&self) -> Result<usize, Problem> {
        match self.last("page") {
            "" => Ok(1),
            text => {
                let number = text.parse().ok().filter(|number| *number > 0);
                number.ok_or_else(|| {
                    Problem::Invalid(format!("page: '{text}' is not a number of a page"))
                })
            }
        }
    }

    /// Returns whether a text contains every word of the parameter `q`, ignoring case.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.last("q")
            .to_lowercase()
            .split_whitespace()
            .all(|word| text.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_checked() {
        let query =
            Query::parse("q=Write+1M&across=kernel&across=kernel&across=&theta=5%25&page=2");
        let rules = query.rules().unwrap();
        assert_eq!(
            (rules.theta, &rules.across[..], query.page().unwrap()),
            (0.05, &["kernel".to_owned()][..], 2)
        );
        assert_eq!(
            query.to_text(),
            "?q=Write+1M&across=kernel&across=kernel&theta=5%25&page=2"
        );
        assert_eq!(Query::parse("q=&x= ").to_text(), "");
        assert!(query.matches("write 1m on xfs") && !query.matches("read 1M"));
        assert!(
            Query::parse("").matches("anything")
                && Query::parse("").rules().unwrap() == Rules::default()
        );
        for wrong in ["page=0", "page=-1", "page=x"] {
            assert!(
                matches!(Query::parse(wrong).page(), Err(Problem::Invalid(_))),
                "{wrong}"
            );
        }
        assert!(matches!(
            Query::parse("theta=much").rules(),
            Err(Problem::Invalid(_))
        ));
    }
}
