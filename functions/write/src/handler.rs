//! `WriteFunction`: each route that writes becomes a call of the writer or of the counters, and what it did becomes an answer.

use dynashard_api::body::Document;
use dynashard_api::json::SortKeyJson;
use dynashard_api::params::Params;
use dynashard_api::problem::Problem;
use dynashard_api::request::Request;
use dynashard_api::response::Response;
use dynashard_api::view::Unprocessed;
use dynashard_api::{body, headers};
use dynashard_core::{Deadline, Moment, TableSchema, Writer, Written};
use dynashard_keys::ItemKey;
use dynashard_lambda::{Admission, Handler, log_failures};
use serde::Serialize;

pub(crate) struct WriteHandler {
    writer: Writer,
    admission: Admission,
}

impl WriteHandler {
    pub(crate) fn new(writer: Writer, admission: Admission) -> Self {
        Self { writer, admission }
    }

    async fn put(
        &self,
        request: &Request,
        (params, item): (Params, Document<'_>),
        deadline: Deadline,
    ) -> Result<Response, Problem> {
        let key = self.item_key(request, params)?;
        let precondition = headers::precondition(request)?;
        let format = headers::body_format(request)?;
        let item = body::item(item, key, format, self.schema())?;
        let written = self.writer.put(&item, precondition, deadline).await?;
        Ok(stored(item.key(), written))
    }

    async fn patch(
        &self,
        request: &Request,
        (params, patch): (Params, Document<'_>),
        deadline: Deadline,
    ) -> Result<Response, Problem> {
        let key = self.item_key(request, params)?;
        let precondition = headers::if_match(request)?;
        let patch = body::patch(patch, &key, self.schema())?;
        let written = self.writer.patch(&key, patch, precondition, deadline).await?;
        Ok(stored(&key, written))
    }

    async fn delete(
        &self,
        request: &Request,
        params: Params,
        deadline: Deadline,
    ) -> Result<Response, Problem> {
        let key = self.item_key(request, params)?;
        let precondition = headers::if_match(request)?;
        let deleted = self.writer.delete(&key, precondition, deadline).await?;
        Ok(consuming(Response::empty(204), deleted.consumed_wcu))
    }

    async fn batch(&self, request: &Request, deadline: Deadline) -> Result<Response, Problem> {
        request.params()?.finish()?;
        let format = headers::body_format(request)?;
        let operations = body::batch_write(&request.body, format, self.schema(), &request.granted)?;
        let outcome = self.writer.batch(operations, deadline).await?;
        log_failures(&outcome.failures);
        let unprocessed =
            outcome.unprocessed.iter().map(|(key, code)| Unprocessed::new(key, code.as_str()));
        let answer = BatchAnswer { written: outcome.written, unprocessed: unprocessed.collect() };
        let codes = outcome.unprocessed.iter().map(|(_, code)| *code);
        let response = Response::json(200, &answer).because_of(codes);
        Ok(consuming(response, outcome.consumed_wcu))
    }

    async fn count(&self, request: &Request, deadline: Deadline) -> Result<Response, Problem> {
        let key = self.item_key(request, request.params()?)?;
        headers::refuse_preconditions(request)?;
        headers::expect_json(request)?;
        let (amount, bounds) = body::add(&request.body)?;
        let added = self.writer.add_to_counter(&key, amount, bounds, deadline).await?;
        let (pk, sk) = (key.partition.as_str(), SortKeyJson(&key.sort));
        let answer = AddedAnswer { pk, sk, cell: added.cell, cells: added.cells };
        Ok(consuming(Response::json(200, &answer), added.consumed_wcu))
    }

    async fn delete_counter(
        &self,
        request: &Request,
        deadline: Deadline,
    ) -> Result<Response, Problem> {
        let key = self.item_key(request, request.params()?)?;
        headers::refuse_preconditions(request)?;
        let deleted = self.writer.delete_counter(&key, deadline).await?;
        Ok(consuming(Response::empty(204), deleted.consumed_wcu))
    }

    fn item_key(&self, request: &Request, mut params: Params) -> Result<ItemKey, Problem> {
        let key = params.item_key(self.schema().sort_key_type, &request.granted)?;
        params.finish()?;
        Ok(key)
    }

    /// What a body has that takes the key beside this document.
    fn beside<'a>(
        &self,
        request: &'a Request,
        document: &'static str,
    ) -> Result<(Params, Document<'a>), Problem> {
        request.params()?.finish()?;
        body::params_beside(&request.body, document, self.schema().sort_key_type)
    }

    fn schema(&self) -> &TableSchema {
        &self.writer.directory().settings().schema
    }
}

impl Handler for WriteHandler {
    async fn handle(&self, request: &Request, deadline: Deadline) -> Result<Response, Problem> {
        match (request.method.as_str(), request.path.as_str()) {
            ("PUT", "/item") => {
                let item = Document::Body(&request.body);
                self.put(request, (request.params()?, item), deadline).await
            }
            ("POST", "/item/put") => {
                headers::expect_json(request)?;
                self.put(request, self.beside(request, "item")?, deadline).await
            }
            ("PATCH", "/item") => {
                headers::expect_merge_patch(request)?;
                let patch = Document::Body(&request.body);
                self.patch(request, (request.params()?, patch), deadline).await
            }
            ("POST", "/item/patch") => {
                headers::expect_plain_json(request)?;
                self.patch(request, self.beside(request, "patch")?, deadline).await
            }
            ("DELETE", "/item") => self.delete(request, request.params()?, deadline).await,
            ("POST", "/item/delete") => {
                let params = body::params(request, self.schema().sort_key_type)?;
                self.delete(request, params, deadline).await
            }
            ("POST", "/batch-write") => self.batch(request, deadline).await,
            ("POST", "/counter") => self.count(request, deadline).await,
            ("DELETE", "/counter") => self.delete_counter(request, deadline).await,
            (method, path) => Err(Problem::no_route(method, path)),
        }
    }

    async fn renew(&self, deadline: Deadline) {
        self.writer.directory().lease().renew_early(deadline).await;
    }

    fn admission(&self) -> &Admission {
        &self.admission
    }

    fn now(&self) -> Moment {
        self.writer.directory().now()
    }
}

fn stored(key: &ItemKey, written: Written) -> Response {
    #[derive(Serialize)]
    struct Stored<'a> {
        pk: &'a str,
        sk: SortKeyJson<'a>,
        shard: u32,
    }
    let stored = Stored {
        pk: key.partition.as_str(),
        sk: SortKeyJson(&key.sort),
        shard: written.shard.get(),
    };
    consuming(Response::json(200, &stored).with_etag(written.version), written.consumed_wcu)
}

/// The answer with the write units of what it answers.
fn consuming(response: Response, consumed_wcu: f64) -> Response {
    response.with_header(headers::CONSUMED_WCU, consumed_wcu.to_string())
}

#[derive(Serialize)]
struct AddedAnswer<'a> {
    pk: &'a str,
    sk: SortKeyJson<'a>,
    cell: u16,
    cells: u16,
}

#[derive(Serialize)]
struct BatchAnswer<'a> {
    written: usize,
    unprocessed: Vec<Unprocessed<'a>>,
}
