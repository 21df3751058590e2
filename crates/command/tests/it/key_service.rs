//! `tdekit key provider add vault` against a server that follows Vault's documented interface, and
//! faults of key services, as a user sees them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::Place;
use crate::service::{Answer, Server, TOKEN, Transit, vault};
use serde_json::json;

const ARN: &str = "arn:aws:kms:eu-central-1:111122223333:key/0a1b2c3d-0a1b";

fn add_vault(url: &str) -> [&str; 8] {
    ["key", "provider", "add", "vault", "--address", url, "--transit-key", "app"]
}

/// A store that the password `secret`, a key file and the key `app` of `server` open.
fn with_vault(server: &Server) -> Place {
    let mut place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    place.ok(["key", "provider", "add", "key-file", "second.key", "--generate"]);
    place.set("VAULT_TOKEN", TOKEN);
    place.ok(add_vault(&server.url()));
    place.set("TDEKIT_PASSWORD", "");
    place.set("TDEKIT_VAULT_KEY", "app");
    place.set("VAULT_ADDR", &server.url());
    place
}

/// As a compose file sets them if its own variables are missing.
#[test]
fn variables_that_are_set_to_nothing_count_as_unset() {
    let transit = Transit::new("aes256-gcm96");
    let server = vault("app", &transit);
    let mut place = Place::with_store();
    for name in [
        "VAULT_CACERT",
        "VAULT_NAMESPACE",
        "TDEKIT_VAULT_MOUNT",
        "TDEKIT_VAULT_TOKEN_FILE",
        "AWS_PROFILE",
        "AWS_CA_BUNDLE",
        "AWS_ENDPOINT_URL_KMS",
        "TDEKIT_KEY_FILE",
        "TDEKIT_SERVICE_TIMEOUT",
    ] {
        place.set(name, "");
    }
    place.set("VAULT_TOKEN", TOKEN);
    place.ok(add_vault(&server.url()));
    place.set("TDEKIT_PASSWORD", "");
    place.set("TDEKIT_VAULT_KEY", "app");
    place.set("VAULT_ADDR", &server.url());
    place.ok(["key", "status", "--verify"]);
}

#[test]
fn each_of_three_providers_opens_the_store_alone() {
    let transit = Transit::new("aes256-gcm96");
    let server = vault("app", &transit);
    let mut place = with_vault(&server);
    place.ok(["cert", "list", "--verify"]);
    let listed = place.json(["key", "provider", "list", "--json"]);
    let last = &listed[2];
    assert_eq!((&last["kind"], &last["key"]), (&"Vault".into(), &"transit/app".into()));
    assert_eq!(last["address"], server.url());
    place.ok(["key", "status", "--verify", "--key-file", "second.key"]);
    let password = place.secret_file("password", b"secret");
    place.ok(["key", "status", "--verify", "--password-file", password.to_str().unwrap()]);

    // The wrapped secret is bound to the store and the protector, and opens with the token alone.
    let store = place.json(["key", "status", "--json"])["store_id"].as_str().unwrap().to_owned();
    let asked = server.asked();
    let verbs: Vec<_> = asked.iter().take(3).map(|one| one.path.as_str()).collect();
    assert_eq!(
        verbs,
        ["/v1/transit/keys/app", "/v1/transit/encrypt/app", "/v1/transit/decrypt/app"]
    );
    let bound = format!("tdekit keystore {store} protector {}", last["id"].as_str().unwrap());
    let base64 = base64(bound.as_bytes());
    for one in &asked[1..] {
        assert_eq!(one.json()["associated_data"], base64.as_str(), "{one:?}");
        assert_eq!(one.header("x-vault-token"), Some(TOKEN));
    }

    // Through the configuration alone, with the token in a file.
    place.set("TDEKIT_VAULT_KEY", "");
    place.set("VAULT_TOKEN", "");
    place.set("VAULT_ADDR", "");
    let token = place.secret_file("vault.token", format!("{TOKEN}\n").as_bytes());
    let text = format!(
        "[unlock.vault]\naddress = {:?}\nkey = \"app\"\ntoken_file = {:?}\n",
        server.url(),
        token.to_str().unwrap()
    );
    fs::write(place.home().join("config.toml"), &text).unwrap();
    place.ok(["key", "status", "--verify"]);
    // A file of the token that others could read.
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(place.fails(3, ["key", "status", "--verify"]).contains("others could read it"));
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();

    // The last one stays, whatever is requested.
    for at in [0, 1] {
        let id = listed[at]["id"].as_str().unwrap();
        place.ok(["key", "provider", "remove", id]);
    }
    let last = last["id"].as_str().unwrap();
    assert!(place.fails(2, ["key", "provider", "remove", last]).contains("is the last one"));
    place.ok(["key", "rotate"]);
    place.ok(["cert", "list", "--verify"]);
}

