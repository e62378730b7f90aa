"""Load test of a service on this machine: latency and requests per second of the server's CPU.

    python -m benchmarks.serve_load [--requests 2000] [--engines xgboost ...]

A model of the bundled data is served on the loopback interface by one process on one core; a
bounded number of requests for one person each is sent, one after the other, and the process is
ended. Half-way the folder of the model is replaced by another. An answer other than 200 ends the
test.
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

from benchmarks._results import write_result
from survival_objectives import HazardBoost
from survival_objectives.datasets import load_covid_hospital

_PROGRAM = """
import sys, uvicorn
from survival_objectives.serve import application
uvicorn.run(application(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
"""


def main() -> None:
    """Train, serve, ask, and record the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--engines", nargs="+", default=["xgboost", "lightgbm", "catboost"])
    given = parser.parse_args()
    found = {engine: measured(engine, given.requests) for engine in given.engines}
    print(json.dumps(found, indent=1))
    write_result("serve_load", {"requests": given.requests, "engines": found})


def measured(engine: str, n_requests: int) -> dict[str, float]:
    """Latency in milliseconds, requests per CPU second, and megabytes of one service."""
    data = load_covid_hospital()
    people = json.loads(data.X.to_json(orient="records"))
    with tempfile.TemporaryDirectory() as folder:
        path, other = Path(folder) / "model", Path(folder) / "other"
        for number, target in enumerate((path, other)):
            HazardBoost(engine, random_state=number).fit(data.X, data.y).save(target)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(path), str(port)])
        try:
            connection = _connected(port)
            os.sched_setaffinity(server.pid, [min(os.sched_getaffinity(0))])
            answers, before = [], _cpu_seconds(server.pid)
            for number in range(n_requests):
                if number == n_requests // 2:
                    path.rename(Path(folder) / "old")
                    other.rename(path)
                answers.append(_ask(connection, people[number % 100]))
            used = _cpu_seconds(server.pid) - before
            status = Path(f"/proc/{server.pid}/status").read_text()
        finally:
            server.terminate()
            server.wait()
    milliseconds = [1000 * seconds for seconds, _ in answers]
    first_of = {number % 100: text for number, (_, text) in enumerate(answers[:100])}
    return {
        "median_ms": round(statistics.median(milliseconds), 2),
        "within_95_ms": round(statistics.quantiles(milliseconds, n=20)[-1], 2),
        "requests_per_cpu_second": round(n_requests / used),
        "memory_mb": round(int(status.split("VmHWM:")[1].split()[0]) / 1024),
        "answered_by_the_new_model": sum(
            text != first_of[number % 100] for number, (_, text) in enumerate(answers)
        ),
    }


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


def _ask(connection: http.client.HTTPConnection, person: dict[str, object]) -> tuple[float, bytes]:
    body = json.dumps({"people": [person], "times": [7, 14, 28]})
    begin = time.perf_counter()
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    seconds = time.perf_counter() - begin
    assert answer.status == 200, text
    return seconds, text


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
