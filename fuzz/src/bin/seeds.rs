//! Writes the seeds where libFuzzer looks for them: `fuzz/corpus/TARGET/seed`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    for (target, seed) in tdekit_fuzz::seeds::seeds() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join("seed"), seed)?;
    }
    Ok(())
}
