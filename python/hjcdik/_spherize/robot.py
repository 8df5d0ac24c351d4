"""What the spherizer reads from a URDF: links with their geometry, joints, and where meshes lie."""

from __future__ import annotations

import difflib
import logging
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TypeAlias
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np

from hjcdik._errors import ModelError
from hjcdik._info import preset_urdf
from hjcdik._inputs import Array
from hjcdik._sources import Source, find_robot
from hjcdik._spherize import solids
from hjcdik._spherize._optional import need
from hjcdik._spherize.triangles import Ints

PackageDirs: TypeAlias = "Mapping[str, Source] | Sequence[Source] | Source | None"

_MOVING = ("revolute", "continuous", "prismatic", "planar", "floating")
_SHAPES = ("box", "cylinder", "sphere", "capsule", "mesh")
_log = logging.getLogger("hjcdik")


class Element(ElementTree.Element):
    """One that knows its line."""

    line = 0


@dataclass(frozen=True)
class Shape:
    """A <collision> or <visual> element."""

    kind: str  # one of _SHAPES
    frame: Array  # (4, 4) in the link's frame
    size: tuple[float, ...]  # box: sides; cylinder, capsule: radius, length; sphere: radius; mesh: scale
    uri: str = ""
    line: int = 0


@dataclass(frozen=True)
class Link:
    name: str
    line: int
    shapes: tuple[Shape, ...]

    @property
    def only_spheres(self) -> bool:
        return all(shape.kind == "sphere" for shape in self.shapes)


@dataclass(frozen=True)
class Joint:
    name: str
    kind: str
    parent: str
    child: str
    origin: Array
    axis: Array
    limits: tuple[float, float]
    mimic: tuple[str, float, float] | None  # joint, multiplier, offset
    line: int

    @property
    def moves(self) -> bool:
        return self.kind != "fixed"

    def motions(self, values: Array) -> Array:
        """(n, 4, 4) of values (n,)."""
        motion = np.tile(np.eye(4), (len(values), 1, 1))
        if self.kind == "prismatic":
            motion[:, :3, 3] = values[:, None] * self.axis
        elif self.kind in ("revolute", "continuous"):
            x, y, z = self.axis
            cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
            sine, rest = np.sin(values)[:, None, None], (1 - np.cos(values))[:, None, None]
            motion[:, :3, :3] += sine * cross + rest * (cross @ cross)
        return motion


