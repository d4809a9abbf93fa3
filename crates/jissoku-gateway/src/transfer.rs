//! Bytes on their way from one connection to another.

use jissoku_os::driver::SendBuffer;

/// From this size on, bytes are handed over to the connection: copying them costs more than a
/// second slice in the call that sends them.
const OWNED_SIZE_MIN: usize = 4 * 1024;

/// Moves the bytes from `start` on to `output`, and drops those before.
pub(crate) fn append_from(start: usize, bytes: &mut Vec<u8>, output: &mut SendBuffer) {
    if bytes.len() - start < OWNED_SIZE_MIN {
        output.append(&bytes[start..]);
        bytes.clear();
    } else {
        output.append_owned(std::mem::take(bytes), start);
    }
}
