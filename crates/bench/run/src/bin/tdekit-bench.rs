//! The program behind `tdekit bench`.

fn main() -> std::process::ExitCode {
    tdekit_bench_run::main()
}
