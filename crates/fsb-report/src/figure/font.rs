//! The font of figures, which is part of the program: figures look the same on a machine without
//! fonts.

use std::sync::LazyLock;

use ttf_parser::{Face, GlyphId};

/// Arimo, which is as wide as Arial, with Latin, Greek and Cyrillic letters.
pub(crate) static DATA: &[u8] = include_bytes!("../../fonts/Arimo-subset.ttf");

static FACE: LazyLock<Face<'static>> =
    LazyLock::new(|| Face::parse(DATA, 0).expect("the embedded font is a font"));

/// Returns the parsed font.
pub(crate) fn face() -> &'static Face<'static> {
    &FACE
}

/// Units of the font in its size.
pub(crate) fn units_per_em() -> f64 {
    f64::from(face().units_per_em())
}

/// Returns the glyphs of a text with their widths in units of the font. A letter that the font
/// lacks is a box.
pub(crate) fn glyphs(text: &str) -> impl Iterator<Item = (char, GlyphId, f64)> {
    text.chars().map(|letter| {
        let glyph = face().glyph_index(letter).unwrap_or(GlyphId(0));
        (
            letter,
            glyph,
            f64::from(face().glyph_hor_advance(glyph).unwrap_or(0)),
        )
    })
}

/// Returns the width of a text.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    glyphs(text).map(|(_, _, width)| width).sum::<f64>() / units_per_em() * size
}

/// Returns the text, cut with an ellipsis if it is wider than that.
pub(crate) fn fit(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut cut: Vec<char> = text.chars().collect();
    while cut.pop().is_some() {
        let shorter = cut.iter().collect::<String>().trim_end().to_owned() + "…";
        if width(&shorter, size) <= room {
            return shorter;
        }
    }
    String::new()
}

/// Returns the text in lines that are no wider than that.
pub(crate) fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size) <= room => {
                *line = format!("{line} {word}")
            }
            _ => lines.push(fit(word, size, room)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_their_room() {
        assert!(width("", 10.0) == 0.0 && width("write", 10.0) > width("i", 10.0));
        let text = "random write 4K, durable each";
        assert_eq!(fit(text, 8.0, 500.0), text);
        let cut = fit(text, 8.0, 60.0);
        assert!(cut.ends_with('…') && width(&cut, 8.0) <= 60.0, "{cut}");
        let lines = wrap(text, 8.0, 60.0);
        assert!(
            lines.len() > 1
                && lines.join(" ") == text
                && lines.iter().all(|line| width(line, 8.0) <= 60.0)
        );
        assert_eq!(
            (fit("xxx", 8.0, 0.5), wrap("", 8.0, 60.0)),
            (String::new(), Vec::new())
        );
    }

    #[test]
    fn the_font_has_the_signs_of_reports() {
        for sign in "aZ09éßµΩЖ−–±×÷%·…≤≥†[]".chars() {
            assert!(face().glyph_index(sign).is_some(), "{sign}");
        }
    }
}
