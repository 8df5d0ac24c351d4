"""Many targets in one call, several different solutions of each."""

import hjcdik

solver = hjcdik.Solver("ur5e")
targets = solver.sample_targets(1000, seed=1)  # (1000, 7) reachable poses

result = solver.solve(targets, num_solutions=8, collision=None)
print(f"q has the shape {result.q.shape}: targets, rows, joints; rows beyond `count` are NaN")
print(f"rows per target: from {result.count.min()} to {result.count.max()}")

good = result.ok(pos_mm=1e-3, ori_rad=1e-6)
print(f"{good.any(axis=1).sum()} of {len(result)} targets solved, {good.sum()} solutions in all")
print(f"{result.elapsed_ms.sum():.1f} ms for the whole call")
if not good.any(axis=1).all():
    raise SystemExit("every sampled target is reachable, so every one should be solved")
