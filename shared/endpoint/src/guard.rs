//! What is put into a client's request: the guard, a version, and a look at what is ours.

use dynashard_aws::attributes::{GENERATION, VERSION};
use dynashard_core::{NativeTerms, Owner, quoted};
use dynashard_expression::{
    Placeholders, both, either, legacy, named, with_assignments, with_projected,
};
use dynashard_keys::RESERVED_PREFIX;
use serde_json::{Value, json};

use crate::document::Members;
use crate::refusal::Refusal;
use crate::table::ManagedTable;

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
const KEY_CONDITION: &str = "KeyConditionExpression";
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

/// A write with the guard of these terms in its condition, and this version. Without terms it never happens, and DynamoDB says what
/// is wrong with it.
pub(crate) fn guarded(
    verb: Verb,
    mut body: Members,
    table: &ManagedTable,
    terms: Option<&NativeTerms>,
    version: u64,
) -> Result<Guarded, Refusal> {
    check_names(&body)?;
    check_forms(&body, verb.expressions(), verb.legacy())?;
    let mut placeholders = take_placeholders(&mut body, verb.expressions(), verb.legacy())?;
    let condition = match body.remove("Expected") {
        Some(expected) => {
            let operator = body.remove("ConditionalOperator");
            let expected = object("Expected", expected)?;
            legacy::expected(&expected, text(operator.as_ref()), &mut placeholders)
                .map_err(|error| Refusal::validation(error.to_string()))?
        }
        None => text(body.get(CONDITION)).map(str::to_owned),
    };
    check_reserved(condition.as_deref())?;
    let guard = guard(table, terms, &mut placeholders);
    match both(&guard, condition.as_deref()) {
        // What is empty DynamoDB refuses, in its own words.
        _ if condition.as_deref().is_some_and(|text| text.trim().is_empty()) => {}
        // As it does brackets that do not fit.
        Err(_) => {}
        Ok(condition) => drop(body.insert(CONDITION.to_owned(), condition.into())),
    }
    let image = body.get_mut(verb.image()).and_then(Value::as_object_mut);
    if let Some(image) = image {
        if let Some(name) = image.keys().find(|name| name.starts_with(RESERVED_PREFIX)) {
            return Err(reserved_name(name));
        }
        if let Some(terms) = terms {
            table.put_at(image, terms);
        }
        if verb == Verb::Put {
            image.extend(own_attributes(terms, version));
        }
    }
    if verb == Verb::Update {
        add_assignments(&mut body, terms, version, &mut placeholders)?;
    }
    let asked = body.get(ON_FAILURE).and_then(Value::as_str);
    let asked_for_old = asked == Some("ALL_OLD");
    if matches!(asked, None | Some("NONE")) {
        body.insert(ON_FAILURE.to_owned(), "ALL_OLD".into());
    }
    put_placeholders(&mut body, placeholders);
    Ok(Guarded { body, asked_for_old })
}

/// Has a read show the generation of what it finds.
pub(crate) fn showing_generation(body: &mut Members) -> Result<(), Refusal> {
    check_names(body)?;
    show_generation(body)
}

fn show_generation(body: &mut Members) -> Result<(), Refusal> {
    if let Some(Value::Array(attributes)) = body.get_mut("AttributesToGet") {
        if let Some(name) = attributes.iter().filter_map(Value::as_str).find(|name| is_own(name)) {
            return Err(reserved_name(name));
        }
        attributes.push(GENERATION.into());
        return Ok(());
    }
    let Some(projection) = text(body.get(PROJECTION)).map(str::to_owned) else { return Ok(()) };
    let mut placeholders = placeholders(body)?;
    check_reserved(Some(&projection))?;
    if projection.trim().is_empty() {
        return Ok(());
    }
    let name = placeholders.name(GENERATION);
    body.insert(PROJECTION.to_owned(), with_projected(&projection, &[name]).into());
    put_placeholders(body, placeholders);
    Ok(())
}

/// A page that shows each item of a later generation, whatever it filters. With the name of the partition key it hides the item
/// that says whose the table is.
///
/// Returns whether the client asked for the count alone.
pub(crate) fn page_showing_generation(
    body: &mut Members,
    generation: u64,
    hidden_owner: Option<&str>,
) -> Result<bool, Refusal> {
    const LEGACY: [&str; 5] =
        ["AttributesToGet", "ConditionalOperator", "KeyConditions", "QueryFilter", "ScanFilter"];
    let expressions = [FILTER, KEY_CONDITION, PROJECTION];
    check_names(body)?;
    check_forms(body, &expressions, &LEGACY)?;
    // What hides the owner is an expression.
    if LEGACY.iter().any(|name| body.contains_key(*name)) {
        modernise(body)?;
    }
    let mut placeholders = placeholders(body)?;
    let filter = text(body.get(FILTER)).map(str::to_owned);
    check_reserved(filter.as_deref())?;
    let is_empty = filter.as_deref().is_some_and(|text| text.trim().is_empty());
    let shows = filter.as_deref().map(|filter| {
        let name = placeholders.name(GENERATION);
        let value = placeholders.value(json!({ "N": generation.to_string() }));
        either(&format!("{name} > {value}"), filter)
    });
    let hides = hidden_owner.map(|key| {
        let owner = placeholders.value(json!({ "S": Owner::KEY }));
        format!("{} <> {owner}", placeholders.name(key))
    });
    // What is no filter DynamoDB refuses, in its own words.
    let filter = match (shows.transpose(), hides) {
        _ if is_empty => None,
        (Err(_), _) => None,
        (Ok(shows), None) => shows,
        (Ok(shows), Some(hides)) => both(&hides, shows.as_deref()).ok(),
    };
    if let Some(filter) = filter {
        body.insert(FILTER.to_owned(), filter.into());
        put_placeholders(body, placeholders);
    }
    let counts = text(body.get("Select")) == Some("COUNT") && !body.contains_key(PROJECTION);
    if counts {
        let mut placeholders = self::placeholders(body)?;
        let name = placeholders.name(GENERATION);
        body.insert("Select".to_owned(), "SPECIFIC_ATTRIBUTES".into());
        body.insert(PROJECTION.to_owned(), name.into());
        put_placeholders(body, placeholders);
    } else {
        show_generation(body)?;
    }
    Ok(counts)
}

