"""Asks one scanner about a folder of texts and about one large file, and says in JSON what it found and how long the file took.

    scan.py NAME FOLDER FILE

Nothing is asked of any network: what a scanner would try out at a provider is switched off.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version


def names(folder):
    return sorted(os.listdir(folder))


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def detect_secrets(folder, large):
    from detect_secrets.core.secrets_collection import SecretsCollection
    from detect_secrets.settings import default_settings

    def lines(path):
        found = SecretsCollection()
        found.scan_file(path)
        return sorted({secret.line_number for _, secret in found})

    with default_settings():
        start = time.perf_counter()
        lines(large)
        seconds = time.perf_counter() - start
        found = {name: lines(os.path.join(folder, name)) for name in names(folder)}
    return {"version": version("detect-secrets"), "seconds": seconds, "lines": found}


def kingfisher(folder, large):
    program = os.path.join(os.path.dirname(sys.executable), "kingfisher")

    def scan(path):
        start = time.perf_counter()
        done = subprocess.run(
            [program, "scan", path, "--no-validate", "--no-update-check", "--no-dedup", "--jobs", "1", "--format", "json"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, "KF_RULE_CACHE_DIR": rules},
        )
        return time.perf_counter() - start, done.stdout

    with tempfile.TemporaryDirectory() as place:
        rules, nothing = os.path.join(place, "rules"), os.path.join(place, "nothing.txt")
        open(nothing, "w").close()
        scan(nothing)
        # Its start, with the rules from its cache, is not counted.
        pairs = [scan(large)[0] - scan(nothing)[0] for _ in range(5)]
        found = {}
        # A summary follows its report.
        report, _ = json.JSONDecoder().raw_decode(scan(folder)[1])
        for one in report["findings"]:
            name = os.path.basename(one["finding"]["path"])
            found.setdefault(name, []).append(one["finding"]["line"])
    return {"version": version("kingfisher-bin"), "seconds": sorted(pairs)[2], "lines": found}


def agy_mcp(folder, large):
    from agy_mcp.utils import redact_text as redact

    text = read(large)
    start = time.perf_counter()
    redact(text)
    seconds = time.perf_counter() - start
    texts = {name: redact(read(os.path.join(folder, name))) for name in names(folder)}
    return {"version": version("agy-mcp"), "seconds": seconds, "texts": texts}


def main():
    name, folder, large = sys.argv[1:]
    asked = {"detect-secrets": detect_secrets, "kingfisher": kingfisher, "agy-mcp": agy_mcp}[name]
    answer = asked(folder, large)
    answer["bytes"] = os.path.getsize(large)
    json.dump(answer, sys.stdout)


main()
