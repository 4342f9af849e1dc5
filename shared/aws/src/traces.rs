//! Traces: a subsegment for each request to DynamoDB and CloudWatch, for the X-Ray daemon that Lambda
//! runs beside the function.
//!
//! A subsegment goes out as one datagram and nobody waits for it: it is lost where the daemon does not
//! take it, and counted. The format is that of "AWS X-Ray segment documents" and "Sending trace data to
//! AWS X-Ray" in X-Ray's developer guide. It names operations and tables, and no keys.

mod document;
mod seen;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
    FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::client::retries::RequestAttempts;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use dynashard_core::ports::Entropy;

use crate::clock::{Clocks, OsEntropy};
use document::{Call, document};
use seen::{Outcome, tables};

/// Sends subsegments, or nothing. Clones send to the same daemon.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Daemon>>);

struct Daemon {
    socket: UdpSocket,
    /// That of the invocation that runs, if it is sampled.
    current: Mutex<Option<Trace>>,
    lost: AtomicUsize,
}

/// The part of a trace that an invocation is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trace {
    /// The id of the whole trace.
    root: String,
    /// The id of the segment that Lambda sends for the function.
    parent: String,
}

impl Tracer {
    /// A tracer that sends to the daemon at this address.
    ///
    /// # Errors
    /// The system gives no socket.
    pub fn to(daemon: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr = match daemon {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(daemon)?;
        socket.set_nonblocking(true)?;
        let (current, lost) = (Mutex::default(), AtomicUsize::default());
        Ok(Self(Some(Arc::new(Daemon { socket, current, lost }))))
    }

    /// Begins an invocation with this tracing header, as Lambda gives it to the function. What is sent
    /// until the next one belongs to it, if it is sampled: an environment has one invocation at a time.
    pub fn begin(&self, header: Option<&str>) {
        if let Some(daemon) = &self.0 {
            *daemon.current() = header.and_then(Trace::sampled);
        }
    }

    /// How many subsegments were lost since the last time.
    pub fn take_lost(&self) -> usize {
        self.0.as_ref().map_or(0, |daemon| daemon.lost.swap(0, Ordering::Relaxed))
    }

    /// What watches the requests of a client; nothing if there is nothing to send.
    pub(crate) fn watch(&self) -> Option<TraceWatch> {
        self.0.clone().map(TraceWatch)
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tracer").field(&self.0.as_ref().map(|daemon| &daemon.socket)).finish()
    }
}

impl Daemon {
    fn current(&self) -> std::sync::MutexGuard<'_, Option<Trace>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, document: &[u8]) {
        if !self.socket.send(document).is_ok_and(|sent| sent == document.len()) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Trace {
    /// The trace of a header such as `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1`,
    /// if it is to be recorded ("Tracing header" in X-Ray's developer guide).
    fn sampled(header: &str) -> Option<Self> {
        let part = |name: &str| {
            let mut parts = header.split(';').filter_map(|part| part.trim().split_once('='));
            parts.find_map(|(found, value)| (found == name).then(|| value.to_owned()))
        };
        let is_sampled = part("Sampled").is_some_and(|sampled| sampled == "1");
        let (root, parent) = part("Root").zip(part("Parent"))?;
        is_sampled.then_some(Self { root, parent })
    }
}

/// Sends a subsegment for each attempt of a request.
pub(crate) struct TraceWatch(Arc<Daemon>);

/// An attempt that is under way.
#[derive(Debug)]
struct Begun {
    trace: Trace,
    at: Duration,
}

impl Storable for Begun {
    type Storer = StoreReplace<Self>;
}

/// The tables that a request names. The SDK gives its input away when it is serialized.
#[derive(Debug)]
struct Named(Vec<String>);

impl Storable for Named {
    type Storer = StoreReplace<Self>;
}

impl Intercept for TraceWatch {
    fn name(&self) -> &'static str {
        "TraceWatch"
    }

    fn read_before_serialization(
        &self,
        context: &BeforeSerializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if self.0.current().is_some() {
            let tables = tables(context.input()).into_iter().map(str::to_owned).collect();
            config.interceptor_state().store_put(Named(tables));
        }
        Ok(())
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let begun = self.0.current().clone().map(|trace| Begun { trace, at: Clocks::now().wall });
        config.interceptor_state().store_or_unset(begun);
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(Begun { trace, at }) = config.load::<Begun>() else { return Ok(()) };
        let Some(outcome) = Outcome::of(context) else { return Ok(()) };
        let metadata = config.load::<Metadata>();
        let call = Call {
            id: OsEntropy.next_u64(),
            service: metadata.map_or("AWS", Metadata::service),
            operation: metadata.map_or("", Metadata::name),
            tables: config.load::<Named>().map_or(&[], |named| &named.0),
            attempt: config.load::<RequestAttempts>().map_or(1, RequestAttempts::attempts),
            began: *at,
            ended: Clocks::now().wall,
        };
        self.0.send(&document(trace, &call, &outcome));
        Ok(())
    }
}

impl fmt::Debug for TraceWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TraceWatch").field(&self.0.socket).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_header_of_a_sampled_trace_leads_to_one() {
        let trace = Trace::sampled("Root=1-5759e988-bd86; Parent=53995c3f;Sampled=1;Lineage=a:0");
        let expected = Trace { root: "1-5759e988-bd86".to_owned(), parent: "53995c3f".to_owned() };
        assert_eq!(trace, Some(expected));
        for header in ["", "Root=1-a;Parent=b", "Root=1-a;Parent=b;Sampled=0", "Parent=b;Sampled=1"]
        {
            assert_eq!(Trace::sampled(header), None, "{header}");
        }
    }

    #[test]
    fn what_the_daemon_does_not_take_is_counted_and_disturbs_nobody() {
        let daemon = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let tracer = Tracer::to(daemon.local_addr().expect("an address")).expect("a socket");
        let send = |bytes: usize| tracer.0.as_ref().expect("it sends").send(&vec![b'x'; bytes]);
        send(100);
        assert_eq!(tracer.take_lost(), 0);
        send(1 << 20);
        assert_eq!((tracer.take_lost(), tracer.take_lost()), (1, 0), "too large for a datagram");
        drop(daemon);
        send(1);
        send(1);
        assert!(tracer.take_lost() > 0, "nobody listens any more");
        assert_eq!(Tracer::default().take_lost(), 0);
    }
}
