#!/usr/bin/env python3
"""Draws docs/gain.svg, the picture in the README, from the results of the benchmarks.

    python3 benches/picture.py

For each benchmark two bars: the elapsed time (median of the rounds, the whole command) of the plain kernel
with the better of its two readahead settings, and of the same program under `foretell run`, with the same
memory in total. Standard library only.
"""

import json
import pathlib

HERE = pathlib.Path(__file__).parent
OUT = HERE.parent / "docs" / "gain.svg"

CASES = [
    ("cyclic", "128 MiB read five times, 60 MiB of cache", "8 ms disk, rule mru"),
    ("random", "256 MiB in a known random order, twice, 64 MiB of cache", "1 ms × 8 channels, hints"),
    ("sequential", "1 GiB read once, nothing to gain", "8 ms disk, no rule"),
]
WIDTH, LEFT, BAR, GAP, TOP = 760, 20, 22, 92, 64
KERNEL, FORETELL, INK, FAINT = "#9aa5b1", "#1f78b4", "#1b1f24", "#57606a"


def best(arms, prefix):
    """The arm of a side with the least median elapsed time: its time and its device blocks."""
    sides = [arm for name, arm in arms.items() if name.startswith(prefix)]
    arm = min(sides, key=lambda arm: arm["wall_s"]["median"])
    return arm["wall_s"]["median"], arm["device_blocks"]["median"]


def text(x, y, content, size=13, fill=INK, weight="normal", anchor="start"):
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{content}</text>'
    )


def main():
    rows = []
    for name, what, where in CASES:
        arms = json.loads((HERE / "results" / f"{name}.json").read_text())["arms"]
        rows.append((what, where, best(arms, "kernel"), best(arms, "foretell")))
    height = TOP + GAP * len(rows) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui, sans-serif" role="img" aria-label="Elapsed time, kernel and foretell">',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        text(LEFT, 28, "Elapsed time with the same memory in total", 16, weight="600"),
        f'<rect x="{LEFT}" y="40" width="11" height="11" fill="{KERNEL}"/>',
        text(LEFT + 17, 50, "the kernel, better of two readahead settings", 12, FAINT),
        f'<rect x="{LEFT + 290}" y="40" width="11" height="11" fill="{FORETELL}"/>',
        text(LEFT + 307, 50, "the same program under foretell run", 12, FAINT),
    ]
    room = WIDTH - 2 * LEFT - 230
    for i, (what, where, kernel, ours) in enumerate(rows):
        y = TOP + GAP * i + 18
        longest = max(kernel[0], ours[0])
        parts.append(text(LEFT, y, what, 13, weight="600"))
        parts.append(text(WIDTH - LEFT, y, where, 12, FAINT, anchor="end"))
        for j, ((seconds, blocks), colour) in enumerate([(kernel, KERNEL), (ours, FORETELL)]):
            top = y + 8 + j * (BAR + 4)
            width = max(2, room * seconds / longest)
            label = f"{seconds:.1f} s, {blocks * 8 / 1024:,.0f} MiB read"
            if j == 1:
                label += f", {kernel[0] / seconds:.1f}×" if kernel[0] / seconds >= 1.05 else ""
            parts.append(f'<rect x="{LEFT}" y="{top}" width="{width:.0f}" height="{BAR}" rx="2" fill="{colour}"/>')
            parts.append(text(LEFT + width + 8, top + 16, label, 12.5))
    parts.append("</svg>")
    temporary = OUT.with_suffix(".tmp")
    temporary.write_text("\n".join(parts) + "\n")
    temporary.replace(OUT)
    print(OUT)


if __name__ == "__main__":
    main()
