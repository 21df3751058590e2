//! The Debian packages: `tdekit`, `tdekit-serve`, `tdekit-mariadb` and `tdekit-mysql`. `cargo deb`
//! builds one of one crate: these contain programs of several, which were built for an older C
//! library and for two processors, and manuals and completions printed by the command itself.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::debian_root::Root;
use super::{Built, glibc, names};
use crate::process::{output, root, run, run_quietly, target_dir};
use crate::{book, mysql};

const LIBRARIES: &str = "usr/lib/tdekit";
/// The plugin directory of the packages of both MariaDB and MySQL.
const PLUGIN_DIR: &str = "usr/lib/mysql/plugin";
/// The packages for a server: name, library, and the library's name in the plugin directory.
const FOR_SERVERS: [(&str, &str, &str); 2] = [
    ("tdekit-mariadb", "libtdekit_mariadb.so", "tdekit.so"),
    ("tdekit-mysql", "libcomponent_keyring_tdekit.so", "component_keyring_tdekit.so"),
];
/// Maximum size of the extension: 5.5 MiB. Two thirds are the ciphers' libraries with their kernels
/// for each processor.
const MOST_EXTENSION_BYTES: u64 = 11 << 19;
/// Packages installed beside ours in a proof: those that they extend, and those that read their
/// files.
const BESIDE: [&str; 8] =
    ["adduser", "fish", "libsqlite3-0", "man-db", "mariadb-server", "sqlite3", "systemd", "zsh"];
/// Libraries that programs may need, with Debian's package of each; others belong to the C library.
const COMPILER_LIBRARY: &str = "libgcc_s.so.1";
const C_LIBRARIES: [&str; 6] =
    ["libc.so.", "libm.so.", "libdl.so.", "libpthread.so.", "librt.so.", "ld-linux-"];

/// Builds the packages of `built` into `to`. `speaker` is the command in a form that this machine
/// can run, which prints the manuals.
///
/// # Errors
/// When a program is missing, needs a library that is not known, or is too large.
pub(super) fn make(built: &Built, speaker: &Path, to: &Path) -> Result<()> {
    let bytes = fs::metadata(built.dir.join("libtdekit_sqlite.so"))?.len();
    ensure!(bytes < MOST_EXTENSION_BYTES, "the extension has {bytes} bytes");
    fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    let stage = Stage::begin("tdekit", built, speaker)?;
    stage.program("tdekit", "usr/bin/tdekit")?;
    for name in ["tdekit-bench", "libtdekit_sqlite.so", "libtdekit_preload.so"] {
        stage.program(name, &format!("{LIBRARIES}/{name}"))?;
    }
    stage.manuals()?;
    stage.completions()?;
    stage.book()?;
    stage.finish(to)?;
    let stage = Stage::begin("tdekit-serve", built, speaker)?;
    stage.program("tdekit-serve", &format!("{LIBRARIES}/tdekit-serve"))?;
    stage.finish(to)?;
    for_servers(built, speaker, to)
}

/// Builds the packages with a library that a server loads.
fn for_servers(built: &Built, speaker: &Path, to: &Path) -> Result<()> {
    for (package, library, name) in FOR_SERVERS {
        let stage = Stage::begin(package, built, speaker)?;
        stage.program(library, &format!("{PLUGIN_DIR}/{name}"))?;
        // The command finds the library by this name.
        let link = stage.place(&format!("{LIBRARIES}/{library}"))?;
        symlink(format!("../mysql/plugin/{name}"), &link)
            .with_context(|| format!("make {}", link.display()))?;
        stage.finish(to)?;
    }
    Ok(())
}

/// Installs the packages for this machine's processor in a root of Debian's packages, checks that
/// they encrypt, reopen, refuse, back up and serve, and removes them.
///
/// # Errors
/// When there is no such root, or they do not work as they should.
pub(crate) fn prove(packages: &Path) -> Result<()> {
    let ending = format!("_{}.deb", debian_arch(std::env::consts::ARCH)?);
    let found: Vec<_> =
        names(packages)?.into_iter().filter(|name| name.ends_with(&ending)).collect();
    ensure!(found.len() == 4, "four packages *{ending} are to be proved, not {found:?}");
    let place = Root::fresh("debian", &BESIDE)?;
    for name in &found {
        place.add(&packages.join(name), "packages")?;
    }
    place.add(&root().join("packages/debian/prove.sh"), "packages")?;
    // Its packages and MariaDB's exclude each other, so this server is not installed.
    match mysql::unpacked() {
        Ok(unpacked) => place.add(&unpacked, "mysql")?,
        Err(error) => eprintln!("skipped: MySQL with the component of its package: {error:#}"),
    }
    let mut proof = place.command("root", &["HOME=/root".to_owned()])?;
    proof.args(["sh", "/packages/prove.sh"]);
    run(proof.args(found.iter().map(|name| format!("/packages/{name}"))))
}

/// Debian's name of a processor that Rust calls `arch`.
///
/// # Errors
/// When none is known.
pub(super) fn debian_arch(arch: &str) -> Result<&'static str> {
    match arch {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no packages are made for {other}"),
    }
}

