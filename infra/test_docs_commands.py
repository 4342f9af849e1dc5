"""What counts as a command of a page."""

import os
import re
import unittest

from docs_commands import Command, Pages, commands
from start_benchmark import ROOT

PAGE = """
Run `dynashard doctor`, then `aws sqs purge-queue
--queue-url "$(name Queue)"`, but neither `--help` nor `GET /item?pk=KEY`. `tool --loud` is one, whatever it is.

1. Then:

   ```sh
   # A comment.
   name() { aws lambda get-function \\
     --function-name "$1"; }
   printf '%s
   ' done
   ```

   `name Write`, and `infra/costs.py` of `data/prices.json`.
"""


ENVIRONMENT = {"PATH": os.environ["PATH"], "AWS_DEFAULT_REGION": "us-east-1", "SAM_CLI_TELEMETRY": "0"}


class CommandsTest(unittest.TestCase):
    def setUp(self):
        self.commands = list(commands("PAGE", PAGE))

    def test_blocks_and_inline_code_hold_commands(self):
        self.assertEqual(
            [(command.line, " ".join(command.text.split())) for command in self.commands],
            [
                (2, "dynashard doctor"),
                (2, 'aws sqs purge-queue --queue-url "$(name Queue)"'),
                (3, "tool --loud"),
                (9, 'name() { aws lambda get-function \\ --function-name "$1"; }'),
                (11, "printf '%s ' done"),
                (15, "name Write"),
                (15, "infra/costs.py"),
            ],
        )

    def test_names_and_definitions_are_told_apart(self):
        self.assertEqual([command.text for command in self.commands if command.is_name()], ["dynashard doctor"])
        self.assertEqual([command.line for command in self.commands if command.is_definition()], [9])

    def test_an_entry_of_a_table_that_no_page_needs_is_wrong(self):
        pages = Pages(ENVIRONMENT, {"KEY": "EWR"}, {"printf": "^[A-Z]+$", "echo": ""}, {})
        self.assertEqual(pages.fill("echo KEY"), "echo EWR")
        printf = self.commands[4]
        self.assertIn("prints no ^[A-Z]+$", pages.run_one(printf, printf.text, "").result)
        self.assertEqual(pages.unused & {"KEY", "echo", "printf"}, {"echo"})

    def test_what_is_only_parsed_has_to_exist(self):
        pages = Pages(ENVIRONMENT, {}, {}, {})
        for text, is_wrong in {
            "aws dynamodb create-backup": False,
            "aws dynamodb make-backup": True,
            "aws cloudformation continue-update-rollback --stack-name NAME": False,
            "aws cloudformation continue-update-rollback --stack NAME --no-such-option": True,
            "cargo bench -p dynashard-core --bench reshard_speed": False,
            "cargo bench -p dynashard-core --bench speed": True,
            "sam local invoke WriteFunction -e FILE": False,
            "sam local invoke WriteFunction --no-such-option": True,
        }.items():
            with self.subTest(text):
                ran = pages.run_one(Command("PAGE", 1, text), text, "")
                self.assertEqual(ran.is_wrong, is_wrong, ran.result)

    def test_regression_dates_were_those_of_linux_alone(self):
        """The `date` of macOS knows no `-d`."""
        for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
            self.assertNotRegex(page.read_text(encoding="utf-8"), r"\bdate (-u )?(-d|--date)\b", page.name)

    def test_regression_the_readme_asked_for_another_version_than_the_requirements(self):
        pin = re.compile(r"\b([a-z][\w-]*)==(\d[\w.]*)")
        pinned = {found for file in ROOT.glob("infra/**/requirements*.txt") for found in pin.findall(file.read_text())}
        names = {name for name, _ in pinned}
        for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]:
            for name, version in pin.findall(page.read_text()):
                with self.subTest(f"{page.name}: {name}"):
                    self.assertTrue(name not in names or (name, version) in pinned, version)


if __name__ == "__main__":
    unittest.main()
