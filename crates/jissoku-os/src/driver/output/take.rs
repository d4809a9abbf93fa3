//! Takes bytes out of an output again, for who has to see them before they are sent.

use std::io;

use super::{Output, Place};

impl Output {
    /// Moves bytes from the front into `buffer`, those of files too, and returns how many: as many as there
    /// are, or as there is room for.
    ///
    /// # Errors
    /// The error of `pread(2)`, or `InvalidData` for a file that has changed.
    pub fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut taken = 0;
        for place in self.unsent() {
            let room = &mut buffer[taken..];
            let size = place.size().min(room.len());
            if size == 0 {
                break;
            }
            match place {
                Place::Memory(bytes) => room[..size].copy_from_slice(&bytes[..size]),
                Place::File(file, range) => {
                    let read = file.read_at(&mut room[..size], range.start)?;
                    if read < size || !file.is_unchanged() {
                        return Err(io::ErrorKind::InvalidData.into());
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
            let mut output = Output::default();
            output.append(b"01");
            output.share(Arc::from(*b"23"));
            output.file(Arc::clone(&file), 2..5);
            output.append(b"789");
            let (mut all, mut buffer) = (Vec::new(), vec![0; room]);
            while !output.is_empty() {
                let size = output.take(&mut buffer).expect("the file is as it was");
                assert_eq!(size, room.min(10 - all.len()));
                all.extend_from_slice(&buffer[..size]);
            }
            assert_eq!(all, b"0123456789");
            assert_eq!((output.take(&mut buffer).ok(), output.copied_size()), (Some(0), 0));
        }
        let mut output = Output::default();
        output.file(file, 2..5);
        std::fs::write(&path, b"..4").expect("a file can be written");
        let error = output.take(&mut [0; 9]).expect_err("the file has changed");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        std::fs::remove_file(&path).expect("it was made here");
    }
}
