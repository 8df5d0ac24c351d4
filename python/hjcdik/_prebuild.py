"""``python -m hjcdik._prebuild FOLDER``: compiles the GPU programs of the packaged robots into a folder.

Needs NVRTC, no GPU. As ``hjcdik/_store`` of an installed package, or named by HJCDIK_STORE, the folder
spares users the compiler: it is only read, and asked before anything is compiled.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from hjcdik import _core, _devices
from hjcdik._builds import ARCHITECTURES, targets_of
from hjcdik._errors import BuildError, DeviceError
from hjcdik._info import presets
from hjcdik._sources import RobotArguments


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hjcdik._prebuild", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--robot", action="append", choices=presets(), help="only this one; may be repeated")
    parser.add_argument("--cuda-arch", default=",".join(ARCHITECTURES), help="default: %(default)s")
    parser.add_argument("--jobs", type=int, default=_devices.cpu_count())
    options = parser.parse_args(argv)
    _devices.find_compilers()
    _core.set_packaged_store("")
    os.environ.pop("HJCDIK_STORE", None)  # nothing may come from another such folder
    os.environ["HJCDIK_CACHE_LIMIT_MB"] = "0"
    folder = os.path.abspath(options.folder)
    try:
        jobs = []
        for name in options.robot or presets():
            robot = RobotArguments(preset=name, urdf=None, name="", ee_link="", locked_joints={}).make()
            for target in targets_of(options.cuda_arch):
                for collision in (False, True) if robot.collision_links else (False,):
                    jobs.append((robot, False, collision, *target, folder, False))
        start = time.perf_counter()
        with ThreadPoolExecutor(max(1, options.jobs)) as pool:
            results = list(pool.map(lambda job: _core.build_program(*job), jobs))
    except (BuildError, DeviceError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    compiled = sum(was_compiled for _, was_compiled in results)
    versions = ", ".join(sorted({compiler for compiler, _ in results}))
    print(
        f"{len(results)} programs in {folder}, {compiled} of them compiled now in "
        f"{time.perf_counter() - start:.1f} s, by NVRTC {versions}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
