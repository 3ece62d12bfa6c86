//! Which file imports what from which: the modules of `src`, and as much of Rust's name resolution as their imports need.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, Token};

/// One import: a `use`, or a path in the code.
#[derive(Clone, Debug)]
pub(super) struct Import {
    pub(super) from: String,
    pub(super) line: usize,
    /// The file that defines the item.
    pub(super) to: String,
    /// The path as it is written.
    pub(super) path: String,
}

/// All imports between production files that are no ancestors of each other. `files` are those of `src`, by path.
pub(super) fn imports(files: &BTreeMap<String, String>) -> Vec<Import> {
    let tree = Tree::read(files);
    let mut imports = Vec::new();
    for (at, module) in tree.modules.iter().enumerate() {
        // A single word that a `use` binds was counted there.
        let bound = |path: &&Mention| path.segments.len() == 1 && module.bound.contains_key(&path.segments[0]);
        for path in module.paths.iter().filter(|path| path.used || !bound(path)) {
            for target in tree.resolve(at, &path.segments, 0) {
                let Target::Item(to) = target else { continue };
                let to = &tree.modules[to];
                if module.file != to.file && !tree.related(&module.file, &to.file) {
                    imports.push(Import {
                        from: module.file.clone(),
                        line: path.line,
                        to: to.file.clone(),
                        path: path.segments.join("::"),
                    });
                }
            }
        }
    }
    imports
}

/// A module: a file, or `mod name { … }` inside one.
#[derive(Default)]
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// The names of items that are defined here.
    items: BTreeSet<String>,
    /// What `use` binds, also inside functions: a name may have several meanings.
    bound: BTreeMap<String, Vec<Vec<String>>>,
    /// `use path::*`.
    globs: Vec<Vec<String>>,
    /// All paths and single words.
    paths: Vec<Mention>,
}

struct Mention {
    line: usize,
    /// It is a leaf of a `use`.
    used: bool,
    segments: Vec<String>,
}

/// What a path leads to, by the index of a module.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    Module(usize),
    /// An item that this module defines.
    Item(usize),
}

struct Tree {
    modules: Vec<Module>,
    /// The path of the module that is a whole file.
    whole: BTreeMap<String, Vec<String>>,
}

/// How many re-exports may lead to an item: more are a circle of re-exports.
const DEEPEST: usize = 16;

impl Tree {
    fn read(files: &BTreeMap<String, String>) -> Self {
        let mut tree = Self {
            modules: Vec::new(),
            whole: BTreeMap::new(),
        };
        for root in ["src/lib.rs", "src/main.rs"] {
            if files.contains_key(root) {
                tree.file(files, root, Vec::new(), None);
            }
        }
        tree
    }

    /// Takes a file in, with all that it declares.
    fn file(
        &mut self,
        files: &BTreeMap<String, String>,
        file: &str,
        path: Vec<String>,
        parent: Option<usize>,
    ) -> usize {
        let own = if file == "src/main.rs" {
            vec!["main".to_owned()]
        } else {
            path.clone()
        };
        self.whole.insert(file.to_owned(), own);
        let source = Source::read(&files[file]);
        let tokens: Vec<Token<'_>> = source.production_tokens().collect();
        let at = self.module(file, parent);
        self.items(files, &tokens, at, &path);
        at
    }

    fn module(&mut self, file: &str, parent: Option<usize>) -> usize {
        self.modules.push(Module {
            file: file.to_owned(),
            parent,
            ..Module::default()
        });
        self.modules.len() - 1
    }

