//! What `#[sharded(…)]` says, checked as far as it can be without types.

use proc_macro2::{Ident, Span};
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, LitInt, LitStr, Path, Result, Token, parenthesized, parse_quote};

/// The largest count: `ShardCount::MAX` of `dynashard-keys`.
const MAX_SHARDS: u32 = 65_536;

/// How much of a partition key's 2,000 bytes a prefix may take.
const MAX_PREFIX: usize = 500;

/// The key of a type.
pub(crate) struct Attributes {
    /// The crate `dynashard-keys`, by the path under which the type can name it.
    pub(crate) keys: Path,
    pub(crate) prefix: Option<LitStr>,
    pub(crate) partition: Vec<Ident>,
    pub(crate) sort: Vec<Ident>,
    pub(crate) placement: PlacementName,
    pub(crate) shards: u32,
}

/// The placements by the names that metadata and parameters have for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlacementName {
    Xxh64,
    Jump,
    Random,
}

/// What was said so far.
#[derive(Default)]
struct Said {
    keys: Option<LitStr>,
    prefix: Option<LitStr>,
    partition: Option<Vec<Ident>>,
    sort: Option<Vec<Ident>>,
    placement: Option<LitStr>,
    shards: Option<LitInt>,
}

impl Attributes {
    /// Reads the attributes of the type called `of`.
    pub(crate) fn read(of: &Ident, attributes: &[Attribute]) -> Result<Self> {
        let mut said = Said::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("sharded"))
        {
            attribute.parse_nested_meta(|meta| said.read(&meta))?;
        }
        let missing = |what: &str| {
            let why =
                format!("which fields make the {what} key of `{of}`? Add #[sharded({what}(…))]");
            Error::new(of.span(), why)
        };
        let partition = said.partition.ok_or_else(|| missing("partition"))?;
        let sort = said.sort.ok_or_else(|| missing("sort"))?;
        if let Some(prefix) = &said.prefix {
            check_prefix(prefix)?;
        }
        let placement = said.placement.as_ref().map_or(Ok(PlacementName::Xxh64), placement)?;
        let shards = said.shards.as_ref().map_or(Ok(1), |shards| count(shards, placement))?;
        let keys = match &said.keys {
            Some(path) => path.parse()?,
            None => parse_quote!(::dynashard_keys),
        };
        Ok(Self { keys, prefix: said.prefix, partition, sort, placement, shards })
    }
}

impl Said {
    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let name = meta.path.require_ident()?;
        let span = name.span();
        match name.to_string().as_str() {
            "crate" => once(&mut self.keys, meta.value()?.parse()?, span),
            "prefix" => once(&mut self.prefix, meta.value()?.parse()?, span),
            "partition" => once(&mut self.partition, fields(meta, span)?, span),
            "sort" => once(&mut self.sort, fields(meta, span)?, span),
            "placement" => once(&mut self.placement, meta.value()?.parse()?, span),
            "shards" => once(&mut self.shards, meta.value()?.parse()?, span),
            _ => Err(meta.error("choose partition, sort, prefix, placement, shards or crate")),
        }
    }
}

fn once<T>(said: &mut Option<T>, value: T, span: Span) -> Result<()> {
    match said.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::new(span, "this was said before")),
    }
}

/// The names in parentheses: at least one, and none twice.
fn fields(meta: &ParseNestedMeta<'_>, span: Span) -> Result<Vec<Ident>> {
    let names;
    parenthesized!(names in meta.input);
    let names = Punctuated::<Ident, Token![,]>::parse_terminated(&names)?;
    let names = names.into_iter().collect::<Vec<_>>();
    if names.is_empty() {
        return Err(Error::new(span, "name at least one field"));
    }
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(Error::new(name.span(), format!("`{name}` is named twice")));
        }
    }
    Ok(names)
}

fn check_prefix(prefix: &LitStr) -> Result<()> {
    let text = prefix.value();
    let problem = if text.is_empty() {
        "the prefix is empty; leave it out"
    } else if text.contains(':') {
        "the prefix holds a \":\", which separates it from the first field"
    } else if text.starts_with("_ds_") {
        "the prefix begins with \"_ds_\", which is reserved"
    } else if text.len() > MAX_PREFIX {
        "the prefix takes more than 500 bytes"
    } else {
        return Ok(());
    };
    Err(Error::new(prefix.span(), problem))
}

fn placement(name: &LitStr) -> Result<PlacementName> {
    match name.value().as_str() {
        "xxh64" => Ok(PlacementName::Xxh64),
        "jump" => Ok(PlacementName::Jump),
        "random" => Ok(PlacementName::Random),
        other => {
            let why = format!("{other:?} is not a placement: choose xxh64, jump or random");
            Err(Error::new(name.span(), why))
        }
    }
}

fn count(shards: &LitInt, placement: PlacementName) -> Result<u32> {
    let refuse = |why: String| Err(Error::new(shards.span(), why));
    let count = shards.base10_parse::<u32>().unwrap_or(0);
    if !(1..=MAX_SHARDS).contains(&count) {
        return refuse(format!(
            "{shards} is not a shard count: it must be between 1 and {MAX_SHARDS}"
        ));
    }
    if placement == PlacementName::Xxh64 && !count.is_power_of_two() {
        let (below, above) = (1 << count.ilog2(), count.next_power_of_two());
        return refuse(format!(
            "the placement xxh64 needs a power of two as its shard count, not {count}: {below} or {above}"
        ));
    }
    Ok(count)
}
