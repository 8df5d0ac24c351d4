"""IK solvers behind one interface: `solve(targets) -> q, seconds`.

Everything that is not the solver's own work, such as turning a pose into the form it wants, is done
before the clock starts. Every solver is asked for the strict tolerance of common.py where it has one.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import common

BASE, HAND = "panda_link0", "panda_hand"
# TRAC-IK tests each component alone: sqrt(3) x 5.7e-7 < 1e-6.
COMPONENT_TOLERANCE = 5.7e-7
SHORT_TIMEOUTS_S = (0.0005, 0.001, 0.002, 0.005)


class Peer(ABC):
    """One solver in one configuration."""

    name: str
    note: str
    packages: tuple[str, ...] = ()
    cores = 1
    # The most targets worth measuring, for solvers that take milliseconds by design.
    most = 10**9

    @abstractmethod
    def solve(self, targets: np.ndarray, budget_s: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
        """Answers (m, dof), NaN where there is none, and seconds (m,) for the first m targets.

        m is less than len(targets) only where the time allowed ran out.
        """


class OneAtATime(Peer):
    """A solver that takes one target a call."""

    @abstractmethod
    def prepare(self, targets: np.ndarray) -> list[Any]:
        """The targets in the solver's own form; not timed."""

    @abstractmethod
    def one(self, target: Any) -> Any:
        """An answer, or None."""

    def solve(self, targets: np.ndarray, budget_s: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
        prepared = self.prepare(targets)
        q = np.full((len(targets), 7), np.nan)
        seconds = []
        spent = 0.0
        for i, target in enumerate(prepared):
            start = time.perf_counter()
            answer = self.one(target)
            took = time.perf_counter() - start
            seconds.append(took)
            if answer is not None:
                q[i] = answer
            spent += took
            if spent > budget_s:
                break
        return q[: len(seconds)], np.array(seconds)


class HjcdikMany(Peer):
    """All targets in one call."""

    name = "hjcdik, many targets"
    note = "one call for all targets, threads=1, collision=None, otherwise defaults (float64 polish)"

    def __init__(self, urdf: str) -> None:
        import hjcdik

        self.solver = hjcdik.Solver(urdf, ee_link=HAND, device="cpu", threads=1)
        self.isa = self.solver.info.isa

    def solve(self, targets: np.ndarray, budget_s: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
        start = time.perf_counter()
        result = self.solver.solve(targets, collision=None)
        took = time.perf_counter() - start
        return common.first_rows(result), np.full(len(targets), took / len(targets))


class HjcdikOne(OneAtATime):
    """A call for each target."""

    name = "hjcdik, one target a call"
    note = "Python call for each target, threads=1, collision=None, otherwise defaults (float64 polish)"

    def __init__(self, urdf: str) -> None:
        import hjcdik

        self.solver = hjcdik.Solver(urdf, ee_link=HAND, device="cpu", threads=1)

    def prepare(self, targets: np.ndarray) -> list[Any]:
        return list(targets)

    def one(self, target: Any) -> Any:
        result = self.solver.solve(target, collision=None)
        return result.q[0, 0]


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Drop what C++ code writes to standard output."""
    sys.stdout.flush()
    saved = os.dup(1)
    try:
        with open(os.devnull, "wb") as sink:
            os.dup2(sink.fileno(), 1)
            yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


class TracIk(OneAtATime):
    """TRAC-IK: a Newton solver and an SQP solver, each in a thread of its own, restarted at random."""

    packages = ("pytracik",)

    def __init__(
        self,
        urdf: str,
        lower: np.ndarray,
        upper: np.ndarray,
        *,
        name: str,
        solve_type: str = "Speed",
        timeouts_s: tuple[float, ...] = (0.005,),
        calls: int = 1,
        cores: int = 1,
        most: int = 10**9,
    ) -> None:
        import pytracik

        self.name = name
        self.cores = cores
        self.most = most
        self.calls = calls
        self.lower, self.upper = lower, upper
        self.middle = (lower + upper) / 2
        self.rng = np.random.default_rng(1)
        self.ik: Callable[..., np.ndarray] = pytracik.ik
        self.solvers: dict[float, Any] = {}
        for timeout_s in timeouts_s:
            with _silent():
                solver = pytracik.TRAC_IK(
                    BASE,
                    HAND,
                    Path(urdf).read_text(),
                    timeout_s,
                    COMPONENT_TOLERANCE,
                    getattr(pytracik.SolveType, solve_type),
                )
            # It reads limits as float32; these are exact.
            pytracik.set_joint_limits(solver, lower.tolist(), upper.tolist())
            self.solvers[timeout_s] = solver
        self.options = f"solve type {solve_type}, eps {COMPONENT_TOLERANCE:g}"
        self.use(timeouts_s[0])

    def use(self, timeout_s: float) -> None:
        self.solver = self.solvers[timeout_s]
        self.note = (
            f"{self.options}, timeout {timeout_s * 1e3:g} ms"
            + (f", at most {self.calls} calls a target" if self.calls > 1 else "")
            + "; first seed mid-range"
            + (", then random" if self.calls > 1 else "")
            + "; its inner restarts use C rand(), unseeded, from two racing threads: not reproducible"
        )

    def tune(self, targets: np.ndarray) -> None:
        """Take the timeout that is fastest here: the best depends on the machine."""
        if len(self.solvers) < 2:
            return
        times = {}
        for timeout_s in self.solvers:
            self.use(timeout_s)
            times[timeout_s] = self.solve(targets)[1].mean()
        self.use(min(times, key=lambda t: times[t]))

    def prepare(self, targets: np.ndarray) -> list[Any]:
        return [(*row[[0, 1, 2, 4, 5, 6, 3]].tolist(),) for row in targets]

    def one(self, target: Any) -> Any:
        seed = self.middle
        for _ in range(self.calls):
            # The first value is the number of solutions found, or negative.
            answer = self.ik(self.solver, seed, *target)
            if answer[0] >= 1:
                q = answer[1:]
                if self.calls == 1 or ((q >= self.lower) & (q <= self.upper)).all():
                    return q
            seed = self.rng.uniform(self.lower, self.upper)
        return None


# frankik's ik() wants the flange (panda_link8); its packaged hand offset has 0.707 for sqrt(1/2), too
# coarse for the strict tolerance, so the exact turn is applied here.
_HALF = np.sqrt(0.5)
_HAND_TO_FLANGE = np.array([[_HALF, -_HALF, 0, 0], [_HALF, _HALF, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])


class Frankik(OneAtATime):
    """Analytic, after He and Liu 2021; joint 7 is the free parameter."""

    packages = ("frankik",)

    def __init__(self) -> None:
        import frankik

        self.frankik = frankik
        self.kinematics = frankik.FrankaKinematics(frankik.RobotType.PANDA)

    def prepare(self, targets: np.ndarray) -> list[Any]:
        return list(common.matrices_of(targets) @ _HAND_TO_FLANGE)


class FrankikFixed(Frankik):
    name = "frankik, q7 = pi/4"
    note = "analytic, one branch at one fixed q7: as its own benchmark calls it"

    def one(self, target: Any) -> Any:
        return self.kinematics.inverse(target, q7=np.pi / 4)


class FrankikDefault(Frankik):
    name = "frankik, inverse() defaults"
    note = "analytic, 60 values of q7 within 20 degrees of the home pose's, nearest answer"

    def one(self, target: Any) -> Any:
        return self.kinematics.inverse(target)


class FrankikScan(Frankik):
    name = "frankik, q7 scanned to the first answer"
    note = "analytic, ik_full at up to 255 values of q7 over its whole range, coarse to fine; our loop"

    def __init__(self) -> None:
        super().__init__()
        # 1/2, 1/4, 3/4, 1/8, ...: every prefix covers the range.
        share = [(2 * i + 1) / 2**k for k in range(1, 9) for i in range(2 ** (k - 1))]
        low, high = self.frankik.q_min_panda[6], self.frankik.q_max_panda[6]
        self.values = [low + s * (high - low) for s in share]
        self.home = self.kinematics.q_home

    def one(self, target: Any) -> Any:
        for q7 in self.values:
            rows = self.frankik.ik_full(target, self.home, q7)
            # NaN is the only value unlike itself.
            for row in rows:
                if (row == row).all():
                    return row
        return None


class Ssik(OneAtATime):
    """Analytic over sampled redundancy, prebuilt for the Panda."""

    name = "ssik, max_solutions=1"
    note = "analytic, prebuilt franka_panda, native core, limits respected"
    packages = ("ssik",)

    def __init__(self) -> None:
        from ssik.prebuilt import franka_panda_ik

        self.module = franka_panda_ik
        assert (self.module.BASE_LINK, self.module.EE_LINK) == (BASE, "panda_link8")

    def prepare(self, targets: np.ndarray) -> list[Any]:
        return list(common.matrices_of(targets) @ _HAND_TO_FLANGE)

    def one(self, target: Any) -> Any:
        answers = self.module.solve(target, max_solutions=1)
        return answers[0].q if answers else None


class Optik(OneAtATime):
    """OptIK: SLSQP on the squared pose error, random restarts, in Rust."""

    name = "OptIK"
    note = "SLSQP with random restarts, mode speed, tol_f 1e-12 (squared error), one thread, 0.1 s at most"
    packages = ("optik-py",)

    def __init__(self, urdf: str, lower: np.ndarray, upper: np.ndarray) -> None:
        import optik

        self.robot = optik.Robot.from_urdf_file(urdf, BASE, HAND)
        self.robot.set_parallelism(1)
        self.config = optik.SolverConfig("speed", max_time=0.1, max_restarts=0, tol_f=1e-12)
        self.seed = ((lower + upper) / 2).tolist()

    def prepare(self, targets: np.ndarray) -> list[Any]:
        return [m.tolist() for m in common.matrices_of(targets)]

    def one(self, target: Any) -> Any:
        answer = self.robot.ik(self.config, target, self.seed)
        return None if answer is None else answer[0]


class PinocchioLm(OneAtATime):
    """A plain Levenberg-Marquardt with random restarts on Pinocchio's FK and Jacobian.

    Damping in proportion to the squared error (Sugihara 2011), zero columns for joints that push
    against a limit, at most 20 iterations a start.
    """

    name = "LM on Pinocchio (Python)"
    note = "at most 64 starts of 20 iterations; most of its time is Python's, not Pinocchio's"
    packages = ("pin",)

    def __init__(self, urdf: str) -> None:
        import pinocchio

        self.pin = pinocchio
        self.model = pinocchio.buildModelFromUrdf(urdf)
        self.data = self.model.createData()
        self.frame = self.model.getFrameId(HAND)
        self.rng = np.random.default_rng(1)

    def prepare(self, targets: np.ndarray) -> list[Any]:
        return [self.pin.SE3(m) for m in common.matrices_of(targets)]

    def one(self, target: Any) -> Any:
        pin, model, data, frame = self.pin, self.model, self.data, self.frame
        lower, upper = model.lowerPositionLimit, model.upperPositionLimit
        weight = np.array([1, 1, 1, 0.3, 0.3, 0.3])  # m/rad, about a third of the arm
        identity = np.eye(6)
        for _ in range(64):
            q = self.rng.uniform(lower, upper)
            for iteration in range(21):
                pin.computeJointJacobians(model, data, q)
                residual = pin.log6(pin.updateFramePlacement(model, data, frame).actInv(target)).vector
                if residual[:3] @ residual[:3] < 1e-14 and residual[3:] @ residual[3:] < 1e-14:
                    return q
                if iteration == 20:
                    break
                residual = residual * weight
                jacobian = (
                    pin.getFrameJacobian(model, data, frame, pin.ReferenceFrame.LOCAL) * weight[:, None]
                )
                gradient = jacobian.T @ residual
                jacobian = jacobian * ~(((q <= lower) & (gradient < 0)) | ((q >= upper) & (gradient > 0)))
                damping = 0.1 * (residual @ residual) + 1e-9
                step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + damping * identity, residual)
                q = np.minimum(np.maximum(q + np.minimum(np.maximum(step, -1), 1), lower), upper)
        return None


def builders(urdf: str, lower: np.ndarray, upper: np.ndarray) -> dict[str, Callable[[], Peer]]:
    """Short name -> maker of every solver that compare.py knows, in the order of its table."""

    def trac_ik(**options: Any) -> Callable[[], Peer]:
        return lambda: TracIk(urdf, lower, upper, **options)

    return {
        "hjcdik": lambda: HjcdikMany(urdf),
        "hjcdik-one": lambda: HjcdikOne(urdf),
        # The shortest time to a strict answer found for it: short calls, again until one converges.
        "trac-ik": trac_ik(name="TRAC-IK, called until strict", timeouts_s=SHORT_TIMEOUTS_S, calls=1000),
        "trac-ik-once": trac_ik(name="TRAC-IK, one call of 5 ms"),
        "trac-ik-100ms": trac_ik(name="TRAC-IK, one call of 100 ms", timeouts_s=(0.1,)),
        "trac-ik-distance": trac_ik(name="TRAC-IK, Distance", solve_type="Distance", most=200),
        "trac-ik-manip1": trac_ik(name="TRAC-IK, Manip1", solve_type="Manip1", most=200),
        "trac-ik-manip2": trac_ik(name="TRAC-IK, Manip2", solve_type="Manip2", most=200),
        "trac-ik-2-cores": trac_ik(
            name="TRAC-IK, called until strict, 2 cores", timeouts_s=SHORT_TIMEOUTS_S, calls=1000, cores=2
        ),
        "frankik-q7": FrankikFixed,
        "frankik-default": FrankikDefault,
        "frankik": FrankikScan,
        "ssik": Ssik,
        "optik": lambda: Optik(urdf, lower, upper),
        "pinocchio-lm": lambda: PinocchioLm(urdf),
    }
