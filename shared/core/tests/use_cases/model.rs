//! Generated operations of two environments, with trouble and reshards in between, against a
//! reference: a map.

use std::collections::BTreeMap;
use std::time::Duration;

use dynashard_core::ports::{Consistency, StoreError};
use dynashard_core::query::{MAX_LIMIT, PageBudget, Query};
use dynashard_core::{
    AttributeValue, Attributes, Code, Error, NewItem, Precondition, Reader, StoredItem, Version,
    Writer, merge_patch,
};
use dynashard_testkit::{Fault, Operation, block_on};
use proptest::prelude::{Just, ProptestConfig, any, prop, prop_assert_eq, prop_oneof};
use proptest::strategy::Strategy;
use proptest::test_runner::TestCaseError;

use crate::world::{LEASE, World, key, partition};

/// What is done next.
#[derive(Debug, Clone)]
enum Step {
    /// One of two environments does something to one of a few items.
    Do { environment: usize, sk: &'static str, what: What },
    /// Time passes, in milliseconds.
    Wait(u64),
    /// The collection gets this many shards. It takes longer than a lease.
    Reshard(u32),
    /// The next requests of this kind suffer this.
    Trouble(Operation, Trouble),
}

#[derive(Debug, Clone)]
enum What {
    Put(Attributes, If),
    Patch(Attributes, If),
    Delete(If),
    Get,
}

/// A precondition, in terms of what is there.
#[derive(Debug, Clone, Copy, PartialEq)]
enum If {
    None,
    Absent,
    Exists,
    Current,
    Outdated,
}

/// What may happen to a request without a doubt about its effect.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    Throttle,
    Conflict,
    LeaseEndsBefore,
}

/// What lives in the collection.
type Model = BTreeMap<&'static str, (Attributes, Version)>;

fn any_step() -> impl Strategy<Value = Step> {
    let sk = prop::sample::select(vec!["a", "b", "c", "d"]);
    let done = (0..2_usize, sk, any_what());
    let troubled =
        prop::sample::select(vec![Operation::Write, Operation::Get, Operation::MetadataGet]);
    let trouble = prop_oneof![
        Just(Trouble::Throttle),
        Just(Trouble::Conflict),
        Just(Trouble::LeaseEndsBefore)
    ];
    prop_oneof![
        12 => done.prop_map(|(environment, sk, what)| Step::Do { environment, sk, what }),
        2 => (0..6_000_u64).prop_map(Step::Wait),
        1 => (0..5_u32).prop_map(|n| Step::Reshard(1 << n)),
        3 => (troubled, trouble).prop_map(|(operation, trouble)| Step::Trouble(operation, trouble)),
    ]
}

fn any_what() -> impl Strategy<Value = What> {
    let value = prop_oneof![
        2 => any::<u8>().prop_map(|n| AttributeValue::Number(u64::from(n).into())),
        1 => Just(AttributeValue::Null),
    ];
    let name = prop::sample::select(vec!["x".to_owned(), "y".to_owned(), "z".to_owned()]);
    let attributes = prop::collection::btree_map(name, value, 0..3);
    let precondition = prop_oneof![
        3 => Just(If::None),
        1 => Just(If::Absent),
        1 => Just(If::Exists),
        1 => Just(If::Current),
        1 => Just(If::Outdated),
    ];
    (attributes, precondition, 0..6_u8).prop_map(|(attributes, condition, what)| match what {
        0 | 1 => What::Put(attributes, condition),
        2 | 3 => What::Patch(attributes, condition),
        4 => What::Delete(condition),
        _ => What::Get,
    })
}

impl If {
    fn precondition(self, there: Option<&(Attributes, Version)>) -> Precondition {
        let version = there.map_or(Version::new(0), |(_, version)| *version);
        match self {
            Self::None => Precondition::None,
            Self::Absent => Precondition::Absent,
            Self::Exists => Precondition::Exists,
            Self::Current => Precondition::Version(version),
            Self::Outdated => Precondition::Version(Version::new(!version.get())),
        }
    }

    fn holds(self, is_there: bool) -> bool {
        match self {
            Self::None => true,
            Self::Absent => !is_there,
            Self::Exists | Self::Current => is_there,
            Self::Outdated => false,
        }
    }
}

/// The two environments, and what their operations must have come to.
struct Run {
    world: World,
    environments: [(Writer, Reader); 2],
    model: Model,
    generation: u64,
}

