//! The NUMA nodes that measuring processes run on and take their memory from.
//!
//! Untested on machines with several nodes: the tests build a tree of two.

use std::collections::BTreeMap;

use fsb_sys::Roots;
use fsb_sys::error::{Refusal, TestbedError};

use super::cpus;
use super::cpus::processors_of;
use super::interface::{Context, Control, KEEP, Scope, Stop, TargetDevice, Value, invalid};
use crate::declared::OptionKind;

pub(super) struct Numa;

const NUMA: &str = "numa";
const LACKING: &str = "this kernel knows no NUMA nodes";

fn online(roots: &Roots) -> Option<Vec<u32>> {
    cpus::parse(&roots.sys_text("devices/system/node/online")?)
}

/// Returns the processors of the nodes. A node that has only memory adds none.
fn processors(nodes: &[u32], roots: &Roots) -> Vec<u32> {
    nodes
        .iter()
        .filter_map(|node| {
            cpus::parse(&roots.sys_text(&format!("devices/system/node/node{node}/cpulist"))?)
        })
        .flatten()
        .collect()
}

/// Returns the number of processors that `controls` leave to workers. Returns `None` if they leave
/// all.
pub fn processors_left(controls: &BTreeMap<String, String>) -> Option<u32> {
    let asked = controls
        .get(NUMA)
        .filter(|value| *value != KEEP)
        .and_then(|value| cpus::parse(value));
    let near = asked
        .map(|nodes| processors(&nodes, &Roots::default()))
        .filter(|near| !near.is_empty());
    let left = match (processors_of(controls), near) {
        (Some(cpus), Some(near)) => cpus.into_iter().filter(|cpu| near.contains(cpu)).count(),
        (Some(only), None) | (None, Some(only)) => only.len(),
        (None, None) => return None,
    };
    Some(left.max(1) as u32)
}

impl Control for Numa {
    fn name(&self) -> &'static str {
        NUMA
    }

    fn about(&self) -> &'static str {
        "NUMA node that the workers run on and take memory from."
    }

    fn scope(&self) -> Scope {
        Scope::Target
    }

    fn values(&self) -> &'static [Value] {
        const {
            &[
                Value::word(KEEP, "any (default)"),
                Value::form(
                    "NODES",
                    OptionKind::List,
                    "a number, such as 0: only its processors and memory",
                ),
            ]
        }
    }

    fn check(&self, value: &str, roots: &Roots) -> Result<(), TestbedError> {
        if value == KEEP {
            return Ok(());
        }
        let asked = cpus::parse(value).ok_or_else(|| {
            invalid("numa", value, "that is not a list of nodes")
                .advice("write a number, such as 0")
        })?;
        let Some(online) = online(roots) else {
            return Ok(());
        };
        if let Some(node) = asked.iter().find(|node| !online.contains(node)) {
            return Err(invalid("numa", value, format_args!("no node {node}"))
                .advice(format!("this machine has {}", cpus::show(&online))));
        }
        if processors(&asked, roots).is_empty() {
            return Err(TestbedError::request(format!(
                "numa={value}: no processor belongs to it"
            )));
        }
        Ok(())
    }

    fn check_beside(
        &self,
        value: &str,
        requested: &BTreeMap<String, String>,
        roots: &Roots,
    ) -> Result<(), TestbedError> {
        let (Some(cpus), Some(nodes)) = (processors_of(requested), cpus::parse(value)) else {
            return Ok(());
        };
        let near = processors(&nodes, roots);
        if online(roots).is_none() || cpus.iter().any(|cpu| near.contains(cpu)) {
            return Ok(());
        }
        let what = format!(
            "no processor is left: numa={value} has {}, cpus {}",
            cpus::show(&near),
            cpus::show(&cpus)
        );
        Err(TestbedError::request(what).advice("leave one of them out"))
    }

    fn probe(&self, roots: &Roots) -> Result<(), Refusal> {
        online(roots).map(drop).ok_or_else(|| LACKING.into())
    }

    /// Changes nothing on the machine: each worker binds itself before it touches anything, and
    /// fails if it cannot.
    fn apply(&self, value: &str, context: &mut Context<'_>) -> Result<String, Stop> {
        if online(context.roots).is_none() {
            return Err(Stop::Lacks(LACKING.into()));
        }
        let nodes = cpus::parse(value).unwrap_or_default();
        let near = processors(&nodes, context.roots);
        let held = &mut context.held;
        if held.cpus.is_empty() {
            held.cpus = near;
        } else {
            held.cpus.retain(|cpu| near.contains(cpu));
        }
        held.memory_nodes = nodes;
        Ok(format!(
            "workers on processors {}, memory of {}",
            cpus::show(&held.cpus),
            cpus::show(&held.memory_nodes)
        ))
    }

    fn observe(&self, roots: &Roots, _: &TargetDevice) -> String {
        match online(roots) {
            Some(nodes) if nodes.len() > 1 => format!("memory of any of {} nodes", nodes.len()),
            Some(_) => "one node".to_owned(),
            None => LACKING.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    fn two_nodes() -> Bench {
        let bench = Bench::new();
        bench.write("sys/devices/system/node/online", "0-1");
        bench.write("sys/devices/system/node/node0/cpulist", "0-3");
        bench.write("sys/devices/system/node/node1/cpulist", "4-7");
        bench
    }

    #[test]
    fn a_node_is_its_processors_and_its_memory() {
        let bench = two_nodes();
        let held = bench.set(&Numa, "1", |applied, _| {
            assert!(applied.effective, "{applied:?}")
        });
        assert_eq!((held.cpus, held.memory_nodes), (vec![4, 5, 6, 7], vec![1]));
        let refused = Numa.check("2", &bench.roots).unwrap_err();
        assert_eq!(refused.kind, crate::Kind::Request);
        assert!(refused.to_string().contains("no node 2"), "{refused}");
    }

    #[test]
    fn it_must_leave_a_processor() {
        let bench = two_nodes();
        let beside = |cpus: &str| {
            let requested = [("cpus", cpus), ("numa", "1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
            Numa.check_beside("1", &requested.into(), &bench.roots)
        };
        beside("3-4").unwrap();
        assert!(
            beside("0-3")
                .unwrap_err()
                .to_string()
                .contains("no processor is left")
        );
    }

    #[test]
    fn without_nodes_it_is_not_available() {
        let bench = Bench::new();
        bench.set(&Numa, "0", |applied, _| {
            assert!(!applied.effective && applied.warnings.len() == 1)
        });
    }
}
