"""Records of a sharded table's stream as records of logical keys: markers and what only moves items are left out,
suffixes of keys and the system's attributes are taken off.

One file without dependencies, for Python 3.9 and later: copy it beside the handler of docs/ADOPTING.md, "Triggers", which
says what the records cannot keep. `../src/lib.rs` is its twin, and `../tests/records.json` holds both to one behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

SEPARATORS = ("#~", "#", "_", ".", "-", ":")


@dataclass(frozen=True)
class Position:
    """Where a record stands among those of its logical key."""

    # The partition key in the table: the records of one are in order.
    partition_key: str
    # The generation of the item: records of a later one count, wherever they came from.
    generation: int

    def is_overtaken_by(self, kept: Position) -> bool:
        """Whether a record here is to be skipped by who keeps, for each logical key, the position of the last record that
        was not skipped, of removals for as long as a stream keeps records (a day), too. Who skips so has in the end what
        the table has."""
        return self.partition_key != kept.partition_key and self.generation < kept.generation


@dataclass(frozen=True)
class LogicalRecord:
    """What clients have done to one item."""

    # The record in the shape in which it came: eventName, keys and images are those of the logical key, and everything else
    # is as it was.
    record: dict[str, Any]
    position: Position
    # The version of what was written, or of what was removed: no two writes of a key have one in common, and a repeat has
    # that of its write. None where another program has written the item.
    version: Optional[int]
    # An INSERT that may be a move, which repeats what was told before, or a put in the place of an item at the old home.
    may_repeat: bool


class RecordError(ValueError):
    """Why a record cannot be told of."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def logical(record: dict[str, Any], partition_key_name: str = "pk", separator: str = "#~") -> Optional[LogicalRecord]:
    """What a record of the stream tells of its logical key, or None where clients have changed nothing. It takes a record
    as Lambda's event has it, and as DynamoDB sends it to Kinesis, and leaves it as it is. The names are the stack's
    PartitionKeyName and Separator. Records of keys that no shard can have come back as they are."""
    if separator not in SEPARATORS:
        raise ValueError(f"there is no separator {separator!r}: name that of the stack, one of {' '.join(SEPARATORS)}")
    event = record.get("eventName")
    if event not in ("INSERT", "MODIFY", "REMOVE"):
        raise _malformed("eventName")
    change = record.get("dynamodb")
    if not isinstance(change, dict):
        raise _malformed("dynamodb")
    old, new = (image if isinstance(image, dict) else None for image in (change.get("OldImage"), change.get("NewImage")))
    shows_both = change.get("StreamViewType", "NEW_AND_OLD_IMAGES") == "NEW_AND_OLD_IMAGES"
    if not shows_both or (old is None, new is None) != (event == "INSERT", event == "REMOVE"):
        message = "a record lacks an image: turn on a stream with StreamViewType NEW_AND_OLD_IMAGES"
        raise RecordError("image_missing", message)
    physical = _member(_member(change.get("Keys"), partition_key_name), "S")
    if not isinstance(physical, str):
        raise _malformed(partition_key_name)
    if physical.startswith("_ds_"):
        return None
    key = _logical_key(physical, separator)
    if key is None:
        return LogicalRecord(record, Position(physical, 0), None, False)
    # Only a marker in place of an item that was deleted where it lay, since it could not be moved, has a version.
    is_removed = new is None or ("_ds_fwd" in new and _number(new, "_ds_v") > 0)
    old, new = (None if image is None or "_ds_fwd" in image else image for image in (old, new))
    if new is None and (old is None or not is_removed):
        # A marker came, went, or took the place of an item that lives at its new home.
        return None
    telling = old if new is None else new
    generation = _number(telling, "_ds_g")
    version = _number(telling, "_ds_v") or None
    event = "REMOVE" if new is None else "INSERT" if old is None else "MODIFY"
    may_repeat = event == "INSERT" and generation > 0
    if may_repeat and version is None:
        # Every write draws a version, so this is a move of an item that another program has written.
        return None
    is_drawn = version is not None and (old or {}).get("_ds_v") != telling.get("_ds_v")
    images = {}
    for name, image in (("OldImage", old), ("NewImage", new)):
        if image is not None:
            own = {name: value for name, value in image.items() if not name.startswith("_ds_")}
            images[name] = {**own, partition_key_name: {"S": key}}
    if event == "MODIFY" and images["OldImage"] == images["NewImage"] and not is_drawn:
        # Whoever has written what was there already has drawn a version, by which a move that repeats it is known.
        return None
    rest = {name: value for name, value in change.items() if name not in ("OldImage", "NewImage")}
    keys = {**change["Keys"], partition_key_name: {"S": key}}
    told = {**record, "eventName": event, "dynamodb": {**rest, "Keys": keys, **images}}
    return LogicalRecord(told, Position(physical, generation), version, may_repeat)


def _logical_key(text: str, separator: str) -> Optional[str]:
    """The logical partition key, or None where no shard can have the key."""
    head, digits = _suffix(text, separator)
    key = text
    if digits:
        number = int(digits) if len(digits) <= 10 else 2**32
        is_first = number == 0 and bool(_suffix(head, separator)[1])
        if digits != str(number) or number >= 2**32 or (number == 0 and not is_first):
            return None
        key = head
    return key if 0 < len(key.encode()) <= 2000 and not key.startswith("_ds_") else None


def _suffix(text: str, separator: str) -> tuple[str, str]:
    """What stands before and behind the last separator of a key that ends in one and digits; else nothing behind it."""
    head, found, digits = text.rpartition(separator)
    return (head, digits) if found and digits.isascii() and digits.isdigit() else (text, "")


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _number(image: dict[str, Any], name: str) -> int:
    """An unsigned number of the system's, which counts as 0 where it is left out."""
    if name not in image:
        return 0
    text = _member(image[name], "N")
    if not isinstance(text, str) or not (text.isascii() and text.isdigit() and int(text) < 2**64):
        raise _malformed(name)
    return int(text)


def _malformed(what: str) -> RecordError:
    message = f"a record has no valid {what}: check that it comes from the stream of this table, and the name of the partition key"
    return RecordError("malformed_record", message)
