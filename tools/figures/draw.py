#!/usr/bin/env python3
"""Draws the pictures of invariance/explained from the data that figure_data measured.

    draw.py DATA.json FOLDER      writes unique_completions.svg and errors.svg; standard library only
"""

import json
import math
import pathlib
import sys

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 40, 52
INK, GRID = "#333333", "#dddddd"
COLOURS = ["#0b6e4f", "#c8553d", "#3a6ea5"]


class Chart:
    """Lines over a logarithmic x axis."""

    def __init__(self, title, x_label, y_label, xs, y_low, y_high, y_log=False):
        self.xs, self.y_low, self.y_high, self.y_log = xs, y_low, y_high, y_log
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="sans-serif" font-size="12" fill="{INK}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            self.text(LEFT, 22, title, size=14),
            self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_label, anchor="middle"),
            f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" '
            f'text-anchor="middle">{y_label}</text>',
        ]

    @staticmethod
    def text(x, y, content, anchor="start", size=12, colour=INK):
        return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
                f'fill="{colour}">{content}</text>')

    def x(self, value):
        low, high = math.log(self.xs[0]), math.log(self.xs[-1])
        return LEFT + (math.log(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        low, high = self.y_low, self.y_high
        if self.y_log:
            value, low, high = (math.log(v) for v in (value, low, high))
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def grid(self, x_ticks, y_ticks):
        for value, label in y_ticks:
            y = self.y(value)
            self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
                              f'stroke="{GRID}"/>')
            self.parts.append(self.text(LEFT - 8, y + 4, label, anchor="end"))
        for value in x_ticks:
            self.parts.append(self.text(self.x(value), HEIGHT - BOTTOM + 18, value, "middle"))

    def line(self, values, name, colour):
        points = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(self.xs, values))
        self.parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                          f'stroke-width="2"/>')
        for x, y in zip(self.xs, values):
            self.parts.append(f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3" '
                              f'fill="{colour}"/>')
        self.parts.append(self.text(WIDTH - RIGHT + 10, self.y(values[-1]) + 4, name, colour=colour))

    def write(self, path):
        path.write_text("\n".join(self.parts + ["</svg>", ""]))


def unique_completions(data, folder):
    top = math.ceil(max(data["split_k"] + data["isobit"])) + 1
    chart = Chart("Different completions of one greedy request, batch sizes up to this one",
                  "requests in the batch", "different completions, mean of the prompts",
                  data["batch"], 0, top)
    chart.grid(data["batch"], [(v, v) for v in range(top + 1)])
    chart.line(data["split_k"], "K split by batch", COLOURS[1])
    chart.line(data["isobit"], "isobit", COLOURS[0])
    chart.write(folder / "unique_completions.svg")


def errors(data, folder):
    series = [("contract_chain", "contract: dot16 chain", COLOURS[0]),
              ("fp32_fma_chain", "fp32 FMA chain", COLOURS[1]),
              ("fp32_pairwise", "fp32 pairwise", COLOURS[2])]
    values = [v for key, _, _ in series for v in data[key]]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values + [2**-9])))
    chart = Chart("Median error of a sum of K products against fp64", "K, terms of the sum",
                  "error / root mean square of the sum", data["k"], 10.0**low, 10.0**high, True)
    chart.grid(data["k"], [(10.0**e, f"1e{e}") for e in range(low, high + 1)])
    for key, name, colour in series:
        chart.line(data[key], name, colour)
    chart.line([2**-9] * len(data["k"]), "half a unit of bf16 (2^-9)", "#999999")
    chart.write(folder / "errors.svg")


def main():
    data = json.loads(pathlib.Path(sys.argv[1]).read_text())
    folder = pathlib.Path(sys.argv[2])
    unique_completions(data["unique_completions"], folder)
    errors(data["errors"], folder)


if __name__ == "__main__":
    main()
