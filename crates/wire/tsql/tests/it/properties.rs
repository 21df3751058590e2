//! Arithmetic against big integers, and the interpreter against SQLite running emitted text.

use crate::common::{Server, rows};
use num_bigint::BigInt;
use proptest::prelude::*;

fn decimal() -> impl Strategy<Value = (i64, u8)> {
    (any::<i64>(), 0_u8..8).prop_map(|(digits, scale)| (digits % 10_000_000_000, scale))
}

fn text((digits, scale): (i64, u8)) -> String {
    let magnitude = format!("{:0>1$}", digits.unsigned_abs(), usize::from(scale) + 1);
    let (whole, rest) = magnitude.split_at(magnitude.len() - usize::from(scale));
    let sign = if digits < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}.") } else { format!("{sign}{whole}.{rest}") }
}

/// Returns the digits of a displayed decimal as an integer, and its scale.
fn parts(shown: &str) -> (BigInt, u32) {
    let scale = shown.split_once('.').map_or(0, |(_, rest)| rest.len());
    (shown.replace('.', "").parse().unwrap(), u32::try_from(scale).unwrap())
}

fn scaled(value: BigInt, by: u32) -> BigInt {
    value * BigInt::from(10).pow(by)
}

/// A random expression of integers over `a` and `b`.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (-5_i32..6).prop_map(|number| format!("({number})")),
        Just("a".to_owned()),
        Just("b".to_owned()),
        Just("NULL".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            (prop::sample::select(vec!["+", "-", "*", "/", "%", "&", "|"]), pair.clone())
                .prop_map(|(op, (left, right))| format!("({left} {op} {right})")),
            (prop::sample::select(vec!["=", "<", ">=", "<>"]), pair.clone(), pair.clone())
                .prop_map(|(op, (left, right), (yes, no))| format!(
                    "CASE WHEN {left} {op} {right} OR {yes} IS NULL THEN {yes} ELSE {no} END"
                )),
            (pair.clone(), inner.clone())
                .prop_map(|((left, right), last)| format!("COALESCE({left}, {right}, {last})")),
            (pair, inner).prop_map(|((left, right), last)| format!(
                "CASE WHEN NOT {left} IN ({right}, {last}) AND {last} BETWEEN -2 AND 3 THEN {left} \
                 ELSE ABS({right}) END"
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn decimals_are_exact(a in decimal(), b in decimal()) {
        let server = Server::new();
        let mut session = server.session();
        let (left, right) = (text(a), text(b));
        let found = rows(
            &mut *session,
            &format!("SELECT {left} + ({right}), {left} - ({right}), {left} * ({right})"),
        );
        let found: Vec<&str> = found.split(" | ").collect();
        let (x, y) = (BigInt::from(a.0), BigInt::from(b.0));
        let scale = u32::from(a.1.max(b.1));
        let (x1, y1) = (
            scaled(x.clone(), scale - u32::from(a.1)),
            scaled(y.clone(), scale - u32::from(b.1)),
        );
        prop_assert_eq!(parts(found[0]), (x1.clone() + y1.clone(), scale));
        prop_assert_eq!(parts(found[1]), (x1 - y1, scale));
        prop_assert_eq!(parts(found[2]), (x.clone() * y.clone(), u32::from(a.1 + b.1)));
        if b.0 != 0 {
            let found = rows(&mut *session, &format!("SELECT {left} / ({right})"));
            let (quotient, scale) = parts(&found);
            let up = scaled(x, scale + u32::from(b.1));
            prop_assert_eq!(quotient, up / scaled(y, u32::from(a.1)));
        }
    }

    #[test]
    fn sqlite_and_the_interpreter_agree(text in expression(), a in -9_i32..9, b in -9_i32..9) {
        let server = Server::new();
        let mut session = server.session();
        let variables = text.replace('a', "@a").replace('b', "@b");
        let interpreted = format!("DECLARE @a int = {a}, @b int = {b}; SELECT {variables}");
        let emitted = format!("SELECT {text} FROM (VALUES ({a}, {b})) AS t(a, b)");
        let (found, wanted) =
            (rows(&mut *session, &interpreted), rows(&mut *session, &emitted));
        prop_assert_eq!(found, wanted, "{}", text);
    }
}
