//! Draws programs. The seed decides everything.

mod edges;
mod expressions;
mod legacy;
mod malformed;
mod texts;
mod values;

use serde_json::{Map, Value, json};

use self::texts::Texts;
use self::values::{any_key, item, keys, value};
use crate::program::{Program, Step, Turn};
use crate::random::Random;
use crate::side::Setting;
use crate::table::{GLOBAL_INDEX, LOCAL_INDEX, PARTITIONS, SORTS, TABLE, with_lookalike};

/// How many in a hundred operations are malformed.
const MALFORMED: usize = 10;

/// In how many in a hundred programs pages of the table are asked for as a whole.
const WHOLE: usize = 40;

/// The program of this seed, for this setting.
pub fn program(seed: u64, setting: Setting) -> Program {
    let random = Random::new(seed);
    let length = random.between(20, 60);
    let mut steps = Vec::<Step>::new();
    while steps.len() < length {
        // In the first quarter there is nothing to be read yet.
        let step = if steps.len() * 4 < length { write(&random) } else { any(&random) };
        let pages = can_go_on(&step) && random.percent(70);
        steps.push(step.clone());
        if pages {
            let page = Step { goes_on: true, ..step };
            steps.extend((0..random.between(1, 3)).map(|_| page.clone()));
        } else if let Some(again) = repeated(&random, &step) {
            steps.push(again);
        }
    }
    for step in &mut steps {
        if random.percent(MALFORMED) {
            malformed::damage(&random, step);
        }
        if let Some(edge) = edges::step(&random) {
            *step = edge;
        }
    }
    let is_whole = random.percent(WHOLE);
    if is_whole {
        steps.iter_mut().for_each(scan_whole);
    }
    if setting != Setting::Cold {
        steps.retain(|step| !only_removes(&step.body));
    }
    let is_owned = is_whole && random.percent(50);
    if setting == Setting::Moving {
        steps = steps
            .into_iter()
            .flat_map(|step| [turns(&random, is_whole), vec![step]])
            .flatten()
            .collect();
    }
    Program { seed, is_owned, first: steps.len() / 3, steps }
}

/// A turn of some of the keys.
fn turns(random: &Random, is_whole: bool) -> Vec<Step> {
    let keys = random.sample(&PARTITIONS, random.between(1, PARTITIONS.len()));
    let turns = keys.into_iter().map(|partition| {
        let secs = u64::try_from(random.below(4)).unwrap_or_default();
        let items = random.between(0, SORTS.len());
        let mut step = Turn { partition: partition.to_owned(), secs, items }.step();
        if is_whole {
            with_lookalike(&mut step.body);
        }
        step
    });
    turns.collect()
}

/// Asks for pages of the table as a whole, so that it does not matter where a collection lies, and has the last partition key end
/// as a physical key does: it is held under another one.
fn scan_whole(step: &mut Step) {
    with_lookalike(&mut step.body);
    let is_of_table = step.operation == "Scan" || step.body["IndexName"] == json!(GLOBAL_INDEX);
    if let (true, Some(members)) = (is_of_table, step.body.as_object_mut()) {
        for name in ["Limit", "ExclusiveStartKey"] {
            members.remove(name);
        }
        step.goes_on = false;
    }
}

/// Whether an update, or one of a transaction, only removes. Where there is no item, the engine makes one of it, other than
/// DynamoDB, and than the endpoint for keys that had several shards.
fn only_removes(body: &Value) -> bool {
    match body {
        Value::Object(members) => {
            members.iter().any(|(name, inner)| match (name.as_str(), inner) {
                ("UpdateExpression", Value::String(text)) => {
                    let creates =
                        |word: &str| ["SET", "ADD"].contains(&word.to_uppercase().as_str());
                    !text.split_whitespace().any(creates)
                }
                ("AttributeUpdates", Value::Object(updates)) => {
                    updates.values().all(|update| update["Action"] == "DELETE")
                }
                _ => only_removes(inner),
            })
        }
        Value::Array(elements) => elements.iter().any(only_removes),
        _ => false,
    }
}