fn base64(bytes: &[u8]) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |chunk: &[u8], at: usize| {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let index = usize::try_from(bits >> (18 - 6 * at) & 63).unwrap();
        if at > chunk.len() { '=' } else { char::from(alphabet[index]) }
    };
    bytes.chunks(3).flat_map(|chunk| (0..4).map(move |at| digit(chunk, at))).collect()
}

#[test]
fn a_key_that_is_rotated_goes_on_and_rewrap_takes_its_newest_version() {
    let transit = Transit::new("aes256-gcm96");
    let server = vault("app", &transit);
    let place = with_vault(&server);
    transit.lock().unwrap().newest = 2;
    place.ok(["key", "status", "--verify"]);
    let id = |place: &Place| {
        let listed = place.json(["key", "provider", "list", "--json"]);
        listed[2]["id"].as_str().unwrap().to_owned()
    };
    let before = id(&place);
    // With another secret than the one that is rewrapped.
    place.ok(["key", "provider", "rewrap", &before, "--key-file", "second.key"]);
    assert_ne!(id(&place), before);
    transit.lock().unwrap().oldest_allowed = 2;
    place.ok(["cert", "list", "--verify"]);
    place.ok(["key", "provider", "rewrap", &id(&place)]);
    transit.lock().unwrap().oldest_allowed = 3;
    let told = place.fails(3, ["key", "status", "--verify"]);
    assert!(told.contains("disallowed by policy"), "{told}");
    // A protector that cannot be opened is not replaced.
    let before = fs::read(place.store_file()).unwrap();
    place.fails(3, ["key", "provider", "rewrap", &id(&place), "--key-file", "second.key"]);
    assert_eq!(fs::read(place.store_file()).unwrap(), before);
    let password = place.json(["key", "provider", "list", "--json"])[0]["id"].clone();
    let none =
        ["key", "provider", "rewrap", password.as_str().unwrap(), "--key-file", "second.key"];
    assert!(place.fails(3, none).contains("needs a password"));
}

#[test]
fn a_key_without_associated_data_serves_too() {
    let transit = Transit::new("rsa-4096");
    let server = vault("app", &transit);
    let place = with_vault(&server);
    place.ok(["key", "status", "--verify"]);
    assert!(server.asked().iter().all(|one| one.json()["associated_data"].is_null()));
}

#[test]
fn the_store_file_does_not_say_where_credentials_go() {
    let transit = Transit::new("aes256-gcm96");
    let server = vault("app", &transit);
    let mut place = with_vault(&server);
    let elsewhere = vault("other", &Transit::new("aes256-gcm96"));
    // The configured server is asked, not the one that the store records.
    place.set("VAULT_ADDR", &elsewhere.url());
    let count = server.asked().len();
    place.fails(3, ["key", "status", "--verify"]);
    assert_eq!((server.asked().len(), elsewhere.asked().len()), (count, 1));
    // A store that was sealed with another key than the configured one is not opened.
    place.set("TDEKIT_VAULT_KEY", "other");
    let told = place.fails(3, ["key", "status", "--verify"]);
    assert!(told.contains("key transit/app, and transit/other is configured"), "{told}");
    assert_eq!(elsewhere.asked().len(), 1);
    // Not encrypted, and not to this machine: nothing is sent.
    place.set("TDEKIT_VAULT_KEY", "app");
    place.set("VAULT_ADDR", "http://vault.example:8200");
    let told = place.fails(3, ["key", "status", "--verify"]);
    assert!(told.contains("is not encrypted: use https://"), "{told}");
}

