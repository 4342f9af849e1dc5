"""A session of PynamoDB: models of threads in a forum, saved, updated, queried, batched and put together in transactions."""

import datetime
from collections.abc import Callable, Iterator

from pynamodb.attributes import (
    BinaryAttribute,
    BooleanAttribute,
    JSONAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    NumberSetAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
    UTCDateTimeAttribute,
    VersionAttribute,
)
from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex
from pynamodb.models import Model
from pynamodb.transactions import TransactGet, TransactWrite
from transcript import TABLE, TOKEN, call

REGION = "us-east-1"
SPRING = datetime.datetime(2026, 3, 20, 14, 46, tzinfo=datetime.UTC)


class Author(MapAttribute):
    name = UnicodeAttribute()
    posts = NumberAttribute(null=True)


class Thread(Model):
    class Meta:
        table_name = TABLE
        region = REGION

    forum_name = UnicodeAttribute(hash_key=True, attr_name="pk")
    subject = UnicodeAttribute(range_key=True, attr_name="sk")
    views = NumberAttribute(default=0)
    replies = NumberAttribute(default=0)
    answered = BooleanAttribute(null=True)
    tags = UnicodeSetAttribute(null=True)
    ratings = NumberSetAttribute(null=True)
    notes = ListAttribute(default=list)
    author = Author(null=True)
    created = UTCDateTimeAttribute(default=SPRING)
    picture = BinaryAttribute(null=True, legacy_encoding=False)
    more = JSONAttribute(null=True)


class Account(Model):
    """A model that is locked by its version."""

    class Meta:
        table_name = TABLE
        region = REGION

    owner = UnicodeAttribute(hash_key=True, attr_name="pk")
    kind = UnicodeAttribute(range_key=True, attr_name="sk")
    balance = NumberAttribute(default=0)
    version = VersionAttribute()


class ByViews(GlobalSecondaryIndex):
    class Meta:
        index_name = "by-views"
        projection = AllProjection()
        read_capacity_units = write_capacity_units = 1

    section = UnicodeAttribute(hash_key=True)
    views = NumberAttribute(range_key=True)


class Forum(Model):
    class Meta:
        table_name = "Forums"
        region = REGION
        billing_mode = "PAY_PER_REQUEST"

    name = UnicodeAttribute(hash_key=True)
    section = UnicodeAttribute()
    views = NumberAttribute()
    by_views = ByViews()


def values(model: Model | None) -> dict | None:
    return model and model.to_dynamodb_dict()


def shown(does: Callable[..., Iterator[Model]], *args: object, **named: object) -> Callable:
    return lambda: [values(each) for each in does(*args, **named)]


def tables() -> None:
    call("is there a table of threads", Thread.exists)
    call("is there a table of forums", Forum.exists)
    call("create it", Forum.create_table, wait=True)
    call("save a forum", Forum("Python", section="code", views=9).save)
    call("save another", Forum("Rust", section="code", views=20).save)
    call("query the index", shown(Forum.by_views.query, "code", Forum.views > 10))
    call("count in the index", Forum.by_views.count, "code")
    call("delete the table", Forum.delete_table)
    call("read from a table that is gone", Forum.get, "Python")


def items() -> None:
    thread = Thread("Python", "How to sort", tags={"list", "sort"}, author=Author(name="Ann", posts=3), picture=b"\x89\x00", ratings={1, 2.5})
    call("save", thread.save)
    call("get", lambda: values(Thread.get("Python", "How to sort")))
    call("get strongly a part", lambda: values(Thread.get("Python", "How to sort", True, attributes_to_get=["sk", "views"])))
    call("get what is not there", Thread.get, "Python", "Nothing")
    call("refresh", lambda: thread.refresh(consistent_read=True) or values(thread))
    call("save on condition", thread.save, condition=Thread.forum_name.does_not_exist())
    replies = [Thread.views.add(1), Thread.replies.set(Thread.replies + 2), Thread.notes.set(Thread.notes.append(["seen"])), Thread.tags.add({"new"})]
    call("update", lambda: thread.update(actions=replies)["Attributes"])
    call("what the model has now", values, thread)
    few = Thread.author.posts < 10
    call(
        "update on condition",
        thread.update,
        actions=[Thread.answered.set(True), Thread.author.posts.set(4)],
        condition=few & Thread.tags.contains("sort"),
    )
    call("update on a false condition", thread.update, actions=[Thread.answered.remove()], condition=Thread.author.name.startswith("B"))
    call(
        "update, and drop",
        lambda: thread.update(actions=[Thread.answered.remove(), Thread.tags.delete({"new"}), Thread.notes[0].remove()])["Attributes"],
    )
    call("update with JSON", lambda: thread.update(actions=[Thread.more.set(Thread.more | {"a": [1, 2]})])["Attributes"])
    call("update what is not there", lambda: Thread("Python", "New").update(actions=[Thread.views.set(1)])["Attributes"])
    call("update a key", thread.update, actions=[Thread.subject.set("x")])
    call("delete on a false condition", thread.delete, condition=(Thread.views > 100) | ~Thread.author.exists())
    call("delete", thread.delete, condition=Thread.views.between(0, 10) & Thread.replies.is_in(1, 2, 3))
    call("refresh what is gone", thread.refresh)
    call("save an empty key", Thread("", "x").save)


