//! The program `mainspring`.

fn main() -> std::process::ExitCode {
    mainspring::cli::main()
}
