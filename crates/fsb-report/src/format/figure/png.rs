//! PNG of 300 dpi.

use std::io::{self, Write};

use tiny_skia::{FillRule, Paint, Path, PathBuilder, Pixmap, Stroke, Transform};
use ttf_parser::{GlyphId, OutlineBuilder};

use super::svg::share;
use crate::figure::font;
use crate::figure::scene::{Color, Item, Scene};

const DPI: f64 = 300.0;
/// Figures with more pixels than this, 160 MB, get fewer dots per inch.
const MOST_PIXELS: f64 = 4e7;

pub(super) fn write(scene: &Scene, output: &mut dyn Write) -> io::Result<()> {
    let full = DPI / 72.0;
    let scale = full.min((MOST_PIXELS / (scene.width * scene.height)).sqrt());
    let pixels = |length: f64| (length * scale).ceil().max(1.0) as u32;
    let (width, height) = (pixels(scene.width), pixels(scene.height));
    let mut image = Pixmap::new(width, height)
        .ok_or_else(|| io::Error::other("the figure is too large for an image"))?;
    image.fill(tiny_skia::Color::WHITE);
    let mut canvas = Canvas {
        image,
        transform: Transform::from_scale(scale as f32, scale as f32),
    };
    for item in &scene.items {
        canvas.draw(item);
    }
    // The background is opaque, so every pixel is.
    let colors: Vec<u8> = canvas
        .image
        .data()
        .chunks_exact(4)
        .flat_map(|pixel| [pixel[0], pixel[1], pixel[2]])
        .collect();
    // The encoder's errors do not tell a closed pipe from others: it writes to memory.
    let mut encoded = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut encoded, width, height);
    encoder.set_color(::png::ColorType::Rgb);
    encoder.set_depth(::png::BitDepth::Eight);
    let per_metre = (scale * 72.0 / 0.0254).round() as u32;
    encoder.set_pixel_dims(Some(::png::PixelDimensions {
        xppu: per_metre,
        yppu: per_metre,
        unit: ::png::Unit::Meter,
    }));
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&colors)?;
    writer.finish()?;
    output.write_all(&encoded)
}

struct Canvas {
    image: Pixmap,
    transform: Transform,
}

fn paint(Color([red, green, blue]): Color) -> Paint<'static> {
    let mut paint = Paint {
        anti_alias: true,
        ..Paint::default()
    };
    paint.set_color_rgba8(red, green, blue, 255);
    paint
}

impl Canvas {
    fn draw(&mut self, item: &Item) {
        match item {
            Item::Line {
                from,
                to,
                width,
                color,
            } => {
                self.stroke(lines(&[*from, *to], false), *color, *width);
            }
            Item::Polygon {
                points,
                color,
                outline,
            } => self.shape(lines(points, true), *color, *outline),
            Item::Circle {
                center: [x, y],
                radius,
                color,
                outline,
            } => {
                self.shape(
                    PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32),
                    *color,
                    *outline,
                );
            }
            Item::Text {
                at: [x, y],
                size,
                anchor,
                color,
                text,
            } => {
                let scale = size / font::units_per_em();
                let mut outline = Outline {
                    path: PathBuilder::new(),
                    x: 0.0,
                    y: *y as f32,
                    scale: scale as f32,
                };
                let mut x = x - font::width(text, *size) * share(*anchor);
                for (_, glyph, width) in font::glyphs(text) {
                    outline.add(glyph, x);
                    x += width * scale;
                }
                self.fill(outline.path.finish(), *color);
            }
        }
    }

    /// A shape is filled, or is an outline on white.
    fn shape(&mut self, path: Option<Path>, color: Color, outline: Option<f64>) {
        match outline {
            None => self.fill(path, color),
            Some(width) => {
                self.fill(path.clone(), Color([255; 3]));
                self.stroke(path, color, width);
            }
        }
    }

    fn fill(&mut self, path: Option<Path>, color: Color) {
        if let Some(path) = path {
            self.image.fill_path(
                &path,
                &paint(color),
                FillRule::Winding,
                self.transform,
                None,
            );
        }
    }

    fn stroke(&mut self, path: Option<Path>, color: Color, width: f64) {
        if let Some(path) = path {
            let stroke = Stroke {
                width: width as f32,
                ..Stroke::default()
            };
            self.image
                .stroke_path(&path, &paint(color), &stroke, self.transform, None);
        }
    }
}

fn lines(points: &[[f64; 2]], is_closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (place, [x, y]) in points.iter().enumerate() {
        match place {
            0 => path.move_to(*x as f32, *y as f32),
            _ => path.line_to(*x as f32, *y as f32),
        }
    }
    if is_closed {
        path.close();
    }
    path.finish()
}

/// The outlines of glyphs, whose y grows upwards.
struct Outline {
    path: PathBuilder,
    x: f32,
    y: f32,
    scale: f32,
}

impl Outline {
    fn add(&mut self, glyph: GlyphId, x: f64) {
        self.x = x as f32;
        font::face().outline_glyph(glyph, self);
    }

    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, self.y - y * self.scale)
    }
}

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
