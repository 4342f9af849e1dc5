"""The library for triggers in Python does as the one in Rust: both read the same vectors."""

import contextlib
import copy
import io
import json
import sys
import unittest
from pathlib import Path

STREAMS = Path(__file__).parent.parent / "shared" / "streams"
sys.path.insert(0, str(STREAMS / "python"))

from dynashard_streams import Position, RecordError, logical  # noqa: E402


class Records(unittest.TestCase):
    def test_the_vectors_are_told_as_they_say(self):
        for vector in json.loads((STREAMS / "tests" / "records.json").read_text()):
            table = {name: vector[name] for name in ("partition_key_name", "separator") if name in vector}
            record = copy.deepcopy(vector["record"])
            with self.subTest(vector["name"]):
                if "error" in vector:
                    with self.assertRaises(RecordError) as raised:
                        logical(record, **table)
                    self.assertEqual(raised.exception.code, vector["error"])
                else:
                    change = logical(record, **table)
                    told = change and {**vars(change), "position": vars(change.position)}
                    self.assertEqual(told, vector["logical"])
                self.assertEqual(record, vector["record"], "it is left as it was")

    def test_a_position_is_overtaken_by_a_later_generation_at_another_home(self):
        kept = Position("EWR#~3", 2)
        for partition_key, generation, expected in [("EWR", 1, True), ("EWR", 2, False), ("EWR#~3", 1, False), ("EWR", 3, False)]:
            self.assertEqual(Position(partition_key, generation).is_overtaken_by(kept), expected)

    def test_the_longest_key_that_a_shard_can_have(self):
        for length, expected in [(2000, "k" * 2000), (2001, "k" * 2001 + "#~7")]:
            keys = {"pk": {"S": "k" * length + "#~7"}}
            change = logical({"eventName": "INSERT", "dynamodb": {"Keys": keys, "NewImage": keys}})
            self.assertEqual(change.record["dynamodb"]["Keys"]["pk"]["S"], expected)

    def test_the_handler_of_the_page_takes_an_event(self):
        page = (STREAMS.parent.parent / "docs" / "ADOPTING.md").read_text()
        names = {}
        exec(page.split("```python\n")[1].split("```")[0], names)
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            keys = {"pk": {"S": "EWR#~3"}}
            names["handler"]({"Records": [{"eventName": "REMOVE", "dynamodb": {"Keys": keys, "OldImage": keys}}]}, None)
        self.assertEqual(told.getvalue(), "REMOVE {'pk': {'S': 'EWR'}}\n")

    def test_an_unknown_separator_is_refused(self):
        with self.assertRaises(ValueError):
            logical({}, separator="")


if __name__ == "__main__":
    unittest.main()
