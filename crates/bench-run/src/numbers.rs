//! Counts as fractions and back.

/// Nanoseconds, bytes and counts, which stay far below 2^53.
#[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

/// The nearest whole number; 0 for what is below, the largest for what is beyond.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast saturates at both ends"
)]
pub(crate) fn whole(value: f64) -> u64 {
    value.round() as u64
}
