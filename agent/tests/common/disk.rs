//! A small file system that tests can fill.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A tmpfs of limited size, which is unmounted when this is dropped.
pub struct Disk(tempfile::TempDir);

impl Disk {
    /// Mounts a disk with a size like `512k`.
    pub fn mount(size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]);
        assert!(mount.arg(folder.path()).status().unwrap().success());
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills a disk of less than 1 MiB.
    pub fn fill(&self) {
        // The write fails after it has used all free pages.
        let _ = fs::write(self.path().join("full"), vec![0; 1 << 20]);
    }

    pub fn make_room(&self) {
        fs::remove_file(self.path().join("full")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, because an agent may still have a file open.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
