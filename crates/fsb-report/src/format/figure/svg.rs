//! SVG. Letters are outlines, so that the figure looks the same wherever it is shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ttf_parser::{GlyphId, OutlineBuilder};

use crate::figure::font;
use crate::figure::scene::{Anchor, Color, Item, Scene};
use crate::visible;

pub(super) fn render(scene: &Scene) -> String {
    let (width, height) = (scene.width, scene.height);
    let [title, description] = [&scene.title, &scene.description].map(|text| escaped(text));
    let mut glyphs = BTreeMap::new();
    let mut body = String::new();
    for item in &scene.items {
        self::item(&mut body, item, &mut glyphs);
    }
    let mut definitions = String::new();
    for (glyph, outline) in &glyphs {
        add(
            &mut definitions,
            format_args!("<path id=\"g{glyph}\" d=\"{outline}\"/>\n"),
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\"{width}pt\" \
         height=\"{height}pt\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{title}</title>\n\
         <desc>{description}</desc>\n<defs>\n{definitions}</defs>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

fn add(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more)
        .expect("writing to a string does not fail");
}

fn item(body: &mut String, item: &Item, glyphs: &mut BTreeMap<u16, String>) {
    match item {
        Item::Line {
            from: [x1, y1],
            to: [x2, y2],
            width,
            color,
        } => add(
            body,
            format_args!(
                "<path d=\"M{} {}L{} {}\" stroke=\"{}\" stroke-width=\"{width}\"/>\n",
                short(*x1),
                short(*y1),
                short(*x2),
                short(*y2),
                hex(*color)
            ),
        ),
        Item::Polygon {
            points,
            color,
            outline,
        } => {
            let mut path = String::new();
            for (place, [x, y]) in points.iter().enumerate() {
                let step = if place == 0 { 'M' } else { 'L' };
                add(&mut path, format_args!("{step}{} {}", short(*x), short(*y)));
            }
            add(
                body,
                format_args!("<path d=\"{path}Z\" {}/>\n", paint(*color, *outline)),
            );
        }
        Item::Circle {
            center: [x, y],
            radius,
            color,
            outline,
        } => {
            let (x, y, paint) = (short(*x), short(*y), paint(*color, *outline));
            add(
                body,
                format_args!(
                    "<circle cx=\"{x}\" cy=\"{y}\" r=\"{}\" {paint}/>\n",
                    short(*radius)
                ),
            );
        }
        Item::Text {
            at: [x, y],
            size,
            anchor,
            color,
            text,
        } => {
            let start = x - font::width(text, *size) * share(*anchor);
            let scale = size / font::units_per_em();
            let (start, y, color) = (short(start), short(*y), hex(*color));
            add(
                body,
                format_args!(
                    "<g transform=\"translate({start} {y}) scale({scale:.6} -{scale:.6})\" fill=\"{color}\">"
                ),
            );
            let mut x = 0.0;
            for (_, glyph, width) in font::glyphs(text) {
                let outline = glyphs.entry(glyph.0).or_insert_with(|| outline(glyph));
                if !outline.is_empty() {
                    add(
                        body,
                        format_args!("<use xlink:href=\"#g{}\" x=\"{x}\"/>", glyph.0),
                    );
                }
                x += width;
            }
            body.push_str("</g>\n");
        }
    }
}

/// Returns the share of a text's width that is left of its coordinate.
pub(super) fn share(anchor: Anchor) -> f64 {
    match anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => 0.5,
    }
}

fn paint(color: Color, outline: Option<f64>) -> String {
    match outline {
        Some(width) => format!(
            "fill=\"#ffffff\" stroke=\"{}\" stroke-width=\"{width}\"",
            hex(color)
        ),
        None => format!("fill=\"{}\"", hex(color)),
    }
}

fn hex(Color([red, green, blue]): Color) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Two digits are a seventh of a thousandth of an inch.
fn short(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn escaped(text: &str) -> String {
    // XML has no place for these two.
    visible::line(text)
        .replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Returns the outline of a glyph in units of the font, as the data of a path.
fn outline(glyph: GlyphId) -> String {
    struct Outline(String);
    impl OutlineBuilder for Outline {
        fn move_to(&mut self, x: f32, y: f32) {
            add(&mut self.0, format_args!("M{x} {y}"));
        }
        fn line_to(&mut self, x: f32, y: f32) {
            add(&mut self.0, format_args!("L{x} {y}"));
        }
        fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
            add(&mut self.0, format_args!("Q{x1} {y1} {x} {y}"));
        }
        fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
            add(&mut self.0, format_args!("C{x1} {y1} {x2} {y2} {x} {y}"));
        }
        fn close(&mut self) {
            self.0.push('Z');
        }
    }
    let mut outline = Outline(String::new());
    font::face().outline_glyph(glyph, &mut outline);
    outline.0
}
