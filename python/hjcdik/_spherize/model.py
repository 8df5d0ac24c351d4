"""Sphere models: fitted to a robot's geometry or read from files, judged, moved to other URDFs, written."""

from __future__ import annotations

import json
import logging
import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, SupportsIndex
from xml.etree import ElementTree

import numpy as np

from hjcdik import _inputs
from hjcdik._errors import ModelError
from hjcdik._files import write_text
from hjcdik._inputs import Array
from hjcdik._sources import Source, find_spheres
from hjcdik._spherize import cover, pairs
from hjcdik._spherize.rebind import rebound
from hjcdik._spherize.report import Report, bulges, make_report
from hjcdik._spherize.robot import PackageDirs, Robot, find_meshes, make_solid, parse_xml, read_robot
from hjcdik._spherize.solids import Solid

MODES = ("bounded-bulge", "voxel")
GEOMETRIES = ("collision", "visual")
_MOST_CHECKED = 768  # by a Solver
_DIGITS = 7  # a tenth of a micrometre
_BULGE_ERROR = 2e-4  # m, of distances to meshes
_log = logging.getLogger("hjcdik")


@dataclass(frozen=True, eq=False)
class SphereModel:
    """Collision spheres of a robot, by link. Immutable.

    Attributes:
        robot: the robot's name.
        links: rows (n, 4) ``x y z radius`` in metres, in the frame of the link; read-only.
        ignore_pairs: pairs of links that need no check against each other.
        base_links: those of the links that nothing moves; a Solver leaves them out unless ``check_base``.
        fit: how the spheres were made.
    """

    robot: str
    links: Mapping[str, Array]
    ignore_pairs: tuple[tuple[str, str], ...]
    base_links: tuple[str, ...]
    fit: Mapping[str, Any] = field(default_factory=dict)
    _source: Robot | None = field(default=None, repr=False)
    _solids: Mapping[str, Solid] = field(default_factory=dict, repr=False)
    _reasons: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for spheres in self.links.values():
            spheres.setflags(write=False)

    def __len__(self) -> int:
        """The number of spheres."""
        return sum(len(spheres) for spheres in self.links.values())

    def __repr__(self) -> str:
        return f"<SphereModel of {self.robot!r}: {len(self)} spheres on {len(self.links)} links>"

    @staticmethod
    def load(
        spheres: Source,
        urdf: Source | None = None,
        *,
        package_dirs: PackageDirs = None,
        ignore_missing: bool = True,
        geometry: str = "collision",
    ) -> SphereModel:
        """A model from a file, to be judged or moved to another URDF.

        Args:
            spheres: path or text of a JSON sphere model or of a spherized URDF.
            urdf: the robot that it was made for, with the geometry that ``report`` judges by. Needed for
                JSON; a spherized URDF is its own, unless this is given.
            package_dirs, ignore_missing, geometry: as for ``hjcdik.spherize``.
        """
        content, name = find_spheres(spheres)
        if content == name.encode():
            raise ValueError(f"the packaged model {name!r} is not a file; give one")
        if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            own = read_robot(content.decode("utf-8-sig")) if name == "<string>" else read_robot(spheres)
            robot = own if urdf is None else read_robot(urdf, _checked(geometry, GEOMETRIES, "geometry"))
            links = {link.name: _verbatim(link.shapes) for link in own.links.values() if link.shapes}
            for link in own.links.values():
                if not link.only_spheres:
                    raise ModelError(
                        f"{name}:{link.line}: link {link.name!r}: spheres only are expected", name
                    )
            moved, _ = rebound(links, own, robot)
            return _model(robot, moved, (), {"read_from": Path(name).name}, {})
        if urdf is None:
            raise ValueError("a JSON sphere model says nothing of frames: give its robot's URDF too")
        robot = read_robot(urdf, _checked(geometry, GEOMETRIES, "geometry"))
        links, ignored = _read_json(content, name, robot)
        shaped = [link for link in links if robot.links[link].shapes]
        files, missing = find_meshes(robot, shaped, package_dirs, ignore_missing)
        solids = {link: make_solid(robot, robot.links[link], files) for link in shaped if link not in missing}
        return _model(robot, links, ignored, {"read_from": Path(name).name}, solids)

    def report(self, *, samples: SupportsIndex = 20_000, seed: SupportsIndex = 1) -> Report:
        """How well the spheres fit the robot's geometry, by fresh samples of either's surface.

        Figures of links without geometry are NaN.
        """
        count = _inputs.integer(samples, "samples", 1)
        return make_report(self.robot, self.links, self._solids, count, _inputs.integer(seed, "seed", 0))

    def rebind(self, urdf: Source) -> SphereModel:
        """The same spheres in the link frames of another URDF of the same robot.

        Links go by name, with all joints at 0; a link that the other lacks goes to one that is welded to it.

        Raises:
            ModelError: where the robots differ, naming the first joint that does.
        """
        robot, other = self._need_robot(), read_robot(urdf)
        links, names = rebound(self.links, robot, other)
        ignored = {(names.get(a, a), names.get(b, b)) for a, b in self.ignore_pairs}
        kept = tuple(pair for pair in sorted(ignored) if pair[0] != pair[1])
        return _model(other, links, kept, {**self.fit, "rebound_from": Path(robot.source).name}, {})

    def to_json(self) -> str:
        """The spheres with the pairs, in the JSON form that ``Solver(..., spheres=...)`` takes."""
        head = {"robot": self.robot, "source": "hjcdik spherize", "fit": dict(self.fit)}
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
        lines.append(f'  "base_links_not_checked": {json.dumps(list(self.base_links))},')
        ignored = ",\n".join(f"    {json.dumps(list(pair))}" for pair in self.ignore_pairs)
        lines.append(
            f'  "self_collision_ignore_pairs": [{chr(10) + ignored + chr(10) + "  " if ignored else ""}],'
        )
        links = []
        for link, spheres in self.links.items():
            rows = ",\n".join(f"      [{', '.join(map(_number, row))}]" for row in spheres.tolist())
            links.append(f"    {json.dumps(link)}: [\n{rows}\n    ]")
        return "{\n" + "\n".join(lines) + '\n  "spheres": {\n' + ",\n".join(links) + "\n  }\n}\n"

    def to_urdf(self, robot_urdf: Source | None = None) -> str:
        """A spherized URDF, with these spheres as its only <collision> geometry.

        By default it is the one that the spheres were made for. The pairs are not part of it:
        ``to_srdf`` has them.
        """
        robot = self._need_robot() if robot_urdf is None else read_robot(robot_urdf)
        root = parse_xml(robot.text.encode(), robot.source)
        for name in self.links:
            robot.find_link(name, "the spheres")
        for link in root.findall("link"):
            for old in link.findall("collision"):
                link.remove(old)
            for x, y, z, radius in self.links.get(link.get("name", ""), np.empty((0, 4))).tolist():
                collision = ElementTree.SubElement(link, "collision")
                ElementTree.SubElement(
                    collision, "origin", xyz=" ".join(map(_number, (x, y, z))), rpy="0 0 0"
                )
                geometry = ElementTree.SubElement(collision, "geometry")
                ElementTree.SubElement(geometry, "sphere", radius=_number(radius))
        ElementTree.indent(root)
        return f'<?xml version="1.0"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'

    def to_srdf(self) -> str:
        """The pairs that need no check, as an SRDF for ``Solver(..., srdf=...)``."""
        root = ElementTree.Element("robot", name=self.robot)
        for a, b in self.ignore_pairs:
            reason = self._reasons.get((a, b), "User")
            ElementTree.SubElement(root, "disable_collisions", link1=a, link2=b, reason=reason)
        ElementTree.indent(root)
        return f'<?xml version="1.0"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what ``to_json``, ``to_urdf`` or ``to_srdf`` gives: .json, .urdf (or .xml), or .srdf."""
        writers = {".json": self.to_json, ".urdf": self.to_urdf, ".xml": self.to_urdf, ".srdf": self.to_srdf}
        suffix = Path(path).suffix.lower()
        if suffix not in writers:
            raise ValueError(f"{path}: the file's name must end with one of {', '.join(writers)}")
        write_text(path, writers[suffix]())

    def _need_robot(self) -> Robot:
        if self._source is None:
            raise ValueError("this model was made without a robot: SphereModel.load(spheres, urdf) has one")
        return self._source


