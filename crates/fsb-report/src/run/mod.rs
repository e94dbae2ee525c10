//! Runs: their results, and the parts of a report on them.

mod assemble;
mod beside;
mod causes;
mod compare_earlier;
mod costs;
pub(crate) mod curve;
mod device;
mod earlier;
pub(crate) mod environment;
mod facts;
mod geometry;
pub(crate) mod groups;
pub(crate) mod headline;
pub(crate) mod interference;
pub(crate) mod joined_timeline;
pub(crate) mod latency;
mod method;
pub(crate) mod published;
mod report_trial;
pub(crate) mod risks;
mod roles;
mod rows;
mod samples;
mod scaling;
pub(crate) mod sections;
pub(crate) mod summary;
mod tables;
mod timelines;
mod trust;
pub(crate) mod unjudged;
pub(crate) mod view;
mod warnings;
mod withheld;

pub use causes::{Cause, CauseKind, Explanation};
pub use curve::{By, Scaling};
pub use device::device_text;
pub use earlier::{CellChange, CellValue, EarlierRun};
pub use environment::{EnvironmentRow, EnvironmentTable};
pub use latency::{Latency, Quantile};
pub use published::{Published, PublishedLayout, PublishedRate, PublishedRow, PublishedTable, PublishedValue};
pub use report_trial::{
    MetricKind, ReportTrial, ShownCell, ShownExtras, ShownMetric, ShownTrials, Times, TrialFields, writes,
};
pub use roles::{Program, ROLES, Role};
pub use rows::{RowNow, row_states};
pub use summary::{
    Lost, Measured, Overall, Secondary, State, Summary, TargetSummary, TrialPoint, Trust, TrustLevel, Workload,
};
pub use withheld::Withheld;
pub use withheld::{by_record as withheld_by_record, in_rounds};

#[cfg(test)]
mod tests;