    /// Reads what is between the braces of a module.
    fn items(&mut self, files: &BTreeMap<String, String>, tokens: &[Token<'_>], module: usize, path: &[String]) {
        let mut depth = 0;
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let text = |ahead: usize| tokens.get(at + ahead).map_or("", |token| token.text);
            match token.text {
                "{" => depth += 1,
                "}" => depth -= 1,
                "mod" if depth == 0 && is_name(text(1)) && [";", "{"].contains(&text(2)) => {
                    let name = text(1).to_owned();
                    let inside: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
                    let end = if text(2) == ";" {
                        if let Some(file) = declared(files, &inside) {
                            let child = self.file(files, &file, inside, Some(module));
                            self.modules[module].children.insert(name, child);
                        }
                        at + 3
                    } else {
                        let end = closing(tokens, at + 2);
                        let file = self.modules[module].file.clone();
                        let child = self.module(&file, Some(module));
                        self.items(files, &tokens[at + 3..end], child, &inside);
                        self.modules[module].children.insert(name, child);
                        end + 1
                    };
                    at = end;
                    continue;
                }
                "use" if text(1) != "<" => {
                    let (trees, end) = use_trees(tokens, at + 1);
                    for tree in trees {
                        self.modules[module].take_use(tree);
                    }
                    at = end;
                    continue;
                }
                "struct" | "enum" | "union" | "trait" | "fn" | "type" | "const" | "static" if depth == 0 => {
                    self.modules[module].items.insert(text(1).to_owned());
                }
                "macro_rules" if depth == 0 => {
                    self.modules[module].items.insert(text(2).to_owned());
                }
                word if is_name(word) => {
                    let begins = at == 0 || ![".", "::"].contains(&tokens[at - 1].text);
                    let mut segments = vec![word.to_owned()];
                    while tokens.get(at + 1).is_some_and(|token| token.text == "::")
                        && let Some(next) = tokens.get(at + 2).filter(|token| is_name(token.text))
                    {
                        segments.push(next.text.to_owned());
                        at += 2;
                    }
                    if begins {
                        let line = token.line;
                        self.modules[module].paths.push(Mention {
                            line,
                            used: false,
                            segments,
                        });
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Whether one of two files is a module inside the other.
    fn related(&self, one: &str, other: &str) -> bool {
        let (one, other) = (&self.whole[one], &self.whole[other]);
        one.starts_with(other) || other.starts_with(one)
    }

    fn resolve(&self, module: usize, segments: &[String], depth: usize) -> Vec<Target> {
        let Some((first, mut rest)) = segments.split_first() else {
            return Vec::new();
        };
        let mut targets = match first.as_str() {
            "crate" => vec![Target::Module(0)],
            "self" => vec![Target::Module(module)],
            "super" => self.modules[module].parent.map(Target::Module).into_iter().collect(),
            "mainspring" if self.modules[module].file == "src/main.rs" => vec![Target::Module(0)],
            name => self.lookup(module, name, depth),
        };
        while let Some((first, after)) = rest.split_first() {
            targets = targets
                .into_iter()
                .flat_map(|target| self.step(target, first, !after.is_empty(), depth))
                .collect();
            rest = after;
        }
        targets
    }

    /// One segment on. What is in an item (a variant, a function of a type) is the item's.
    fn step(&self, target: Target, segment: &str, more: bool, depth: usize) -> Vec<Target> {
        let Target::Module(module) = target else {
            return vec![target];
        };
        match segment {
            "self" => return vec![target],
            "super" => return self.modules[module].parent.map(Target::Module).into_iter().collect(),
            _ => {}
        }
        let mut found = self.lookup(module, segment, depth);
        // A name may be that of a module and of a function at once.
        if more && found.iter().any(|target| matches!(target, Target::Module(_))) {
            found.retain(|target| matches!(target, Target::Module(_)));
        }
        if found.is_empty() {
            found.push(Target::Item(module));
        }
        found
    }

    /// What a name means in a module. Empty: it comes from another crate, is a local name, or a macro has defined it.
    fn lookup(&self, at: usize, name: &str, depth: usize) -> Vec<Target> {
        if depth > DEEPEST {
            return Vec::new();
        }
        let module = &self.modules[at];
        let mut found: Vec<Target> = module
            .children
            .get(name)
            .map(|child| Target::Module(*child))
            .into_iter()
            .collect();
        if module.items.contains(name) {
            found.push(Target::Item(at));
        }
        for path in module.bound.get(name).into_iter().flatten() {
            // `use a::a;` is not its own meaning.
            if path
                .first()
                .is_none_or(|first| first != name || module.children.contains_key(name))
            {
                found.extend(self.resolve(at, path, depth + 1));
            }
        }
        if found.is_empty() {
            for glob in &module.globs {
                for target in self.resolve(at, glob, depth + 1) {
                    if let Target::Module(other) = target {
                        found.extend(self.lookup(other, name, depth + 1));
                    }
                }
            }
        }
        found
    }
}

impl Module {
    fn take_use(&mut self, tree: UseTree) {
        let UseTree { line, segments, name } = tree;
        match name {
            Some(name) => self.bound.entry(name).or_default().push(segments.clone()),
            None => self.globs.push(segments.clone()),
        }
        self.paths.push(Mention {
            line,
            used: true,
            segments,
        });
    }
}

/// The file of a module that is declared by `mod name;`.
fn declared(files: &BTreeMap<String, String>, path: &[String]) -> Option<String> {
    let base = format!("src/{}", path.join("/"));
    [format!("{base}.rs"), format!("{base}/mod.rs")]
        .into_iter()
        .find(|file| files.contains_key(file))
}

/// One leaf of a `use`.
struct UseTree {
    line: usize,
    segments: Vec<String>,
    /// What it binds; none for a glob.
    name: Option<String>,
}

/// The leaves of the `use` whose tree begins here, and where the next item begins.
fn use_trees(tokens: &[Token<'_>], from: usize) -> (Vec<UseTree>, usize) {
    let mut leaves = Vec::new();
    let mut at = from;
    tree(tokens, &mut at, &[], &mut leaves);
    (leaves, at + 1)
}

fn tree(tokens: &[Token<'_>], at: &mut usize, prefix: &[String], leaves: &mut Vec<UseTree>) {
    let mut segments = prefix.to_vec();
    let mut line = tokens.get(*at).map_or(0, |token| token.line);
    while let Some(token) = tokens.get(*at) {
        match token.text {
            "::" => {}
            "{" => {
                *at += 1;
                while tokens.get(*at).is_some_and(|token| token.text != "}") {
                    tree(tokens, at, &segments, leaves);
                    if tokens.get(*at).is_some_and(|token| token.text == ",") {
                        *at += 1;
                    }
                }
                *at += 1;
                return;
            }
            "*" => {
                *at += 1;
                leaves.push(UseTree {
                    line,
                    segments,
                    name: None,
                });
                return;
            }
            name if is_name(name) && name != "as" => {
                line = token.line;
                segments.push(name.to_owned());
            }
            _ => break,
        }
        *at += 1;
    }
    // `a::{self}` is `a`.
    if segments.last().is_some_and(|last| last == "self") && segments.len() > 1 {
        segments.pop();
    }
    let mut name = segments.last().cloned();
    if tokens.get(*at).is_some_and(|token| token.text == "as") {
        name = tokens.get(*at + 1).map(|token| token.text.to_owned());
        *at += 2;
    }
    if let Some(name) = name {
        leaves.push(UseTree {
            line,
            segments,
            name: Some(name),
        });
    }
}

/// Where the brace that opens here is closed.
fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}
