//! Builds of the shipped programs that run on older systems than the build machine, and on another
//! processor: zig links against the given C library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::deb::debian_arch;
use super::debian_root::as_root;
use super::{Built, glibc};
use crate::process::{find_program, output, root, run, run_quietly, target_dir};
use crate::shipped::SHIPPED;

/// Minimum glibc version of the programs.
const GLIBC: (u32, u32) = (2, 28);
/// The processors of the packages, by Rust's names.
const ARCHES: [&str; 2] = ["x86_64", "aarch64"];
/// Maximum page size of a system of the emulated processor, in bytes. Segments with a smaller
/// alignment are not loaded there.
const LARGEST_PAGE: u64 = 65_536;
/// The processor whose programs run under an emulator here.
const EMULATED: &str = "aarch64";
/// Packages of Debian whose files emulate a machine of another processor.
const BESIDE: [&str; 5] =
    ["libsqlite3-0", "libstdc++6", "openjdk-17-jre-headless", "python3", "sqlite3"];

/// Returns the processor of a program, by Rust's name. ELF gABI, "ELF Header": `e_machine` at
/// offset 18.
pub(super) fn arch_of(program: &Path) -> Result<&'static str> {
    let bytes = fs::read(program).with_context(|| format!("read {}", program.display()))?;
    match bytes.get(18..20) {
        Some([62, 0]) => Ok("x86_64"),
        Some([183, 0]) => Ok("aarch64"),
        _ => bail!("{} is of no processor that packages are made for", program.display()),
    }
}

/// Builds everything that is shipped for every processor, without symbols.
///
/// # Errors
/// When zig or Rust's library for a target is unavailable, a build fails, or a program needs a
/// newer glibc.
pub(super) fn build_all() -> Result<Vec<Built>> {
    let tools = tools()?;
    ARCHES.into_iter().map(|arch| Ok(Built { dir: build(arch, &tools)?, arch })).collect()
}

fn build(arch: &str, tools: &Path) -> Result<PathBuf> {
    let target = format!("{arch}-unknown-linux-gnu");
    run(Command::new("rustup").args(["target", "add", &target]).current_dir(root()))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(tools.join("bin")).chain(std::env::split_paths(&path));
    let mut build = Command::new(tools.join("bin/cargo-zigbuild"));
    build.current_dir(root()).env("PATH", std::env::join_paths(path)?);
    build.env("CARGO_ZIGBUILD_CACHE_DIR", target_dir().join("zig"));
    // Packages carry no symbols. No program contains paths of the build machine.
    build.env("CARGO_PROFILE_RELEASE_DEBUG", "false").env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    let (major, minor) = GLIBC;
    build.args(["zigbuild", "--release", "--target", &format!("{target}.{major}.{minor}")]);
    run(build.args(SHIPPED.iter().flat_map(|(package, _)| ["-p", package])))?;
    let built = target_dir().join(&target).join("release");
    let programs = SHIPPED.map(|(_, file)| built.join(file));
    let needed = glibc::needed(&programs.each_ref().map(PathBuf::as_path))?;
    ensure!(needed <= GLIBC, "the programs of {target} need glibc {needed:?}");
    for program in programs.iter().filter(|_| arch == EMULATED) {
        let headers = output(Command::new("readelf").arg("-lW").arg(program))?;
        let alignment = least_alignment(&headers);
        let fits = alignment.is_some_and(|alignment| alignment >= LARGEST_PAGE);
        ensure!(fits, "{} has segments at multiples of {alignment:?} bytes", program.display());
    }
    Ok(built)
}

/// A Python environment with zig and cargo-zigbuild, in the versions and with the hashes of
/// `packages/cross/requirements.txt`.
fn tools() -> Result<PathBuf> {
    let (tools, wanted) =
        (target_dir().join("cross-tools"), root().join("packages/cross/requirements.txt"));
    let had = tools.join("requirements.txt");
    let list = fs::read(&wanted).with_context(|| format!("read {}", wanted.display()))?;
    if fs::read(&had).ok().as_ref() != Some(&list) {
        run(Command::new("python3").args(["-m", "venv", "--clear", "--without-pip"]).arg(&tools))?;
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "--python"]).arg(tools.join("bin/python"));
        install.args(["install", "--quiet", "--disable-pip-version-check"]);
        run(install.args(["--require-hashes", "--requirement"]).arg(&wanted))?;
        fs::write(&had, list).with_context(|| format!("write {}", had.display()))?;
    }
    Ok(tools)
}

/// A machine of the other processor: an emulator, and the files of Debian packages for it in a
/// directory. Nothing is installed into the system.
pub(super) struct Emulated {
    emulator: PathBuf,
    place: PathBuf,
}

