"""The spherizer: covers, files, missing meshes, pairs, reports, rebinding, and its command."""

from __future__ import annotations

import builtins
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import hjcdik
from hjcdik import cli

trimesh = pytest.importorskip("trimesh", reason="the spherizer's extra is not installed")
pytest.importorskip("scipy", reason="the spherizer's extra is not installed")

from hjcdik._spherize import cover, solids  # noqa: E402
from hjcdik._spherize import triangles as tri  # noqa: E402

BULGE = 0.01
Distance = Callable[[np.ndarray], np.ndarray]


# --- Links with a signed distance that shares no code with the package ---------------------------


def capsule_distance(
    length: float, radius: float, axis: int = 2, centre: tuple[float, ...] = (0, 0, 0)
) -> Distance:
    def distance(points: np.ndarray) -> np.ndarray:
        local = points - np.array(centre)
        foot = np.zeros_like(local)
        foot[:, axis] = np.clip(local[:, axis], -length / 2, length / 2)
        return np.linalg.norm(local - foot, axis=1) - radius

    return distance


def capsule(length: float, radius: float, axis: int = 2, centre: tuple[float, ...] = (0, 0, 0)) -> Any:
    mesh = trimesh.creation.capsule(length, radius, count=[24, 24])
    mesh.apply_translation([0, 0, -mesh.bounds.mean(axis=0)[2]])
    if axis != 2:
        mesh.apply_transform(
            trimesh.transformations.rotation_matrix(np.pi / 2, [1, 0, 0] if axis == 1 else [0, 1, 0])
        )
    return mesh.apply_translation(centre)


def box_distance(size: tuple[float, ...], fillet: float = 0.0) -> Distance:
    half = np.array(size) / 2 - fillet

    def distance(points: np.ndarray) -> np.ndarray:
        beyond = np.abs(points) - half
        return np.linalg.norm(np.maximum(beyond, 0), axis=1) + np.minimum(beyond.max(axis=1), 0) - fillet

    return distance


def filleted_box(size: tuple[float, ...], fillet: float) -> Any:
    """The hull of a ball at every corner."""
    ball = trimesh.creation.icosphere(subdivisions=3, radius=fillet).vertices
    corners = np.array(np.meshgrid(*([-1, 1],) * 3)).reshape(3, -1).T * (np.array(size) / 2 - fillet)
    return trimesh.PointCloud((corners[:, None] + ball).reshape(-1, 3)).convex_hull


def tube_distance(inner: float, outer: float, length: float) -> Distance:
    def distance(points: np.ndarray) -> np.ndarray:
        radius = np.hypot(points[:, 0], points[:, 1])
        beyond = np.stack([radius - outer, inner - radius, np.abs(points[:, 2]) - length / 2])
        end = np.maximum(beyond[2], 0)
        wall = np.maximum(beyond[:2].max(axis=0), 0)
        return np.hypot(end, wall) + np.minimum(beyond.max(axis=0), 0)

    return distance


def l_shape() -> tuple[Any, Distance]:
    bodies = [(0.25, 0.06, 2, (0, 0, 0)), (0.2, 0.05, 1, (0, 0.1, 0.1))]
    meshes = [capsule(*body) for body in bodies]
    distances = [capsule_distance(*body) for body in bodies]
    return trimesh.util.concatenate(meshes), lambda p: np.min([d(p) for d in distances], axis=0)


# Covers take seconds: the links are small, and made once.
LINKS: dict[str, Callable[[], tuple[Any, Distance]]] = {
    "capsule": lambda: (capsule(0.3, 0.05), capsule_distance(0.3, 0.05)),
    "filleted box": lambda: (filleted_box((0.08, 0.1, 0.2), 0.02), box_distance((0.08, 0.1, 0.2), 0.02)),
    "L": l_shape,
    "tube": lambda: (
        trimesh.creation.annulus(0.03, 0.045, 0.06, sections=96),
        tube_distance(0.03, 0.045, 0.06),
    ),
}


def solid_of(mesh: Any) -> solids.Solid:
    return solids.Solid([solids.Mesh(np.asarray(mesh.vertices), np.asarray(mesh.faces))])


def outside(points: np.ndarray, spheres: np.ndarray) -> np.ndarray:
    return (np.linalg.norm(points[:, None] - spheres[None, :, :3], axis=2) - spheres[:, 3]).min(axis=1)


def samples_of(mesh: Any, count: int, seed: int = 5) -> np.ndarray:
    return np.asarray(trimesh.sample.sample_surface(mesh, count, seed=seed)[0])


def ball(count: int) -> np.ndarray:
    points = np.random.default_rng(2).normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def bulge_of(spheres: np.ndarray, distance: Distance) -> float:
    points = spheres[:, None, :3] + spheres[:, None, 3:] * ball(2000)
    return float(distance(points.reshape(-1, 3)).max())


