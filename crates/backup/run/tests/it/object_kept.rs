//! How a real S3 server keeps objects, and profiles of the shared files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::object_common::{TRAILER, server};
use tdekit_backup_run::{
    AppendAt, MediaSource, ObjectLock, ObjectMedia, ObjectOptions, ObjectTarget, RunError, Storage,
    Target,
};

/// Less than a piece, and two of them.
const LENGTHS: [usize; 2] = [1000, 6 << 20];

fn put(address: &str, options: &ObjectOptions, length: usize) -> Result<(), RunError> {
    let mut target = ObjectTarget::new(address, options)?;
    target.open()?;
    let mut append = target.append(AppendAt::New { replace: false })?;
    append.write(&vec![7; length])?;
    append.sync()?;
    append.publish(TRAILER)
}

/// Returns the value of a header, in lower case as its name.
fn header(answer: &str, name: &str) -> Option<String> {
    let answer = answer.to_ascii_lowercase();
    let mut lines = answer.lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.map(|value| value.trim().to_owned())
}

fn locked(days: u32, compliance: bool) -> Storage {
    let lock = Some(ObjectLock { days, compliance });
    Storage { class: Some("STANDARD_IA".to_owned()), lock }
}

#[test]
fn objects_are_locked_and_have_their_class() {
    let Some(mut server) = server("locked") else { return };
    server.own_bucket(true);
    for (length, compliance) in LENGTHS.into_iter().zip([false, true]) {
        let (name, storage) = (format!("{length}.bak"), locked(2, compliance));
        let options = ObjectOptions { storage, ..server.options() };
        put(&server.address(&name), &options, length).unwrap();
        let head = server.head(&name);
        let mode = if compliance { "compliance" } else { "governance" };
        assert_eq!(header(&head, "x-amz-object-lock-mode").as_deref(), Some(mode), "{head}");
        assert_eq!(header(&head, "x-amz-storage-class").as_deref(), Some("standard_ia"), "{head}");
        let until = header(&head, "x-amz-object-lock-retain-until-date").unwrap();
        let in_days = |days: i64| {
            let at = tdekit_key_store::now_seconds() + days * 86_400;
            tdekit_key_store::iso8601(at).to_ascii_lowercase()
        };
        assert!(in_days(1) < until && until < in_days(3), "{until}");
        // It is read as any other.
        let media = ObjectMedia::open(&server.address(&name), &server.options()).unwrap();
        assert_eq!(media.part_len(0).unwrap(), (length + TRAILER.len()) as u64);
        // Nothing else was locked: claims are removed.
        assert_eq!(server.unfinished_uploads(), 0);
    }
}

#[test]
fn a_bucket_without_locks_is_told() {
    let Some(mut server) = server("unlocked") else { return };
    server.own_bucket(false);
    for length in LENGTHS {
        let name = format!("{length}.bak");
        let options = ObjectOptions { storage: locked(2, false), ..server.options() };
        let refused = put(&server.address(&name), &options, length).unwrap_err().to_string();
        assert!(refused.contains("must have been made for locks"), "{refused}");
        assert!(server.head(&name).starts_with("HTTP/1.1 404"), "{}", server.head(&name));
        put(&server.address(&name), &server.options(), length).unwrap();
    }
}

#[test]
fn a_profile_opens_the_store() {
    let Some(server) = server("profile") else { return };
    let dir = tempfile::tempdir().unwrap();
    let variables = server.options().variables;
    let of = |name: &str| variables.iter().find(|it| it.0 == name).unwrap().1.clone();
    let credentials = format!(
        "[default]\naws_access_key_id = no\naws_secret_access_key = no\n[tests]\n\
         aws_access_key_id = {}\naws_secret_access_key = {}\n",
        of("AWS_ACCESS_KEY_ID"),
        of("AWS_SECRET_ACCESS_KEY")
    );
    let config = format!("[profile tests]\nendpoint_url = {}\n", of("AWS_ENDPOINT_URL"));
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let named = |profile: &str| {
        let variables = [
            ("AWS_SHARED_CREDENTIALS_FILE", file("credentials", &credentials)),
            ("AWS_CONFIG_FILE", file("config", &config)),
            ("AWS_PROFILE", profile.to_owned()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
        ObjectOptions { variables, ..server.options() }
    };
    put(&server.address("a.bak"), &named("tests"), 1000).unwrap();
    assert!(server.get("a.bak").is_some());
    let refused = put(&server.address("b.bak"), &named("other"), 1000).unwrap_err().to_string();
    assert!(refused.contains("has no profile \"other\" with keys"), "{refused}");
}
