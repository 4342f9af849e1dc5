#!/usr/bin/env python3
"""Compares docs/openapi.yaml with the events that the functions are tested with, and with its own examples.

    target/api-venv/bin/python infra/api-tests/goldens.py

The answer to every request under events/ must be one that the document has for the operation, with its media type, body and
headers. A request that was carried out must be one that the document allows. Each example must be valid."""

import base64
import json
import sys
import urllib.parse
from pathlib import Path

import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = yaml.safe_load((ROOT / "docs/openapi.yaml").read_text())
REGISTRY = Registry().with_resource("urn:document", Resource(DOCUMENT, DRAFT202012))
METHODS = {"get", "head", "put", "post", "delete", "patch"}


class Node:
    """A place of the document. References are followed."""

    def __init__(self, pointer=""):
        value = DOCUMENT
        for part in pointer.split("/")[1:]:
            value = value[int(part) if isinstance(value, list) else part.replace("~1", "/").replace("~0", "~")]
        if isinstance(value, dict) and "$ref" in value:
            followed = Node(value["$ref"].removeprefix("#"))
            pointer, value = followed.pointer, followed.value
        self.pointer, self.value = pointer, value

    def __getitem__(self, name):
        return Node(f"{self.pointer}/{str(name).replace('~', '~0').replace('/', '~1')}")

    def get(self, name):
        return self[name] if name in self.value else None

    def items(self):
        names = range(len(self.value)) if isinstance(self.value, list) else self.value
        return [(name, self[name]) for name in names]

    def validate(self, instance, what):
        """Says what is wrong with this instance of the schema at this place."""
        pointer = urllib.parse.quote(self.pointer)
        validator = Draft202012Validator({"$ref": f"urn:document#{pointer}"}, registry=REGISTRY)
        return [f"{what}: {error.json_path}: {error.message}" for error in validator.iter_errors(instance)]


def operations():
    for path, of_path in Node("/paths").items():
        for method, operation in of_path.items():
            if method in METHODS:
                shared = of_path.get("parameters")
                own = operation.get("parameters")
                parameters = [node for nodes in (shared, own) if nodes for _, node in nodes.items()]
                yield f"{method.upper()} {path}", (operation, parameters)


def wrong_examples(node):
    """Of a place that has a schema and examples of it."""
    wrong = []
    for name, example in node["examples"].items() if "examples" in node.value else []:
        wrong += node["schema"].validate(example.value["value"], f"the example {name} at {node.pointer}")
    schema = node.get("schema")
    for at, example in enumerate(schema.value.get("examples", [])):
        wrong += schema.validate(example, f"example {at} at {schema.pointer}")
    return wrong


def wrong_answer(answer, responses, what):
    status, headers, body = str(answer["statusCode"]), answer["headers"], answer["body"]
    response = responses.get(status)
    if response is None:
        return [f"{what}: the document has no answer {status}"]
    wrong = []
    documented = {name.lower(): header for name, header in response.get("headers").items()}
    for name, header in documented.items():
        if name in headers:
            kind = header["schema"].value.get("type")
            value = float(headers[name]) if kind in ("number", "integer") else headers[name]
            wrong += header["schema"].validate(value, f"{what}: the header {name}")
        elif header.value.get("required"):
            wrong.append(f"{what}: the header {name} is missing")
    wrong += [f"{what}: the document has no header {name}" for name in headers if name not in {*documented, "content-type"}]
    content = response.get("content")
    if content is None:
        return wrong + ([f"{what}: a body, where the document has none"] if body is not None else [])
    media = content.get(headers.get("content-type"))
    if media is None:
        return wrong + [f"{what}: the document has no {headers.get('content-type')}"]
    return wrong + media["schema"].validate(body, f"{what}: the body")


def wrong_request(event, operation, parameters, what):
    wrong = []
    named = {(node.value["in"], node.value["name"].lower()): node for node in parameters}
    given = dict(urllib.parse.parse_qsl(event["rawQueryString"], keep_blank_values=True))
    for name, value in given.items():
        if ("query", name) not in named:
            wrong.append(f"{what}: the document has no parameter {name}")
            continue
        schema = named["query", name]["schema"]
        typed = json.loads(value) if schema.value.get("type") in ("integer", "boolean") else value
        wrong += schema.validate(typed, f"{what}: the parameter {name}")
    for (where, name), node in named.items():
        if where == "query" and node.value.get("required") and name not in given:
            wrong.append(f"{what}: the parameter {name} is missing")
        if where == "header" and name in event["headers"]:
            wrong += node["schema"].validate(event["headers"][name], f"{what}: the header {name}")
    body = operation.get("requestBody")
    if body is None:
        return wrong
    media_type = event["headers"].get("content-type", "application/json").split(";")[0].strip().lower()
    media = body["content"].get(media_type)
    if media is None:
        return wrong + [f"{what}: the document has no request in {media_type}"]
    text = base64.b64decode(event["body"]) if event["isBase64Encoded"] else event["body"]
    return wrong + media["schema"].validate(json.loads(text), f"{what}: the request")


def main():
    by_route, wrong, answers, examples = dict(operations()), [], 0, 0
    for file in sorted((ROOT / "events").glob("*.json")):
        golden = json.loads((ROOT / "events/expected" / f"{file.stem}.snap").read_text().split("\n---\n", 1)[1])
        if not isinstance(golden, dict) or "statusCode" not in golden:
            continue
        event, answers = json.loads(file.read_text()), answers + 1
        operation, parameters = by_route.get(event.get("routeKey") if isinstance(event, dict) else None, (None, None))
        if operation is None:
            # Not a request of this API: it is refused as a direct invocation is.
            wrong += Node("/components/schemas/BadRequestProblem").validate(golden["body"], file.name)
            continue
        wrong += wrong_answer(golden, operation["responses"], file.name)
        if golden["statusCode"] < 300:
            wrong += wrong_request(event, operation, parameters, file.name)
    for operation, parameters in by_route.values():
        contents = [response.get("content") for _, response in operation["responses"].items()]
        contents += [operation["requestBody"]["content"]] if operation.get("requestBody") else []
        media = [node for content in contents if content for _, node in content.items()]
        headers = [header for _, response in operation["responses"].items() for _, header in response["headers"].items()]
        for node in [*parameters, *media, *headers]:
            examples += 1
            wrong += wrong_examples(node)
    for line in dict.fromkeys(wrong):
        print(line)
    if wrong:
        sys.exit(1)
    print(f"docs/openapi.yaml has the answers to all {answers} requests of events/, and its examples at {examples} places are valid")


if __name__ == "__main__":
    main()