/// The tree of one package.
struct Stage<'a> {
    name: &'a str,
    built: &'a Built,
    speaker: &'a Path,
    tree: PathBuf,
}

impl<'a> Stage<'a> {
    /// The package's own files, from `packages/debian`.
    fn begin(name: &'a str, built: &'a Built, speaker: &'a Path) -> Result<Self> {
        let tree = target_dir().join("deb").join(built.arch).join(name);
        if tree.exists() {
            fs::remove_dir_all(&tree).with_context(|| format!("remove {}", tree.display()))?;
        }
        copy_tree(&root().join("packages/debian").join(name), &tree)?;
        Ok(Self { name, built, speaker, tree })
    }

    /// Returns the path of a file of the package; its directories are created.
    fn place(&self, inside: &str) -> Result<PathBuf> {
        let path = self.tree.join(inside);
        let parent = path.parent().context("a file of a package has a directory")?;
        make_dir(parent)?;
        Ok(path)
    }

    fn write(&self, inside: &str, content: &[u8]) -> Result<()> {
        let path = self.place(inside)?;
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        set_mode(&path, 0o644)
    }

    /// A program is executable, a library is only read.
    fn program(&self, name: &str, inside: &str) -> Result<()> {
        let (from, to) = (self.built.dir.join(name), self.place(inside)?);
        fs::copy(&from, &to).with_context(|| format!("copy {}", from.display()))?;
        let library = to.extension().is_some_and(|ending| ending == "so");
        set_mode(&to, if library { 0o644 } else { 0o755 })
    }

    fn manuals(&self) -> Result<()> {
        let dir = self.place("usr/share/man/man1/tdekit.1")?.with_file_name("");
        run_quietly(Command::new(self.speaker).arg("man-pages").arg(&dir))?;
        for name in names(&dir)? {
            set_mode(&dir.join(&name), 0o644)?;
            compress(&dir.join(name))?;
        }
        Ok(())
    }

    fn completions(&self) -> Result<()> {
        for (shell, inside) in [
            ("bash", "usr/share/bash-completion/completions/tdekit"),
            ("zsh", "usr/share/zsh/vendor-completions/_tdekit"),
            ("fish", "usr/share/fish/vendor_completions.d/tdekit.fish"),
        ] {
            let mut command = Command::new(self.speaker);
            let script = output(command.args(["completions", shell]))?;
            self.write(inside, format!("{script}\n").as_bytes())?;
        }
        Ok(())
    }

    /// The documents, for a browser.
    fn book(&self) -> Result<()> {
        copy_tree(&book::make()?, &self.place(&format!("usr/share/doc/{}/html", self.name))?)
    }

    /// Writes the files common to every package, and the package.
    fn finish(&self, to: &Path) -> Result<()> {
        let documents = format!("usr/share/doc/{}", self.name);
        let licenses = ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| root().join(name));
        let [mit, apache] = licenses.each_ref().map(fs::read_to_string);
        let copyright = format!(
            "tdekit is under the Apache License 2.0 or the MIT License, as you choose.\n\n{}\n\n{}",
            mit.context("LICENSE-MIT")?,
            apache.context("LICENSE-APACHE")?
        );
        self.write(&format!("{documents}/copyright"), copyright.as_bytes())?;
        let changes = fs::read(root().join("CHANGELOG.md")).context("CHANGELOG.md")?;
        self.write(&format!("{documents}/changelog"), &changes)?;
        compress(&self.tree.join(&documents).join("changelog"))?;
        let files = files_below(&self.tree)?;
        let mut sums = Command::new("md5sum");
        sums.current_dir(&self.tree);
        let listed = files.iter().filter(|path| !path.is_symlink());
        for path in listed {
            sums.arg(path.strip_prefix(&self.tree)?);
        }
        let sums = output(&mut sums)?;
        let control = self.control(&files)?;
        self.write("DEBIAN/md5sums", format!("{sums}\n").as_bytes())?;
        self.write("DEBIAN/control", control.as_bytes())?;
        let mut build = Command::new("dpkg-deb");
        // With one thread: the bytes of several depend on the number of processors.
        build.args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"]);
        build.env("SOURCE_DATE_EPOCH", epoch()?);
        run_quietly(build.arg(&self.tree).arg(to.join(format!(
            "{}_{}_{}.deb",
            self.name,
            version(),
            debian_arch(self.built.arch)?
        ))))
    }

    /// Returns the control file, with the values that are computed from the files.
    fn control(&self, files: &[PathBuf]) -> Result<String> {
        let path = self.tree.join("DEBIAN/control");
        let template = fs::read_to_string(&path).context("the control file")?;
        let mut bytes = 0;
        for file in files {
            bytes += fs::symlink_metadata(file)?.len();
        }
        Ok(template
            .replace("@VERSION@", &version())
            .replace("@ARCHITECTURE@", debian_arch(self.built.arch)?)
            .replace("@SIZE@", &bytes.div_ceil(1024).to_string())
            .replace("@LIBRARIES@", &libraries(&programs_among(files)?)?))
    }
}

