//! Stock drivers of each language, in `tests/interop/`: installed, and compiled where they must be.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::directory::empty;
use crate::process::{find_program, output, root, run, run_quietly, target_dir};

/// The helper for Node.js, from the workspace's root.
pub(crate) const NODE_HELPER: &str = "packages/node/tdekit/index.js";

/// Returns the modules of the interop program for Node.js: better-sqlite3, built.
pub(crate) fn built_drivers() -> Result<PathBuf> {
    let build = target_dir().join("interop/node");
    prepare_node(&build)?;
    Ok(build.join("node_modules"))
}

/// Returns the directory with sqlite-jdbc and its dependencies.
pub(crate) fn jdbc_driver() -> Result<PathBuf> {
    let build = target_dir().join("interop/java");
    prepare_java(&build)?;
    Ok(build.join("lib"))
}

/// Returns the directory of Node.js, if it includes the headers. Otherwise node-gyp fetches them.
pub(crate) fn node_prefix() -> Option<PathBuf> {
    let node = find_program("node")?.canonicalize().ok()?;
    let prefix = node.parent()?.parent()?;
    prefix.join("include/node/node.h").is_file().then(|| prefix.to_path_buf())
}

/// Returns the folder of an interop program.
pub(crate) fn source(name: &str) -> PathBuf {
    root().join("tests/interop").join(name)
}

/// Copies the sources to the build directory, so that the source tree is not modified.
pub(crate) fn copy_sources(name: &str, build: &Path) -> Result<()> {
    std::fs::create_dir_all(build).with_context(|| format!("make {}", build.display()))?;
    for entry in std::fs::read_dir(source(name))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), build.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Installs the packages of the folder's `requirements.txt` into `site` in `build`, once for each
/// list.
pub(crate) fn install_python(name: &str, build: &Path) -> Result<()> {
    let requirements = source(name).join("requirements.txt");
    let wanted = std::fs::read_to_string(&requirements).context("read the requirements")?;
    let stamp = build.join("installed.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    empty(build)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--only-binary", ":all:", "--target"]).arg(build.join("site"));
    run_quietly(pip.arg("--requirement").arg(&requirements))?;
    std::fs::write(&stamp, wanted).context("write the stamp of the installation")
}

/// Installs better-sqlite3 and builds its native part from source: its prebuilt binaries are
/// outside of npm's registry.
pub(crate) fn prepare_node(build: &Path) -> Result<()> {
    copy_sources("node", build)?;
    std::fs::copy(root().join(NODE_HELPER), build.join("tdekit.js")).context("copy the helper")?;
    install_node(build, &["better-sqlite3"])
}

/// Installs the packages of the lock in `build`, and compiles `drivers` among them, once for each
/// lock and each Node.js.
pub(crate) fn install_node(build: &Path, drivers: &[&str]) -> Result<()> {
    let node =
        output(Command::new("node").args(["-p", "process.version + ' ' + process.execPath"]))?;
    let lock = std::fs::read_to_string(build.join("package-lock.json"))?;
    let wanted = format!("{node}\n{lock}");
    let stamp = build.join("node_modules/.built-for");
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let mut install = Command::new("npm");
    install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(build);
    run(&mut install)?;
    for driver in drivers {
        build_driver(build, driver, &node)?;
    }
    std::fs::write(&stamp, wanted).context("write the stamp of the build")
}

/// Compiles the native part of a driver that is installed in `build`, or reuses the build of the
/// same version for the same Node.js: programs with the same driver share the minutes.
fn build_driver(build: &Path, driver: &str, node: &str) -> Result<()> {
    let installed = build.join("node_modules").join(driver);
    let manifest = std::fs::read_to_string(installed.join("package.json"))?;
    let manifest: serde_json::Value = serde_json::from_str(&manifest)?;
    let wanted = format!("{node}\n{}", manifest["version"]);
    let (kept, native) = (target_dir().join("interop/node-drivers").join(driver), "build/Release");
    let stamp = kept.join("built-for");
    if !std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        let mut rebuild = Command::new("node_modules/.bin/node-gyp");
        rebuild.args(["rebuild", "--release"]).arg(format!("--directory=node_modules/{driver}"));
        if let Some(prefix) = node_prefix() {
            rebuild.arg(format!("--nodedir={}", prefix.display()));
        }
        // With -O3, as the drivers request, compiling SQLite takes minutes.
        rebuild.env("CFLAGS", "-w -O1").env("CXXFLAGS", "-w -O1").current_dir(build);
        run_quietly(&mut rebuild)?;
        empty(&kept)?;
        copy_modules(&installed.join(native), &kept)?;
        return std::fs::write(&stamp, wanted).context("write the stamp of the driver");
    }
    std::fs::create_dir_all(installed.join(native))?;
    copy_modules(&kept, &installed.join(native))
}

/// Copies the native modules of one directory into another.
fn copy_modules(from: &Path, to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let path = entry?.path();
        if let (Some("node"), Some(name)) =
            (path.extension().and_then(|it| it.to_str()), path.file_name())
        {
            std::fs::copy(&path, to.join(name))
                .with_context(|| format!("copy {}", path.display()))?;
        }
    }
    Ok(())
}

/// Fetches sqlite-jdbc and compiles the interop program for Java.
pub(crate) fn prepare_java(build: &Path) -> Result<()> {
    build_java("java", build)
}

/// Fetches the packages of the folder's `pom.xml` into `lib` in `build`, and compiles its sources
/// and the helper into `classes`.
pub(crate) fn build_java(name: &str, build: &Path) -> Result<()> {
    copy_sources(name, build)?;
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "-Dstyle.color=never"]);
    maven.args(["dependency:copy-dependencies", "-DoutputDirectory=lib"]);
    run_quietly(maven.current_dir(build))?;
    let mut javac = Command::new("javac");
    javac.args(["-encoding", "UTF-8", "-classpath", "lib/*", "-d", "classes"]);
    javac.arg(root().join("packages/java/Tdekit.java"));
    for entry in std::fs::read_dir(source(name))? {
        let file = PathBuf::from(entry?.file_name());
        if file.extension().is_some_and(|extension| extension == "java") {
            javac.arg(file);
        }
    }
    run(javac.current_dir(build))
}
