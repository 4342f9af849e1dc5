"""The commands of `sam`, as a user types them."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from containers import Network, quietly
from events import ROOT, Event
from samcli.yamlhelper import yaml_dump, yaml_parse

REGION = "us-east-1"

# SAM tells nobody that it runs, and finds no credentials: with some it would ask AWS whose they are, each time. It gives the
# containers some of its own.
SETTINGS = {
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "SAM_CLI_TELEMETRY": "0",
}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}


def settings() -> dict[str, str]:
    """The environment of sam's commands."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return inherited | SETTINGS


BUILT = ROOT / ".aws-sam/build"


@dataclass
class Sam:
    network: Network | None = None
    overrides: dict[str, str] = field(default_factory=lambda: {"Architecture": "x86_64"})
    template: Path = BUILT / "template.yaml"

    def declare(self, name: str, value: str, file: str) -> None:
        """Gives all functions a variable. SAM sets only those that the template declares, so this takes one in a file of its own."""
        template = yaml_parse(self.template.read_text())
        template["Globals"]["Function"]["Environment"]["Variables"][name] = value
        # Beside the other, since paths in it are relative.
        self.template = BUILT / file
        self.template.write_text(yaml_dump(template))

    def validate(self) -> None:
        self._run("validate", "--lint")

    def build(self) -> None:
        self._run("build", *self._overrides())

    def invoke(self, event: Event) -> object:
        """The answer of a function to an event, in a container of its own."""
        return self.invoke_with(event.function, event.path, event.parameters)

    def invoke_with(self, function: str, event: Path, parameters: dict[str, str] | None = None) -> object:
        """The answer of a function to the event in a file."""
        # SAM exits with 0 if the function fails: its answer says so.
        out = self._run("local", "invoke", function, "--event", str(event), *self._options(parameters))
        return json.loads(out) if out.strip() else None

    def serve(self, what: str, port: int) -> "Server":
        # SAM cannot read an authorizer that depends on a condition.
        open_to_all = ["--disable-authorizer"] if what == "start-api" else []
        return Server(["sam", "local", what, *open_to_all, "--port", str(port), "--warm-containers", "LAZY", *self._options()], port)

    def _run(self, *words: str) -> str:
        done = subprocess.run(["sam", *words], cwd=ROOT, env=settings(), capture_output=True, text=True, check=False, timeout=1800)
        if done.returncode != 0:
            raise SystemExit(f"sam {' '.join(words)} exits with {done.returncode}: {done.stderr[-3000:]}")
        return done.stdout

    def _options(self, more: dict[str, str] | None = None) -> list[str]:
        host = ["--container-host-interface", "127.0.0.1"]
        template = ["--template-file", str(self.template)]
        return [*template, "--skip-pull-image", "--docker-network", Network.NAME, *host, *self._overrides(more)]

    def _overrides(self, more: dict[str, str] | None = None) -> list[str]:
        values = [f"{name}={value}" for name, value in (self.overrides | (more or {})).items()]
        return ["--parameter-overrides", *values] if values else []


class Server:
    """`sam local start-api` or `start-lambda`, until it is stopped."""

    def __init__(self, command: list[str], port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        began = time.monotonic()
        self.process = subprocess.Popen(
            [*command, "--host", "127.0.0.1"], cwd=ROOT, env=settings(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > began + 120:
                self.stop()
                raise SystemExit(f"{' '.join(command)} does not serve")
            time.sleep(0.1)
        self.ready_after = time.monotonic() - began

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.url, timeout=2)
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    def stop(self) -> None:
        # It removes its containers.
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def curl(*words: str) -> tuple[int, str]:
    """The status and body that curl prints."""
    done = quietly("curl", "--silent", "--max-time", "60", "--write-out", "\n%{http_code}", *words)
    body, status = done.stdout.rsplit("\n", 1)
    return int(status), body
