//! Runs as pages: the view of a summary, and the sections and tables of its page.

mod neighbours;
pub(crate) mod sections;
mod traced_tables;
pub(crate) mod view;
