//! The storage beneath a target: layer by layer, down to what holds the bytes.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A layer of the storage beneath a target. The layers of a target are a list in the order of the
/// walk: each layer is beneath the nearest one before it that has a smaller depth. The members of
/// an array have the same depth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StorageLayer {
    /// The number of layers between it and the target; 0 for the file system that holds the
    /// target's files.
    pub depth: u32,
    /// The layer itself.
    #[serde(flatten)]
    pub layer: Layer,
}

/// The kinds of layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "layer", rename_all = "snake_case")]
pub enum Layer {
    /// A file system on a block device, or on a server.
    FileSystem {
        /// Its driver: `ext4`, `nfs4`.
        driver: String,
    },
    /// An overlay, whose changes go to another directory.
    Overlay {
        /// The upper directory; absent for an overlay that is read-only.
        upper: Option<PathBuf>,
        /// Whether it omits all syncs of the upper directory.
        volatile: bool,
    },
    /// A loop device.
    Loop {
        /// Its kernel name.
        device: String,
        /// The file that holds its bytes.
        file: Option<PathBuf>,
        /// Whether it bypasses the page cache of the file system that holds the file; absent if the
        /// kernel does not report it.
        direct: Option<bool>,
    },
    /// A block device on other block devices: a partition, an array, a mapped device.
    Stacked {
        /// Its kernel name.
        device: String,
        /// The kind of device, or its name: `partition`, `raid1`, the name of a mapped device.
        role: Option<String>,
    },
    /// A disk, as far as this machine can see.
    Disk {
        /// Its kernel name.
        device: String,
        /// The kernel's view of its cache; absent if the kernel does not report it. A guest cannot
        /// see the caches of its hypervisor.
        write_cache: Option<WriteCache>,
    },
    /// Memory of this machine.
    Memory {
        /// The file system or the device that keeps its data there: `tmpfs`, `ram0`.
        holder: String,
    },
    /// Storage whose layers this machine cannot see.
    Unknown {
        /// The reason.
        reason: String,
    },
}

/// The kernel's view of the write cache of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WriteCache {
    /// It is volatile, and the kernel flushes it.
    WriteBack,
    /// It is not volatile, or the kernel does not flush it.
    WriteThrough,
}

impl WriteCache {
    /// Parses `queue/write_cache` of a disk.
    pub fn parse(text: &str) -> Option<WriteCache> {
        match text {
            "write back" => Some(WriteCache::WriteBack),
            "write through" => Some(WriteCache::WriteThrough),
            _ => None,
        }
    }
}

impl fmt::Display for WriteCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WriteCache::WriteBack => "write back",
            WriteCache::WriteThrough => "write through",
        })
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layer::FileSystem { driver } => f.write_str(driver),
            Layer::Overlay { upper, volatile } => {
                f.write_str(if *volatile {
                    "volatile overlay"
                } else {
                    "overlay"
                })?;
                upper.as_ref().map_or(Ok(()), |upper| {
                    write!(f, " with upper directory {}", upper.display())
                })
            }
            Layer::Loop {
                device,
                file,
                direct,
            } => {
                f.write_str(device)?;
                if *direct == Some(false) {
                    f.write_str(" without direct I/O")?;
                }
                file.as_ref()
                    .map_or(Ok(()), |file| write!(f, ", file {}", file.display()))
            }
            Layer::Stacked {
                device,
                role: Some(role),
            } => write!(f, "{device} ({role})"),
            Layer::Stacked { device, role: None } => f.write_str(device),
            Layer::Disk {
                device,
                write_cache: Some(cache),
            } => write!(f, "{device} ({cache})"),
            Layer::Disk {
                device,
                write_cache: None,
            } => f.write_str(device),
            Layer::Memory { holder } => write!(f, "{holder} in memory"),
            Layer::Unknown { reason } => write!(f, "not known: {reason}"),
        }
    }
}

/// A property of the storage that makes a name such as "durable" false.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "flaw", rename_all = "snake_case")]
pub enum StorageFlaw {
    /// A layer keeps the bytes in memory.
    Memory {
        /// The file system or the device.
        holder: String,
    },
    /// An overlay omits all syncs.
    Volatile,
    /// A loop device goes through the page cache of the file system that holds its file.
    Buffered {
        /// Its kernel name.
        device: String,
    },
}

impl fmt::Display for StorageFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorageFlaw::Memory { holder } => write!(f, "{holder} holds the data in memory"),
            StorageFlaw::Volatile => {
                f.write_str("an overlay is mounted volatile, so syncs do nothing")
            }
            StorageFlaw::Buffered { device } => {
                write!(
                    f,
                    "the loop device {device} has no direct I/O, so the page cache beneath it holds the data"
                )
            }
        }
    }
}

impl StorageFlaw {
    /// Returns the loop devices among these layers whose data is in the page cache of the file
    /// system beneath them.
    pub fn buffered(layers: &[StorageLayer]) -> impl Iterator<Item = StorageFlaw> {
        layers
            .iter()
            .filter_map(|layer| StorageFlaw::of_layer(&layer.layer))
            .filter(|flaw| !flaw.loses_data())
    }

