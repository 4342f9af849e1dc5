"""What counts as a command of a page."""

import unittest

from docs_commands import Pages, commands

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
        pages = Pages({"PATH": "/bin:/usr/bin"}, {"KEY": "EWR"}, {"printf": "^[A-Z]+$", "echo": ""}, {})
        self.assertEqual(pages.fill("echo KEY"), "echo EWR")
        printf = self.commands[4]
        self.assertIn("prints no ^[A-Z]+$", pages.run_one(printf, printf.text, "").result)
        self.assertEqual(pages.unused & {"KEY", "echo", "printf"}, {"echo"})


if __name__ == "__main__":
    unittest.main()
