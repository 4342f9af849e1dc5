//! The contract suite on the memory store, and on a faulty store without faults.

use dynashard_core::TableSchema;
use dynashard_core::ports::{CollectionCatalog, ItemStore, RecordStore};
use dynashard_keys::{Separator, SortKeyType};
use dynashard_testkit::contract::{self, Fixture};
use dynashard_testkit::{Faulty, ManualClock, MemoryStore, block_on};

struct InMemory<S> {
    store: S,
    clock: ManualClock,
    schema: TableSchema,
}

impl InMemory<MemoryStore> {
    fn new(schema: TableSchema) -> Self {
        let clock = ManualClock::new();
        Self { store: MemoryStore::new(clock.clone(), schema.clone()), clock, schema }
    }

    fn with_string_keys() -> Self {
        Self::new(TableSchema::default())
    }

    fn with_number_keys() -> Self {
        Self::new(TableSchema {
            partition_key_name: "flight".to_owned(),
            sort_key_name: "minute".to_owned(),
            sort_key_type: SortKeyType::Number,
            separator: Separator::Underscore,
        })
    }
}

impl<S: ItemStore + RecordStore + CollectionCatalog> Fixture for InMemory<S> {
    type Items = S;
    type Metadata = S;
    type Clock = ManualClock;

    fn items(&self) -> &S {
        &self.store
    }

    fn metadata(&self) -> &S {
        &self.store
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn schema(&self) -> &TableSchema {
        &self.schema
    }
}

macro_rules! on_the_memory_store {
    ($($module:ident :: $test:ident),+) => {
        mod string_keys {
            use super::*;
            $(#[test] fn $test() {
                block_on(contract::$module::$test(&InMemory::with_string_keys()));
            })+
        }

        mod number_keys {
            use super::*;
            $(#[test] fn $test() {
                block_on(contract::$module::$test(&InMemory::with_number_keys()));
            })+
        }
    };
}

dynashard_testkit::contract_suite!(on_the_memory_store);

#[test]
fn a_faulty_store_without_faults_is_the_store_itself() {
    let InMemory { store, clock, schema } = InMemory::with_string_keys();
    block_on(contract::run_all(&InMemory { store: Faulty::new(store), clock, schema }));
}
