//! Converts a `flowop` to a step.

use fsb_model::Bytes;
use fsb_model::flow::{Op, Spread, Step};
use fsb_model::nearest::unknown;

use super::Remark;
use super::syntax::FlowOp;
use super::value::{Given, Scope};

/// The operations of filebench, each with ours.
pub(super) const KINDS: [(&str, Op); 31] = [
    ("createfile", Op::Create),
    ("openfile", Op::Open),
    ("closefile", Op::Close),
    ("closefd", Op::Close),
    ("readwholefile", Op::ReadWhole),
    ("writewholefile", Op::WriteWhole),
    ("appendfile", Op::Append),
    (APPEND_RANDOMLY, Op::Append),
    ("read", Op::Read),
    ("write", Op::Write),
    ("aiowrite", Op::AioWrite),
    ("aiowait", Op::AioWait),
    ("fsync", Op::Sync),
    ("fsyncset", Op::SyncSet),
    ("deletefile", Op::Delete),
    ("statfile", Op::Stat),
    ("listdir", Op::List),
    ("makedir", Op::MakeDirectory),
    ("removedir", Op::RemoveDirectory),
    ("eventlimit", Op::EventLimit),
    ("opslimit", Op::OperationLimit),
    ("iopslimit", Op::IoLimit),
    ("bwlimit", Op::BandwidthLimit),
    ("delay", Op::Delay),
    ("hog", Op::Hog),
    ("block", Op::Block),
    ("wakeup", Op::Wake),
    ("semblock", Op::SemaphoreWait),
    ("sempost", Op::SemaphorePost),
    ("finishoncount", Op::FinishOnCount),
    ("finishonbytes", Op::FinishOnBytes),
];

/// The operation that appends a random number of bytes, at most `iosize`.
const APPEND_RANDOMLY: &str = "appendfilerand";

/// Returns our operation for a name, or `None` if filebench has no operation of that name.
pub(super) fn op(kind: &str) -> Option<Op> {
    KINDS.iter().find(|(name, _)| *name == kind).map(|(_, op)| *op)
}

/// Converts a flow operation to a step and notes its problems. Returns `None` if the operation is unknown.
pub(super) fn step(
    flowop: &FlowOp,
    scope: &Scope,
    problems: &mut Vec<Remark>,
    notes: &mut Vec<Remark>,
) -> Option<Step> {
    let Some(op) = op(&flowop.kind) else {
        let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        problems.push(Remark { line: flowop.line, message: unknown("flowop", &flowop.kind, known) });
        return None;
    };
    let mut given = Given::new(format!("flowop {}", flowop.kind), flowop.line, &flowop.attributes, scope, problems);
    let mut step = Step::new(op);
    step.name = given.word("name");
    // filebench has two words for it.
    step.set = [given.word("filesetname"), given.word("filename")].into_iter().flatten().next();
    step.fd = given.small("fd");
    step.from = given.small("srcfd").filter(|fd| *fd != 0);
    step.random = given.flag("random").is_some_and(|(_, flag)| flag);
    step.rotate = given.flag("opennext").is_some_and(|(_, flag)| flag);
    step.working_set = given.number("workingset").filter(|bytes| *bytes > 0).map(Bytes);
    // Of reads it changes nothing.
    let dsync = given.flag("dsync").is_some_and(|(_, flag)| flag);
    step.dsync = dsync && !matches!(op, Op::Read | Op::ReadWhole);
    step.direct = given.flag("directio").is_some_and(|(_, flag)| flag);
    step.iterations = given.number("iters").filter(|times| *times != 1);
    step.target = given.word("target");
    step.blocking = given.flag("blocking").is_some_and(|(_, flag)| flag);
    step.high_water = given.number("highwater");
    step.index = given.spread("indexed");
    let value = given.number("value");
    match op {
        Op::Delay => step.seconds = value.map(|seconds| seconds as f64),
        _ => step.value = value,
    }
    size(&mut step, flowop, &mut given);
    if let Some((line, true)) = given.flag("noreadahead") {
        notes.push(Remark { line, message: "noreadahead: fsb does not change the kernel's read-ahead".to_owned() });
    }
    given.finish();
    Some(step)
}

/// Sets the size that `iosize` means in the operation.
fn size(step: &mut Step, flowop: &FlowOp, given: &mut Given<'_>) {
    let Some(size) = given.spread("iosize") else { return };
    let line = given.line();
    match step.op {
        // 0 moves the whole file in one call.
        Op::ReadWhole | Op::WriteWhole => match size {
            Spread::Exact(bytes) => step.record = (bytes.0 > 0).then_some(bytes),
            _ => given.say(line, "iosize varies, but operations on whole files need one size"),
        },
        Op::Append if flowop.kind == APPEND_RANDOMLY => match size {
            Spread::Exact(most) if most.0 > 0 => step.size = Some(Spread::Uniform { low: Bytes(0), high: most }),
            Spread::Exact(_) => given.say(line, "iosize=0 appends nothing"),
            _ => given.say(line, "iosize varies, but the operation already draws its size from 0 to iosize"),
        },
        _ => step.size = Some(size),
    }
}
