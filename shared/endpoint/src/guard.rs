//! What is put into a client's request: the guard, a version, and a look at what is ours.

use dynashard_aws::attributes::{FORWARDED, GENERATION, VERSION};
use dynashard_aws::owner::OWNER_ID;
use dynashard_core::ports::NativeTerms;
use dynashard_core::{INDEX_SHARD, quoted};
use dynashard_expression::legacy::{self, LegacyError};
use dynashard_expression::{
    Placeholders, either, excess, may_create, reserved, uses_value_of, with_assignments,
    with_projected, wrap,
};
use dynashard_keys::{RESERVED_PREFIX, ShardId};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::document::Members;
use crate::refusal::Refusal;
use crate::table::ManagedTable;
use crate::value;

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Put,
    Update,
    Delete,
    Check,
}

/// A write that carries the guard.
#[derive(Debug, Clone)]
pub(crate) struct Guarded {
    /// Its members.
    pub(crate) body: Members,
    /// Whether the client asked for the item that a condition was refused by.
    pub(crate) asked_for_old: bool,
}

const CONDITION: &str = "ConditionExpression";
const UPDATE: &str = "UpdateExpression";
const PROJECTION: &str = "ProjectionExpression";
const FILTER: &str = "FilterExpression";
pub(crate) const KEY_CONDITION: &str = "KeyConditionExpression";
const OPERATOR: &str = "ConditionalOperator";
const NAMES: &str = "ExpressionAttributeNames";
const VALUES: &str = "ExpressionAttributeValues";
const ON_FAILURE: &str = "ReturnValuesOnConditionCheckFailure";

impl Verb {
    /// The member that holds the key.
    pub(crate) fn image(self) -> &'static str {
        if self == Self::Put { "Item" } else { "Key" }
    }

    /// The expressions that such a write may have.
    fn expressions(self) -> &'static [&'static str] {
        if self == Self::Update { &[UPDATE, CONDITION] } else { &[CONDITION] }
    }

    /// The parameters that came before expressions.
    fn legacy(self) -> &'static [&'static str] {
        match self {
            Self::Put | Self::Delete => &["ConditionalOperator", "Expected"],
            Self::Update => &["AttributeUpdates", "ConditionalOperator", "Expected"],
            Self::Check => &[],
        }
    }
}

/// What a write is to be meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    /// An item, or none.
    Anything,
    /// Anything but a marker.
    NoMarker,
    /// An item alone, where no marker can be.
    AnItem,
    /// An item alone.
    Live,
    /// The item of this version alone.
    Version(u64),
    /// No item. An update makes none either, so it needs no version.
    Nothing,
}

impl On {
    /// The conditions that say so.
    fn required(self, table: &ManagedTable, placeholders: &mut Placeholders) -> Vec<String> {
        let key = table.partition_key_name();
        let mut function = |name: &str, of: &str| format!("{name}({})", placeholders.name(of));
        match self {
            Self::Anything => Vec::new(),
            Self::NoMarker => vec![function("attribute_not_exists", FORWARDED)],
            Self::AnItem => vec![function("attribute_exists", key)],
            Self::Live => {
                vec![function("attribute_exists", key), function("attribute_not_exists", FORWARDED)]
            }
            // What others have put has none.
            Self::Version(0) => vec![
                function("attribute_exists", key),
                function("attribute_not_exists", FORWARDED),
                function("attribute_not_exists", VERSION),
            ],
            Self::Version(version) => {
                let value = placeholders.value(json!({ "N": version.to_string() }));
                vec![format!("{} = {value}", placeholders.name(VERSION))]
            }
            Self::Nothing => vec![function("attribute_not_exists", key)],
        }
    }
}

/// Whether an update only removes, so that DynamoDB makes no item of it where none is.
pub(crate) fn only_removes(body: &Members) -> bool {
    let updates = body.get("AttributeUpdates").and_then(Value::as_object);
    let deletes = |updates: &Members| {
        !updates.is_empty() && updates.values().all(|update| update["Action"] == "DELETE")
    };
    updates.is_some_and(deletes) || text(body.get(UPDATE)).is_some_and(|text| !may_create(text))
}

