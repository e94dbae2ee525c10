//! Figures as files: the overview as SVG, PNG and PDF, and all figures of a report as SVG and PNG.

mod pdf;
mod png;
mod svg;

use std::io::{self, Write};

use super::member::Format;
use crate::figure::scene::Scene;
use crate::figure::{all, overview};
use crate::fleet::{self, Fleet};
use crate::report::Report;

pub(super) const SVG: Format = Format {
    name: "svg",
    extension: "svg",
    about: "the overview figure for a paper, as a vector graphic",
    binary: false,
    checks: false,
    write: write_svg,
};

pub(super) const PNG: Format = Format {
    name: "png",
    extension: "png",
    about: "the overview figure as an image of 300 dpi",
    binary: true,
    checks: false,
    write: write_png,
};

pub(super) const PDF: Format = Format {
    name: "pdf",
    extension: "pdf",
    about: "the overview figure as a page of PDF, with its font",
    binary: true,
    checks: false,
    write: write_pdf,
};

fn write_svg(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    output.write_all(svg::render(&overview(report)).as_bytes())
}

fn write_png(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    png::write(&overview(report), output)
}

fn write_pdf(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    output.write_all(&pdf::render(&overview(report)))
}

/// A figure of a report.
#[derive(Debug)]
pub struct Figure {
    /// A name without an extension, unique in the report, that depends on the subject of the figure
    /// alone.
    pub name: String,
    scene: Scene,
}

impl Figure {
    /// Returns the figure as SVG.
    pub fn svg(&self) -> String {
        svg::render(&self.scene)
    }

    /// Writes the figure as PNG.
    pub fn write_png(&self, output: &mut dyn Write) -> io::Result<()> {
        png::write(&self.scene, output)
    }

    /// Writes the figure as PDF.
    pub fn write_pdf(&self, output: &mut dyn Write) -> io::Result<()> {
        output.write_all(&pdf::render(&self.scene))
    }
}

/// Returns all figures of a fleet, the overview first.
pub fn fleet_figures(fleet: &Fleet) -> Vec<Figure> {
    fleet::figure::all(fleet)
        .into_iter()
        .map(|(name, scene)| Figure { name, scene })
        .collect()
}

/// Returns all figures of a report, the overview first.
pub fn figures(report: &Report<'_>) -> Vec<Figure> {
    all(report)
        .into_iter()
        .map(|(name, scene)| Figure { name, scene })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    fn figure(format: &Format) -> Vec<u8> {
        let (record, trials) = sample::run(&["ext4", "xfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        let report = Report::of_run(&summary, &trials);
        let file = format.render_bytes(&report);
        assert_eq!(
            file,
            format.render_bytes(&report),
            "the file depends on the run only"
        );
        file
    }

    #[test]
    fn an_svg_needs_no_font() {
        let text = String::from_utf8(figure(&SVG)).expect("text");
        assert!(
            text.starts_with("<svg ") && !text.contains("<text") && !text.contains("font-family")
        );
        assert!(
            text.contains("seed 42") && text.contains("<path id=\"g"),
            "{text}"
        );
    }

    #[test]
    fn an_image_has_300_dots_per_inch() {
        let image = figure(&PNG);
        let mut reader = ::png::Decoder::new(std::io::Cursor::new(&image))
            .read_info()
            .expect("PNG");
        let dots = reader.info().pixel_dims.expect("a density");
        assert_eq!((dots.xppu, reader.info().width), (11811, 2100));
        let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
        reader.next_frame(&mut pixels).expect("an image");
        let share = |wanted: [u8; 3]| {
            pixels.chunks(3).filter(|pixel| *pixel == wanted).count() as f64 / pixels.len() as f64
        };
        assert!(
            share([255; 3]) > 0.1 && share([0xc8, 0x50, 0x0a]) > 0.0002,
            "white, and the second colour"
        );
    }

    #[test]
    fn a_pdf_has_one_page_and_its_font() {
        let file = figure(&PDF);
        let text = String::from_utf8_lossy(&file);
        assert!(text.starts_with("%PDF-1.") && text.trim_end().ends_with("%%EOF"));
        for part in [
            "/Type /Page\n",
            "/FontFile2",
            "/ToUnicode",
            "/MediaBox [0 0 504 ",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
}
