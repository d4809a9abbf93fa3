//! Escaping of client input in log lines, so that it can end neither a line nor a quoted string.

use std::fmt;
use std::io::Write;

/// Appends `text` in quotation marks; bytes that are not printable ASCII, quotation marks and
/// backslashes are escaped as `\xHH`, as in nginx.
pub(super) fn quote(lines: &mut Vec<u8>, text: &[u8]) {
    lines.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' | ..=0x1f | 0x7f.. => put(lines, format_args!("\\x{byte:02X}")),
            _ => lines.push(byte),
        }
    }
    lines.push(b'"');
}

/// Appends `,"name":"text"`. Bytes that are not UTF-8 are written as the four characters `\xHH`.
pub(super) fn write_field(lines: &mut Vec<u8>, name: &str, text: &[u8]) {
    put(lines, format_args!(",\"{name}\":\""));
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => put(lines, format_args!("\\{character}")),
                // C0 and C1 control characters could act on a terminal.
                _ if character.is_control() => {
                    put(lines, format_args!("\\u{:04x}", u32::from(character)));
                }
                _ => put(lines, format_args!("{character}")),
            }
        }
        for byte in chunk.invalid() {
            put(lines, format_args!("\\\\x{byte:02X}"));
        }
    }
    lines.push(b'"');
}

/// Appends formatted text.
pub(super) fn put(lines: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    lines.write_fmt(text).expect("memory takes everything");
}
