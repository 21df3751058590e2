//! The memory that sessions of `tdekit serve` may hold.

use crate::served::{Served, eventually, int};

/// Returns a figure of the server's `/proc/PID/status`, in MiB.
fn status_mib(served: &Served, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", served.pid())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<u64>().unwrap() / 1024
}

#[test]
fn one_session_that_grows_ends_its_statement_and_the_memory_goes_back() {
    let served = Served::bare(&["--memory-mib", "512", "--session-memory-mib", "128"]);
    let mut other = served.client();
    let before = status_mib(&served, "VmRSS");
    for _ in 0..3 {
        let mut client = served.client();
        let text = "DECLARE @s nvarchar(max) = N'xy'; WHILE 1 = 1 SET @s = @s + @s";
        let answer = client.batch(text);
        assert_eq!(answer.errors(), [701], "{answer:?}");
        assert_eq!(int(&mut client, "SELECT 1"), 1);
        assert_eq!(int(&mut other, "SELECT 2"), 2);
    }
    // A result of the maximum size.
    let mut client = served.client();
    let text = "SELECT REPLICATE(CAST(N'x' AS nvarchar(max)), 10000000)";
    assert_eq!(client.batch(text).rows(), 1);
    let peak = status_mib(&served, "VmHWM");
    assert!(peak < before + 512, "{before} MiB before, {peak} MiB at the peak");
    eventually("memory given back", || status_mib(&served, "VmRSS") < before + 64);
    drop((client, other));
}
