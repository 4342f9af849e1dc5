"""Uses the Python client that was generated from docs/openapi.yaml, with the URL of a stack as the argument."""

import sys

import httpx
from dynashard_client import Client
from dynashard_client.api.batches import batch_get, batch_write
from dynashard_client.api.collections import create_collection, get_collection, scale_collection
from dynashard_client.api.items import delete_item, delete_item_by_body, get_item, get_item_by_body, patch_item, patch_item_by_body, put_item, put_item_by_body
from dynashard_client.api.queries import query, query_by_body
from dynashard_client.models import (
    BadRequestCode,
    BadRequestProblem,
    BatchGet,
    BatchGot,
    BatchWrite,
    BatchWritten,
    Collection,
    CollectionDetails,
    CollectionState,
    ConflictCode,
    ConflictProblem,
    GetItem,
    Item,
    ItemKey,
    MergePatch,
    NewCollection,
    NotFoundCode,
    NotFoundProblem,
    Order,
    Page,
    PatchByKey,
    Placement,
    PreconditionFailedCode,
    PreconditionFailedProblem,
    Put,
    Query,
    Scale,
    Stored,
)

PK = "python/EWR"


def main(api: str) -> None:
    with Client(base_url=api, timeout=httpx.Timeout(30)) as client:
        one_item(client)
        an_item_with_a_long_key(client)
        many_items(client)
        collection(client)
    print("the Python client stored, changed, read and queried items, and got typed problems")


def one_item(client: Client) -> None:
    flight = Item.from_dict({"dest": "IAH", "distance": 1400, "delay": {"departure": 2}})
    stored = put_item.sync_detailed(client=client, pk=PK, sk="UA1545", body=flight, if_none_match="*")
    assert isinstance(stored.parsed, Stored), stored
    assert (stored.parsed.pk, stored.parsed.sk) == (PK, "UA1545")
    etag = stored.headers["etag"]

    refused = put_item.sync(client=client, pk=PK, sk="UA1545", body=flight, if_none_match="*")
    assert isinstance(refused, PreconditionFailedProblem), refused
    assert (refused.status, refused.code) == (412, PreconditionFailedCode.PRECONDITION_FAILED)

    patch = MergePatch.from_dict({"tailnum": "N14228", "delay": None})
    changed = patch_item.sync(client=client, pk=PK, sk="UA1545", body=patch, if_match=etag)
    assert isinstance(changed, Stored), changed

    read = get_item.sync(client=client, pk=PK, sk="UA1545", consistent=True)
    assert isinstance(read, Item), read
    assert read.to_dict() == {"pk": PK, "sk": "UA1545", "dest": "IAH", "distance": 1400, "tailnum": "N14228"}
    part = get_item.sync(client=client, pk=PK, sk="UA1545", consistent=True, fields="dest")
    assert isinstance(part, Item) and part.to_dict() == {"pk": PK, "sk": "UA1545", "dest": "IAH"}, part

    deleted = delete_item.sync_detailed(client=client, pk=PK, sk="UA1545")
    assert deleted.status_code == 204, deleted
    absent = get_item.sync(client=client, pk=PK, sk="UA1545", consistent=True)
    assert isinstance(absent, NotFoundProblem) and absent.code == NotFoundCode.ITEM_NOT_FOUND, absent
    wrong = get_item.sync(client=client, pk=PK, sk="x" * 1_025)
    assert isinstance(wrong, BadRequestProblem) and wrong.code == BadRequestCode.BAD_KEY, wrong


def an_item_with_a_long_key(client: Client) -> None:
    pk, sk = "é" * 1_000, "é" * 512
    put = Put(pk=pk, sk=sk, item=Item.from_dict({"dest": "IAH"}))
    stored = put_item_by_body.sync_detailed(client=client, body=put, if_none_match="*")
    assert isinstance(stored.parsed, Stored), stored
    patch = PatchByKey(pk=pk, sk=sk, patch=MergePatch.from_dict({"distance": 1400}))
    changed = patch_item_by_body.sync(client=client, body=patch, if_match=stored.headers["etag"])
    assert isinstance(changed, Stored), changed
    read = get_item_by_body.sync(client=client, body=GetItem(pk=pk, sk=sk, consistent=True))
    assert isinstance(read, Item) and read.to_dict() == {"pk": pk, "sk": sk, "dest": "IAH", "distance": 1400}, read
    deleted = delete_item_by_body.sync_detailed(client=client, body=ItemKey(pk=pk, sk=sk))
    assert deleted.status_code == 204, deleted


def many_items(client: Client) -> None:
    puts = [Put(pk=PK, sk=f"row/{n:02}", item=Item.from_dict({"n": n})) for n in range(30)]
    deletes = [ItemKey(pk=PK, sk="no such item")]
    written = batch_write.sync(client=client, body=BatchWrite(puts=puts, deletes=deletes))
    assert isinstance(written, BatchWritten), written
    assert (written.written, written.unprocessed) == (31, [])

    keys = [ItemKey(pk=PK, sk="row/07"), ItemKey(pk=PK, sk="no such item")]
    got = batch_get.sync(client=client, body=BatchGet(keys=keys, consistent=True))
    assert isinstance(got, BatchGot), got
    assert [item.to_dict() for item in got.items] == [{"pk": PK, "sk": "row/07", "n": 7}]

    first = query.sync(client=client, pk=PK, begins_with="row/", limit=20, consistent=True)
    assert isinstance(first, Page) and first.cursor is not None, first
    last = query.sync(client=client, pk=PK, begins_with="row/", limit=20, consistent=True, cursor=first.cursor)
    assert isinstance(last, Page) and last.cursor is None, last
    assert [item["n"] for item in first.items + last.items] == list(range(30))

    asked = Query(pk=PK, from_="row/10", to="row/12", order=Order.DESC, consistent=True)
    page = query_by_body.sync(client=client, body=asked)
    assert isinstance(page, Page) and [item["n"] for item in page.items] == [12, 11, 10], page
    other = query.sync(client=client, pk="another", cursor=first.cursor)
    assert isinstance(other, BadRequestProblem) and other.code == BadRequestCode.CURSOR_MISMATCH, other


def collection(client: Client) -> None:
    pk = "python/spread"
    spread = NewCollection(placement=Placement.XXH64, number_of_shards=4)
    created = create_collection.sync(client=client, pk=pk, body=spread)
    assert isinstance(created, Collection) and created.number_of_shards == 4, created
    again = create_collection.sync(client=client, pk=pk, body=spread)
    assert isinstance(again, ConflictProblem) and again.code == ConflictCode.COLLECTION_EXISTS, again

    details = get_collection.sync(client=client, pk=pk)
    assert isinstance(details, CollectionDetails), details
    assert (details.placement, details.capacity.write_units) == (Placement.XXH64, 4_000)
    assert isinstance(details.state, CollectionState)
    too_many = scale_collection.sync(client=client, pk=pk, body=Scale(number_of_shards=64))
    assert isinstance(too_many, BadRequestProblem) and too_many.code == BadRequestCode.BAD_SHARD_COUNT, too_many


if __name__ == "__main__":
    main(sys.argv[1])
