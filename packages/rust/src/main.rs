//! Opens a database through sqlx: `tdekit-prove-sqlx register|stock FILE SQL`. Prints the single
//! number that a query returns.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [way, file, sql] = words.as_slice() else { return Err("register|stock FILE SQL".into()) };
    if way == "register" {
        tdekit_embedded::register()?;
    }
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let mut db = options.connect().await?;
    if sql.starts_with("SELECT") {
        let found: i64 = sqlx::query_scalar(sql).fetch_one(&mut db).await?;
        println!("{found}");
    } else {
        sqlx::raw_sql(sql).execute(&mut db).await?;
    }
    db.close().await?;
    Ok(())
}
