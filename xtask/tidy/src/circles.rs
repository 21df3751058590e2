//! The rule on import cycles: the number of files of a package that need each other is limited.
//!
//! A file needs another if it names something there by a path from `crate`, `super` or `self`, in a
//! `use` or elsewhere. A re-exported name (`pub use`) counts for the file that defines it, so a
//! crate's root is not a hub. Code for tests alone does not count.
//!
//! A package may declare the order of its modules: `[package.metadata.layers]` in its `Cargo.toml`,
//! where `order` lists the files and folders beside the root. Each one needs only those before it.
//!
//! In no package are two folders beside the root in a circle, be it through files there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, UseTree, Visibility};

use crate::Finding;

/// Maximum number of files in one cycle.
const MOST_FILES: usize = 8;

/// Maximum number of modules through which re-exported names are followed.
const MOST_HOPS: usize = 8;

/// A module's path from its crate's root.
type ModulePath = Vec<String>;

/// Checks the crates of a package, each by its root file.
///
/// # Errors
/// When a file cannot be read or is not Rust.
pub(crate) fn check(package: &str, roots: &[PathBuf], order: &[String]) -> Result<Vec<Finding>> {
    let (mut largest, mut folders, mut upward) = (Vec::new(), Vec::new(), Vec::new());
    for root in roots {
        let tree = Tree::read(root)?;
        let circle = tree.largest_circle();
        if circle.len() > largest.len() {
            largest = circle;
        }
        folders.extend(tree.circles_of_folders());
        if !order.is_empty() {
            upward.extend(tree.upward(order));
        }
    }
    let upward = upward.into_iter().map(|what| Finding::Broken(format!("{package}: {what}")));
    let folders = folders.into_iter().map(|circle| {
        Finding::Broken(format!("{package}: folders need each other: {}", circle.join(", ")))
    });
    Ok(judge(package, &largest).into_iter().chain(folders).chain(upward).collect())
}

