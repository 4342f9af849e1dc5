//! The embedded DynamoDB engine. It listens on its own loopback port, behind the public endpoint.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::Path;
use std::thread;

use dynoxide::actions::TableDescription;
use dynoxide::actions::create_table::CreateTableRequest;
use dynoxide::actions::describe_table::DescribeTableRequest;
use dynoxide::actions::get_item::GetItemRequest;
use dynoxide::actions::list_tables::ListTablesRequest;
use dynoxide::{Database, DynoxideError, Item};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;

use crate::StartError;
use crate::plan::Table;

/// A running engine. It ends with [`Engine::stop`].
#[derive(Debug)]
pub(crate) struct Engine {
    address: SocketAddr,
    store: Store,
    stop: oneshot::Sender<()>,
    /// The thread with the engine's own runtime: SQLite blocks the thread that calls it, for an
    /// fsync with each write to a data directory, and must not hold up the endpoints meanwhile.
    thread: thread::JoinHandle<()>,
    /// Held for as long as the data directory is in use.
    _lock: Option<File>,
}

impl Engine {
    /// Starts an engine on `data_dir`, or in memory, with the tables of the template. Runs within a runtime, and blocks.
    pub(crate) fn start(data_dir: Option<&Path>, tables: &[Table]) -> Result<Self, StartError> {
        let lock = data_dir.map(lock).transpose()?;
        let database = match data_dir {
            Some(directory) => open(directory)?,
            None => in_memory().map_err(StartError::engine)?,
        };
        for table in tables {
            ensure(&database, table, data_dir)?;
        }
        let store = Store { database: database.clone() };
        let listener = listen().map_err(StartError::engine)?;
        let address = listener.local_addr().map_err(StartError::engine)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("engine")
            .enable_all()
            .build()
            .map_err(StartError::engine)?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || {
                if let Err(error) = runtime.block_on(serve(listener, database, stopped)) {
                    tracing::error!(%error, "the DynamoDB engine ended");
                }
            })
            .map_err(StartError::engine)?;
        Ok(Self { address, store, stop, thread, _lock: lock })
    }

    /// Where the engine listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Direct access to the engine's items and tables, past its port. The data directory is in use
    /// while any such access exists, so drop it before the engine stops.
    pub(crate) fn store(&self) -> Store {
        self.store.clone()
    }

    /// Ends the engine once the requests that run have ended.
    pub(crate) async fn stop(self) {
        drop((self.stop, self.store));
        let ended = tokio::task::spawn_blocking(|| self.thread.join()).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::error!("the thread of the DynamoDB engine panicked");
        }
    }
}

/// Direct access to the engine, for what is to be known of it beside the requests that the endpoint
/// passes on.
///
/// Every call waits for the engine's other users, and so, with a data directory, for their fsyncs:
/// call it only where a thread may block.
#[derive(Clone)]
pub(crate) struct Store {
    database: Database,
}

impl Store {
    /// Without tables.
    pub(crate) fn in_memory() -> dynoxide::Result<Self> {
        Ok(Self { database: Database::memory()? })
    }

    /// The names of all tables.
    pub(crate) fn table_names(&self) -> dynoxide::Result<Vec<String>> {
        let mut names = Vec::new();
        let mut request = ListTablesRequest::default();
        loop {
            let page = self.database.list_tables(request)?;
            names.extend(page.table_names);
            if page.last_evaluated_table_name.is_none() {
                return Ok(names);
            }
            request = ListTablesRequest {
                exclusive_start_table_name: page.last_evaluated_table_name,
                limit: None,
            };
        }
    }

    /// What `DescribeTable` says.
    pub(crate) fn describe_table(&self, name: &str) -> dynoxide::Result<TableDescription> {
        let request = DescribeTableRequest { table_name: name.to_owned() };
        Ok(self.database.describe_table(request)?.table)
    }
}

