//! A server that answers what a test says, in place of DynamoDB.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What is answered.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    status: u16,
    body: Value,
    is_late: bool,
}

/// The server.
pub(crate) struct Canned {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Value>>>,
    serving: JoinHandle<()>,
}

impl Reply {
    pub(crate) fn new(status: u16, body: Value) -> Self {
        Self { status, body, is_late: false }
    }

    /// Its `Date` is beyond every lease.
    pub(crate) fn late(self) -> Self {
        Self { is_late: true, ..self }
    }
}

impl Canned {
    /// Answers so, one after another.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = Arc::new(Mutex::new(replies.into_iter().collect::<VecDeque<_>>()));
        let asked = Arc::<Mutex<Vec<Value>>>::default();
        let noted = Arc::clone(&asked);
        let answer = move |request: Request| {
            let (replies, noted) = (Arc::clone(&replies), Arc::clone(&noted));
            async move {
                let body = to_bytes(request.into_body(), 1 << 20).await.unwrap_or_default();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                noted.lock().expect("no panic").push(body);
                respond(replies.lock().expect("no panic").pop_front())
            }
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let serving = tokio::spawn(async move {
            axum::serve(listener, Router::new().fallback(answer)).await.expect("it serves");
        });
        Self { url, asked, serving }
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().expect("no panic").clone()
    }
}

impl Drop for Canned {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn respond(reply: Option<Reply>) -> Response {
    let Some(Reply { status, body, is_late }) = reply else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "nothing is left to say").into_response();
    };
    let status = StatusCode::from_u16(status).expect("a status");
    let mut response = (status, Bytes::from(body.to_string())).into_response();
    if is_late {
        let date = "Fri, 01 Jan 2100 00:00:00 GMT".parse().expect("a header");
        response.headers_mut().insert("date", date);
    }
    response
}
