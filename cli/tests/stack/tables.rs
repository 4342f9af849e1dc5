//! Tables that tests make by hand.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};

/// Makes a table of a partition key and perhaps a sort key, each a name and the letter of its type.
pub(crate) async fn create(client: &Client, name: &str, keys: &[(&str, &str)]) {
    let create = client.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
    let create = keys.iter().zip([KeyType::Hash, KeyType::Range]).fold(
        create,
        |create, ((name, letter), kind)| {
            create.attribute_definitions(definition(name, letter)).key_schema(element(name, kind))
        },
    );
    create.send().await.expect("a table");
}

pub(crate) fn definition(name: &str, letter: &str) -> AttributeDefinition {
    let definition = AttributeDefinition::builder().attribute_name(name);
    definition.attribute_type(ScalarAttributeType::from(letter)).build().expect("a definition")
}

pub(crate) fn element(name: &str, kind: KeyType) -> KeySchemaElement {
    KeySchemaElement::builder().attribute_name(name).key_type(kind).build().expect("an element")
}
