//! tiberius against `tdekit serve`.
//!
//! usage: client PORT off|login|on|strict CERTIFICATE OTHER_CERTIFICATE

mod types;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use chrono::{NaiveDate, NaiveDateTime};
use tiberius::numeric::Numeric;
use tiberius::{AuthMethod, Command, Config, EncryptionLevel, IntoSql, Query, TokenRow};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

pub(crate) type Client = tiberius::Client<Compat<TcpStream>>;

pub(crate) const TEXT: &str = "Grüße, Ω, 日本, \u{1f600}";
/// Time limit for an answer.
const LIMIT: Duration = Duration::from_secs(60);

/// Address of the server, and connection options.
struct Server {
    port: u16,
    mode: String,
    certificate: String,
}

/// The type of a row of the filled tables.
type Filled = (i32, Option<String>, Option<Numeric>, Option<NaiveDateTime>, Option<Vec<u8>>);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().context("usage: PORT MODE CERTIFICATE OTHER_CERTIFICATE");
    let (port, mode) = (word()?.parse()?, word()?);
    let (certificate, other) = (word()?, word()?);
    let password = std::env::var("INTEROP_PASSWORD")?;
    let server = Server { port, mode: mode.clone(), certificate };
    number(server.open("not the password").await.map(drop), 18456)?;
    let sealed = if ["on", "strict"].contains(&mode.as_str()) { "TRUE" } else { "FALSE" };
    if sealed == "TRUE" {
        let stranger = Server { port, mode: mode.clone(), certificate: other };
        let error =
            stranger.open(&password).await.err().context("a wrong certificate was taken")?;
        ensure!(error.code().is_none(), "refused by the server: {error}");
    }
    let mut client = server.open(&password).await?;
    let option = "SELECT encrypt_option FROM sys.dm_exec_connections WHERE session_id = @@SPID";
    let found: String = one(&mut client, option).await?;
    ensure!(found == sealed, "encrypt_option is {found}");
    types::check(&mut client, &format!("dbo.types_{mode}")).await?;
    fill(&mut client, &format!("dbo.rows_{mode}")).await?;
    change(&mut client, &format!("dbo.rows_{mode}")).await?;
    long_values(&mut client, &format!("dbo.long_{mode}")).await?;
    bulk(&mut client, &format!("bulk_{mode}")).await?;
    refusals(&mut client, &format!("dbo.strict_{mode}")).await?;
    results(&mut client, &format!("dbo.double_{mode}")).await?;
    cancel(&server, &password).await?;
    abandon(&server, &password).await?;
    client.close().await?;
    println!("tiberius {mode}: ok");
    Ok(())
}

impl Server {
    async fn open(&self, password: &str) -> tiberius::Result<Client> {
        let mut config = Config::new();
        config.host("localhost");
        config.port(self.port);
        config.database("app");
        config.authentication(AuthMethod::sql_server("sa", password));
        config.encryption(match self.mode.as_str() {
            "off" => EncryptionLevel::NotSupported,
            "login" => EncryptionLevel::Off,
            "strict" => EncryptionLevel::Strict,
            _ => EncryptionLevel::Required,
        });
        config.trust_cert_ca(&self.certificate);
        config.command_timeout(Some(LIMIT));
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        Client::connect(config, stream.compat_write()).await
    }
}

/// Checks that something failed with this error number of the server.
fn number(result: tiberius::Result<()>, wanted: u32) -> Result<()> {
    match result {
        Err(error) if error.code() == Some(wanted) => Ok(()),
        Err(error) => bail!("not {wanted}: {error}"),
        Ok(()) => bail!("it did not fail with {wanted}"),
    }
}

/// Runs a batch to its end.
pub(crate) async fn batch(client: &mut Client, sql: &str) -> tiberius::Result<()> {
    client.simple_query(sql).await?.into_results().await.map(drop)
}

/// The first value of the first row.
async fn one<T>(client: &mut Client, sql: &str) -> Result<T>
where
    T: tiberius::FromSqlOwned,
{
    let row = client.simple_query(sql).await?.into_row().await?.context("no row")?;
    let first = row.into_iter().next().context("no column")?;
    T::from_sql_owned(first)?.context("NULL")
}

/// Returns a row of the filled tables; every tenth has NULLs.
fn row(id: i32) -> Filled {
    if id % 10 == 9 {
        return (id, None, None, None, None);
    }
    let marker = std::env::var("INTEROP_MARKER").unwrap_or_default();
    let at = NaiveDate::from_ymd_opt(2024, 2, 29)
        .and_then(|day| day.and_hms_nano_opt(13, 14, 15, id.unsigned_abs() * 100));
    let amount = Numeric::new_with_scale(i128::from(id) * 10_000 + 625, 4);
    let [.., high, low] = id.to_be_bytes();
    (id, Some(format!("{TEXT} {id} {marker}")), Some(amount), at, Some(vec![255, high, low]))
}

