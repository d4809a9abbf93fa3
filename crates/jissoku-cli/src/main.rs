//! The native verbs as a plain binary, for work on the engine without Python.

fn main() -> std::process::ExitCode {
    jissoku_cli::main()
}
