//! The parts that all pages have.

use askama::Template;

use crate::links::Links;
use crate::problem::Problem;

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
        Frame { title: title.to_owned(), links, search: String::new(), json: String::new() }
    }
}

/// Returns the text of a page.
pub(crate) fn render(page: &impl Template) -> Result<String, Problem> {
    page.render().map_err(|error| Problem::Failed(error.to_string()))
}
