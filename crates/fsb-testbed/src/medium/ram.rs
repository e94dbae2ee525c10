//! A loop device over an image in memory. It shows the cost of a file system without a device.

use std::os::fd::{AsFd, OwnedFd};

use fsb_model::units::show_bytes;
use fsb_sys::error::{Refusal, TestbedError, describe};
use fsb_sys::loopdev::Mode;
use fsb_sys::{Roots, block, memory};
use rustix::fs::MemfdFlags;

use super::image::AttachedImage;
use super::kind::{Divided, MediumKind, MediumRequest, OpenMedium, filling};
use crate::ledger::Ledger;
use crate::progress::Progress;

pub(super) struct Ram;

/// Bytes of memory that stay free: the page cache of the target needs memory beside its image.
fn margin(size: u64) -> u64 {
    (256 << 20) + size / 4
}

impl MediumKind for Ram {
    fn name(&self) -> &'static str {
        "ram"
    }

    fn about(&self) -> &'static str {
        "A loop image of --size in memory: the CPU cost of a file system without a device."
    }

    fn modules(&self) -> &'static [&'static str] {
        &["loop"]
    }

    fn check(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        let roots = Roots::default();
        let available = memory::meminfo(&roots, "MemAvailable").unwrap_or(0);
        let available = memory::cgroup_headroom(&roots).map_or(available, |limit| available.min(limit));
        let needed = request.size.saturating_add(margin(request.size));
        if available >= needed {
            return Ok(request.size);
        }
        let show = |bytes: u64| show_bytes(bytes as f64);
        Err(TestbedError::machine("too little memory for the RAM image")
            .tried(format!("{} available, {} needed: --size and a margin", show(available), show(needed)))
            .advice("choose a smaller --size, or @loop"))
    }

    fn open(
        &self,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Box<dyn OpenMedium>, TestbedError> {
        let image = make_filled_image(request, progress)?;
        let mut attached = AttachedImage::attach(image, Mode::Buffered, request, ledger)?;
        complete(&mut attached, request);
        Ok(Box::new(attached))
    }

    fn size(&self, request: &MediumRequest<'_>) -> Option<u64> {
        Some(request.size)
    }

    fn divisible(&self, _: &MediumRequest<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn open_parts(
        &self,
        request: &MediumRequest<'_>,
        parts: u32,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Divided, TestbedError> {
        let image = make_filled_image(request, progress)?;
        AttachedImage::attach_parts(&image, parts, Mode::Buffered, request, ledger, &|part| {
            complete(part, request);
            Ok(())
        })
    }
}

fn complete(attached: &mut AttachedImage, request: &MediumRequest<'_>) {
    let shown = show_bytes(request.size as f64);
    attached.record.filled = Some(format!("{shown} of incompressible bytes"));
    attached.record.summary = format!("ram {shown}");
    attached.set_backing("memory".to_owned(), None);
}

/// Allocates memory of `request.size` bytes, and writes each byte once.
fn make_filled_image(request: &MediumRequest<'_>, progress: &mut dyn FnMut(Progress)) -> Result<OwnedFd, TestbedError> {
    let size = request.size;
    let fail = |error: &std::io::Error| {
        TestbedError::machine("the RAM image could not be made")
            .tried(format!("memfd of {}: {}", show_bytes(size as f64), describe(error)))
            .advice("choose a smaller --size, or @loop")
    };
    let image = rustix::fs::memfd_create("fsb-ram", MemfdFlags::CLOEXEC).map_err(|errno| fail(&errno.into()))?;
    rustix::fs::ftruncate(&image, size).map_err(|errno| fail(&errno.into()))?;
    block::fill(image.as_fd(), size, request.seed, filling("the RAM image", size, progress))
        .map_err(|error| fail(&error))?;
    Ok(image)
}
