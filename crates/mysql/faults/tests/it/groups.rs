//! Servers that copy each other's data, each with a key store of its own: a remote clone, a group.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use tdekit_private_mariadb::{Programs, Server, ServerError};

use crate::life::{MARKER, contains, count, files, make_rows};
use tdekit_faults_mysql::{Keys, NAMESPACE, Rig, text};

/// Time that two servers may take to become a group.
const GROUP_LIMIT: Duration = Duration::from_mins(2);
/// The server stopped after a clone, because nothing restarts it.
const NOT_SUPERVISED: &str = "3707";

/// A server's programs with a store of its own, and the plugins that came with MySQL.
fn programs(rig: &Rig, name: &str, plugin: &str) -> (Keys, Programs) {
    let keys = rig.keys(&format!("{name}-home"));
    let programs = rig.with(name, &text(&keys.config()));
    rig.link_plugin(name, plugin);
    (keys, programs)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start(
    rig: &Rig,
    programs: &Programs,
    name: &str,
    more: &[String],
) -> Result<Server, ServerError> {
    let data = rig.path(&format!("{name}-data"));
    let mut config =
        rig.config(if data.exists() { data } else { rig.fresh(&format!("{name}-data")) });
    config.options.extend_from_slice(more);
    config.port = Some(free_port());
    Server::start(programs, &config)
}

fn names(keys: &Keys) -> Vec<String> {
    let store = keys.unlock();
    let named = store.store().named_keys(NAMESPACE).unwrap().unwrap();
    named.iter().map(|(name, _)| name.id.clone()).collect()
}

fn port(server: &Server) -> String {
    server.sql("SELECT @@port").unwrap().trim().to_owned()
}

#[test]
fn a_remote_clone_is_under_the_keys_of_its_own_server() {
    let Some(rig) = Rig::new() else { return };
    let plugin = ["plugin-load-add=mysql_clone.so".to_owned()];
    let (donor_keys, donor) = programs(&rig, "donor", "mysql_clone");
    let (keys, recipient) = programs(&rig, "recipient", "mysql_clone");
    let from = start(&rig, &donor, "donor", &plugin).unwrap();
    make_rows(&from);
    from.sql(
        "CREATE USER d@'127.0.0.1' IDENTIFIED BY 'p'; GRANT BACKUP_ADMIN ON *.* TO d@'127.0.0.1'",
    )
    .unwrap();
    let to = start(&rig, &recipient, "recipient", &plugin).unwrap();
    let at = port(&from);
    to.sql(&format!("SET GLOBAL clone_valid_donor_list = '127.0.0.1:{at}'")).unwrap();
    let clone = format!("CLONE INSTANCE FROM d@'127.0.0.1':{at} IDENTIFIED BY 'p' REQUIRE SSL");
    let told = to.sql(&clone).unwrap_err().to_string();
    assert!(told.contains(NOT_SUPERVISED), "{told}");
    drop(to);
    from.stop().unwrap();

    // Neither server nor store of the donor is needed.
    std::fs::rename(&donor_keys.home, rig.path("away")).unwrap();
    let cloned = start(&rig, &recipient, "recipient", &plugin).unwrap();
    assert_eq!(count(&cloned), "2");
    cloned
        .sql("INSERT INTO app.t (text) VALUES ('x'); ALTER INSTANCE ROTATE INNODB MASTER KEY")
        .unwrap();
    cloned.stop().unwrap();
    let data = rig.path("recipient-data");
    for path in files(&data).iter().filter(|path| path.extension().is_some_and(|it| it == "ibd")) {
        assert!(!contains(&std::fs::read(path).unwrap(), MARKER.as_bytes()), "{}", path.display());
    }
    std::fs::rename(rig.path("away"), &donor_keys.home).unwrap();
    let (ours, theirs) = (names(&keys), names(&donor_keys));
    assert!(!ours.is_empty() && ours.iter().all(|name| !theirs.contains(name)), "{ours:?}");
    assert_eq!(count(&start(&rig, &recipient, "recipient", &plugin).unwrap()), "3");
}

/// Options of a member of a group, which speaks at `own` with the others at `all`.
fn member(id: usize, own: u16, all: &[u16]) -> Vec<String> {
    let seeds: Vec<String> = all.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    [
        format!("server-id={id}"),
        "report-host=127.0.0.1".to_owned(),
        "gtid-mode=ON".to_owned(),
        "enforce-gtid-consistency=ON".to_owned(),
        "plugin-load-add=group_replication.so".to_owned(),
        "loose-group-replication-start-on-boot=OFF".to_owned(),
        "loose-group-replication-recovery-get-public-key=ON".to_owned(),
        "loose-group-replication-group-name=3e11fa47-71ca-11e1-9e33-c80aa9429562".to_owned(),
        format!("loose-group-replication-local-address=127.0.0.1:{own}"),
        format!("loose-group-replication-group-seeds={}", seeds.join(",")),
    ]
    .to_vec()
}

#[track_caller]
fn wait_for(server: &Server, sql: &str, wanted: &str) {
    let begun = Instant::now();
    loop {
        let found = server.sql(sql).unwrap_or_default();
        if found.trim() == wanted {
            return;
        }
        assert!(begun.elapsed() < GROUP_LIMIT, "{sql}: {found}\n{}", server.log());
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn members_of_a_group_have_keys_of_their_own() {
    let Some(rig) = Rig::new() else { return };
    let ports = [free_port(), free_port()];
    let made: Vec<(Keys, Server)> = ["first", "second"]
        .into_iter()
        .enumerate()
        .map(|(at, name)| {
            let (keys, programs) = programs(&rig, name, "group_replication");
            let options = member(at + 1, ports[at], &ports);
            (keys, start(&rig, &programs, name, &options).unwrap())
        })
        .collect();
    let [(first_keys, first), (second_keys, second)] = made.as_slice() else { panic!("two") };
    for server in [first, second] {
        server
            .sql(
                "SET sql_log_bin = 0; CREATE USER r@'127.0.0.1' IDENTIFIED BY 'p';
                 GRANT REPLICATION SLAVE, CONNECTION_ADMIN, BACKUP_ADMIN,
                 GROUP_REPLICATION_STREAM ON *.* TO r@'127.0.0.1'; SET sql_log_bin = 1;
                 CHANGE REPLICATION SOURCE TO SOURCE_USER = 'r', SOURCE_PASSWORD = 'p'
                 FOR CHANNEL 'group_replication_recovery'",
            )
            .unwrap();
    }
    first
        .sql(
            "SET GLOBAL group_replication_bootstrap_group = ON; START GROUP_REPLICATION;
             SET GLOBAL group_replication_bootstrap_group = OFF",
        )
        .unwrap();
    make_rows(first);
    second.sql("START GROUP_REPLICATION").unwrap();
    let online = "SELECT COUNT(*) FROM performance_schema.replication_group_members
                  WHERE MEMBER_STATE = 'ONLINE'";
    wait_for(first, online, "2");
    wait_for(second, "SELECT COUNT(*) FROM app.t", "2");
    // A rotation is a member's own; rows go on to both.
    second
        .sql("SET GLOBAL super_read_only = OFF; ALTER INSTANCE ROTATE INNODB MASTER KEY")
        .unwrap();
    first.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY").unwrap();
    first.sql("INSERT INTO app.t (text) VALUES ('x')").unwrap();
    wait_for(second, "SELECT COUNT(*) FROM app.t", "3");
    wait_for(first, online, "2");
    let (ours, theirs) = (names(first_keys), names(second_keys));
    assert!(!ours.is_empty() && ours.iter().all(|name| !theirs.contains(name)), "{ours:?}");
    let encrypted = "SELECT ENCRYPTION FROM information_schema.INNODB_TABLESPACES
                     WHERE NAME = 'app/t'";
    assert_eq!(second.sql(encrypted).unwrap().trim(), "Y");
}
