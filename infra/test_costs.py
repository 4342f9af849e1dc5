"""docs/COST.md says what infra/costs.py works out.

    python -m unittest discover --start-directory infra

Needs a Python that has aws-sam-cli.
"""

import re
import sys
import unittest
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import costs  # noqa: E402

PAGE = costs.read("docs/COST.md")


class Costs(unittest.TestCase):
    maxDiff = None

    def test_each_table_is_the_one_that_is_worked_out(self):
        found = re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE)
        self.assertEqual([table.splitlines() for table in found], [table() for table in costs.TABLES])

    def test_the_bounds_of_environments_are_those_that_are_worked_out(self):
        row = re.compile(r"^\| (\d+)(?: \(the default\))? \| ([\d,]+) \| \d+ s \|$", re.MULTILINE)
        rows = row.findall(costs.read("docs/OPERATIONS.md"))
        self.assertEqual([lease for lease, _ in rows], ["2", "5", "10"])
        for lease, most in rows:
            self.assertEqual(most, f"{costs.most_environments(int(lease)):,.0f}")

    def test_regression_an_alarm_on_four_metrics_was_paid_for_as_one(self):
        alarm = {"Type": "AWS::CloudWatch::Alarm", "Properties": {"MetricName": "Errors"}}
        queries = [{"Expression": "SUM(METRICS())"}, *({"MetricStat": {}} for _ in range(4))]
        of_four = {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Metrics": queries}}
        self.assertEqual(costs.alarms_of({"Resources": {"A": alarm, "B": of_four}}), (2, 5))

    def test_no_amount_stands_outside_of_the_tables(self):
        prose = [line for line in PAGE.splitlines() if not line.startswith("|")]
        self.assertEqual([line for line in prose if "$" in line or "cents" in line], [])

    def test_the_page_names_what_is_assumed_and_when_the_prices_were_looked_up(self):
        for assumed in [
            f"{costs.MS_OF_ONE} ms",
            f"{costs.MS_OF_A_BATCH} ms",
            f"{costs.MS_OF_A_PAGE} ms",
            f"{costs.MS_OF_A_SCHEDULE} ms",
            f"{costs.LOG_KB_OF_THE_API} KB",
            f"{costs.MOVES_PER_SECOND} moves a second",
        ]:
            self.assertIn(assumed, PAGE)
        day = date.fromisoformat(costs.PRICES["date"])
        self.assertIn(f"{day.day} {day:%B %Y}", PAGE)
        self.assertIn(costs.PRICES["region"], PAGE)

    def test_each_price_says_of_what_it_is_and_where_it_stands(self):
        for name, entry in costs.PRICES["prices"].items():
            self.assertEqual(set(entry), {"usd", "per", "unit", "source"}, name)
            self.assertGreater(entry["usd"], 0, name)
            self.assertTrue(entry["source"].startswith("https://aws.amazon.com/"), name)


if __name__ == "__main__":
    unittest.main()
