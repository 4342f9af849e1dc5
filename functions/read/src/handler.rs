//! `ReadFunction`: each route that reads becomes a call of a reader, and what it finds becomes an answer.

use dynashard_api::body::BatchGet;
use dynashard_api::json::{Format, ItemJson, SortKeyJson, payload_bytes};
use dynashard_api::params::Params;
use dynashard_api::problem::Problem;
use dynashard_api::request::Request;
use dynashard_api::response::Response;
use dynashard_api::view::{CollectionDetails, CollectionView, Unprocessed};
use dynashard_api::{body, headers};
use dynashard_core::ports::Consistency;
use dynashard_core::query::{MAX_PAGE_BYTES, PageBudget};
use dynashard_core::{Activity, Deadline, Error, Got, Moment, Reader, StoredItem, TableSchema};
use dynashard_keys::{ItemKey, PartitionKey, SortKey};
use dynashard_lambda::{Admission, Handler, log_failures, log_left_out};
use serde::Serialize;

/// What all entries of a batch's body may take, in bytes. The rest of Lambda's 6 MB is for the envelope.
const MAX_BATCH_BYTES: usize = 6_000_000;

/// What stands between two items.
const COMMA: usize = 1;

/// The code of a key that a batch did not read, because its answer was full.
const ANSWER_FULL: &str = "answer_full";

pub(crate) struct ReadHandler {
    reader: Reader,
    admission: Admission,
}

impl ReadHandler {
    pub(crate) fn new(reader: Reader, admission: Admission) -> Self {
        Self { reader, admission }
    }

    async fn answer(&self, request: &Request, deadline: Deadline) -> Result<Response, Problem> {
        match (request.method.as_str(), request.path.as_str()) {
            ("GET" | "HEAD", "/item") => self.get(request, request.params()?, deadline).await,
            ("POST", "/item/get") => {
                let params = body::params(request, self.schema().sort_key_type)?;
                self.get(request, params, deadline).await
            }
            ("POST", "/batch-get") => self.batch_get(request, deadline).await,
            ("GET", "/query") => self.query(request, request.params()?, deadline).await,
            ("POST", "/query") => {
                let params = body::params(request, self.schema().sort_key_type)?;
                self.query(request, params, deadline).await
            }
            ("GET", "/counter") => self.counter(request, deadline).await,
            ("GET", "/collection") => self.collection(request, deadline).await,
            (method, path) => Err(Problem::no_route(method, path)),
        }
    }

    async fn get(
        &self,
        request: &Request,
        mut params: Params,
        deadline: Deadline,
    ) -> Result<Response, Problem> {
        let key = params.item_key(self.schema().sort_key_type, &request.granted)?;
        let consistency = params.consistency()?;
        let fields = params.fields()?;
        params.finish()?;
        let preconditions = headers::ReadPreconditions::of(request)?;
        let got = self.reader.get(&key, fields.as_ref(), consistency, deadline).await?;
        let Got { item, items_read, consumed_rcu, consumed_wcu, age } = got;
        let format = headers::answer_format(request);
        let json = self.json(&key, &item, format);
        let response = if preconditions.wants(item.version)? {
            of_items(&json, format)
        } else {
            Response::empty(304)
        };
        // The body is the item itself, so headers carry its cost.
        let response = response
            .with_etag(item.version)
            .with_header(headers::ITEMS_READ, items_read.to_string())
            .with_header(headers::CONSUMED_RCU, consumed_rcu.to_string());
        let response = match (self.reader.directory().settings().item_cache, age) {
            (None, _) => response,
            // What is to be current is not to come from a cache in front of the API, either.
            (Some(_), None) => response.uncacheable(),
            // Others might not be granted the key.
            (Some(cache), Some(age)) => {
                response.cacheable(cache.term, age, request.granted.are_ruled())
            }
        };
        if consumed_wcu == 0.0 {
            return Ok(response);
        }
        Ok(response.with_header(headers::CONSUMED_WCU, consumed_wcu.to_string()))
    }

