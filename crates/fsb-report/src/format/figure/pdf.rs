//! PDF: one page, with text that can be selected and the font that it is set in.

use std::collections::BTreeMap;

use miniz_oxide::deflate::compress_to_vec_zlib;
use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Content, Filter, Finish as _, Name, Pdf, Rect, Ref, Str, TextStr};

use super::svg::share;
use crate::figure::font;
use crate::figure::scene::{Color, Item, Scene};
use crate::visible;

const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);
const FONT: Ref = Ref::new(5);
const CID_FONT: Ref = Ref::new(6);
const DESCRIPTOR: Ref = Ref::new(7);
const FONT_FILE: Ref = Ref::new(8);
const TO_UNICODE: Ref = Ref::new(9);
const INFORMATION: Ref = Ref::new(10);

const FONT_NAME: Name<'static> = Name(b"F");
/// The six letters say that the font is a subset.
const BASE_FONT: Name<'static> = Name(b"FSBFIG+Arimo");
const SYSTEM: SystemInfo<'static> = SystemInfo {
    registry: Str(b"Adobe"),
    ordering: Str(b"Identity"),
    supplement: 0,
};
const COMPRESSION: u8 = 6;

/// Glyphs in use, with the letters they show.
type Glyphs = BTreeMap<u16, char>;

pub(super) fn render(scene: &Scene) -> Vec<u8> {
    let mut glyphs = Glyphs::new();
    let mut content = Content::new();
    for item in &scene.items {
        draw(&mut content, scene.height, item, &mut glyphs);
    }
    let mut pdf = Pdf::new();
    pdf.catalog(CATALOG).pages(PAGES);
    pdf.pages(PAGES).kids([PAGE]).count(1);
    let mut page = pdf.page(PAGE);
    page.media_box(Rect::new(0.0, 0.0, scene.width as f32, scene.height as f32))
        .parent(PAGES)
        .contents(CONTENT);
    page.resources().fonts().pair(FONT_NAME, FONT);
    page.finish();
    let content = compress_to_vec_zlib(content.finish().as_slice(), COMPRESSION);
    pdf.stream(CONTENT, &content).filter(Filter::FlateDecode);
    add_font(&mut pdf, &glyphs);
    let mut information = pdf.document_info(INFORMATION);
    information
        .title(TextStr(&visible::line(&scene.title)))
        .subject(TextStr(&visible::line(&scene.description)));
    information.finish();
    pdf.finish()
}

fn add_font(pdf: &mut Pdf, glyphs: &Glyphs) {
    let face = font::face();
    // Widths and heights are thousandths of the size.
    let thousandths = |units: i32| (f64::from(units) * 1000.0 / font::units_per_em()) as f32;
    pdf.type0_font(FONT)
        .base_font(BASE_FONT)
        .encoding_predefined(Name(b"Identity-H"))
        .descendant_font(CID_FONT)
        .to_unicode(TO_UNICODE);
    let mut cid = pdf.cid_font(CID_FONT);
    cid.subtype(CidFontType::Type2)
        .base_font(BASE_FONT)
        .system_info(SYSTEM)
        .font_descriptor(DESCRIPTOR);
    cid.default_width(0.0)
        .cid_to_gid_map_predefined(Name(b"Identity"));
    let mut widths = cid.widths();
    for glyph in glyphs.keys() {
        let width = face
            .glyph_hor_advance(ttf_parser::GlyphId(*glyph))
            .unwrap_or(0);
        widths.consecutive(*glyph, [thousandths(i32::from(width))]);
    }
    widths.finish();
    cid.finish();
    let bounds = face.global_bounding_box();
    let [left, bottom, right, top] = [bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max]
        .map(|units| thousandths(i32::from(units)));
    pdf.font_descriptor(DESCRIPTOR)
        .name(BASE_FONT)
        .flags(FontFlags::SYMBOLIC)
        .bbox(Rect::new(left, bottom, right, top))
        .italic_angle(0.0)
        .ascent(thousandths(i32::from(face.ascender())))
        .descent(thousandths(i32::from(face.descender())))
        .cap_height(thousandths(i32::from(
            face.capital_height().unwrap_or(1409),
        )))
        .stem_v(80.0)
        .font_file2(FONT_FILE);
    let file = compress_to_vec_zlib(font::DATA, COMPRESSION);
    pdf.stream(FONT_FILE, &file)
        .filter(Filter::FlateDecode)
        .pair(Name(b"Length1"), font::DATA.len() as i32);
    let mut map = UnicodeCmap::new(Name(b"Custom"), SYSTEM);
    glyphs
        .iter()
        .for_each(|(glyph, letter)| map.pair(*glyph, *letter));
    let map = map.finish();
    pdf.cmap(TO_UNICODE, map.as_slice());
}

