"""Follow a path: start each solve from the last answer, so that the arm does not flip."""

import numpy as np

import hjcdik

solver = hjcdik.Solver("panda")
q = np.array([0.0, -0.4, 0.0, -2.2, 0.0, 1.8, 0.785])  # where the arm is
start = solver.forward_kinematics(q)

largest_step = 0.0
for height in np.linspace(0.0, 0.1, 50):  # straight up, 2 mm at a time
    target = start.copy()
    target[2] += height
    answer = solver.solve(target, q_init=q[None], collision=None)[0]
    if not answer.ok(pos_mm=1e-3, ori_rad=1e-6).any():
        raise SystemExit(f"no solution {height:.3f} m up: {answer.outcome}")
    largest_step = max(largest_step, np.abs(answer.q[0] - q).max())  # row 0 is the nearest to q_init
    q = answer.q[0]

print(f"50 targets, no joint moved more than {largest_step:.4f} rad from one to the next")
if largest_step > 0.1:
    raise SystemExit("the arm jumped")
