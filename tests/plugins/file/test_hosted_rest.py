"""Documents of clouds, decoded by many threads at once. Zones are read in parallel, and the first documents come together."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Each round has types that nothing has decoded before; a thread gives way as often as it can.
PROGRAM = """
import importlib, sys, threading
from fastdns.plugins.{plugin} import api
from fastdns.plugins.file.hosted_rest import _decoded

sys.setswitchinterval(1e-6)
for _ in range(100):
    importlib.reload(api)
    start = threading.Barrier(8)
    threads = [threading.Thread(target=lambda: (start.wait(), _decoded(b'{body}', api.PAGE))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.parametrize(
    ("plugin", "body"),
    [("azure", '{"value": [{"properties": {"TTL": 1}}]}'), ("clouddns", '{"rrsets": [{"name": "a.", "type": "A", "rrdatas": ["192.0.2.1"]}]}')],
)
def test_first_documents_in_many_threads(plugin: str, body: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(plugin=plugin, body=body)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
