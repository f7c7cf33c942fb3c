#!/usr/bin/env python3
"""Real streams through the command line, against an oracle that shares no code with the product.

Every stream file of the shared data is published into one server and read back with exact, subtree, `*`, overlapping
and non-matching filters, from the start, from a sequence and from a time. What the oracle expects is computed from the
input lines alone (topic matching included); the only thing taken from the server is which number each message got, and
that those numbers rise is checked first. Then a filtered read is resumed from every progress mark it was sent.

usage: streams.py --bin target/release/arioso --streams ../shared/data/streams [--only NAME] [--small N]
"""

import argparse
import base64
import collections
import datetime
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile


def fail(text):
    sys.exit(f"streams.py: {text}")


# The oracle: DESIGN.md section 2 in twenty lines.
def matches(filter_, topic):
    want, have = filter_.split("/"), topic.split("/")
    if have[0].startswith("$") and want[0] in ("*", "**"):
        return False
    if want[-1] == "**":
        want = want[:-1]
        if len(have) < len(want):
            return False
        have = have[: len(want)]
    elif len(want) != len(have):
        return False
    return all(w == "*" or w == h for w, h in zip(want, have))


def oracle(messages, filters, first=0, since=None):
    wild = [f for f in filters if "*" in f]
    exact = {f for f in filters if "*" not in f}
    verdict = {}
    for seq, ts, topic, rest in messages:
        if seq < first or (since is not None and ts < since):
            continue
        if topic not in verdict:
            verdict[topic] = topic in exact or any(matches(f, topic) for f in wild)
        if verdict[topic]:
            yield seq, topic, rest


