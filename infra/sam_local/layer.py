"""The layer with the endpoint, beside a function that knows DynamoDB alone."""

import json
import shutil
import tempfile
from pathlib import Path

from containers import Network
from events import ROOT
from sam import Sam
from samcli.yamlhelper import yaml_dump
from stack import FLIGHTS, MAIN, Stack

# Sends what it is invoked with to the endpoint, as GetItem, and answers with what that says. The image has no SDK, and no curl.
BOOTSTRAP = r"""#!/bin/bash
# Sends a request, and leaves the answer's request id in `id`, and its body in `body`.
ask() {
  local line host="$1" head="$2" sent="$3"
  exec 3<>"/dev/tcp/${host%:*}/${host#*:}"
  printf '%s\r\nhost: %s\r\nconnection: close\r\ncontent-length: %s\r\n\r\n%s' "$head" "$host" "${#sent}" "$sent" >&3
  while IFS= read -r line <&3 && line="${line%$'\r'}" && [[ -n "$line" ]]; do
    if [[ "${line,,}" == lambda-runtime-aws-request-id:* ]]; then id="${line#*: }"; fi
  done
  body="$(cat <&3)"
  exec 3>&-
}
path=/2018-06-01/runtime/invocation
while true; do
  ask "$AWS_LAMBDA_RUNTIME_API" "GET $path/next HTTP/1.1" ""
  ask 127.0.0.1:8017 $'POST / HTTP/1.1\r\nx-amz-target: DynamoDB_20120810.GetItem\r\ncontent-type: application/x-amz-json-1.0' "$body"
  ask "$AWS_LAMBDA_RUNTIME_API" "POST $path/$id/response HTTP/1.1" "$body"
done
"""


def read_beside_the_layer(stack: Stack, network: Network) -> None:
    """Has a function read an item of a collection of eight shards by the endpoint in its layer."""
    (pk, sk, _), dynamodb = FLIGHTS[0], network.url_of(stack.ports()[0])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        layer, code, event = folder / "layer/extensions", folder / "code", folder / "event.json"
        for made in (layer, code):
            made.mkdir(parents=True)
        shutil.copy(ROOT / "target/debug/dynashard-extension", layer / "dynashard")
        (code / "bootstrap").write_text(BOOTSTRAP)
        (code / "bootstrap").chmod(0o755)
        event.write_text(json.dumps({"TableName": MAIN, "Key": {"pk": {"S": pk}, "sk": {"S": sk}}}))
        sam = Sam(network, {}, folder / "template.yaml")
        sam.template.write_text(yaml_dump(template({"DYNASHARD_TABLES": MAIN, "DYNASHARD_UPSTREAM": dynamodb})))
        answer = sam.invoke_with("Application", event)
    item = (answer or {}).get("Item", {})
    if (item.get("pk"), item.get("sk"), "_ds_v" in item) != ({"S": pk}, {"S": sk}, False):
        raise SystemExit(f"the function beside the layer was answered {answer}")


def template(variables: dict[str, str]) -> dict:
    """A function beside the layer, whose endpoint is told by these variables."""
    function = {
        "Runtime": "provided.al2023", "Handler": "bootstrap", "CodeUri": "code", "Timeout": 30, "MemorySize": 256,
        "Layers": [{"Ref": "Endpoint"}], "Environment": {"Variables": variables},
    }
    return {
        "AWSTemplateFormatVersion": "2010-09-09", "Transform": "AWS::Serverless-2016-10-31",
        "Resources": {
            "Endpoint": {"Type": "AWS::Serverless::LayerVersion", "Properties": {"ContentUri": "layer"}},
            "Application": {"Type": "AWS::Serverless::Function", "Properties": function},
        },
    }