    /// Returns the flaw of a layer.
    pub fn of_layer(layer: &Layer) -> Option<StorageFlaw> {
        match layer {
            Layer::Memory { holder } => Some(StorageFlaw::Memory {
                holder: holder.clone(),
            }),
            Layer::Overlay { volatile: true, .. } => Some(StorageFlaw::Volatile),
            Layer::Loop {
                device,
                direct: Some(false),
                ..
            } => Some(StorageFlaw::Buffered {
                device: device.clone(),
            }),
            _ => None,
        }
    }

    /// Returns whether the storage loses synced data if the machine fails.
    pub fn loses_data(&self) -> bool {
        !matches!(self, StorageFlaw::Buffered { .. })
    }
}

/// A property that the names of cases promise, which depends on work that a server outside the
/// kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// The data of a file is on the device after the file was synced.
    SyncedFiles,
    /// The names in a directory are on the device after the directory was synced.
    SyncedNames,
    /// Direct I/O reaches the device past all caches.
    Direct,
}

impl Promise {
    /// Returns the statement about a value that has not been shown to keep the promise.
    pub fn unproven(self) -> &'static str {
        match self {
            Promise::SyncedFiles | Promise::SyncedNames => "not known to be durable",
            Promise::Direct => "direct for the client only",
        }
    }
}

/// A promise that a target has not been shown to keep.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unproven {
    /// The promise.
    pub promise: Promise,
    /// The reason: `the server does not pass syncs of directories on`.
    pub reason: String,
}

/// Returns the layers as one text, from the target down: `ext4 on loop0, file /srv/image on xfs on
/// vda (write back)`. The members of an array are in brackets.
pub fn layers_text(layers: &[StorageLayer]) -> String {
    let Some((first, rest)) = layers.split_first() else {
        return String::new();
    };
    // Each part is a layer directly beneath the first one, with the layers beneath it.
    let parts: Vec<&[StorageLayer]> = rest
        .chunk_by(|_, next| next.depth > first.depth + 1)
        .collect();
    let beneath: Vec<String> = parts.into_iter().map(layers_text).collect();
    match &beneath[..] {
        [] => first.layer.to_string(),
        [only] => format!("{} on {only}", first.layer),
        several => format!("{} on [{}]", first.layer, several.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(depth: u32, layer: Layer) -> StorageLayer {
        StorageLayer { depth, layer }
    }

    fn disk(device: &str) -> Layer {
        Layer::Disk {
            device: device.to_owned(),
            write_cache: None,
        }
    }

    fn ext4() -> Layer {
        Layer::FileSystem {
            driver: "ext4".to_owned(),
        }
    }

    #[test]
    fn layers_are_listed_from_the_target_down() {
        let layers = [
            at(0, ext4()),
            at(
                1,
                Layer::Loop {
                    device: "loop3".into(),
                    file: Some("/x/image".into()),
                    direct: Some(false),
                },
            ),
            at(
                2,
                Layer::Overlay {
                    upper: Some("/t/up".into()),
                    volatile: true,
                },
            ),
            at(
                3,
                Layer::Memory {
                    holder: "tmpfs".to_owned(),
                },
            ),
        ];
        assert_eq!(
            layers_text(&layers),
            "ext4 on loop3 without direct I/O, file /x/image on volatile overlay with upper directory /t/up on tmpfs in \
             memory"
        );
        let flaws: Vec<_> = layers
            .iter()
            .filter_map(|one| StorageFlaw::of_layer(&one.layer))
            .collect();
        assert_eq!(
            flaws
                .iter()
                .map(StorageFlaw::loses_data)
                .collect::<Vec<_>>(),
            [false, true, true]
        );
    }

    #[test]
    fn members_of_an_array_are_in_brackets() {
        let partition = |device: &str| Layer::Stacked {
            device: device.into(),
            role: Some("partition".to_owned()),
        };
        let layers = [
            at(0, ext4()),
            at(
                1,
                Layer::Stacked {
                    device: "md0".to_owned(),
                    role: Some("raid1".to_owned()),
                },
            ),
            at(2, partition("sda1")),
            at(3, disk("sda")),
            at(2, partition("sdb1")),
            at(3, disk("sdb")),
        ];
        assert_eq!(
            layers_text(&layers),
            "ext4 on md0 (raid1) on [sda1 (partition) on sda; sdb1 (partition) on sdb]"
        );
        assert_eq!(layers_text(&[]), "");
    }

    #[test]
    fn a_layer_keeps_its_form_in_json() {
        let layer = at(
            1,
            Layer::Loop {
                device: "loop3".into(),
                file: None,
                direct: Some(true),
            },
        );
        let text = serde_json::to_string(&layer).unwrap();
        assert_eq!(
            text,
            r#"{"depth":1,"layer":"loop","device":"loop3","file":null,"direct":true}"#
        );
        assert_eq!(serde_json::from_str::<StorageLayer>(&text).unwrap(), layer);
    }
}