/// Returns the order that a package's metadata declares; empty without one.
pub(crate) fn order(metadata: &serde_json::Value) -> Vec<String> {
    let names = metadata.get("layers").and_then(|layers| layers.get("order"));
    let names = names.and_then(serde_json::Value::as_array).into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn judge(package: &str, circle: &[String]) -> Option<Finding> {
    let size = circle.len();
    (size > MOST_FILES).then(|| {
        Finding::Broken(format!(
            "{package}: {size} files import each other in a circle ({MOST_FILES} may): {}",
            circle.join(", ")
        ))
    })
}

/// The modules of one crate.
#[derive(Default)]
struct Tree {
    modules: BTreeMap<ModulePath, Module>,
    /// Relative to the directory of the crate's root file.
    files: Vec<String>,
    directory: PathBuf,
}

/// A module, in a separate file or within another's.
#[derive(Default)]
struct Module {
    /// Index of its file.
    file: usize,
    /// The names that it uses, each as a path from the crate's root.
    names: Vec<ModulePath>,
    /// The names that it imports: each with its origin. `*` imports all.
    brought_in: Vec<(String, ModulePath)>,
    /// Names of its own items.
    defines: BTreeSet<String>,
}

impl Tree {
    fn read(root: &Path) -> Result<Self> {
        let dir = root.parent().unwrap_or(Path::new("."));
        let mut tree = Self { directory: dir.to_path_buf(), ..Self::default() };
        tree.read_file(root, dir, Vec::new())?;
        Ok(tree)
    }

    /// Reads a file; the files of its modules are in `dir`.
    fn read_file(&mut self, path: &Path, dir: &Path, at: ModulePath) -> Result<()> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let parsed = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        let file = self.files.len();
        let shown = path.strip_prefix(&self.directory).unwrap_or(path);
        self.files.push(shown.display().to_string());
        self.read_items(&parsed.items, file, dir, &at)
    }

    fn read_items(
        &mut self,
        items: &[Item],
        file: usize,
        dir: &Path,
        at: &ModulePath,
    ) -> Result<()> {
        let mut names = Names { at, found: Vec::new(), brought_in: Vec::new() };
        for item in items {
            match item {
                Item::Mod(module) if is_for_tests(&module.attrs) => {}
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let inner_dir = dir.join(&name);
                    let inner: ModulePath = at.iter().cloned().chain([name.clone()]).collect();
                    match &module.content {
                        Some((_, items)) => self.read_items(items, file, &inner_dir, &inner)?,
                        None => {
                            let beside = dir.join(format!("{name}.rs"));
                            let within = inner_dir.join("mod.rs");
                            let path = if beside.is_file() { beside } else { within };
                            self.read_file(&path, &inner_dir, inner)?;
                        }
                    }
                }
                other => names.visit_item(other),
            }
        }
        let Names { found, brought_in, .. } = names;
        let defines = items.iter().filter_map(name_of).collect();
        self.modules.insert(at.clone(), Module { file, names: found, brought_in, defines });
        Ok(())
    }

    /// Returns the file to which a path leads, if it leads into this crate.
    fn file_of(&self, path: &[String], hops: usize) -> Option<usize> {
        let (at, module) = (0..=path.len())
            .rev()
            .find_map(|len| self.modules.get_key_value(&path[..len]))
            .map(|(at, module)| (at.len(), module))?;
        let Some(name) = path.get(at).filter(|name| hops > 0 && !module.defines.contains(*name))
        else {
            return Some(module.file);
        };
        for (known, from) in &module.brought_in {
            let onward = |rest: &[String]| [from.as_slice(), rest].concat();
            if known == name {
                return self.file_of(&onward(&path[at + 1..]), hops - 1).or(Some(module.file));
            }
            let has_it = self.modules.get(from).is_some_and(|module| module.defines.contains(name));
            if known == "*" && has_it {
                return self.file_of(&onward(&path[at..]), hops - 1);
            }
        }
        Some(module.file)
    }

    /// Returns the pairs of files of which the first needs the second.
    fn edges(&self) -> BTreeSet<(usize, usize)> {
        let mut edges = BTreeSet::new();
        for module in self.modules.values() {
            let needed = module.names.iter().filter_map(|path| self.file_of(path, MOST_HOPS));
            edges.extend(needed.map(|file| (module.file, file)).filter(|(from, to)| from != to));
        }
        edges
    }

    /// Returns the violations of an order of the root's modules: needs of later ones, and modules
    /// that are not in it. The root itself, which has all of them, is above the order.
    fn upward(&self, order: &[String]) -> Vec<String> {
        let place = |file: usize| order.iter().position(|name| *name == top(&self.files[file]));
        let mut found = BTreeSet::new();
        for file in 1..self.files.len() {
            if place(file).is_none() {
                found.insert(format!("{} is not in the order", top(&self.files[file])));
            }
        }
        for (from, to) in self.edges() {
            if from > 0 && place(from).zip(place(to)).is_some_and(|(from, to)| from < to) {
                let (from, to) = (&self.files[from], &self.files[to]);
                found.insert(format!("{from} needs {to}, which comes later in the order"));
            }
        }
        found.into_iter().collect()
    }

    /// Returns the files of the largest cycle, sorted.
    fn largest_circle(&self) -> Vec<String> {
        let circles = circles_of(self.files.len(), self.edges());
        let largest = circles.into_iter().max_by_key(Vec::len).unwrap_or_default();
        let mut files: Vec<_> = largest.into_iter().map(|file| self.files[file].clone()).collect();
        files.sort();
        files
    }

    /// Returns the cycles of the root's modules in which two or more have files of their own, and
    /// of each cycle those modules.
    fn circles_of_folders(&self) -> Vec<Vec<String>> {
        let tops: BTreeSet<&str> = self.files.iter().skip(1).map(|file| top(file)).collect();
        let tops: Vec<&str> = tops.into_iter().collect();
        let place = |file: usize| tops.binary_search(&top(&self.files[file])).ok();
        let is_folder = |name: &str| {
            let mut files = self.files.iter().skip(1);
            files.any(|file| file.contains('/') && top(file) == name)
        };
        let between = self.edges().into_iter().filter(|(from, to)| *from > 0 && *to > 0);
        let between = between.filter_map(|(from, to)| place(from).zip(place(to)));
        let circles = circles_of(tops.len(), between.filter(|(from, to)| from != to));
        let folders = circles.into_iter().map(|circle| -> Vec<String> {
            let names: BTreeSet<&str> = circle.into_iter().map(|at| tops[at]).collect();
            names.into_iter().filter(|name| is_folder(name)).map(str::to_owned).collect()
        });
        folders.filter(|folders| folders.len() > 1).collect()
    }
}

