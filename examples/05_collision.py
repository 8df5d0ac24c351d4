"""Solve among obstacles: answers touch neither them nor the robot itself."""

import numpy as np

import hjcdik

solver = hjcdik.Solver("panda")  # comes with collision spheres
# A box: centre, quaternion qw qx qy qz, side lengths. A capsule: both ends of its axis, radius. In metres.
table = [0.5, 0.0, -0.03, 1, 0, 0, 0, 1.0, 1.4, 0.05]
shelf = [0.55, 0.0, 0.55, 1, 0, 0, 0, 0.4, 1.0, 0.02]
post = [0.5, -0.25, 0.0, 0.5, -0.25, 0.5, 0.04]
target = [0.5, 0.0, 0.15, 0, 1, 0, 0]  # between table and shelf, tool pointing down

solver.set_world(boxes=[table, shelf], capsules=[post])
answer = solver.solve(target, collision="hard")[0]
if answer.outcome != "solved":
    raise SystemExit(f"no solution: {answer.outcome}")

# The verdict on any configuration, and what it comes closest to.
verdict = solver.check(answer.q)
print(f"{verdict.clearance_m[0] * 1e3:.1f} mm from {verdict.link[0]} to {verdict.other[0]}")
unaware = solver.solve(target, collision=None)[0]
print("the same without regard to collision:", solver.check(unaware.q))

# Several worlds: every target says which one it is in; -1 is an empty one.
solver.set_worlds([{"boxes": [table]}, {"boxes": [table, shelf], "capsules": [post]}])
targets = np.tile(target, (300, 1))
targets[:, 1] = np.linspace(-0.1, 0.2, 300)
world = np.arange(300) % 3 - 1
result = solver.solve(targets, collision="hard", world_index=world)
solved = result.outcome == "solved"
print(f"{solved.sum()} of {len(result)} targets solved in three worlds")
free = solver.check(result.q[solved, 0], world_index=world[solved]).free
if not (verdict.free.all() and solved.all() and free.all()):
    raise SystemExit("every target can be reached, and a row of a hard solve is free")
