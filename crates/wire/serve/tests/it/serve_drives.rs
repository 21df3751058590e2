//! Drive letters of `[serve] drives`: each statement that names a file, and what its path shows as.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::Place;
use crate::served::{Served, messages, ok, script, text};

/// Makes directories for C:, D: and E:, and maps them.
pub(crate) fn map_drives(place: &Place) {
    let data = ["D/CTP2_Data", "E/CTP2_Data"];
    for dir in ["home", "D/backup", "E/backup", "C/temp"].into_iter().chain(data) {
        fs::create_dir_all(place.path(dir)).unwrap();
    }
    // Relative paths start at the store's directory.
    let drives = format!("D = {:?}, e = \"../E\", C = \"../C\"", place.path("D"));
    fs::write(place.home().join("config.toml"), format!("[serve]\ndrives = {{ {drives} }}\n"))
        .unwrap();
}

fn with_drives() -> Served {
    let place = Place::empty();
    map_drives(&place);
    Served::of(place)
}

const KEYS: &str = "CREATE MASTER KEY ENCRYPTION BY PASSWORD = 'p@ssw0rd'
GO
OPEN MASTER KEY DECRYPTION BY PASSWORD = 'p@ssw0rd'
GO
CREATE CERTIFICATE TestCert WITH SUBJECT = 'EncryptionTesting'
GO
BACKUP CERTIFICATE TestCert TO FILE = 'C:\\temp\\TestCert.cert' WITH PRIVATE KEY
    (FILE = 'C:\\temp\\TestCert.key', ENCRYPTION BY PASSWORD = 'p@ssw0rd')
GO
BACKUP MASTER KEY TO FILE = 'C:\\temp\\MasterKey.key' ENCRYPTION BY PASSWORD = 'p@ssw0rd'
GO
CREATE CERTIFICATE Copy FROM FILE = 'c:/temp/TestCert.cert' WITH PRIVATE KEY
    (FILE = 'C:\\temp\\TestCert.key', DECRYPTION BY PASSWORD = 'p@ssw0rd')
GO
CREATE DATABASE shop
GO
BACKUP DATABASE shop TO DISK = 'D:\\backup\\shop.bak', DISK = 'E:\\backup\\..\\backup\\shop.bak'
    WITH INIT, ENCRYPTION (ALGORITHM = AES_256, SERVER CERTIFICATE = TestCert)
GO
RESTORE VERIFYONLY FROM DISK = 'D:\\backup\\shop.bak', DISK = 'E:\\backup\\shop.bak'
GO";

#[test]
fn statements_name_files_by_drives() {
    let served = with_drives();
    let mut client = served.client();
    // The certificate is there under its first name already.
    let (before, copy) = KEYS.split_once("CREATE CERTIFICATE Copy").unwrap();
    script(&mut client, before);
    let (copy, after) = copy.split_once("GO\n").unwrap();
    let refused = client.batch(&format!("CREATE CERTIFICATE Copy{copy}")).errors();
    assert_eq!(refused, [15232], "the file was read");
    script(&mut client, after);
    for file in
        ["C/temp/TestCert.cert", "C/temp/TestCert.key", "C/temp/MasterKey.key", "D/backup/shop.bak"]
    {
        assert!(served.place.path(file).is_file(), "{file}");
    }
    let families = "SELECT physical_device_name FROM msdb.dbo.backupmediafamily ORDER BY 1";
    let names: Vec<_> =
        ok(&mut client, families).values().iter().map(|row| text(&row[0])).collect();
    assert_eq!(names, ["D:\\backup\\shop.bak", "E:\\backup\\shop.bak"]);
    ok(&mut client, "EXEC xp_delete_file 0, N'D:\\backup\\shop.bak'");
    assert!(!served.place.path("D/backup/shop.bak").exists());
}

#[test]
fn no_path_leads_out_of_a_drive() {
    let served = with_drives();
    let mut client = served.client();
    ok(&mut client, "CREATE DATABASE shop");
    symlink(served.place.path("data"), served.place.path("D/out")).unwrap();
    let mut refused = |path: &str| {
        let answer = client.batch(&format!("BACKUP DATABASE shop TO DISK = '{path}'"));
        assert_eq!(answer.errors(), [3201, 3013], "{path}");
        messages(&answer).remove(0).text
    };
    for path in ["D:\\..\\data\\x.bak", "D:\\out\\x.bak", "E:/../x.bak"] {
        let told = refused(path);
        assert!(told.contains("error 5(The path leads out of the directory"), "{told}");
    }
    let told = refused("F:\\x.bak");
    assert!(told.contains("drives of [serve] in config.toml"), "{told}");
    assert!(told.contains("'F:\\x.bak'") && told.contains("error 3("), "{told}");
    refused("D:x.bak");
    let there = fs::read_dir(served.data("")).unwrap().count();
    assert_eq!(there, 2, "nothing but the database and its note");
}

#[test]
fn without_drives_the_error_names_the_option() {
    let served = Served::bare(&[]);
    let mut client = served.client();
    script(&mut client, KEYS.split_once("BACKUP CERTIFICATE").unwrap().0);
    let option = "The option drives of [serve] in config.toml maps one.";
    for (batch, number) in [
        ("BACKUP CERTIFICATE TestCert TO FILE = 'C:\\temp\\c'", 15240),
        ("BACKUP MASTER KEY TO FILE = 'C:\\temp\\m' ENCRYPTION BY PASSWORD = 'p@ssw0rd'", 15240),
        ("CREATE CERTIFICATE b FROM FILE = 'C:\\temp\\c'", 15208),
        ("RESTORE HEADERONLY FROM DISK = 'D:\\x.bak'", 3201),
    ] {
        let answer = client.batch(batch);
        assert_eq!(answer.errors()[0], number, "{batch}");
        assert!(messages(&answer)[0].text.contains(option), "{batch}: {answer:?}");
    }
}

#[test]
fn drives_that_are_not_there_are_refused_at_the_start() {
    for (drives, expected) in [
        ("D = \"/nowhere/at/all\"", "map a drive letter to"),
        ("DD = \"/\"", "one letter"),
        ("D = \"/\", d = \"/\"", "twice"),
    ] {
        let mut place = Place::empty();
        crate::served::add_login(&mut place);
        fs::create_dir(place.path("data")).unwrap();
        let config = format!("[serve]\ndrives = {{ {drives} }}\n");
        fs::write(place.home().join("config.toml"), config).unwrap();
        let run = place.run(["serve", "data", "--listen", "127.0.0.1:0"]);
        assert_ne!(run.code, 0);
        assert!(run.err.contains(expected), "{drives}: {}", run.err);
    }
}
