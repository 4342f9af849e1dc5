"""A proxy with a fault, to see that the comparison finds one: items keep `_ds_v`, which no client may see."""

import contextlib
import http.client
import json
import threading
import urllib.parse
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOP = {"connection", "content-length", "host", "transfer-encoding", "x-amz-crc32"}


@contextlib.contextmanager
def faulty(upstream: str) -> Iterator[str]:
    """Yield the URL of a proxy to the endpoint `upstream`."""
    host = urllib.parse.urlsplit(upstream).netloc

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            connection = http.client.HTTPConnection(host, timeout=30)
            # A signature covers the name of the host.
            passed = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
            connection.request("POST", self.path, body, passed | {"host": self.headers["host"]})
            answer = connection.getresponse()
            body = with_version(answer.read())
            connection.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP:
                    self.send_header(name, value)
            self.send_header("x-amz-crc32", str(zlib.crc32(body)))
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def with_version(body: bytes) -> bytes:
    answer = json.loads(body or b"{}")
    if isinstance(answer.get("Item"), dict):
        answer["Item"]["_ds_v"] = {"N": "1"}
        return json.dumps(answer).encode()
    return body