impl Emulated {
    /// Gets the files.
    fn make() -> Result<Self> {
        let emulator = format!("qemu-{EMULATED}-static");
        let Some(emulator) = find_program(&emulator) else {
            bail!("install qemu-user-static, which has {emulator}");
        };
        let proofs = target_dir().join("proofs");
        fs::create_dir_all(&proofs).with_context(|| format!("make {}", proofs.display()))?;
        let place = proofs.join(EMULATED);
        run(as_root("rm")?.args(["--recursive", "--force"]).arg(&place))?;
        let mut extract = as_root("mmdebstrap")?;
        extract.args(["--quiet", "--variant=extract"]);
        extract.arg(format!("--architectures={}", debian_arch(EMULATED)?));
        run(extract.arg(format!("--include={}", BESIDE.join(","))).arg("bookworm").arg(&place))?;
        Ok(Self { emulator, place })
    }

    /// Returns a program of that processor. It starts others as given by `PROVE_THROUGH`.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.emulator);
        command.arg("-L").arg(&self.place).arg(program);
        let through = format!("{} -L {}", self.emulator.display(), self.place.display());
        command.env("PROVE_THROUGH", through);
        command
    }

    /// A file of Debian's packages.
    pub(super) fn file(&self, path: &str) -> PathBuf {
        self.place.join(path)
    }

    /// The processor, by Rust's name.
    pub(super) fn arch(&self) -> &'static str {
        EMULATED
    }

    /// A C compiler for it.
    pub(super) fn compiler(&self) -> Result<String> {
        let python = tools()?.join("bin/python");
        let (major, minor) = GLIBC;
        let target = format!("{EMULATED}-linux-gnu.{major}.{minor}");
        Ok(format!("{} -m ziglang cc -target {target}", python.display()))
    }
}

/// Proves every package for aarch64 under an emulator.
///
/// # Errors
/// When the files are unavailable, or the programs do not work as they should.
pub(super) fn prove(packages: &Path) -> Result<()> {
    let emulated = Emulated::make()?;
    prove_package(packages, &emulated)?;
    super::python::prove_emulated(packages, &emulated)?;
    super::node::prove_emulated(packages, &emulated)?;
    super::java::prove_emulated(packages, &emulated)?;
    super::go::prove_emulated(packages, &emulated)
}

/// Runs the Debian package, with libraries, Python and the `sqlite3` shell of that processor.
fn prove_package(packages: &Path, emulated: &Emulated) -> Result<()> {
    let ending = format!("_{}.deb", debian_arch(EMULATED)?);
    for name in super::names(packages)?.iter().filter(|name| name.ends_with(&ending)) {
        let mut extract = as_root("dpkg-deb")?;
        run_quietly(extract.arg("--extract").arg(packages.join(name)).arg(&emulated.place))?;
    }
    let mut proof = Command::new("sh");
    proof.arg(root().join("packages/cross/prove.sh")).arg(&emulated.emulator).arg(&emulated.place);
    proof.env("NATIVE_TDEKIT", super::command(packages)?);
    println!("{}", output(&mut proof)?);
    Ok(())
}

/// Returns the minimum alignment in bytes of the loaded segments in the output of `readelf -lW`.
fn least_alignment(headers: &str) -> Option<u64> {
    let loaded = headers.lines().filter(|line| line.trim_start().starts_with("LOAD"));
    let alignments = loaded.map(|line| {
        let last = line.split_whitespace().last()?.strip_prefix("0x")?;
        u64::from_str_radix(last, 16).ok()
    });
    // An unreadable one makes the result none.
    alignments.collect::<Option<Vec<_>>>()?.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::least_alignment;

    #[test]
    fn the_least_alignment_of_loaded_segments_counts() {
        let headers = "  Type  Offset VirtAddr PhysAddr FileSiz MemSiz Flg Align\n  \
                       PHDR  0x000040 0x40 0x40 0x2d8 0x2d8 R   0x8\n  \
                       LOAD  0x000000 0x0 0x0 0x0fb81c 0x0fb81c R   0x10000\n  \
                       LOAD  0x0fb840 0x10b840 0x10b840 0x1dad80 0x1dad80 R E 0x1000\n  \
                       DYNAMIC 0x2d65c0 0x2f65c0 0x2f65c0 0x1b0 0x1b0 RW  0x8\n";
        assert_eq!(least_alignment(headers), Some(4096));
        assert_eq!(least_alignment("  LOAD  0x0 0x0 0x0 0x1 0x1 R   none\n"), None);
        assert_eq!(least_alignment("no segment"), None);
    }
}
