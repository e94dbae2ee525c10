//! The parameters of a flow: changes of the flow, and options beside it.

use fsb_model::flow::{Flow, MOST_FILES, MOST_THREADS, Pick, Problem};
use fsb_model::units::show_bytes;
use fsb_model::{Bytes, Durability, Params};

use crate::backend::Backend;
use crate::workload::label;
use crate::workload::parameter::{self, Parameter, ParameterDefault, ParameterGroup, ParameterKind, group};
use crate::workload::params::{self, Reader};
use crate::{ParamError, Sizing};

/// Resolved parameters.
#[derive(Clone)]
pub(super) struct Options {
    /// The flow as the threads perform it.
    pub(super) flow: Flow,
    /// The flow as published; the label lists the differences.
    published: Flow,
    /// Whether the flow itself is a parameter.
    given: bool,
    pub(super) backend: &'static dyn Backend,
    pub(super) durability: Durability,
    pub(super) verify: bool,
    /// One of several sizes.
    pub(super) matrix: bool,
    label: Option<String>,
}

/// The table of parameters of a personality: its flow gives the defaults.
pub(super) fn parameters(text: &str) -> Vec<Parameter> {
    let flow = Flow::from_toml(text).ok();
    table(flow.as_ref())
}

/// The table of parameters of any flow.
pub(super) fn any_parameters() -> Vec<Parameter> {
    let text = Parameter::new("flow", ParameterKind::Lines, OF_EXAMPLE, "operations of each thread: docs/flow.md");
    let mut all = group(ParameterGroup::Work, [text]);
    all.extend(table(None));
    all
}

/// The default of a parameter that changes a value of the flow.
const OF_FLOW: ParameterDefault = ParameterDefault::Derived("as in the flow");
/// The default flow.
const OF_EXAMPLE: ParameterDefault = ParameterDefault::Derived("a small example");

fn table(flow: Option<&Flow>) -> Vec<Parameter> {
    use ParameterKind::{Fraction, Number, Size};
    let first = flow.map(|flow| &flow.filesets[0]);
    let of = |value: Option<String>| value.map_or(OF_FLOW, ParameterDefault::from);
    let number = |value: Option<u64>| of(value.map(|value| value.to_string()));
    let rate = of(flow.map(|flow| flow.rate.unwrap_or(0.0).to_string()));
    let pick = of(first.map(|set| set.pick.name().to_owned()));
    let threads = number(flow.map(|flow| instances(flow, most_numerous(flow))));
    let (durabilities, durability) = match flow {
        None => (Durability::ALL, ParameterDefault::Derived("each if the flow syncs each write, else end")),
        Some(flow) if flow.is_durable_each() => (&[Durability::Each][..], "each".into()),
        Some(_) => (&[Durability::None, Durability::End][..], "end".into()),
    };
    let mut all = group(
        ParameterGroup::Work,
        [Parameter::new("rate", Fraction(0.0..=1e9), rate, "operations per second; 0 for no limit").sweeps()],
    );
    all.extend(group(
        ParameterGroup::Files,
        [
            Parameter::new(
                "files",
                Number(0..=MOST_FILES),
                number(first.map(|set| set.files)),
                "files of the first set",
            ),
            Parameter::new(
                "file_size",
                Size(0..=1 << 44),
                number(first.map(|set| set.size.mean())),
                "mean size of a file",
            )
            .sweeps(),
            Parameter::new(
                "width",
                Number(1..=1 << 40),
                number(first.map(|set| set.width.mean)),
                "mean entries of a directory",
            ),
            Parameter::word("pick", &Pick::ALL, Pick::name, "order in which threads take files").default(pick),
            parameter::data(),
        ],
    ));
    let about = "threads of the most numerous kind; 0 for one per processor";
    let threads = Parameter::new("threads", Number(0..=MOST_THREADS), threads, about).sweeps();
    all.extend(group(ParameterGroup::Calls, [parameter::sequential_backend(), threads]));
    all.extend(group(ParameterGroup::State, [parameter::durability(durabilities).default(durability)]));
    all.extend(group(ParameterGroup::Results, [parameter::verify(), parameter::label()]));
    all.extend(group(ParameterGroup::Resolved, [parameter::matrix()]));
    all
}

