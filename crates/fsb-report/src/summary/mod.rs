//! The results of a run as numbers and sentences, assembled from a record and its trials. A
//! [`Summary`] knows nothing of pages and formats.

mod advice;
mod assemble;
pub mod bounds;
mod cases;
pub(crate) mod causes;
mod cell_sentence;
pub(crate) mod claims;
pub(crate) mod costs;
mod device;
mod earlier;
pub(crate) mod environment;
mod facts;
mod geometry;
pub(crate) mod headline;
mod inputs;
pub(crate) mod interference;
pub(crate) mod latency;
mod match_published;
mod matrix;
mod method;
mod model;
pub(crate) mod neighbours;
pub(crate) mod over;
pub(crate) mod published;
pub(crate) mod published_order;
pub(crate) mod risks;
pub(crate) mod roles;
pub(crate) mod samples;
pub(crate) mod scaling;
pub(crate) mod timeline;
pub(crate) mod traced;
pub(crate) mod traced_work;
mod trial_value;
mod trust;
mod unproven;
mod warnings;
mod withheld;

pub(crate) use advice::rough;
pub use cases::{CaseNow, case_states};
pub use causes::{Cause, CauseKind, Explanation};
pub use claims::{ClaimValues, PublishedClaim, PublishedClaims};
pub use device::device_text;
pub(crate) use device::{bottom_device, disk_kind};
pub use environment::{EnvironmentRow, EnvironmentTable};
pub use inputs::SummaryInputs;
pub use latency::{Latency, Quantile};
pub use model::{
    AloneAndBeside, BackgroundRate, BesideBackground, BoundAnswer, BoundState, By, CellChange,
    CellState, CellValue, EarlierRun, Lost, MeasuredCell, Numbers, Overall, QuantileSlowdown,
    RateAlone, Scaling, Secondary, Slowdown, Summary, TargetSummary, TrialPoint, Trust, TrustLevel,
    Workload,
};
pub(crate) use model::{BlockGroup, MOST_TRIALS, group_size};
pub use published::{
    Published, PublishedFigure, PublishedLayout, PublishedRate, PublishedRow, PublishedSum,
    PublishedTable, PublishedValue,
};
pub use published_order::{OrderOutcome, OrderSubject, PublishedOrder};
pub use roles::{ROLES, Role};
pub use timeline::{ShownWarmUp, WarmUps};
pub use traced::{TracedCause, TracedExplanation};
pub use traced_work::{
    CommitRate, KernelThreadTime, LockContention, PerOperation, RequestRate, TimeFrame, TracedWork,
};
pub use trial_value::{
    CompactTrial, Cycles, MetricKind, MetricValue, Times, TrialCell, TrialExtras, writes,
};
pub use withheld::{Withheld, by_record as withheld_by_record, in_rounds};

#[cfg(test)]
mod tests;