/// Returns the version in Debian's ordering.
fn version() -> String {
    env!("CARGO_PKG_VERSION").replace('-', "~")
}

/// Returns the time of the packages' files in seconds: `SOURCE_DATE_EPOCH`, else that of the
/// commit.
fn epoch() -> Result<String> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(named) => Ok(named),
        Err(_) => {
            output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))
                .context(
                    "without a repository, SOURCE_DATE_EPOCH has to say the time of the source",
                )
        }
    }
}

/// Returns the packages of the libraries that `programs` need, in the format of a control file.
fn libraries(programs: &[&Path]) -> Result<String> {
    let mut list =
        format!("libc6 (>= {})", glibc::needed(programs).map(|(a, b)| format!("{a}.{b}"))?);
    let mut compiler = false;
    for program in programs {
        for name in needed_libraries(&output(Command::new("readelf").arg("-dW").arg(program))?) {
            let of_c = C_LIBRARIES.iter().any(|start| name.starts_with(start));
            compiler |= name == COMPILER_LIBRARY;
            ensure!(of_c || name == COMPILER_LIBRARY, "{} needs {name}", program.display());
        }
    }
    if compiler {
        list.push_str(", libgcc-s1");
    }
    Ok(list)
}

/// The libraries that `readelf -d` shows as needed.
fn needed_libraries(dynamic: &str) -> Vec<&str> {
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    needed.filter_map(|line| line.split('[').nth(1)?.split(']').next()).collect()
}

fn programs_among(files: &[PathBuf]) -> Result<Vec<&Path>> {
    let mut programs = Vec::new();
    for path in files.iter().filter(|path| !path.is_symlink()) {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        if bytes.starts_with(b"\x7fELF") {
            programs.push(path.as_path());
        }
    }
    Ok(programs)
}

/// The files of a package, without those for the installer, in order.
fn files_below(tree: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut left = vec![tree.to_path_buf()];
    while let Some(dir) = left.pop() {
        for name in names(&dir)?.into_iter().filter(|name| name != "DEBIAN") {
            let path = dir.join(name);
            if path.is_dir() { left.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    make_dir(to)?;
    for name in names(from)? {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy_tree(&from, &to)?;
        } else {
            fs::copy(&from, &to).with_context(|| format!("copy {}", from.display()))?;
            let script = ["postinst", "prerm", "postrm"].contains(&name.as_str());
            set_mode(&to, if script { 0o755 } else { 0o644 })?;
        }
    }
    Ok(())
}

/// Creates a directory with its parents, regardless of the umask.
fn make_dir(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    path.parent().map_or(Ok(()), make_dir)?;
    fs::create_dir(path).with_context(|| format!("make {}", path.display()))?;
    set_mode(path, 0o755)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("set the mode of {}", path.display()))
}

fn compress(path: &Path) -> Result<()> {
    run_quietly(Command::new("gzip").args(["-9", "--no-name", "--force"]).arg(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_needed_libraries_count() {
        let dynamic = " 0x0001 (NEEDED)  Shared library: [libgcc_s.so.1]\n \
                       0x0001 (NEEDED)  Shared library: [libc.so.6]\n \
                       0x000e (SONAME)  Library soname: [libtdekit.so]\n";
        assert_eq!(needed_libraries(dynamic), ["libgcc_s.so.1", "libc.so.6"]);
    }

    #[test]
    fn a_servers_library_is_where_the_server_and_the_command_look() {
        let dir = tempfile::tempdir().unwrap();
        for (_, library, _) in FOR_SERVERS {
            // Any program; its libraries are those of the C library.
            fs::copy("/bin/true", dir.path().join(library)).unwrap();
        }
        let built = Built::here(dir.path().to_owned());
        let Ok(arch) = debian_arch(built.arch) else { return };
        let to = dir.path().join("packages");
        make_dir(&to).unwrap();
        for_servers(&built, Path::new("/bin/true"), &to).unwrap();
        for (package, library, name) in FOR_SERVERS {
            let file = to.join(format!("{package}_{}_{arch}.deb", version()));
            let listed = output(Command::new("dpkg-deb").arg("--contents").arg(&file)).unwrap();
            let link = format!("./usr/lib/tdekit/{library} -> ../mysql/plugin/{name}");
            for wanted in [&format!(" ./usr/lib/mysql/plugin/{name}\n"), &link] {
                assert!(listed.contains(wanted), "{wanted}: {listed}");
            }
            let depends = output(Command::new("dpkg-deb").arg("--field").arg(&file)).unwrap();
            assert!(depends.contains(&format!("Depends: tdekit (= {})", version())), "{depends}");
        }
    }

    #[test]
    fn control_files_hold_what_is_filled_in() {
        for name in ["tdekit", "tdekit-mariadb", "tdekit-mysql", "tdekit-serve"] {
            let path = root().join("packages/debian").join(name).join("DEBIAN/control");
            let control = fs::read_to_string(path).unwrap();
            for mark in ["@VERSION@", "@ARCHITECTURE@", "@SIZE@", "@LIBRARIES@"] {
                assert!(control.contains(mark), "{name}: {mark}");
            }
        }
    }
}