/// Returns the error of opening with a server that answers this way; the time it took; the
/// requests.
fn opened_with(
    timeout_s: &str,
    answer: impl Fn(&crate::service::Asked) -> Answer + Send + Sync + 'static,
) -> (String, Duration, usize) {
    let transit = Transit::new("aes256-gcm96");
    let mut place = with_vault(&vault("app", &transit));
    let broken = Server::start(answer);
    place.set("VAULT_ADDR", &broken.url());
    place.set("TDEKIT_SERVICE_TIMEOUT", timeout_s);
    let begun = Instant::now();
    let told = place.fails(3, ["key", "status", "--verify"]);
    let took = begun.elapsed();
    assert!(!told.contains(TOKEN), "{told}");
    let others = "a password or a key file opens the key store too";
    assert!(told.contains(others) && told.contains("hint: give another secret"), "{told}");
    place.ok(["key", "status", "--verify", "--key-file", "second.key"]);
    (told, took, broken.asked().len())
}

#[test]
fn a_service_that_fails_is_told_and_tried_a_bounded_number_of_times() {
    let error = |status, text: &'static str| {
        move |_: &crate::service::Asked| Answer::Json(status, json!({ "errors": [text] }))
    };
    let (told, _, count) = opened_with("20", error(403, "permission denied"));
    assert!(told.contains("it refused (HTTP 403): permission denied") && count == 1, "{told}");
    let (told, _, count) = opened_with("20", error(400, "encryption key not found"));
    assert!(told.contains("encryption key not found") && count == 1, "{told}");
    // Throttled, sealed: a few tries, and the server's text.
    for (status, text) in [(429, "request rate limited"), (503, "Vault is sealed")] {
        let (told, took, count) = opened_with("20", error(status, text));
        assert!(told.contains(text) && count == 4, "{told} {count}");
        assert!(took > Duration::from_millis(500), "{took:?}");
    }
    // A server that echoes our own token, and one with control characters.
    let echo = |asked: &crate::service::Asked| {
        let said = format!("bad token {}\u{1b}[2J", asked.header("x-vault-token").unwrap());
        Answer::Json(403, json!({ "errors": [said] }))
    };
    let (told, ..) = opened_with("20", echo);
    assert!(told.contains("bad token (a secret) [2J"), "{told}");
}

