//! Which file of a crate imports from which: the paths in its code, followed to the file that
//! defines what they name.
//!
//! Left out are imports that only tests see, which may know more, and those of a file from the module
//! that it is part of: `a/b.rs` may use what `a/mod.rs` defines for its own.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A module, by the names from the crate's root down.
type Module = Vec<String>;

/// The files of a crate, each by its path in `src`, and the files that it imports from.
pub(crate) fn imports(src: &Path) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
    let mut sources = BTreeMap::new();
    let root = ["lib.rs", "main.rs"].into_iter().find(|root| src.join(root).is_file());
    read(src, Path::new(root.expect("a crate's root")), &Vec::new(), &mut sources);
    let resolved = |source: &Source| {
        let paths = source.uses.iter().map(|used| (&used.inside, &used.path));
        let paths = paths.chain(source.paths.iter().map(|(inside, path)| (inside, path)));
        paths.filter_map(|(inside, path)| definer(&sources, source, inside, path, 0)).collect()
    };
    let arrows = sources.values().map(|source| {
        let mut targets: BTreeSet<PathBuf> = resolved(source);
        for length in 0..=source.module.len() {
            if let Some(module) = sources.get(&source.module[..length]) {
                targets.remove(&module.file);
            }
        }
        (source.file.clone(), targets)
    });
    arrows.collect()
}

/// A circle among the files, if there is one: each imports from the next, and the last is the first.
pub(crate) fn circle(imports: &BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> Option<Vec<PathBuf>> {
    let mut left = imports.clone();
    // Whoever imports nothing that is left stands in no circle.
    while let Some(leaf) =
        left.iter().find(|(_, used)| used.iter().all(|it| !left.contains_key(it)))
    {
        let leaf = leaf.0.clone();
        left.remove(&leaf);
    }
    let mut way = vec![left.keys().next()?.clone()];
    loop {
        let next = left[&way[way.len() - 1]].iter().find(|used| left.contains_key(*used));
        let next = next.expect("a leaf would be gone").clone();
        let begin = way.iter().position(|file| *file == next);
        way.push(next);
        if let Some(begin) = begin {
            return Some(way.split_off(begin));
        }
    }
}

/// A file of the crate.
struct Source {
    file: PathBuf,
    module: Module,
    uses: Vec<Use>,
    /// Paths of several segments in the code, with the modules of the file that they stand in.
    paths: Vec<(Module, Vec<String>)>,
}

/// A name that a `use` brings in.
struct Use {
    /// The module of the file that it stands in, from the file's own down.
    inside: Module,
    path: Vec<String>,
    name: String,
}

fn read(src: &Path, file: &Path, module: &Module, sources: &mut BTreeMap<Module, Source>) {
    let text = std::fs::read_to_string(src.join(file)).expect("source");
    let tokens = text.parse::<TokenStream>().expect("Rust");
    let (uses, paths) = (Vec::new(), Vec::new());
    let mut source = Source { file: file.to_owned(), module: module.clone(), uses, paths };
    let mut children = Vec::new();
    source.scan(tokens, &Vec::new(), &mut children);
    sources.insert(module.clone(), source);
    let is_folder = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| file.ends_with(name));
    let folder = if is_folder { file.with_file_name("") } else { file.with_extension("") };
    for child in children {
        let flat = folder.join(format!("{child}.rs"));
        let nested = folder.join(&child).join("mod.rs");
        let file = if src.join(&flat).is_file() { flat } else { nested };
        read(src, &file, &[module.as_slice(), &[child]].concat(), sources);
    }
}

