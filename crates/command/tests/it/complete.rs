//! What a shell completes, and the manual pages with those of the bench.

use std::fs;
use std::process::Command;

use crate::common::{Place, Run, tdekit};
use crate::databases::fill;

/// Returns what completes the last word of a line, as the script for fish asks.
fn completed(place: &Place, line: &str) -> Vec<String> {
    let words = ["--"].into_iter().chain(line.split(' '));
    let run = Run::of(&place.command(words).env("_TDEKIT_COMPLETE", "fish").output().unwrap());
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{line}: {run:?}");
    let values = run.out.lines().map(|line| line.split('\t').next().unwrap_or_default());
    values.map(str::to_owned).collect()
}

#[test]
fn names_of_what_is_there_complete() {
    let mut place = Place::with_store();
    for name in ["AppCert", "Archive", "Other"] {
        place.ok(["cert", "create", name]);
    }
    fill(&place.path("app.db"), 10);
    fs::write(place.path("app.txt"), "no database, and long enough to be one").unwrap();
    fs::create_dir(place.path("apps")).unwrap();
    let home = place.home().display().to_string();
    let of = |line: &str| completed(&place, line);
    assert_eq!(of("tdekit encrypt app.db --certificate A"), ["AppCert", "Archive"]);
    assert_eq!(of("tdekit cert drop O"), ["Other"]);
    assert_eq!(of("tdekit backup app.db --to x --sign Arch"), ["Archive"]);
    assert_eq!(of("tdekit encrypt app"), ["app.db", "apps/"]);
    assert_eq!(of("tdekit decrypt app.d"), ["app.db"]);
    assert_eq!(of("tdekit verify app.t"), ["app.txt"]);
    assert_eq!(of("tdekit encrypt --algorithm AEGIS_256"), ["AEGIS_256X2"]);
    assert_eq!(of("tdekit encr"), ["encrypt"]);
    place.set("TDEKIT_HOME", "");
    let elsewhere = format!("tdekit --store {home} encrypt app.db --certificate Oth");
    assert_eq!(completed(&place, &elsewhere), ["Other"]);
    // A missing key store is not an error while the line is still being typed.
    assert_eq!(completed(&place, "tdekit --store none cert drop A"), [""; 0]);
}

#[test]
fn options_of_the_bench_complete() {
    let place = Place::empty();
    assert_eq!(completed(&place, "tdekit ben"), ["bench"]);
    assert_eq!(completed(&place, "tdekit bench --experi"), ["--experiment"]);
    assert_eq!(completed(&place, "tdekit bench compa"), ["compare"]);
    let experiments = completed(&place, "tdekit bench --experiment s");
    assert!(experiments.contains(&"scans".to_owned()), "{experiments:?}");
}

#[test]
fn a_shell_completes_by_its_script() {
    let place = Place::with_store();
    place.ok(["cert", "create", "AppCert"]);
    let script = "source <(tdekit completions bash)
        COMP_WORDS=(tdekit cert drop App) COMP_CWORD=3
        _clap_complete_tdekit tdekit App drop
        echo \"${COMPREPLY[*]}\"
        COMP_WORDS=(tdekit bench --quic) COMP_CWORD=2
        _clap_complete_tdekit tdekit --quic bench
        echo \"${COMPREPLY[*]}\"";
    let path =
        format!("{}:{}", tdekit().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script]).env("PATH", path).env("TDEKIT_HOME", place.home());
    let run = Run::of(&bash.output().unwrap());
    assert_eq!((run.code, run.out.as_str()), (0, "AppCert\n--quick\n"), "{run:?}");
}

#[test]
fn the_page_of_the_bench_has_its_options() {
    let place = Place::empty();
    place.ok(["man-pages", "man"]);
    let page = fs::read_to_string(place.path("man/tdekit-bench.1")).unwrap();
    for wanted in ["\\-\\-experiment", "\\-\\-quick", "EXAMPLES", "SEE ALSO"] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
}

#[test]
fn a_command_of_another_name_gets_a_tip() {
    let place = Place::empty();
    for (words, wanted) in [
        (vec!["list"], "`tdekit cert list`"),
        (vec!["info", "app.db"], "`tdekit status FILE`"),
        (vec!["unlock"], "`tdekit agent`"),
    ] {
        let told = place.fails(2, words);
        assert!(told.contains("tip: ") && told.contains(wanted), "{told}");
    }
}
