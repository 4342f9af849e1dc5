//! The code that a type gets.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Path, Result, Type};

use crate::attributes::{Attributes, PlacementName};

/// A field of the key.
struct Part<'a> {
    name: &'a Ident,
    r#type: &'a Type,
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = Attributes::read(&input.ident, &input.attrs)?;
    let keys = &attributes.keys;
    let partition = parts(input, &attributes.partition)?;
    let sort = parts(input, &attributes.sort)?;
    let (name, visibility) = (&input.ident, &input.vis);
    let (of_impl, of_type, bounds) = input.generics.split_for_impl();

    let placement = match attributes.placement {
        PlacementName::Xxh64 => quote!(Xxh64),
        PlacementName::Jump => quote!(Jump),
        PlacementName::Random => quote!(Random),
    };
    let shards = attributes.shards;
    let partition_parameters = parameters(keys, &partition);
    let partition_names = partition.iter().map(|part| part.name);
    let partition_text = joined(keys, attributes.prefix.as_ref(), &partition);
    let partition_values = values(keys, &partition);
    let (sort_type, sort_value) = sort_key(keys, &sort);
    let sort_parameters = parameters(keys, &sort);
    let sort_names = sort.iter().map(|part| part.name);
    // What a field of both keys is called twice, the sort key does not take again.
    let sort_parameters = sort_parameters
        .into_iter()
        .zip(&sort)
        .filter(|(_, part)| partition.iter().all(|other| other.name != part.name))
        .map(|(parameter, _)| parameter);
    let partition_docs = format!("The partition key of a `{name}` with these fields.");
    let item_docs = format!("The key of a `{name}` with these fields.");
    let sort_values = values(keys, &sort);

    Ok(quote! {
        #[automatically_derived]
        impl #of_impl #name #of_type #bounds {
            #[doc = #partition_docs]
            #[allow(dead_code)]
            #visibility fn partition_key_of(
                #(#partition_parameters),*
            ) -> ::core::result::Result<#keys::PartitionKey, #keys::KeyError> {
                #keys::PartitionKey::new(#partition_text?)
            }

            #[doc = #item_docs]
            #[allow(dead_code)]
            #visibility fn item_key_of(
                #(#partition_parameters,)*
                #(#sort_parameters),*
            ) -> ::core::result::Result<#keys::ItemKey, #keys::KeyError> {
                ::core::result::Result::Ok(#keys::ItemKey::new(
                    Self::partition_key_of(#(#partition_names),*)?,
                    #sort_value?,
                ))
            }
        }

        #[automatically_derived]
        impl #of_impl #keys::Sharded for #name #of_type #bounds {
            const PLACEMENT: #keys::Placement = #keys::Placement::#placement;
            const SHARDS: #keys::ShardCount =
                match #keys::ShardCount::in_range(#shards) {
                    ::core::option::Option::Some(count) => count,
                    ::core::option::Option::None => ::core::unreachable!(),
                };
            const SORT_KEY_TYPE: #keys::SortKeyType = #sort_type;

            fn partition_key(
                &self,
            ) -> ::core::result::Result<#keys::PartitionKey, #keys::KeyError> {
                Self::partition_key_of(#(#partition_values),*)
            }

            fn sort_key(
                &self,
            ) -> ::core::result::Result<#keys::SortKey, #keys::KeyError> {
                #(let #sort_names = #sort_values;)*
                #sort_value
            }
        }
    })
}

/// The fields with these names.
fn parts<'a>(input: &'a DeriveInput, names: &'a [Ident]) -> Result<Vec<Part<'a>>> {
    let of = &input.ident;
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            of.span(),
            "only a struct has a key: of an enum the variants differ",
        ));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(of.span(), "the fields of a key need names"));
    };
    let find = |name: &'a Ident| {
        let field = fields.named.iter().find(|field| field.ident.as_ref() == Some(name));
        let missing = || Error::new(name.span(), format!("`{of}` has no field `{name}`"));
        field.map(|field| Part { name, r#type: &field.ty }).ok_or_else(missing)
    };
    names.iter().map(find).collect()
}

/// Each field as a parameter, by what names its values.
fn parameters(keys: &Path, parts: &[Part<'_>]) -> Vec<TokenStream> {
    let parameter = |Part { name, r#type }: &Part<'_>| {
        let key = quote_spanned!(r#type.span()=> <#r#type as #keys::KeyPart>::Key);
        quote!(#name: &#key)
    };
    parts.iter().map(parameter).collect()
}

/// What names the values of `self`'s fields.
fn values(keys: &Path, parts: &[Part<'_>]) -> Vec<TokenStream> {
    let value =
        |Part { name, r#type }: &Part<'_>| quote!(<#r#type as #keys::KeyPart>::as_key(&self.#name));
    parts.iter().map(value).collect()
}

/// The text of several fields.
fn joined(keys: &Path, prefix: Option<&syn::LitStr>, parts: &[Part<'_>]) -> TokenStream {
    let none = || quote!(::core::option::Option::None);
    let prefix = prefix.map_or_else(none, |prefix| quote!(::core::option::Option::Some(#prefix)));
    let parts = parts.iter().map(|Part { name, r#type }| {
        let field = name.to_string();
        quote!((#field, #keys::part_text::<#r#type>(#name)))
    });
    quote!(#keys::join_parts(#prefix, &[#(#parts),*]))
}

/// The type of the sort key, and its value.
fn sort_key(keys: &Path, parts: &[Part<'_>]) -> (TokenStream, TokenStream) {
    if let [Part { name, r#type }] = parts {
        let part = quote_spanned!(r#type.span()=> <#r#type as #keys::SortPart>);
        return (quote!(#part::TYPE), quote!(#part::sort_key(#name)));
    }
    // Each has to be a text, whatever else its type can be.
    let texts = parts.iter().map(
        |Part { r#type, .. }| quote_spanned!(r#type.span()=> #keys::assert_text::<#r#type>();),
    );
    let text = joined(keys, None, parts);
    let value = quote!({
        #(#texts)*
        #text.and_then(#keys::SortKey::string)
    });
    (quote!(#keys::SortKeyType::String), value)
}
