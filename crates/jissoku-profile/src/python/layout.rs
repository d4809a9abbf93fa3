//! Where `CPython` keeps what its threads run. From 3.13 on the interpreter says so itself
//! (`_Py_DebugOffsets`, the first bytes of `_PyRuntime`); 3.11 and 3.12 do not differ between their
//! patch versions.

/// Offsets in bytes in `CPython`'s structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// In `_PyRuntimeState`.
    pub(super) interpreters: u64,
    /// In `PyInterpreterState`.
    pub(super) next_interpreter: u64,
    pub(super) threads: u64,
    /// In `PyThreadState`. Up to 3.12 the frame is in a `_PyCFrame`, at this offset.
    pub(super) next_thread: u64,
    pub(super) native_id: u64,
    pub(super) current_frame: u64,
    pub(super) in_c_frame: Option<u64>,
    /// In `_PyInterpreterFrame`.
    pub(super) code: u64,
    pub(super) previous: u64,
    pub(super) instruction: u64,
    pub(super) owner: u64,
    /// In `PyCodeObject`.
    pub(super) file_name: u64,
    pub(super) qualified_name: u64,
    pub(super) line_table: u64,
    pub(super) first_line: u64,
    pub(super) instructions: u64,
    /// Sizes of `PyASCIIObject` and `PyCompactUnicodeObject`, which characters follow.
    pub(super) ascii: u64,
    pub(super) compact: u64,
    /// The bit of `state` at which the size of a character is.
    pub(super) kind_bit: u32,
}

const LAYOUT_3_11: Layout = Layout {
    interpreters: 40,
    next_interpreter: 0,
    threads: 16,
    next_thread: 8,
    native_id: 160,
    current_frame: 56,
    in_c_frame: Some(8),
    code: 32,
    previous: 48,
    instruction: 56,
    owner: 69,
    file_name: 112,
    qualified_name: 128,
    line_table: 136,
    first_line: 72,
    instructions: 184,
    ascii: 48,
    compact: 72,
    kind_bit: 2,
};

const LAYOUT_3_12: Layout = Layout {
    threads: 72,
    native_id: 144,
    in_c_frame: Some(0),
    code: 0,
    previous: 8,
    owner: 70,
    first_line: 68,
    instructions: 192,
    ascii: 40,
    compact: 56,
    ..LAYOUT_3_11
};

/// The first word of `_PyRuntime` from 3.13 on.
const COOKIE: u64 = u64::from_ne_bytes(*b"xdebugpy");

/// How many words of `_PyRuntime` are needed.
pub(super) const WORDS: usize = 56;

/// The layout of an interpreter, by the first words of its `_PyRuntime` and by `Py_Version`.
///
/// # Errors
/// Why it is not read, in words that continue "Python functions are not named: ".
pub(super) fn of_interpreter(words: &[u64; WORDS], version: u64) -> Result<Layout, String> {
    let is_free_threaded = words[0] == COOKIE && words[2] != 0;
    let (major, minor) = (version >> 24 & 0xff, version >> 16 & 0xff);
    match (major, minor) {
        _ if is_free_threaded => Err("the free-threaded build of CPython is not read".to_owned()),
        (3, 11) => Ok(LAYOUT_3_11),
        (3, 12) => Ok(LAYOUT_3_12),
        (3, 13) if words[0] == COOKIE => Ok(stated(words, [19, 28, 34], 2)),
        (3, 14) if words[0] == COOKIE => Ok(stated(words, [22, 31, 39], 16)),
        _ => Err(format!("CPython {major}.{minor} is not read, 3.11 to 3.14 are")),
    }
}

/// A layout by the interpreter's own words, from which thread, frame and code have theirs.
fn stated(words: &[u64; WORDS], [thread, frame, code]: [usize; 3], kind_bit: u32) -> Layout {
    Layout {
        interpreters: words[5],
        next_interpreter: words[8],
        threads: words[9],
        next_thread: words[thread + 2],
        current_frame: words[thread + 4],
        native_id: words[thread + 6],
        in_c_frame: None,
        previous: words[frame + 1],
        code: words[frame + 2],
        instruction: words[frame + 3],
        owner: words[frame + 5],
        file_name: words[code + 1],
        qualified_name: words[code + 3],
        line_table: words[code + 4],
        first_line: words[code + 5],
        instructions: words[code + 9],
        kind_bit,
        ..LAYOUT_3_12
    }
}

/// Lines of a code object (`Objects/locations.md` of `CPython`): of each, the number of the first
/// instruction that is no longer in it; 0 where there is none.
pub(super) fn lines(table: &[u8], first_line: u32) -> Vec<(u64, u32)> {
    let mut line = i64::from(first_line);
    let (mut end, mut found) = (0, Vec::new());
    let mut bytes = table.iter().copied().peekable();
    while let Some(first) = bytes.next() {
        end += u64::from(first & 7) + 1;
        let kind = first >> 3 & 15;
        line += match kind {
            13 | 14 => signed(&mut bytes),
            10..=12 => i64::from(kind) - 10,
            _ => 0,
        };
        // What else an entry says begins with bytes below 128; the next entry does not.
        while bytes.next_if(|byte| *byte < 128).is_some() {}
        let known = if kind == 15 { 0 } else { line };
        found.push((end, u32::try_from(known).unwrap_or(0)));
    }
    found
}

/// A number in groups of six bits, the lowest first, whose lowest bit is its sign.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> i64 {
    let (mut value, mut shift) = (0_i64, 0);
    for byte in bytes {
        value |= i64::from(byte & 63).checked_shl(shift).unwrap_or(0);
        shift += 6;
        if byte & 64 == 0 {
            break;
        }
    }
    if value & 1 == 0 { value >> 1 } else { -(value >> 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_that_are_not_read_say_which() {
        let reason = |version, words: &[u64; WORDS]| of_interpreter(words, version).unwrap_err();
        let old = reason(0x030a_0df0, &[0; WORDS]);
        assert_eq!(old, "CPython 3.10 is not read, 3.11 to 3.14 are");
        let mut words = [0; WORDS];
        (words[0], words[2]) = (COOKIE, 1);
        assert!(reason(0x030e_00f0, &words).contains("free-threaded"));
        assert_eq!(of_interpreter(&[0; WORDS], 0x030b_07f0), Ok(LAYOUT_3_11));
    }

    #[test]
    fn lines_follow_the_interpreters_table() {
        // Two instructions of the line before, one without a line, one two lines on, one three back.
        let table = [0x80 | 1, 0x11, 0x80 | 15 << 3, 0x80 | 12 << 3, 1, 2, 0x80 | 13 << 3, 7];
        assert_eq!(lines(&table, 10), [(2, 10), (3, 0), (4, 12), (5, 9)]);
        assert_eq!(lines(&[0x80 | 14 << 3, 0x40 | 2, 1], 1), [(1, 34)]);
    }
}
