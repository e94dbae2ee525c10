//! The look of a view's columns in charts and figures: no two columns share colour, shape and dash.

/// The number of colours. The next column has the first colour again, with another shape and dash.
const COLORS: usize = 8;

/// The colours on a white background, as in the style sheet. Colour-blind readers can distinguish
/// them.
pub(crate) const LIGHT: [[u8; 3]; COLORS] = [
    [0x00, 0x72, 0xb2],
    [0xc8, 0x50, 0x0a],
    [0x00, 0x80, 0x5d],
    [0xa2, 0x3b, 0x92],
    [0x80, 0x66, 0x00],
    [0x3f, 0x34, 0xa6],
    [0x9b, 0x1f, 0x52],
    [0x56, 0x61, 0x6b],
];

/// Shapes: the name in a figure and the character in text. The first round is filled, the second
/// open, the third has other shapes.
pub(crate) const SHAPES: [(&str, &str); 3 * COLORS] = [
    ("circle", "●"),
    ("square", "■"),
    ("diamond", "◆"),
    ("triangle-up", "▲"),
    ("cross", "✚"),
    ("x", "✖"),
    ("star", "★"),
    ("hexagon", "⬢"),
    ("circle-open", "○"),
    ("square-open", "□"),
    ("diamond-open", "◇"),
    ("triangle-up-open", "△"),
    ("pentagon-open", "⬠"),
    ("triangle-down-open", "▽"),
    ("star-open", "☆"),
    ("hexagon-open", "⬡"),
    ("pentagon", "⬟"),
    ("triangle-down", "▼"),
    ("triangle-left", "◀"),
    ("triangle-right", "▶"),
    ("circle-open-dot", "◉"),
    ("square-open-dot", "▣"),
    ("diamond-open-dot", "◈"),
    ("hourglass", "⧗"),
];

/// The dashes of lines, one per round through the colours.
const DASHES: [&str; 4] = ["solid", "dash", "dot", "dashdot"];

/// Returns the number of a column's colour.
pub(crate) fn hue(place: usize) -> usize {
    place % COLORS
}

/// Returns the colour of a column.
pub(crate) fn color(place: usize) -> String {
    format!("var(--t{})", hue(place))
}

/// Returns the name of the column's shape in a figure.
pub(crate) fn symbol(place: usize) -> &'static str {
    SHAPES[place % SHAPES.len()].0
}

/// Returns the column's shape in text.
pub(crate) fn shape(place: usize) -> &'static str {
    SHAPES[place % SHAPES.len()].1
}

/// Returns the name of the column's dash.
pub(crate) fn dash(place: usize) -> &'static str {
    DASHES[place / COLORS % DASHES.len()]
}

/// Returns the fill of a column's areas: its colour with an opacity that depends on the round
/// (light, transparent, stronger).
pub(crate) fn fill(place: usize) -> String {
    format!("{}{}", color(place), ["33", "00", "77"][place / COLORS % 3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_on_white_are_those_of_the_style_sheet() {
        let style = include_str!("../templates/style.css");
        let colour = |(place, [red, green, blue]): (usize, &[u8; 3])| {
            format!("--t{place}: #{red:02x}{green:02x}{blue:02x};")
        };
        let colours: Vec<String> = LIGHT.iter().enumerate().map(colour).collect();
        assert!(style.contains(&colours.join(" ")), "{colours:?}");
    }
}
