//! The machine and the system, as far as Linux tells.

use std::sync::OnceLock;

use tdekit_wire_tds::{Length, SqlType, Value};

use super::server::moment;
use super::{BIG, Columns, DESC, INT, Row, Source, TIME, View, int, some, text};
use crate::value::datetime::{self, Moment};

pub(crate) const VIEWS: &[View] = &[
    View { name: "sys.dm_os_host_info", columns: HOST, source: Source::Server(|_| host()) },
    View { name: "sys.dm_os_sys_info", columns: SYSTEM, source: Source::Server(|_| system()) },
];

const TEXT: SqlType = SqlType::NVarChar(Length::Of(256));

/// Returns the time at which the first engine of this process was made.
pub(crate) fn started() -> Moment {
    static STARTED: OnceLock<Moment> = OnceLock::new();
    *STARTED.get_or_init(datetime::now)
}

const HOST: Columns = &[
    ("host_platform", TEXT),
    ("host_distribution", TEXT),
    ("host_release", TEXT),
    ("host_service_pack_level", TEXT),
    ("host_sku", INT),
    ("os_language_version", INT),
];

/// Returns a value of os-release (freedesktop.org's os-release(5)), without its quotes.
fn release<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(line.trim().trim_matches('"'))
}

fn host() -> Vec<Row> {
    let found = std::fs::read_to_string("/etc/os-release");
    let found = found.or_else(|_| std::fs::read_to_string("/usr/lib/os-release"));
    let found = found.unwrap_or_default();
    vec![vec![
        text("Linux"),
        release(&found, "NAME").map_or(Value::Null, text),
        release(&found, "VERSION_ID").map_or(Value::Null, text),
        text(""),
        Value::Null,
        int(0),
    ]]
}

const SYSTEM: Columns = &[
    ("cpu_ticks", BIG),
    ("ms_ticks", BIG),
    ("cpu_count", INT),
    ("hyperthread_ratio", INT),
    ("physical_memory_kb", BIG),
    ("virtual_memory_kb", BIG),
    ("committed_kb", BIG),
    ("committed_target_kb", BIG),
    ("visible_target_kb", BIG),
    ("stack_size_in_bytes", INT),
    ("max_workers_count", INT),
    ("scheduler_count", INT),
    ("scheduler_total_count", INT),
    ("sqlserver_start_time_ms_ticks", BIG),
    ("sqlserver_start_time", TIME),
    ("affinity_type", INT),
    ("affinity_type_desc", DESC),
    ("process_kernel_time_ms", BIG),
    ("process_user_time_ms", BIG),
    ("virtual_machine_type", INT),
    ("virtual_machine_type_desc", DESC),
    ("softnuma_configuration", INT),
    ("softnuma_configuration_desc", DESC),
    ("sql_memory_model", INT),
    ("sql_memory_model_desc", DESC),
    ("socket_count", INT),
    ("cores_per_socket", INT),
    ("numa_node_count", INT),
    ("container_type", INT),
    ("container_type_desc", DESC),
];

/// Returns a figure in KiB of a file as /proc/meminfo.
fn kib(text: &str, name: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Milliseconds since the machine started.
fn uptime_ms(text: &str) -> Option<i64> {
    let (seconds, hundredths) = text.split_whitespace().next()?.split_once('.')?;
    let (seconds, hundredths): (i64, i64) = (seconds.parse().ok()?, hundredths.parse().ok()?);
    Some(seconds * 1000 + hundredths * 10)
}

fn system() -> Vec<Row> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().ok();
    let cpus = cpus.and_then(|count| i64::try_from(count.get()).ok());
    let known = |name: &str| match name {
        "ms_ticks" => some(uptime_ms(&read("/proc/uptime"))),
        "cpu_count" => some(cpus),
        "physical_memory_kb" => some(kib(&read("/proc/meminfo"), "MemTotal")),
        "committed_kb" => some(kib(&read("/proc/self/status"), "VmRSS")),
        // as many as in sys.dm_os_schedulers
        "scheduler_count" => int(1),
        "sqlserver_start_time" => moment(started()),
        _ => Value::Null,
    };
    vec![SYSTEM.iter().map(|(name, _)| known(name)).collect()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_linux_are_read() {
        let text = "PRETTY_NAME=\"Some 12\"\nNAME=\"Some Linux\"\nVERSION_ID=12\n";
        assert_eq!(release(text, "NAME"), Some("Some Linux"));
        assert_eq!(release(text, "VERSION_ID"), Some("12"));
        assert_eq!(release(text, "ID"), None);
        assert_eq!(kib("MemFree:  1 kB\nMemTotal:   2048 kB\n", "MemTotal"), Some(2048));
        assert_eq!(uptime_ms("68280.05 120000.00\n"), Some(68_280_050));
    }
}
