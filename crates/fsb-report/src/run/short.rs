//! A summary with kernels as tables show them.

use std::borrow::Cow;

use super::summary::Summary;
use crate::releases::Releases;

/// The same with as much of each kernel's release in names as tells the run's kernels apart, and what was shortened.
/// For people; programs get the names in full.
pub(crate) fn shortened(summary: &Summary) -> (Cow<'_, Summary>, Releases) {
    let releases = Releases::of(summary.targets.iter().map(|target| target.name.as_str()));
    if releases.is_empty() {
        return (Cow::Borrowed(summary), releases);
    }
    let shorten = |text: &mut String| *text = releases.shorten(text);
    let mut summary = summary.clone();
    shorten(&mut summary.name);
    shorten(&mut summary.headline);
    for target in &mut summary.targets {
        shorten(&mut target.name);
    }
    summary.rows.iter_mut().for_each(|row| shorten(&mut row.finding));
    summary.findings.iter_mut().flatten().for_each(|found| shorten(&mut found.text));
    summary.advice.iter_mut().chain(&mut summary.stopped).for_each(shorten);
    summary.trust.iter_mut().flat_map(|trust| trust.because.iter_mut().chain(&mut trust.help)).for_each(shorten);
    summary.warnings.iter_mut().chain(&mut summary.problems).for_each(shorten);
    summary.published.iter_mut().flat_map(|published| &mut published.unavailable).for_each(shorten);
    summary.method.iter_mut().for_each(|paragraph| shorten(&mut paragraph.text));
    (Cow::Owned(summary), releases)
}