/// A write with the guard of these terms in its condition, and this version. Without terms it never happens, and DynamoDB says what
/// is wrong with it.
pub(crate) fn guarded(
    verb: Verb,
    mut body: Members,
    table: &ManagedTable,
    terms: Option<&NativeTerms>,
    (on, version): (On, u64),
) -> Result<Guarded, Refusal> {
    check_forms(&body, verb.expressions(), verb.legacy())?;
    let mut placeholders = take_placeholders(&mut body, verb.expressions(), verb.legacy())?;
    let operator = expression(&body, OPERATOR)?;
    if operator.is_some() && !body.contains_key("Expected") {
        return Err(Refusal::validation(
            "1 validation error detected: ConditionalOperator cannot be used without Filter or Expected",
        ));
    }
    body.remove(OPERATOR);
    let condition = match body.remove("Expected") {
        Some(expected) => {
            legacy::expected(&raw(&expected)?, operator.as_deref(), &mut placeholders)
                .map_err(of_legacy)?
        }
        None => expression(&body, CONDITION)?,
    };
    let update = match body.remove("AttributeUpdates") {
        Some(updates) => {
            legacy::attribute_updates(&raw(&updates)?, &mut placeholders).map_err(of_legacy)?
        }
        None => expression(&body, UPDATE)?,
    };
    check_reserved([&condition, &update], &placeholders)?;
    if let Some(terms) = terms {
        let texts = [&condition, &update].into_iter().flatten().map(String::as_str);
        check_key_value(texts, &placeholders, table, body.get(verb.image()), terms)?;
    }
    let mut guard = guard(table, terms, &mut placeholders);
    for required in on.required(table, &mut placeholders) {
        guard = format!("{guard} AND {required}");
    }
    match wrap(&guard, condition.as_deref()) {
        // What is empty DynamoDB refuses, in its own words.
        _ if condition.as_deref().is_some_and(|text| text.trim().is_empty()) => {}
        // As it does brackets that do not fit.
        Err(_) => {}
        Ok(guarded) => {
            check_size(condition.as_deref(), &guarded)?;
            body.insert(CONDITION.to_owned(), guarded.into());
        }
    }
    let image = body.get_mut(verb.image()).and_then(Value::as_object_mut);
    let mut own = Vec::new();
    if let Some(image) = image {
        check_own_names(image)?;
        if let Some(terms) = terms {
            table.put_at(image, terms);
        }
        own = own_attributes(table, image, terms, version);
        if verb == Verb::Put {
            value::check_movable(image)?;
            image.extend(own.iter().cloned());
        }
    }
    if verb == Verb::Update {
        let own = if on == On::Nothing { Vec::new() } else { own };
        add_assignments(&mut body, update.as_deref(), own, &mut placeholders)?;
    }
    let asked = body.get(ON_FAILURE);
    let asked_for_old = asked.is_some_and(|asked| asked == "ALL_OLD");
    if asked.is_none_or(|asked| asked == "NONE") {
        body.insert(ON_FAILURE.to_owned(), "ALL_OLD".into());
    }
    put_placeholders(&mut body, placeholders);
    Ok(Guarded { body, asked_for_old })
}

/// Has a read be strongly consistent, whatever its client asks for. What is no answer to whether it is to be is refused, as it
/// would be if it were not replaced. DynamoDB takes these texts, too.
pub(crate) fn read_strongly(body: &mut Members) -> Result<(), Refusal> {
    let asked = body.insert("ConsistentRead".to_owned(), true.into());
    let is_flag =
        |asked: &Value| asked.is_boolean() || matches!(asked.as_str(), Some("true" | "false"));
    if asked.as_ref().is_none_or(is_flag) {
        return Ok(());
    }
    Err(Refusal::serialization("dynashard: ConsistentRead is neither true nor false"))
}

/// Has a read show the generation and the version of what it finds, and whether that is a marker.
pub(crate) fn showing_own(body: &mut Members) -> Result<(), Refusal> {
    let mut placeholders = take_pair(body)?;
    check_reserved([&expression(body, PROJECTION)?], &placeholders)?;
    show(&[GENERATION, FORWARDED, VERSION], body, &mut placeholders)?;
    put_placeholders(body, placeholders);
    Ok(())
}