/// Has the legacy parameters of a page be expressions.
fn modernise(body: &mut Members) -> Result<(), Refusal> {
    let invalid = |error: legacy::LegacyError| Refusal::validation(error.to_string());
    let mut placeholders = placeholders(body)?;
    let operator = body.remove("ConditionalOperator");
    for (old, new) in
        [("QueryFilter", FILTER), ("ScanFilter", FILTER), ("KeyConditions", KEY_CONDITION)]
    {
        let Some(given) = body.remove(old) else { continue };
        let given = object(old, given)?;
        let expression = match new {
            FILTER => legacy::filter(&given, text(operator.as_ref()), &mut placeholders),
            _ => legacy::key_conditions(&given, &mut placeholders),
        };
        if let Some(expression) = expression.map_err(invalid)? {
            body.insert(new.to_owned(), expression.into());
        }
    }
    if let Some(Value::Array(names)) = body.remove("AttributesToGet") {
        let names = names.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
        let projection = legacy::attributes_to_get(&names, &mut placeholders);
        body.insert(PROJECTION.to_owned(), projection.into());
    }
    put_placeholders(body, placeholders);
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

/// What every item carries that is written under these terms.
pub(crate) fn own_attributes(terms: Option<&NativeTerms>, version: u64) -> Vec<(String, Value)> {
    let generation = terms.map(|terms| terms.generation.get()).filter(|generation| *generation > 0);
    let number = |number: u64| json!({ "N": number.to_string() });
    let generation = generation.map(|generation| (GENERATION.to_owned(), number(generation)));
    [(VERSION.to_owned(), number(version))].into_iter().chain(generation).collect()
}

fn add_assignments(
    body: &mut Members,
    terms: Option<&NativeTerms>,
    version: u64,
    placeholders: &mut Placeholders,
) -> Result<(), Refusal> {
    let update = match body.remove("AttributeUpdates") {
        Some(updates) => {
            let updates = object("AttributeUpdates", updates)?;
            if let Some(name) = updates.keys().find(|name| is_own(name)) {
                return Err(reserved_name(name));
            }
            legacy::attribute_updates(&updates, placeholders)
                .map_err(|error| Refusal::validation(error.to_string()))?
        }
        None => text(body.get(UPDATE)).map(str::to_owned),
    };
    check_reserved(update.as_deref())?;
    if update.as_deref().is_some_and(|text| text.trim().is_empty()) {
        return Ok(());
    }
    let mut assignments = Vec::new();
    for (name, value) in own_attributes(terms, version) {
        assignments.push(format!("{} = {}", placeholders.name(&name), placeholders.value(value)));
    }
    let update = with_assignments(update.as_deref(), &assignments.join(", "));
    body.insert(UPDATE.to_owned(), update.into());
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
    let placeholders = placeholders(body)?;
    body.remove(NAMES);
    body.remove(VALUES);
    Ok(placeholders)
}

/// The names and values of a request.
fn placeholders(body: &Members) -> Result<Placeholders, Refusal> {
    let mut placeholders = Placeholders::default();
    for (name, given) in [NAMES, VALUES].map(|name| (name, body.get(name))) {
        let Some(given) = given else { continue };
        let given = object(name, given.clone())?;
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

fn put_placeholders(body: &mut Members, placeholders: Placeholders) {
    let Placeholders { names, values } = placeholders;
    if !names.is_empty() {
        let names = names.into_iter().map(|(placeholder, name)| (placeholder, name.into()));
        body.insert(NAMES.to_owned(), names.collect::<Members>().into());
    }
    if !values.is_empty() {
        body.insert(VALUES.to_owned(), values.into_iter().collect::<Members>().into());
    }
}

fn check_reserved(text: Option<&str>) -> Result<(), Refusal> {
    match named(text.unwrap_or_default(), RESERVED_PREFIX) {
        Some(name) => Err(reserved_name(name)),
        None => Ok(()),
    }
}

/// Refuses names of a client's that are ours.
fn check_names(body: &Members) -> Result<(), Refusal> {
    let names = body.get(NAMES).and_then(Value::as_object).into_iter().flatten();
    let mut names = names.filter_map(|(_, name)| name.as_str());
    names.find(|name| is_own(name)).map_or(Ok(()), |name| Err(reserved_name(name)))
}

fn is_own(name: &str) -> bool {
    name.starts_with(RESERVED_PREFIX)
}

fn reserved_name(name: &str) -> Refusal {
    Refusal::validation(format!(
        "dynashard: reserved_attribute: {} begins with {RESERVED_PREFIX}, as only the system's own attributes do",
        quoted(name)
    ))
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
