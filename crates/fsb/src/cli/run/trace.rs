//! A trace as the workload: `fsb run ext4 xfs --trace app.trace --pace none`.

use std::path::PathBuf;

use clap::Args;
use fsb_model::{Params, WorkloadSpec};
use serde_json::json;

use crate::cli::help::heading;
use crate::{code, exit};

/// Options of a replay.
#[derive(Debug, Args)]
pub struct TraceArguments {
    /// Replay a trace of 'fsb record'
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = heading::WORKLOAD)]
    trace: Option<PathBuf>,
    /// Think time between the calls of a replay: recorded, none, or a factor [default: recorded]
    #[arg(long, value_name = "P", hide_short_help = true, help_heading = heading::WORKLOAD)]
    pace: Option<String>,
    /// Replay a trace although it is incomplete
    #[arg(long, hide_short_help = true, help_heading = heading::WORKLOAD)]
    force: bool,
}

impl TraceArguments {
    /// Returns the replay as a workload; `None` without a trace.
    pub fn workload(&self) -> anyhow::Result<Option<WorkloadSpec>> {
        let Some(trace) = &self.trace else {
            return match self.pace.is_none() && !self.force {
                true => Ok(None),
                false => Err(exit::failure(&code::MISSING, "--pace and --force belong to a trace: --trace FILE")),
            };
        };
        if cfg!(not(feature = "traces")) {
            return Err(exit::advised(
                &code::UNABLE,
                "--trace: this fsb was built without the feature traces",
                "build it with cargo build --release -p fsb",
            ));
        }
        let path = std::path::absolute(trace)?;
        let path = path
            .to_str()
            .ok_or_else(|| exit::failure(&code::INVALID_VALUE, "--trace: its path is not text (UTF-8)"))?;
        let mut params = Params::new();
        params.insert("trace".to_owned(), json!(path));
        if let Some(pace) = &self.pace {
            params.insert("pace".to_owned(), json!(pace));
        }
        if self.force {
            params.insert("force".to_owned(), json!(true));
        }
        Ok(Some(WorkloadSpec::new("replay", params)))
    }
}
