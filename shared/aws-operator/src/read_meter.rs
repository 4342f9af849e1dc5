//! What reads consume.

use std::sync::Arc;

use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextMut, FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::operation::batch_get_item::{BatchGetItemInput, BatchGetItemOutput};
use aws_sdk_dynamodb::operation::get_item::{GetItemInput, GetItemOutput};
use aws_sdk_dynamodb::operation::query::{QueryInput, QueryOutput};
use aws_sdk_dynamodb::operation::transact_get_items::{
    TransactGetItemsInput, TransactGetItemsOutput,
};
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use aws_smithy_runtime_api::box_error::BoxError;
use parking_lot::Mutex;

/// Counts the read units that the requests of a client consume, as DynamoDB reports them. Clones count
/// together.
#[derive(Debug, Clone, Default)]
pub struct ReadMeter(Arc<Mutex<f64>>);

impl ReadMeter {
    /// The read units that were consumed so far.
    pub fn consumed_rcu(&self) -> f64 {
        *self.0.lock()
    }

    fn add(&self, consumed: &[ConsumedCapacity]) {
        let units = consumed.iter().filter_map(ConsumedCapacity::capacity_units).sum::<f64>();
        *self.0.lock() += units;
    }
}

impl Intercept for ReadMeter {
    fn name(&self) -> &'static str {
        "ReadMeter"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let total = || Some(ReturnConsumedCapacity::Total);
        let input = context.input_mut();
        if let Some(input) = input.downcast_mut::<GetItemInput>() {
            input.return_consumed_capacity = total();
        } else if let Some(input) = input.downcast_mut::<QueryInput>() {
            input.return_consumed_capacity = total();
        } else if let Some(input) = input.downcast_mut::<BatchGetItemInput>() {
            input.return_consumed_capacity = total();
        } else if let Some(input) = input.downcast_mut::<TransactGetItemsInput>() {
            input.return_consumed_capacity = total();
        }
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(Ok(output)) = context.output_or_error() else { return Ok(()) };
        if let Some(output) = output.downcast_ref::<GetItemOutput>() {
            self.add(output.consumed_capacity.as_slice());
        } else if let Some(output) = output.downcast_ref::<QueryOutput>() {
            self.add(output.consumed_capacity.as_slice());
        } else if let Some(output) = output.downcast_ref::<BatchGetItemOutput>() {
            self.add(output.consumed_capacity());
        } else if let Some(output) = output.downcast_ref::<TransactGetItemsOutput>() {
            self.add(output.consumed_capacity());
        }
        Ok(())
    }
}
