"""A robot of one's own: any serial chain of a URDF, with a joint held still if wanted."""

from pathlib import Path

import hjcdik

urdf = Path(__file__).with_name("arm.urdf")
for locked in ({}, {"slide": 0.25}):
    # The tool is a link or a fixed joint. The chain from the root to it is the robot.
    solver = hjcdik.Solver(urdf, ee_link="gripper", locked_joints=locked)
    print(f"{solver.info.dof} joints: {', '.join(solver.info.joint_names)}")

    targets = solver.sample_targets(200)
    result = solver.solve(targets, collision=None)
    solved = result.ok(pos_mm=1e-3, ori_rad=1e-6).any(axis=1).sum()
    print(f"{solved} of {len(targets)} targets solved")
    if solved < len(targets):
        raise SystemExit("every sampled target is reachable, so every one should be solved")

try:
    hjcdik.Solver(urdf, ee_link="griper")
except hjcdik.ModelError as error:
    print(f"a mistake is explained: {error}")
