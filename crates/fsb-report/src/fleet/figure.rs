//! The figures of a fleet: all comparisons with their means, and the hosts of each comparison.

use fsb_model::Better;
use fsb_stats::{Interval, RandomEffects};

use super::document::{Fleet, FleetComparison};
use super::text::{change, speed, speed_interval, summary_text};
use crate::figure::forest::{Ratio, RatioScale, point};
use crate::figure::plot::{Area, INK, MUTED, Plot, SMALL};
use crate::figure::scene::{Anchor, Item, Scene, color};
use crate::figure::{make_names_unique, plain};

/// Lays the figures of a fleet out: all comparisons, and the hosts of each comparison.
pub(crate) fn all(fleet: &Fleet) -> Vec<(String, Scene)> {
    let mut figures = vec![("overview".to_owned(), of_all_comparisons(fleet))];
    let forests = fleet
        .comparisons
        .iter()
        .filter(|comparison| !comparison.hosts.is_empty());
    figures.extend(forests.map(|comparison| {
        let name = format!(
            "hosts-{}-{}",
            plain(&comparison.workload),
            plain(&comparison.target)
        );
        (name, of_hosts(fleet, comparison))
    }));
    make_names_unique(&mut figures);
    figures
}

/// The height of a line with a label.
const LINE: f64 = 13.0;
/// Half the height of a diamond.
const DIAMOND: f64 = 4.0;
/// With more hosts than this, their names have no room.
const NAMED: usize = 60;
/// The height of the lines of more hosts.
const PAGE: f64 = 600.0;
/// Scales contain at least changes of this size.
const SMALLEST: f64 = 0.03;
/// The column whose color and marker a host and a mean have.
const HOST: usize = 0;
const MEAN: usize = 1;

const EXPLANATION: &str = "Diamonds: mean ratio of all hosts by a random-effects model (REML), with the 95 % interval of \
    Hartung, Knapp, Sidik and Jonkman; lines through them: 95 % prediction interval for the next host.";

/// Lays out the means of all comparisons.
fn of_all_comparisons(fleet: &Fleet) -> Scene {
    let shown: Vec<(&FleetComparison, &RandomEffects)> = fleet
        .comparisons
        .iter()
        .filter_map(|one| Some((one, one.together.as_ref()?)))
        .collect();
    let several = shown.iter().any(|(one, _)| one.target != shown[0].0.target);
    let labels: Vec<String> = shown
        .iter()
        .map(|(one, _)| match several {
            true => format!("{}: {}", one.target, one.workload),
            false => one.workload.clone(),
        })
        .collect();
    let texts: Vec<String> = shown
        .iter()
        .map(|(one, mean)| change(mean.ratio, mean.interval, one.better))
        .collect();
    let area = Area::beside(
        labels.iter().map(String::as_str),
        texts.iter().map(String::as_str),
    );
    let points: Vec<Ratio> = shown
        .iter()
        .map(|(one, mean)| widest(mean, one.better))
        .collect();
    let scale = RatioScale::around(&points, SMALLEST, area);
    let target = shown
        .first()
        .filter(|_| !several)
        .map_or("targets", |(one, _)| one.target.as_str());
    let title = format!(
        "{target} against {}, {} hosts",
        fleet.baseline,
        fleet.hosts.len()
    );
    let mut plot = Plot::new(&title);
    let top = plot.cases(
        labels.iter().map(String::as_str),
        LINE,
        area,
        &scale.ticks(),
        &axis(fleet),
    );
    zero(&mut plot, &scale, top, shown.len() as f64 * LINE);
    for (place, (one, mean)) in shown.iter().enumerate() {
        let y = top + LINE * (place as f64 + 0.5);
        diamond(&mut plot, &scale, y, mean, one.better);
        plot.text(
            [area.right + 8.0, y + 2.4],
            SMALL,
            Anchor::Start,
            INK,
            texts[place].clone(),
        );
    }
    plot.paragraph(EXPLANATION);
    let sentences: Vec<&str> = shown.iter().map(|(one, _)| one.sentence.as_str()).collect();
    plot.end(title, sentences.join(" "))
}