/// Has a read show these attributes of ours.
fn show(own: &[&str], body: &mut Members, placeholders: &mut Placeholders) -> Result<(), Refusal> {
    check_attributes(body)?;
    if let Some(Value::Array(attributes)) = body.get_mut("AttributesToGet") {
        if attributes.is_empty() {
            return Err(Refusal::validation(
                "1 validation error detected: Value '[]' at 'attributesToGet' failed to satisfy constraint: Member must have \
                 length greater than or equal to 1",
            ));
        }
        attributes.extend(own.iter().map(|name| Value::from(*name)));
        return Ok(());
    }
    // What is empty DynamoDB refuses, in its own words.
    if let Some(projection) = expression(body, PROJECTION)?.filter(|text| !text.trim().is_empty()) {
        let names = own.iter().map(|name| placeholders.name(name)).collect::<Vec<_>>();
        let more = with_projected(&projection, &names);
        check_size(Some(&projection), &more)?;
        body.insert(PROJECTION.to_owned(), more.into());
    }
    Ok(())
}

/// Refuses names that are ours among the attributes that a read is to show.
fn check_attributes(body: &Members) -> Result<(), Refusal> {
    let attributes = body.get("AttributesToGet").and_then(Value::as_array);
    let mut names = attributes.into_iter().flatten().filter_map(Value::as_str);
    match names.find(|name| name.starts_with(RESERVED_PREFIX)) {
        Some(name) => Err(reserved_name(name)),
        None => Ok(()),
    }
}

/// What of ours a page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    /// The generation of each item.
    Generations,
    /// The generation of each item of a whole table, its partition key, and the item that says whose the table is.
    Whole,
    /// What an index projects of one collection.
    AsItIs,
    /// What an index projects of all collections, with their keys in the table: the item that says whose that is may be among them.
    Keys,
}

/// What a page shows that its client did not ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Unasked {
    /// Items, beside their count.
    pub(crate) items: bool,
    /// Attributes of the key of each item.
    pub(crate) keys: Vec<String>,
}

/// A page that shows what is ours of each item of a later generation, whatever it filters.
pub(crate) fn page_showing_own(
    table: &ManagedTable,
    body: &mut Members,
    generation: u64,
    shows: Shows,
) -> Result<Unasked, Refusal> {
    const LEGACY: [&str; 5] =
        ["AttributesToGet", "ConditionalOperator", "KeyConditions", "QueryFilter", "ScanFilter"];
    const EXPRESSIONS: [&str; 3] = [FILTER, KEY_CONDITION, PROJECTION];
    check_forms(body, &EXPRESSIONS, &LEGACY)?;
    let mut placeholders = take_pair(body)?;
    // What shows through a filter, or beside a count, is an expression.
    let is_legacy = LEGACY.iter().any(|name| body.contains_key(*name));
    let has_filter = ["QueryFilter", "ScanFilter"].iter().any(|name| body.contains_key(*name));
    if has_filter || is_legacy && text(body.get("Select")) == Some("COUNT") {
        modernise(body, &mut placeholders)?;
    }
    let texts = [
        expression(body, FILTER)?,
        expression(body, KEY_CONDITION)?,
        expression(body, PROJECTION)?,
    ];
    check_reserved(&texts, &placeholders)?;
    check_attributes(body)?;
    let keys = [table.partition_key_name(), table.sort_key_name()];
    let (own, keys) = match shows {
        Shows::Generations => (&[GENERATION][..], &[][..]),
        Shows::Whole => (&[GENERATION, OWNER_ID][..], &keys[..1]),
        Shows::Keys => (&[][..], &keys[..]),
        Shows::AsItIs => {
            put_placeholders(body, placeholders);
            return Ok(Unasked::default());
        }
    };
    let [filter, ..] = texts;
    // What is empty DynamoDB refuses, in its own words.
    let filter = filter.filter(|text| shows != Shows::Keys && !text.trim().is_empty());
    if let Some(filter) = filter {
        let value = placeholders.value(json!({ "N": generation.to_string() }));
        let mut ours = format!("{} > {value}", placeholders.name(GENERATION));
        if shows == Shows::Whole {
            ours = format!("attribute_exists({}) OR {ours}", placeholders.name(OWNER_ID));
        }
        if let Ok(more) = either(&ours, &filter) {
            check_size(Some(&filter), &more)?;
            body.insert(FILTER.to_owned(), more.into());
        }
    }
    let projects = ["AttributesToGet", PROJECTION].iter().any(|name| body.contains_key(*name));
    let counts = text(body.get("Select")) == Some("COUNT") && !projects;
    let unasked = keys.iter().copied().filter(|key| !shown(body, &placeholders, key));
    let unasked = unasked.collect::<Vec<_>>();
    let more = own.iter().chain(&unasked).copied().collect::<Vec<_>>();
    if counts {
        let names = more.iter().map(|name| placeholders.name(name)).collect::<Vec<_>>();
        body.insert("Select".to_owned(), "SPECIFIC_ATTRIBUTES".into());
        body.insert(PROJECTION.to_owned(), names.join(", ").into());
    } else if !more.is_empty() {
        show(&more, body, &mut placeholders)?;
    }
    put_placeholders(body, placeholders);
    let keys = if projects { unasked.into_iter().map(str::to_owned).collect() } else { vec![] };
    Ok(Unasked { items: counts, keys })
}

