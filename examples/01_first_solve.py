"""One target: solve, check, use."""

import hjcdik

solver = hjcdik.Solver("panda")
# x y z in metres, then the quaternion qw qx qy qz: half a metre ahead, tool pointing down.
target = [0.5, 0.1, 0.4, 0.0, 1.0, 0.0, 0.0]

answer = solver.solve(target, collision=None)[0]
if not answer.ok(pos_mm=1e-3, ori_rad=1e-6).any():
    raise SystemExit(f"no solution: {answer.outcome}")

for name, value, unit in zip(solver.info.joint_names, answer.q[0], solver.info.joint_units, strict=True):
    print(f"{name:14} {value:9.6f} {unit}")
print(f"misses the target by {answer.pos_err_mm[0]:.1e} mm and {answer.ori_err_rad[0]:.1e} rad")
