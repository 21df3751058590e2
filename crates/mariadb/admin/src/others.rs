//! Other encryption plugins: a server can have only one at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{MariadbError, failed};

/// The plugins that are part of the server.
const PLUGINS: [&str; 5] = [
    "file_key_management",
    "aws_key_management",
    "hashicorp_key_management",
    "example_key_management",
    "debug_key_management",
];
const MAX_OPTION_FILE_BYTES: u64 = 1 << 20;

/// Refuses a server whose options load another encryption plugin: those of the option files beside
/// `option_file`, and those that the server itself reads, if they are in the same place. Plugins
/// loaded by `INSTALL SONAME` are not detected.
///
/// # Errors
/// `OtherPlugin`, `Io`, errors of a file that is too long.
pub(crate) fn refuse(option_file: &Path) -> Result<(), MariadbError> {
    let directory = match option_file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut files: Vec<PathBuf> = Vec::new();
    if directory.is_dir() {
        for entry in fs::read_dir(directory).map_err(failed("read", directory))? {
            files.push(entry.map_err(failed("read", directory))?.path());
        }
    }
    files.retain(|path| path != option_file && path.extension().is_some_and(|ext| ext == "cnf"));
    files.sort();
    for path in files {
        let text = tdekit_key_store::read_limited(&path, MAX_OPTION_FILE_BYTES)?;
        let text = text.unwrap_or_default();
        if let Some(plugin) = loaded(String::from_utf8_lossy(&text).lines()) {
            return Err(MariadbError::OtherPlugin { plugin, place: path.display().to_string() });
        }
    }
    // Another server's directory says nothing about the one that is installed here.
    let reads_ours = Path::new(super::install::OPTION_DIR);
    if directory == reads_ours
        && let Some(plugin) = loaded(servers_options().split_whitespace())
    {
        let place = "the server's option files".to_owned();
        return Err(MariadbError::OtherPlugin { plugin, place });
    }
    Ok(())
}

/// Returns the options that the installed server reads from its files.
fn servers_options() -> String {
    ["mariadbd", "/usr/sbin/mariadbd"]
        .into_iter()
        .find_map(|program| Command::new(program).arg("--print-defaults").output().ok())
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default()
}

/// Returns the plugin that one of these options loads or sets.
fn loaded<'a>(options: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    options
        .filter_map(|line| {
            let line = line.trim().trim_start_matches("--").to_lowercase().replace('-', "_");
            let line = line.strip_prefix("loose_").unwrap_or(&line).to_owned();
            PLUGINS.into_iter().find(|plugin| {
                line.starts_with(plugin)
                    || (line.starts_with("plugin_load") && line.contains(plugin))
            })
        })
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_loads_another_plugin_is_seen_however_it_is_written() {
        for (text, plugin) in [
            ("[mariadb]\nplugin_load_add = file_key_management\n", Some(PLUGINS[0])),
            ("plugin-load-add=file_key_management.so", Some(PLUGINS[0])),
            ("  loose-file-key-management-filename = /k", Some(PLUGINS[0])),
            ("plugin-load=\"auth_pam;hashicorp_key_management\"", Some(PLUGINS[2])),
            ("--plugin-load-add=aws_key_management", Some(PLUGINS[1])),
            ("plugin_load_add=example_key_management", Some(PLUGINS[3])),
            ("# plugin-load-add=file_key_management", None),
            ("plugin-load-add = tdekit", None),
        ] {
            assert_eq!(loaded(text.lines()), plugin, "{text}");
        }
    }

    #[test]
    fn option_files_beside_ours_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let ours = dir.path().join("99-tdekit.cnf");
        fs::write(&ours, "plugin-load-add = file_key_management").unwrap();
        fs::write(dir.path().join("50-server.txt"), "file_key_management_filename=/k").unwrap();
        refuse(&ours).unwrap();
        fs::write(dir.path().join("50-server.cnf"), "file_key_management_filename=/k").unwrap();
        let told = refuse(&ours).unwrap_err().to_string();
        assert!(told.contains("file_key_management") && told.contains("50-server.cnf"), "{told}");
    }
}
