//! Makes the metrics of a trial from its measured values.

use fsb_engine::{Measurement, Profile, latency};
use fsb_model::host::DeviceRates;
use fsb_model::metric::{self, MetricKind, WITH_DEFERRED};
use fsb_model::trial::{NOT_SUSTAINED, Reason, Samples};
use fsb_model::{Better, Durability, Metric, Unit};

use crate::agent::Measured;

/// Returns the metrics of a trial. Targets are compared by the first one.
///
/// Returns an error if the first metric would be meaningless: nothing was timed, a rate was not
/// sustained, or a command printed no number.
pub fn metrics(
    profile: &Profile,
    measured: &Measured,
    samples: &Samples,
) -> Result<Vec<Metric>, Reason> {
    if measured.work.timed_ns == 0 || measured.work.operations == 0 || samples.timed_ns.contains(&0)
    {
        return Err("nothing was timed: the sample is shorter than the clock's resolution".into());
    }
    let is_percentile = is_percentile(profile);
    let first = if is_percentile {
        percentile(profile, measured)?
    } else if !printed(profile).is_empty() {
        said(profile, measured)
            .next()
            .ok_or("it printed no number")?
    } else if samples.is_empty() {
        steady(primary(profile, &measured.work), measured)
    } else {
        typical(profile, measured, samples)
    };
    let mut metrics = vec![first];
    if is_percentile {
        metrics.push(metric::OPERATION_RATE.metric(rate_of(&measured.work)));
    }
    if !printed(profile).is_empty() {
        metrics.extend(said(profile, measured).skip(1));
        metrics.push(primary(profile, &measured.work));
    }
    metrics.extend(with_deferred(&metrics[0], measured));
    metrics.extend(around_steady(measured));
    metrics.extend(rates(measured));
    metrics.extend(workers(measured));
    let first = metrics[0].name.clone();
    metrics.extend(
        latencies(profile, measured)
            .into_iter()
            .filter(|metric| metric.name != first),
    );
    metrics.extend(costs(measured));
    metrics.extend(deferred(profile, measured));
    Ok(metrics)
}

/// Returns the names of the numbers that a command prints, with their direction.
fn printed(profile: &Profile) -> &[(String, Better)] {
    profile
        .program
        .as_ref()
        .map_or(&[], |program| &program.printed)
}

/// Returns the numbers that a command printed, as means over its repetitions.
fn said<'m>(
    profile: &'m Profile,
    measured: &'m Measured,
) -> impl Iterator<Item = Metric> + use<'m> {
    printed(profile).iter().filter_map(|(name, better)| {
        let values = measured
            .printed
            .get(name)
            .filter(|values| !values.is_empty())?;
        let value = values.iter().sum::<f64>() / values.len() as f64;
        Some(Metric {
            name: name.clone(),
            value,
            unit: Unit::Count,
            better: *better,
        })
    })
}

/// Returns whether targets are compared by the 99th percentile of the latency.
pub fn is_percentile(profile: &Profile) -> bool {
    profile.primary.name == metric::LATENCY_P99.name
}

/// Returns the 99th percentile. Returns an error if there are too few operations, or if the rate of
/// an open-loop load was not sustained.
fn percentile(profile: &Profile, measured: &Measured) -> Result<Metric, Reason> {
    /// The share of the rate that must be reached. The last operations end after the last one was
    /// started.
    const KEPT: f64 = 0.98;
    let done = rate_of(&measured.work);
    if let Some(rate) = profile.rate.filter(|rate| done < *rate as f64 * KEPT) {
        let show = fsb_model::units::show_rate;
        let why = format!("not sustained: {} of {}", show(done), show(rate as f64));
        return Err(Reason::new(&NOT_SUSTAINED, why));
    }
    let histogram = measured.work.latency.get(profile.operation);
    let p99 = histogram.and_then(|histogram| latency::quantile(histogram, 0.99));
    p99.map(|p99| metric::LATENCY_P99.metric(p99))
        .ok_or_else(|| {
            let (few, least) = (measured.work.operations, profile.fewest);
            format!("{few} operations are too few for the 99th percentile: {least} at least").into()
        })
}

fn rate_of(work: &Measurement) -> f64 {
    work.operations as f64 / (work.timed_ns as f64 * 1e-9)
}