/// Whether a read shows this attribute, or a part of it: DynamoDB refuses paths that overlap.
fn shown(body: &Members, placeholders: &Placeholders, attribute: &str) -> bool {
    let attributes = body.get("AttributesToGet").and_then(Value::as_array);
    let mut attributes = attributes.into_iter().flatten().filter_map(Value::as_str);
    let paths = text(body.get(PROJECTION)).into_iter().flat_map(|text| text.split(','));
    let mut heads = paths.filter_map(|path| path.split(['.', '[']).next()).map(str::trim);
    attributes.any(|name| name == attribute)
        || heads.any(|head| placeholders.names.get(head).map_or(head, String::as_str) == attribute)
}

/// The expressions of a page, in whichever form its client gave them.
#[derive(Debug, Clone)]
pub(crate) struct PageExpressions {
    pub(crate) filter: Option<String>,
    pub(crate) key_condition: Option<String>,
    pub(crate) projection: Option<String>,
    /// What stands for names and values in all of them.
    pub(crate) placeholders: Placeholders,
}

/// What a page demands, as expressions that name nothing of ours.
pub(crate) fn page_expressions(mut body: Members) -> Result<PageExpressions, Refusal> {
    let mut placeholders = take_pair(&mut body)?;
    modernise(&mut body, &mut placeholders)?;
    let texts = [
        expression(&body, FILTER)?,
        expression(&body, KEY_CONDITION)?,
        expression(&body, PROJECTION)?,
    ];
    check_reserved(&texts, &placeholders)?;
    let [filter, key_condition, projection] = texts;
    Ok(PageExpressions { filter, key_condition, projection, placeholders })
}

/// Has the legacy parameters of a page be expressions.
fn modernise(body: &mut Members, placeholders: &mut Placeholders) -> Result<(), Refusal> {
    let operator = expression(body, OPERATOR)?;
    body.remove(OPERATOR);
    let mut take = |name: &str| body.remove(name).map(|value| raw(&value)).transpose();
    let (key_conditions, attributes) = (take("KeyConditions")?, take("AttributesToGet")?);
    let filters = [take("QueryFilter")?, take("ScanFilter")?];
    if operator.is_some() && filters.iter().all(Option::is_none) {
        return Err(Refusal::validation(
            "ConditionalOperator cannot be used without Filter or Expected",
        ));
    }
    let mut put = |name: &str, expression: Option<String>| {
        if let Some(expression) = expression {
            body.insert(name.to_owned(), expression.into());
        }
    };
    for filter in filters.into_iter().flatten() {
        let filter = legacy::filter(&filter, operator.as_deref(), placeholders);
        put(FILTER, filter.map_err(of_legacy)?);
    }
    if let Some(conditions) = key_conditions {
        let conditions = legacy::key_conditions(&conditions, placeholders).map_err(of_legacy)?;
        put(KEY_CONDITION, Some(conditions));
    }
    if let Some(attributes) = attributes {
        let projection = legacy::attributes_to_get(&attributes, placeholders).map_err(of_legacy)?;
        put(PROJECTION, Some(projection));
    }
    Ok(())
}

/// The condition that every write carries (protocol: "The guard on every write"), or one that never holds.
fn guard(table: &ManagedTable, terms: Option<&NativeTerms>, into: &mut Placeholders) -> String {
    let Some(terms) = terms else {
        let key = into.name(table.partition_key_name());
        return format!("attribute_exists({key}) AND attribute_not_exists({key})");
    };
    let name = into.name(GENERATION);
    let value = into.value(json!({ "N": terms.generation.get().to_string() }));
    format!("(attribute_not_exists({name}) OR {name} <= {value})")
}

