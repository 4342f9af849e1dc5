//! PUT /collection and POST /collection/scale.

use dynashard_api::problem::Problem;
use dynashard_api::request::Request;
use dynashard_api::response::Response;
use dynashard_api::view::CollectionView;
use dynashard_api::{body, headers};
use dynashard_core::{Deadline, Directory, Grant, Moment, Phase, Scaler};
use dynashard_keys::{PartitionKey, ShardCount};
use dynashard_lambda::{Admission, Handler};

/// The requests of clients and operators for a count of shards.
pub(crate) struct Requests {
    scaler: Scaler,
    admission: Admission,
}

impl Requests {
    pub(crate) fn new(scaler: Scaler, admission: Admission) -> Self {
        Self { scaler, admission }
    }

    pub(crate) fn directory(&self) -> &Directory {
        self.scaler.directory()
    }

    async fn create(&self, request: &Request, deadline: Deadline) -> Result<Response, Problem> {
        let (partition, grant) = self.partition_key(request)?;
        headers::expect_json(request)?;
        let (placement, count) = body::new_collection(&request.body, self.max_shards())?;
        let created = self.scaler.create_collection_under(
            grant.as_ref(),
            &partition,
            placement,
            count,
            deadline,
        );
        let metadata = created.await?;
        // Where leases last long, the request ends before puts go to the new shards.
        let is_in_force = !matches!(metadata.phase, Phase::Forward { .. });
        let status = if is_in_force { 201 } else { 202 };
        Ok(Response::json(status, &CollectionView::from(&metadata)))
    }

    async fn scale(&self, request: &Request, deadline: Deadline) -> Result<Response, Problem> {
        let (partition, grant) = self.partition_key(request)?;
        headers::expect_json(request)?;
        let sort_keys = self.directory().settings().schema.sort_key_type;
        let (extent, count) = body::scale(&request.body, sort_keys, self.max_shards())?;
        let requested =
            self.scaler.request_change(grant.as_ref(), &partition, (&extent, count), deadline);
        let metadata = requested.await?;
        Ok(Response::json(202, &CollectionView::from(&metadata)))
    }

    /// The partition key of the request, and what bounds how many of them its caller may have enlisted.
    fn partition_key(&self, request: &Request) -> Result<(PartitionKey, Option<Grant>), Problem> {
        let mut params = request.params()?;
        let partition = params.partition_key(&request.granted)?;
        params.finish()?;
        let grant = request.granted.grant_of(&partition, self.admission.keys_per_grant);
        Ok((partition, grant))
    }

    fn max_shards(&self) -> ShardCount {
        self.directory().settings().max_shards
    }
}

impl Handler for Requests {
    async fn handle(&self, request: &Request, deadline: Deadline) -> Result<Response, Problem> {
        match (request.method.as_str(), request.path.as_str()) {
            ("PUT", "/collection") => self.create(request, deadline).await,
            ("POST", "/collection/scale") => self.scale(request, deadline).await,
            (method, path) => Err(Problem::no_route(method, path)),
        }
    }

    fn admission(&self) -> &Admission {
        &self.admission
    }

    fn now(&self) -> Moment {
        self.scaler.directory().now()
    }
}