    async fn batch_get(&self, request: &Request, deadline: Deadline) -> Result<Response, Problem> {
        request.params()?.finish()?;
        headers::expect_json(request)?;
        let BatchGet { keys, fields, consistency } =
            body::batch_get(&request.body, self.schema(), &request.granted)?;
        let format = headers::answer_format(request);
        let measure =
            |key: &ItemKey, item: &StoredItem| self.json(key, item, format).payload_bytes() + COMMA;
        // Each key may come to be listed in place of its item.
        let listed =
            keys.iter().map(|key| payload_bytes(&Unprocessed::new(key, ANSWER_FULL))).sum();
        let max_bytes = MAX_PAGE_BYTES.min(MAX_BATCH_BYTES.saturating_sub(listed));
        let budget = PageBudget { max_bytes, measure: &measure };
        let got = self.reader.batch_get(keys, fields.as_ref(), consistency, budget, deadline);
        let got = got.await?;
        log_failures(&got.failures);
        let unprocessed = got
            .unprocessed
            .iter()
            .map(|(key, code)| Unprocessed::new(key, code.as_str()))
            .chain(got.left_out.iter().map(|key| Unprocessed::new(key, ANSWER_FULL)));
        let items = got.items.iter().map(|(key, item)| self.json(key, item, format));
        let answer = BatchAnswer {
            items: items.collect(),
            unprocessed: unprocessed.collect(),
            items_read: got.items_read,
            consumed_rcu: got.consumed_rcu,
            consumed_wcu: got.consumed_wcu,
        };
        let codes = got.unprocessed.iter().map(|(_, code)| *code);
        Ok(of_items(&answer, format).because_of(codes))
    }

    async fn counter(&self, request: &Request, deadline: Deadline) -> Result<Response, Problem> {
        let mut params = request.params()?;
        let key = params.item_key(self.schema().sort_key_type, &request.granted)?;
        params.finish()?;
        let counter = self.reader.counter(&key, deadline).await?;
        let answer = CounterAnswer {
            pk: key.partition.as_str(),
            sk: SortKeyJson(&key.sort),
            value: counter.value,
            min: counter.bounds.min,
            max: counter.bounds.max,
            cells: counter.cells,
            consumed_rcu: counter.consumed_rcu,
        };
        Ok(Response::json(200, &answer))
    }

    async fn query(
        &self,
        request: &Request,
        mut params: Params,
        deadline: Deadline,
    ) -> Result<Response, Problem> {
        if let Some(name) = params.take("index") {
            return self.query_index(&name, request, params, deadline).await;
        }
        let query = params.query(self.schema().sort_key_type, &request.granted)?;
        params.finish()?;
        let format = headers::answer_format(request);
        let partition = &query.partition;
        let schema = self.schema();
        let measure = |sort: &SortKey, item: &StoredItem| {
            ItemJson { schema, partition, sort, item, format }.payload_bytes() + COMMA
        };
        let budget = PageBudget { max_bytes: MAX_PAGE_BYTES, measure: &measure };
        let page = self.reader.query(&query, budget, deadline).await?;
        let items = page.items.iter();
        let items = items.map(|(sort, item)| ItemJson { schema, partition, sort, item, format });
        let answer = QueryAnswer {
            items: items.collect(),
            cursor: page.cursor.as_deref(),
            shards: page.shards.get(),
            items_read: page.items_read,
            consumed_rcu: page.consumed_rcu,
            index: None,
        };
        Ok(of_items(&answer, format))
    }

    async fn query_index(
        &self,
        name: &str,
        request: &Request,
        mut params: Params,
        deadline: Deadline,
    ) -> Result<Response, Problem> {
        let index = self.reader.index(name, deadline).await?;
        let query = params.index_query(&index, &request.granted)?;
        params.finish()?;
        let format = headers::answer_format(request);
        let measure =
            |key: &ItemKey, item: &StoredItem| self.json(key, item, format).payload_bytes() + COMMA;
        let budget = PageBudget { max_bytes: MAX_PAGE_BYTES, measure: &measure };
        let page = self.reader.query_index(&index, &query, budget, deadline).await?;
        let items = page.items.iter().map(|(key, item)| self.json(key, item, format));
        let is_strong = query.consistency == Consistency::Strong;
        let answer = QueryAnswer {
            items: items.collect(),
            cursor: page.cursor.as_deref(),
            shards: page.shards,
            items_read: page.items_read,
            consumed_rcu: page.consumed_rcu,
            index: Some(IndexAnswer {
                name,
                consistency: if is_strong { "strong" } else { "eventual" },
                moving: page.is_moving,
            }),
        };
        Ok(of_items(&answer, format))
    }

