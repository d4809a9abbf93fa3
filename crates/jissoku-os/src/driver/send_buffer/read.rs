//! Reads bytes back from a send buffer, for encryption.

use std::io;

use super::{SegmentRef, SendBuffer};

impl SendBuffer {
    /// Moves bytes from the front into `buffer`, including those of files, and returns their
    /// number.
    ///
    /// # Errors
    /// The error of `pread(2)`, or `UnexpectedEof` for a file that has become shorter.
    pub fn drain_into(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut taken = 0;
        for segment_ref in self.unsent() {
            let room = &mut buffer[taken..];
            let size = segment_ref.size().min(room.len());
            if size == 0 {
                break;
            }
            match segment_ref {
                SegmentRef::Memory(bytes) => room[..size].copy_from_slice(&bytes[..size]),
                SegmentRef::File(file, range) => {
                    let read = file.read_at(&mut room[..size], range.start)?;
                    if read < size {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
            taken += size;
        }
        self.sent += taken;
        if self.is_empty() {
            self.clear();
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::file::File;

    #[test]
    fn bytes_come_out_in_order_however_little_room_there_is() {
        let path = std::env::temp_dir().join(format!("jissoku-take-{}", std::process::id()));
        std::fs::write(&path, b"..456..").expect("a file can be written");
        let file = Arc::new(File::open(&path).expect("it is there"));
        for room in 1..12 {
            let mut output = SendBuffer::default();
            output.append(b"01");
            output.append_shared(Arc::from(*b"23"));
            output.append_file(Arc::clone(&file), 2..5);
            output.append(b"789");
            let (mut all, mut buffer) = (Vec::new(), vec![0; room]);
            while !output.is_empty() {
                let size = output.drain_into(&mut buffer).expect("the file is as it was");
                assert_eq!(size, room.min(10 - all.len()));
                all.extend_from_slice(&buffer[..size]);
            }
            assert_eq!(all, b"0123456789");
            assert_eq!((output.drain_into(&mut buffer).ok(), output.copied_size()), (Some(0), 0));
        }
        let mut output = SendBuffer::default();
        output.append_file(file, 2..5);
        std::fs::write(&path, b"..456.. and more").expect("a file can be written");
        let mut buffer = [0; 9];
        assert_eq!(output.drain_into(&mut buffer).expect("its bytes are there"), 3);
        assert_eq!(&buffer[..3], b"456");
        output.append_file(Arc::new(File::open(&path).expect("it is there")), 2..5);
        std::fs::write(&path, b"..4").expect("a file can be written");
        let error = output.drain_into(&mut [0; 9]).expect_err("the file is too short");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        std::fs::remove_file(&path).expect("it was made here");
    }
}