/// Lays out the hosts of one comparison below their mean.
fn of_hosts(fleet: &Fleet, comparison: &FleetComparison) -> Scene {
    let FleetComparison {
        hosts,
        better,
        together,
        ..
    } = comparison;
    let is_named = hosts.len() <= NAMED;
    let height = if is_named {
        LINE
    } else {
        PAGE / hosts.len() as f64
    };
    let labels: Vec<&str> = hosts
        .iter()
        .map(|host| if is_named { host.host.as_str() } else { "" })
        .collect();
    let texts: Vec<String> = match is_named {
        true => hosts
            .iter()
            .map(|host| change(host.ratio, Some(host.interval), *better))
            .collect(),
        false => Vec::new(),
    };
    let mean_text = together
        .as_ref()
        .map(|mean| change(mean.ratio, mean.interval, *better));
    let all_texts = texts.iter().chain(&mean_text).map(String::as_str);
    let area = Area::beside(
        labels.iter().copied().chain(["mean of all hosts"]),
        all_texts,
    );
    let ratio = |(ratio, interval): (f64, Interval)| {
        (
            speed(ratio, *better),
            Some(speed_interval(interval, *better)),
        )
    };
    let points: Vec<Ratio> = hosts
        .iter()
        .map(|host| ratio((host.ratio, host.interval)))
        .collect();
    let of_mean = together.iter().map(|mean| widest(mean, *better));
    let scale = RatioScale::around(
        &points.iter().copied().chain(of_mean).collect::<Vec<_>>(),
        SMALLEST,
        area,
    );
    let title = format!(
        "{} against {}: {}",
        comparison.target, fleet.baseline, comparison.workload
    );
    let mut plot = Plot::new(&title);
    if let Some(mean) = together {
        let top = plot.cases(
            ["mean of all hosts"].into_iter(),
            LINE,
            area,
            &scale.ticks(),
            "",
        );
        zero(&mut plot, &scale, top, LINE);
        diamond(&mut plot, &scale, top + LINE / 2.0, mean, *better);
        let text = mean_text.unwrap_or_default();
        plot.text(
            [area.right + 8.0, top + LINE / 2.0 + 2.4],
            SMALL,
            Anchor::Start,
            INK,
            text,
        );
    }
    let top = plot.cases(
        labels.iter().copied(),
        height,
        area,
        &scale.ticks(),
        &axis(fleet),
    );
    zero(&mut plot, &scale, top, height * hosts.len() as f64);
    for (place, ratio) in points.iter().enumerate() {
        let y = top + height * (place as f64 + 0.5);
        point(
            &mut plot,
            &scale,
            HOST,
            [y, (0.4 * height).min(2.6)],
            *ratio,
        );
        if let Some(text) = texts.get(place) {
            plot.text(
                [area.right + 8.0, y + 2.4],
                SMALL,
                Anchor::Start,
                INK,
                text.clone(),
            );
        }
    }
    plot.paragraph(&comparison.sentence);
    plot.paragraph(&format!(
        "Points: ratio of each host with its interval, the smallest first. {EXPLANATION}"
    ));
    let summary = together
        .as_ref()
        .map(|mean| summary_text(comparison, mean))
        .unwrap_or_default();
    plot.paragraph(&summary);
    plot.end(title, format!("{} {summary}", comparison.sentence))
}

fn axis(fleet: &Fleet) -> String {
    format!(
        "change of speed against {} (right is faster)",
        fleet.baseline
    )
}

/// Returns the mean with its prediction interval, or else its interval, as ratios of speed.
fn widest(mean: &RandomEffects, better: Better) -> Ratio {
    let interval = mean.prediction.or(mean.interval);
    (
        speed(mean.ratio, better),
        interval.map(|interval| speed_interval(interval, better)),
    )
}

/// Adds the line of equality.
fn zero(plot: &mut Plot, scale: &RatioScale, top: f64, height: f64) {
    plot.line(
        [scale.x(0.0), top],
        [scale.x(0.0), top + height],
        0.8,
        MUTED,
    );
}

/// Adds a mean with its interval and the prediction interval.
fn diamond(plot: &mut Plot, scale: &RatioScale, y: f64, mean: &RandomEffects, better: Better) {
    let ends = |interval: Interval| {
        let Interval { lo, hi } = speed_interval(interval, better);
        [scale.x(lo.ln()), scale.x(hi.ln())]
    };
    let x = scale.x(speed(mean.ratio, better).ln());
    if let Some([lo, hi]) = mean.prediction.map(ends) {
        plot.line([lo, y], [hi, y], 1.0, color(MEAN));
    }
    // A diamond that is narrower than a line would not be visible.
    let [lo, hi] = mean.interval.map_or([x, x], ends);
    let points = vec![
        [lo.min(x - 1.5), y],
        [x, y - DIAMOND],
        [hi.max(x + 1.5), y],
        [x, y + DIAMOND],
    ];
    plot.add(Item::Polygon {
        points,
        color: color(MEAN),
        outline: None,
    });
}
