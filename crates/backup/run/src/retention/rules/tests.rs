use super::*;

const HOUR_MS: i64 = 3600 * 1000;
/// Saturday, 28 November 2026, 12:00 UTC.
const NOW: i64 = 1_795_867_200_000;

fn point(number: u8, at_ms: i64) -> Point {
    Point {
        set: [number; 16],
        database: Some("app".to_owned()),
        name: "app".to_owned(),
        asked: true,
        at_ms,
        expires_ms: 0,
        needs: Vec::new(),
        is_log: false,
        chain: None,
        is_log_backup: false,
        is_base: true,
        in_archive: false,
        verified: false,
        fault: None,
    }
}

/// Returns the numbers of the kept sets.
fn kept(points: &[Point], rules: &Rules) -> Vec<u8> {
    let kept = decide(points, rules, NOW);
    points.iter().zip(kept).filter(|(_, it)| !it.is_empty()).map(|(it, _)| it.set[0]).collect()
}

/// A set a day at noon, for `days`; number 0 is of today.
fn days(days: u8) -> Vec<Point> {
    (0..days).map(|age| point(age, NOW - i64::from(age) * DAY_MS)).collect()
}

#[test]
fn each_rule_keeps_what_it_says() {
    let sets = days(100);
    let all = |rules: Rules| kept(&sets, &rules);
    let none = Rules::default();
    assert_eq!(all(none), [0], "the newest is kept without any rule");
    assert_eq!(all(Rules { within_s: Some(24 * 3600), ..none }), [0, 1]);
    assert_eq!(all(Rules { within_s: Some(24 * 3600 - 1), ..none }), [0]);
    assert_eq!(all(Rules { within_s: Some(u64::MAX), ..none }).len(), 100);
    assert_eq!(all(Rules { last: Some(3), ..none }), [0, 1, 2]);
    assert_eq!(all(Rules { daily: Some(4), ..none }), [0, 1, 2, 3]);
    // Today is a Saturday: the newest of each week are of Saturday and of Sundays.
    assert_eq!(all(Rules { weekly: Some(3), ..none }), [0, 6, 13]);
    // 28 November, 31 October, 30 September, and nothing before 21 August.
    assert_eq!(all(Rules { monthly: Some(3), ..none }), [0, 28, 59]);
    assert_eq!(all(Rules { monthly: Some(99), ..none }), [0, 28, 59, 89]);
    let both = Rules { last: Some(2), monthly: Some(2), ..none };
    assert_eq!(all(both), [0, 1, 28]);
}

#[test]
fn days_without_a_set_do_not_count_and_the_newest_of_a_day_is_kept() {
    let sets = [
        point(1, NOW - HOUR_MS),
        point(2, NOW - 2 * HOUR_MS),
        point(3, NOW - 400 * DAY_MS),
        point(4, NOW - 400 * DAY_MS + HOUR_MS),
        point(5, NOW - 900 * DAY_MS),
    ];
    assert_eq!(kept(&sets, &Rules { daily: Some(2), ..Rules::default() }), [1, 4]);
    assert_eq!(kept(&sets, &Rules { daily: Some(9), ..Rules::default() }), [1, 4, 5]);
    let reasons = decide(&sets, &Rules { daily: Some(2), ..Rules::default() }, NOW);
    let told: Vec<_> = reasons[0].iter().map(ToString::to_string).collect();
    assert_eq!(told, ["the newest", "daily 2026-11-28"]);
}

#[test]
fn rules_are_for_each_database() {
    let mut sets = days(6);
    for (at, set) in sets.iter_mut().enumerate() {
        set.database = ["a", "b"].get(at % 2).map(|name| (*name).to_owned());
    }
    sets[5].database = None;
    assert_eq!(kept(&sets, &Rules { last: Some(1), ..Rules::default() }), [0, 1, 5]);
    sets.iter_mut().for_each(|set| set.asked = set.database.as_deref() == Some("a"));
    assert_eq!(kept(&sets, &Rules { last: Some(1), ..Rules::default() }), [0, 1, 3, 5]);
}

#[test]
fn what_is_not_restorable_is_kept_and_never_counts_for_a_rule() {
    let last = Rules { last: Some(1), ..Rules::default() };
    let mut sets = days(5);
    sets[0].fault = Some("damaged".to_owned());
    assert_eq!(kept(&sets, &last), [0, 1]);
    // It needs the damaged one, and the next needs what is not here.
    sets[1].needs = vec![[0; 16]];
    sets[2].needs = vec![[77; 16]];
    assert_eq!(kept(&sets, &last), [0, 1, 2, 3]);
    // The next one needs what needs the damaged one.
    sets[3].needs = vec![[1; 16]];
    assert_eq!(kept(&sets, &last), [0, 1, 2, 3, 4]);
}

