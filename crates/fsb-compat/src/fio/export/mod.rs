//! Exports a plan as fio's job file: a section for each case, and the reasons for missing cases.

mod data;
mod engine;
mod names;
mod records;
mod row;
mod section;
mod share;

use crate::export::exporter::{Export, ExportFile, Exporter};
use crate::export::request::{ExportCase, Request, plain};
use crate::export::script::{self, ScriptStep, Tool};

use section::Section;

/// Writes job files.
pub(crate) const EXPORTER: Exporter = Exporter {
    name: "fio",
    about: "a job file with a section for each case, and a script that formats and mounts the targets",
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
    let step = |(name, _, section): &(String, &ExportCase, Section)| ScriptStep {
        name: name.clone(),
        cold: section.cold,
        prepared: section.prepared,
        durable: section.durable,
    };
    let steps: Vec<ScriptStep> = sections.iter().map(step).collect();
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

/// The options of all cases. Each line is there because fio would otherwise do something that fsb does not do.
const GLOBAL: &str = "\
[global]
# Files are below the working directory, in NAME.files for each case: fio would take a directory NAME for a file.
# No hints to the kernel, no preallocation, and dropped caches only where a case begins cold.
fadvise_hint=0
fallocate=none
invalidate=0
# Buffers are page-aligned, and fio measures one latency for each operation.
iomem_align=4096
disable_slat=1
disable_lat=1
group_reporting=1
";

fn text(request: &Request, sections: &[(String, &ExportCase, Section)], left_out: &[(String, String)]) -> String {
    let Request { name, author, units, seed, .. } = request;
    let mut text = format!(
        "# The cases of '{name}' that fio can run. Written by {author}.\n\
         # A case has the units of fsb, one after the other: here {units} of them, or as many as fit.\n\
         # {name}.sh makes each target, prepares the files of a case, empties caches where it begins cold, and calls\n\
         #   fio --section=CASE {name}.fio\n"
    );
    if !left_out.is_empty() {
        text += "#\n# Cases that fio cannot run:\n";
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
