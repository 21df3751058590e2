//! `tdekit serve` as a command: its arguments, its output, its encryption.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use crate::common::{Place, openssl};
use crate::served::{Client, PASSWORD, Served, add_login, int, login_of, messages, ok};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tdekit_wire_tds::prelogin::Encryption;

#[test]
fn logins_are_added_listed_and_removed() {
    let mut place = Place::empty();
    fs::create_dir(place.home()).unwrap();
    assert!(place.fails(3, ["serve", "login", "add", "sa"]).contains("--login-password-file"));
    add_login(&mut place);
    place.ok(["serve", "login", "add", "ann"]);
    place.ok(["serve", "login", "add", "ANN "]);
    assert_eq!(place.ok(["serve", "login", "list"]).out, "ann (sysadmin)\nsa (sysadmin)\n");
    let listed = place.json(["serve", "login", "list", "--json"]);
    let login = |name: &str| serde_json::json!({ "name": name, "sysadmin": true });
    assert_eq!(listed, serde_json::json!([login("ann"), login("sa")]));
    place.ok(["serve", "login", "remove", "ann"]);
    place.fails(2, ["serve", "login", "remove", "ann"]);
    place.set("TDEKIT_LOGIN_PASSWORD", "short");
    assert!(place.fails(2, ["serve", "login", "add", "ann"]).contains("8 characters"));
    let file = place.home().join("serve/logins.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&file).unwrap().contains(PASSWORD));
    fs::write(&file, "{}").unwrap();
    assert!(place.fails(4, ["serve", "login", "list"]).contains("hint: "));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(place.fails(7, ["serve", "login", "list"]).contains("it is not a file"));
}

#[test]
fn what_cannot_be_served_is_told_with_a_hint() {
    let mut place = Place::with_store();
    fs::create_dir(place.path("data")).unwrap();
    let any = ["serve", "data", "--listen", "127.0.0.1:0"];
    assert!(place.fails(2, any).contains("tdekit serve login add sa"));
    add_login(&mut place);
    let told = place.fails(7, ["serve", "none", "--listen", "127.0.0.1:0"]);
    assert!(told.contains("cannot serve none") && told.contains("hint: make the directory"));
    fs::write(place.path("text.txt"), "no database").unwrap();
    let told = place.fails(4, ["serve", "text.txt", "--listen", "127.0.0.1:0"]);
    assert!(told.contains("text.txt is not a database"), "{told}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    // Before any other output, so that nothing is on standard output.
    place.ok(["serve", "login", "list"]);
    let run = place.run(["serve", "data", "--listen", &address]);
    assert_eq!(run.code, 5, "{run:?}");
    assert!(run.err.contains(&address) && run.err.contains("hint: another program"), "{run:?}");
    assert!(!run.out.contains("listening"), "{run:?}");
    let told = place.fails(2, ["serve", "data", "--tls-cert", "x.pem"]);
    assert!(told.contains("--tls-key"), "{told}");
    fs::write(place.path("bad.pem"), "nothing").unwrap();
    let bad = ["--tls-cert", "bad.pem", "--tls-key", "bad.pem"];
    // Others could read the key, and then replace our list of logins.
    let told = place.fails(3, [&any[..], &bad].concat());
    assert!(told.contains("bad.pem") && told.contains("0644"), "{told}");
    fs::set_permissions(place.path("bad.pem"), PermissionsExt::from_mode(0o600)).unwrap();
    let told = place.fails(3, [&any[..], &bad].concat());
    assert!(told.contains("bad.pem") && told.contains("hint: --tls-cert"), "{told}");
    let serve = place.home().join("serve");
    fs::set_permissions(&serve, PermissionsExt::from_mode(0o777)).unwrap();
    let told = place.fails(3, ["serve", "login", "list"]);
    assert!(told.contains("0777") && told.contains("serve"), "{told}");
    fs::set_permissions(&serve, PermissionsExt::from_mode(0o700)).unwrap();
    place.set("TDEKIT_PASSWORD", "wrong");
    let told = place.fails(3, any);
    assert!(told.contains("password"), "{told}");
}

#[test]
fn a_locked_key_store_is_said_and_opened_by_a_client() {
    let mut served = Served::new();
    let mut client = served.client_in("sealed");
    ok(
        &mut client,
        "CREATE TABLE t (a int); INSERT t VALUES (43);
         CREATE DATABASE ENCRYPTION KEY WITH ALGORITHM = AES_256
         ENCRYPTION BY SERVER CERTIFICATE TestCert; USE master",
    );
    ok(&mut client, "ALTER DATABASE sealed SET ENCRYPTION ON");
    assert_eq!(served.warnings(), "");
    served.kill();
    served.place.set("TDEKIT_PASSWORD", "");
    served.start();
    assert!(served.warnings().contains("the key store is locked"), "{}", served.warnings());
    let mut client = served.client();
    assert!(!client.batch("SELECT a FROM sealed.dbo.t").errors().is_empty());
    ok(&mut client, "OPEN MASTER KEY DECRYPTION BY PASSWORD = 'secret'");
    assert_eq!(int(&mut client, "SELECT a FROM sealed.dbo.t"), 43);
}

#[test]
fn a_certificate_that_expires_soon_is_told_at_the_start_and_at_each_use() {
    let mut served = Served::new();
    assert_eq!(served.warnings(), "");
    served.kill();
    served.place.ok(["cert", "create", "Soon", "--expires", "20d"]);
    served.start();
    // Full days are reported: 20 only within the second in which the certificate was made.
    let warned = "certificate Soon expires in ";
    assert_eq!(served.warnings().matches(warned).count(), 1, "{}", served.warnings());
    let mut client = served.client_in("a");
    for (certificate, times) in [("Soon", 1), ("TestCert", 0)] {
        let answer = ok(
            &mut client,
            &format!(
                "BACKUP DATABASE a TO DISK = '{certificate}.bak' WITH ENCRYPTION
                 (ALGORITHM = AES_256, SERVER CERTIFICATE = {certificate})"
            ),
        );
        let told = messages(&answer);
        let expires = told.iter().filter(|each| each.text.contains("Soon expires in "));
        assert_eq!(expires.count(), times, "{told:?}");
    }
    assert_eq!(served.warnings().matches(warned).count(), 2, "{}", served.warnings());
}

/// A client's TLS that checks the server against `root`.
fn checked(root: &[u8]) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(root).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"tds/8.0".to_vec()];
    ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap()
}

