//! The short form of examples/mariadb-cluster: three nodes, load, a killed node, rotation.

use std::path::Path;
use std::process::{Command, Stdio};

use tdekit_faults_mariadb::rig::{command, needed};
use tdekit_faults_mariadb::{Keeper, Rig};

#[test]
#[ignore = "full: three nodes, a minute"]
fn a_cluster_loses_a_node_takes_it_back_and_has_equal_checksums() {
    let Some(rig) = Rig::new() else { return };
    if needed("sysbench").is_none() || needed("socat").is_none() {
        return;
    }
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/mariadb-cluster/run.sh");
    let plugin = if rig.keeper == Keeper::Tdekit { "tdekit" } else { "file_key_management" };
    // A signal before the time is over lets the script stop its servers; the second one is final.
    let mut run = Command::new("timeout");
    run.args(["--kill-after=20", "400"]).arg(&script).args(["--short", "--plugin", plugin]);
    if let Some(command) = command() {
        run.env("TDEKIT", command);
    }
    for name in ["TDEKIT_HOME", "TDEKIT_PASSWORD_FILE", "TDEKIT_KEY", "TDEKIT_KEY_FILE"] {
        run.env_remove(name);
    }
    let output = run.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("size of the cluster: 3") && text.ends_with("done\n"), "{text}");
    assert_eq!(text.matches("are equal on all nodes").count(), 2, "{text}");
}
