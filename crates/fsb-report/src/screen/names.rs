//! Names short enough to head a column.

use textwrap::core::display_width;

/// Longer names are shortened.
const NAME: usize = 18;

/// Names in full and as a table shows them.
pub(crate) struct Names {
    full: Vec<String>,
    shown: Vec<String>,
}

impl Names {
    pub(crate) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Names {
        let full: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let mut shown: Vec<String> = Vec::new();
        for name in &full {
            let short = shortened(name);
            // Names that begin alike are told apart by a number.
            let name = match shown.contains(&short) {
                true => format!("{}#{}", short, shown.len() + 1),
                false => short,
            };
            shown.push(name);
        }
        Names { full, shown }
    }

    pub(crate) fn shown(&self, place: usize) -> &str {
        self.shown.get(place).map_or("", String::as_str)
    }

    /// One line for every name that was shortened.
    pub(crate) fn legend(&self) -> Vec<String> {
        let pairs = self.shown.iter().zip(&self.full);
        pairs.filter(|(shown, full)| shown != full).map(|(shown, full)| format!("{shown} is {full}")).collect()
    }
}

fn shortened(name: &str) -> String {
    if display_width(name) <= NAME {
        return name.to_owned();
    }
    let mut short = String::new();
    for c in name.chars() {
        if display_width(&short) + 2 > NAME - 2 {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}