fn can_go_on(step: &Step) -> bool {
    ["Query", "Scan"].contains(&step.operation.as_str()) && step.body.get("Limit").is_some()
}

/// A transaction that its client sends once more, as it was or with another under its token.
fn repeated(random: &Random, step: &Step) -> Option<Step> {
    let token = step.body.get("ClientRequestToken").filter(|_| random.percent(50))?;
    let mut again = if random.percent(75) { step.clone() } else { transact_write(random) };
    again.body["ClientRequestToken"] = token.clone();
    Some(again)
}

fn write(random: &Random) -> Step {
    match random.below(10) {
        0..=5 => put(random),
        6 | 7 => update(random),
        8 => batch_write(random),
        _ => transact_write(random),
    }
}

fn any(random: &Random) -> Step {
    match random.below(100) {
        0..=12 => put(random),
        13..=34 => update(random),
        35..=42 => delete(random),
        43..=54 => get(random),
        55..=69 => query(random),
        70..=78 => scan(random),
        79..=83 => batch_get(random),
        84..=88 => batch_write(random),
        89..=95 => transact_write(random),
        _ => transact_get(random),
    }
}

fn step(operation: &str, request: Map<String, Value>) -> Step {
    let body = Value::Object(request);
    Step { operation: operation.to_owned(), body, goes_on: false }
}

fn on_table() -> Map<String, Value> {
    Map::from_iter([("TableName".to_owned(), json!(TABLE))])
}

fn set(request: &mut Map<String, Value>, member: &str, value: Value) {
    request.insert(member.to_owned(), value);
}

/// Sets the member to one of these in `chances` of a hundred requests.
fn maybe(
    random: &Random,
    chances: usize,
    request: &mut Map<String, Value>,
    member: &str,
    of: &[&str],
) {
    if random.percent(chances) {
        set(request, member, json!(random.pick(of)));
    }
}

fn capacity(random: &Random, request: &mut Map<String, Value>) {
    maybe(random, 30, request, "ReturnConsumedCapacity", &["TOTAL", "INDEXES", "NONE"]);
}

/// What all single writes may ask for.
fn asks(random: &Random, request: &mut Map<String, Value>, return_values: &[&str]) {
    maybe(random, 60, request, "ReturnValues", return_values);
    maybe(random, 10, request, "ReturnItemCollectionMetrics", &["SIZE", "NONE"]);
    capacity(random, request);
}

/// A condition of a write or of one action, in some of them.
fn condition(texts: &mut Texts<'_>, chances: usize, request: &mut Map<String, Value>) {
    let random = texts.random;
    if random.percent(chances) {
        set(request, "ConditionExpression", json!(expressions::condition(texts, 3, true)));
        let fails = "ReturnValuesOnConditionCheckFailure";
        maybe(random, 40, request, fails, &["ALL_OLD", "ALL_OLD", "NONE"]);
    }
}

fn put(random: &Random) -> Step {
    let mut request = on_table();
    set(&mut request, "Item", item(random, &any_key(random)));
    if random.percent(8) {
        legacy::expect(random, &mut request);
    } else {
        let mut texts = Texts::new(random);
        condition(&mut texts, 25, &mut request);
        texts.finish(&mut request);
    }
    asks(random, &mut request, &["ALL_OLD", "NONE"]);
    step("PutItem", request)
}

fn update(random: &Random) -> Step {
    let mut request = on_table();
    set(&mut request, "Key", any_key(random));
    if random.percent(15) {
        set(&mut request, "AttributeUpdates", legacy::updates(random));
        if random.percent(30) {
            legacy::expect(random, &mut request);
        }
    } else {
        let mut texts = Texts::new(random);
        if random.percent(96) {
            set(&mut request, "UpdateExpression", json!(expressions::update(&mut texts)));
        }
        condition(&mut texts, 30, &mut request);
        texts.finish(&mut request);
    }
    let all = ["ALL_NEW", "ALL_OLD", "UPDATED_NEW", "UPDATED_OLD", "NONE"];
    asks(random, &mut request, &all);
    step("UpdateItem", request)
}