class Bus:
    def __init__(self, binary, folder):
        self.binary = binary
        self.folder = folder
        self.log = open(os.path.join(folder, "server.log"), "wb")
        self.process = subprocess.Popen(
            [binary, "serve", "--data", os.path.join(folder, "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        try:
            self.address = json.loads(line)["listen"]
        except (ValueError, KeyError):
            fail(f"the server said {line!r} instead of its address")

    def run(self, *arguments, lines=True):
        command = [self.binary, arguments[0], "--server", self.address, *arguments[1:]]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for line in process.stdout:
            yield json.loads(line)
        error = process.stderr.read().decode()
        if process.wait() != 0:
            fail(f"{' '.join(command)}: status {process.returncode}: {error}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(60) != 0:
            fail(f"the server stopped with {self.process.returncode}")


def payload(message):
    text = message["payload"]
    if message.get("enc") != "b64":
        return text.encode()
    data = base64.b64decode(text, validate=True)
    return data


def is_text(data):
    try:
        data.decode()
        return True
    except UnicodeDecodeError:
        return False


def key(message):
    return payload(message), message.get("event_ts")


def publish(bus, path):
    last = None
    for line in bus.run("pub", "--jsonl", str(path)):
        last = line
    return last


def source(path):
    with subprocess.Popen(["zstd", "-dcq", "--long=27", str(path)], stdout=subprocess.PIPE) as process:
        for line in process.stdout:
            yield json.loads(line)
        if process.wait() != 0:
            fail(f"{path}: zstd ended with {process.returncode}")


def same(what, got, want):
    """Compares streams of tuples and returns how many."""
    count = 0
    missing = object()
    want = iter(want)
    for have in got:
        expected = next(want, missing)
        if have != expected:
            fail(f"{what}: message {count} is {have!r:.300}, expected {expected!r:.300}")
        count += 1
    rest = next(want, missing)
    if rest is not missing:
        fail(f"{what}: ended after {count} messages, expected {rest!r:.300}")
    return count


def rfc3339(ns):
    whole = datetime.datetime.fromtimestamp(ns // 10**9, datetime.timezone.utc)
    return f"@{whole:%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09d}Z"


def everything(bus, inputs):
    """All that was published, read back; checks order and bytes against the input files; gives the numbered list."""
    messages = []
    last = 0
    expected = (m for path in inputs for m in source(path))
    for message in bus.run("sub", "**", "--from", "start", "--until-end"):
        want = next(expected, None)
        if want is None:
            fail(f"more messages than were published: {message!r:.300}")
        if message["seq"] <= last:
            fail(f"sequence {message['seq']} after {last}")
        last = message["seq"]
        if message.get("enc") == "b64" and is_text(payload(message)):
            fail(f"sequence {message['seq']} is text and comes as base64")
        have = message["topic"], payload(message), message.get("event_ts")
        if have != (want["topic"], payload(want), want.get("ts")):
            fail(f"sequence {last} is {have!r:.300}, published was {want!r:.300}")
        messages.append((last, message["ts"], message["topic"], key(message)))
    rest = next(expected, None)
    if rest is not None:
        fail(f"ended after {len(messages)} messages, published was also {rest!r:.300}")
    return messages


def filter_sets(messages, rng):
    """Filters of every kind for one stream's part of the messages."""
    counts = collections.Counter(topic for _, _, topic, _ in messages)
    topics = sorted(counts)
    top = counts.most_common(1)[0][0]
    rare = min(topics, key=lambda t: (counts[t], t))
    some = rng.choice(topics)
    levels = some.split("/")
    star = "/".join("*" if i == len(levels) - 2 else level for i, level in enumerate(levels))
    return {
        "exact top": [top],
        "exact rare": [rare],
        "partition": ["/".join(some.split("/")[:2]) + "/**"],
        "deep subtree": ["/".join(levels[:-1]) + "/**"],
        "star": [star],
        "star and subtree": ["/".join(["*"] + levels[1:2]) + "/**"],
        "overlapping": [top, "/".join(top.split("/")[:2]) + "/**", top, star],
        "many exact": rng.sample(topics, min(len(topics), 300)),
        "matches nothing": [some + "/no such level", "no/such/**"],
    }


def check_reads(bus, name, messages, all_messages, rng):
    middle = messages[len(messages) // 2]
    for kind, filters in filter_sets(messages, rng).items():
        counts = []
        for start, arguments in {
            "start": {},
            str(middle[0]): {"first": middle[0]},
            rfc3339(middle[1]): {"since": middle[1]},
        }.items():
            got = bus.run("sub", *filters, "--from", start, "--until-end")
            got = ((m["seq"], m["topic"], key(m)) for m in got)
            counts.append(same(f"{name}, {kind}, from {start}", got, oracle(all_messages, filters, **arguments)))
        print(f"  {name:24} {kind:18} {len(filters):4} filters: {' / '.join(map(str, counts))} messages as expected")


def check_resume(bus, name, all_messages, filters, most):
    """Resumes from every progress mark that a read of these filters is sent (a random `most` of them if there are more)."""
    marks = []
    seen = 0
    for line in bus.run("sub", *filters, "--from", "start", "--until-end", "--marks"):
        if "through" in line:
            marks.append((line["through"], seen))
        else:
            seen += 1
    expected = list(oracle(all_messages, filters))
    if seen != len(expected):
        fail(f"{name}: {seen} messages with marks, expected {len(expected)}")
    chosen = marks if len(marks) <= most else sorted(random.Random(7).sample(marks, most))
    for through, delivered in chosen:
        got = bus.run("sub", *filters, "--from", str(through + 1), "--until-end")
        got = ((m["seq"], m["topic"], key(m)) for m in got)
        same(f"{name}, resumed after {through}", got, expected[delivered:])
    print(f"  {name:24} resumed from {len(chosen)} of {len(marks)} marks: the exact rest each time")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--streams", required=True)
    parser.add_argument("--only", action="append", help="a stream's name; all of them by default")
    parser.add_argument("--marks", type=int, default=200, help="marks to resume from, a stream")
    arguments = parser.parse_args()
    if not shutil.which("zstd"):
        fail("the command zstd is needed (package zstd)")
    paths = sorted(pathlib.Path(arguments.streams).glob("*.jsonl.zst"))
    if arguments.only:
        paths = [p for p in paths if p.name.split(".")[0] in arguments.only]
    if not paths:
        fail(f"no stream in {arguments.streams}")
    with tempfile.TemporaryDirectory() as folder:
        bus = Bus(os.path.abspath(arguments.bin), folder)
        for path in paths:
            print(f"  {path.name.split('.')[0]:24} published: {publish(bus, path)}")
        all_messages = everything(bus, paths)
        print(f"  {'everything':24} {len(all_messages)} messages in order, bytes equal")
        at = 0
        for path in paths:
            count = sum(1 for _ in source(path))
            own = all_messages[at:at + count]
            at += count
            name = path.name.split(".")[0]
            rng = random.Random(name)
            check_reads(bus, name, own, all_messages, rng)
            busiest = collections.Counter("/".join(t.split("/")[:2]) for _, _, t, _ in own).most_common(1)[0][0]
            check_resume(bus, name, all_messages, [busiest + "/**"], arguments.marks)
        bus.stop()
    print("streams.py: all as expected")


if __name__ == "__main__":
    main()
