//! Encrypts output into records.

use std::io::{self, Write};

use jissoku_os::driver::SendBuffer;
use rustls::ServerConnection;

/// Bytes encrypted ahead of a slow client.
pub(crate) const AHEAD_SIZE_MAX: usize = 256 * 1024;

/// Maximum plaintext of a record (RFC 8446 section 5.1).
const RECORD_SIZE: usize = 16 * 1024;

/// Writes records to a send buffer.
struct Records<'a>(&'a mut SendBuffer);

impl Write for Records<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Encrypts `plain` until it is empty or `ahead` bytes were produced.
pub(crate) fn encrypt(
    tls: &mut ServerConnection,
    plain: &mut SendBuffer,
    ahead: usize,
    output: &mut SendBuffer,
) -> io::Result<()> {
    let before = output.size();
    flush(tls, output);
    let mut record = [0; RECORD_SIZE];
    while !plain.is_empty() && output.size() - before < ahead {
        let size = plain.read(&mut record)?;
        tls.writer().write_all(&record[..size])?;
        flush(tls, output);
    }
    Ok(())
}

/// Moves the records of a session to `output`.
pub(crate) fn flush(tls: &mut ServerConnection, output: &mut SendBuffer) {
    while tls.wants_write() && tls.write_tls(&mut Records(output)).is_ok_and(|size| size > 0) {}
}