#[test]
fn what_is_dated_in_the_future_displaces_nothing() {
    let mut sets = days(4);
    sets.push(point(9, NOW + 3000 * DAY_MS));
    assert_eq!(kept(&sets, &Rules { last: Some(1), ..Rules::default() }), [0, 9]);
    let daily = Rules { daily: Some(2), ..Rules::default() };
    assert_eq!(kept(&sets, &daily), [0, 1, 9]);
    for at_ms in [i64::MIN, i64::MAX] {
        sets.push(point(10, at_ms));
        let _ = decide(&sets, &Rules { weekly: Some(9), monthly: Some(9), ..daily }, NOW);
        let _ = decide(&sets, &Rules { within_s: Some(u64::MAX), ..daily }, at_ms);
    }
}

#[test]
fn what_has_not_expired_is_kept() {
    let mut sets = days(4);
    sets[2].expires_ms = NOW + 1;
    sets[3].expires_ms = NOW;
    assert_eq!(kept(&sets, &Rules { last: Some(1), ..Rules::default() }), [0, 2]);
}

#[test]
fn the_only_verified_one_is_kept() {
    let last = Rules { last: Some(2), ..Rules::default() };
    let mut sets = days(6);
    sets[3].verified = true;
    sets[5].verified = true;
    assert_eq!(kept(&sets, &last), [0, 1, 3]);
    sets[1].verified = true;
    assert_eq!(kept(&sets, &last), [0, 1]);
    sets[1].fault = Some("damaged".to_owned());
    assert_eq!(kept(&sets, &last), [0, 1, 2, 3]);
}

#[test]
fn copies_of_a_set_are_one_point_in_time() {
    let mut sets = days(4);
    sets.push(sets[0].clone());
    assert_eq!(kept(&sets, &Rules { last: Some(2), ..Rules::default() }), [0, 1, 0]);
}

#[test]
fn a_long_chain_is_decided_quickly() {
    let id = |number: u32| {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_le_bytes());
        id
    };
    let mut sets: Vec<Point> = (0..200_000)
        .map(|number| Point {
            set: id(number),
            needs: number.checked_sub(1).map(id).into_iter().collect(),
            ..point(0, NOW - 1_000_000 + i64::from(number))
        })
        .collect();
    let last = Rules { last: Some(1), ..Rules::default() };
    assert!(decide(&sets, &last, NOW).iter().all(|reasons| !reasons.is_empty()));
    sets[0].fault = Some("damaged".to_owned());
    let kept = decide(&sets, &last, NOW);
    let is_fault = |reason: &Reason| matches!(reason, Reason::Fault(_));
    assert!(kept.iter().all(|reasons| reasons.iter().any(is_fault)));
}

/// For random sets in random chains: each set that is kept as restorable has all that it needs
/// among the kept, each database keeps its newest and a verified one, and another run of the same
/// rules over what is left removes nothing more.
#[test]
fn what_a_kept_set_needs_is_never_removed() {
    for seed in 0..3000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut sets: Vec<Point> = Vec::new();
        for number in 0..random.u8(1..60) {
            let mut set = point(number, NOW - random.i64(0..120 * DAY_MS));
            set.database = Some(["a", "b", "c"][random.usize(0..3)].to_owned());
            for _ in 0..random.u8(0..3) {
                if number > 0 && random.u8(0..4) > 0 {
                    set.needs.push([random.u8(0..number); 16]);
                }
            }
            set.verified = random.u8(0..6) == 0;
            set.asked = random.u8(0..12) > 0;
            set.fault = (random.u8(0..20) == 0).then(|| "damaged".to_owned());
            set.expires_ms = if random.u8(0..12) == 0 { NOW + 1 } else { 0 };
            sets.push(set);
        }
        let mut rule = || (random.u8(0..3) == 0).then(|| random.u32(1..8));
        let rules = Rules {
            last: rule(),
            daily: rule(),
            weekly: rule(),
            monthly: rule(),
            within_s: rule().map(|days| u64::from(days) * 24 * 3600),
        };
        let reasons = decide(&sets, &rules, NOW);
        let left: Vec<Point> = sets
            .iter()
            .zip(&reasons)
            .filter(|(_, it)| !it.is_empty())
            .map(|(point, _)| point.clone())
            .collect();
        let ids: BTreeSet<SetId> = left.iter().map(|point| point.set).collect();
        let unbroken = broken(&sets);
        for point in left.iter().filter(|point| !unbroken.contains_key(&point.set)) {
            assert!(point.needs.iter().all(|needed| ids.contains(needed)), "seed {seed}");
        }
        for database in ["a", "b", "c"] {
            let of = |all: &[Point], verified: bool| {
                all.iter()
                    .filter(|point| point.database.as_deref() == Some(database))
                    .filter(|point| !unbroken.contains_key(&point.set))
                    .filter(|point| point.verified || !verified)
                    .map(|point| point.at_ms)
                    .max()
            };
            assert_eq!(of(&sets, false), of(&left, false), "seed {seed}: the newest of {database}");
            assert_eq!(of(&sets, true).is_some(), of(&left, true).is_some(), "seed {seed}");
        }
        let again = decide(&left, &rules, NOW);
        assert!(again.iter().all(|reasons| !reasons.is_empty()), "seed {seed}");
    }
}