impl Deref for Store {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

/// The item with this key, both in DynamoDB JSON. `None` if it does not exist, or if the table has
/// other key attributes.
pub(crate) fn item(database: &Database, table: &str, key: &Value) -> Option<Value> {
    let key = Item::deserialize(key).ok()?;
    let request = GetItemRequest { table_name: table.to_owned(), key, ..GetItemRequest::default() };
    serde_json::to_value(database.get_item(request).ok()?.item?).ok()
}

/// Serves the database until `stopped` ends.
async fn serve(
    listener: std::net::TcpListener,
    database: Database,
    stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    // A dropped sender is the signal.
    let stopped = async { drop(stopped.await) };
    let served = dynoxide::server::serve_with_shutdown(listener, database, stopped);
    served.await.map_err(io::Error::other)
}

/// Takes a free port. Accepted connections inherit `TCP_NODELAY`, which the engine itself does not
/// set.
fn listen() -> io::Result<std::net::TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_nodelay(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.listen(1024)?.into_std()
}

/// Creates the directory and takes its lock, which the operating system gives back however this
/// process ends.
fn lock(directory: &Path) -> Result<File, StartError> {
    let refused = |error: io::Error| data_dir_error(directory, &error);
    fs::create_dir_all(directory).map_err(refused)?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join("lock"))
        .map_err(refused)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StartError::DataDir {
            path: directory.to_owned(),
            problem: "another stack uses it: stop that one, or choose another directory".to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(refused(error)),
    }
}

fn data_dir_error(directory: &Path, error: &io::Error) -> StartError {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "give yourself permission to write there, or choose another directory"
        }
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "choose a directory, not a file"
        }
        _ => "choose another directory",
    };
    StartError::DataDir { path: directory.to_owned(), problem: format!("{error}: {remedy}") }
}

fn open(directory: &Path) -> Result<Database, StartError> {
    let file = directory.join("dynamodb.sqlite");
    let refused = |problem: String| StartError::DataDir { path: directory.to_owned(), problem };
    let path = file.to_str().ok_or_else(|| {
        refused("its name is not valid UTF-8: choose another directory".to_owned())
    })?;
    let database = Database::new(path).map_err(|error| {
        refused(format!(
            "{error}: if dynamodb.sqlite there was not made by this command, choose another directory"
        ))
    })?;
    prepare_streams(&file).map_err(|error| refused(error.to_string()))?;
    Ok(database)
}

/// A database in memory. Only a file can be prepared, which is then read into it.
fn in_memory() -> Result<Database, Box<dyn std::error::Error>> {
    let database = Database::memory()?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("empty.sqlite");
    let path =
        file.to_str().ok_or("the directory for temporary files has a name that is not UTF-8")?;
    database.vacuum_into(path)?;
    prepare_streams(&file)?;
    database.restore_from(path)?;
    Ok(database)
}

/// Has the engine find the records of a stream by an index of their numbers: without it each write of the table, and each read of the
/// stream, goes through all records that there are. Those of more than a day ago are removed, as they are on AWS.
fn prepare_streams(file: &Path) -> rusqlite::Result<()> {
    let connection = rusqlite::Connection::open(file)?;
    connection.execute_batch(
        "CREATE INDEX IF NOT EXISTS stream_records_by_number
             ON _stream_records (table_name, CAST(sequence_number AS INTEGER));
         DELETE FROM _stream_records WHERE created_at < unixepoch() - 86400;",
    )
}

/// Creates the table, or checks that the one in the data directory is as the template says.
fn ensure(database: &Database, table: &Table, data_dir: Option<&Path>) -> Result<(), StartError> {
    let refused = |problem: String| StartError::Table { table: table.name.clone(), problem };
    let invalid = |error: serde_json::Error| {
        // The engine marks its validation errors for its own server.
        let text = error.to_string();
        refused(text.strip_prefix("VALIDATION:").unwrap_or(&text).to_owned())
    };
    let describe = DescribeTableRequest { table_name: table.name.clone() };
    match database.describe_table(describe) {
        Ok(existing) => {
            let existing = serde_json::to_value(existing.table).map_err(StartError::engine)?;
            let (wanted, found) = (schema(&table.create_request), schema(&existing));
            if wanted == found {
                return Ok(());
            }
            let directory = data_dir.map(|path| path.display().to_string()).unwrap_or_default();
            Err(refused(format!(
                "{directory} holds it with other keys or indexes ({found}) than the template asks \
                 for ({wanted}): choose another data directory, or the parameters that it was made \
                 with"
            )))
        }
        Err(DynoxideError::ResourceNotFoundException(_)) => {
            let create: CreateTableRequest =
                serde_json::from_value(table.create_request.clone()).map_err(invalid)?;
            let created = database.create_table(create);
            created.map(drop).map_err(|error| refused(error.to_string()))
        }
        Err(error) => Err(refused(error.to_string())),
    }
}

