"""That a wrong answer to an event is noticed.

    python -m unittest discover --start-directory infra
"""

import sys
import unittest
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "sam_local"))

import events

REQUEST = events.Event(
    "read-get", "ReadFunction", "flights", {},
    {
        "statusCode": 200,
        "headers": {"etag": "\"1\"", "content-type": "application/json"},
        "body": {"items": [{"n": 1}, {"n": 2}], "consumed_rcu": 1.5},
    },
)


def answer(**members: object) -> dict:
    body = '{"items": [{"n": 1}, {"n": 2}], "consumed_rcu": 2.5}'
    return {"statusCode": 200, "headers": {"etag": "\"2\"", "content-type": "application/json"}, "body": body} | members


class AnAnswer(unittest.TestCase):
    def test_that_differs_in_what_varies_is_taken(self):
        self.assertIsNone(REQUEST.difference(answer()))

    def test_that_is_wrong_is_refused(self):
        for wrong, says in [
            (answer(statusCode=500), "status 500 in place of 200"),
            (answer(body='{"items": [{"n": 1}], "consumed_rcu": 2.5}'), "body.items"),
            (answer(body='{"items": [{"n": 1}, {"n": 3}], "consumed_rcu": 2.5}'), "body.items[1].n: 3 in place of 2"),
            (answer(body='{"items": [{"n": 1}, {"n": 2}], "consumed_rcu": "2.5"}'), "consumed_rcu"),
            (answer(body='{"items": [{"n": 1}, {"n": 2}], "consumed_rcu": 1.5, "more": 1}'), "body.more: only answered"),
            (answer(body=""), "body"),
            (answer(headers={"etag": "\"2\""}), "headers.content-type: only expected"),
            ({"errorType": "Panic"}, "the function failed"),
            (None, "the function failed"),
        ]:
            with self.subTest(says):
                self.assertIn(says, REQUEST.difference(wrong) or "as expected")

    def test_to_an_event_that_is_no_request_is_refused_if_the_function_failed(self):
        event = replace(REQUEST, expected={"nothing_done": "no alarm is raised"})
        self.assertIsNone(event.difference({"alarm_set_back": True}))
        for wrong in ({"errorMessage": "unavailable", "errorType": "Error"}, {}, None):
            with self.subTest(wrong):
                self.assertIsNotNone(event.difference(wrong))


class TheEvents(unittest.TestCase):
    def test_each_has_an_expected_answer_and_each_kind_has_one_of_each_function(self):
        found = events.all_events()
        self.assertEqual(len(found), len(list((events.ROOT / "events").glob("*.json"))))
        self.assertEqual({event.function for event in found}, set(events.FUNCTIONS.values()))
        self.assertLessEqual({"PUT /item", "GET /query", "aws.cloudwatch", "aws.events", "stream"}, {event.kind for event in found})


if __name__ == "__main__":
    unittest.main()
