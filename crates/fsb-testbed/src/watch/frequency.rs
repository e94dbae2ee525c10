//! The frequency that the processors report.

use fsb_sys::Roots;
use fsb_sys::error::Refusal;

use super::source::{Finish, LEAST, Source, Watched, one};

pub(super) struct Frequency;

impl Source for Frequency {
    fn name(&self) -> &'static str {
        "frequency"
    }

    fn about(&self) -> &'static str {
        "Mean clock frequency of the processors before and after: the smaller of the two."
    }

    fn probe(&self, place: &Watched<'_>) -> Result<(), Refusal> {
        hertz(place.roots).map(drop).ok_or_else(|| "the kernel shows no frequencies (no cpufreq)".into())
    }

    fn begin(&self, place: &Watched<'_>) -> Option<Finish> {
        let roots = place.roots.clone();
        let before = hertz(&roots)?;
        Some(Box::new(move || {
            let least = before.min(hertz(&roots).unwrap_or(before));
            one(&format!("cpu_frequency_hertz{LEAST}"), least)
        }))
    }
}

fn hertz(roots: &Roots) -> Option<f64> {
    let all: Vec<f64> = super::throttle::processors(roots)
        .filter_map(|name| roots.sys_text(&format!("devices/system/cpu/{name}/cpufreq/scaling_cur_freq"))?.parse().ok())
        .collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() * 1000.0 / all.len() as f64)
}
