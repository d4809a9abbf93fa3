//! Media types by file name, and the charset of text.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Extensions whose types in `mime_guess` are missing or out of date, by the registrations of IANA
/// as mime-db 1.54 has them. Scripts have the one type that browsers accept with `nosniff`.
const CORRECTIONS: [(&str, &str); 84] = [
    ("3mf", "model/3mf"),
    ("aif", "audio/x-aiff"),
    ("aifc", "audio/x-aiff"),
    ("aiff", "audio/x-aiff"),
    ("amr", "audio/amr"),
    ("apng", "image/apng"),
    ("arrow", "application/vnd.apache.arrow.file"),
    ("avifs", "image/avif"),
    ("bmp", "image/bmp"),
    ("cab", "application/vnd.ms-cab-compressed"),
    ("cjs", "text/javascript"),
    ("dcm", "application/dicom"),
    ("dds", "image/vnd.ms-dds"),
    ("docm", "application/vnd.ms-word.document.macroenabled.12"),
    ("dtd", "application/xml-dtd"),
    ("dwg", "image/vnd.dwg"),
    ("dxf", "image/vnd.dxf"),
    ("emf", "image/emf"),
    ("exr", "image/aces"),
    ("fits", "image/fits"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("importmap", "application/importmap+json"),
    ("ipynb", "application/x-ipynb+json"),
    ("jsonl", "application/jsonl"),
    ("jxl", "image/jxl"),
    ("jxr", "image/jxr"),
    ("key", "application/vnd.apple.keynote"),
    ("ktx2", "image/ktx2"),
    ("lottie", "application/zip+dotlottie"),
    ("m2t", "video/mp2t"),
    ("m2ts", "video/mp2t"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4b", "audio/mp4"),
    ("m4p", "application/mp4"),
    ("m4s", "video/iso.segment"),
    ("manifest", "text/cache-manifest"),
    ("map", "application/json"),
    ("mdx", "text/mdx"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("mjs", "text/javascript"),
    ("mka", "audio/matroska"),
    ("mkv", "video/matroska"),
    ("mpd", "application/dash+xml"),
    ("msix", "application/msix"),
    ("mtl", "model/mtl"),
    ("mts", "video/mp2t"),
    ("mvt", "application/vnd.mapbox-vector-tile"),
    ("ndjson", "application/x-ndjson"),
    ("numbers", "application/vnd.apple.numbers"),
    ("obj", "model/obj"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pages", "application/vnd.apple.pages"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pmtiles", "application/vnd.pmtiles"),
    ("psd", "image/vnd.adobe.photoshop"),
    ("rar", "application/vnd.rar"),
    ("rmi", "audio/midi"),
    ("rpm", "application/x-redhat-package-manager"),
    ("spdx", "text/spdx"),
    ("sql", "application/sql"),
    ("sqlite", "application/vnd.sqlite3"),
    ("sqlite3", "application/vnd.sqlite3"),
    ("step", "model/step"),
    ("stl", "model/stl"),
    ("stp", "model/step"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("ttml", "application/ttml+xml"),
    ("usda", "model/vnd.usda"),
    ("usdz", "model/vnd.usdz+zip"),
    ("vtt", "text/vtt"),
    ("wasm", "application/wasm"),
    ("weba", "audio/webm"),
    ("webmanifest", "application/manifest+json"),
    ("wgsl", "text/wgsl"),
    ("wmf", "image/wmf"),
    ("woff", "font/woff"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zst", "application/zstd"),
];

/// Bytes at the start of a text in which a declaration of its encoding may be (HTML Standard,
/// "determining the character encoding").
const DECLARATION_SIZE_MAX: usize = 1024;

/// The media type by extension.
pub(super) fn media_type(name: &[u8]) -> Cow<'static, str> {
    let path = Path::new(OsStr::from_bytes(name));
    let extension = path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
    let corrected = extension.and_then(|extension| {
        let place = CORRECTIONS.binary_search_by_key(&&*extension, |(extension, _)| extension);
        place.ok().map(|place| CORRECTIONS[place].1)
    });
    corrected.map_or_else(
        || {
            let guess = mime_guess::from_path(path).first_or_octet_stream();
            Cow::Owned(guess.essence_str().to_owned())
        },
        Cow::Borrowed,
    )
}

/// Whether files of this type may have a charset in their Content-Type.
pub(super) fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
}

/// Whether this whole text is certain to be UTF-8. A charset in Content-Type overrides what the text
/// says of itself, so none is claimed for a text that declares another, or that may be in an
/// encoding of bytes below 128: UTF-16 has NUL, ISO-2022 has ESC.
pub(super) fn is_utf8(text: &[u8]) -> bool {
    !text.iter().any(|byte| matches!(byte, 0 | 0x1b))
        && str::from_utf8(text).is_ok()
        && !declares_other(&text[..text.len().min(DECLARATION_SIZE_MAX)])
}

/// Whether a `charset` (HTML, CSS) or `encoding` (XML) other than UTF-8 is declared.
fn declares_other(beginning: &[u8]) -> bool {
    let lower = beginning.to_ascii_lowercase();
    (0..lower.len()).any(|at| {
        let rest = &lower[at..];
        let value = rest.strip_prefix(b"charset").or_else(|| rest.strip_prefix(b"encoding"));
        let Some(value) = value else { return false };
        let is_between = |byte: &u8| byte.is_ascii_whitespace() || b"=\"'".contains(byte);
        let between = value.iter().take_while(|byte| is_between(byte)).count();
        let name = &value[between..];
        let size = name.iter().take_while(|b| b.is_ascii_alphanumeric() || b"-_".contains(b));
        let name = &name[..size.count()];
        between > 0 && !name.is_empty() && name != b"utf-8" && name != b"utf8"
    })
}

/// Whether this is an SVG image compressed with gzip, which is sent with that Content-Encoding (SVG 2
/// appendix "Media type registration").
pub(super) fn is_compressed_svg(name: &[u8], beginning: &[u8]) -> bool {
    has_svgz_name(name) && beginning.starts_with(&[0x1f, 0x8b])
}

pub(super) fn has_svgz_name(name: &[u8]) -> bool {
    name.len() > 5 && name[name.len() - 5..].eq_ignore_ascii_case(b".svgz")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_of_the_registries() {
        assert!(CORRECTIONS.is_sorted_by_key(|(extension, _)| extension));
        let check =
            |name: &str, expected| assert_eq!(media_type(name.as_bytes()), expected, "{name}");
        check("/a.html", "text/html");
        check("/a.HTML", "text/html");
        check("/a.css", "text/css");
        for script in ["js", "mjs", "cjs", "MJS"] {
            check(&format!("/a.{script}"), "text/javascript");
        }
        check("/a.json", "application/json");
        check("/a.js.map", "application/json");
        check("/a.ts", "video/mp2t");
        check("/a.m4s", "video/iso.segment");
        check("/a.mp4", "video/mp4");
        check("/a.m3u8", "application/vnd.apple.mpegurl");
        check("/a.mpd", "application/dash+xml");
        check("/a.vtt", "text/vtt");
        check("/a.wasm", "application/wasm");
        check("/a.svg", "image/svg+xml");
        check("/a.svgz", "image/svg+xml");
        check("/a.png", "image/png");
        check("/a.webp", "image/webp");
        check("/a.avif", "image/avif");
        check("/a.jxl", "image/jxl");
        check("/a.ico", "image/x-icon");
        check("/a.webm", "video/webm");
        check("/a.ogg", "audio/ogg");
        check("/a.opus", "audio/ogg");
        check("/a.woff", "font/woff");
        check("/a.woff2", "font/woff2");
        check("/a.ttf", "font/ttf");
        check("/a.otf", "font/otf");
        check("/a.webmanifest", "application/manifest+json");
        check("/a.xml", "text/xml");
        check("/a.pdf", "application/pdf");
        check("/a.gz", "application/gzip");
        check("/a.zip", "application/zip");
        check("/a.md", "text/markdown");
        check("/a.glb", "model/gltf-binary");
        check("/1k.bin", "application/octet-stream");
        check("/x.html/Makefile", "application/octet-stream");
        check("/ts", "application/octet-stream");
        assert_eq!(media_type(b"/\xff.css"), "text/css");
        assert_eq!(media_type(b"/a.\xff"), "application/octet-stream");
    }

    #[test]
    fn only_a_text_that_is_certain_to_be_utf8_is() {
        let check = |text: &[u8], expected| {
            assert_eq!(is_utf8(text), expected, "{}", String::from_utf8_lossy(text));
        };
        check(b"", true);
        check(b"<p>", true);
        check("あ".as_bytes(), true);
        check(&"あ".as_bytes()[..2], false);
        check(b"\xff\xfe", false);
        check(b"h\0e\0", false);
        check(b"\x1b$B", false);
        check(b"<meta charset=utf-8>", true);
        check(b"<META CHARSET = 'UTF-8'>", true);
        check(b"<meta charset=iso-8859-1>", false);
        check(b"<meta content=\"text/html; charset=Shift_JIS\">", false);
        check(b"@charset \"windows-1252\";", false);
        check(b"<?xml version='1.0' encoding='euc-jp'?>", false);
        check(b"a charset, an encoding", true);
        check(&[&[b' '; 1024], &b"<meta charset=koi8-r>"[..]].concat(), true);
    }
}