    async fn collection(&self, request: &Request, deadline: Deadline) -> Result<Response, Problem> {
        let mut params = request.params()?;
        let partition = params.partition_key(&request.granted)?;
        params.finish()?;
        let (metadata, job) = self.reader.collection(&partition, deadline).await?;
        let directory = self.reader.directory();
        let waits = directory.lease().waits();
        let now_secs = directory.now().epoch_secs();
        let view = CollectionView::with_progress(&metadata, job.as_ref(), waits, now_secs);
        let Activity { demand, last_decision } = self.reader.activity(&metadata, deadline).await;
        let limits = directory.settings().partition;
        let demand = known(demand, "demand", &partition).flatten();
        let last = known(last_decision, "last_decision", &partition).flatten();
        let details = CollectionDetails::new(&metadata, view, limits, demand, last.as_ref());
        Ok(Response::json(200, &details))
    }

    /// An item in an answer of this format.
    fn json<'a>(&'a self, key: &'a ItemKey, item: &'a StoredItem, format: Format) -> ItemJson<'a> {
        let ItemKey { partition, sort } = key;
        ItemJson { schema: self.schema(), partition, sort, item, format }
    }

    fn schema(&self) -> &TableSchema {
        &self.reader.directory().settings().schema
    }
}

impl Handler for ReadHandler {
    async fn handle(&self, request: &Request, deadline: Deadline) -> Result<Response, Problem> {
        let answer = self.answer(request, deadline).await;
        // Caches keep items where the function does. What says nothing of that they may keep for as long as they like.
        if self.reader.directory().settings().item_cache.is_none() {
            return answer;
        }
        let is_of_an_item = matches!(request.path.as_str(), "/item" | "/item/get");
        let answer = answer.map_err(Problem::uncacheable)?;
        Ok(if is_of_an_item { answer } else { answer.uncacheable() })
    }

    async fn renew(&self, deadline: Deadline) {
        self.reader.directory().lease().renew_early(deadline).await;
    }

    fn admission(&self) -> &Admission {
        &self.admission
    }

    fn now(&self) -> Moment {
        self.reader.directory().now()
    }
}

/// What an answer can do without, if it could be read.
fn known<T>(read: Result<T, Error>, what: &'static str, partition: &PartitionKey) -> Option<T> {
    read.inspect_err(|error| log_left_out(partition, what, error)).ok()
}

/// An answer with items in this format.
fn of_items(answer: &impl Serialize, format: Format) -> Response {
    Response::json(200, answer).with_header("content-type", headers::media_type_of(format))
}

#[derive(Serialize)]
struct BatchAnswer<'a> {
    items: Vec<ItemJson<'a>>,
    unprocessed: Vec<Unprocessed<'a>>,
    items_read: u64,
    consumed_rcu: f64,
    /// What moving items to their new homes took: seldom anything.
    #[serde(skip_serializing_if = "is_zero")]
    consumed_wcu: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(units: &f64) -> bool {
    *units == 0.0
}

#[derive(Serialize)]
struct CounterAnswer<'a> {
    pk: &'a str,
    sk: SortKeyJson<'a>,
    value: i128,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<i64>,
    cells: u16,
    consumed_rcu: f64,
}

#[derive(Serialize)]
struct QueryAnswer<'a> {
    items: Vec<ItemJson<'a>>,
    cursor: Option<&'a str>,
    shards: u32,
    items_read: u64,
    consumed_rcu: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<IndexAnswer<'a>>,
}

/// What a page of an index stands on.
#[derive(Serialize)]
struct IndexAnswer<'a> {
    name: &'a str,
    consistency: &'static str,
    moving: bool,
}
