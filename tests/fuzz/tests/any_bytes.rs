//! The fuzz targets on stable Rust: random bytes, and random changes of a few bytes.

#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::*;

/// Mostly zeros: as a change, it flips bits in a few places of a sealed unit.
fn sparse() -> impl Strategy<Value = Vec<u8>> {
    (any::<[u8; 4]>(), vec((0..1100_usize, any::<u8>()), 0..4)).prop_map(|(number, changes)| {
        let mut bytes = number.to_vec();
        for (at, change) in changes {
            bytes.resize(bytes.len().max(at + 1), 0);
            bytes[at] = change;
        }
        bytes
    })
}

/// A target's seed with up to three bytes changed, and possibly truncated.
fn near_seed(target: &str) -> impl Strategy<Value = Vec<u8>> {
    let seeds = tdekit_fuzz::seeds::seeds();
    let seeds: Vec<_> =
        seeds.into_iter().filter(|(name, _)| *name == target).map(|(_, seed)| seed).collect();
    proptest::sample::select(seeds).prop_flat_map(near)
}

fn near(seed: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let places = vec((0..seed.len(), any::<u8>()), 0..4);
    (places, prop_oneof![9 => Just(seed.len()), 1 => 0..seed.len()]).prop_map(
        move |(changes, length)| {
            let mut bytes = seed.clone();
            for (at, change) in changes {
                bytes[at] ^= change;
            }
            bytes.truncate(length);
            bytes
        },
    )
}

/// Words of T-SQL in any order.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "SELECT", "FROM", "t", "WHERE", "a", "b", "(", ")", ",", "=", "1", "'x'", "AND", "OR",
        "NOT", "IN", "CASE", "WHEN", "THEN", "END", "UNION", "ALL", "ORDER BY", "GROUP BY",
        "TOP (1)", "*", "JOIN", "ON", "AS", "WITH", "INSERT", "VALUES", "UPDATE", "SET", "DELETE",
        "OUTPUT", "inserted", ".", "@p", "EXISTS", "BETWEEN", "LIKE", "NULL", "OVER", "COUNT",
        "CAST", "int", "BEGIN", "IF", "EXEC", "DECLARE", "@v", "-", "+", "[q]", ";",
    ]);
    vec(word, 0..60).prop_map(|words| words.join(" ").into_bytes())
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..1500), sparse()]
}

/// A change of a valid input of the target's parser, or arbitrary bytes.
fn input(target: &str) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![any_bytes(), near_seed(target)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn keystore(data in input("keystore")) { tdekit_fuzz::keystore(&data); }

    #[test]
    fn audit_log(data in input("audit_log")) { tdekit_fuzz::audit_log(&data); }

    #[test]
    fn wrapped_dek(data in input("wrapped_dek")) { tdekit_fuzz::wrapped_dek(&data); }

    #[test]
    fn header(data in input("header")) { tdekit_fuzz::header(&data); }

    #[test]
    fn page(data in any_bytes()) { tdekit_fuzz::page(&data); }

    #[test]
    fn wal(data in any_bytes()) { tdekit_fuzz::wal(&data); }

    #[test]
    fn fresh(data in any_bytes()) { tdekit_fuzz::fresh(&data); }

    #[test]
    fn journal(data in any_bytes()) { tdekit_fuzz::journal(&data); }

    #[test]
    fn media(data in input("media")) { tdekit_fuzz::media(&data); }

    #[test]
    fn media_block(data in any_bytes()) { tdekit_fuzz::media_block(&data); }

    #[test]
    fn binlog(data in input("binlog")) { tdekit_fuzz::binlog(&data); }

    #[test]
    fn datafile(data in input("datafile")) { tdekit_fuzz::datafile(&data); }

    #[test]
    fn mysql_files(data in input("mysql_files")) { tdekit_fuzz::mysql_files(&data); }

    #[test]
    fn mysql_keyring(data in input("mysql_keyring")) { tdekit_fuzz::mysql_keyring(&data); }

    #[test]
    fn tds_packet(data in input("tds_packet")) { tdekit_fuzz::tds_packet(&data); }

    #[test]
    fn tds_login(data in input("tds_login")) { tdekit_fuzz::tds_login(&data); }

    #[test]
    fn tds_rpc(data in input("tds_rpc")) { tdekit_fuzz::tds_rpc(&data); }

    #[test]
    fn tds_token(data in input("tds_token")) { tdekit_fuzz::tds_token(&data); }

    #[test]
    fn tsql(data in prop_oneof![input("tsql"), words()]) { tdekit_fuzz::tsql(&data); }

    #[test]
    fn script_output(data in input("script_output")) { tdekit_fuzz::script_output(&data); }
}
