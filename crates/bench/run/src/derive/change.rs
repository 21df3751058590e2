//! New values similar to old ones, so that a table's checks are likely to accept them.

use fastrand::Rng;
use tdekit_sqlite_client::Value;

/// Number of characters of a text that must vary for a fresh one to be probably unique.
const VARYING: usize = 6;

/// Returns a value of the same storage class and shape as `like` that is probably unique. Integers
/// are counted on from `last`, which is raised. NULL is kept, since a unique index allows any
/// number.
pub(super) fn fresh(like: &Value, last: &mut i64, rng: &mut Rng) -> Option<Value> {
    Some(match like {
        Value::Null => Value::Null,
        Value::Int(_) => {
            *last = last.checked_add(1)?;
            Value::Int(*last)
        }
        Value::Real(bits) => Value::from(f64::from_bits(*bits) + rng.f64() + 1.0),
        Value::Text(text) => {
            let mut new: Vec<u8> = text.iter().map(|letter| alike(*letter, rng)).collect();
            if text.iter().filter(|letter| letter.is_ascii_alphanumeric()).count() < VARYING {
                new.extend((0..VARYING).map(|_| rng.lowercase() as u8));
            }
            Value::Text(new)
        }
        Value::Blob(bytes) => {
            let mut new = vec![0; bytes.len().max(8)];
            rng.fill(&mut new);
            Value::Blob(new)
        }
    })
}

/// Returns a value of the same storage class that differs from `old`.
pub(super) fn different(old: &Value, rng: &mut Rng) -> Value {
    match old {
        Value::Null => Value::Int(1),
        Value::Int(number) => Value::Int(number ^ 1),
        Value::Real(bits) => Value::from(f64::from_bits(*bits) + 1.0),
        Value::Text(text) => {
            let mut new: Vec<u8> = text.iter().map(|letter| alike(*letter, rng)).collect();
            if new == *text {
                new.push(b'x');
            }
            Value::Text(new)
        }
        Value::Blob(bytes) => {
            let mut new = bytes.clone();
            match new.first_mut() {
                Some(first) => *first ^= 1,
                None => new.push(0),
            }
            Value::Blob(new)
        }
    }
}

/// Returns another character of the same class: digits stay digits, hexadecimal letters stay
/// hexadecimal, non-ASCII characters are unchanged.
fn alike(letter: u8, rng: &mut Rng) -> u8 {
    let from = |set: &[u8], rng: &mut Rng| set[rng.usize(..set.len())];
    match letter {
        b'0'..=b'9' => from(b"0123456789", rng),
        b'a'..=b'f' => from(b"abcdef", rng),
        b'A'..=b'F' => from(b"ABCDEF", rng),
        b'g'..=b'z' => rng.lowercase() as u8,
        b'G'..=b'Z' => rng.uppercase() as u8,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likeness_keeps_class_and_shape() {
        let mut rng = Rng::with_seed(3);
        let mut last = 41;
        assert_eq!(fresh(&Value::Int(7), &mut last, &mut rng), Some(Value::Int(42)));
        assert_eq!(fresh(&Value::Null, &mut last, &mut rng), Some(Value::Null));
        let like = Value::from("DE-0815-af");
        let Some(Value::Text(text)) = fresh(&like, &mut last, &mut rng) else { panic!() };
        assert_eq!((text.len(), text[2], text[7]), (10, b'-', b'-'));
        assert!(text[3..7].iter().all(u8::is_ascii_digit), "{text:?}");
        assert!(text[8..].iter().all(u8::is_ascii_hexdigit), "{text:?}");
        let Some(Value::Text(short)) = fresh(&"a".into(), &mut last, &mut rng) else { panic!() };
        assert!(short.len() > VARYING);
        let mut full = i64::MAX;
        assert_eq!(fresh(&Value::Int(7), &mut full, &mut rng), None);
    }

    #[test]
    fn different_is_different() {
        let mut rng = Rng::with_seed(3);
        for old in [
            Value::Null,
            Value::Int(0),
            Value::from(0.5),
            Value::from(""),
            Value::from("-"),
            Value::Blob(Vec::new()),
            Value::Blob(vec![1, 2]),
        ] {
            assert_ne!(different(&old, &mut rng), old);
        }
    }
}
