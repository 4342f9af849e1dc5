#!/usr/bin/env python3
"""Measure a physical key in Python, beside `cargo bench -p dynashard-keys --bench physical_key`.

    pip install xxhash
    python3 shared/keys/benches/python_key.py

The hash is that of the C library, through PyPI's xxhash. Prints the best of seven runs for each key, which is what
the interpreter needs at least.
"""

import timeit

import xxhash

SHARDS = 64

# Those of `physical_key.rs`.
KEYS = {
    "user": ("user.v1.User:abc", "123"),
    "flight": ("EWR", "2013-01-01T10:00:00Z#UA1545"),
    "path": ("/shared/reports/2024/q3/firetvGen2.txt", "2024-09-30T23:59:59.123456Z#0f8fad5b-d9cb-469f-a165"),
}


def physical_key(pk, sk, digest=xxhash.xxh64_intdigest):
    return f"{pk}#~{digest(f'{pk}:{sk}'.encode()) & (SHARDS - 1)}"


def main():
    assert physical_key("user.v1.User:abc", "123") == "user.v1.User:abc#~11"
    runs = 200_000
    for name, (pk, sk) in KEYS.items():
        seconds = min(timeit.repeat("physical_key(pk, sk)", globals={"physical_key": physical_key, "pk": pk, "sk": sk}, number=runs, repeat=7))
        print(f"physical_key/python/{name}: {seconds / runs * 1e9:.0f} ns")


if __name__ == "__main__":
    main()
