//! The common part of loop images in files and in memory: the loop device and its settings.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::run::MediumRecord;
use fsb_sys::block::DeviceNumber;
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::loopdev::{self, LoopDevice, Mode, Window};
use fsb_sys::pinned::Node;
use fsb_sys::pinned::Pinned;
use fsb_sys::{Roots, poll_until, read_trimmed};

use super::kind::{Divided, MediumRequest, OpenMedium};
use super::parts::{Slice, layout};
use crate::host;
use crate::ledger::{Action, EntryHandle, Ledger};

/// The time limit for the last user of the device to end after an unmount.
const IDLE: Duration = Duration::from_secs(10);

/// An image that is attached to a loop device.
pub(super) struct AttachedImage {
    /// Closed before the image, because otherwise the device would outlive it.
    device: Option<Pinned>,
    image: Option<OwnedFd>,
    node: Node,
    shown: PathBuf,
    handle: Option<EntryHandle>,
    can_discard: bool,
    pub record: MediumRecord,
}

impl AttachedImage {
    /// Attaches `image`, and switches discard off unless a target mounts with `discard`.
    pub fn attach(
        image: OwnedFd,
        mode: Mode,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
    ) -> Result<Self, TestbedError> {
        AttachedImage::attach_part(image, None, mode, request, ledger)
    }

    /// Attaches each slice of `image` to a device of its own, and calls `complete` on each. Detaches all of them on
    /// failure.
    pub fn attach_parts(
        image: &OwnedFd,
        parts: u32,
        mode: Mode,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        complete: &dyn Fn(&mut AttachedImage) -> Result<(), TestbedError>,
    ) -> Result<Divided, TestbedError> {
        let mut attached: Vec<AttachedImage> = Vec::new();
        let layout = layout(request.size, parts);
        let made = layout.iter().try_for_each(|part| {
            let image = image.try_clone().map_err(|error| {
                TestbedError::machine("the image could not be divided").tried(fsb_sys::error::describe(&error))
            })?;
            attached.push(AttachedImage::attach_part(image, Some(*part), mode, request, ledger)?);
            attached.last_mut().map_or(Ok(()), complete)
        });
        if let Err(error) = made {
            attached.iter_mut().for_each(|part| drop(part.close(ledger)));
            return Err(error);
        }
        let mut record = attached.first().map(|first| first.record.clone()).unwrap_or_default();
        record.device.size_bytes = request.size;
        let parts = attached.into_iter().map(|part| Box::new(part) as Box<dyn OpenMedium>).collect();
        Ok(Divided { parts, layout, record })
    }

    fn attach_part(
        image: OwnedFd,
        part: Option<Slice>,
        mode: Mode,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
    ) -> Result<Self, TestbedError> {
        let (roots, keep_discard) = (Roots::default(), request.keep_discard);
        let LoopDevice { index, fd, is_new } = attach(&image, part, mode)?;
        let shown = loopdev::path(index);
        let device = Pinned::of(fd, shown.clone())
            .map_err(|error| TestbedError::machine(attempt("cannot use", &shown, &error)))?;
        let node = Node::make(request.nodes, device.number(), &shown)?;
        let queue = roots.sys.join(format!("block/loop{index}/queue"));
        let mut attached = AttachedImage {
            device: None,
            image: Some(image),
            node,
            shown,
            handle: None,
            can_discard: true,
            record: MediumRecord::default(),
        };
        let limit = queue.join("discard_max_bytes");
        let discards = read_trimmed(&limit).is_some_and(|text| text != "0");
        if is_new || !keep_discard {
            let action = Action::RemoveLoop { index, again: !is_new, image: loopdev::attached(&roots, index) };
            attached.handle = Some(ledger.record(action)?);
        }
        attached.can_discard = discards && (keep_discard || std::fs::write(&limit, "0").is_err());
        attached.record.direct = Some(is_direct(&roots, index));
        let number = device.number();
        attached.record.device = host::device_manifest(&roots, (number.0, number.1));
        attached.device = Some(device);
        Ok(attached)
    }

    /// Records the backing of the image: the device under a file, with the devices beneath it.
    pub(crate) fn set_backing(&mut self, backing: String, beneath: Option<DeviceNumber>) {
        self.record.device.backing = Some(backing);
        let roots = Roots::default();
        self.record.device.beneath =
            beneath.map(|number| host::device_manifest(&roots, (number.0, number.1))).into_iter().collect();
    }
}

fn is_direct(roots: &Roots, index: u32) -> bool {
    roots.sys_text(&format!("block/loop{index}/loop/dio")).as_deref() == Some("1")
}

/// Attaches the image with the smallest sectors first. If the disk beneath has 4 KiB sectors, only those allow direct
/// I/O.
fn attach(image: &OwnedFd, part: Option<Slice>, mode: Mode) -> Result<LoopDevice, TestbedError> {
    use std::os::fd::AsFd;
    let fail = |why: Refusal| {
        TestbedError::machine("the image could not be attached to a loop device").tried(why).advice(
            "check that /dev/loop-control exists and that this container may use loop devices, or measure a directory",
        )
    };
    let window = part.map_or(Window::WHOLE, |part| Window { start: part.start, bytes: part.bytes });
    let device = loopdev::attach(image.as_fd(), window, mode, 0).map_err(fail)?;
    if mode == Mode::Buffered || is_direct(&Roots::default(), device.index) {
        return Ok(device);
    }
    drop(device);
    loopdev::attach(image.as_fd(), window, mode, 4096).map_err(fail)
}

impl OpenMedium for AttachedImage {
    fn device(&self) -> &Path {
        self.node.path()
    }

    fn shown(&self) -> &Path {
        &self.shown
    }

    fn verify(&self) -> Result<(), TestbedError> {
        self.node.verify(&self.shown)
    }

    fn record(&self) -> &MediumRecord {
        &self.record
    }

    fn can_discard(&self) -> bool {
        self.can_discard
    }

    fn lend(&mut self) {
        if let Some(device) = &self.device {
            device.unlock();
        }
    }

    fn lock(&mut self) {
        if let Some(device) = &self.device {
            device.lock_against_udev();
        }
    }

    /// Waits until the device is free. Only this run uses it, but a mount that remains in another namespace would make
    /// the next one warm.
    fn take_back(&mut self) -> Result<(), TestbedError> {
        let Some(device) = &self.device else { return Ok(()) };
        let mut answer = Ok(());
        poll_until(IDLE, || {
            answer = device.open_again(false, true).map(drop);
            answer.is_ok()
        });
        device.lock_against_udev();
        answer.map_err(|error| {
            TestbedError::trial("the target is still in use after it was unmounted").tried(attempt(
                "open with O_EXCL",
                &self.shown,
                &error,
            ))
            .advice(
                "end the process outside the run that holds a file of the target open, which a command may have sent \
                 to it, and measure without --network",
            )
        })
    }

    fn close(&mut self, ledger: &Ledger) -> Vec<String> {
        self.device = None;
        self.image = None;
        let undone = self.handle.take().map(|handle| ledger.undo(handle));
        undone.and_then(Result::err).map(|error| error.to_string()).into_iter().collect()
    }
}
