//! The binary: everything is in the library.

fn main() -> std::process::ExitCode {
    layby::commands::main()
}