def greedy_voxel_cover(mesh: Any, distance: Distance, shift: float, pitch: float = 0.008) -> int:
    """How many spheres within the bulge, at voxel centres inside, a greedy cover takes."""
    low, high = mesh.bounds
    axes = [np.arange(a + shift * pitch, b, pitch) for a, b in zip(low, high, strict=True)]
    centres = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    depth = -distance(centres)
    centres, radii = centres[depth > 0], depth[depth > 0] + BULGE
    points = samples_of(mesh, 6000, seed=8)
    squares = (centres**2).sum(axis=1)[:, None] + (points**2).sum(axis=1) - 2 * centres @ points.T
    contained = squares <= radii[:, None] ** 2
    contained = contained[:, contained.any(axis=0)]
    count = 0
    while contained.shape[1]:
        best = contained.sum(axis=1).argmax()
        contained = contained[:, ~contained[best]]
        count += 1
    return count


@pytest.fixture(scope="module", params=LINKS)
def link(request: pytest.FixtureRequest) -> tuple[Any, Distance, np.ndarray]:
    mesh, distance = LINKS[request.param]()
    return mesh, distance, cover.bounded_bulge(solid_of(mesh), BULGE, np.random.default_rng(0))


# --- Covers -------------------------------------------------------------------------------------


def test_nothing_of_the_surface_is_uncovered(link: tuple[Any, Distance, np.ndarray]) -> None:
    mesh, _, spheres = link
    assert outside(samples_of(mesh, 50_000), spheres).max() <= 0
    assert outside(np.asarray(mesh.vertices), spheres).max() <= 0


def test_the_bulge_is_bounded(link: tuple[Any, Distance, np.ndarray]) -> None:
    _, distance, spheres = link
    # The distance is that of the smooth link, of which the mesh is a facetted one.
    assert 0.5 * BULGE < bulge_of(spheres, distance) <= BULGE + 1e-5
    facets = 8e-4
    assert (spheres[:, 3] + distance(spheres[:, :3])).max() <= BULGE + facets


def test_fewer_spheres_than_a_greedy_voxel_cover(link: tuple[Any, Distance, np.ndarray]) -> None:
    mesh, distance, spheres = link
    # The grid that an octree or a voxel model would have, wherever its origin happens to lie.
    greedy = [greedy_voxel_cover(mesh, distance, shift) for shift in (0.5, 0.25, 0.0)]
    assert len(spheres) <= min(greedy)
    assert len(spheres) < np.mean(greedy)


def test_a_smaller_bulge_fits_more_closely() -> None:
    mesh, distance = capsule(0.08, 0.04), capsule_distance(0.08, 0.04)
    spheres = cover.bounded_bulge(solid_of(mesh), 0.004, np.random.default_rng(0))
    assert outside(samples_of(mesh, 20_000), spheres).max() <= 0
    assert bulge_of(spheres, distance) <= 0.004 + 1e-5


