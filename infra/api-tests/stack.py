"""A local stack for one test: `dynashard local` on free ports, with functions that are built already."""

import contextlib
import json
import select
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READY_SECS = 60
END_SECS = 30


@contextlib.contextmanager
def local_stack(built, settings, log):
    """Starts the command of the directory `built` with these parameters, and yields the URL of its API when it can serve. Its log
    goes to the file `log`. Ends it with SIGTERM, and fails if it does not end cleanly."""
    command = [built / "dynashard", "local", "--functions-dir", built]
    for port in ["--port", "--dynamodb-port", "--lambda-port", "--cloudwatch-port"]:
        command += [port, "0"]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    with open(log, "wb") as stderr:
        stack = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr)
    try:
        if not select.select([stack.stdout], [], [], READY_SECS)[0]:
            raise RuntimeError(f"dynashard local printed no ready line within {READY_SECS} seconds; see {log}")
        line = stack.stdout.readline()
        if not line:
            raise RuntimeError(f"dynashard local ended with {stack.wait()} before it was ready; see {log}")
        yield json.loads(line)["api"]
        if stack.poll() is not None:
            raise RuntimeError(f"dynashard local ended with {stack.returncode} during the test; see {log}")
    finally:
        stack.terminate()
        try:
            status = stack.wait(END_SECS)
        except subprocess.TimeoutExpired:
            stack.kill()
            raise
    if status:
        raise RuntimeError(f"dynashard local ended with {status} after SIGTERM; see {log}")