def spherize(
    urdf: Source,
    *,
    mode: str = "bounded-bulge",
    bulge_mm: float = 10.0,
    resolution: float = 0.05,
    package_dirs: PackageDirs = None,
    links: Iterable[str] | None = None,
    ee_link: str | None = None,
    ignore_missing: bool = False,
    self_pairs_samples: SupportsIndex = 1000,
    ignore_never: bool = False,
    geometry: str = "collision",
    seed: SupportsIndex = 0,
) -> SphereModel:
    """Collision spheres for a robot, from the meshes and primitives of its URDF.

    Needs the extra ``hjcdik[spherize]``. The same arguments give the same spheres.

    Args:
        urdf: path or text of a URDF. A link whose geometry is spheres alone keeps them as they are.
        mode: "bounded-bulge": few spheres that contain the whole surface, none of which sticks out by more
            than ``bulge_mm``. "voxel": spheres that contain every voxel that the geometry reaches into, its
            inside too; they stick out by up to 1.74 times the resolution.
        bulge_mm: the bound, in millimetres.
        resolution: side of the voxels, in metres.
        package_dirs: where packages of ``package://`` URIs are: a mapping from names to folders, or folders
            that hold packages. ROS_PACKAGE_PATH, AMENT_PREFIX_PATH and the folders above the URDF come after.
        links: the links to fit (default: all that have geometry).
        ee_link: the tool, a link or a fixed joint: joints that do not move it stand still where pairs are
            sampled, as they do in a Solver.
        ignore_missing: leave out links whose meshes are missing, with a warning in the log, instead of
            raising.
        self_pairs_samples: configurations to sample for pairs of links that overlap in nearly all of them; 0:
            neighbours alone are listed.
        ignore_never: also list pairs that overlap in none of the samples.
        geometry: "collision", or "visual" for a URDF that has no other.
        seed: of all that is random.

    Raises:
        ModelError: (a ValueError) for an unusable URDF or mesh, and for missing meshes, all of them named.
        ValueError: for a bad argument.
        ImportError: where the extra is not installed.
    """
    return fit(
        urdf,
        mode=mode,
        bulge_mm=bulge_mm,
        resolution=resolution,
        package_dirs=package_dirs,
        links=links,
        ee_link=ee_link,
        ignore_missing=ignore_missing,
        self_pairs_samples=self_pairs_samples,
        ignore_never=ignore_never,
        geometry=geometry,
        seed=seed,
    )


