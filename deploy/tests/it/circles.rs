//! Groups of files that import each other, crate by crate.

use crate::tidy::files;
use std::collections::{BTreeMap, BTreeSet};

/// Groups that are left: two types whose methods are spread over several files.
const GROUPS_MAX: usize = 2;
/// Imports that are followed to find the file that defines a name.
const IMPORTS_MAX: usize = 16;

/// Names of a path, or of a module from its crate's root.
type Path = Vec<String>;
/// Paths that a file names, but for those of `pub use`, and what its imports stand for.
type File = (Vec<Path>, BTreeMap<String, Path>);
/// Files of a crate, by module.
type Files = BTreeMap<Path, File>;

fn names(path: &str) -> Path {
    let names = path.split("::").map(str::trim);
    let names = names.filter(|name| !name.is_empty() && *name != "self");
    names.map(str::to_owned).collect()
}

/// Lists the paths of a `use`.
fn expanded(tree: &str) -> Vec<Path> {
    let (mut paths, mut before) = (Vec::new(), vec![Path::new()]);
    for part in tree.split_inclusive(['{', ',', '}']) {
        let text = part.trim_end_matches(['{', ',', '}']).trim();
        let path = names(text.split(" as ").next().unwrap());
        let path = [before.last().unwrap().as_slice(), &path].concat();
        if part.ends_with('{') {
            before.push(path);
        } else if !text.is_empty() {
            paths.push(path);
        }
        let closed = usize::from(part.ends_with('}'));
        before.truncate(before.len().saturating_sub(closed).max(1));
    }
    paths
}

fn parsed(text: &str) -> File {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut lines = text.lines().map(|line| line.split("//").next().unwrap());
    let (mut used, mut imports) = File::default();
    while let Some(line) = lines.next().map(str::trim_start) {
        let restricted = line.strip_prefix("pub(").and_then(|it| it.split_once(") "));
        let public = line.strip_prefix("pub ").or(restricted.map(|it| it.1));
        let line = public.unwrap_or(line);
        let Some(tree) = line.strip_prefix("use ") else {
            let words = line.split(|it: char| !(it.is_alphanumeric() || "_:".contains(it)));
            let words = words.filter(|word| word.contains("::") && !word.starts_with(':'));
            used.extend(words.map(|word| names(word.trim_end_matches(':'))));
            continue;
        };
        let mut tree = tree.to_owned();
        while !tree.contains(';') {
            tree += lines.next().unwrap_or(";");
        }
        for path in expanded(tree.split(';').next().unwrap()) {
            let name = path.last().cloned().unwrap_or_default();
            if public.is_none() && name != "*" {
                used.push(path.clone());
            }
            imports.entry(name).or_insert(path);
        }
    }
    (used, imports)
}

/// Path from the root, given one that a module names; `None`: it leads to another crate.
fn absolute(files: &Files, module: &[String], path: &[String]) -> Option<Path> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    let parent = &module[..module.len().saturating_sub(ups)];
    let is_child = || files.contains_key(&[module, &path[..1]].concat());
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" => Some([parent, &path[ups..]].concat()),
        _ => is_child().then(|| [module, path].concat()),
    }
}

/// Module of the file that a path leads to; imports on the way are followed.
fn file_of(files: &Files, path: &[String], imports_max: usize) -> Path {
    let is_file = |names: &usize| files.contains_key(&path[..*names]);
    let (file, rest) = path.split_at((0..=path.len()).rev().find(is_file).unwrap_or(0));
    let import = rest.first().and_then(|name| files[file].1.get(name));
    match import.and_then(|import| absolute(files, file, import)) {
        Some(import) if imports_max > 0 => {
            let path = [import.as_slice(), &rest[1..]].concat();
            file_of(files, &path, imports_max - 1)
        }
        _ => file.to_vec(),
    }
}

fn groups(files: &Files) -> BTreeSet<String> {
    let edges = files.iter().map(|(module, (used, _))| {
        let paths = used.iter().filter_map(|path| absolute(files, module, path));
        let found = paths.map(|path| file_of(files, &path, IMPORTS_MAX));
        (module, found.filter(|file| file != module).collect())
    });
    let edges: BTreeMap<&Path, BTreeSet<Path>> = edges.collect();
    let reached = edges.keys().map(|from| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![*from]);
        while let Some(module) = open.pop() {
            open.extend(edges[module].iter().filter(|file| reached.insert(*file)));
        }
        (*from, reached)
    });
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = reached.collect();
    let circles = reached.iter().filter(|(file, all)| all.contains(*file));
    let groups = circles.map(|(file, all)| {
        let mutual = all.iter().filter(|it| reached[*it].contains(file));
        mutual.map(|it| it.join("::") + " ").collect()
    });
    groups.collect()
}

#[test]
fn few_groups_of_files_import_each_other() {
    let mut found = Vec::new();
    let sources = files(".rs");
    for (root, _) in &sources {
        let mut roots = ["src/lib.rs", "src/main.rs"].iter();
        let Some(folder) = roots.find_map(|it| root.strip_suffix(*it)) else {
            continue;
        };
        let files = sources.iter().filter_map(|(name, text)| {
            let module = name.strip_prefix(folder)?.strip_prefix("src/")?;
            let module = module.strip_suffix(".rs")?;
            let module = if name == root { "" } else { module };
            let module = module.strip_suffix("/mod").unwrap_or(module);
            Some((names(&module.replace('/', "::")), parsed(text)))
        });
        let groups = groups(&files.collect()).into_iter();
        found.extend(groups.map(|group| format!("{root}: {group}")));
    }
    assert!(found.len() <= GROUPS_MAX, "{found:#?}");
}

/// Modules with their texts, and the groups among them.
type MadeUp<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn circles_of_made_up_files_are_found() {
    let table: [MadeUp; 3] = [
        (
            &[
                ("", "mod a;\nmod b;\nmod c;\npub use c::C;\n"),
                ("a", "use crate::b::B;\n"),
                // By way of what the root exports.
                ("b", "use super::C;\n"),
                ("c", "pub fn c() {\n    crate::a::a();\n}\n"),
            ],
            &["a b c "],
        ),
        (
            &[
                ("", "mod a;\nmod c;\n"),
                ("a", "mod b;\nuse b::B;\n"),
                ("a::b", "use super::A;\n"),
                ("c", "use crate::a::{self, A};\n"),
            ],
            &["a a::b "],
        ),
        (
            &[
                ("", "mod a;\nmod b;\npub use a::A;\n"),
                ("a", "use crate::b::B;\n"),
                (
                    "b",
                    "// See crate::a.\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
                ),
            ],
            &[],
        ),
    ];
    for (sources, expected) in table {
        let files = sources.iter();
        let files = files.map(|(module, text)| (names(module), parsed(text)));
        let found: Vec<String> = groups(&files.collect()).into_iter().collect();
        assert_eq!(found, expected, "{sources:?}");
    }
}
