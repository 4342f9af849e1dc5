"""Run the commands of the operators' pages as the pages have them, on a stack that is deployed.

A command is a line of a block of `sh`, or inline code that begins with a program. What only names a command, such as
`dynashard doctor`, has to name one that exists. What is listed below is not run, and its options are checked all the same.
"""

import os
import re
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from start_benchmark import ROOT

# In this order: the last one deletes the stack.
PAGES = ("OPERATIONS", "RUNBOOK", "COST", "SECURITY", "DEPLOYING")
# Inline code that begins with one of these is a command, as is whatever has an option behind its first word.
PROGRAMS = ("aws", "cargo", "curl", "dynashard", "git", "jq", "openssl", "pip", "python", "python3", "rustup", "sam")
# A command that takes longer than these seconds has failed.
LIMIT = "600"
# What is not run, by its beginning, and why.
NOT_RUN = {
    "aws cloudformation continue-update-rollback": "takes a stack that hangs in UPDATE_ROLLBACK_FAILED",
    "cargo bench": "takes a release build, and asserts nothing: it prints figures in virtual time",
    "dynashard settings --stack-name NAME --set": "waits for 18 minutes, until no request of before lives",
    "python infra/restore.py": "takes a DynamoDB that restores: infra/ministack.py runs it on copies, before the pages",
    "sam build": "takes minutes: .ci/run does it before, for x86-64, and infra/package.py for arm64",
    "sam deploy --guided": "asks for everything, and writes the answers over samconfig.toml",
    "sam publish": "takes the repository of applications, which MiniStack lacks",
    "sam local invoke": "takes Docker: infra/sam_local does it, with every event",
}


class Command(NamedTuple):
    """A command as its page has it."""

    page: str
    line: int
    text: str

    def is_definition(self) -> bool:
        """Whether later commands of the page need it."""
        return re.match(r"(export )?\w+=|\w+\(\) ", self.text) is not None

    def is_name(self) -> bool:
        """Whether it is a name without arguments."""
        return re.fullmatch(r"(aws|dynashard|sam)( [a-z][a-z-]*)+", self.text) is not None


class Ran(NamedTuple):
    """What became of a command."""

    command: Command
    result: str
    secs: float
    is_wrong: bool


def commands(page: str, text: str) -> Iterator[Command]:
    """The commands of a page, from top to bottom."""
    functions = re.findall(r"^ *(\w+)\(\) \{", text, re.MULTILINE)
    for found in re.finditer(r"^ *```(\w*)\n(.*?)^ *```$|`([^`]+)`", text, re.MULTILINE | re.DOTALL):
        language, block, inline = found.groups()
        line = text.count("\n", 0, found.start()) + 1
        if language == "sh":
            yield from block_commands(page, line + 1, textwrap.dedent(block))
        elif inline:
            code = " ".join(inline.split())
            program, *words = code.split()
            has_option = not program.startswith("-") and any(word.startswith("-") for word in words)
            if words and (has_option or program in (*PROGRAMS, *functions)) or re.fullmatch(r"infra/[\w-]+\.py", code):
                yield Command(page, line, code)


def block_commands(page: str, first: int, block: str) -> Iterator[Command]:
    """The commands of a block, each with its lines."""
    lines: list[str] = []
    for number, line in enumerate(block.splitlines(), first):
        if not lines and (not line.strip() or line.startswith("#")):
            continue
        lines.append(line)
        text = "\n".join(lines)
        if not line.endswith("\\") and subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode == 0:
            yield Command(page, number - len(lines) + 1, text)
            lines = []
    if lines:
        raise SystemExit(f"docs/{page}.md: bash does not understand {lines}")


def check_of(text: str) -> str:
    """A command that says whether this one's words and options are right, without doing it."""
    program, *words = shlex.split(text.replace("$", ""))
    if program == "aws":
        # A name lacks the arguments that `output` asks for.
        return f"{text} --generate-cli-skeleton {'output' if any(word.startswith('-') for word in words) else 'input'}"
    if program == "cargo":
        package, bench = words[words.index("-p") + 1], words[words.index("--bench") + 1]
        return f"cargo metadata --no-deps --format-version 1 | python -c {shlex.quote(HAS_BENCH)} {package} {bench}"
    return f"{text} --help"


