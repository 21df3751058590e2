//! Statements to `tdekit serve` that change databases' keys, and their records in the audit log.

use crate::served::{Served, eventually, ok, text};
use serde_json::Value;

#[test]
fn statements_about_keys_and_backups_are_in_the_log() {
    let mut served = Served::new();
    served.place.secret_file("home/config.toml", b"[audit]\nopenings = true\n");
    served.terminate();
    served.start();
    let mut client = served.client_in("app");
    ok(&mut client, "CREATE TABLE t (a int); INSERT t VALUES (1)");
    ok(
        &mut client,
        "CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256
         ENCRYPTION BY SERVER CERTIFICATE TestCert; USE master;
         ALTER DATABASE app SET ENCRYPTION ON; USE app; SELECT a FROM t",
    );
    ok(&mut client, "CREATE CERTIFICATE Other WITH SUBJECT = 'other'");
    ok(&mut client, "ALTER DATABASE ENCRYPTION KEY ENCRYPTION BY SERVER CERTIFICATE Other");
    ok(&mut client, "ALTER DATABASE ENCRYPTION KEY REGENERATE WITH ALGORITHM = AES_128");
    eventually("the end of the scan", || {
        let states = "SELECT encryption_scan_state_desc FROM sys.dm_database_encryption_keys";
        text(&ok(&mut client, states).values()[0][0]) == "COMPLETE"
    });
    ok(&mut client, "USE master; BACKUP DATABASE app TO DISK = 'app.bak'");
    ok(&mut client, "RESTORE DATABASE copied FROM DISK = 'app.bak' WITH REPLACE");
    ok(&mut client, "ALTER DATABASE app SET ENCRYPTION OFF");
    drop(client);
    let told = |name: &str| -> Vec<String> {
        let path = served.data(name);
        let path = path.to_str().unwrap();
        let log = served.place.json(["audit", "log", "--verify", "--json", "--database", path]);
        assert_eq!(log["faults"], serde_json::json!([]));
        let one = |entry: &Value| {
            assert!(entry["program"].as_str().unwrap().ends_with("tdekit-serve"));
            let key = &entry["key"];
            let certificate = key["certificates"][0]["name"].as_str().unwrap();
            let word = |value: &Value| value.as_str().unwrap().to_owned();
            format!("{} {} {certificate}", word(&entry["action"]), word(&key["algorithm"]))
        };
        log["entries"].as_array().unwrap().iter().map(one).collect()
    };
    let wanted = [
        "encrypted AES_256 TestCert",
        "opened AES_256 TestCert",
        "rewrapped AES_256 Other",
        "rotation-begun AES_128 Other",
        "rotated AES_128 Other",
        "backed-up AES_256 Other",
        "decrypted AES_128 Other",
    ];
    assert_eq!(told("app.db"), wanted);
    assert_eq!(told("copied.db")[0], "restored AES_256 Other");
}
