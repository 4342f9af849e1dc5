"""The tests of `test_hot_partition.py` on an engine in a container, by Testcontainers."""

import os
from collections.abc import Iterator

import pytest
from test_hot_partition import *  # noqa: F403 (the same tests, with the engine below)
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    """The address of a DynamoDB that refuses by partition, in a container."""
    container = DockerContainer(os.environ["DYNASHARD_IMAGE"]).with_exposed_ports(8000)
    container = container.with_command(["local", "--engine-only", "--address", "0.0.0.0", "--partition-wcu", "10"])
    with container.waiting_for(LogMessageWaitStrategy('"ready":true')):
        yield f"http://{container.get_container_host_ip()}:{container.get_exposed_port(8000)}"