#[test]
fn a_passing_failure_passes() {
    let transit = Transit::new("aes256-gcm96");
    let mut place = with_vault(&vault("app", &transit));
    let tries = AtomicUsize::new(0);
    let server = Server::start(move |asked| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => Answer::Json(429, json!({ "errors": [] })),
        1 => Answer::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"data\"".to_vec()),
        _ => transit.lock().unwrap().answer("app", asked),
    });
    place.set("VAULT_ADDR", &server.url());
    place.ok(["key", "status", "--verify"]);
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn an_answer_that_is_none_is_refused() {
    let raw = |bytes: Vec<u8>| move |_: &crate::service::Asked| Answer::Raw(bytes.clone());
    let ok = |body: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    for (bytes, reason) in [
        (ok("<html>log in</html>"), "no JSON of Vault"),
        (ok("{\"data\":{}}"), "no JSON of Vault"),
        (ok("{\"data\":{\"plaintext\":\"!!\"}}"), "no Base64"),
        (ok("{\"data\":{\"plaintext\":\"AAAA\"}}"), "a secret of another length"),
        (ok(&" ".repeat(100_000)), "more than 64 KiB"),
        (
            ok("{\"data\":{\"plaintext\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"}}"),
            "does not open",
        ),
    ] {
        let transit = Transit::new("aes256-gcm96");
        let mut place = with_vault(&vault("app", &transit));
        let broken = Server::start(raw(bytes));
        place.set("VAULT_ADDR", &broken.url());
        let told = place.fails(3, ["key", "status", "--verify"]);
        assert!(told.contains(reason), "{reason}: {told}");
        assert_eq!(broken.asked().len(), 1, "{reason}");
    }
    // Without a length and without an end.
    let endless = b"HTTP/1.1 200 OK\r\n\r\n".iter().copied().chain([b' '; 200_000]).collect();
    assert!(opened_with("20", raw(endless)).0.contains("more than 64 KiB"));
    let cut = raw(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{".to_vec());
    let (told, _, count) = opened_with("20", cut);
    assert!(told.contains("away, tried 4 times") && count == 4, "{told}");
}

#[test]
fn a_redirect_is_not_followed() {
    let transit = Transit::new("aes256-gcm96");
    let elsewhere = vault("app", &transit);
    let to = format!("{}/v1/transit/decrypt/app", elsewhere.url());
    for status in [301, 302, 307, 308] {
        let bytes = format!("HTTP/1.1 {status} x\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
        let answer = move |_: &crate::service::Asked| Answer::Raw(bytes.clone().into_bytes());
        let (told, _, count) = opened_with("20", answer);
        assert!(told.contains("a redirect") && count == 1, "{told}");
    }
    assert!(elsewhere.asked().is_empty());
}

#[test]
fn a_service_that_is_slow_or_gone_is_told_in_time() {
    let silence = |_: &crate::service::Asked| Answer::Silence(Duration::from_secs(30));
    let (told, took, _) = opened_with("2", silence);
    assert!(told.contains("away, tried once in 1.") && told.contains(" s: no answer"), "{told}");
    assert!(took < Duration::from_secs(20), "{took:?}");

    let transit = Transit::new("aes256-gcm96");
    let mut place = with_vault(&vault("app", &transit));
    // A port without a listener.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    place.set("VAULT_ADDR", &format!("http://{free}"));
    let told = place.fails(3, ["key", "status", "--verify"]);
    assert!(told.contains("away, tried 4 times") && told.contains("refused"), "{told}");
    assert!(told.contains("the key transit/app of Vault at http://127.0.0.1:"), "{told}");
    for wrong in ["0", "301", "x"] {
        place.set("TDEKIT_SERVICE_TIMEOUT", wrong);
        place.fails(2, ["key", "status", "--verify"]);
    }
}

#[test]
fn a_key_that_is_not_there_or_a_provider_that_fails_leaves_the_store_as_it_was() {
    let transit = Transit::new("aes256-gcm96");
    let server = vault("other", &transit);
    let mut place = Place::with_store();
    let before = fs::read(place.store_file()).unwrap();
    let none = place.fails(3, add_vault(&server.url()));
    assert!(none.contains("no credentials: set VAULT_TOKEN"), "{none}");
    place.set("VAULT_TOKEN", TOKEN);
    let none = place.fails(3, add_vault(&server.url()));
    assert!(none.contains("the key or the mount is not there"), "{none}");
    // Asking made nothing.
    assert!(server.asked().iter().all(|one| one.method == "GET"));
    // It wraps but does not unwrap.
    let half = Server::start(|asked| match asked.path.contains("/decrypt/") {
        true => Answer::Json(403, json!({ "errors": ["permission denied"] })),
        false if asked.method == "GET" => Answer::Json(403, json!({ "errors": [] })),
        false => Answer::Json(200, json!({ "data": { "ciphertext": "vault:v1:AAAA" } })),
    });
    assert!(place.fails(3, add_vault(&half.url())).contains("permission denied"));
    assert_eq!(fs::read(place.store_file()).unwrap(), before);
    let kms = ["key", "provider", "add", "aws-kms", "--key"];
    assert!(place.fails(2, kms.into_iter().chain(["alias/app"])).contains("is no ARN"));
    place.ok(["key", "status", "--verify"]);
}

#[test]
fn aws_is_asked_with_a_signature_and_its_refusals_are_told() {
    let mut place = Place::with_store();
    place.set("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
    place.set("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI-secret");
    place.set("AWS_SESSION_TOKEN", "session-token-1");
    let refuse = |kind: &'static str, status| {
        Server::start(move |_| {
            let message = "not for you, session-token-1";
            Answer::Json(status, json!({ "__type": format!("a#{kind}"), "message": message }))
        })
    };
    for (kind, status, tries) in [
        ("AccessDeniedException", 400, 1),
        ("DisabledException", 400, 1),
        ("KMSInvalidStateException", 400, 1),
        ("NotFoundException", 400, 1),
        ("IncorrectKeyException", 400, 1),
        ("ThrottlingException", 400, 4),
        ("KMSInternalException", 500, 4),
    ] {
        let server = refuse(kind, status);
        place.set("AWS_ENDPOINT_URL_KMS", &server.url());
        let told = place.fails(3, ["key", "provider", "add", "aws-kms", "--key", ARN]);
        assert!(told.contains(kind) && told.contains(ARN), "{told}");
        assert!(!told.contains("session-token-1") && !told.contains("wJalr"), "{told}");
        let asked = server.asked();
        assert_eq!(asked.len(), tries, "{kind}");
        let one = &asked[0];
        let signed = one.header("authorization").unwrap();
        assert!(signed.contains("Credential=AKIDEXAMPLE/"), "{signed}");
        assert!(signed.contains("/eu-central-1/kms/aws4_request"), "{signed}");
        assert_eq!(one.header("x-amz-target"), Some("TrentService.Encrypt"));
        assert_eq!(one.header("x-amz-security-token"), Some("session-token-1"));
        let body = one.json();
        assert_eq!(body["KeyId"], ARN);
        let store = place.json(["key", "status", "--json"])["store_id"].clone();
        assert_eq!(body["EncryptionContext"]["tdekit-keystore"], store);
    }
}

/// The client that finds a container's credentials panics on what it does not expect.
#[test]
fn bad_credentials_of_a_container_are_an_error() {
    let mut place = Place::with_store();
    let token = place.path("token");
    let server = Server::start(|_| {
        let expires = "2099-01-01T00:00:00Z";
        let keys = json!({ "AccessKeyId": "A\nB", "SecretAccessKey": "S", "Token": "T\n",
            "Expiration": expires });
        Answer::Json(200, keys)
    });
    place.set("AWS_ENDPOINT_URL_KMS", &server.url());
    place.set("AWS_ALLOW_HTTP", "true");
    place.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &server.url());
    place.set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap());
    for (content, said) in [("tok\n", "ends in a line feed"), ("tok", "control character")] {
        fs::write(&token, content).unwrap();
        let told = place.fails(3, ["key", "provider", "add", "aws-kms", "--key", ARN]);
        assert!(told.contains(said), "{content:?}: {told}");
    }
}

