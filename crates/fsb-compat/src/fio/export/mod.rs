//! A plan as fio's job file: a section a row, and why rows are missing.

mod data;
mod engine;
mod names;
mod records;
mod row;
mod section;
mod share;

use crate::export::exporter::{Export, ExportFile, Exporter};
use crate::export::request::{Request, Row, plain};
use crate::export::script::{self, Step, Tool};

use section::Section;

/// Writes job files.
pub(crate) const EXPORTER: Exporter = Exporter {
    name: "fio",
    about: "a job file with a section a row, and a script that makes and mounts targets",
    export,
};

fn export(request: &Request) -> Export {
    let (mut sections, mut left_out) = (Vec::new(), Vec::new());
    for (number, row) in (1..).zip(&request.rows) {
        match row::section(row, request) {
            Ok(section) => sections.push((format!("{number:02}-{}", plain(&row.label)), row, section)),
            Err(why) => left_out.push((row.label.clone(), why)),
        }
    }
    let jobs = format!("{}.fio", request.name);
    let step = |(name, _, section): &(String, &Row, Section)| Step {
        name: name.clone(),
        cold: section.cold,
        prepared: section.prepared,
        durable: section.durable,
    };
    let steps: Vec<Step> = sections.iter().map(step).collect();
    let fio = "fio --section=\"$1\" --output-format=json";
    let tool = Tool {
        program: "fio",
        prepare: format!("{fio} --create_only=1 --output=/dev/null \"$here/{jobs}\""),
        measure: format!("{fio} --output=\"$2.json\" \"$here/{jobs}\""),
        compare: "Afterwards: fsb compare RESULTS/TARGET RESULTS/TARGET",
    };
    let script = script::script(request, &tool, &steps);
    Export {
        files: vec![
            ExportFile { name: jobs, text: text(request, &sections, &left_out), is_program: false },
            ExportFile { name: format!("{}.sh", request.name), text: script, is_program: true },
        ],
        rows: sections.len(),
        left_out,
    }
}

/// What holds for all rows. Each line is there because fio does otherwise what fsb does not.
const GLOBAL: &str = "\
[global]
# Files lie below the working directory, a directory a row; one with the row's own name fio would take for a file.
# No hints to the kernel, no space set aside beforehand, nothing dropped from the cache unless a row begins cold.
fadvise_hint=0
fallocate=none
invalidate=0
# Buffers begin on a page, and one latency is taken an operation.
iomem_align=4096
disable_slat=1
disable_lat=1
group_reporting=1
";

fn text(request: &Request, sections: &[(String, &Row, Section)], left_out: &[(String, String)]) -> String {
    let Request { name, author, units, seed, .. } = request;
    let mut text = format!(
        "# The rows of '{name}' that fio can do. Written by {author}.\n\
         # A row is done as fsb measures it: in units, here {units} of them or as many as fit, one after the other.\n\
         # {name}.sh makes each target, prepares the files of a row, empties caches where it begins cold, and calls\n\
         #   fio --section=ROW {name}.fio\n"
    );
    if !left_out.is_empty() {
        text += "#\n# Rows that fio cannot do:\n";
    }
    for (label, why) in left_out {
        text += &format!("#   {label}: {why}\n");
    }
    text += &format!("\n{GLOBAL}randseed={seed}\n");
    for (section_name, row, section) in sections {
        text += &format!("\n# {}\n[{section_name}]\nstonewall\nfilename_format={section_name}.files/", row.label);
        text += if section.jobs_have_files { "$jobnum.$filenum\n" } else { "$filenum\n" };
        for line in &section.remarks {
            text += &format!("# {line}\n");
        }
        for (key, value) in &section.options {
            text += &format!("{key}={value}\n");
        }
    }
    text
}