impl Source {
    /// Notes the imports and paths in `tokens`, which stand in the module `inside` of this file, and
    /// the modules that have files of their own.
    fn scan(&mut self, tokens: TokenStream, inside: &Module, children: &mut Vec<String>) {
        let tokens = tokens.into_iter().collect::<Vec<_>>();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at..] {
                [TokenTree::Punct(hash), TokenTree::Group(attribute), ..]
                    if hash.as_char() == '#' && attribute.to_string() == "[cfg (test)]" =>
                {
                    at += 2 + item_length(&tokens[at + 2..]);
                }
                [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Punct(_), ..]
                    if word == "mod" =>
                {
                    children.push(name.to_string());
                    at += 3;
                }
                [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Group(body), ..]
                    if word == "mod" =>
                {
                    let inside = [inside.as_slice(), &[name.to_string()]].concat();
                    self.scan(body.stream(), &inside, children);
                    at += 3;
                }
                // A visibility names who may import, and imports nothing.
                [TokenTree::Ident(word), TokenTree::Group(_), ..] if word == "pub" => at += 2,
                [TokenTree::Ident(word), ..] if word == "use" => {
                    let length = item_length(&tokens[at..]);
                    let tree = &tokens[at + 1..at + length - 1];
                    self.note_use(tree, inside, &[]);
                    at += length;
                }
                [TokenTree::Ident(_), ..] => {
                    let (path, length) = path(&tokens[at..]);
                    if path.len() > 1 {
                        self.paths.push((inside.clone(), path));
                    }
                    at += length;
                }
                [TokenTree::Group(group), ..] => {
                    self.scan(group.stream(), inside, children);
                    at += 1;
                }
                _ => at += 1,
            }
        }
    }

    /// Notes the names of a tree such as `crate::a::{self, b, c as d}`, behind `prefix`.
    fn note_use(&mut self, tree: &[TokenTree], inside: &Module, prefix: &[String]) {
        let (mut path, length) = path(tree);
        path.splice(0..0, prefix.iter().cloned());
        if let Some(TokenTree::Group(group)) = tree.last()
            && group.delimiter() == Delimiter::Brace
        {
            let items = group.stream().into_iter().collect::<Vec<_>>();
            let is_comma = |token: &TokenTree| token.to_string() == ",";
            for item in items.split(is_comma).filter(|item| !item.is_empty()) {
                self.note_use(item, inside, &path);
            }
            return;
        }
        if !prefix.is_empty() && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = match &tree[length..] {
            [_, TokenTree::Ident(alias)] => alias.to_string(),
            // All of a module.
            [.., TokenTree::Punct(_)] => "*".to_owned(),
            _ => path.last().cloned().unwrap_or_default(),
        };
        self.uses.push(Use { inside: inside.clone(), path, name });
    }
}

/// How many tokens an item has: it ends with a semicolon, or with its body.
fn item_length(tokens: &[TokenTree]) -> usize {
    let is_use = tokens.iter().take(4).any(|token| token.to_string() == "use");
    let is_end = |token: &TokenTree| match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => !is_use && group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    tokens.iter().position(is_end).map_or(tokens.len(), |end| end + 1)
}

/// The names of a path such as `a::b::c` at the beginning of `tokens`, and how many tokens it has,
/// with the colons behind it.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let (mut names, mut length) = (Vec::new(), 0);
    while let Some(TokenTree::Ident(name)) = tokens.get(length) {
        names.push(name.to_string());
        length += 1;
        match &tokens[length..] {
            [TokenTree::Punct(a), TokenTree::Punct(b), ..]
                if a.as_char() == ':' && b.as_char() == ':' =>
            {
                length += 2;
            }
            _ => break,
        }
    }
    (names, length)
}

/// The file of this crate that defines what `path` names where it stands in the module `inside` of
/// `from`. Names that a file only passes on are followed.
fn definer(
    sources: &BTreeMap<Module, Source>,
    from: &Source,
    inside: &Module,
    path: &[String],
    depth: usize,
) -> Option<PathBuf> {
    let here = [from.module.as_slice(), inside].concat();
    let mut rest = path;
    let mut module = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => here,
        child if sources.contains_key(&[here.as_slice(), &[child.to_owned()]].concat()) => here,
        // Another crate, or what a `use` of this file has brought in.
        _ => return None,
    };
    while let Some((name, behind)) = rest.split_first() {
        match name.as_str() {
            "crate" | "self" => {}
            "super" => drop(module.pop()),
            name => {
                let child = [module.as_slice(), &[name.to_owned()]].concat();
                if !sources.contains_key(&child) {
                    break;
                }
                module = child;
            }
        }
        rest = behind;
    }
    // A module without a file stands in the file of one above it.
    let owner = (0..=module.len()).rev().find_map(|length| sources.get(&module[..length]))?;
    let passed_on = rest.first().filter(|_| depth < 8 && owner.module == module).and_then(|name| {
        let mut uses = owner.uses.iter().filter(|used| used.inside.is_empty());
        uses.find(|used| used.name == *name)
    });
    let followed =
        passed_on.and_then(|used| definer(sources, owner, &used.inside, &used.path, depth + 1));
    Some(followed.unwrap_or_else(|| owner.file.clone()))
}
