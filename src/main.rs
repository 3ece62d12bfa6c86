//! The program `mainspring`.

/// A burst is many small allocations on several threads, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    mainspring::cli::main()
}
