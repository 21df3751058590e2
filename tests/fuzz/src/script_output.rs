//! User input for `tdekit bench import`: the output of a script of `tdekit bench mssql-script`.

use tdekit_bench_run::{script_output as is_read, script_record};

use crate::seeds::Seed;

/// Maximum length of an output here: longer ones are only slower.
const MOST_BYTES: usize = 8192;

/// The bytes unchanged, and their lines as records with a correct check.
pub fn script_output(data: &[u8]) {
    let data = &data[..data.len().min(MOST_BYTES)];
    let _read = is_read(data);
    let _read = is_read(framed(data).as_bytes());
}

/// Each line as a record.
pub(crate) fn framed(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    text.lines().map(|line| script_record(line) + "\n").collect()
}

#[cfg(test)]
pub(crate) fn is_whole(seed: &[u8]) -> bool {
    is_read(framed(seed).as_bytes())
}

/// Records without their check: of a run with one pair of backups, and of one that stopped.
pub(crate) fn seeds() -> Vec<Seed> {
    let run = |end: &str, blocks: &[(&str, u32)]| {
        let mut parts = vec![
            "option|--rows|=300".to_owned(),
            "option|--restarts|=2".to_owned(),
            "option|--warm-only|=".to_owned(),
            "fact|version|A%20server".to_owned(),
            "fact|ours|0".to_owned(),
            "may|query_stats|229".to_owned(),
            "may|scan|0".to_owned(),
            "pages|400".to_owned(),
        ];
        for (number, (side, restart)) in (1_u64..).zip(blocks) {
            parts.push(format!("block|operations/backup-plain/warm|{side}|{restart}|0|0|2"));
            for tick in [0, 7] {
                let clock = 180_000_000_000_000 + 1000 * number + tick;
                parts.push(format!("mark|{tick}|{number}|0|0|{tick}|{clock}"));
            }
        }
        let measured = parts.len();
        parts.push("left|database%20x|DROP%20DATABASE%20x|1".to_owned());
        parts.push(format!("end|{end}|{}|0|{measured}|{}", blocks.len(), measured + 2));
        let steps = (1..).zip(parts).map(|(step, part)| format!("7|{step}|{part}\n"));
        ("script_output", steps.collect::<String>().into_bytes())
    };
    let blocks = [("base", 0), ("encrypted", 0), ("base", 1), ("encrypted", 1)];
    vec![run("1", &blocks), run("0", &blocks[..1])]
}