fn delete(random: &Random) -> Step {
    let mut request = on_table();
    set(&mut request, "Key", any_key(random));
    if random.percent(10) {
        legacy::expect(random, &mut request);
    } else {
        let mut texts = Texts::new(random);
        condition(&mut texts, 40, &mut request);
        texts.finish(&mut request);
    }
    asks(random, &mut request, &["ALL_OLD", "NONE"]);
    step("DeleteItem", request)
}

/// What all reads of items may ask for.
fn projection(random: &Random, request: &mut Map<String, Value>) {
    match random.below(10) {
        0 => set(request, "AttributesToGet", json!(random.sample(&values::NAMES, 3))),
        1..=4 => {
            let mut texts = Texts::new(random);
            set(request, "ProjectionExpression", json!(expressions::projection(&mut texts)));
            texts.finish(request);
        }
        _ => {}
    }
}

fn get(random: &Random) -> Step {
    let mut request = on_table();
    set(&mut request, "Key", any_key(random));
    projection(random, &mut request);
    if random.percent(50) {
        set(&mut request, "ConsistentRead", json!(random.percent(60)));
    }
    capacity(random, &mut request);
    step("GetItem", request)
}

fn query(random: &Random) -> Step {
    let mut request = on_table();
    let index = random.below(10);
    let mut texts = Texts::new(random);
    if index == 0 {
        set(&mut request, "IndexName", json!(GLOBAL_INDEX));
        let wanted = texts.value(value(random, "S", 0));
        let condition = format!("{} = {wanted}", texts.name("s"));
        set(&mut request, "KeyConditionExpression", json!(condition));
    } else if index < 3 {
        set(&mut request, "IndexName", json!(LOCAL_INDEX));
        let condition = expressions::key_condition(&mut texts, "n");
        set(&mut request, "KeyConditionExpression", json!(condition));
    } else if random.percent(15) {
        set(&mut request, "KeyConditions", legacy::key_conditions(random));
        if random.percent(50) {
            legacy::filter(random, "QueryFilter", &mut request);
        }
        maybe(random, 40, &mut request, "Select", &["COUNT", "ALL_ATTRIBUTES"]);
    } else {
        let condition = expressions::key_condition(&mut texts, "sk");
        set(&mut request, "KeyConditionExpression", json!(condition));
    }
    read_page(texts, &mut request);
    if random.percent(40) {
        set(&mut request, "ScanIndexForward", json!(random.percent(25)));
    }
    if index > 0 && random.percent(40) {
        set(&mut request, "ConsistentRead", json!(random.percent(60)));
    }
    step("Query", request)
}

