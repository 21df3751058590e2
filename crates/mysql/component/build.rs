//! Links the component so that it stays in memory once it is loaded.

fn main() {
    // A server unloads its components before its last threads end, and AWS-LC has each thread that
    // used it call back when it ends.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