/// What must be the same in two descriptions of one table: the keys with their types, and the
/// indexes.
fn schema(description: &Value) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut attributes = list(&description["AttributeDefinitions"]);
    attributes.sort_by_key(|attribute| attribute["AttributeName"].to_string());
    let mut indexes: Vec<Value> = ["GlobalSecondaryIndexes", "LocalSecondaryIndexes"]
        .iter()
        .flat_map(|kind| list(&description[*kind]))
        .map(|index| json!({ "IndexName": index["IndexName"], "KeySchema": index["KeySchema"] }))
        .collect();
    indexes.sort_by_key(|index| index["IndexName"].to_string());
    json!({
        "KeySchema": description["KeySchema"],
        "AttributeDefinitions": attributes,
        "Indexes": indexes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(sort_key: &str) -> Table {
        Table {
            name: "Items".to_owned(),
            insights: None,
            create_request: json!({
                "TableName": "Items",
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [
                    { "AttributeName": "pk", "AttributeType": "S" },
                    { "AttributeName": sort_key, "AttributeType": "S" },
                ],
                "KeySchema": [
                    { "AttributeName": "pk", "KeyType": "HASH" },
                    { "AttributeName": sort_key, "KeyType": "RANGE" },
                ],
            }),
        }
    }

    #[tokio::test]
    async fn a_data_directory_is_used_again_by_one_stack_at_a_time_and_only_with_the_same_keys() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = Some(directory.path());
        let first = Engine::start(path, &[table("sk")]).expect("the first start");
        let second = Engine::start(path, &[table("sk")]).expect_err("the directory is in use");
        assert!(second.to_string().contains("another stack uses it"), "{second}");
        first.stop().await;

        Engine::start(path, &[table("sk")]).expect("the same tables").stop().await;
        let other = Engine::start(path, &[table("range")]).expect_err("other keys");
        assert!(other.to_string().contains("other keys"), "{other}");
    }

    /// Each write of a table with a stream went through all records that there were: after ten thousand it took as many microseconds.
    #[test]
    fn regression_a_write_took_longer_with_each_record_of_the_stream() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("dynamodb.sqlite");
        let database = in_memory().expect("a database");
        database.vacuum_into(file.to_str().expect("a name")).expect("a copy");
        let connection = rusqlite::Connection::open(file).expect("it opens");
        for query in [
            "SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1 FROM _stream_records WHERE table_name = 'Items'",
            "SELECT event_name FROM _stream_records WHERE table_name = 'Items' AND shard_id = '1' \
             AND CAST(sequence_number AS INTEGER) > 7 ORDER BY CAST(sequence_number AS INTEGER) LIMIT 9",
        ] {
            let explained = format!("EXPLAIN QUERY PLAN {query}");
            let mut plan = connection.prepare(&explained).expect("a plan");
            let steps = plan.query_map([], |row| row.get::<_, String>("detail")).expect("steps");
            let steps = steps.collect::<rusqlite::Result<Vec<_>>>().expect("texts").join("; ");
            let by_number = "SEARCH _stream_records USING";
            assert!(
                steps.contains(by_number) && steps.contains("stream_records_by_number"),
                "{steps}"
            );
            assert!(!steps.contains("TEMP B-TREE"), "{steps}");
        }
    }

    #[test]
    fn a_file_is_no_data_directory() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let error = Engine::start(Some(file.path()), &[]).expect_err("a file");
        assert!(error.to_string().contains("choose a directory"), "{error}");
    }

    #[test]
    fn a_table_that_the_engine_refuses_is_named() {
        let error = Engine::start(None, &[table("pk")]).expect_err("one attribute, twice");
        assert!(error.to_string().starts_with("table Items: "), "{error}");
    }
}
