//! The parts that both kinds of figures have: title, legend, cases, axis and caption.

use super::font::{fit, width, wrap};
use super::scene::{Anchor, Color, Item, Scene, marker};
use crate::view::View;
use crate::visible;

/// Seven inches: the text of a page.
pub(crate) const WIDTH: f64 = 504.0;
pub(crate) const MARGIN: f64 = 10.0;
pub(crate) const INK: Color = Color([0x1c, 0x20, 0x24]);
pub(crate) const MUTED: Color = Color([0x5c, 0x66, 0x70]);
pub(crate) const GRID: Color = Color([0xdd, 0xe1, 0xe6]);
const SOFT: Color = Color([0xf5, 0xf6, 0xf8]);
const TITLE: f64 = 11.0;
/// The size of labels.
pub(crate) const TEXT: f64 = 8.0;
/// The size of values and of the caption.
pub(crate) const SMALL: f64 = 7.0;
/// The radius of a marker.
pub(crate) const RADIUS: f64 = 2.6;
/// Labels are cut beyond this width.
const LABELS: f64 = 180.0;
/// From this height on, ticks are above the cases, too.
const TALL: f64 = 420.0;

/// A figure that is built from top to bottom.
pub(crate) struct Plot {
    items: Vec<Item>,
    /// The next free y.
    pub(crate) y: f64,
}

/// The horizontal ends of the area between labels and values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) right: f64,
}

/// The ticks of an axis: places and texts.
pub(crate) struct Ticks(pub(crate) Vec<(f64, String)>);

impl Area {
    /// Returns the area beside these labels and values.
    pub(crate) fn beside<'a>(
        labels: impl Iterator<Item = &'a str>,
        values: impl Iterator<Item = &'a str>,
    ) -> Area {
        let widest = |found: f64, next: f64| found.max(next);
        let labels = labels
            .map(|label| width(label, TEXT))
            .fold(40.0, widest)
            .min(LABELS);
        let values = values
            .map(|value| width(value, SMALL) + 8.0)
            .fold(0.0, widest);
        Area {
            left: MARGIN + labels + 8.0,
            right: WIDTH - MARGIN - values,
        }
    }
}

impl Plot {
    /// Begins with the title.
    pub(crate) fn new(title: &str) -> Plot {
        let mut plot = Plot {
            items: Vec::new(),
            y: MARGIN,
        };
        for line in wrap(&visible::line(title), TITLE, WIDTH - 2.0 * MARGIN) {
            plot.y += 13.0;
            plot.text([MARGIN, plot.y - 2.0], TITLE, Anchor::Start, INK, line);
        }
        plot.y += 4.0;
        plot
    }

    pub(crate) fn add(&mut self, item: Item) {
        self.items.push(item);
    }

    pub(crate) fn line(&mut self, from: [f64; 2], to: [f64; 2], width: f64, color: Color) {
        self.add(Item::Line {
            from,
            to,
            width,
            color,
        });
    }

    pub(crate) fn text(
        &mut self,
        at: [f64; 2],
        size: f64,
        anchor: Anchor,
        color: Color,
        text: String,
    ) {
        self.add(Item::Text {
            at,
            size,
            anchor,
            color,
            text,
        });
    }

    pub(crate) fn marker(&mut self, place: usize, center: [f64; 2], radius: f64) {
        self.items.extend(marker(place, center, radius));
    }

    /// Adds a marker and a name for each of these columns.
    pub(crate) fn legend(&mut self, names: &[String], columns: impl Iterator<Item = usize>) {
        const GAP: f64 = 16.0;
        let mut x = MARGIN;
        self.y += 11.0;
        for column in columns {
            let name = fit(
                &visible::line(&names[column]),
                TEXT,
                WIDTH - 2.0 * MARGIN - 10.0,
            );
            let needed = 10.0 + width(&name, TEXT);
            if x > MARGIN && x + needed > WIDTH - MARGIN {
                (x, self.y) = (MARGIN, self.y + 12.0);
            }
            self.marker(column, [x + 3.5, self.y - 3.0], RADIUS);
            self.text([x + 10.0, self.y], TEXT, Anchor::Start, INK, name);
            x += needed + GAP;
        }
        self.y += 7.0;
    }

    /// Adds the labels of cases on alternating backgrounds, the axis below them and its grid. The
    /// cases begin at the returned y.
    pub(crate) fn cases<'a>(
        &mut self,
        labels: impl ExactSizeIterator<Item = &'a str>,
        height: f64,
        area: Area,
        ticks: &Ticks,
        axis: &str,
    ) -> f64 {
        let total = height * labels.len() as f64;
        let at_top = total > TALL;
        if at_top {
            self.y += 10.0;
        }
        let (top, bottom) = (self.y, self.y + total);
        for (place, label) in labels.enumerate() {
            let row = top + height * place as f64;
            if place.is_multiple_of(2) {
                self.add(Item::rectangle(
                    [MARGIN, row],
                    [WIDTH - MARGIN, row + height],
                    SOFT,
                ));
            }
            let label = fit(&visible::line(label), TEXT, area.left - MARGIN - 8.0);
            self.text(
                [MARGIN + 2.0, row + height / 2.0 + 2.8],
                TEXT,
                Anchor::Start,
                INK,
                label,
            );
        }
        for (x, text) in &ticks.0 {
            self.line([*x, top], [*x, bottom], 0.5, GRID);
            self.line([*x, bottom], [*x, bottom + 3.0], 0.6, MUTED);
            self.text(
                [*x, bottom + 10.0],
                SMALL,
                Anchor::Middle,
                MUTED,
                text.clone(),
            );
            if at_top {
                self.text([*x, top - 3.0], SMALL, Anchor::Middle, MUTED, text.clone());
            }
        }
        self.line([area.left, bottom], [area.right, bottom], 0.6, MUTED);
        let middle = f64::midpoint(area.left, area.right);
        // A long title is centred on the page instead.
        let axis = fit(&visible::line(axis), TEXT, WIDTH - 2.0 * MARGIN);
        let half = width(&axis, TEXT) / 2.0;
        let middle = middle.min(WIDTH - MARGIN - half).max(MARGIN + half);
        self.text([middle, bottom + 21.0], TEXT, Anchor::Middle, INK, axis);
        self.y = bottom + 28.0;
        top
    }

    /// Adds a paragraph of the caption.
    pub(crate) fn paragraph(&mut self, text: &str) {
        for line in wrap(&visible::line(text), SMALL, WIDTH - 2.0 * MARGIN) {
            self.y += 9.0;
            self.text([MARGIN, self.y], SMALL, Anchor::Start, MUTED, line);
        }
    }

    /// Ends with the caption: the explanation, the facts of the run in one line, and the most
    /// severe warning.
    pub(crate) fn finish(mut self, view: &View<'_>, explanation: &str) -> Scene {
        let trust = view.trust.as_ref().map(|trust| trust.line.as_str());
        let facts: Vec<&str> = view.facts.iter().map(String::as_str).chain(trust).collect();
        let facts = facts.join(" · ");
        self.paragraph(explanation);
        self.paragraph(&facts);
        let mut description = format!("{} {explanation} {facts}", view.headline());
        if let Some(warning) = view.warnings[..view.urgent].first() {
            let warning = format!("Warning: {warning}.");
            self.paragraph(&warning);
            description = format!("{description} {warning}");
        }
        self.end(view.title.clone(), description)
    }

    /// Ends below what was added last.
    pub(crate) fn end(self, title: String, description: String) -> Scene {
        Scene {
            width: WIDTH,
            height: (self.y + MARGIN).ceil(),
            title,
            description,
            items: self.items,
        }
    }
}
