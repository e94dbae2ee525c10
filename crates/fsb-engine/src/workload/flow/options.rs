//! The parameters of a flow: what of it is changed, and what else is asked.

use fsb_model::flow::{Flow, MOST_FILES, MOST_THREADS, Pick, Problem};
use fsb_model::units::show_bytes;
use fsb_model::{Bytes, Durability, Params};

use crate::backend::Backend;
use crate::workload::label;
use crate::workload::params::{self, Reader};
use crate::{ParamError, Sizing};

/// Resolved parameters.
#[derive(Clone)]
pub(super) struct Options {
    /// As it is performed.
    pub(super) flow: Flow,
    /// As it is published; the label tells what differs.
    published: Flow,
    /// The flow itself is a parameter.
    given: bool,
    pub(super) backend: &'static dyn Backend,
    pub(super) durability: Durability,
    pub(super) verify: bool,
    /// One of several sizes.
    pub(super) matrix: bool,
    label: Option<String>,
}

impl Options {
    /// Reads the parameters of a flow; without a text the flow is a parameter too, and `usual` the default.
    pub(super) fn parse(
        name: &str,
        params: &Params,
        sizing: &Sizing,
        usual: &str,
        given: bool,
    ) -> Result<Options, ParamError> {
        let mut reader = Reader::new(name, params, sizing);
        let text = if given { reader.long_text("flow")? } else { None };
        let text = text.as_deref().unwrap_or(usual);
        let published = Flow::from_toml(text).map_err(|why| reader.error("flow", why))?;
        let mut flow = published.clone();
        change(&mut flow, &mut reader)?;
        let own = flow.is_durable_each();
        let durabilities: &[Durability] = if own { &[Durability::Each] } else { &[Durability::None, Durability::End] };
        let durability = reader.word("durability", durabilities, Durability::name)?;
        let options = Options {
            flow,
            published,
            given,
            backend: reader.sequential_backend()?,
            durability: durability.unwrap_or(if own { Durability::Each } else { Durability::End }),
            verify: reader.flag("verify", false)?,
            matrix: reader.flag("matrix", false)?,
            label: reader.text("label")?,
        };
        if let Some(problem) = options.flow.check().first() {
            return Err(reader.error(key_of(problem), problem.to_string()));
        }
        reader.finish()?;
        Ok(options)
    }

    /// Complete: parsed again they give the same job.
    pub(super) fn params(&self) -> Params {
        let flow = &self.flow;
        let mut params = params::of([("durability", self.durability.name().into()), ("verify", self.verify.into())]);
        let mut add = |key: &str, value: serde_json::Value| drop(params.insert(key.to_owned(), value));
        if self.given {
            add("flow", flow.to_toml().into());
        } else {
            let first = &flow.filesets[0];
            add("files", first.files.into());
            add("file_size", first.size.mean().into());
            add("width", first.width.mean.into());
            add("pick", first.pick.name().into());
            add("threads", instances(flow, most_numerous(&self.published)).into());
            if self.published.rate.is_some() || flow.rate.is_some() {
                add("rate", flow.rate.unwrap_or(0.0).into());
            }
        }
        params::add_backend(&mut params, self.backend);
        let mut add = |key: &str, value: serde_json::Value| drop(params.insert(key.to_owned(), value));
        if self.matrix {
            add("matrix", true.into());
        }
        if let Some(label) = &self.label {
            add("label", label.as_str().into());
        }
        params
    }

    /// The name, what differs from the published parameters, and what holds of what was written.
    pub(super) fn label(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let (flow, published) = (&self.flow, &self.published);
        let mut label = flow.name.clone();
        let (now, then) = (&flow.filesets[0], &published.filesets[0]);
        if now.files != then.files {
            label += &format!(", {} files", now.files);
        }
        if now.size.mean() != then.size.mean() {
            // A size that was worked out from another one is no round number.
            let (mean, exact) = (now.size.mean(), Bytes(now.size.mean()).to_string());
            let size = if exact.len() <= 5 { exact } else { show_bytes(mean as f64) };
            label += &format!(", files of {size}");
        }
        if now.width.mean != then.width.mean {
            label += &format!(", width {}", now.width.mean);
        }
        if now.pick != then.pick {
            label += &format!(", {} files", if now.pick == Pick::Random { "random" } else { "rotating" });
        }
        if flow.rate != published.rate {
            label += &flow.rate.map_or(", no limit".to_owned(), |rate| format!(", rate {rate}"));
        }
        label += match self.durability {
            Durability::Each => ", each write synced",
            other => label::durable(other),
        };
        label += &label::backend(self.backend);
        label += label::verified(self.verify);
        let kind = most_numerous(published);
        let threads = instances(flow, kind);
        if threads != instances(published, kind) {
            label += &format!(", {threads} thread{}", if threads == 1 { "" } else { "s" });
        }
        label
    }
}

/// The most numerous kind of thread as published: that which `threads` is about.
fn most_numerous(published: &Flow) -> usize {
    let most = published.threads.iter().map(fsb_model::flow::Thread::instances).max();
    published.threads.iter().position(|thread| Some(thread.instances()) == most).unwrap_or(0)
}

/// Threads of the kind that `threads` is about.
fn instances(flow: &Flow, kind: usize) -> u64 {
    flow.threads.get(kind).map_or(0, fsb_model::flow::Thread::instances)
}

/// Changes the flow as parameters say. `files`, `width` and `pick` are about the first set, `file_size` about that and
/// all sets of the same mean, `threads` about the kind of thread of which there are most.
fn change(flow: &mut Flow, reader: &mut Reader<'_>) -> Result<(), ParamError> {
    let first = flow.filesets[0].clone();
    let kind = most_numerous(flow);
    // A set may be one of directories alone.
    let least = u64::from(first.directories == 0);
    let files = reader.number("files", &first.files.to_string(), least..=MOST_FILES)?;
    let mean = reader.number("file_size", &first.size.mean().to_string(), 0..=1 << 44)?;
    let width = reader.number("width", &first.width.mean.to_string(), 1..=1 << 40)?;
    let pick = reader.word("pick", &Pick::ALL, Pick::name)?.unwrap_or(first.pick);
    let threads = reader.number("threads", &instances(flow, kind).to_string(), 0..=MOST_THREADS)?;
    let threads = if threads == 0 { u64::from(reader.cpus()) } else { threads };
    let rate = reader.fraction("rate", flow.rate.unwrap_or(0.0), 0.0..=1e9)?;
    for set in &mut flow.filesets {
        if set.size.mean() == first.size.mean() && mean != first.size.mean() {
            set.size = set.size.with_mean(mean);
        }
    }
    let set = &mut flow.filesets[0];
    (set.files, set.width.mean, set.pick) = (files, width, pick);
    flow.rate = (rate > 0.0).then_some(rate);
    if let Some(thread) = flow.threads.get_mut(kind) {
        // Where there are many processes of one thread each, there are fewer or more of those.
        let (many, one) = if thread.processes > 1 && thread.threads == 1 {
            (&mut thread.processes, 1)
        } else {
            (&mut thread.threads, thread.processes)
        };
        if u64::from(one) * u64::from(*many) != threads {
            *many = (threads as u32).div_ceil(one);
        }
    }
    Ok(())
}

/// The parameter that a problem is about, as far as it can be told.
fn key_of(problem: &Problem) -> &'static str {
    if problem.place == "thread" { "threads" } else { "flow" }
}
