//! A view with kernels as tables show them.

use super::View;
use crate::releases::Releases;

impl View {
    /// The same with as much of each kernel's release in names as tells the run's kernels apart, and the whole of it
    /// among the facts. For people; programs get the names in full.
    pub(crate) fn shortened(&self) -> View {
        let releases = Releases::of(self.targets.iter().map(|target| target.name.as_str()));
        let mut view = self.clone();
        if releases.is_empty() {
            return view;
        }
        let shorten = |text: &mut String| *text = releases.shorten(text);
        shorten(&mut view.name);
        shorten(&mut view.headline);
        for target in &mut view.targets {
            shorten(&mut target.name);
        }
        view.rows.iter_mut().for_each(|row| shorten(&mut row.finding));
        view.findings.iter_mut().flatten().for_each(|found| shorten(&mut found.text));
        view.advice.iter_mut().chain(&mut view.stopped).for_each(shorten);
        view.warnings.iter_mut().chain(&mut view.problems).for_each(shorten);
        view.published.iter_mut().flat_map(|published| &mut published.unavailable).for_each(shorten);
        view.method.iter_mut().for_each(|paragraph| shorten(&mut paragraph.text));
        releases.explain(&mut view.facts);
        view
    }
}