impl Run {
    fn new() -> Self {
        let world = World::new();
        let environments = [0, 1].map(|_| (world.writer(), world.reader()));
        Self { world, environments, model: Model::new(), generation: 1 }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Do { environment, sk, what } => return self.operate(environment, sk, what),
            Step::Wait(millis) => self.world.clock.advance(Duration::from_millis(millis)),
            Step::Reshard(shards) if self.world.memory.stored_metadata(&partition()).is_some() => {
                self.generation += 2;
                self.world.clock.advance(LEASE);
                self.world.reshard(self.generation, shards);
            }
            // There is no collection yet.
            Step::Reshard(_) => {}
            Step::Trouble(operation, trouble) => {
                let fault = match trouble {
                    Trouble::Throttle => Fault::throttle(),
                    Trouble::Conflict => Fault::Refuse(StoreError::Conflict),
                    Trouble::LeaseEndsBefore => Fault::before(self.world.passing(LEASE)),
                };
                self.world.store.script(operation, [fault]);
            }
        }
        Ok(())
    }

    fn operate(
        &mut self,
        environment: usize,
        sk: &'static str,
        what: What,
    ) -> Result<(), TestCaseError> {
        let (writer, reader) = &self.environments[environment];
        let (key, there) = (key(sk), self.model.get(sk).cloned());
        // Longer than all trouble together.
        let deadline = self.world.deadline_in(Duration::from_hours(1));
        let failed = || Err::<(), _>(Code::PreconditionFailed);
        let code = |error: Error| error.code();
        let (answer, expected) = match what {
            What::Put(attributes, condition) => {
                let schema = &writer.directory().settings().schema;
                let item = NewItem::new(key, attributes.clone(), schema).expect("a valid item");
                let put = writer.put(&item, condition.precondition(there.as_ref()), deadline);
                let answer = block_on(put).map_err(code);
                if let Ok(written) = answer {
                    self.model.insert(sk, (attributes, written.version));
                }
                let happens = condition.holds(there.is_some());
                (answer.map(drop), if happens { Ok(()) } else { failed() })
            }
            What::Patch(patch, condition) => {
                let precondition = condition.precondition(there.as_ref());
                let done = writer.patch(&key, patch.clone(), precondition, deadline);
                let answer = block_on(done).map_err(code);
                if let (Ok(written), Some((mut attributes, _))) = (&answer, there.clone()) {
                    merge_patch(&mut attributes, patch);
                    self.model.insert(sk, (attributes, written.version));
                }
                let expected = match (there.is_some(), condition) {
                    (false, If::None | If::Absent) => Err(Code::ItemNotFound),
                    (is_there, condition) if condition.holds(is_there) => Ok(()),
                    _ => failed(),
                };
                (answer.map(drop), expected)
            }
            What::Delete(condition) => {
                let precondition = condition.precondition(there.as_ref());
                let answer = block_on(writer.delete(&key, precondition, deadline));
                let answer = answer.map(drop).map_err(code);
                if answer.is_ok() {
                    self.model.remove(sk);
                }
                let happens = condition.holds(there.is_some());
                (answer, if happens { Ok(()) } else { failed() })
            }
            What::Get => {
                let item = block_on(reader.get(&key, None, Consistency::Strong, deadline));
                let item = item.map(|got| known(got.item)).map_err(code);
                prop_assert_eq!(item, there.ok_or(Code::ItemNotFound));
                return Ok(());
            }
        };
        prop_assert_eq!(answer, expected);
        Ok(())
    }

    /// Both environments see what the model holds.
    fn check(&self) -> Result<(), TestCaseError> {
        for (_, reader) in &self.environments {
            let query = Query {
                limit: MAX_LIMIT,
                consistency: Consistency::Strong,
                ..Query::all(partition())
            };
            let deadline = self.world.deadline_in(Duration::from_hours(1));
            let page = block_on(reader.query(&query, PageBudget::UNLIMITED, deadline))
                .map_err(|e| TestCaseError::fail(e.to_string()))?;
            let found = page.items.into_iter().map(|(sort, item)| (sort.to_string(), known(item)));
            let expected = self.model.iter().map(|(sk, item)| ((*sk).to_owned(), item.clone()));
            prop_assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
        Ok(())
    }
}

fn known(item: StoredItem) -> (Attributes, Version) {
    (item.attributes, item.version)
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn operations_do_what_they_do_to_a_map(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut run = Run::new();
        for step in steps {
            run.step(step)?;
        }
        run.check()?;
    }
}