@dataclass(frozen=True)
class Robot:
    """A tree of links."""

    name: str
    source: str  # for messages
    text: str
    folder: Path  # that relative paths begin at
    links: dict[str, Link]
    joints: dict[str, Joint]
    parents: dict[str, Joint] = field(repr=False)  # by child link
    root: str

    def path(self, link: str) -> list[Joint]:
        """The joints from the root to a link."""
        joints = []
        while link in self.parents:
            joints.append(self.parents[link])
            link = joints[-1].parent
        return joints[::-1]

    def mover(self, link: str) -> str:
        """The joint that moves a link; "" for what is welded to the root."""
        return next((joint.name for joint in reversed(self.path(link)) if joint.moves), "")

    def frames(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """(n, 4, 4) of every link in the root's frame, for values (n,) of the joints; without one: 0."""
        count = next((len(v) for v in values.values()), 1)
        zeros = np.zeros(count)
        frames = {self.root: np.tile(np.eye(4), (count, 1, 1))}
        for joint in self._in_order():
            value = values.get(joint.name, zeros)
            if joint.mimic and joint.mimic[0] in self.joints:
                leader, factor, offset = joint.mimic
                value = factor * values.get(leader, zeros) + offset
            frames[joint.child] = frames[joint.parent] @ joint.origin @ joint.motions(value)
        return frames

    def find_link(self, name: str, what: str) -> Link:
        if name not in self.links:
            near = difflib.get_close_matches(name, list(self.links), 3, 0.4)
            hint = f"; the nearest names are {', '.join(map(repr, near))}" if near else ""
            raise ModelError(f"{self.source}: {what}: the robot has no link {name!r}{hint}", self.source)
        return self.links[name]

    def _in_order(self) -> list[Joint]:
        children: dict[str, list[Joint]] = {}
        for joint in self.joints.values():
            children.setdefault(joint.parent, []).append(joint)
        order, open_ = [], [self.root]
        while open_:
            for joint in children.get(open_.pop(), []):
                order.append(joint)
                open_.append(joint.child)
        return order


def read_robot(urdf: Source, geometry: str = "collision") -> Robot:
    """From a path, a text, or the name of a preset."""
    preset, content, name = find_robot(urdf)
    if content is None:
        content, name = preset_urdf(preset).encode(), preset
    is_path = not preset and not (isinstance(urdf, str) and urdf.lstrip("\ufeff \t\r\n").startswith("<"))
    folder = Path(urdf).resolve().parent if is_path else Path.cwd()
    return _Parser(content, name, folder, geometry).parse()


# --- Parsing ------------------------------------------------------------------------------------


class _Parser:
    def __init__(self, content: bytes, source: str, folder: Path, geometry: str) -> None:
        self.content, self.source, self.folder, self.geometry = content, source, folder, geometry

    def parse(self) -> Robot:
        root = parse_xml(self.content, self.source)
        if root.tag != "robot":
            raise ModelError(f"{self.source}: <robot> is expected, not <{root.tag}>", self.source)
        links: dict[str, Link] = {}
        for element in root.findall("link"):
            name = self.required(element, "name", "a link")
            if name in links:
                self.fail(element, f"link {name!r}", "its name is used twice")
            shapes = [self.shape(e, f"link {name!r}") for e in element.findall(self.geometry)]
            links[name] = Link(name, _line(element), tuple(s for s in shapes if s))
        if not links:
            raise ModelError(f"{self.source}: there are no links", self.source)
        joints: dict[str, Joint] = {}
        parents: dict[str, Joint] = {}
        for element in root.findall("joint"):
            joint = self.joint(element)
            for end in (joint.parent, joint.child):
                if end not in links:
                    self.fail(element, f"joint {joint.name!r}", f"there is no link {end!r}")
            if joint.child in parents:
                self.fail(element, f"joint {joint.name!r}", f"link {joint.child!r} has two parents")
            joints[joint.name] = parents[joint.child] = joint
        roots = [name for name in links if name not in parents]
        if len(roots) != 1:
            raise ModelError(f"{self.source}: the links must form one tree; roots: {roots}", self.source)
        robot = Robot(
            root.get("name", ""), self.source, self.content.decode("utf-8-sig", "replace"), self.folder,
            links, joints, parents, roots[0],
        )  # fmt: skip
        if len(robot._in_order()) != len(joints):
            raise ModelError(f"{self.source}: the joints form a cycle", self.source)
        return robot

    def shape(self, element: ElementTree.Element, label: str) -> Shape | None:
        geometry = element.find("geometry")
        shapes = [] if geometry is None else list(geometry)
        if len(shapes) != 1:
            self.fail(element, label, f"<{element.tag}> must have one <geometry> with one shape")
        shape = shapes[0]
        frame, line = self.origin(element, label), _line(shape)
        if shape.tag == "mesh":
            uri = self.required(shape, "filename", label)
            scale = self.numbers(shape, "scale", 3, label, "1 1 1")
            if 0 in scale:
                self.fail(shape, label, f"scale of <mesh> must not be 0, as in {shape.get('scale')!r}")
            return Shape("mesh", frame, scale, uri, line)
        if shape.tag == "box":
            return Shape("box", frame, self.positive(shape, "size", 3, label), "", line)
        if shape.tag == "sphere":
            return Shape("sphere", frame, self.positive(shape, "radius", 1, label), "", line)
        if shape.tag in ("cylinder", "capsule"):
            sizes = self.positive(shape, "radius", 1, label) + self.positive(shape, "length", 1, label)
            return Shape(shape.tag, frame, sizes, "", line)
        return self.fail(shape, label, f"<{shape.tag}> is none of the shapes {', '.join(_SHAPES)}")

    def joint(self, element: ElementTree.Element) -> Joint:
        name = self.required(element, "name", "a joint")
        label = f"joint {name!r}"
        kind = self.required(element, "type", label)
        if kind not in ("fixed", *_MOVING):
            self.fail(element, label, f"unknown type {kind!r}")
        ends = []
        for tag in ("parent", "child"):
            end = element.find(tag)
            if end is None:
                self.fail(element, label, f"<{tag}> is missing")
            ends.append(self.required(end, "link", label))
        axis_element = element.find("axis")
        axis = np.array(
            (1.0, 0, 0) if axis_element is None else self.numbers(axis_element, "xyz", 3, label, "1 0 0")
        )
        if kind != "fixed" and not np.any(axis):
            self.fail(element, label, "its axis is zero")
        axis = axis / (np.linalg.norm(axis) or 1)
        limit, mimic = element.find("limit"), element.find("mimic")
        low, high = -math.pi, math.pi
        if kind in ("revolute", "prismatic"):
            low, high = (0.0, 0.0) if limit is None else (
                self.numbers(limit, end, 1, label, "0")[0] for end in ("lower", "upper")
            )  # fmt: skip
        follows = None
        if mimic is not None:
            factor, offset = (
                self.numbers(mimic, key, 1, label, default)[0]
                for key, default in (("multiplier", "1"), ("offset", "0"))
            )
            follows = (self.required(mimic, "joint", label), factor, offset)
        origin = self.origin(element, label)
        return Joint(name, kind, ends[0], ends[1], origin, axis, (low, high), follows, _line(element))

    def origin(self, element: ElementTree.Element, label: str) -> Array:
        origin = element.find("origin")
        frame = np.eye(4)
        if origin is None:
            return frame
        frame[:3, 3] = self.numbers(origin, "xyz", 3, label, "0 0 0")
        roll, pitch, yaw = self.numbers(origin, "rpy", 3, label, "0 0 0")
        (a, b, c), (d, e, f) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
        frame[:3, :3] = [
            [c * b, c * e * d - f * a, c * e * a + f * d],
            [f * b, f * e * d + c * a, f * e * a - c * d],
            [-e, b * d, b * a],
        ]
        return frame

    def positive(self, element: ElementTree.Element, key: str, count: int, label: str) -> tuple[float, ...]:
        values = self.numbers(element, key, count, label, None)
        if min(values) <= 0:
            self.fail(element, label, f"{key} of <{element.tag}> must be above 0, not {element.get(key)!r}")
        return values

    def numbers(
        self, element: ElementTree.Element, key: str, count: int, label: str, default: str | None
    ) -> tuple[float, ...]:
        text = element.get(key, default)
        try:
            values = tuple(float(word) for word in ("" if text is None else text).split())
        except ValueError:
            values = ()
        if len(values) == 1 and key == "scale":
            values *= 3
        if len(values) != count or not all(math.isfinite(v) for v in values):
            self.fail(
                element, label, f"{key} of <{element.tag}> must be {count} finite number(s), not {text!r}"
            )
        return values

    def required(self, element: ElementTree.Element, key: str, label: str) -> str:
        value = element.get(key)
        if not value:
            self.fail(element, label, f"<{element.tag}> has no {key!r}")
        return value

    def fail(self, element: ElementTree.Element, label: str, problem: str) -> NoReturn:
        line = _line(element)
        raise ModelError(f"{self.source}:{line}: {label}: {problem}", self.source, line, label)


def parse_xml(content: bytes, source: str) -> ElementTree.Element:
    """A document whose elements know their lines."""
    reader = expat.ParserCreate()

    def make(tag: str, attributes: dict[str, str]) -> Element:
        element = Element(tag, attributes)
        element.line = reader.CurrentLineNumber
        return element

    builder = ElementTree.TreeBuilder(element_factory=make)
    reader.StartElementHandler = builder.start
    reader.EndElementHandler = builder.end
    reader.CharacterDataHandler = builder.data
    try:
        reader.Parse(content, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise ModelError(f"{source}:{error.lineno}: not XML: {reason}", source, error.lineno) from None
    return builder.close()


def _line(element: ElementTree.Element) -> int:
    return element.line if isinstance(element, Element) else 0


# --- Meshes -------------------------------------------------------------------------------------

_EXTRAS = ("trimesh", "scipy", "collada")  # those of the extra "spherize" that are asked for by name


@dataclass(frozen=True)
class MissingMesh:
    link: str
    uri: str
    reason: str
    line: int


class MeshFinder:
    """From the URIs of a URDF to files."""

    def __init__(self, robot: Robot, package_dirs: PackageDirs) -> None:
        self._folder = robot.folder
        self._packages: dict[str, Path] = {}
        self._searched: list[Path] = []
        if isinstance(package_dirs, Mapping):
            self._packages = {name: Path(folder) for name, folder in package_dirs.items()}
        elif isinstance(package_dirs, (str, os.PathLike)):
            self._searched = [Path(package_dirs)]
        elif package_dirs is not None:
            self._searched = [Path(folder) for folder in package_dirs]
        for name, folder in self._packages.items():
            if not folder.is_dir():
                raise ValueError(f"package_dirs: {name}: there is no folder {folder}")
        for folder in self._searched:
            if not folder.is_dir():
                raise ValueError(f"package_dirs: there is no folder {folder}")
        for variable, below in (("ROS_PACKAGE_PATH", ""), ("AMENT_PREFIX_PATH", "share")):
            for entry in filter(None, os.environ.get(variable, "").split(os.pathsep)):
                self._searched.append(Path(entry) / below)

    def find(self, uri: str) -> Path | str:
        """The file, or why there is none."""
        parts = urlsplit(uri)
        scheme = parts.scheme.lower()
        if scheme in ("package", "model"):
            name, _, rest = uri[len(scheme) + 3 :].partition("/")
            folders = list(self._package(name))
            for folder in folders:
                if (folder / rest).is_file():
                    return folder / rest
            if folders:
                problem = "is a folder" if (folders[0] / rest).is_dir() else "does not exist"
                return f"{folders[0] / rest} {problem}"
            return f"package {name!r} was not found; say where it is: --package-dir {name}=PATH"
        if scheme == "file":
            path = Path(unquote(parts.path))
        elif scheme in ("http", "https"):
            return "it is not fetched; save it and change the URI"
        else:
            path = self._folder / uri
        if path.is_dir():
            return f"{path} is a folder"
        return path if path.is_file() else f"{path} does not exist"

    def _package(self, name: str) -> Iterable[Path]:
        """Folders that may be the package, the best first."""
        if name in self._packages:
            yield self._packages[name]
            return
        for folder in self._searched:
            if folder.name == name and folder.is_dir():
                yield folder
            if (folder / name).is_dir():
                yield folder / name
        # A URDF mostly lies in its own package, and beside the others.
        for folder in (self._folder, *self._folder.parents):
            if folder.name == name or _package_name(folder) == name:
                yield folder
            elif (folder / name).is_dir():
                yield folder / name


def _package_name(folder: Path) -> str:
    try:
        return ElementTree.fromstring((folder / "package.xml").read_bytes()).findtext("name", "").strip()
    except (OSError, ElementTree.ParseError):
        return ""


def find_meshes(
    robot: Robot, links: Iterable[str], package_dirs: PackageDirs, ignore_missing: bool
) -> tuple[dict[str, Path], set[str]]:
    """The files of all URIs, and the links that lack one, which are an error unless they are ignored."""
    finder = MeshFinder(robot, package_dirs)
    files: dict[str, Path] = {}
    missing: list[MissingMesh] = []
    for link in links:
        for shape in robot.links[link].shapes:
            if shape.kind != "mesh" or shape.uri in files:
                continue
            found = finder.find(shape.uri)
            if isinstance(found, Path):
                files[shape.uri] = found
            else:
                missing.append(MissingMesh(link, shape.uri, found, shape.line))
    if not missing:
        return files, set()
    lost = [f"link {m.link!r}: {m.uri}: {m.reason}" for m in missing]
    if not ignore_missing:
        first = missing[0]
        raise ModelError(
            f"{robot.source}: {len(lost)} mesh(es) are missing: {'; '.join(lost)}. Packages are looked for "
            "in package_dirs (--package-dir NAME=PATH or --package-dir FOLDER), ROS_PACKAGE_PATH, "
            "AMENT_PREFIX_PATH and above the URDF; ignore_missing (--ignore-missing) leaves these links out",
            robot.source, first.line, f"link {first.link!r}",
        )  # fmt: skip
    for line in lost:
        _log.warning("%s: left out: %s", robot.source, line)
    return files, {m.link for m in missing}


def make_solid(robot: Robot, link: Link, files: Mapping[str, Path]) -> solids.Solid:
    parts: list[solids.Part] = []
    for shape in link.shapes:
        if shape.kind == "mesh":
            parts.append(_mesh(robot, link, shape, files[shape.uri]))
        elif shape.kind == "box":
            parts.append(solids.Box(shape.frame, np.array(shape.size)))
        elif shape.kind == "cylinder":
            parts.append(solids.Cylinder(shape.frame, *shape.size))
        elif shape.kind == "capsule":
            parts.append(solids.Capsule(shape.frame, *shape.size))
        else:
            parts.append(solids.Capsule(shape.frame, shape.size[0], 0.0))
    return solids.Solid(parts)


def _mesh(robot: Robot, link: Link, shape: Shape, path: Path) -> solids.Mesh:
    label = f"link {link.name!r}"
    where = f"{robot.source}:{shape.line}: {label}: {path}"
    try:
        vertices, faces = load_mesh(path)
        vertices = (vertices * shape.size) @ shape.frame[:3, :3].T + shape.frame[:3, 3]
        mesh = solids.Mesh(vertices, faces)
    except Exception as error:  # whatever a reader of foreign files raises
        if isinstance(error, ImportError) and error.name in _EXTRAS:
            raise ImportError(f"{where}: {error}", name=error.name) from error
        # Readers that take a file for something else may want what such files need.
        problem = "it is damaged, or no such file" if isinstance(error, ImportError) else str(error)
        problem = f"cannot be used as a mesh: {problem}"
        raise ModelError(f"{where}: {problem}", robot.source, shape.line, label) from error
    if not mesh.closed:
        _log.warning("%s is not closed; where its winding number is above one half counts as inside", where)
    largest = float(np.ptp(vertices, axis=0).max())
    if largest > 20:
        _log.warning("%s is %.0f m large: is it in millimetres, and its scale missing?", where, largest)
    return mesh


def load_mesh(path: Path) -> tuple[Array, Ints]:
    """Vertices (m) and triangles of a file. A DAE's unit is applied, its up axis is not, as ROS does."""
    trimesh = need("trimesh", "reading meshes")
    if path.suffix.lower() == ".dae":
        need("collada", "reading .dae files")
    scene = trimesh.load_scene(path, skip_materials=True)
    all_vertices, all_faces, count = [], [], 0
    for frame, name in (scene.graph[node] for node in scene.graph.nodes_geometry):
        mesh = scene.geometry[name]
        if not hasattr(mesh, "faces"):
            continue  # points or lines
        unit, _, meters = str(mesh.metadata.get("units", "")).partition(" * ")
        scale = float(unit) if meters == "meters" else 1.0
        vertices = np.asarray(mesh.vertices, float) @ frame[:3, :3].T + frame[:3, 3]
        all_vertices.append(vertices * scale)
        all_faces.append(np.asarray(mesh.faces, np.int64) + count)
        count += len(vertices)
    if count == 0:
        raise ValueError("there are no triangles in it (is it a pointer of Git LFS, or damaged?)")
    vertices = np.concatenate(all_vertices)
    if not np.isfinite(vertices).all():
        raise ValueError("it has a vertex that is not finite")
    return vertices, np.concatenate(all_faces)
