//! `#[test]` for test programs without libtest: the function stays as it is and is entered into the list of
//! `fsb-testkit`.

#![forbid(unsafe_code)]

use proc_macro::{Delimiter, TokenStream, TokenTree};

/// Enters the function below into the list of tests. A test whose body calls something like `needs_root` needs a
/// machine of a kind, and runs under `make test-machine`. So does one under `#[test(machine)]`, whose helpers call it.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let name = name(item.clone()).expect("#[test] stands above a function");
    let machine = arguments.to_string() == "machine" || needs_a_machine(item.clone());
    let (item, ignored) = without_ignore(item);
    let entry = format!(
        "::fsb_testkit::inventory::submit! {{ ::fsb_testkit::Case {{ \
           name: concat!(module_path!(), \"::\", stringify!({name})), machine: {machine}, ignored: {ignored}, \
           run: {name} }} }}"
    );
    let mut out = item;
    out.extend(entry.parse::<TokenStream>().expect("an entry is Rust"));
    out
}

/// `#[ignore]` means nothing to a function that is no test of libtest's.
fn without_ignore(item: TokenStream) -> (TokenStream, bool) {
    let tokens: Vec<TokenTree> = item.into_iter().collect();
    let is_ignore = |at: usize| {
        let TokenTree::Group(group) = &tokens[at] else { return false };
        let first = group.stream().into_iter().next().map(|token| token.to_string());
        group.delimiter() == Delimiter::Bracket && first.as_deref() == Some("ignore")
    };
    let Some(at) = (1..tokens.len()).find(|at| is_ignore(*at)) else { return (tokens.into_iter().collect(), false) };
    // The number sign stands before the brackets.
    let kept = tokens.into_iter().enumerate().filter(|(place, _)| *place != at && *place != at - 1);
    (kept.map(|(_, token)| token).collect(), true)
}

/// What follows the first `fn`.
fn name(item: TokenStream) -> Option<String> {
    let mut tokens = item.into_iter().skip_while(|token| token.to_string() != "fn");
    tokens.nth(1).map(|name| name.to_string())
}

fn needs_a_machine(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(name) => {
            let name = name.to_string();
            name.starts_with("needs_") || name.starts_with("skip")
        }
        TokenTree::Group(group) => needs_a_machine(group.stream()),
        _ => false,
    })
}
