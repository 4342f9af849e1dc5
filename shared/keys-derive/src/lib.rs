//! The macro behind `#[derive(Sharded)]` of `dynashard-keys`, which documents it.

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `Sharded`; see the trait of this name.
#[proc_macro_derive(Sharded, attributes(sharded))]
pub fn derive_sharded(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
