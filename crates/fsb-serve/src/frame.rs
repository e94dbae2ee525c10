//! The parts that all pages have.

use askama::Template;

use crate::links::Links;
use crate::problem::Problem;
use crate::query::Query;

/// The parts that all pages have.
pub(crate) struct Frame<'a> {
    pub(crate) title: String,
    pub(crate) links: &'a Links,
    /// The words of the search.
    pub(crate) search: String,
    /// The address of the page's numbers as JSON; empty without any.
    pub(crate) json: String,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(title: &str, links: &'a Links) -> Frame<'a> {
        Frame {
            title: title.to_owned(),
            links,
            search: String::new(),
            json: String::new(),
        }
    }

    /// Returns the parts of a page whose numbers are the answer at `path` below `/api` to the query
    /// of the page.
    pub(crate) fn of_api(title: &str, links: &'a Links, path: &str, query: &Query) -> Frame<'a> {
        Frame {
            json: links.api(path) + &query.to_text(),
            ..Frame::new(title, links)
        }
    }
}

/// Returns the text of a page.
pub(crate) fn render(page: &impl Template) -> Result<String, Problem> {
    page.render()
        .map_err(|error| Problem::Failed(error.to_string()))
}
