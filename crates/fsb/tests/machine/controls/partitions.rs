//! Partitions have the settings of their disk and share them with other partitions.

use super::*;

/// A partition that is added to the kernel's table; dropped before the disk, it is removed with the test.
struct Partition<'a> {
    disk: &'a Disk,
    number: &'static str,
}

impl<'a> Partition<'a> {
    /// Start and length in MiB.
    fn new(disk: &'a Disk, number: &'static str, start: u64, length: u64) -> Partition<'a> {
        let sectors = [start, length].map(|megabytes| (megabytes * 2048).to_string());
        let output = Command::new("addpart").arg(&disk.path).arg(number).args(sectors).output().expect("addpart runs");
        assert!(output.status.success(), "{}", stderr(&output));
        Partition { disk, number }
    }

    fn path(&self) -> String {
        format!("{}p{}", self.disk.path.display(), self.number)
    }
}

impl Drop for Partition<'_> {
    fn drop(&mut self) {
        let _ = Command::new("delpart").arg(&self.disk.path).arg(self.number).status();
    }
}

fn flushes(run: &Path) -> Vec<(String, u64)> {
    let measured = counting(run).into_iter().filter(|trial| trial["operation"] == "write");
    let seen = measured.map(|trial| {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        let target = trial["target"].as_str().unwrap().to_owned();
        (target, trial["observed"]["device_flushes"].as_u64().unwrap())
    });
    seen.collect()
}

#[test]
fn a_partition_is_controlled_by_its_disk_unless_a_neighbour_is_in_use() {
    needs!(disks());
    needs!(program "addpart", "mkfs.ext4");
    let (scratch, disk) = (scratch(), Disk::new(420));
    let (own, neighbour) = (Partition::new(&disk, "1", 1, 330), Partition::new(&disk, "2", 340, 64));
    let target = format!("ext4@{}", own.path());
    let bare = format!("{{ target = 'bare={target}', controls = {{ barriers = 'off', scheduler = 'mq-deadline' }} }}");
    let plan = format!("targets = ['with={target}', {bare}]\n{PLAN}").replace("blocks = 50", "blocks = 1");
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let path = own.path();
    let arguments = ["run", "plan.toml", "--wipe", &path, "-q", "--out"];
    let output = fsb(scratch.path(), &[arguments.as_slice(), &["run"]].concat());
    expect_code(&output, 0);
    let seen = flushes(&scratch.path().join("run"));
    assert_eq!(seen.len(), 4, "{seen:?}");
    for (target, flushes) in seen {
        assert_eq!(flushes == 0, target == "bare", "{target}: {flushes}");
    }
    let record = record(&scratch.path().join("run"));
    assert_eq!(record["targets"]["bare"]["controls"]["scheduler"]["observed"], "mq-deadline");
    assert_eq!(read(disk.setting("write_cache")), "write back");

    let call = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {}", stderr(&output));
    };
    let point = scratch.path().join("neighbour");
    fs::create_dir(&point).unwrap();
    call("mkfs.ext4", &["-q", &neighbour.path()]);
    call("mount", &[&neighbour.path(), &point.to_string_lossy()]);
    let refused = fsb_json(scratch.path(), &[arguments.as_slice(), &["refused"]].concat());
    call("umount", &[&point.to_string_lossy()]);
    let refused = expect_error(&refused, 2, "control/risks-data");
    assert_eq!(refused["fields"]["control"], "barriers", "{refused}");
    let others = refused["fields"]["shared_with"].as_str().unwrap();
    assert!(others.contains(&format!("{}p2 in use", disk.name())), "{refused}");
}
