"""How well spheres fit: figures for each link, as text, JSON or a page with pictures."""

from __future__ import annotations

import base64
import html
import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from hjcdik._inputs import Array
from hjcdik._spherize import triangles as tri
from hjcdik._spherize.solids import Solid

_DIRECTIONS = 400  # points on each sphere
_CHUNK = 4_000_000
_DRAWN_TRIANGLES = 4000
_NO_PICTURES = "Pictures need matplotlib: pip install 'hjcdik[viz]'"
_NAN = float("nan")


@dataclass(frozen=True)
class LinkReport:
    """How well the spheres of a link fit its geometry.

    Attributes:
        link: its name.
        spheres: how many there are.
        bulge_max_mm: the farthest that a point of the spheres sampled lies outside the geometry.
        bulge_p99_mm: 99 % of the spheres' common surface, by area, lie no farther outside.
        uncovered: the share of the geometry's surface samples outside all spheres.
        uncovered_max_mm: how far the worst of these is from the spheres; 0 if there is none.
        samples: how many surface samples there were.
    """

    link: str
    spheres: int
    bulge_max_mm: float
    bulge_p99_mm: float
    uncovered: float
    uncovered_max_mm: float
    samples: int


@dataclass(frozen=True)
class Report:
    """The figures of a sphere model: one row for each link, and the geometry that was judged by."""

    robot: str
    rows: tuple[LinkReport, ...]
    _spheres: Mapping[str, Array] = field(repr=False)
    _solids: Mapping[str, Solid] = field(repr=False)

    def __iter__(self) -> Iterator[LinkReport]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, link: str) -> LinkReport:
        for row in self.rows:
            if row.link == link:
                return row
        raise KeyError(link)

    @property
    def spheres(self) -> int:
        """Of all links."""
        return sum(row.spheres for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """What ``json.dumps`` can write; figures that there are none of are None."""
        rows = [{key: _plain(value) for key, value in asdict(row).items()} for row in self.rows]
        return {"robot": self.robot, "spheres": self.spheres, "links": rows}

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2, allow_nan=False) + "\n"

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows."""
        header = ("link", "spheres", "bulge max mm", "p99 mm", "uncovered", "of samples")
        rows: list[tuple[str, ...]] = [
            (
                row.link, str(row.spheres), f"{row.bulge_max_mm:.2f}", f"{row.bulge_p99_mm:.2f}",
                f"{row.uncovered:.4%}", str(row.samples),
            )
            for row in self.rows
        ]  # fmt: skip
        return header, rows

    def to_text(self) -> str:
        header, rows = self.table()
        widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in (header, *rows)
        ]
        return "\n".join([*lines, f"{self.spheres} spheres"]) + "\n"

    def to_html(self) -> str:
        """A page that needs no other file, with a picture of each link where matplotlib is installed."""
        header, rows = self.table()
        pictures = {
            row.link: _picture(self._solids.get(row.link), self._spheres[row.link]) for row in self.rows
        }
        note = "" if all(pictures.values()) else f"<p>{html.escape(_NO_PICTURES)}</p>"
        cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows
        )
        figures = "".join(
            f'<figure><img alt="{html.escape(link)}" src="data:image/png;base64,{picture}">'
            f"<figcaption>{html.escape(link)}</figcaption></figure>\n"
            for link, picture in pictures.items()
            if picture
        )
        title = html.escape(f"Spheres of {self.robot or 'a robot'}")
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"<style>{_STYLE}</style></head><body>\n<h1>{title}</h1>\n"
            f"<p>{self.spheres} spheres. {_EXPLAINED}</p>\n{note}"
            f"<table><tr>{cells}</tr>\n{body}</table>\n<div>{figures}</div>\n</body></html>\n"
        )


_EXPLAINED = (
    "Bulge: how far they stick out of the geometry. "
    "Uncovered: the share of its surface samples outside all spheres."
)
_STYLE = (
    "body{font:15px sans-serif;margin:2em}table{border-collapse:collapse}"
    "td,th{padding:.2em 1em;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}figure{display:inline-block;margin:1em}"
    "img{width:380px}figcaption{text-align:center}"
)


def make_report(
    robot: str, spheres: Mapping[str, Array], solids: Mapping[str, Solid], samples: int, seed: int
) -> Report:
    rows = []
    for link, balls in spheres.items():
        solid = solids.get(link)
        if solid is None:
            rows.append(LinkReport(link, len(balls), _NAN, _NAN, _NAN, _NAN, 0))
            continue
        random = np.random.default_rng(seed)
        top, percentile = bulges(solid, balls, random)
        points, _ = tri.sample(solid.triangles, samples, random)
        outside = outside_all(points, balls)
        bare = outside > 1e-9
        rows.append(
            LinkReport(
                link, len(balls), top * 1e3, percentile * 1e3, float(bare.mean()),
                max(float(outside.max()), 0.0) * 1e3 if bare.any() else 0.0, samples,
            )
        )  # fmt: skip
    return Report(robot, tuple(rows), dict(spheres), dict(solids))


def bulges(solid: Solid, spheres: Array, random: np.random.Generator) -> tuple[float, float]:
    """The largest distance outside the solid of what the spheres enclose, and the 99th percentile (m)."""
    directions = _directions(_DIRECTIONS)
    turn, _ = np.linalg.qr(random.normal(size=(3, 3)))
    points = (spheres[:, None, :3] + spheres[:, None, 3:] * (directions @ turn)).reshape(-1, 3)
    owner = np.repeat(np.arange(len(spheres)), len(directions))
    exposed = outside_all(points, spheres) > -1e-9 * (1 + spheres[owner, 3])
    if not exposed.any():
        return 0.0, 0.0
    heights = np.maximum(solid.distance(points[exposed]), 0)
    weights = spheres[owner[exposed], 3] ** 2
    order = np.argsort(heights, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    return float(heights.max()), float(heights[order][min(int(np.searchsorted(share, 0.99)), len(order) - 1)])


def outside_all(points: Array, spheres: Array) -> Array:
    """How far points lie outside the nearest sphere; negative inside."""
    nearest = np.empty(len(points))
    step = max(_CHUNK // max(len(spheres), 1), 1)
    for first in range(0, len(points), step):
        some = points[first : first + step, None]
        distance = np.linalg.norm(some - spheres[None, :, :3], axis=2) - spheres[None, :, 3]
        nearest[first : first + step] = distance.min(axis=1)
    return nearest


def _directions(count: int) -> Array:
    """Points spread evenly on the unit sphere (Fibonacci)."""
    index = np.arange(count) + 0.5
    z = 1 - 2 * index / count
    angle = index * (np.pi * (3 - math.sqrt(5)))
    flat = np.sqrt(1 - z**2)
    return np.stack([flat * np.cos(angle), flat * np.sin(angle), z], axis=1)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _picture(solid: Solid | None, spheres: Array) -> str:
    """A PNG as base64 text; "" without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from mpl_toolkits.mplot3d.art3d import Poly3DCollection
    except ImportError:
        return ""
    figure = Figure(figsize=(4, 4), dpi=110)
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot(projection="3d")
    corners = np.concatenate([spheres[:, :3] - spheres[:, 3:], spheres[:, :3] + spheres[:, 3:]])
    if solid is not None:
        drawn = solid.triangles
        if len(drawn) > _DRAWN_TRIANGLES:  # the largest say most
            drawn = drawn[np.argsort(-tri.areas(drawn), kind="stable")[:_DRAWN_TRIANGLES]]
        axes.add_collection3d(
            Poly3DCollection(drawn, facecolor="#8a93a0", edgecolor="#4a5360", linewidth=0.15, alpha=0.35)
        )
    u, v = np.linspace(0, 2 * np.pi, 17), np.linspace(0, np.pi, 10)
    ball = np.stack(
        [np.outer(np.cos(u), np.sin(v)), np.outer(np.sin(u), np.sin(v)), np.outer(np.ones(17), np.cos(v))]
    )
    for x, y, z, radius in spheres:
        axes.plot_surface(
            *(radius * ball + np.array([x, y, z])[:, None, None]), color="#e08030", alpha=0.25, linewidth=0
        )
    low, high = corners.min(axis=0), corners.max(axis=0)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    axes.set_box_aspect(high - low)
    axes.tick_params(labelsize=6)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return base64.b64encode(picture.getvalue()).decode()
