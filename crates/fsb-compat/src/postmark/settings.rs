//! The settings of a run, and the output of `show`.

use std::fmt::Write;

use fsb_model::postmark::Shape;
use serde::{Deserialize, Serialize};

/// The form of the report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Style {
    /// For people.
    #[default]
    Verbose,
    /// One line of numbers.
    Terse,
}

/// A directory for files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    pub path: String,
    /// Its share of the files.
    pub weight: u32,
}

/// Everything that commands can set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The parameters that determine the operations. `whole_shape` adds the weights of the locations.
    pub shape: Shape,
    /// The seed of the generator.
    pub seed: u32,
    /// The directories of the files; the working directory if there are none.
    pub locations: Vec<Location>,
    /// Bytes of one read.
    pub read_block: u32,
    /// Bytes of one write.
    pub write_block: u32,
    /// Uses the streams of the C library if true, system calls if false.
    pub buffered: bool,
    /// The form of the report.
    pub style: Style,
}

impl Default for Settings {
    /// Returns the settings that PostMark starts with.
    fn default() -> Settings {
        Settings {
            shape: Shape::default(),
            seed: 42,
            locations: Vec::new(),
            read_block: 512,
            write_block: 512,
            buffered: true,
            style: Style::Verbose,
        }
    }
}

impl Settings {
    /// Returns the shape with the locations' weights.
    pub(crate) fn whole_shape(&self) -> Shape {
        Shape { weights: self.locations.iter().map(|location| location.weight).collect(), ..self.shape.clone() }
    }

    /// Returns the answer to `show`.
    pub fn show(&self, working_directory: &str) -> String {
        let Shape { size_low, size_high, number, transactions, subdirectories, bias_read, bias_create, .. } =
            self.shape;
        let mut text =
            format!("Current configuration is:\nThe base number of files is {number}\nTransactions: {transactions}\n");
        _ = match size_low == size_high {
            true => writeln!(text, "Files are {} in size", scaled(size_low)),
            false => writeln!(text, "Files range between {} and {} in size", scaled(size_low), scaled(size_high)),
        };
        let (ies, here) = match self.locations.len() {
            0 => ("y", working_directory),
            1 => ("y", ""),
            _ => ("ies", ""),
        };
        _ = writeln!(text, "Working director{ies}: {here}");
        for Location { path, weight } in &self.locations {
            _ = writeln!(text, "\t{path} (weight={weight})");
        }
        if subdirectories > 0 {
            let ies = if subdirectories == 1 { "y" } else { "ies" };
            _ = writeln!(text, "{subdirectories} subdirector{ies} will be used");
        }
        let (read, write) = (scaled(self.read_block), scaled(self.write_block));
        let using = if self.buffered { "Using" } else { "Not using" };
        let style = match self.style {
            Style::Verbose => "verbose",
            Style::Terse => "terse",
        };
        _ = write!(
            text,
            "Block sizes are: read={read}, write={write}\n\
             Biases are: read/append={bias_read}, create/delete={bias_create}\n\
             {using} Unix buffered file I/O\n\
             Random number generator seed is {}\n\
             Report format is {style}.\n",
            self.seed
        );
        text
    }
}

/// Bytes in the unit that PostMark takes.
fn scaled(bytes: u32) -> String {
    match bytes {
        0x10_0000.. => format!("{:.2} megabytes", bytes as f32 / 1_048_576.0),
        0x400.. => format!("{:.2} kilobytes", bytes as f32 / 1024.0),
        _ => format!("{bytes} bytes"),
    }
}
