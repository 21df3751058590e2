//! Counts as fractions and back, and sizes in words.

pub(crate) use tdekit_bench_work::whole;

/// Nanoseconds, bytes and counts, which stay far below 2^53.
#[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

/// Bytes, with kB, MB or GB (of 1,000) or KiB, MiB or GiB.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => 0,
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|count| count.checked_mul(unit))
        .filter(|bytes| (100_000..=1 << 40).contains(bytes))
        .ok_or_else(|| "expected a size from 100kB to 1TB, such as 200MB".to_owned())
}
