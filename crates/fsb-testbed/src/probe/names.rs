//! Calls on names and attributes.

use rustix::fs::{
    CWD, Mode, OFlags, RenameFlags, XattrFlags, fgetxattr, fsetxattr, link, open, renameat_with,
    stat, unlink,
};
use rustix::io::Errno;

use super::property::Answer;
use super::surroundings::Surroundings;
use super::trial_file::{LENGTH, TrialFile, new_name};

pub(super) fn unnamed(_: &Surroundings) -> Result<Answer, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    open(".", flags, Mode::RUSR | Mode::WUSR)?;
    Ok(Answer::works())
}

pub(super) fn attribute(_: &Surroundings) -> Result<Answer, Errno> {
    const NAME: &str = "user.fsb-probe";
    const VALUE: &[u8] = b"probe";
    let trial = TrialFile::with_bytes(LENGTH)?;
    let file = trial.open(OFlags::empty())?;
    fsetxattr(&file, NAME, VALUE, XattrFlags::empty())?;
    let mut found = [0; 16];
    let length = fgetxattr(&file, NAME, &mut found[..])?;
    Ok(match found.get(..length) {
        Some(VALUE) => Answer::works(),
        _ => Answer::no("setxattr returns, but getxattr finds another value"),
    })
}

pub(super) fn second_link(_: &Surroundings) -> Result<Answer, Errno> {
    let trial = TrialFile::with_bytes(LENGTH)?;
    let name = new_name();
    link(trial.name(), &name)?;
    let found = stat(&name);
    let _ = unlink(&name);
    found.map(|_| Answer::works())
}

pub(super) fn exchange(_: &Surroundings) -> Result<Answer, Errno> {
    let (first, one) = TrialFile::create(OFlags::empty())?;
    let (second, two) = TrialFile::create(OFlags::empty())?;
    drop((one, two));
    renameat_with(CWD, first.name(), CWD, second.name(), RenameFlags::EXCHANGE)?;
    Ok(Answer::works())
}

pub(super) fn modes(surroundings: &Surroundings) -> Result<Answer, Errno> {
    Ok(match surroundings.mode & 0o777 {
        0o700 => Answer::yes("kept"),
        other => Answer::no(format!("fixed: a directory made with 700 has {other:o}")),
    })
}
