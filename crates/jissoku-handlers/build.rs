//! Compiles the one function that stable Rust cannot define: `printf`, with its variable arguments.

fn main() {
    println!("cargo::rerun-if-changed=src/printf.c");
    cc::Build::new().file("src/printf.c").warnings(true).extra_warnings(true).compile("jsk_printf");
}
