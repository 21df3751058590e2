//! Background threads that have nothing to rotate do not burn CPU (MDEV-11581).

use std::time::{Duration, Instant};

use tdekit_faults_mariadb::{Keeper, Rig};

/// Returns the CPU time of a server in five idle seconds, in milliseconds.
fn idle_ms(rig: &Rig, options: &[&str]) -> u64 {
    let data = rig.fresh("data");
    let server = rig.start(&data, options);
    server.sql("CREATE DATABASE test").unwrap();
    for table in 0..20 {
        server.sql(&format!("CREATE TABLE test.t{table}(n INT PRIMARY KEY)")).unwrap();
    }
    let begun = Instant::now();
    if rig.keeper != Keeper::Nobody {
        let left = "SELECT COUNT(*) FROM information_schema.innodb_tablespaces_encryption \
                    WHERE MIN_KEY_VERSION < CURRENT_KEY_VERSION OR ROTATING_OR_FLUSHING = 1";
        while server.sql(left).unwrap().trim() != "0" {
            assert!(begun.elapsed() < Duration::from_secs(60), "the encryption does not end");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    std::thread::sleep(Duration::from_secs(2));
    let before = server.moment();
    std::thread::sleep(Duration::from_secs(5));
    let used = server.moment().since(&before).unwrap();
    server.stop().unwrap();
    used.cpu_ns / 1_000_000
}

/// Not a test of speed: a busy loop uses thousands, an idle server tens.
#[test]
#[ignore = "full: watches a server for 20 seconds"]
fn idle_rotation_threads_burn_no_cpu() {
    let (Some(rig), Some(plain)) = (Rig::new(), Rig::with(Keeper::Nobody)) else { return };
    let options = ["innodb-encryption-threads=4", "innodb-encryption-rotate-key-age=1"];
    let (own, base) = (idle_ms(&rig, &options), idle_ms(&plain, &[]));
    assert!(own < base + 500, "idle: {own} ms with encryption, {base} ms without");
}
