//! Connection to a MariaDB or MySQL server.

use std::path::PathBuf;

use clap::Args;
use tdekit_mariadb_admin::Connection;

/// How a server is reached. A password comes from an option file or from `MYSQL_PWD`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConnectionArgs {
    /// Option file for the client, read in the place of the usual ones
    #[arg(long, value_name = "FILE")]
    defaults_file: Option<PathBuf>,
    /// Socket of the server
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// Host of the server
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Port of the server
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// User of the server
    #[arg(long, value_name = "USER")]
    user: Option<String>,
}

impl ConnectionArgs {
    /// Returns the connection that the arguments describe.
    pub(crate) fn connection(&self) -> Connection {
        let Self { defaults_file, socket, host, port, user } = self.clone();
        Connection { defaults_file, socket, host, port, user }
    }
}