/// Returns the geometric mean of the samples' rates. Its logarithm is the mean over rounds, because
/// targets are compared round by round.
fn typical(profile: &Profile, measured: &Measured, samples: &Samples) -> Metric {
    let logarithms = samples
        .timed_ns
        .iter()
        .map(|ns| libm::log(*ns as f64 * 1e-9))
        .sum::<f64>();
    let seconds = libm::exp(logarithms / samples.timed_ns.len() as f64);
    let operations = samples.operations as f64;
    let all_operations = measured.work.operations as f64;
    let sample = Measurement {
        timed_ns: (seconds * 1e9) as u64,
        operations: samples.operations,
        bytes: (measured.work.bytes as f64 * operations / all_operations) as u64,
        ..Measurement::default()
    };
    primary(profile, &sample)
}

/// Returns the rate of the steady part if the work continued until it was steady, or else `whole`.
fn steady(whole: Metric, measured: &Measured) -> Metric {
    let share = measured
        .sustained
        .map_or(1.0, |sustained| sustained.rate / rate_of(&measured.work));
    Metric {
        value: whole.value * share,
        ..whole
    }
}

/// Returns the metrics that describe the steady state: the rate before it, its drift, and the
/// number of journal writes.
fn around_steady(measured: &Measured) -> impl Iterator<Item = Metric> {
    let found = measured.sustained.map(|sustained| {
        [
            sustained
                .first_rate
                .map(|rate| metric::BEFORE_STEADY.metric(rate / sustained.rate)),
            Some(metric::STEADY_DRIFT.metric(1.0 + sustained.drift)),
            sustained
                .turns
                .map(|turns| metric::JOURNAL_TURNS.metric(turns)),
        ]
    });
    found.into_iter().flatten().flatten()
}

fn primary(profile: &Profile, work: &Measurement) -> Metric {
    let seconds = work.timed_ns as f64 * 1e-9;
    let kind = profile.primary;
    let value = match kind.name {
        name if name == metric::THROUGHPUT.name => work.bytes as f64 / seconds,
        name if name == metric::ITERATION_TIME.name => {
            work.samples.iter().sum::<f64>() / work.samples.len().max(1) as f64
        }
        name if name == metric::COMMAND_TIME.name || name == metric::MAINTENANCE_TIME.name => {
            seconds / work.operations as f64
        }
        // Of all repetitions, each of which is the whole trace.
        name if name == metric::REPLAY_TIME.name => {
            seconds * profile.operations as f64 / work.operations as f64
        }
        // Of all repetitions, each of which is the whole tree.
        name if name == metric::TREE_TIME.name => {
            seconds * profile.operations as f64 / work.operations as f64
        }
        _ => rate_of(work),
    };
    kind.metric(value)
}

/// Returns the rate that targets are compared by, as if the clock had continued until the target
/// was idle.
fn with_deferred(primary: &Metric, measured: &Measured) -> Option<Metric> {
    let [_, _, later] = measured.deferred?.per_operation()?;
    // The factor by which an operation takes longer.
    let longer =
        1.0 + later * measured.work.operations as f64 / (measured.work.timed_ns as f64 * 1e-9);
    let value = if primary.better == Better::Higher {
        primary.value / longer
    } else {
        primary.value * longer
    };
    Some(metric::find(&format!("{}{WITH_DEFERRED}", primary.name))?.metric(value))
}

/// Returns the metrics of deferred work.
fn deferred(profile: &Profile, measured: &Measured) -> Vec<Metric> {
    let Some([bytes, flushes, seconds]) = measured
        .deferred
        .and_then(|deferred| deferred.per_operation())
    else {
        return Vec::new();
    };
    let written = measured.device_written.filter(|_| profile.only_writes);
    let amplification = written.and_then(|written| write_amplification(measured, written));
    let left = [
        metric::DEFERRED_BYTES_PER_OPERATION.metric(bytes),
        metric::DEFERRED_FLUSHES_PER_OPERATION.metric(flushes),
        metric::DEFERRED_TIME_PER_OPERATION.metric(seconds),
    ];
    left.into_iter()
        .chain(amplification.map(|times| metric::WRITE_AMPLIFICATION.metric(times)))
        .collect()
}