/// A TLS server with a certificate for 127.0.0.1, and the certificate's file.
fn with_tls(place: &Place) -> Server {
    let (certificate, key) = (place.path("tls.pem"), place.path("tls.key"));
    crate::common::openssl(
        &place.path(""),
        &[
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=vault",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            key.to_str().unwrap(),
            "-out",
            certificate.to_str().unwrap(),
        ],
    );
    let config = tls_config(&certificate, &key);
    let transit = Transit::new("aes256-gcm96");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let answer = move |asked: &crate::service::Asked| transit.lock().unwrap().answer("app", asked);
    Server::of(listener, answer, move |stream| {
        let connection = rustls::ServerConnection::new(config.clone()).ok()?;
        Some(Box::new(rustls::StreamOwned::new(connection, stream)))
    })
}

fn tls_config(certificate: &Path, key: &Path) -> std::sync::Arc<rustls::ServerConfig> {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let certificate = CertificateDer::from_pem_file(certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    config.with_single_cert(vec![certificate], key).unwrap().into()
}

#[test]
fn tls_is_checked_and_cannot_be_turned_off() {
    let mut place = Place::with_store();
    let server = with_tls(&place);
    let url = format!("https://{}", server.address);
    place.set("VAULT_TOKEN", TOKEN);
    // Vault's own switch, which would make its own program trust anybody.
    place.set("VAULT_SKIP_VERIFY", "true");
    let told = place.fails(3, add_vault(&url));
    assert!(told.contains("its TLS certificate is not accepted"), "{told}");
    assert!(server.asked().is_empty());
    // For another name than the certificate's.
    place.set("VAULT_CACERT", place.path("tls.pem").to_str().unwrap());
    let other = url.replace("127.0.0.1", "localhost");
    assert!(place.fails(3, add_vault(&other)).contains("certificate is not accepted"));
    assert!(server.asked().is_empty());
    place.ok(add_vault(&url));
    place.set("TDEKIT_PASSWORD", "");
    place.set("TDEKIT_VAULT_KEY", "app");
    place.set("VAULT_ADDR", &url);
    place.ok(["key", "status", "--verify"]);
    // A certificate file without a certificate.
    place.set("VAULT_CACERT", place.store_file().to_str().unwrap());
    place.fails(3, ["key", "status", "--verify"]);
}

#[test]
fn the_program_that_asks_is_not_for_people_and_refuses_other_input() {
    let place = Place::empty();
    let told = place.fails(7, ["key-service"]);
    assert!(!told.is_empty());
    let help = place.ok(["--help"]).out;
    assert!(!help.contains("key-service"), "{help}");
}
