//! A file without a name: in memory, gone with the test, and its writer is at hand.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::file::File;

/// The file, and who can change it.
pub(in crate::driver) struct Paper {
    pub(in crate::driver) file: Arc<File>,
    pub(in crate::driver) writer: std::fs::File,
}

impl Paper {
    pub(in crate::driver) fn new(bytes: &[u8]) -> Self {
        let fd = memfd_create("paper", MemfdFlags::CLOEXEC).expect("memory can be a file");
        let mut writer = std::fs::File::from(fd);
        writer.write_all(bytes).expect("there is room");
        let path = PathBuf::from(format!("/proc/self/fd/{}", writer.as_raw_fd()));
        let file = File::open(&path).expect("it is open already");
        Self { file: Arc::new(file), writer }
    }

    pub(in crate::driver) fn size(&self) -> u64 {
        self.file.stamp().size
    }
}
