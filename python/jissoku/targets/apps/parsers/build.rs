//! Compiles the two callback parsers from the sources that `fetch.py` unpacked, and what we hang on them.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=PARSERS_SOURCES");
    println!("cargo::rerun-if-changed=c");
    let sources = std::env::var_os("PARSERS_SOURCES");
    let sources = PathBuf::from(sources.expect("PARSERS_SOURCES names the folder of fetch.py"));
    let llhttp = sources.join("llhttp");
    let http_parser = sources.join("http-parser");
    cc::Build::new()
        .include(llhttp.join("include"))
        .include(&http_parser)
        .file(llhttp.join("src/api.c"))
        .file(llhttp.join("src/http.c"))
        .file(llhttp.join("src/llhttp.c"))
        .file(http_parser.join("http_parser.c"))
        .file("c/record.c")
        .file("c/with_llhttp.c")
        .file("c/with_http_parser.c")
        .file("c/replayed.c")
        .warnings(false)
        .compile("callbacks");
}
