#!/usr/bin/env python3
"""Reads the event files of `tril train --tensorboard` with the tensorboard package and compares them with the log.

  tril train book.txt --tensorboard --out RUN
  check_tensorboard.py RUN [RUN...]

Both readers of the package are asked: the events one by one, and what TensorBoard itself would plot. Needs: pip install
tensorboard. Exit code 1 if a step is missing, stands twice or has another value than log.jsonl (which TensorBoard keeps as
32-bit floats).
"""
import json
import math
import os
import sys

import numpy
import tensorboard
from tensorboard.backend.event_processing import event_accumulator, event_file_loader

TAGS = {
    "loss/train": "loss_nats", "loss/validation": "validation_loss_nats", "bits_per_byte": "bits_per_byte",
    "learning_rate": "learning_rate", "gradient_norm": "gradient_norm", "tokens": "tokens", "tokens_per_s": "tokens_per_s",
}


def expected_of(run):
    with open(os.path.join(run, "log.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    return {
        tag: [(line["step"], float(numpy.float32(line[name]))) for line in lines if line.get(name) is not None]
        for tag, name in TAGS.items()
    }


def compare(run, reader, found, expected):
    if set(found) != {tag for tag in expected if expected[tag]}:
        sys.exit(f"{run}, {reader}: the tags are {sorted(found)}")
    for tag, values in found.items():
        if values != expected[tag]:
            different = next((pair for pair in zip(values, expected[tag]) if pair[0] != pair[1]), "their number")
            sys.exit(f"{run}, {reader}, {tag}: {len(values)} values, the log has {len(expected[tag])}; differ: {different}")


def check(run):
    folder = os.path.join(run, "tensorboard")
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if "tfevents" in name]
    files = [path for path in files if os.path.getsize(path) > 0]  # those before a restart are emptied
    expected, found, times = expected_of(run), {}, []
    for path in files:
        for event in event_file_loader.LegacyEventFileLoader(path).Load():
            times.append(event.wall_time)
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    compare(run, "events", found, expected)
    if times != sorted(times) or not all(map(math.isfinite, times)):
        sys.exit(f"{run}: the times of the events do not rise")

    accumulator = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.SCALARS: 0})
    accumulator.Reload()
    shown = {tag: [(s.step, s.value) for s in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}
    compare(run, "accumulator", shown, expected)
    values = sum(len(each) for each in shown.values())
    print(f"{run}: {len(shown['loss/train'])} steps, {values} values equal to the log's")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(f"tensorboard {tensorboard.__version__}")
    for run in sys.argv[1:]:
        check(run)


if __name__ == "__main__":
    main()