def test_the_same_seed_gives_the_same_spheres() -> None:
    solid = solid_of(capsule(0.1, 0.04))
    one, other = (cover.bounded_bulge(solid, BULGE, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["capsule", "L"])
def test_voxels_are_contained_with_the_inside(name: str) -> None:
    mesh, distance = LINKS[name]()
    spheres = cover.voxels(solid_of(mesh), 0.03)
    low, high = mesh.bounds
    points = np.random.default_rng(0).uniform(low, high, (20_000, 3))
    assert outside(points[distance(points) < -1e-3], spheres).max() <= 0
    assert outside(samples_of(mesh, 20_000), spheres).max() <= 0
    assert bulge_of(spheres, distance) <= np.sqrt(3) * 0.03 + 1e-3
    with pytest.raises(ValueError, match="use a larger one"):
        cover.voxels(solid_of(mesh), 1e-4)


# --- Solids -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LINKS)
def test_distances_against_the_closed_form(name: str) -> None:
    mesh, distance = LINKS[name]()
    solid = solid_of(mesh)
    points = np.random.default_rng(1).uniform(mesh.bounds[0] - 0.05, mesh.bounds[1] + 0.05, (2000, 3))
    expected = distance(points)
    facets = 8e-4
    deep = expected < -facets
    # Where two bodies overlap, the closed form and the mesh are both lower bounds of the depth.
    assert np.all(solid.distance(points)[expected > facets] > 0)
    assert np.all(solid.distance(points)[deep] < 0)
    np.testing.assert_allclose(solid.exact_distance(points)[~deep], expected[~deep], atol=facets)
    if name != "L":
        np.testing.assert_allclose(solid.exact_distance(points), expected, atol=facets)
        np.testing.assert_allclose(solid.distance(points), expected, atol=2e-3)


@pytest.mark.parametrize(
    "part",
    [
        solids.Box(np.eye(4), np.array([0.1, 0.2, 0.3])),
        solids.Cylinder(np.eye(4), 0.05, 0.3),
        solids.Capsule(np.eye(4), 0.05, 0.2),
        solids.Capsule(np.eye(4), 0.05, 0.0),
    ],
    ids=["box", "cylinder", "capsule", "sphere"],
)
def test_primitives_and_their_facets(part: Any) -> None:
    triangles, slack = part.surface()
    random = np.random.default_rng(0)
    points, _ = tri.sample(triangles, 5000, random)
    assert np.abs(part.distance(points)).max() <= slack + 1e-12
    mesh = solids.Mesh(triangles.reshape(-1, 3), np.arange(3 * len(triangles)).reshape(-1, 3))
    assert mesh.closed
    probes = random.uniform(-0.2, 0.2, (500, 3))
    np.testing.assert_allclose(mesh.exact_distance(probes), part.distance(probes), atol=slack + 1e-9)


def test_meshes_that_are_not_closed_or_turned() -> None:
    mesh = capsule(0.2, 0.05)
    vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    whole = solids.Mesh(vertices, faces)
    points = np.random.default_rng(0).uniform(-0.15, 0.15, (5000, 3))
    turned = faces.copy()
    turned[::3] = turned[::3, ::-1]
    assert solids.Mesh(vertices, turned).closed
    np.testing.assert_array_equal(solids.Mesh(vertices, turned).inside(points), whole.inside(points))
    np.testing.assert_array_equal(solids.Mesh(vertices, faces[:, ::-1]).inside(points), whole.inside(points))

    holed = solids.Mesh(vertices, np.delete(turned, [5, 300, 700], axis=0))
    assert not holed.closed
    assert np.mean(holed.inside(points) != whole.inside(points)) < 0.002

    sheet = solids.Mesh(
        np.array([[0, 0, 0], [0.2, 0, 0], [0.2, 0.1, 0], [0, 0.1, 0.0]]), np.array([[0, 1, 2], [0, 2, 3]])
    )
    assert not sheet.inside(points).any()
    spheres = cover.bounded_bulge(solids.Solid([sheet]), BULGE, np.random.default_rng(0))
    assert outside(tri.sample(sheet.triangles, 5000, np.random.default_rng(1))[0], spheres).max() <= 0
    assert spheres[:, 3].max() <= BULGE


def test_voxels_leave_no_cell_out() -> None:
    """Of these some were in no sphere, by the rounding of squares."""
    random = np.random.default_rng(3)
    for _ in range(12):
        frame = np.eye(4)
        frame[:3, :3] = trimesh.transformations.random_rotation_matrix(random.random(3))[:3, :3]
        frame[:3, 3] = random.uniform(-0.05, 0.05, 3)
        box = solids.Solid([solids.Box(frame, random.uniform(0.05, 0.12, 3))])
        spheres = cover.voxels(box, 0.03)
        points, _ = tri.sample(box.triangles, 4000, random)
        assert outside(points, spheres).max() <= 0
    frame = np.eye(4)
    frame[:3, :3] = trimesh.transformations.euler_matrix(-0.0375, 0.6271, 0.2057, "sxyz")[:3, :3]
    frame[:3, 3] = (0.0155, 0.0414, -0.0435)
    box = solids.Solid([solids.Box(frame, np.array([0.1068, 0.0705, 0.0660]))])
    points, _ = tri.sample(box.triangles, 20_000, random)
    assert outside(points, cover.voxels(box, 0.03)).max() <= 0


def test_the_bulge_is_bounded_where_a_mesh_is_open(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A dome: one ball fills it, and sticks out of it below."""
    dome = trimesh.creation.icosphere(subdivisions=3, radius=0.03)
    dome.update_faces(dome.triangles_center[:, 2] > 0)
    dome.export(tmp_path / "dome.stl")
    urdf = only(f'<mesh filename="{tmp_path / "dome.stl"}"/>')
    with caplog.at_level(logging.WARNING, "hjcdik"):
        model = hjcdik.spherize(urdf, bulge_mm=8, self_pairs_samples=0)
    assert "fitted as a sheet" in caplog.text
    spheres = model.links["l"]
    shells = spheres[:, None, :3] + spheres[:, None, 3:] * ball(200)
    points = shells.reshape(-1, 3)
    below = np.hypot(np.hypot(points[:, 0], points[:, 1]) - 0.03, points[:, 2])
    distances = np.where(points[:, 2] < 0, below, np.abs(np.linalg.norm(points, axis=1) - 0.03))
    assert distances.max() <= 0.008 + 1e-3  # its facets and its edge are not quite the hemisphere's
    assert outside(samples_of(dome, 5000), spheres).max() <= 1e-6


def test_a_cavity_is_filled_and_a_body_within_bounds_nothing() -> None:
    shell = trimesh.util.concatenate([capsule(0.2, 0.06), capsule(0.2, 0.05)])
    solid = solid_of(shell)
    np.testing.assert_allclose(solid.exact_distance(np.zeros((1, 3))), -0.06, atol=2e-3)


# --- Robots -------------------------------------------------------------------------------------


MESHES: dict[str, Callable[[], Any]] = {
    "base": lambda: capsule(0.06, 0.08, centre=(0, 0, 0.03)),
    "upper": lambda: capsule(0.3, 0.05, centre=(0, 0, 0.15)),
    "fore": lambda: capsule(0.25, 0.04, axis=1, centre=(0, 0.125, 0)),
}


def collision(shape: str, origin: str = "") -> str:
    return f"<collision>{origin}<geometry>{shape}</geometry></collision>"


def arm(meshes: str = "package://my_arm/meshes/{}.stl", hand: str = "", scale: str = "") -> str:
    """Three joints; the hand's geometry is spheres unless it is given."""
    hand = hand or collision('<sphere radius="0.03"/>', '<origin xyz="0 0.02 0"/>')
    shape = {name: collision(f'<mesh filename="{meshes.format(name)}"{scale}/>') for name in MESHES}
    joints = [
        ("j1", "base", "upper", "0 0 0.12", "0 0 1"),
        ("j2", "upper", "fore", "0.1 0 0.3", "1 0 0"),
        ("j3", "fore", "hand", "0 0.34 0", "0 1 0"),
    ]
    return (
        '<robot name="arm">'
        + "".join(f'<link name="{name}">{shape[name]}</link>' for name in MESHES)
        + f'<link name="hand">{hand}</link><link name="tool"/>'
        + "".join(
            f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="{xyz}"/><axis xyz="{axis}"/><limit lower="-2" upper="2.5"/>'
            "</joint>"
            for name, parent, child, xyz, axis in joints
        )
        + '<joint name="jt" type="fixed"><parent link="hand"/><child link="tool"/>'
        '<origin xyz="0 0.1 0"/></joint>'
        "</robot>"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with an arm's URDF and meshes in three formats."""
    package = tmp_path_factory.mktemp("packages") / "my_arm"
    (package / "meshes").mkdir(parents=True)
    (package / "urdf").mkdir()
    for name, make in MESHES.items():
        make().export(package / "meshes" / f"{name}.stl")
    (package / "urdf" / "arm.urdf").write_text(arm())
    return package


@pytest.fixture(scope="module")
def model(folder: Path) -> hjcdik.SphereModel:
    return hjcdik.spherize(folder / "urdf" / "arm.urdf", ee_link="tool")


def test_a_model(model: hjcdik.SphereModel) -> None:
    assert list(model.links) == ["base", "upper", "fore", "hand"]
    assert model.base_links == ("base",)
    np.testing.assert_allclose(model.links["hand"], [[0, 0.02, 0, 0.03]], atol=1e-6)
    assert all(
        pair in model.ignore_pairs for pair in (("base", "upper"), ("upper", "fore"), ("fore", "hand"))
    )
    assert ("upper", "hand") not in model.ignore_pairs
    assert repr(model) == f"<SphereModel of 'arm': {len(model)} spheres on 4 links>"
    with pytest.raises(ValueError, match="read-only"):
        model.links["hand"][0, 0] = 1


@pytest.mark.parametrize("suffix", ["json", "urdf"])
def test_a_solver_loads_what_is_written(
    model: hjcdik.SphereModel, folder: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"spheres.{suffix}"
    model.save(path)
    model.save(tmp_path / "pairs.srdf")
    robot = str(folder / "urdf" / "arm.urdf")
    srdf = tmp_path / "pairs.srdf" if suffix == "urdf" else None
    solver = hjcdik.Solver(robot, ee_link="tool", spheres=path, srdf=srdf, device="cpu")
    assert solver.info.collision_links == ("upper", "fore", "hand")
    assert len(solver.info.sphere_links) == len(model) - len(model.links["base"])
    assert solver.info.self_pairs == (("upper", "hand"),)
    np.testing.assert_allclose(solver.spheres_at(np.zeros(3))[-1], [0.1, 0.36, 0.42, 0.03], atol=1e-6)


def test_verdicts_agree_with_the_meshes_within_the_bulge(model: hjcdik.SphereModel, folder: Path) -> None:
    """The spheres never see more room than the meshes have, and at most the bulge less."""
    robot = str(folder / "urdf" / "arm.urdf")
    solver = hjcdik.Solver(robot, ee_link="tool", spheres=model.to_json(), device="cpu")
    tools = {name: hjcdik.Solver(robot, ee_link=name, device="cpu") for name in ("upper", "fore", "hand")}
    distances: dict[str, Distance] = {
        "upper": capsule_distance(0.3, 0.05, 2, (0, 0, 0.15)),
        "fore": capsule_distance(0.25, 0.04, 1, (0, 0.125, 0)),
        "hand": capsule_distance(0, 0.03, 2, (0, 0.02, 0)),
    }
    random = np.random.default_rng(0)
    facets = 8e-4
    near = 0
    for q in solver.sample_configurations(20, seed=1):
        for centre in random.uniform([-0.3, -0.4, 0], [0.5, 0.6, 0.8], (40, 3)):
            true = np.inf
            for count, (name, tool) in enumerate(tools.items(), 1):
                x, y, z, *turn = tool.forward_kinematics(q[:count]).reshape(7)
                rotation = trimesh.transformations.quaternion_matrix(turn)[:3, :3]
                true = min(true, distances[name]((centre - [x, y, z])[None] @ rotation)[0])
            if not 0.005 < true < 0.1:
                continue
            near += 1
            solver.set_world(spheres=[[*centre, 0.004]])
            clearance = solver.check(q).world_clearance_m[0]
            assert true - 0.004 - BULGE - facets <= clearance <= true - 0.004 + facets
    assert near > 50


def test_the_report_against_brute_force(model: hjcdik.SphereModel) -> None:
    report = model.report(samples=5000)
    assert [row.link for row in report] == list(model.links)
    assert report.spheres == len(model)
    for name in MESHES:
        row, spheres = report[name], model.links[name]
        mesh = MESHES[name]()
        assert row.spheres == len(spheres)
        assert row.uncovered == 0 == row.uncovered_max_mm
        assert row.bulge_p99_mm <= row.bulge_max_mm <= 10.0
        points = (spheres[:, None, :3] + spheres[:, None, 3:] * ball(300)).reshape(-1, 3)
        corners = np.asarray(mesh.triangles)
        brute = solids.Mesh(np.asarray(mesh.vertices), np.asarray(mesh.faces)).exact_distance(points)
        assert len(corners) > 100
        assert row.bulge_max_mm == pytest.approx(brute.max() * 1e3, abs=0.5)
    shrunk = {name: spheres * [1, 1, 1, 0.97] for name, spheres in model.links.items()}
    bare = hjcdik.SphereModel("arm", shrunk, (), (), {}, None, model._solids).report(samples=20_000, seed=3)
    for name in MESHES:
        share = np.mean(outside(samples_of(MESHES[name](), 20_000), shrunk[name]) > 0)
        assert bare[name].uncovered == pytest.approx(share, abs=0.01)
        assert share > 0
    assert json.loads(report.to_json())["links"][0]["link"] == "base"
    assert "bulge max mm" in report.to_text()


def test_the_page(model: hjcdik.SphereModel, monkeypatch: pytest.MonkeyPatch) -> None:
    report = model.report(samples=500)
    real = builtins.__import__

    def no_matplotlib(name: str, *rest: Any, **keywords: Any) -> Any:
        if name.startswith(("matplotlib", "mpl_toolkits")):
            raise ImportError(name)
        return real(name, *rest, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", no_matplotlib)
        plain = report.to_html()
    assert "pip install &#x27;hjcdik[viz]&#x27;" in plain
    assert "<img" not in plain
    pytest.importorskip("matplotlib", reason="no pictures without matplotlib")
    page = report.to_html()
    assert page.count('src="data:image/png;base64,') == 4
    assert "hjcdik[viz]" not in page
    assert "http" not in page  # nothing is fetched


# --- Meshes and where they lie ------------------------------------------------------------------


def only(shape: str, origin: str = "") -> str:
    return f'<robot name="r"><link name="l">{collision(shape, origin)}</link></robot>'


@pytest.mark.parametrize("suffix", ["stl", "obj", "dae"])
def test_formats_scales_and_origins(tmp_path: Path, suffix: str) -> None:
    if suffix == "dae":
        pytest.importorskip("collada", reason="DAE needs pycollada")
    mesh = capsule(0.1, 0.04)
    mesh.copy().apply_scale(1000).export(tmp_path / f"mesh.{suffix}")
    urdf = only(
        f'<mesh filename="mesh.{suffix}" scale="0.001 0.001 0.001"/>',
        '<origin xyz="0 0 0.5" rpy="0 1.5707963267949 0"/>',
    )
    (tmp_path / "r.urdf").write_text(urdf)
    spheres = hjcdik.spherize(tmp_path / "r.urdf").links["l"]
    turned = capsule(0.1, 0.04, axis=0, centre=(0, 0, 0.5))
    assert outside(samples_of(turned, 5000), spheres).max() <= 1e-6
    assert bulge_of(spheres, capsule_distance(0.1, 0.04, 0, (0, 0, 0.5))) <= BULGE + 1e-5
    mirrored = urdf.replace('"0.001 0.001 0.001"', '"-0.001 0.001 0.001"')
    (tmp_path / "r.urdf").write_text(mirrored)
    assert (
        bulge_of(hjcdik.spherize(tmp_path / "r.urdf").links["l"], capsule_distance(0.1, 0.04, 0, (0, 0, 0.5)))
        <= 0.0101
    )


def test_the_unit_of_a_dae_is_applied(tmp_path: Path) -> None:
    pytest.importorskip("collada", reason="DAE needs pycollada")
    text = capsule(100, 40).export(file_type="dae").decode()
    text = text.replace("<up_axis>", '<unit meter="0.001" name="millimeter"/><up_axis>')
    (tmp_path / "mesh.dae").write_text(text)
    (tmp_path / "r.urdf").write_text(only('<mesh filename="mesh.dae"/>'))
    spheres = hjcdik.spherize(tmp_path / "r.urdf").links["l"]
    assert outside(samples_of(capsule(0.1, 0.04), 5000), spheres).max() <= 1e-6
    assert spheres[:, 3].max() <= 0.05


@pytest.mark.parametrize(
    ("shape", "distance"),
    [
        ('<box size="0.06 0.08 0.1"/>', box_distance((0.06, 0.08, 0.1))),
        ('<cylinder radius="0.03" length="0.1"/>', tube_distance(-1, 0.03, 0.1)),
        ('<capsule radius="0.03" length="0.1"/>', capsule_distance(0.1, 0.03)),
    ],
    ids=["box", "cylinder", "capsule"],
)
def test_primitives(shape: str, distance: Distance) -> None:
    spheres = hjcdik.spherize(only(shape)).links["l"]
    points = np.random.default_rng(0).uniform(-0.06, 0.06, (100_000, 3))
    depth = distance(points)
    surface = points[np.abs(depth) < 1e-3] - 0
    assert outside(surface[distance(surface) <= 0], spheres).max() <= 1e-3
    assert bulge_of(spheres, distance) <= BULGE


def test_where_packages_are_looked_for(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hjcdik._spherize.robot import MeshFinder, read_robot

    monkeypatch.delenv("ROS_PACKAGE_PATH", raising=False)
    mesh = folder / "meshes" / "base.stl"
    uri = "package://my_arm/meshes/base.stl"
    (tmp_path / "arm.urdf").write_text(arm())
    elsewhere, inside = read_robot(tmp_path / "arm.urdf"), read_robot(folder / "urdf" / "arm.urdf")
    assert "--package-dir my_arm=PATH" in str(MeshFinder(elsewhere, None).find(uri))
    assert MeshFinder(elsewhere, {"my_arm": folder}).find(uri) == mesh
    assert MeshFinder(elsewhere, folder.parent).find(uri) == mesh
    assert MeshFinder(elsewhere, [folder]).find(uri) == mesh
    assert MeshFinder(inside, None).find(uri) == mesh
    assert MeshFinder(inside, None).find("model://my_arm/meshes/base.stl") == mesh
    assert MeshFinder(inside, None).find("../meshes/base.stl").resolve() == mesh.resolve()
    assert MeshFinder(inside, None).find(mesh.as_uri()) == mesh
    assert "not fetched" in str(MeshFinder(inside, None).find("https://example.com/base.stl"))
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(folder.parent))
    assert MeshFinder(elsewhere, None).find(uri) == mesh
    monkeypatch.delenv("ROS_PACKAGE_PATH")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "my_arm").symlink_to(folder)
    assert str(MeshFinder(elsewhere, None).find(uri)).endswith("share/my_arm/meshes/base.stl")
    with pytest.raises(ValueError, match="package_dirs: my_arm: there is no folder"):
        MeshFinder(elsewhere, {"my_arm": tmp_path / "none"})


def test_missing_meshes_are_named_all_at_once(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROS_PACKAGE_PATH", raising=False)
    (tmp_path / "arm.urdf").write_text(arm())
    hjcdik.Solver(
        str(tmp_path / "arm.urdf"), ee_link="tool", device="cpu"
    )  # no mesh is needed for kinematics
    with pytest.raises(hjcdik.ModelError) as error:
        hjcdik.spherize(tmp_path / "arm.urdf")
    for name in MESHES:
        assert f"link '{name}': package://my_arm/meshes/{name}.stl: package 'my_arm' was not found" in str(
            error.value
        )
    assert "--package-dir my_arm=PATH" in str(error.value)
    assert error.value.line == 1
    with caplog.at_level(logging.WARNING, "hjcdik"):
        model = hjcdik.spherize(tmp_path / "arm.urdf", ignore_missing=True)
    assert list(model.links) == ["hand"]
    assert caplog.text.count("left out") == 3


def test_broken_meshes_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.stl").write_text("nothing")
    (tmp_path / "r.urdf").write_text(only('<mesh filename="a.stl"/>'))
    with pytest.raises(hjcdik.ModelError, match=r"r\.urdf:1: link 'l': .*a\.stl: cannot be used as a mesh"):
        hjcdik.spherize(tmp_path / "r.urdf")
    # Cut off, a binary file is taken for a text of another encoding.
    whole = capsule(0.1, 0.04).export(file_type="stl")
    for content in (whole[:5000], b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"):
        (tmp_path / "a.stl").write_bytes(content)
        with pytest.raises(hjcdik.ModelError, match=r"a\.stl: cannot be used as a mesh: .*damaged"):
            hjcdik.spherize(tmp_path / "r.urdf")


def test_spheres_that_are_there_keep_every_digit(tmp_path: Path) -> None:
    urdf = only('<sphere radius="0.05"/>', '<origin xyz="0.1 -0.2 0.3333333" rpy="0 0 0"/>')
    assert hjcdik.spherize(urdf).links["l"].tolist() == [[0.1, -0.2, 0.3333333, 0.05]]


@pytest.mark.parametrize(
    ("urdf", "message"),
    [
        ("<robot>", "<string>:1: not XML"),
        ('<robot name="r">\n<link/></robot>', "<string>:2: a link: <link> has no 'name'"),
        ('<robot name="r"><link name="l"/></robot>', "no link has <collision> geometry; geometry='visual'"),
        (only('<box size="1 2"/>'), "link 'l': size of <box> must be 3 finite number"),
        (only('<box size="1 0 1"/>'), "link 'l': size of <box> must be above 0"),
        (only('<box size="200 100 100"/>'), "link 'l': a surface of 1e+05 m2 takes too many spheres"),
        (only('<mesh filename="a.stl" scale="0 1 1"/>'), "link 'l': scale of <mesh> must not be 0"),
        (only('<cone radius="1"/>'), "link 'l': <cone> is none of the shapes"),
        (only('<sphere radius="x"/>'), "radius of <sphere> must be 1 finite"),
        ('<robot name="r"><link name="a"/><link name="b"/></robot>', "the links must form one tree"),
    ],
)
def test_bad_urdfs(urdf: str, message: str) -> None:
    with pytest.raises(hjcdik.ModelError) as error:
        hjcdik.spherize(urdf)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "boxes"}, "mode must be one of 'bounded-bulge', 'voxel'"),
        ({"bulge_mm": 0}, r"bulge_mm must be a number in \[0.1, 1000\], not 0"),
        ({"bulge_mm": True}, "bulge_mm"),
        ({"resolution": float("nan")}, "resolution"),
        ({"links": "hand"}, "links must be names"),
        ({"links": ["hnd"]}, "the robot has no link 'hnd'; the nearest names are 'hand'"),
        ({"links": ["tool"]}, "link 'tool': it has no <collision> geometry"),
        ({"ee_link": "tol"}, "the nearest names are 'tool'"),
        ({"self_pairs_samples": -1}, "self_pairs_samples"),
        ({"geometry": "mesh"}, "geometry must be one of"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hjcdik.spherize(arm(), **arguments)


def test_without_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(ImportError, match=r"needs trimesh: pip install 'hjcdik\[spherize\]'"):
        hjcdik.spherize(folder / "urdf" / "arm.urdf")
    assert cli.main(["spherize", str(folder / "urdf" / "arm.urdf")]) == 2
    assert "hjcdik[spherize]" in capsys.readouterr().err


# --- Pairs --------------------------------------------------------------------------------------


def test_pairs_that_always_overlap_and_never_do() -> None:
    # The third link's sphere is as large as the arm: it overlaps the first moving link's wherever it turns.
    def sphere(radius: float, x: float = 0) -> str:
        return collision(f'<sphere radius="{radius}"/>', f'<origin xyz="{x} 0 0"/>')

    def joint(name: str, parent: str, child: str, low: float = -1, high: float = 1) -> str:
        return (
            f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="0.2 0 0"/><axis xyz="0 0 1"/><limit lower="{low}" upper="{high}"/></joint>'
        )

    shapes = {"a": sphere(0.01), "b": sphere(0.05), "c": sphere(0.05), "d": sphere(0.4), "e": sphere(0.01)}
    urdf = (
        '<robot name="r">'
        + "".join(f'<link name="{name}">{shape}</link>' for name, shape in shapes.items())
        + "".join(joint(f"j{n}", a, b) for n, (a, b) in enumerate(["ab", "bc", "cd", "de"]))
        + "</robot>"
    )
    neighbours = {("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")}
    assert set(hjcdik.spherize(urdf, self_pairs_samples=0).ignore_pairs) == neighbours
    model = hjcdik.spherize(urdf)
    assert set(model.ignore_pairs) == neighbours | {("b", "d")}
    never = hjcdik.spherize(urdf, ignore_never=True)
    assert ("a", "c") in never.ignore_pairs
    reasons = {
        (e.get("link1"), e.get("link2")): e.get("reason")
        for e in ElementTree.fromstring(never.to_srdf().split("\n", 1)[1])
    }
    assert reasons["b", "d"] == "Always"
    assert reasons["a", "b"] == "Adjacent"
    assert reasons["a", "c"] == "Never"
    hjcdik.Solver(urdf, ee_link="e", spheres=model.to_json(), device="cpu")


# --- Other URDFs --------------------------------------------------------------------------------


def with_other_frames(urdf: str) -> str:
    """The same arm: a world under it, and the forearm's frame turned and moved along its joint's axis."""
    root = ElementTree.fromstring(urdf)
    joints = {joint.get("name"): joint for joint in root.findall("joint")}
    joints["j2"].find("origin").attrib.update(xyz="0.3 0 0.3", rpy="0 0 3.14159265358979")
    joints["j2"].find("axis").set("xyz", "-1 0 0")
    # In a frame turned by half a turn about z and 0.2 further along x.
    joints["j3"].find("origin").attrib.update(xyz="0.2 -0.34 0", rpy="0 0 3.14159265358979")
    world = ElementTree.SubElement(root, "link", name="world")
    fixed = ElementTree.SubElement(root, "joint", name="on_a_table", type="fixed")
    ElementTree.SubElement(fixed, "parent", link=world.get("name", ""))
    ElementTree.SubElement(fixed, "child", link="base")
    ElementTree.SubElement(fixed, "origin", xyz="0 0 1")
    return ElementTree.tostring(root, encoding="unicode")


def test_rebinding_keeps_the_spheres_where_they_are(model: hjcdik.SphereModel, folder: Path) -> None:
    ours, other = (folder / "urdf" / "arm.urdf").read_text(), with_other_frames(arm())
    moved = model.rebind(other)
    assert moved.ignore_pairs == tuple(sorted(model.ignore_pairs))
    a = hjcdik.Solver(ours, ee_link="tool", spheres=model.to_json(), device="cpu")
    b = hjcdik.Solver(other, ee_link="tool", spheres=moved.to_json(), device="cpu")
    c = hjcdik.Solver(other, ee_link="tool", spheres=moved.to_urdf(), device="cpu")
    q = a.sample_configurations(20)
    for solver in (b, c):
        lifted = solver.spheres_at(q) - [0, 0, 1, 0]
        np.testing.assert_allclose(lifted, a.spheres_at(q), atol=1e-9)
    with pytest.raises(hjcdik.ModelError):
        hjcdik.Solver(other, ee_link="tool", spheres=model.to_urdf(), device="cpu")


def test_rebinding_names_the_first_joint_that_differs(model: hjcdik.SphereModel) -> None:
    cases = {
        'xyz="0.1 0 0.3"': ('xyz="0.1 0.02 0.3"', "joint 'j2': .*its axis is 20 mm from that of 'j2'"),
        '<axis xyz="1 0 0"/>': ('<axis xyz="1 0.1 0"/>', r"joint 'j2': .* 5\.71 degrees apart"),
        'name="j3" type="revolute"': (
            'name="j3" type="prismatic"',
            "joint 'j3': .*is revolute, .*is prismatic",
        ),
        'name="jt" type="fixed"': ('name="jt" type="fixed"', None),
    }
    for old, (new, message) in cases.items():
        if message is None:
            model.rebind(arm().replace(old, new))
            continue
        with pytest.raises(hjcdik.ModelError, match=message):
            model.rebind(arm().replace(old, new))
    fixed = arm().replace('name="j3" type="revolute"', 'name="j3" type="fixed"')
    with pytest.raises(hjcdik.ModelError, match=r"joint 'j3': .*nothing moves there"):
        model.rebind(fixed)
    with pytest.raises(hjcdik.ModelError, match="no link 'hand'; the nearest names are"):
        model.rebind(arm().replace('"hand"', '"hands"').replace('"tool"', '"tip"'))


def test_models_from_files(model: hjcdik.SphereModel, folder: Path, tmp_path: Path) -> None:
    robot = folder / "urdf" / "arm.urdf"
    model.save(tmp_path / "s.json")
    model.save(tmp_path / "s.urdf")
    read = hjcdik.SphereModel.load(tmp_path / "s.json", robot)
    spherized = hjcdik.SphereModel.load(tmp_path / "s.urdf")
    for name, spheres in model.links.items():
        np.testing.assert_allclose(read.links[name], spheres, atol=1e-9)
        np.testing.assert_allclose(spherized.links[name], spheres, atol=1e-9)
    assert read.ignore_pairs == model.ignore_pairs
    assert read.report(samples=1000)["upper"].bulge_max_mm <= 10
    assert np.isnan(spherized.report(samples=10)["upper"].bulge_max_mm)
    assert json.loads(spherized.report(samples=10).to_json())["links"][0]["uncovered"] is None
    # Spheres alone are kept as they are, so that a spherized URDF may be spherized again.
    again = hjcdik.spherize(tmp_path / "s.urdf")
    np.testing.assert_allclose(again.links["upper"], model.links["upper"], atol=1e-6)
    with pytest.raises(ValueError, match="give its robot's URDF too"):
        hjcdik.SphereModel.load(tmp_path / "s.json")
    with pytest.raises(ValueError, match=r"must end with one of \.json, \.urdf"):
        model.save(tmp_path / "s.yaml")


# --- The command --------------------------------------------------------------------------------


def test_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot = tmp_path / "arm.urdf"
    robot.write_text(arm())
    monkeypatch.chdir(tmp_path)
    common = ["spherize", "arm.urdf", "--package-dir", f"my_arm={folder}", "--link", "hand", "--link", "fore"]
    outputs = ["-o", "s.json", "-o", "s.urdf", "-o", "s.srdf", "--report", "r.html"]
    assert cli.main([*common, *outputs]) == 0
    captured = capsys.readouterr()
    assert "spheres on 2 links; 1 pairs of links need no check; s.json written" in captured.out
    assert captured.err == ""
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    for name in ("s.json", "s.urdf"):
        hjcdik.Solver(str(robot), ee_link="tool", spheres=name, srdf="s.srdf", device="cpu")

    assert cli.main([*common, "--mode", "voxel", "--resolution", "0.03", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["fit"]["resolution_m"] == 0.03
    assert {row["link"] for row in document["report"]} == {"fore", "hand"}

    (tmp_path / "other.urdf").write_text(with_other_frames(arm()))
    assert cli.main(["spherize", "s.urdf", "-o", "moved.urdf", "--rebind-to", "other.urdf"]) == 0
    capsys.readouterr()
    hjcdik.Solver("other.urdf", ee_link="tool", spheres="moved.urdf", device="cpu")
    judged = ["spherize", "arm.urdf", "--spheres", "s.json", "--report", "--package-dir", str(folder.parent)]
    assert cli.main(judged) == 0
    assert "0.0000%" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["arm.urdf"], "3 mesh(es) are missing"),
        (["arm.urdf", "-o", "s.yaml"], "--output: s.yaml: the file's name must end with one of .json"),
        (["arm.urdf", "-o", "no/s.json"], "there is no folder no"),
        (["arm.urdf", "--report", "r.pdf"], "must end with one of .html, .json, .txt"),
        (["arm.urdf", "--package-dir", "a=.", "--package-dir", "."], "not both"),
        (["none.urdf"], "none.urdf: cannot be read"),
        (["arm.urdf", "-o", "./arm.urdf"], "./arm.urdf: is read here, and cannot be written too"),
        (["arm.urdf", "-o", "s.json", "--report", "s.json"], "s.json: would be written twice"),
        (["arm.urdf", "--resolution", "0.01"], "--resolution has no effect: it goes with --mode voxel"),
        (["arm.urdf", "--mode", "voxel", "--bulge", "5"], "--bulge has no effect"),
        (["arm.urdf", "--spheres", "s.json", "--bulge", "5"], "--bulge has no effect"),
        (["arm.urdf", "--spheres", "s.json", "--link", "hand"], "--link has no effect"),
    ],
)
def test_bad_commands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: list[str], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROS_PACKAGE_PATH", raising=False)
    (tmp_path / "arm.urdf").write_text(arm())
    assert cli.main(["spherize", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message in captured.err