/// Filter, projection, limit and selection of a page. A legacy request has its own.
fn read_page(mut texts: Texts<'_>, request: &mut Map<String, Value>) {
    let random = texts.random;
    let is_legacy = request.contains_key("KeyConditions") || request.contains_key("ScanFilter");
    if !is_legacy {
        if random.percent(45) {
            let with_keys = !request.contains_key("KeyConditionExpression");
            // The key of an index must not be in its filter either.
            let filter = if request.contains_key("IndexName") {
                format!("attribute_exists({})", texts.name("x"))
            } else {
                expressions::condition(&mut texts, 2, with_keys)
            };
            set(request, "FilterExpression", json!(filter));
        }
        if random.percent(30) {
            let projection = expressions::projection(&mut texts);
            set(request, "ProjectionExpression", json!(projection));
            maybe(random, 30, request, "Select", &["SPECIFIC_ATTRIBUTES"]);
        } else {
            let selects = ["COUNT", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES"];
            let of_index = request.contains_key("IndexName");
            maybe(random, 25, request, "Select", &selects[..if of_index { 4 } else { 3 }]);
        }
    }
    texts.finish(request);
    if random.percent(45) {
        set(request, "Limit", json!(random.between(1, 6)));
    }
    if random.percent(4) {
        let key = if random.percent(70) { any_key(random) } else { json!({}) };
        set(request, "ExclusiveStartKey", key);
    }
    capacity(random, request);
}

fn scan(random: &Random) -> Step {
    let mut request = on_table();
    if random.percent(12) {
        legacy::filter(random, "ScanFilter", &mut request);
    } else if random.percent(15) {
        set(&mut request, "IndexName", json!(random.pick(&[LOCAL_INDEX, GLOBAL_INDEX])));
    }
    read_page(Texts::new(random), &mut request);
    if random.percent(25) {
        let total = random.between(1, 4);
        set(&mut request, "TotalSegments", json!(total));
        set(&mut request, "Segment", json!(random.below(total)));
    }
    if !request.contains_key("IndexName") && random.percent(30) {
        set(&mut request, "ConsistentRead", json!(true));
    }
    step("Scan", request)
}

fn batch_get(random: &Random) -> Step {
    let mut asked = Map::new();
    set(&mut asked, "Keys", Value::Array(keys(random, random.between(1, 8))));
    projection(random, &mut asked);
    if random.percent(30) {
        set(&mut asked, "ConsistentRead", json!(true));
    }
    let mut request = Map::new();
    set(&mut request, "RequestItems", json!({ TABLE: asked }));
    capacity(random, &mut request);
    step("BatchGetItem", request)
}

fn batch_write(random: &Random) -> Step {
    let keys = keys(random, random.between(1, 8));
    let writes = keys.iter().map(|key| match random.below(4) {
        0 => json!({ "DeleteRequest": { "Key": key } }),
        _ => json!({ "PutRequest": { "Item": item(random, key) } }),
    });
    let mut request = Map::new();
    set(&mut request, "RequestItems", json!({ TABLE: writes.collect::<Vec<_>>() }));
    maybe(random, 20, &mut request, "ReturnItemCollectionMetrics", &["SIZE"]);
    capacity(random, &mut request);
    step("BatchWriteItem", request)
}

fn transact_write(random: &Random) -> Step {
    let keys = keys(random, random.between(1, 4));
    let actions = keys.iter().map(|key| action(random, key)).collect::<Vec<_>>();
    let mut request = Map::new();
    set(&mut request, "TransactItems", json!(actions));
    if random.percent(60) {
        set(&mut request, "ClientRequestToken", json!(format!("t{}", random.below(1_000_000))));
    }
    maybe(random, 20, &mut request, "ReturnItemCollectionMetrics", &["SIZE"]);
    capacity(random, &mut request);
    step("TransactWriteItems", request)
}

/// One action of a transaction. Its conditions hold more often than others, or no transaction would succeed.
fn action(random: &Random, key: &Value) -> Value {
    let mut request = on_table();
    let mut texts = Texts::new(random);
    let name = random.pick(&["Put", "Put", "Update", "Update", "Delete", "ConditionCheck"]);
    match name {
        "Put" => set(&mut request, "Item", item(random, key)),
        _ => set(&mut request, "Key", key.clone()),
    }
    match name {
        "ConditionCheck" if random.percent(60) => {
            let holds = format!("attribute_not_exists({})", texts.name("nothing"));
            set(&mut request, "ConditionExpression", json!(holds));
        }
        "ConditionCheck" => condition(&mut texts, 100, &mut request),
        "Update" => {
            set(&mut request, "UpdateExpression", json!(expressions::update(&mut texts)));
            condition(&mut texts, 15, &mut request);
        }
        _ => condition(&mut texts, 15, &mut request),
    }
    texts.finish(&mut request);
    json!({ name: request })
}

fn transact_get(random: &Random) -> Step {
    let gets = keys(random, random.between(1, 4)).into_iter().map(|key| {
        let mut asked = on_table();
        set(&mut asked, "Key", key);
        if random.percent(40) {
            let mut texts = Texts::new(random);
            set(&mut asked, "ProjectionExpression", json!(expressions::projection(&mut texts)));
            texts.finish(&mut asked);
        }
        json!({ "Get": asked })
    });
    let mut request = Map::new();
    set(&mut request, "TransactItems", gets.collect());
    capacity(random, &mut request);
    step("TransactGetItems", request)
}