/// Returns the cycles of a graph of so many nodes.
fn circles_of(count: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let mut graph = DiGraph::<usize, ()>::new();
    let nodes: Vec<NodeIndex> = (0..count).map(|node| graph.add_node(node)).collect();
    for (from, to) in edges {
        graph.add_edge(nodes[from], nodes[to], ());
    }
    let circles = tarjan_scc(&graph).into_iter().filter(|nodes| nodes.len() > 1);
    circles.map(|nodes| nodes.into_iter().map(|node| graph[node]).collect()).collect()
}

/// The folder or file beside the root that a file is, or is in.
fn top(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Collects the paths that the items of one module name.
struct Names<'a> {
    at: &'a ModulePath,
    found: Vec<ModulePath>,
    brought_in: Vec<(String, ModulePath)>,
}

impl Names<'_> {
    /// Returns a path from the crate's root; `None` for one that begins elsewhere.
    fn path_from_root(&self, segments: &[String]) -> Option<ModulePath> {
        let mut at = self.at.clone();
        let mut rest = segments;
        match segments.first().map(String::as_str) {
            Some("crate") => {
                at.clear();
                rest = &segments[1..];
            }
            Some("self") => rest = &segments[1..],
            Some("super") => {
                while let Some((first, more)) = rest.split_first()
                    && first == "super"
                {
                    at.pop();
                    rest = more;
                }
            }
            _ => return None,
        }
        at.extend(rest.iter().cloned());
        Some(at)
    }

    fn flatten(tree: &UseTree, before: &[String], out: &mut Vec<(String, Vec<String>)>) {
        let with = |name: &syn::Ident| -> Vec<String> {
            before.iter().cloned().chain([name.to_string()]).collect()
        };
        match tree {
            UseTree::Path(path) => Self::flatten(&path.tree, &with(&path.ident), out),
            UseTree::Name(name) if name.ident == "self" => {
                let last = before.last().cloned().unwrap_or_default();
                out.push((last, before.to_vec()));
            }
            UseTree::Name(name) => out.push((name.ident.to_string(), with(&name.ident))),
            UseTree::Rename(name) => out.push((name.rename.to_string(), with(&name.ident))),
            UseTree::Glob(_) => out.push(("*".to_owned(), before.to_vec())),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| Self::flatten(tree, before, out));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut flat = Vec::new();
        Self::flatten(&item.tree, &[], &mut flat);
        let is_private = matches!(item.vis, Visibility::Inherited);
        for (name, segments) in flat {
            let path = self.path_from_root(&segments);
            if is_private {
                self.found.extend(path.clone());
            }
            // Without a prefix it begins at a child, or at another crate, which is not a module.
            let child = || self.at.iter().chain(&segments).cloned().collect();
            self.brought_in.push((name, path.unwrap_or_else(child)));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 {
            self.found.extend(self.path_from_root(&segments));
        }
        visit::visit_path(self, path);
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Meta>()
                .is_ok_and(|condition| condition.path().is_ident("test"))
    })
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the largest cycle of a crate of these files, by their names.
    fn circle(files: &[(&str, &str)]) -> Vec<String> {
        tree(files).largest_circle()
    }

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree::read(&written(files).path().join("lib.rs")).unwrap()
    }

    fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn a_declared_order_is_kept() {
        let tree = tree(&[
            ("lib.rs", "mod a; mod b; mod c; use c::d::D;"),
            ("a.rs", "use crate::b::B;"),
            ("b/mod.rs", "mod d; pub struct B;"),
            ("b/d.rs", "use super::B; use crate::c::C;"),
            ("c.rs", "use crate::a; pub struct C;"),
        ]);
        let order =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let found = tree.upward(&order(&["b", "a", "c"]));
        assert_eq!(found, ["b/d.rs needs c.rs, which comes later in the order"]);
        let found = tree.upward(&order(&["c", "b"]));
        assert_eq!(found, ["a is not in the order"]);
        let metadata = serde_json::json!({ "layers": { "order": ["c", "b"] } });
        assert_eq!(super::order(&metadata), ["c", "b"]);
        assert!(super::order(&serde_json::Value::Null).is_empty());
    }

    #[test]
    fn folders_that_need_each_other_are_a_circle() {
        let circles = |of_c: &str| {
            let files = [
                ("lib.rs", "mod a; mod b; mod c; mod d;"),
                ("a/mod.rs", "mod x; pub struct A;"),
                ("a/x.rs", "use crate::b::y::Y;"),
                ("b/mod.rs", "pub mod y; use crate::c::C;"),
                ("b/y.rs", "pub struct Y;"),
                ("c.rs", of_c),
                ("d.rs", "use crate::a::A; use crate::c::C;"),
            ];
            tree(&files).circles_of_folders()
        };
        assert_eq!(circles("pub struct C; use crate::a::A;"), [["a", "b"]]);
        // A folder and a file are none, and without the last need there is no circle.
        assert!(circles("pub struct C; use crate::b::y::Y;").is_empty());
        assert!(circles("pub struct C;").is_empty());
    }

    #[test]
    fn a_circle_of_folders_breaks_the_rule_in_any_package() {
        let words = |of_b: &str| -> Vec<String> {
            let dir = written(&[
                ("lib.rs", "mod a; mod b;"),
                ("a/mod.rs", "mod x; pub struct A;"),
                ("a/x.rs", "use crate::b::y::Y;"),
                ("b/mod.rs", of_b),
                ("b/y.rs", "pub struct Y;"),
            ]);
            let found = check("p", &[dir.path().join("lib.rs")], &[]).unwrap().into_iter();
            found.map(|finding| format!("{finding:?}")).collect()
        };
        let broken = r#"Broken("p: folders need each other: a, b")"#;
        assert_eq!(words("pub mod y; use crate::a::A;"), [broken]);
        assert!(words("pub mod y;").is_empty());
    }

    #[test]
    fn files_that_need_each_other_are_a_circle() {
        let found = circle(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use super::{c::C, nothing}; pub struct B;"),
            ("c/mod.rs", "mod d; pub struct C;"),
            ("c/d.rs", "fn f() { crate::a::g::<super::super::a::A>() }"),
        ]);
        assert!(found.is_empty(), "c needs nothing: {found:?}");
        let found = circle(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use super::c::C; pub struct B;"),
            ("c.rs", "pub struct C; fn f() { crate::a::g() }"),
        ]);
        assert_eq!(found, ["a.rs", "b.rs", "c.rs"]);
    }

    #[test]
    fn a_name_that_is_passed_on_leads_to_where_it_comes_from() {
        let found = circle(&[
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::*;"),
            ("a.rs", "use crate::B; pub struct A;"),
            ("b.rs", "use crate::A; pub struct B;"),
        ]);
        assert_eq!(found, ["a.rs", "b.rs"]);
        let found = circle(&[
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
            ("a.rs", "pub struct A;"),
            ("b.rs", "use crate::A; pub struct B;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn what_only_tests_need_does_not_count() {
        let found = circle(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            (
                "b.rs",
                "pub struct B; #[cfg(test)] use crate::a::A;
                 #[cfg(test)] mod tests { use crate::a::A; }",
            ),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_circle_has_eight_files_at_most() {
        let files: Vec<_> = (0..9).map(|n| n.to_string()).collect();
        assert!(judge("p", &files[..8]).is_none());
        assert!(matches!(judge("p", &files), Some(Finding::Broken(_))));
    }
}
