//! `backup` to new media, interrupted at any step: a set that has its name is whole, with its
//! signature.

use std::fs;

use crate::databases::{Dir, create, encrypt, fill, place};
use crate::powercut::{Choice, each_image};
use tdekit_faults_sqlite::trace::{is_possible, record};

#[test]
fn new_media_have_their_name_when_they_are_whole() {
    if !is_possible() {
        return;
    }
    for names in [&["a.bak"][..], &["m1.bak", "m2.bak"]] {
        let (dir, media) = (Dir::new(), Dir::new());
        let db = dir.path("app.db");
        fill(&db, 3000);
        drop(create(&db, "PRAGMA journal_mode = WAL"));
        encrypt(&db, &[]);
        let paths: Vec<_> = names.iter().map(|name| media.path(name)).collect();
        let mut args = vec!["backup", db.to_str().unwrap(), "--compression", "none"];
        for path in &paths {
            args.extend(["--to", path.to_str().unwrap()]);
        }
        let roots = [media.path("")];
        let traced = record(&place().command(&args), &roots, None).unwrap();
        assert!(traced.output.status.success(), "{:?}", traced.output);
        let said = place().run(["verify", paths[0].to_str().unwrap(), "--signed-by", "AppCert"]);
        assert_eq!(said.code, 0, "{said:?}");
        let whole: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
        let mut named = 0;
        let images = each_image(&traced.log, &roots, Choice::of(60), |image| {
            for (path, whole) in paths.iter().zip(&whole) {
                match fs::read(path) {
                    Ok(bytes) => {
                        assert!(bytes == *whole, "{}: {}", path.display(), image.what);
                        named += 1;
                    }
                    Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
                }
            }
        });
        eprintln!("{names:?}: {images} images, in {named} of them with a name");
        assert!(images > 8 && named > 0);
    }
}