/// Returns the bytes that the device wrote for each byte that the workload wrote, including
/// deferred work.
fn write_amplification(measured: &Measured, device_written: u64) -> Option<f64> {
    let deferred = measured.deferred?;
    let later = deferred.per_operation()?[0] * measured.work.operations as f64;
    (measured.work.bytes > 0).then(|| (device_written as f64 + later) / measured.work.bytes as f64)
}

/// Returns the rate of each operation of a workload with several operations.
fn rates(measured: &Measured) -> impl Iterator<Item = Metric> {
    let timed = measured
        .work
        .rates
        .iter()
        .filter(|(_, rate)| rate.timed_ns > 0);
    timed.filter_map(|(name, rate)| {
        Some(metric::find(name)?.metric(rate.amount as f64 / (rate.timed_ns as f64 * 1e-9)))
    })
}

/// Returns the rates of several workers that moved data. The rate while all of them worked
/// describes a device better than the rate of the whole sample, whose end is the work of the
/// slowest only.
fn workers(measured: &Measured) -> Vec<Metric> {
    let wall = measured.work.stonewall.filter(|wall| wall.timed_ns > 0);
    let wall = wall.map(|wall| {
        metric::STONEWALL_RATE.metric(wall.bytes as f64 / (wall.timed_ns as f64 * 1e-9))
    });
    let working = measured
        .work
        .workers
        .iter()
        .filter(|worker| worker.bytes > 0 && worker.timed_ns > 0);
    let rates: Vec<f64> = working
        .map(|worker| worker.bytes as f64 / (worker.timed_ns as f64 * 1e-9))
        .collect();
    if wall.is_none() || rates.is_empty() {
        return Vec::new();
    }
    let [least, mean, most] = metric::spread(&rates);
    let shares = [
        metric::WORKER_RATE_MIN.metric(least),
        metric::WORKER_RATE_MEAN.metric(mean),
        metric::WORKER_RATE_MAX.metric(most),
    ];
    wall.into_iter().chain(shares).collect()
}

/// Returns the percentiles of the workload's own operation. Those of its syncs are in the
/// histograms.
fn latencies(profile: &Profile, measured: &Measured) -> Vec<Metric> {
    let Some(histogram) = measured.work.latency.get(profile.operation) else {
        return Vec::new();
    };
    let quantiles: [(&MetricKind, f64); 4] = [
        (&metric::LATENCY_P50, 0.5),
        (&metric::LATENCY_P90, 0.9),
        (&metric::LATENCY_P99, 0.99),
        (&metric::LATENCY_P999, 0.999),
    ];
    let mean = latency::mean(histogram).map(|mean| metric::LATENCY_MEAN.metric(mean));
    let known = quantiles
        .into_iter()
        .filter_map(|(kind, q)| Some(kind.metric(latency::quantile(histogram, q)?)));
    let longest = latency::longest(histogram).map(|longest| metric::LATENCY_MAX.metric(longest));
    mean.into_iter().chain(known).chain(longest).collect()
}

/// Returns the rate as a share of the most similar rate of the raw device. Returns `None` for work
/// without a similar rate: in memory, on names alone, or mixed.
pub fn share_of_device(profile: &Profile, primary: &Metric, device: DeviceRates) -> Option<Metric> {
    let bytes = primary.name == metric::THROUGHPUT.name;
    let cold = profile.cache.begins_cold()
        && !profile.metadata_only
        && profile.cold_bytes_per_operation > 0;
    let like = match profile.durability {
        _ if is_percentile(profile) => return None,
        Durability::Each if profile.only_writes && !bytes => device.flushed_writes,
        Durability::End if profile.only_writes && bytes => device.write,
        Durability::None if cold && bytes => device.read,
        Durability::None if cold && primary.name == metric::OPERATION_RATE.name => {
            device.random_reads
        }
        _ => return None,
    };
    (like > 0.0).then(|| metric::SHARE_OF_DEVICE.metric(primary.value / like))
}

