"""Load test of a service on this machine: latency and requests per second of the server's CPU.

    python -m benchmarks.serve_load [--requests 2000] [--engine xgboost]

A model of the bundled data is served on the loopback interface by one process; a bounded number of
requests for one person each is sent, and the process is ended.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from survival_objectives import HazardBoost
from survival_objectives.datasets import load_covid_hospital

_PROGRAM = """
import sys, uvicorn
from survival_objectives.serve import application
uvicorn.run(application(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
"""


def main() -> None:
    """Train, serve, ask, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--engine", default="xgboost")
    given = parser.parse_args()
    data = load_covid_hospital()
    model = HazardBoost(given.engine, random_state=0).fit(data.X, data.y)
    people = json.loads(data.X.to_json(orient="records"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        server = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(path), str(port)])
        try:
            connection = _connected(port)
            before = _cpu_seconds(server.pid)
            seconds = [_ask(connection, people[i % len(people)]) for i in range(given.requests)]
            used = _cpu_seconds(server.pid) - before
        finally:
            server.terminate()
            server.wait()
    print(
        f"{given.engine}: {given.requests} requests, median "
        f"{1000 * statistics.median(seconds):.1f} ms, 95 % within "
        f"{1000 * statistics.quantiles(seconds, n=20)[-1]:.1f} ms, "
        f"{given.requests / used:.0f} requests per CPU second of the server"
    )


def _connected(port: int) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for _ in range(300):
        try:
            connection.request("GET", "/health")
            connection.getresponse().read()
        except OSError:
            connection.close()
            time.sleep(0.1)
        else:
            return connection
    msg = "The service did not start within 30 seconds."
    raise RuntimeError(msg)


def _ask(connection: http.client.HTTPConnection, person: dict[str, object]) -> float:
    body = json.dumps({"people": [person], "times": [7, 14, 28]})
    begin = time.perf_counter()
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200
    return time.perf_counter() - begin


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
