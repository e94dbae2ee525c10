//! One self-contained page: opens from `file://`, with the network off, without JavaScript too.

mod charts;
mod numbers;
mod page;
mod sizes;
mod tables;

use askama::Template as _;

use super::short::shortened;
use super::view::View;
use super::{Format, Page as Shown};
use page::Page;

pub(super) const FORMAT: Format =
    Format { name: "html", extension: "html", about: "one self-contained page with charts, for a browser", render };

/// The whole page.
pub fn render(shown: &Shown<'_>) -> String {
    let (document, releases) = shortened(shown.document);
    let shown = Shown { document: &document, ..*shown };
    let mut view = View::of(&shown);
    releases.explain(&mut view.facts);
    Page::of(&shown, &view).render().expect("writing to a string does not fail") + "\n"
}

#[cfg(test)]
mod tests;