fn costs(measured: &Measured) -> Vec<Metric> {
    let operations = measured.work.operations as f64;
    let server = measured.server;
    let of_server = server.map_or(0.0, |server| server.cpu_seconds);
    let cpu = (measured.work.user_seconds + measured.work.system_seconds + of_server) / operations;
    let bytes = measured
        .device_bytes
        .map(|bytes| metric::DEVICE_BYTES_PER_OPERATION.metric(bytes as f64 / operations));
    let flushes = measured
        .device_flushes
        .map(|count| metric::DEVICE_FLUSHES_PER_OPERATION.metric(count as f64 / operations));
    let rpcs = measured
        .rpcs
        .as_ref()
        .map(|rpcs| metric::RPCS_PER_OPERATION.metric(rpcs.calls as f64 / operations));
    let wire = measured
        .rpcs
        .as_ref()
        .map(|rpcs| rpcs.sent_bytes + rpcs.received_bytes);
    let wire = wire.map(|bytes| metric::WIRE_BYTES_PER_OPERATION.metric(bytes as f64 / operations));
    let count = |name: &str| measured.work.counts.get(name).map(|count| *count as f64);
    let extents = count("extents")
        .zip(count("files"))
        .map(|(extents, files)| extents / files);
    let extents = extents.map(|extents| metric::EXTENTS_PER_FILE.metric(extents));
    let memory = measured
        .work
        .peak_memory
        .map(|bytes| metric::PEAK_MEMORY.metric(bytes as f64));
    let failed = count(metric::FAILED_RUNS.name);
    let shell = measured.work.shell_start;
    let space = measured
        .space
        .map(|space| metric::SPACE.metric(space as f64));
    [
        Some(metric::CPU_PER_OPERATION.metric(cpu)),
        failed.map(|runs| metric::FAILED_RUNS.metric(runs)),
        shell.map(|seconds| metric::SHELL_START.metric(seconds)),
        server
            .map(|server| metric::SERVER_CPU_PER_OPERATION.metric(server.cpu_seconds / operations)),
        server.map(|server| metric::SERVER_MEMORY.metric(server.memory_bytes as f64)),
        bytes,
        flushes,
        rpcs,
        wire,
        space,
        extents,
        memory,
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsb_model::observed::{Deferred, Rpcs};
    use fsb_testbed::ServerUse;

    #[test]
    fn calls_and_bytes_on_the_wire_are_costs_of_an_operation() {
        let rpcs = Rpcs {
            calls: 30,
            sent_bytes: 500,
            received_bytes: 1500,
            ..Rpcs::default()
        };
        let measured = Measured {
            work: Measurement {
                operations: 10,
                ..Measurement::default()
            },
            rpcs: Some(rpcs),
            ..Measured::default()
        };
        let value = |name: &str| {
            costs(&measured)
                .into_iter()
                .find(|metric| metric.name == name)
                .unwrap()
                .value
        };
        assert_eq!(
            (
                value("rpcs_per_operation"),
                value("wire_bytes_per_operation")
            ),
            (3.0, 200.0)
        );
        assert!(
            costs(&Measured::default())
                .iter()
                .all(|metric| !metric.name.starts_with("rpcs"))
        );
    }

    #[test]
    fn the_time_of_a_server_is_part_of_the_cpu_time_and_a_cost_of_its_own() {
        let measured = Measured {
            work: Measurement {
                operations: 10,
                user_seconds: 1.0,
                system_seconds: 2.0,
                ..Measurement::default()
            },
            server: Some(ServerUse {
                cpu_seconds: 7.0,
                memory_bytes: 4096,
            }),
            ..Measured::default()
        };
        let found: Vec<(String, f64)> = costs(&measured)
            .into_iter()
            .map(|metric| (metric.name, metric.value))
            .collect();
        let expected = [
            ("cpu_per_operation", 1.0),
            ("server_cpu_per_operation", 0.7),
            ("server_memory", 4096.0),
        ];
        assert_eq!(
            found,
            expected.map(|(name, value)| (name.to_owned(), value))
        );
    }

    #[test]
    fn amplification_counts_what_comes_later() {
        let deferred = Some(Deferred {
            operations: 20,
            bytes: 4000,
            ..Deferred::default()
        });
        let measured = Measured {
            work: Measurement {
                operations: 10,
                bytes: 1000,
                ..Measurement::default()
            },
            deferred,
            ..Measured::default()
        };
        assert_eq!(write_amplification(&measured, 500), Some(2.5));
        assert_eq!(write_amplification(&Measured::default(), 500), None);
    }
}