def fit(
    urdf: Source,
    *,
    mode: str,
    bulge_mm: float,
    resolution: float,
    package_dirs: PackageDirs,
    links: Iterable[str] | None,
    ee_link: str | None,
    ignore_missing: bool,
    self_pairs_samples: SupportsIndex,
    ignore_never: bool,
    geometry: str,
    seed: SupportsIndex,
    progress: Callable[[int, int], None] | None = None,
) -> SphereModel:
    """``spherize``, which calls `progress` with the number of links that are ready and of all."""
    _checked(mode, MODES, "mode")
    _checked(geometry, GEOMETRIES, "geometry")
    bulge = _positive(bulge_mm, "bulge_mm", 0.1, 1000) * 1e-3
    voxel = _positive(resolution, "resolution", 1e-4, 10)
    samples = _inputs.integer(self_pairs_samples, "self_pairs_samples", 0, 1_000_000)
    number = _inputs.integer(seed, "seed", 0)
    _inputs.flag(ignore_missing, "ignore_missing")
    _inputs.flag(ignore_never, "ignore_never")
    robot = read_robot(urdf, geometry)
    tool = _tool(robot, ee_link)
    names = _names(robot, links, geometry)
    files, missing = find_meshes(robot, names, package_dirs, ignore_missing)
    names = [name for name in names if name not in missing]
    if not names:
        raise ModelError(
            f"{robot.source}: no link is left: the meshes of all of them are missing", robot.source
        )

    spheres: dict[str, Array] = {}
    solids: dict[str, Solid] = {}
    for ready, name in enumerate(names):
        if progress is not None:
            progress(ready, len(names))
        link = robot.links[name]
        solids[name] = make_solid(robot, link, files)
        # A link's spheres do not depend on which others are fitted.
        seeds = [number, *name.encode()]
        label = f"{robot.source}:{link.line}: link {name!r}"
        try:
            if link.only_spheres:
                found = _verbatim(link.shapes)
            elif mode == "voxel":
                found = cover.voxels(solids[name], voxel)
            else:
                found = _bounded(solids[name], bulge, seeds, label)
        except cover.TooLargeError as error:
            element = f"link {name!r}"
            raise ModelError(f"{label}: {error}", robot.source, link.line, element) from None
        spheres[name] = _rounded(found)
    reasons = pairs.needless_pairs(
        robot, spheres, tool, samples, np.random.default_rng([number]), ignore_never
    )
    settings: dict[str, Any] = {"mode": mode, "geometry": geometry, "seed": number}
    settings.update({"bulge_mm": bulge_mm} if mode == "bounded-bulge" else {"resolution_m": resolution})
    model = _model(robot, spheres, tuple(reasons), settings, solids, reasons)
    checked = sum(len(rows) for name, rows in spheres.items() if name not in model.base_links)
    if checked > _MOST_CHECKED:
        _log.warning(
            "%s: %d spheres are to be checked, and a Solver takes %d at most: allow a larger bulge or "
            "resolution, or fit fewer links",
            robot.source, checked, _MOST_CHECKED,
        )  # fmt: skip
    return model