/// Draws an item on a page whose y grows upwards.
fn draw(content: &mut Content, height: f64, item: &Item, glyphs: &mut Glyphs) {
    let at = |[x, y]: [f64; 2]| [x as f32, (height - y) as f32];
    match item {
        Item::Line {
            from,
            to,
            width,
            color,
        } => {
            stroke_color(content, *color);
            let ([x1, y1], [x2, y2]) = (at(*from), at(*to));
            content
                .set_line_width(*width as f32)
                .move_to(x1, y1)
                .line_to(x2, y2)
                .stroke();
        }
        Item::Polygon {
            points,
            color,
            outline,
        } => {
            set_paint(content, *color, *outline);
            for (place, point) in points.iter().enumerate() {
                let [x, y] = at(*point);
                if place == 0 {
                    content.move_to(x, y)
                } else {
                    content.line_to(x, y)
                };
            }
            content.close_path();
            paint(content, *outline);
        }
        Item::Circle {
            center,
            radius,
            color,
            outline,
        } => {
            set_paint(content, *color, *outline);
            circle(content, at(*center), *radius as f32);
            paint(content, *outline);
        }
        Item::Text {
            at: [x, y],
            size,
            anchor,
            color,
            text,
        } => {
            let [x, y] = at([x - font::width(text, *size) * share(*anchor), *y]);
            let mut codes = Vec::new();
            for (letter, glyph, _) in font::glyphs(text) {
                glyphs.entry(glyph.0).or_insert(letter);
                codes.extend(glyph.0.to_be_bytes());
            }
            fill_color(content, *color);
            content.begin_text().set_font(FONT_NAME, *size as f32);
            content
                .set_text_matrix([1.0, 0.0, 0.0, 1.0, x, y])
                .show(Str(&codes))
                .end_text();
        }
    }
}

fn circle(content: &mut Content, [x, y]: [f32; 2], radius: f32) {
    /// The distance of the control points of a quarter, for radius one.
    const CONTROL: f32 = 0.552_285;
    let near = CONTROL * radius;
    content.move_to(x + radius, y);
    content.cubic_to(x + radius, y + near, x + near, y + radius, x, y + radius);
    content.cubic_to(x - near, y + radius, x - radius, y + near, x - radius, y);
    content.cubic_to(x - radius, y - near, x - near, y - radius, x, y - radius);
    content.cubic_to(x + near, y - radius, x + radius, y - near, x + radius, y);
    content.close_path();
}

fn set_paint(content: &mut Content, color: Color, outline: Option<f64>) {
    match outline {
        None => fill_color(content, color),
        Some(width) => {
            fill_color(content, Color([255; 3]));
            stroke_color(content, color);
            content.set_line_width(width as f32);
        }
    }
}

fn paint(content: &mut Content, outline: Option<f64>) {
    match outline {
        None => content.fill_nonzero(),
        Some(_) => content.fill_nonzero_and_stroke(),
    };
}

fn channels(Color(color): Color) -> [f32; 3] {
    color.map(|channel| f32::from(channel) / 255.0)
}

fn fill_color(content: &mut Content, color: Color) {
    let [red, green, blue] = channels(color);
    content.set_fill_rgb(red, green, blue);
}

fn stroke_color(content: &mut Content, color: Color) {
    let [red, green, blue] = channels(color);
    content.set_stroke_rgb(red, green, blue);
}
