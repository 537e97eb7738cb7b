//! Rules over a file's form: lengths, order and imports.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::Visit;

use super::source::{Source, is_test_module};

const PRODUCT_LINES: usize = 600;
const TEST_LINES: usize = 1000;
const FUNCTION_LINES: usize = 70;

/// A file is read in one sitting. Small limits only work when they hold from the first commit.
pub(super) fn file_length(source: &Source) -> Vec<(usize, String)> {
    let (lines, limit) = if source.is_test() {
        (source.text.lines().count(), TEST_LINES)
    } else {
        (source.tests_start() - 1, PRODUCT_LINES)
    };
    if lines <= limit {
        return Vec::new();
    }
    vec![(1, format!("{lines} lines, at most {limit}"))]
}

/// A function is seen whole on one screen.
pub(super) fn function_length(source: &Source) -> Vec<(usize, String)> {
    let mut functions = Functions(Vec::new());
    functions.visit_file(&source.syntax);
    functions.0
}

struct Functions(Vec<(usize, String)>);

impl Functions {
    fn measure(&mut self, name: &syn::Ident, begin: Span, end: Span) {
        let first = begin.start().line;
        let lines = end.end().line - first + 1;
        if lines > FUNCTION_LINES {
            self.0.push((first, format!("{name}: {lines} lines, at most {FUNCTION_LINES}")));
        }
    }

    /// Measures the functions that a macro is given, which are tokens: each is `fn`, a name, and
    /// the next braces.
    fn measure_tokens(&mut self, tokens: TokenStream) {
        let (mut begun, mut before) = (None, None);
        for token in tokens {
            match &token {
                TokenTree::Ident(name) if before.as_ref().is_some_and(|(word, _)| word == "fn") => {
                    let (_, begin) = before.expect("`fn` stands before");
                    begun = Some((name.clone(), begin));
                }
                TokenTree::Punct(mark) if mark.as_char() == ';' => begun = None,
                TokenTree::Group(group) => {
                    if group.delimiter() == Delimiter::Brace
                        && let Some((name, begin)) = begun.take()
                    {
                        self.measure(&name, begin, group.span_close());
                    }
                    self.measure_tokens(group.stream());
                }
                _ => {}
            }
            before = match token {
                TokenTree::Ident(word) => Some((word.to_string(), word.span())),
                _ => None,
            };
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig.ident, item.sig.span(), item.block.span());
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig.ident, item.sig.span(), item.block.span());
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.measure(&item.sig.ident, item.sig.span(), item.span());
        syn::visit::visit_trait_item_fn(self, item);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.measure_tokens(call.tokens.clone());
    }
}

/// Product code first, so that the limits know where it ends and a reader where to stop.
pub(super) fn tests_last(source: &Source) -> Vec<(usize, String)> {
    let items = source.syntax.items.iter().skip_while(|item| !is_test_module(item));
    let after = items.filter(|item| !is_test_module(item));
    after.map(|item| (item.span().start().line, "move it above the tests".to_owned())).collect()
}

/// The one file that tells on what others say: each handle of a directive is named where its block
/// stands, and nowhere else.
const TELLS_ON: &str = "crates/config/src/settings.rs";

/// A file tells what it needs.
pub(super) fn glob_imports(source: &Source) -> Vec<(usize, String)> {
    let globs = source.imports.iter().filter(|(_, path)| path.ends_with('*'));
    let globs = globs.filter(|_| source.path != TELLS_ON);
    globs.map(|(line, path)| (*line, format!("`{path}`: name what is used"))).collect()
}
