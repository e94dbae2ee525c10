//! Creating files: the name, the inode and, where files are not empty, their data.

use fsb_model::metric::OPERATION_RATE;
use fsb_model::{Access, Durability};

use super::measure::{ItemThreads, Subject, measure_set};
use super::params;
use super::spec::{Change, Records, Rules, SimpleWorkload, Spec};
use crate::backend::{Flush, Purpose, Verb};
use crate::error::EngineError;
use crate::fileset::{Content, Interest};
use crate::io_loop::IoLoop;
use crate::profile::Profile;

/// The member.
pub(super) static CREATE: SimpleWorkload = SimpleWorkload {
    rules: Rules {
        name: "create",
        records: Records::WholeFile,
        access: &[Access::Sequential],
        ..Rules::BASE
    },
    about: "create files with their data: open, write, close, and fsync where each is durable",
    example: || {
        params::from_pairs([
            ("files", 12.into()),
            ("files_per_directory", 5.into()),
            ("durability", "each".into()),
        ])
    },
    content: Content::Directories,
    change: Change::Nothing,
    profile: |spec| Profile {
        primary: &OPERATION_RATE,
        cold_bytes_per_operation: 0,
        only_writes: true,
        ..spec
            .profile("create", spec.files_label("create"))
            .consuming()
    },
    measure: |spec, profile, context, gate| {
        let set = spec.open_set(context)?;
        let threads = ItemThreads {
            spec,
            set: &set,
            context,
            purpose: Purpose::Create,
            act: |io: &mut IoLoop<'_>, file| create(spec, io, file),
        };
        let verb = (spec.layout.file_size > 0).then_some(Verb::Write);
        let subject = Subject {
            interest: Interest::Names,
            content: Content::Directories,
            verb,
        };
        Ok(measure_set(&threads, &set, subject, profile, context, gate)?.0)
    },
};

/// Makes a file with its data.
fn create(spec: &Spec, io: &mut IoLoop<'_>, file: u64) -> Result<u64, EngineError> {
    let size = spec.layout.file_size;
    let slot = io.open(file)?;
    let mut offset = 0;
    while offset < size {
        let length = spec.block_size.min(size - offset);
        io.transfer(slot, file, offset, length)?;
        offset += length;
    }
    if spec.durability == Durability::Each {
        io.flush(slot, file, Flush::All)?;
    }
    io.close(slot, file)?;
    Ok(size)
}