fn enters(served: &Served, root: &[u8]) -> Result<(), String> {
    let mut client = Client::connect_to(served.address());
    client.strict(checked(root))?;
    let mut client = Client::connect_to(served.address());
    let answer = client.enter_strictly(login_of("sa", PASSWORD, ""), checked(root));
    assert_eq!(answer.errors(), [0; 0]);
    Ok(())
}

#[test]
fn the_first_start_makes_a_certificate_that_clients_can_check() {
    let mut served = Served::bare(&["--encrypt", "strict"]);
    let path = served.place.home().join("serve/tls-cert.pem");
    let own = fs::read(&path).unwrap();
    let key = served.place.home().join("serve/tls-key.pem");
    assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    enters(&served, &own).unwrap();
    served.kill();
    served.start();
    assert_eq!(fs::read(&path).unwrap(), own, "the same one, ever after");
    enters(&served, &own).unwrap();
    // A server of somebody else, and one that continues when a client does not trust it.
    let other = Served::bare(&["--encrypt", "required"]);
    assert!(enters(&other, &own).unwrap_err().contains("certificate"));
    other.client();
    served.kill();
}

#[test]
fn a_given_certificate_is_shown() {
    let mut place = Place::empty();
    add_login(&mut place);
    let subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
    let no_ca = ["-addext", "basicConstraints=critical,CA:FALSE"];
    let new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let files = ["-keyout", "own.key", "-out", "own.pem", "-days", "2"];
    openssl(&place.path(""), &[&new[..], &subject, &no_ca, &files].concat());
    let args = ["own.pem", "own.key"].map(|name| place.path(name).display().to_string());
    let served = Served::bare(&["--tls-cert", &args[0], "--tls-key", &args[1]]);
    enters(&served, &fs::read(place.path("own.pem")).unwrap()).unwrap();
    assert!(!served.place.home().join("serve/tls-cert.pem").exists(), "none is made then");
}

#[test]
fn each_mode_takes_whom_it_should() {
    let table = [
        ("off", [Some(false), None, None]),
        ("on", [Some(false), Some(true), Some(true)]),
        ("required", [None, Some(true), Some(true)]),
        ("strict", [None, None, Some(true)]),
    ];
    for (mode, [clear, wrapped, strict]) in table {
        let served = Served::bare(&["--encrypt", mode]);
        let told = |mut client: Client| {
            let option = "SELECT CASE encrypt_option WHEN 'TRUE' THEN 1 ELSE 0 END
                FROM sys.dm_exec_connections WHERE session_id = @@SPID";
            int(&mut client, option) == 1
        };
        for (asked, expected) in [(Encryption::NotSupported, clear), (Encryption::On, wrapped)] {
            let comes_in = expected.map(|_| told(served.client_with(asked)));
            assert_eq!(comes_in, expected, "{mode} {asked:?}");
            if expected.is_none() {
                let mut client = Client::connect_to(served.address());
                client.prelogin(asked);
                client.send(
                    tdekit_wire_tds::packet::PacketKind::Login,
                    &login_of("sa", PASSWORD, "").encode(),
                );
                assert_eq!(client.message(), None, "{mode} {asked:?}");
            }
        }
        let mut client = Client::connect_to(served.address());
        let tls = crate::served::tls_client(crate::served::BOTH, &[b"tds/8.0"]);
        match strict {
            Some(_) => {
                let answer = client.enter_strictly(login_of("sa", PASSWORD, ""), tls);
                assert_eq!(answer.errors(), [0; 0]);
                assert!(told(client), "{mode}");
            }
            None => assert!(client.strict(tls).is_err(), "{mode}"),
        }
    }
}
