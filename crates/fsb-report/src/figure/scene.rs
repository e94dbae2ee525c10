//! The shapes and texts that a figure consists of. Lengths are points, a 72nd of an inch; y grows downwards.

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
    pub(crate) fn rectangle([left, top]: [f64; 2], [right, bottom]: [f64; 2], color: Color) -> Item {
        Item::Polygon { points: vec![[left, top], [right, top], [right, bottom], [left, bottom]], color, outline: None }
    }
}