HAS_BENCH = """
import json, sys
_, package, bench = sys.argv
targets = [target for of in json.load(sys.stdin)["packages"] if of["name"] == package for target in of["targets"]]
sys.exit(not any(target["name"] == bench and target["kind"] == ["bench"] for target in targets))
"""


class Pages:
    """Runs the commands of the pages, each once."""

    def __init__(
        self, environment: dict[str, str], filled: dict[str, str], promised: dict[str, str], statuses: dict[str, int]
    ) -> None:
        """What stands for a placeholder, by its pattern. By the beginning of a command, a pattern of what it prints, and with
        what it exits if that is not 0."""
        # The command that `cargo build` made, and the tools beside this Python.
        programs = [str(ROOT / "target/debug"), str(Path(sys.executable).parent), environment["PATH"]]
        self.environment = environment | {"PATH": os.pathsep.join(programs)}
        self.filled, self.promised, self.statuses = filled, promised, statuses
        self.unused = {*NOT_RUN, *filled, *promised, *statuses}
        self.seen: set[tuple[str, str]] = set()

    def run(self) -> list[Ran]:
        print(HEAD)
        ran: list[Ran] = []
        for page in PAGES:
            before = ""
            for command in commands(page, (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")):
                text = self.fill(command.text)
                # A command that needs what its page defines is not the same on another page.
                once = (text, before if "$" in text or f"{text.split()[0]}() " in before else "")
                if once not in self.seen:
                    self.seen.add(once)
                    ran.append(self.run_one(command, text, before))
                    print(line_of(ran[-1]), flush=True)
                if command.is_definition():
                    before += f"{text}\n"
        for name in sorted(self.unused):
            ran.append(Ran(Command("the test", 0, name), "WRONG: no page has it", 0.0, True))
            print(line_of(ran[-1]), flush=True)
        return ran

    def fill(self, text: str) -> str:
        for placeholder, value in self.filled.items():
            text, times = re.subn(placeholder, lambda _, value=value: value, text)
            if times:
                self.unused.discard(placeholder)
        return text

    def entry(self, table: dict, command: Command):
        """What a table has for a command."""
        for beginning, entry in table.items():
            if command.text.startswith(beginning):
                self.unused.discard(beginning)
                return entry
        return None

    def run_one(self, command: Command, text: str, before: str) -> Ran:
        began = time.monotonic()
        why = "names a command" if command.is_name() else self.entry(NOT_RUN, command)
        promised = None if why else self.entry(self.promised, command)
        status = 0 if why else self.entry(self.statuses, command) or 0
        script = f"{before}{check_of(text) if why else text}"
        # What asks is told yes.
        done = subprocess.run(
            ["timeout", LIMIT, "bash", "-euo", "pipefail", "-c", script], cwd=ROOT, env=self.environment, input="y\n" * 9,
            capture_output=True, text=True, check=False,
        )

        def ran(result: str, *, is_wrong: bool = False) -> Ran:
            return Ran(command, result, time.monotonic() - began, is_wrong)

        if done.returncode != status:
            return ran(f"WRONG: exits with {done.returncode}: {(done.stdout + done.stderr)[-1500:].strip()}", is_wrong=True)
        if why:
            return ran(f"parsed only: {why}")
        if promised and re.search(promised, done.stdout, re.MULTILINE) is None:
            return ran(f"WRONG: prints no {promised}: {done.stdout[-1500:]}{done.stderr[-500:]}", is_wrong=True)
        return ran(f"ran{', and printed what it should' if promised else ''}{f', and exited with {status}' if status else ''}")


HEAD = f"  {'Page':<15} {'Command':<100} {'Time':>7}  Result"


def line_of(ran: Ran) -> str:
    """A line of the log."""
    text = " ".join(ran.command.text.split())
    where = f"{ran.command.page}:{ran.command.line}"
    return f"  {where:<15} {text if len(text) <= 100 else text[:97] + '...':<100} {ran.secs:>5.1f} s  {ran.result}"