/// A full set a day and a log set each quarter of it: the rules for days keep full sets, and a log
/// set in the last hours keeps its chain and no other.
#[test]
fn log_sets_are_kept_with_their_chain_and_by_time_alone() {
    let mut sets = Vec::new();
    for day in (0..5_u8).rev() {
        let begin = NOW - (i64::from(day) + 1) * DAY_MS;
        for part in 0..4_u8 {
            let number = (4 - day) * 4 + part;
            let mut set = point(number, begin + i64::from(part) * 6 * HOUR_MS);
            if part > 0 {
                set.is_log = true;
                set.chain = Some([number - part; 16]);
                set.needs = vec![[number - 1; 16]];
            }
            sets.push(set);
        }
    }
    let none = Rules::default();
    assert_eq!(kept(&sets, &none), [16, 17, 18, 19], "the newest, and its chain");
    let days = Rules { daily: Some(3), ..none };
    assert_eq!(kept(&sets, &days), [8, 12, 16, 17, 18, 19]);
    let within = Rules { within_s: Some(31 * 3600), ..none };
    assert_eq!(kept(&sets, &within), [12, 13, 14, 15, 16, 17, 18, 19]);
    // A hole in a chain: what is behind it cannot be restored, and goes or stays with the chain.
    let mut holed = sets.clone();
    holed.remove(14);
    let last = |last| Rules { last: Some(last), ..none };
    assert_eq!(kept(&holed, &last(1)), [16, 17, 18, 19]);
    assert_eq!(kept(&holed, &last(2)), [12, 13, 15, 16, 17, 18, 19]);
    // A log set that is damaged itself stays, and the chain with it.
    holed[14].fault = Some("damaged".to_owned());
    assert_eq!(kept(&holed, &last(1)), [12, 13, 15, 16, 17, 18, 19]);
    // Without the full set nothing of the chain is known to go.
    holed[14].fault = None;
    holed.remove(12);
    assert_eq!(kept(&holed, &last(1)), [13, 15, 16, 17, 18, 19]);
}

/// The next log backup stands on it, as long as no full set that is a base is newer.
#[test]
fn the_newest_log_backup_stays_with_its_chain() {
    let last = Rules { last: Some(1), ..Rules::default() };
    let at = |age: u8, needs: &[u8]| Point {
        needs: needs.iter().map(|set| [*set; 16]).collect(),
        ..point(9 - age, NOW - i64::from(age) * DAY_MS)
    };
    let log = |age, needs| Point { is_log_backup: true, ..at(age, needs) };
    let no_base = |age, needs| Point { is_base: false, ..at(age, needs) };
    let mut sets = vec![at(9, &[]), log(8, &[0]), log(7, &[1])];
    assert_eq!(kept(&sets, &last), [0, 1, 2]);
    sets.push(no_base(6, &[0]));
    assert_eq!(kept(&sets, &last), [0, 1, 2, 3]);
    sets.push(no_base(5, &[]));
    assert_eq!(kept(&sets, &last), [0, 1, 2, 4]);
    let archived = Point { in_archive: true, ..at(4, &[]) };
    assert_eq!(kept(&[&sets[..], &[archived]].concat(), &last), [0, 1, 2, 5]);
    // The chain that is shipped stays beside newer sets of other media.
    let shipped = Point { in_archive: true, ..at(6, &[]) };
    let more = Point { in_archive: true, is_log: true, ..at(5, &[3]) };
    assert_eq!(kept(&[shipped, more, at(4, &[])], &last), [3, 4, 5]);
    sets.push(at(4, &[]));
    assert_eq!(kept(&sets, &last), [5]);
    // Each counts.
    sets.push(log(3, &[5]));
    assert_eq!(kept(&sets, &Rules { last: Some(3), ..last }), [4, 5, 6]);
    assert_eq!(kept(&sets, &Rules { last: None, daily: Some(2), ..last }), [5, 6]);
}

/// The command names a database by its file, T-SQL by its name there: each has chains of its own.
#[test]
fn each_name_of_a_database_keeps_the_base_of_its_next_set() {
    let last = Rules { last: Some(1), ..Rules::default() };
    let at = |age: u8, name: &str, needs: &[u8]| Point {
        name: name.to_owned(),
        needs: needs.iter().map(|set| [*set; 16]).collect(),
        ..point(9 - age, NOW - i64::from(age) * DAY_MS)
    };
    let log = |age, name, needs| Point { is_log_backup: true, ..at(age, name, needs) };
    let mut sets = vec![at(9, "app", &[]), log(8, "app", &[0]), at(7, "app.db", &[])];
    assert_eq!(kept(&sets, &last), [0, 1, 2]);
    // One more of them does not count as another database's.
    sets.push(at(6, "app.db", &[]));
    assert_eq!(kept(&sets, &last), [0, 1, 3]);
    sets.push(at(5, "app", &[]));
    assert_eq!(kept(&sets, &last), [3, 4]);
    sets.push(at(4, "app.db", &[]));
    assert_eq!(kept(&sets, &last), [4, 5]);
    // Of an encrypted database under one name nothing more is kept.
    let copy = Point { is_base: false, ..at(3, "app.db", &[]) };
    assert_eq!(kept(&[&sets[..], &[copy]].concat(), &last), [4, 6]);
}
