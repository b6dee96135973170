//! A slow disk of 64 MiB, for one test.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{foretell, number};

/// Removed when dropped.
pub struct SlowDisk {
    name: String,
}

impl SlowDisk {
    /// Mounts one on an empty directory.
    pub fn up(mount_point: &Path, timing: &[&str]) -> SlowDisk {
        static UP: AtomicU32 = AtomicU32::new(0);
        let name = format!("test-{}-{}", std::process::id(), UP.fetch_add(1, Ordering::Relaxed));
        let mount_point = mount_point.display().to_string();
        let up = ["slowdisk", "up", &mount_point, "--name", &name, "--size", "64M", "--stay"];
        let ended = foretell(up.iter().chain(timing));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        SlowDisk { name }
    }

    /// Movements of its arm for reads so far.
    pub fn read_seeks(&self) -> u64 {
        let stats = foretell(["slowdisk", "stats", &self.name]);
        number(&serde_json::from_str(&stats.stdout).unwrap(), "read_seeks")
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        foretell(["slowdisk", "down", &self.name]);
    }
}
