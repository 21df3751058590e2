//! Writes the seeds to libFuzzer's directories: `tests/fuzz/corpus/TARGET/seed-N`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    for (number, (target, seed)) in tdekit_fuzz::seeds::seeds().into_iter().enumerate() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join(format!("seed-{number}")), seed)?;
    }
    Ok(())
}