def _bounded(solid: Solid, bulge: float, seeds: list[int], label: str) -> Array:
    """A ball inside an open mesh may stick out where there is nothing: then it is fitted as a sheet."""
    found = cover.bounded_bulge(solid, bulge, np.random.default_rng(seeds))
    if solid.closed:
        return found
    most, _ = bulges(solid, found, np.random.default_rng(seeds))
    if most <= bulge + _BULGE_ERROR:
        return found
    _log.warning(
        "%s: a mesh of it is so open that spheres would stick out by %.1f mm: it is fitted as a sheet, "
        "which takes more spheres; close the mesh, or use mode 'voxel'",
        label, most * 1e3,
    )  # fmt: skip
    solid.take_for_sheets()
    return cover.bounded_bulge(solid, bulge, np.random.default_rng(seeds))


def _model(
    robot: Robot,
    links: Mapping[str, Array],
    ignored: tuple[tuple[str, str], ...],
    fit: Mapping[str, Any],
    solids: Mapping[str, Solid],
    reasons: Mapping[tuple[str, str], str] | None = None,
) -> SphereModel:
    base = tuple(name for name in links if not robot.mover(name))
    return SphereModel(
        robot.name, dict(links), ignored, base, dict(fit), robot, dict(solids), dict(reasons or {})
    )


def _names(robot: Robot, links: Iterable[str] | None, geometry: str) -> list[str]:
    if links is None:
        names = [link.name for link in robot.links.values() if link.shapes]
        if not names:
            other = GEOMETRIES[1 - GEOMETRIES.index(geometry)]
            raise ModelError(
                f"{robot.source}: no link has <{geometry}> geometry; geometry={other!r} (--geometry {other}) "
                "takes the other",
                robot.source,
            )
        return names
    if isinstance(links, str):
        raise ValueError("links must be names, not one text")
    names = []
    for name in dict.fromkeys(links):
        link = robot.find_link(name, "links")
        if not link.shapes:
            label = f"link {name!r}"
            raise ModelError(
                f"{robot.source}:{link.line}: {label}: it has no <{geometry}> geometry", robot.source
            )
        names.append(name)
    if not names:
        raise ValueError("links is empty")
    return names


def _tool(robot: Robot, ee_link: str | None) -> str | None:
    if ee_link is None or ee_link in robot.links:
        return ee_link
    joint = robot.joints.get(ee_link)
    return joint.child if joint else robot.find_link(ee_link, "ee_link").name


def _verbatim(shapes: Iterable[Any]) -> Array:
    return np.array([[*shape.frame[:3, 3], shape.size[0]] for shape in shapes]).reshape(-1, 4)


def _rounded(spheres: Array) -> Array:
    """To the digits that files have; radii make up for the rounding of centres."""
    scale = 10.0**_DIGITS
    rounded = np.round(spheres * scale)
    moved = np.linalg.norm(rounded[:, :3] - spheres[:, :3] * scale, axis=1)
    rounded[:, 3] = np.ceil(spheres[:, 3] * scale + moved - 1e-3)  # what has these digits keeps them
    return rounded / scale


def _number(value: float) -> str:
    return f"{value:.10g}"


def _read_json(
    content: bytes, name: str, robot: Robot
) -> tuple[dict[str, Array], tuple[tuple[str, str], ...]]:
    try:
        document = json.loads(content.decode("utf-8-sig"))
        rows = {
            link: np.array(spheres, float).reshape(-1, 4) for link, spheres in document["spheres"].items()
        }
        listed = document.get("self_collision_ignore_pairs", [])
        ignored = tuple((str(a), str(b)) for a, b in listed)
        still = set(document.get("base_links_not_checked", []))
    except json.JSONDecodeError as error:
        raise ModelError(f"{name}:{error.lineno}: not JSON: {error.msg}", name, error.lineno) from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ModelError(f"{name}: not a JSON sphere model: {error!r}", name) from None
    for link in list(rows):
        if link not in robot.links and link in still:
            del rows[link]
        else:
            robot.find_link(link, f"spheres of {name}")
    return rows, ignored


def _checked(value: Any, choices: tuple[str, ...], name: str) -> str:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return str(value)


def _positive(value: Any, name: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not low <= float(value) <= high:
        raise ValueError(f"{name} must be a number in [{low:g}, {high:g}], not {value!r}")
    return float(value)
