//! Which stack a table belongs to, and `dynashard adopt --take-over`.

use dynashard_aws_operator::{owner, release};
use std::process::ExitCode;

use dynashard_core::TableSchema;
use serde::Serialize;

use super::super::check::Check;
use super::super::connect::table_of;
use super::super::output::Output;
use super::super::patience::patiently;
use super::super::{Failure, shell};
use super::{AdoptArgs, Found, PROBLEMS_FOUND};

/// Whether the stack that is to use a table, or any, may serve it.
pub(super) async fn check(found: &Found<'_>, schema: &TableSchema) -> Check {
    const CHECK: &str = "owner";
    let Found { args, operator, stack, .. } = found;
    let metadata_table = match patiently(async || owner(operator, &args.table, schema).await).await
    {
        Ok(Some(owner)) => owner.metadata_table,
        Ok(None) => return Check::ok(CHECK, "the table belongs to no stack"),
        Err(why) => {
            let seen = format!("whose the table is could not be read: {}", why.detail);
            let advice = format!("allow dynamodb:GetItem on the table {}", args.table);
            return Check::unknown(CHECK, seen).advise(advice);
        }
    };
    let seen = format!("the table belongs to the stack with the metadata table {metadata_table}");
    let own = stack.as_ref().and_then(|stack| table_of(stack, "MetadataTable"));
    if own.is_some_and(|own| *own == metadata_table) {
        return Check::ok(CHECK, seen);
    }
    let (table, metadata_table) = (shell::quoted(&args.table), shell::quoted(&metadata_table));
    let caller = args.caller.for_shell();
    Check::problem(CHECK, seen).advise(format!(
        "only one stack can serve it: deploy that one, or bring its collections back to one shard (dynashard adopt \
         --leave), delete it, and run dynashard adopt --table {table} --take-over {metadata_table}{caller}"
    ))
}

/// Lets another stack claim the table.
pub(super) async fn take_over(
    args: &AdoptArgs,
    owned_by: &str,
    output: &mut Output,
) -> Result<ExitCode, Failure> {
    let found = Found::by(args).await?;
    let (table, operator, schema) = (&args.table, &found.operator, found.schema()?);
    let owner = patiently(async || owner(operator, table, &schema).await).await?;
    let is_owned = owner.is_some();
    let released = match owner {
        Some(owner) if owner.metadata_table != owned_by => {
            let other = owner.metadata_table;
            let why = format!(
                "the table {table} belongs to the stack with the metadata table {other}, not {owned_by}; nothing was changed"
            );
            return Err(Failure::connection(why));
        }
        Some(owner) => patiently(async || release(operator, table, &schema, &owner).await).await?,
        None => false,
    };
    output.event("take_over", &Report { table, metadata_table: owned_by, released });
    output.text(match (is_owned, released) {
        (_, true) => {
            format!("{table} belongs to nobody now: the next stack that serves it claims it")
        }
        (true, false) => {
            format!("{table} has changed hands meanwhile: run dynashard adopt to see whose it is")
        }
        (false, false) => format!("{table} belongs to no stack: there is nothing to take over"),
    });
    Ok(if is_owned && !released { ExitCode::from(PROBLEMS_FOUND) } else { ExitCode::SUCCESS })
}

/// `{"event":"take_over", ...}`
#[derive(Serialize)]
struct Report<'a> {
    table: &'a str,
    /// The owner's.
    metadata_table: &'a str,
    /// Whether the table was the owner's, and is nobody's now.
    released: bool,
}
