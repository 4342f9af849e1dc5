//! How fast a month of flights is imported, as a share of what its partitions allow.
//!
//! `cargo bench -p dynashard-cli --bench import` starts a DynamoDB whose partitions take 100 write units a
//! second, and imports the flights of three airports, one unit each, from a file that has one airport after
//! another:
//!
//! 1. as the command does it, with rows read ahead;
//! 2. in the order of the file: 64 rows are read ahead, as many as are under way.
//!
//! Nothing grows, so each airport is one partition, and the airport with the most rows sets the time that is
//! needed. The benchmark fails if the first takes more than that by a ninth.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use dynashard_aws::{ServerClock, connect_local};
use flate2::read::GzDecoder;
use serde_json::Value;

type Failure = Box<dyn Error + Send + Sync>;

/// What a partition writes in a second.
const LIMIT: u32 = 100;

/// The least share of what the partitions allow.
const LEAST_SHARE: f64 = 0.9;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("flights.csv");
    let rows = flights(&file)?;
    let all = rows.values().sum::<u32>();
    let most = rows.values().copied().max().unwrap_or_default();
    let least_secs = f64::from(most) / f64::from(LIMIT);
    println!("{all} rows to {} keys of {LIMIT} WCU: {least_secs:.1} s are needed", rows.len());
    println!("| import | seconds | rows/s | throttles | share of what the partitions allow |");
    println!("|---|---|---|---|---|");
    let mut holds = true;
    for (name, look_ahead) in [("in turns", "100000"), ("in the order of the file", "64")] {
        let (secs, throttles) = import(&file, look_ahead).await?;
        let share = least_secs / secs;
        println!(
            "| {name} | {secs:.1} | {:.0} | {throttles} | {share:.2} |",
            f64::from(all) / secs
        );
        holds &= look_ahead == "64" || share >= LEAST_SHARE;
    }
    if !holds {
        println!("LESS THAN {LEAST_SHARE} OF WHAT THE PARTITIONS ALLOW");
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes the flights with a sort key, one airport after another, and counts those of each.
fn flights(path: &Path) -> Result<BTreeMap<String, u32>, Failure> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/flights-2013-01.csv.gz");
    let mut reader = csv::Reader::from_reader(GzDecoder::new(File::open(data)?));
    let header = reader.headers()?.clone();
    let mut records = reader.records().collect::<Result<Vec<_>, _>>()?;
    records.sort_by(|one, other| one[1].cmp(&other[1]));
    let mut file = csv::Writer::from_path(path)?;
    file.write_record(header.iter().chain(["departure"]))?;
    let mut rows = BTreeMap::new();
    for record in &records {
        let departure = format!("{}#{}{}", &record[0], &record[3], &record[4]);
        file.write_record(record.iter().chain([departure.as_str()]))?;
        *rows.entry(record[1].to_owned()).or_default() += 1;
    }
    file.flush()?;
    Ok(rows)
}

/// Imports the file into new tables. Returns how long that took, in seconds, and the throttles.
async fn import(file: &Path, look_ahead: &str) -> Result<(f64, u64), Failure> {
    let server = Server::start()?;
    let client = connect_local(&server.url, ServerClock::default()).await;
    for (table, keys) in [
        ("MainTable", &[("pk", KeyType::Hash), ("sk", KeyType::Range)][..]),
        ("MetadataTable", &[("pk", KeyType::Hash)]),
    ] {
        let mut create = client.create_table().table_name(table);
        for (name, kind) in keys {
            let string = ScalarAttributeType::S;
            let definition = AttributeDefinition::builder().attribute_name(*name);
            let key = KeySchemaElement::builder().attribute_name(*name).key_type(kind.clone());
            create = create
                .attribute_definitions(definition.attribute_type(string).build()?)
                .key_schema(key.build()?);
        }
        create.billing_mode(BillingMode::PayPerRequest).send().await?;
    }
    let mut command = dynashard(&["import", "--json", "--no-growth", "--look-ahead", look_ahead]);
    command.arg(file).args(["--pk", "origin", "--sk", "departure"]);
    command.args(["--main-table", "MainTable", "--metadata-table", "MetadataTable"]);
    // No function runs that would pin them.
    command.args(["--separator", "#~", "--lease-secs", "5", "--request-lifetime-secs", "960"]);
    command.args(["--endpoint-url", &server.url]);
    let began = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let stdout = BufReader::new(child.stdout.take().ok_or("no stdout")?);
    let mut throttles = None;
    for line in stdout.lines() {
        throttles = serde_json::from_str::<Value>(&line?)?["throttles"].as_u64();
    }
    let secs = began.elapsed().as_secs_f64();
    if !child.wait()?.success() {
        return Err("the import failed".into());
    }
    Ok((secs, throttles.ok_or("no summary")?))
}

fn dynashard(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynashard"));
    command.args(args).stdin(Stdio::null());
    command
}

/// A DynamoDB with small partitions. Dropping it ends it.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> Result<Self, Failure> {
        let limit = LIMIT.to_string();
        let args = ["local", "--engine-only", "--dynamodb-port", "0", "--partition-wcu", &limit];
        let mut child = dynashard(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let ready = serde_json::from_str::<Value>(&line)?;
        let url = ready["dynamodb"].as_str().ok_or("no address")?.to_owned();
        Ok(Self { child, url })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