async fn make_table(client: &mut Client, table: &str) -> Result<()> {
    let columns = "id int NOT NULL PRIMARY KEY, name nvarchar(100), amount decimal(19, 4), \
                   at datetime2(7), data varbinary(100)";
    Ok(batch(client, &format!("CREATE TABLE {table} ({columns})")).await?)
}

async fn compare(client: &mut Client, table: &str) -> Result<()> {
    let sql = format!("SELECT id, name, amount, at, data FROM {table} ORDER BY id");
    let rows = client.simple_query(sql).await?.into_first_result().await?;
    ensure!(rows.len() == 1000, "{} rows", rows.len());
    for (id, found) in (0..).zip(&rows) {
        let name = found.try_get::<&str, _>(1)?.map(str::to_owned);
        let data = found.try_get::<&[u8], _>(4)?.map(<[u8]>::to_vec);
        let key = found.try_get::<i32, _>(0)?.context("no id")?;
        let found: Filled = (key, name, found.try_get(2)?, found.try_get(3)?, data);
        ensure!(found == row(id), "{found:?}, not {:?}", row(id));
    }
    Ok(())
}

async fn fill(client: &mut Client, table: &str) -> Result<()> {
    make_table(client, table).await?;
    client.begin_transaction().await?;
    for id in 0..1000 {
        let (id, name, amount, at, data) = row(id);
        let mut insert =
            Query::new(format!("INSERT INTO {table} VALUES (@P1, @P2, @P3, @P4, @P5)"));
        insert.bind(id);
        insert.bind(name);
        insert.bind(amount);
        insert.bind(at);
        insert.bind(data);
        let changed = insert.execute(client).await?.total();
        ensure!(changed == 1, "{changed} rows inserted");
    }
    client.commit_transaction().await?;
    compare(client, table).await
}

async fn change(client: &mut Client, table: &str) -> Result<()> {
    let update = format!("UPDATE {table} SET name = @P1 WHERE id < @P2");
    let changed = client.execute(update, &[&"new", &100]).await?.total();
    let removed = client.execute(format!("DELETE FROM {table} WHERE id >= @P1"), &[&900]).await?;
    ensure!((changed, removed.total()) == (100, 100), "{changed} changed");
    let count = format!("SELECT COUNT(*) FROM {table}");
    client.begin_transaction().await?;
    client.execute(format!("DELETE FROM {table}"), &[]).await?;
    ensure!(one::<i32>(client, &count).await? == 0);
    client.rollback_transaction().await?;
    ensure!(one::<i32>(client, &count).await? == 900);
    ensure!(one::<i32>(client, &format!("{count} WHERE name = N'new'")).await? == 100);
    Ok(())
}

async fn long_values(client: &mut Client, table: &str) -> Result<()> {
    let columns = "id int NOT NULL PRIMARY KEY, a varchar(max), b nvarchar(max), c varbinary(max)";
    batch(client, &format!("CREATE TABLE {table} ({columns})")).await?;
    let (narrow, wide) = ("abcé".repeat(250_000), "Ω日".repeat(500_000));
    let data = [0_u8, 255, 16, 32].repeat(250_000);
    let insert = format!("INSERT INTO {table} VALUES (1, @P1, @P2, @P3)");
    client.execute(insert, &[&narrow, &wide, &data]).await?;
    let rows = client.simple_query(format!("SELECT a, b, c FROM {table}")).await?;
    let found = rows.into_row().await?.context("no row")?;
    ensure!(found.get::<&str, _>(0) == Some(&narrow), "varchar(max)");
    ensure!(found.get::<&str, _>(1) == Some(&wide), "nvarchar(max)");
    ensure!(found.get::<&[u8], _>(2) == Some(&data), "varbinary(max)");
    ensure!(one::<i64>(client, &format!("SELECT LEN(b) FROM {table}")).await? == 1_000_000);
    Ok(())
}

async fn bulk(client: &mut Client, table: &str) -> Result<()> {
    make_table(client, table).await?;
    let rows: Vec<Filled> = (0..1000).map(row).collect();
    let mut load = client.bulk_insert(table).await?;
    for (id, name, amount, at, data) in rows {
        let mut sent = TokenRow::new();
        sent.push(id.into_sql());
        sent.push(name.into_sql());
        sent.push(amount.into_sql());
        sent.push(at.into_sql());
        sent.push(data.into_sql());
        load.send(sent).await?;
    }
    let loaded = load.finalize().await?.total();
    ensure!(loaded == 1000, "{loaded} rows loaded");
    compare(client, table).await
}

