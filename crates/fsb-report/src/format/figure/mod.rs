//! The overview figure as a file: SVG, PNG and PDF.

mod pdf;
mod png;
mod svg;

use std::io::{self, Write};

use super::member::Format;
use crate::figure::scene;
use crate::report::Report;

pub(super) const SVG: Format = Format {
    name: "svg",
    extension: "svg",
    about: "the overview figure for a paper, as a vector graphic",
    binary: false,
    write: write_svg,
};

pub(super) const PNG: Format = Format {
    name: "png",
    extension: "png",
    about: "the overview figure as an image of 300 dpi",
    binary: true,
    write: write_png,
};

pub(super) const PDF: Format = Format {
    name: "pdf",
    extension: "pdf",
    about: "the overview figure as a page of PDF, with its font",
    binary: true,
    write: write_pdf,
};

fn write_svg(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    output.write_all(svg::render(&scene(report)).as_bytes())
}

fn write_png(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    png::write(&scene(report), output)
}

fn write_pdf(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    output.write_all(&pdf::render(&scene(report)))
}

#[cfg(test)]
mod tests;
