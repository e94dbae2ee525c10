//! What lies beneath a medium, in words: the file system that holds an image, the disk, its write cache.

use fsb_model::RunRecord;
use fsb_model::host::DeviceManifest;

/// `on ext4 on vda (virtual disk, volatile write cache, writes throttled to 75 ms); what the host beneath caches is not
/// known`; absent where nothing is known of the device.
pub(super) fn words(record: &RunRecord, device: &DeviceManifest) -> Option<String> {
    if device.name.is_empty() {
        return None;
    }
    let bottom = bottom(device);
    let is_virtual = record.host.hypervisor.is_some();
    let queue = |name: &str| bottom.queue.get(name).map(String::as_str);
    let kind = match (is_virtual, queue("rotational")) {
        // What a virtual disk says of its platters is made up.
        (true, _) => Some("virtual disk"),
        (false, Some("1")) => Some("rotating disk"),
        (false, Some("0")) => Some("solid state"),
        _ => None,
    };
    let cache = match queue("write_cache") {
        Some("write back") => Some("volatile write cache"),
        Some("write through") => Some("no volatile write cache"),
        _ => None,
    };
    let throttled = queue("wbt_lat_usec").and_then(|text| text.parse::<f64>().ok()).filter(|usec| *usec > 0.0);
    let throttled = throttled.map(|usec| format!("writeback throttled for reads within {} ms", usec / 1e3));
    let properties: Vec<String> = kind.into_iter().chain(cache).map(str::to_owned).chain(throttled).collect();
    let on = match &device.backing {
        Some(backing) => format!("on {}", backing.replace("/dev/", "")),
        None if bottom.name != device.name => format!("on {}", bottom.name),
        None => bottom.name.clone(),
    };
    let host = if is_virtual { "; cold for this machine, but its host may cache" } else { "" };
    let properties = if properties.is_empty() { String::new() } else { format!(" ({})", properties.join(", ")) };
    Some(format!("{on}{properties}{host}"))
}

/// The disk at the end of the stack; the first one of several.
fn bottom(device: &DeviceManifest) -> &DeviceManifest {
    device.beneath.first().map_or(device, bottom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn disk(name: &str, queue: &[(&str, &str)]) -> DeviceManifest {
        let queue = queue.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        DeviceManifest { name: name.to_owned(), queue, ..DeviceManifest::default() }
    }

    #[test]
    fn the_disk_at_the_end_of_the_stack_is_told() {
        let (mut record, _) = sample::run(&["ext4", "xfs"], 5);
        let queue = [("rotational", "1"), ("write_cache", "write back"), ("wbt_lat_usec", "75000")];
        let image = DeviceManifest {
            backing: Some("ext4 on /dev/vda".to_owned()),
            beneath: vec![disk("vda", &queue)],
            ..disk("loop0", &[("rotational", "0")])
        };
        record.host.hypervisor = Some("kvm".to_owned());
        assert_eq!(
            words(&record, &image).unwrap(),
            "on ext4 on vda (virtual disk, volatile write cache, writeback throttled for reads within 75 ms); cold \
             for this machine, but its host may cache"
        );
        record.host.hypervisor = None;
        let partition = DeviceManifest { beneath: vec![disk("sda", &queue[..1])], ..disk("sda1", &[]) };
        assert_eq!(words(&record, &partition).unwrap(), "on sda (rotating disk)");
        assert_eq!(words(&record, &disk("nvme0n1", &[("rotational", "0")])).unwrap(), "nvme0n1 (solid state)");
        assert_eq!(words(&record, &DeviceManifest::default()), None);
    }
}