async fn refusals(client: &mut Client, table: &str) -> Result<()> {
    let columns = "id int NOT NULL PRIMARY KEY, n int CHECK (n > 0)";
    batch(client, &format!("CREATE TABLE {table} ({columns})")).await?;
    let insert = format!("INSERT INTO {table} VALUES (@P1, @P2)");
    client.execute(insert.as_str(), &[&1, &1]).await?;
    number(client.execute(insert.as_str(), &[&1, &2]).await.map(drop), 2627)?;
    number(client.execute(insert.as_str(), &[&2, &-1]).await.map(drop), 547)?;
    number(batch(client, "SELECT 1 / 0").await, 8134)?;
    number(batch(client, "SELECT 1 + * FROM").await, 102)?;
    number(batch(client, "SELECT * FROM dbo.not_there").await, 208)?;
    number(batch(client, "RAISERROR('mine', 16, 1)").await, 50000)?;
    ensure!(one::<i32>(client, &format!("SELECT COUNT(*) FROM {table}")).await? == 1);
    Ok(())
}

async fn results(client: &mut Client, procedure: &str) -> Result<()> {
    let sql = "SELECT 1; SELECT N'ä' UNION ALL SELECT N'ö'";
    let found = client.simple_query(sql).await?.into_results().await?;
    let [first, second] = found.as_slice() else { bail!("{} results", found.len()) };
    ensure!(first.len() == 1 && first[0].get::<i32, _>(0) == Some(1), "the first result");
    let texts: Vec<_> = second.iter().map(|row| row.get::<&str, _>(0)).collect();
    ensure!(texts == [Some("ä"), Some("ö")], "the second result: {texts:?}");
    let body = "BEGIN SET @twice = @n * 2; RETURN 7; END";
    let create = format!("CREATE PROCEDURE {procedure} @n int, @twice int OUTPUT AS {body}");
    batch(client, &create).await?;
    let mut call = Command::new(procedure);
    call.bind_param("@n", 21);
    call.bind_out_param("@twice", 0);
    let called = call.exec(client).await?.into_command_result().await?;
    let twice = called.try_return_value::<i32>("@twice")?;
    ensure!((called.return_code(), twice) == (7, Some(42)), "{called:?}");
    batch(client, "PRINT 'printed'; RAISERROR('warned', 10, 1)").await?;
    Ok(())
}

/// An endless query is cancelled: it ends on the server while its connection is still open.
///
/// This version of the driver expects the acknowledgement in the cancelled answer. SQL Server sends
/// it in a separate message after that, and so does the endpoint: the driver then reports a
/// protocol error, and its connection becomes unusable. If nothing is running, it continues.
async fn cancel(server: &Server, password: &str) -> Result<()> {
    let table = format!("dbo.rows_{}", server.mode);
    let count = format!("SELECT COUNT_BIG(*) FROM {table} a, {table} b, {table} c, {table} d");
    let mut other = server.open(password).await?;
    for endless in [count.as_str(), "WAITFOR DELAY '00:01:00'"] {
        let mut client = server.open(password).await?;
        let spid: i16 = one(&mut client, "SELECT @@SPID").await?;
        let ended = timeout(Duration::from_millis(100), batch(&mut client, endless)).await;
        ensure!(ended.is_err(), "the endless batch ended: {ended:?}");
        becomes(&mut other, spid, 1).await?;
        let begun = Instant::now();
        match timeout(LIMIT, client.cancel_query()).await? {
            Ok(()) | Err(tiberius::error::Error::Protocol(_)) => {}
            Err(error) => return Err(error.into()),
        }
        becomes(&mut other, spid, 0).await?;
        ensure!(begun.elapsed() < LIMIT / 2, "the cancelling took too long");
    }
    other.cancel_query().await?;
    ensure!(one::<i32>(&mut other, "SELECT 5").await? == 5);
    Ok(other.close().await?)
}

/// Waits until this many requests of a session are running.
async fn becomes(client: &mut Client, spid: i16, wanted: i32) -> Result<()> {
    let count = format!("SELECT COUNT(*) FROM sys.dm_exec_requests WHERE session_id = {spid}");
    let begun = Instant::now();
    while one::<i32>(client, &count).await? != wanted {
        ensure!(begun.elapsed() < LIMIT, "requests of session {spid} do not become {wanted}");
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// A connection that is dropped while its batch runs does not harm the server, and the locks of its
/// transaction are released.
async fn abandon(server: &Server, password: &str) -> Result<()> {
    let table = format!("dbo.strict_{}", server.mode);
    let mut client = server.open(password).await?;
    let endless = format!(
        "BEGIN TRANSACTION; DELETE FROM {table}; DECLARE @i int = 0; WHILE 1 = 1 SET @i = 1 - @i"
    );
    let ended = timeout(Duration::from_millis(500), batch(&mut client, &endless)).await;
    ensure!(ended.is_err(), "the endless batch ended: {ended:?}");
    drop(client);
    let mut client = server.open(password).await?;
    let update = format!("UPDATE {table} SET n = n + 1");
    let changed = timeout(LIMIT, client.execute(update, &[])).await??.total();
    ensure!(changed == 1, "{changed} rows changed");
    Ok(client.close().await?)
}
