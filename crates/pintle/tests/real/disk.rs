//! A disk that a test can fill.

use std::process::Command;

/// A file system of its own, so small that it fills; gone with the test.
pub struct Small(String);

impl Small {
    pub fn mount(path: &std::path::Path, megabytes: usize) -> Small {
        std::fs::create_dir(path).expect("a directory");
        let path = path.display().to_string();
        let size = format!("size={megabytes}M");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs", &path]).status();
        assert!(mounted.is_ok_and(|status| status.success()), "a tmpfs can be mounted");
        Small(path)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}