impl Options {
    /// Reads the parameters of a flow. If `given` is set, the flow is a parameter too, and `usual` its default;
    /// otherwise `usual` is the flow.
    pub(super) fn parse(
        name: &str,
        params: &Params,
        sizing: &Sizing,
        usual: &str,
        given: bool,
    ) -> Result<Options, ParamError> {
        let table = if given { any_parameters() } else { parameters(usual) };
        let mut reader = Reader::new(name, table, params, sizing)?;
        let text = if given { reader.long_text("flow")? } else { None };
        let text = text.as_deref().unwrap_or(usual);
        let published = Flow::from_toml(text).map_err(|why| reader.error("flow", why))?;
        let mut flow = published.clone();
        change(&mut flow, &mut reader)?;
        let own = flow.is_durable_each();
        let durabilities: &[Durability] = if own { &[Durability::Each] } else { &[Durability::None, Durability::End] };
        let durability = reader.optional_word("durability", Durability::ALL, Durability::name)?;
        if let Some(wrong) = durability.filter(|one| !durabilities.contains(one)) {
            let words: Vec<_> = durabilities.iter().map(|one| one.name()).collect();
            return Err(
                reader.error("durability", format!("'{}' is not allowed: use {}", wrong.name(), words.join(" or ")))
            );
        }
        let options = Options {
            flow,
            published,
            given,
            backend: reader.backend()?,
            durability: durability.unwrap_or(if own { Durability::Each } else { Durability::End }),
            verify: reader.flag("verify")?,
            matrix: reader.flag("matrix")?,
            label: reader.text("label")?,
        };
        if let Some(problem) = options.flow.check().first() {
            return Err(reader.error(key_of(problem), problem.to_string()));
        }
        reader.finish();
        Ok(options)
    }

    /// Returns the complete parameters: parsing them gives the same job.
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

    /// Returns the label: the name, the differences from the published flow, the durability, the backend and the
    /// verification.
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
            // A size that is computed from another one is not a round number.
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

/// Returns the index of the most numerous kind of thread as published, which the parameter `threads` changes.
fn most_numerous(published: &Flow) -> usize {
    let most = published.threads.iter().map(fsb_model::flow::Thread::instances).max();
    published.threads.iter().position(|thread| Some(thread.instances()) == most).unwrap_or(0)
}

/// Returns the number of threads of a kind.
fn instances(flow: &Flow, kind: usize) -> u64 {
    flow.threads.get(kind).map_or(0, fsb_model::flow::Thread::instances)
}

/// Changes the flow according to the parameters. `files`, `width` and `pick` change the first set. `file_size` changes
/// that set and all sets with the same mean. `threads` changes the most numerous kind of thread.
fn change(flow: &mut Flow, reader: &mut Reader<'_>) -> Result<(), ParamError> {
    let first = flow.filesets[0].clone();
    let kind = most_numerous(flow);
    // A set may consist of directories alone.
    let least = u64::from(first.directories == 0);
    let files = reader.number_or("files", first.files)?;
    let files = reader.within("files", files, least..=MOST_FILES)?;
    let mean = reader.number_or("file_size", first.size.mean())?;
    let width = reader.number_or("width", first.width.mean)?;
    let pick = reader.optional_word("pick", &Pick::ALL, Pick::name)?.unwrap_or(first.pick);
    let threads = reader.number_or("threads", instances(flow, kind))?;
    let threads = if threads == 0 { u64::from(reader.cpus()) } else { threads };
    let rate = if reader.take("rate").is_some() { reader.fraction("rate")? } else { flow.rate.unwrap_or(0.0) };
    for set in &mut flow.filesets {
        if set.size.mean() == first.size.mean() && mean != first.size.mean() {
            set.size = set.size.with_mean(mean);
        }
    }
    let set = &mut flow.filesets[0];
    (set.files, set.width.mean, set.pick) = (files, width, pick);
    flow.rate = (rate > 0.0).then_some(rate);
    if let Some(thread) = flow.threads.get_mut(kind) {
        // If the kind has several processes with one thread each, the number of processes changes.
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

/// Returns the parameter that a problem is about, as far as its place shows.
fn key_of(problem: &Problem) -> &'static str {
    if problem.place == "thread" { "threads" } else { "flow" }
}