/// What the item of this key carries when it is written under these terms.
fn own_attributes(
    table: &ManagedTable,
    key: &Members,
    terms: Option<&NativeTerms>,
    version: u64,
) -> Vec<(String, Value)> {
    let generation = terms.map(|terms| terms.generation.get()).filter(|generation| *generation > 0);
    let number = |number: u64| json!({ "N": number.to_string() });
    let generation = generation.map(|generation| (GENERATION.to_owned(), number(generation)));
    let shard = terms.and_then(|terms| index_shard(table, key, terms));
    let shard = shard.map(|shard| (INDEX_SHARD.to_owned(), number(shard.get().into())));
    [(VERSION.to_owned(), number(version))].into_iter().chain(generation).chain(shard).collect()
}

/// The shard of write-sharded indexes that the item of this key carries when it is written under these terms, if there are any.
fn index_shard(table: &ManagedTable, key: &Members, terms: &NativeTerms) -> Option<ShardId> {
    let shards = terms.lease.index_shards()?;
    let sort = key.get(table.sort_key_name()).and_then(|value| table.sort_key(value))?;
    shards.shard_at(terms.partition.as_str(), &sort, table.schema().separator)
}

fn add_assignments(
    body: &mut Members,
    update: Option<&str>,
    own: Vec<(String, Value)>,
    placeholders: &mut Placeholders,
) -> Result<(), Refusal> {
    if own.is_empty() {
        if let Some(update) = update {
            body.insert(UPDATE.to_owned(), update.into());
        }
        return Ok(());
    }
    let assignments = own.into_iter().map(|(name, value)| {
        format!("{} = {}", placeholders.name(&name), placeholders.value(value))
    });
    let assignments = assignments.collect::<Vec<_>>().join(", ");
    // What is empty DynamoDB refuses, in its own words.
    if let Ok(more) = with_assignments(update, &assignments) {
        check_size(update, &more)?;
        body.insert(UPDATE.to_owned(), more.into());
    }
    Ok(())
}

/// Refuses parameters of both forms beside each other, as DynamoDB does.
fn check_forms(body: &Members, expressions: &[&str], legacy: &[&str]) -> Result<(), Refusal> {
    let given = |names: &[&str]| {
        let given = names.iter().filter(|name| body.contains_key(**name)).copied();
        given.collect::<Vec<_>>().join(", ")
    };
    let (expressions, legacy) = (given(expressions), given(legacy));
    if expressions.is_empty() || legacy.is_empty() {
        return Ok(());
    }
    Err(Refusal::validation(format!(
        "Can not use both expression and non-expression parameters in the same request: Non-expression parameters: \
         {{{legacy}}} Expression parameters: {{{expressions}}}"
    )))
}

/// Takes names and values out of a write, which has to have an expression for them.
fn take_placeholders(
    body: &mut Members,
    expressions: &[&str],
    legacy: &[&str],
) -> Result<Placeholders, Refusal> {
    let has_expression = expressions.iter().any(|name| body.contains_key(*name));
    let has_legacy = legacy.iter().any(|name| body.contains_key(*name));
    for name in [NAMES, VALUES] {
        if !body.contains_key(name) || has_expression {
            continue;
        }
        let forms = expressions.join(" and ");
        let are = if expressions.len() == 1 { "is" } else { "are" };
        return Err(Refusal::validation(match (name, has_legacy) {
            (NAMES, _) => format!("{name} can only be specified when using expressions"),
            _ => format!("{name} can only be specified when using expressions: {forms} {are} null"),
        }));
    }
    take_pair(body)
}

/// Takes the names and values out of a request.
pub(crate) fn take_pair(body: &mut Members) -> Result<Placeholders, Refusal> {
    let mut placeholders = Placeholders::default();
    for name in [NAMES, VALUES] {
        let Some(given) = body.remove(name) else { continue };
        let given = object(name, given)?;
        if given.is_empty() {
            return Err(Refusal::validation(format!("{name} must not be empty")));
        }
        for (placeholder, value) in given {
            match value {
                Value::String(attribute) if name == NAMES => {
                    placeholders.names.insert(placeholder, attribute);
                }
                value if name == VALUES => drop(placeholders.values.insert(placeholder, value)),
                _ => return Err(Refusal::serialization(format!("{name} holds no text"))),
            }
        }
    }
    Ok(placeholders)
}

