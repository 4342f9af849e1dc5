"""What the checks of the first hour say, and what they must not say."""

import io
import json
import unittest

import tables
from botocore.exceptions import ClientError
from first_hour import CANNOT_SAY, CHECKS, FAIL, FUNCTIONS, METADATA_INDEXES, PAGE, PASS, ROOT, Stack, page_rows, results
from samcli.yamlhelper import yaml_parse

VARIABLES = {"MAIN_TABLE": "main", "METADATA_TABLE": "metadata", "PARTITION_KEY_NAME": "pk", "SORT_KEY_NAME": "sk", "SORT_KEY_TYPE": "S"}


def refused(code: str):
    def refuse(**_):
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, "Operation")

    return refuse


class Fake:
    """A client that answers what the test says, and refuses the rest as AWS does."""

    def __init__(self, answers: dict, called: list[str]) -> None:
        self.answers, self.called = answers, called

    def __getattr__(self, operation: str):
        def call(**given):
            self.called.append(operation)
            answer = self.answers.get(operation, refused("AccessDeniedException"))
            return answer(**given) if callable(answer) else answer

        return call

    def get_paginator(self, operation: str) -> "Fake":
        return self

    def paginate(self, **_) -> list[dict]:
        return [{"StackResourceSummaries": [{"LogicalResourceId": name, "PhysicalResourceId": name} for name in FUNCTIONS]}]


def configuration(level: str) -> dict:
    return {"Environment": {"Variables": VARIABLES}, "LoggingConfig": {"ApplicationLogLevel": level}, "Role": "arn:aws:iam::1:role/dynashard/shop/r"}


class FirstHour(unittest.TestCase):
    def said(self, answers: dict, *, parameters: dict | None = None, before: bool = False, write: bool = False) -> dict:
        self.called: list[str] = []
        fake = Fake(answers, self.called)
        return results(Stack(lambda _: fake, "shop", parameters), before=before, write=write)

    def status(self, name: str, answers: dict, **options) -> str:
        return self.said({"get_function_configuration": configuration("INFO")} | answers, **options)[name].status

    def test_what_cannot_be_asked_is_never_a_pass(self):
        for write in (False, True):
            said = self.said({}, write=write, parameters={"ScaleReservedConcurrency": 1})
            self.assertEqual(said.keys(), {check.name for check in CHECKS})
            for name, result in said.items():
                self.assertEqual((result.status, "not carried out" in result.why), (CANNOT_SAY, True), (name, result))

    def test_nothing_is_written_unless_it_is_asked_for(self):
        self.said({"get_function_configuration": configuration("INFO")})
        self.assertFalse({"invoke", "delete_item", "put_item"} & set(self.called))

    def test_before_there_is_a_stack_only_the_account_is_looked_at(self):
        self.assertEqual(set(self.said({}, before=True)), {"concurrency", "log-policies"})

    def test_a_reservation_needs_a_hundred_executions_beside_it(self):
        for left, expected in [(10, FAIL), (102, FAIL), (103, PASS), (1000, PASS)]:
            answers = {"get_account_settings": {"AccountLimit": {"ConcurrentExecutions": left, "UnreservedConcurrentExecutions": left}}}
            prod = {"ScaleReservedConcurrency": 1, "RebalanceReservedConcurrency": 2, "LogRetentionDays": 365}
            self.assertEqual(self.status("concurrency", answers, parameters=prod), expected, left)

    def test_a_level_at_which_lambda_drops_metrics_fails(self):
        for level, expected in [("INFO", PASS), ("TRACE", PASS), ("WARN", FAIL), ("ERROR", FAIL), (None, CANNOT_SAY)]:
            self.assertEqual(self.status("log-level", {"get_function_configuration": configuration(level)}), expected, level)

    def test_an_alarm_that_a_function_set_to_ok_shows_nothing(self):
        def answers(reason: str) -> dict:
            item = {"HistoryData": json.dumps({"newState": {"stateValue": "OK", "stateReason": reason}})}
            return {"describe_alarms": {"MetricAlarms": [{"StateValue": "OK"}]}, "describe_alarm_history": {"AlarmHistoryItems": [item]}}

        self.assertEqual(self.status("alarm-returns", answers("set by ScaleFunction")), CANNOT_SAY)
        self.assertEqual(self.status("alarm-returns", answers("Threshold Crossed: no datapoints were received")), PASS)
        self.assertEqual(self.status("alarm-returns", {"describe_alarms": {"MetricAlarms": []}}), FAIL)

    def test_no_data_is_not_no_throttles(self):
        for sums, expected in [([], CANNOT_SAY), ([0.0], PASS), ([0.0, 3.0], FAIL)]:
            answers = {"get_metric_statistics": {"Datapoints": [{"Sum": each} for each in sums]}}
            self.assertEqual(self.status("rebalance-throttles", answers), expected, sums)

    def test_regression_throttles_of_the_index_of_decisions_were_overlooked(self):
        made = yaml_parse((ROOT / "template.yaml").read_text(encoding="utf-8"))["Resources"]["MetadataTable"]["Properties"]["GlobalSecondaryIndexes"]
        self.assertEqual(set(METADATA_INDEXES), {index["IndexName"] for index in made})

        def status(sums: dict[tuple[str, str], float]) -> str:
            def answer(MetricName: str, Dimensions: list[dict], **_) -> dict:
                of = {each["Name"]: each["Value"] for each in Dimensions}
                found = sums.get((MetricName, of["GlobalSecondaryIndexName"]))
                return {"Datapoints": [] if found is None else [{"Sum": found}]}

            return self.status("index-throttles", {"get_metric_statistics": answer})

        written = {("ConsumedWriteCapacityUnits", index): 5.0 for index in METADATA_INDEXES}
        self.assertEqual(status(written), PASS)
        for index in METADATA_INDEXES:
            # Also where nothing was written to the other, or to this one: all of it was refused.
            for of_writes in (written, {}):
                self.assertEqual(status(of_writes | {("WriteThrottleEvents", index): 3.0}), FAIL, index)
            self.assertEqual(status({("ConsumedWriteCapacityUnits", index): 5.0}), CANNOT_SAY, index)

    def test_the_stack_policy_has_to_be_that_of_the_repository(self):
        body = (ROOT / "infra/stack-policy.json").read_text()
        for answer, expected in [({"StackPolicyBody": body}, PASS), ({"StackPolicyBody": "{}"}, FAIL), ({}, FAIL)]:
            self.assertEqual(self.status("stack-policy", {"get_stack_policy": answer}), expected, answer)

    def test_a_denied_put_of_the_functions_fails_and_a_denied_write_of_others_passes(self):
        def invoke(status: int, body: str = ""):
            return lambda **_: {"Payload": io.BytesIO(json.dumps({"statusCode": status, "body": body}).encode())}

        self.assertEqual(self.status("functions-may-write", {"invoke": invoke(200)}, write=True), PASS)
        self.assertEqual(self.status("functions-may-write", {"invoke": invoke(500, "AccessDenied")}, write=True), FAIL)
        self.assertEqual(self.status("functions-may-write", {"invoke": invoke(403, '"key_not_granted"')}, write=True), CANNOT_SAY)
        self.assertEqual(self.status("others-may-not-write", {}, write=True), PASS)
        self.assertEqual(self.status("others-may-not-write", {"delete_item": {}}, write=True), CANNOT_SAY)

    def test_the_page_has_the_table_of_the_checks(self):
        page = PAGE.read_text(encoding="utf-8")
        self.assertIn(tables.table(page_rows()), page, "run python infra/first_hour.py --write-table")



if __name__ == "__main__":
    unittest.main()
