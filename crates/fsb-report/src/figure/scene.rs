//! The shapes and texts that a figure consists of, and the markers of targets. Lengths are points,
//! a 72nd of an inch; y grows downwards.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use crate::palette;

/// Red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Color(pub(crate) [u8; 3]);

/// The point of a text that its coordinate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
}

/// A shape or a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    Line {
        from: [f64; 2],
        to: [f64; 2],
        width: f64,
        color: Color,
    },
    /// Filled, or only its outline.
    Polygon {
        points: Vec<[f64; 2]>,
        color: Color,
        outline: Option<f64>,
    },
    Circle {
        center: [f64; 2],
        radius: f64,
        color: Color,
        outline: Option<f64>,
    },
    Text {
        at: [f64; 2],
        size: f64,
        anchor: Anchor,
        color: Color,
        text: String,
    },
}

/// A figure, ready to be drawn on white.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scene {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) title: String,
    /// The caption, for a screen reader.
    pub(crate) description: String,
    pub(crate) items: Vec<Item>,
}

impl Item {
    pub(crate) fn rectangle(
        [left, top]: [f64; 2],
        [right, bottom]: [f64; 2],
        color: Color,
    ) -> Item {
        Item::Polygon {
            points: vec![[left, top], [right, top], [right, bottom], [left, bottom]],
            color,
            outline: None,
        }
    }
}

/// The width of the outline of an open marker.
const OUTLINE: f64 = 1.0;

/// Returns the colour of a column.
pub(crate) fn color(place: usize) -> Color {
    Color(palette::LIGHT[palette::hue(place)])
}

/// Returns the marker of a column.
pub(crate) fn marker(place: usize, center: [f64; 2], radius: f64) -> Vec<Item> {
    let symbol = palette::symbol(place);
    let (symbol, has_dot) = symbol
        .strip_suffix("-dot")
        .map_or((symbol, false), |symbol| (symbol, true));
    let (shape, is_open) = symbol
        .strip_suffix("-open")
        .map_or((symbol, false), |shape| (shape, true));
    let color = color(place);
    let outline = is_open.then_some(OUTLINE);
    let round = |radius, outline| Item::Circle {
        center,
        radius,
        color,
        outline,
    };
    let mut items = vec![match corners(shape) {
        Some(corners) => {
            let points = corners
                .iter()
                .map(|[x, y]| [center[0] + x * radius, center[1] + y * radius])
                .collect();
            Item::Polygon {
                points,
                color,
                outline,
            }
        }
        None => round(radius * 0.9, outline),
    }];
    if has_dot {
        items.push(round(radius * 0.3, None));
    }
    items
}

/// Returns the corners of a shape within a circle of radius one. Returns `None` for the circle.
fn corners(shape: &str) -> Option<Vec<[f64; 2]>> {
    Some(match shape {
        "square" => regular(4, FRAC_PI_4, 1.15),
        "diamond" => regular(4, 0.0, 1.15),
        "triangle-up" => regular(3, -FRAC_PI_2, 1.2),
        "triangle-down" => regular(3, FRAC_PI_2, 1.2),
        "triangle-left" => regular(3, PI, 1.2),
        "triangle-right" => regular(3, 0.0, 1.2),
        "pentagon" => regular(5, -FRAC_PI_2, 1.1),
        "hexagon" => regular(6, 0.0, 1.1),
        "star" => star(),
        "cross" => cross(0.0),
        "x" => cross(FRAC_PI_4),
        "hourglass" => vec![[-0.9, -1.0], [0.9, -1.0], [-0.9, 1.0], [0.9, 1.0]],
        _ => return None,
    })
}

fn polar(radius: f64, angle: f64) -> [f64; 2] {
    [radius * libm::cos(angle), radius * libm::sin(angle)]
}

fn regular(corners: usize, first: f64, radius: f64) -> Vec<[f64; 2]> {
    (0..corners)
        .map(|corner| polar(radius, first + 2.0 * PI * corner as f64 / corners as f64))
        .collect()
}

fn star() -> Vec<[f64; 2]> {
    let radius = |corner: usize| if corner.is_multiple_of(2) { 1.25 } else { 0.5 };
    (0..10)
        .map(|corner| polar(radius(corner), -FRAC_PI_2 + PI * corner as f64 / 5.0))
        .collect()
}

fn cross(turned: f64) -> Vec<[f64; 2]> {
    /// Half the width of an arm, and its length.
    const ARM: [f64; 2] = [0.38, 1.15];
    let [half, long] = ARM;
    let arm = [[half, -half], [half, -long], [-half, -long], [-half, -half]];
    let turn = |[x, y]: [f64; 2], angle: f64| {
        let (sin, cos) = (libm::sin(angle), libm::cos(angle));
        [x * cos - y * sin, x * sin + y * cos]
    };
    // Three corners an arm: the fourth is the first one of the next arm.
    (0..4)
        .flat_map(|quarter| {
            arm[1..]
                .iter()
                .map(move |at| turn(*at, turned - f64::from(quarter) * FRAC_PI_2))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_dozen_markers_differ_without_colour() {
        let plain = |item: &Item| match item {
            Item::Polygon {
                points, outline, ..
            } => format!("{points:.2?} {outline:?}"),
            Item::Circle {
                radius, outline, ..
            } => format!("{radius} {outline:?}"),
            _ => unreachable!("markers are shapes"),
        };
        let drawn: std::collections::BTreeSet<String> = (0..24)
            .map(|place| {
                marker(place, [0.0, 0.0], 3.0)
                    .iter()
                    .map(plain)
                    .collect::<Vec<_>>()
                    .join("; ")
            })
            .collect();
        assert_eq!(drawn.len(), 24);
        assert_ne!(color(0), color(1));
    }
}
