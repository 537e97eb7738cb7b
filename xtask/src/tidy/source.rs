//! A Rust file as the rules see it: its text, its syntax tree, and its tokens as paths with
//! lines. Invariant: tokens inside macro calls count like any others.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;

use crate::shell;

/// One file.
pub(crate) struct Source {
    /// Relative to the repository's root.
    pub(crate) path: String,
    pub(super) text: String,
    pub(crate) syntax: syn::File,
    /// Every identifier with its line; `a::b::c` is one word, and a macro's name ends with `!`.
    pub(super) words: Vec<(usize, String)>,
    /// Every attribute with its line, without brackets and blanks.
    pub(super) attributes: Vec<(usize, String)>,
    /// Every path that is imported, with its line; a glob ends with `*`.
    pub(super) imports: Vec<(usize, String)>,
}

impl Source {
    pub(crate) fn read(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(shell::root().join(path));
        Self::parse(path, text.map_err(|error| format!("{path}:1: read: {error}"))?)
    }

    pub(crate) fn parse(path: &str, text: String) -> Result<Self, String> {
        let fault = |error: &dyn std::fmt::Display| format!("{path}:1: syntax: {error}");
        let tokens: TokenStream = text.parse().map_err(|error| fault(&error))?;
        let syntax = syn::parse2(tokens.clone()).map_err(|error| fault(&error))?;
        let mut reader = Reader::default();
        reader.read(tokens);
        let mut imports = Imports(Vec::new());
        syn::visit::visit_file(&mut imports, &syntax);
        Ok(Self {
            path: path.to_owned(),
            text,
            syntax,
            words: reader.words,
            attributes: reader.attributes,
            imports: imports.0,
        })
    }

    /// Whether the whole file is test code.
    pub(super) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
    }

    /// The first line of the test module, or the line after the last.
    pub(super) fn tests_start(&self) -> usize {
        let module = self.syntax.items.iter().find(|item| is_test_module(item));
        module.map_or(self.text.lines().count() + 1, |module| module.span().start().line)
    }

    /// Whether the file lies in one of the folders, or is one of these files.
    pub(super) fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }

    /// What the code outside of tests says or imports, with lines.
    pub(super) fn product_words(&self) -> impl Iterator<Item = &(usize, String)> {
        let end = if self.is_test() { 0 } else { self.tests_start() };
        self.words.iter().chain(&self.imports).filter(move |(line, _)| *line < end)
    }
}

/// Whether an item is a `mod` with a body that only tests compile.
pub(super) fn is_test_module(item: &syn::Item) -> bool {
    let syn::Item::Mod(module) = item else { return false };
    let only_tests = |attribute: &syn::Attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("cfg") && list.tokens.to_string().starts_with("test")
    };
    module.content.is_some() && module.attrs.iter().any(only_tests)
}

#[derive(Default)]
struct Reader {
    words: Vec<(usize, String)>,
    attributes: Vec<(usize, String)>,
}

impl Reader {
    fn read(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            let line = token.span().start().line;
            match token {
                TokenTree::Ident(word) if continues_path(&tokens[..index]) => {
                    let path = &mut self.words.last_mut().expect("a path has begun").1;
                    *path += "::";
                    *path += &word.to_string();
                }
                TokenTree::Ident(word) => self.words.push((line, word.to_string())),
                TokenTree::Group(group) => {
                    if group.delimiter() == Delimiter::Bracket && is_attribute(&tokens[..index]) {
                        let text = group.stream().to_string().replace(' ', "");
                        self.attributes.push((line, text));
                    }
                    self.read(group.stream());
                }
                TokenTree::Punct(mark) if mark.as_char() == '!' => {
                    if let Some(TokenTree::Ident(_)) = index.checked_sub(1).map(|at| &tokens[at]) {
                        self.words.last_mut().expect("a name stands before").1.push('!');
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

/// Whether what stands before ends with `name::`.
fn continues_path(before: &[TokenTree]) -> bool {
    let [.., TokenTree::Ident(_), TokenTree::Punct(first), TokenTree::Punct(second)] = before
    else {
        return false;
    };
    first.as_char() == ':' && second.as_char() == ':'
}

/// Whether what stands before ends with `#` or `#!`.
fn is_attribute(before: &[TokenTree]) -> bool {
    match before {
        [.., TokenTree::Punct(hash), TokenTree::Punct(bang)] if bang.as_char() == '!' => {
            hash.as_char() == '#'
        }
        [.., TokenTree::Punct(hash)] => hash.as_char() == '#',
        _ => false,
    }
}

struct Imports(Vec<(usize, String)>);

impl syn::visit::Visit<'_> for Imports {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.add(String::new(), &item.tree);
    }
}

impl Imports {
    fn add(&mut self, prefix: String, tree: &syn::UseTree) {
        let line = tree.span().start().line;
        match tree {
            syn::UseTree::Path(path) => self.add(format!("{prefix}{}::", path.ident), &path.tree),
            syn::UseTree::Name(name) => self.0.push((line, format!("{prefix}{}", name.ident))),
            syn::UseTree::Rename(name) => self.0.push((line, format!("{prefix}{}", name.ident))),
            syn::UseTree::Glob(_) => self.0.push((line, prefix + "*")),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.add(prefix.clone(), tree);
                }
            }
        }
    }
}
