#!/usr/bin/env python3
"""Restore both tables of a stack to one second, and turn on what a restore leaves off.

    python infra/restore.py --stack-name dynashard-prod --time 2026-11-20T09:30:00Z \\
        --main-table dynashard-prod-main-2 --metadata-table dynashard-prod-metadata-2

Makes the two tables from the stack's, and gives each what its source has and a restore leaves off: tags, the resource policy, time
to live, and of the main table the mode of Contributor Insights; and deletion protection, point-in-time recovery and the stream
that the template wants. A table that exists is not restored again, so the command may be run until it succeeds. It prints the
parameters that give the stack the two tables, as lines of a parameter file. The stack is not changed.

Needs a Python that has aws-sam-cli, for boto3, and credentials.
"""

import argparse
import sys
import time
from datetime import datetime

import boto3
from botocore.exceptions import ClientError

STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}


class Tables:
    def __init__(self, client) -> None:
        self.client = client

    def find(self, name: str) -> dict | None:
        try:
            return self.client.describe_table(TableName=name)["Table"]
        except self.client.exceptions.ResourceNotFoundException:
            return None

    def active(self, name: str) -> dict:
        """Wait until a table can be changed. A restore takes as long as the table is large."""
        while True:
            table = self.find(name)
            states = [table["TableStatus"]] + [index.get("IndexStatus", "ACTIVE") for index in table.get("GlobalSecondaryIndexes", [])]
            if set(states) == {"ACTIVE"}:
                return table
            time.sleep(5)

    def restore(self, source: str, target: str, at: datetime | None) -> None:
        if self.find(target):
            return
        if at is None:
            sys.exit(f"--time is needed: table {target} does not exist yet")
        self.client.restore_table_to_point_in_time(SourceTableName=source, TargetTableName=target, RestoreDateTime=at)
        print(f"{target} is restored from {source}", file=sys.stderr)

    def policy_of(self, arn: str) -> str | None:
        try:
            return self.client.get_resource_policy(ResourceArn=arn)["Policy"]
        except ClientError as error:
            if error.response["Error"]["Code"] == "PolicyNotFoundException":
                return None
            raise

    def expiry_of(self, name: str) -> str | None:
        described = self.client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
        return described["AttributeName"] if described["TimeToLiveStatus"] in ("ENABLED", "ENABLING") else None

    def turn_on(self, source: str, target: str, *, has_stream: bool) -> dict:
        """Give the target what the source has, and return its description. What is on already is left alone."""
        table, original = self.active(target), self.find(source)
        if not table.get("DeletionProtectionEnabled"):
            self.client.update_table(TableName=target, DeletionProtectionEnabled=True)
            table = self.active(target)
        if has_stream and not table.get("StreamSpecification", {}).get("StreamEnabled"):
            self.client.update_table(TableName=target, StreamSpecification=STREAM)
            table = self.active(target)
        recovery = {"PointInTimeRecoveryEnabled": True}
        self.client.update_continuous_backups(TableName=target, PointInTimeRecoverySpecification=recovery)
        expiry = self.expiry_of(source)
        if expiry and self.expiry_of(target) != expiry:
            self.client.update_time_to_live(TableName=target, TimeToLiveSpecification={"Enabled": True, "AttributeName": expiry})
        tags = self.client.list_tags_of_resource(ResourceArn=original["TableArn"])["Tags"]
        # Those of CloudFormation are AWS's own, and nobody else may set them.
        own = [tag for tag in tags if not tag["Key"].startswith("aws:")]
        if own:
            self.client.tag_resource(ResourceArn=table["TableArn"], Tags=own)
        policy = self.policy_of(original["TableArn"])
        if policy:
            # The template's policy, and that of dynashard adopt, name no table.
            self.client.put_resource_policy(ResourceArn=table["TableArn"], Policy=policy)
        print(f"{target} has what a restore leaves off", file=sys.stderr)
        return table


def parameters_of(main_table: str, metadata_table: str, stream: str) -> dict[str, str]:
    """Return what a stack is to be given so that it takes the restored tables, whatever it was given for its own."""
    indexes = [f"{which}Index{what}" for which in ("First", "Second") for what in ("Name", "PartitionKey", "SortKey")]
    return {
        "ExistingMainTable": main_table,
        "ExistingMetadataTable": metadata_table,
        "ExistingMetadataStreamArn": stream,
        # These are of tables that a stack makes. The indexes of the restored one are those of the table before.
        "DenyOtherWriters": "off",
        "OperatorRoleArns": "",
        "BillingMode": "PAY_PER_REQUEST",
        "WriteShardedIndexes": "none",
        **dict.fromkeys(indexes, ""),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack-name", required=True, help="the application's stack")
    parser.add_argument("--main-table", required=True, help="the name of the new main table")
    parser.add_argument("--metadata-table", required=True, help="the name of the new metadata table")
    parser.add_argument("--time", type=datetime.fromisoformat, help="the second to restore to, with its offset, such as 2026-11-20T09:30:00Z")
    options = parser.parse_args()
    if options.time and options.time.tzinfo is None:
        parser.error("--time needs an offset, such as Z")
    (stack,) = boto3.client("cloudformation").describe_stacks(StackName=options.stack_name)["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    main_table, metadata_table = outputs["MainTableName"], outputs["MetadataTableName"]
    if {main_table, metadata_table} & {options.main_table, options.metadata_table}:
        sys.exit(f"the stack {options.stack_name} has these tables already")
    tables = Tables(boto3.client("dynamodb"))
    # Both are begun before either is waited for.
    tables.restore(main_table, options.main_table, options.time)
    tables.restore(metadata_table, options.metadata_table, options.time)
    tables.turn_on(main_table, options.main_table, has_stream=False)
    tables.client.update_contributor_insights(
        TableName=options.main_table, ContributorInsightsAction="ENABLE", ContributorInsightsMode="THROTTLED_KEYS"
    )
    metadata = tables.turn_on(metadata_table, options.metadata_table, has_stream=True)
    parameters = parameters_of(options.main_table, options.metadata_table, metadata["LatestStreamArn"])
    print("\n".join(f'{name}: "{value}"' for name, value in parameters.items()))


if __name__ == "__main__":
    main()
