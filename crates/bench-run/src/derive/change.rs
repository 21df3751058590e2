//! New values in the likeness of old ones, so that a table's checks have a chance to accept them.

use fastrand::Rng;

use crate::value::Value;

/// Characters of a text that must vary for a fresh one to be unlikely to exist already.
const VARYING: usize = 6;

/// A value of the same storage class and shape as `like` that hardly any row holds. Integers are
/// counted on from `last`, which is raised. NULL stays, since a unique index allows any number.
pub(super) fn fresh(like: &Value, last: &mut i64, rng: &mut Rng) -> Option<Value> {
    Some(match like {
        Value::Null => Value::Null,
        Value::Integer(_) => {
            *last = last.checked_add(1)?;
            Value::Integer(*last)
        }
        Value::Real(number) => Value::Real(number + rng.f64() + 1.0),
        Value::Text(text) => {
            let mut new: String = text.chars().map(|letter| alike(letter, rng)).collect();
            if text.chars().filter(char::is_ascii_alphanumeric).count() < VARYING {
                new.extend((0..VARYING).map(|_| rng.lowercase()));
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

/// A value of the same storage class that differs from `old`.
pub(super) fn different(old: &Value, rng: &mut Rng) -> Value {
    match old {
        Value::Null => Value::Integer(1),
        Value::Integer(number) => Value::Integer(number ^ 1),
        Value::Real(number) => Value::Real(number + 1.0),
        Value::Text(text) => {
            let new: String = text.chars().map(|letter| alike(letter, rng)).collect();
            if new == *text { Value::Text(format!("{text}x")) } else { Value::Text(new) }
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

/// Another character of the same class: digits stay digits, hexadecimal letters stay so.
fn alike(letter: char, rng: &mut Rng) -> char {
    let from = |set: &[u8], rng: &mut Rng| char::from(set[rng.usize(..set.len())]);
    match letter {
        '0'..='9' => from(b"0123456789", rng),
        'a'..='f' => from(b"abcdef", rng),
        'A'..='F' => from(b"ABCDEF", rng),
        'g'..='z' => rng.lowercase(),
        'G'..='Z' => rng.uppercase(),
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
        assert_eq!(fresh(&Value::Integer(7), &mut last, &mut rng), Some(Value::Integer(42)));
        assert_eq!(fresh(&Value::Null, &mut last, &mut rng), Some(Value::Null));
        let like = Value::Text("DE-0815-af".to_owned());
        let Some(Value::Text(text)) = fresh(&like, &mut last, &mut rng) else { panic!() };
        assert_eq!((text.len(), &text[2..3], &text[7..8]), (10, "-", "-"));
        assert!(text[3..7].bytes().all(|byte| byte.is_ascii_digit()), "{text}");
        assert!(text[8..].bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
        let Some(Value::Text(short)) = fresh(&Value::Text("a".to_owned()), &mut last, &mut rng)
        else {
            panic!()
        };
        assert!(short.len() > VARYING);
        let mut full = i64::MAX;
        assert_eq!(fresh(&Value::Integer(7), &mut full, &mut rng), None);
    }

    #[test]
    fn different_is_different() {
        let mut rng = Rng::with_seed(3);
        for old in [
            Value::Null,
            Value::Integer(0),
            Value::Real(0.5),
            Value::Text(String::new()),
            Value::Text("-".to_owned()),
            Value::Blob(Vec::new()),
            Value::Blob(vec![1, 2]),
        ] {
            assert_ne!(different(&old, &mut rng), old);
        }
    }
}
