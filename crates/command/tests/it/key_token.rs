//! `tdekit key provider add pkcs11` with the tokens of SoftHSM, as a user runs it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::common::Place;

const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";
const TOKEN: &str = "tdekit test";
const PIN: &str = "648219";

/// Makes a directory of tokens with one token in it, and makes the place's commands use it.
fn with_token(place: &mut Place) -> PathBuf {
    let conf = place.path("softhsm2.conf");
    let tokens = place.path("tokens");
    fs::create_dir(&tokens).unwrap();
    fs::write(&conf, format!("directories.tokendir = {}\n", tokens.display())).unwrap();
    place.set("SOFTHSM2_CONF", conf.to_str().unwrap());
    let init = ["--init-token", "--free", "--label", TOKEN, "--pin", PIN, "--so-pin", "00000000"];
    softhsm(place, &init);
    place.secret_file("pin", format!("{PIN}\n").as_bytes())
}

fn softhsm(place: &Place, args: &[&str]) {
    let done = Command::new("softhsm2-util")
        .args(args)
        .env("SOFTHSM2_CONF", place.path("softhsm2.conf"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

fn add<'a>(key: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let named = ["--module", MODULE, "--token", TOKEN, "--key", key, "--pin-file", "pin"];
    [&["key", "provider", "add", "pkcs11"][..], &named, more].concat()
}

#[test]
fn a_key_of_a_token_opens_the_store_beside_the_password() {
    let mut place = Place::with_store();
    let pin_file = with_token(&mut place);
    place.ok(["cert", "create", "AppCert"]);
    let none = place.fails(3, add("master", &[]));
    assert!(none.contains("0 keys \"master\" for wrapping"), "{none}");
    let added = place.ok(add("master", &["--generate"]));
    assert!(added.out.contains("Made the key \"master\""), "{added:?}");
    assert!(place.fails(3, add("master", &["--generate"])).contains("1 keys \"master\""));
    let listed = place.json(["key", "provider", "list", "--json"]);
    let token = listed.as_array().unwrap().last().unwrap();
    assert_eq!((&token["kind"], &token["token"]), (&"PKCS#11 token".into(), &TOKEN.into()));
    assert_eq!(token["key"], "master");
    let password_id = listed[0]["id"].as_str().unwrap().to_owned();

    // Through the environment, with the PIN itself and with its file; then through the
    // configuration alone.
    place.set("TDEKIT_PASSWORD", "");
    place.set("TDEKIT_PKCS11_MODULE", MODULE);
    assert!(place.fails(3, ["key", "status", "--verify"]).contains("PIN of the token"));
    place.set("TDEKIT_PKCS11_PIN", PIN);
    place.ok(["key", "status", "--verify"]);
    place.set("TDEKIT_PKCS11_PIN", "");
    place.set("TDEKIT_PKCS11_PIN_FILE", pin_file.to_str().unwrap());
    place.ok(["key", "status", "--verify"]);
    place.set("TDEKIT_PKCS11_MODULE", "");
    place.set("TDEKIT_PKCS11_PIN_FILE", "");
    let text = format!(
        "[unlock]\npkcs11_module = {MODULE:?}\npkcs11_pin_file = {:?}\n",
        pin_file.to_str().unwrap()
    );
    fs::write(place.home().join("config.toml"), text).unwrap();
    place.ok(["key", "status", "--verify"]);

    // Without the password a new master key is sealed with the same key of the token.
    place.ok(["key", "provider", "remove", &password_id]);
    let before = fs::read(place.store_file()).unwrap();
    place.ok(["key", "rotate"]);
    assert_ne!(fs::read(place.store_file()).unwrap(), before);
    place.ok(["cert", "list", "--verify"]);
}

#[test]
fn a_token_that_fails_is_told_and_the_password_still_opens() {
    let mut place = Place::with_store();
    with_token(&mut place);
    place.ok(add("master", &["--generate"]));
    place.set("TDEKIT_PASSWORD", "");
    place.set("TDEKIT_PKCS11_MODULE", MODULE);
    place.set("TDEKIT_PKCS11_PIN", "111111");
    let wrong = place.fails(3, ["key", "status", "--verify"]);
    assert!(wrong.contains("wrong PIN") && !wrong.contains("111111"), "{wrong}");
    place.set("TDEKIT_PKCS11_PIN", PIN);
    place.set("TDEKIT_PKCS11_MODULE", "/usr/lib/no-such-module.so");
    place.fails(7, ["key", "status", "--verify"]);
    // A library that is not a module.
    let other = fs::canonicalize("/proc/self/exe").unwrap();
    place.set("TDEKIT_PKCS11_MODULE", other.to_str().unwrap());
    assert!(place.fails(3, ["key", "status", "--verify"]).contains("PKCS#11 module"));
    // A module that others can replace is not loaded.
    let exposed = place.path("module.so");
    fs::copy(MODULE, &exposed).unwrap();
    fs::set_permissions(&exposed, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    place.set("TDEKIT_PKCS11_MODULE", exposed.to_str().unwrap());
    assert!(place.fails(3, ["key", "status", "--verify"]).contains("others could change it"));
    place.set("TDEKIT_PKCS11_MODULE", MODULE);
    place.ok(["key", "status", "--verify"]);

    softhsm(&place, &["--delete-token", "--token", TOKEN]);
    let gone = place.fails(3, ["key", "status", "--verify"]);
    assert!(gone.contains(&format!("has no token {TOKEN:?}")), "{gone}");
    // Another token of the same name has another key, or none.
    let init = ["--init-token", "--free", "--label", TOKEN, "--pin", PIN, "--so-pin", "00000000"];
    softhsm(&place, &init);
    let keyless = place.fails(3, ["key", "status", "--verify"]);
    assert!(keyless.contains("0 keys \"master\" for unwrapping"), "{keyless}");
    let mut other = Place::with_store();
    other.set("SOFTHSM2_CONF", place.path("softhsm2.conf").to_str().unwrap());
    other.secret_file("pin", format!("{PIN}\n").as_bytes());
    other.ok(add("master", &["--generate"]));
    let another = place.fails(3, ["key", "status", "--verify"]);
    assert!(another.contains("does not open what was wrapped"), "{another}");
    assert!(another.contains("\"master\"") && another.contains(TOKEN), "{another}");
    place.set("TDEKIT_PASSWORD", "secret");
    place.ok(add("master", &[]));
    place.set("TDEKIT_PKCS11_MODULE", "");
    place.ok(["key", "status", "--verify"]);
}

#[test]
fn an_rsa_key_of_a_token_serves_too() {
    let mut place = Place::with_store();
    with_token(&mut place);
    let pem = place.path("rsa.pem");
    let rsa = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out"];
    let made = Command::new("openssl").args(rsa).arg(&pem).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let pem = pem.to_str().unwrap();
    let import = ["--import", pem, "--token", TOKEN, "--label", "rsa", "--id", "01", "--pin", PIN];
    softhsm(&place, &import);
    place.ok(add("rsa", &[]));
    place.set("TDEKIT_PASSWORD", "");
    place.set("TDEKIT_PKCS11_MODULE", MODULE);
    place.set("TDEKIT_PKCS11_PIN", PIN);
    place.ok(["key", "status", "--verify"]);
    // A second key of the same label: it is not known which of them was used.
    let import = ["--import", pem, "--token", TOKEN, "--label", "rsa", "--id", "02", "--pin", PIN];
    softhsm(&place, &import);
    let two = place.fails(3, ["key", "status", "--verify"]);
    assert!(two.contains("2 keys \"rsa\" for unwrapping"), "{two}");
}