/// Puts names and values into a request, if there are any.
pub(crate) fn put_placeholders(body: &mut Members, placeholders: Placeholders) {
    let Placeholders { names, values, .. } = placeholders;
    if !names.is_empty() {
        let names = names.into_iter().map(|(placeholder, name)| (placeholder, name.into()));
        body.insert(NAMES.to_owned(), names.collect::<Members>().into());
    }
    if !values.is_empty() {
        body.insert(VALUES.to_owned(), values.into_iter().collect::<Members>().into());
    }
}

/// Refuses attributes of an item, or of a key, that are ours.
pub(crate) fn check_own_names(image: &Members) -> Result<(), Refusal> {
    match image.keys().find(|name| name.starts_with(RESERVED_PREFIX)) {
        Some(name) => Err(reserved_name(name)),
        None => Ok(()),
    }
}

/// Refuses what uses the value of the partition key where DynamoDB holds the item under another.
fn check_key_value<'a>(
    texts: impl Iterator<Item = &'a str>,
    placeholders: &Placeholders,
    table: &ManagedTable,
    image: Option<&Value>,
    terms: &NativeTerms,
) -> Result<(), Refusal> {
    let name = table.partition_key_name();
    let logical = image.and_then(|image| image.get(name)?["S"].as_str());
    if logical == Some(terms.partition.as_str()) {
        return Ok(());
    }
    check_unused(texts, placeholders, name)
}

/// Refuses what uses the value of the table's partition key in a page of all collections, some of which have several shards. Legacy
/// parameters are judged as the expressions that they stand for, and what is wrong with those DynamoDB says itself.
pub(crate) fn check_key_value_of_page(table: &ManagedTable, body: &Members) -> Result<(), Refusal> {
    let Ok(PageExpressions { filter, key_condition, placeholders, .. }) =
        page_expressions(body.clone())
    else {
        return Ok(());
    };
    let texts = [&filter, &key_condition].into_iter().flatten().map(String::as_str);
    check_unused(texts, &placeholders, table.partition_key_name())
}

fn check_unused<'a>(
    texts: impl Iterator<Item = &'a str>,
    placeholders: &Placeholders,
    name: &str,
) -> Result<(), Refusal> {
    if !uses_value_of(texts, placeholders, name) {
        return Ok(());
    }
    Err(Refusal::validation(format!(
        "dynashard: partition_key_value: an expression uses the value of {}, which is another in a key of several shards; attribute_exists and attribute_not_exists alone may name it",
        quoted(name)
    )))
}

/// Refuses names of a client's that are ours, in these expressions and behind its placeholders.
fn check_reserved<'a>(
    texts: impl IntoIterator<Item = &'a Option<String>>,
    placeholders: &Placeholders,
) -> Result<(), Refusal> {
    let texts = texts.into_iter().flatten().map(String::as_str);
    match reserved(texts, placeholders, RESERVED_PREFIX) {
        Some(name) => Err(reserved_name(&name)),
        None => Ok(()),
    }
}

/// Refuses a text that is above DynamoDB's limits for what was added to it. One that was so before DynamoDB refuses itself.
pub(crate) fn check_size(before: Option<&str>, after: &str) -> Result<(), Refusal> {
    match excess(after).filter(|_| before.and_then(excess).is_none()) {
        Some(excess) => Err(Refusal::validation(format!(
            "dynashard: with what every request carries the expression is too long: {excess}"
        ))),
        None => Ok(()),
    }
}

fn of_legacy(error: LegacyError) -> Refusal {
    match error {
        LegacyError::Validation(why) => Refusal::validation(why),
        LegacyError::Serialization => Refusal::serialization(error.to_string()),
    }
}

fn raw(value: &Value) -> Result<Box<RawValue>, Refusal> {
    to_raw_value(value).map_err(|error| Refusal::internal(format!("dynashard: {error}")))
}

fn reserved_name(name: &str) -> Refusal {
    Refusal::validation(format!(
        "dynashard: reserved_attribute: {} begins with {RESERVED_PREFIX}, as only the system's own attributes do",
        quoted(name)
    ))
}

/// An expression of a request. One that is no text would be lost with what it demands.
fn expression(body: &Members, name: &str) -> Result<Option<String>, Refusal> {
    match body.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Refusal::serialization(format!("{name} is no text"))),
    }
}

fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str)
}

fn object(name: &str, value: Value) -> Result<Members, Refusal> {
    match value {
        Value::Object(members) => Ok(members),
        _ => Err(Refusal::serialization(format!("{name} is no object"))),
    }
}