def versions() -> None:
    account = Account("ann", "savings", balance=100)
    call("save the first version", account.save)
    stale = Account.get("ann", "savings")
    account.balance = 90
    call("save the second version", account.save)
    call("save what is stale", stale.save)
    call("update what is stale", stale.update, actions=[Account.balance.add(1)])
    call("delete what is stale", stale.delete)
    call("update", lambda: account.update(actions=[Account.balance.add(-5)])["Attributes"])
    call("the version", lambda: account.version)
    call("create once more", Account("ann", "savings").save)
    call("delete", account.delete)


def batches() -> None:
    with Thread.batch_write() as batch:
        for i in range(60):
            batch.save(Thread("Rust", f"thread-{i:02}", views=i * 7 % 20, tags={"even" if i % 2 == 0 else "odd"}))
    with Thread.batch_write(auto_commit=False) as batch:
        for each in Thread.query("Rust", Thread.subject >= "thread-55"):
            batch.delete(each)
    wanted = [("Rust", f"thread-{i:02}") for i in (1, 20, 58)]
    call("get a batch", shown(Thread.batch_get, wanted, consistent_read=True))
    call("get parts of a batch", shown(Thread.batch_get, wanted, attributes_to_get=["sk", "views"]))


def queries() -> None:
    call("query", shown(Thread.query, "Rust", Thread.subject < "thread-03"))
    call("query names", shown(Thread.query, "Rust", Thread.subject.startswith("thread-5"), scan_index_forward=False))
    call("query a range", shown(Thread.query, "Rust", Thread.subject.between("thread-10", "thread-11"), consistent_read=True))
    odd = Thread.tags.contains("odd") & (Thread.views >= 15)
    call("query and filter", shown(Thread.query, "Rust", filter_condition=odd, attributes_to_get=["sk", "views"]))
    call("query five", shown(Thread.query, "Rust", limit=5, page_size=2))
    call("count", Thread.count, "Rust", Thread.subject > "thread-20")
    call("count and filter", Thread.count, "Rust", filter_condition=~Thread.answered.exists())
    found = Thread.query("Rust", limit=3)
    call("three", shown(lambda: found))
    call("where they end", lambda: found.last_evaluated_key)
    call("three more", shown(Thread.query, "Rust", limit=3, last_evaluated_key=found.last_evaluated_key))
    call("how many were read", lambda: found.total_count)
    call("query a filter of the key", shown(Thread.query, "Rust", filter_condition=Thread.subject == "thread-01"))
    call("query by a condition that is none", shown(Thread.query, "Rust", Thread.views > 3))
    call("scan", shown(Thread.scan, (Thread.views == 14) & Thread.subject.startswith("thread"), consistent_read=True))
    call("scan for what has no author", lambda: sum(1 for _ in Thread.scan(Thread.author.does_not_exist(), page_size=10)))
    call("scan a segment", lambda: [[each.subject for each in Thread.scan(segment=i, total_segments=2, attributes_to_get=["sk"])] for i in (0, 1)])


def transactions() -> None:
    connection = Connection(region=REGION)
    with TransactWrite(connection=connection) as together:
        together.save(Account("ben", "savings", balance=50), condition=Account.owner.does_not_exist())
        together.save(Account("cat", "savings", balance=10))
    ben, cat = Account.get("ben", "savings"), Account.get("cat", "savings")

    def write(token: str | None, *parts: Callable) -> Callable:
        def commit() -> None:
            with TransactWrite(connection=connection, client_request_token=token) as together:
                for part in parts:
                    part(together)

        return commit

    rich = Account.balance >= 20
    give = [lambda t: t.update(ben, actions=[Account.balance.add(-20)], condition=rich, return_values="ALL_OLD", add_version_condition=False)]
    take = [lambda t: t.update(cat, actions=[Account.balance.add(20)], add_version_condition=False)]
    call("pay", write(TOKEN, *give, *take))
    call("pay once more by the token", write(TOKEN, *give, *take))
    call("pay another by the token", write(TOKEN, *take))
    call("pay again", write(None, *give, *take))
    call("pay what is not there", write(None, *give, *take))
    call("why", lambda: reasons(write(None, *give, *take)))
    call(
        "check and delete",
        write(
            None,
            lambda t: t.condition_check(Account, "cat", "savings", condition=Account.balance > 10),
            lambda t: t.delete(ben, condition=Account.balance < 20, add_version_condition=False),
        ),
    )
    call(
        "save what is there",
        write(None, lambda t: t.save(Thread("Rust", "thread-01"), condition=Thread.forum_name.does_not_exist(), return_values="ALL_OLD")),
    )
    with TransactGet(connection=connection) as together:
        asked = [together.get(Account, "cat", "savings"), together.get(Thread, "Rust", "thread-01"), together.get(Account, "ben", "savings")]
    for each in asked:
        call("what the transaction got", lambda each=each: values(each.get()))


def reasons(commit: Callable) -> list | None:
    try:
        commit()
    except TransactWriteError as error:
        return [each and [each.code, each.message, each.raw_item] for each in error.cancellation_reasons]
    return None


for part in (tables, items, versions, batches, queries, transactions):
    part()
