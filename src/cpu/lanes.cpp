// The CPU lanes: search in float, polish and evaluation in double. Compiled once per instruction set
// with HJCDIK_CORE and HJCDIK_ISA set; no standard library, so that no code is shared between the objects.

#include "cpu/lanes.h"

#include "core/collision.h"
#include "core/coordinate_descent.h"
#include "core/levenberg_marquardt.h"
#include "core/random.h"
#include "core/row_judge.h"
#include "core/self_motion.h"
#include "cpu/pack.h"

namespace hjcdik::HJCDIK_CORE {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
constexpr int kWidth = kVectorBytes / 4;
constexpr int kWidth64 = kVectorBytes / 8;
using Real = Pack<float, kWidth>;
using Real64 = Pack<double, kWidth64>;

template <class P, class T>
HJCDIK_FN void set_lane(P& pack, int lane, T value) {
  pack.set(lane, value);
}

template <class P>
HJCDIK_FN Frame<P> load_frame(const P* f) {
  return {{f[0], f[3], f[6]}, {f[1], f[4], f[7]}, {f[2], f[5], f[8]}, {f[9], f[10], f[11]}};
}

HJCDIK_FN Real load(const float* values) {
  Real r;
  __builtin_memcpy(&r, values, sizeof r);
  return r;
}

using Integers = Traits<Real>::Int;
HJCDIK_FN Integers load_int(const int* values) {
  Integers r;
  __builtin_memcpy(&r, values, sizeof r);
  return r;
}

HJCDIK_FN void store(float* to, Real value) { __builtin_memcpy(to, &value, sizeof value); }

HJCDIK_FN int lowest(unsigned bits) { return __builtin_ctz(bits); }

// A target under search, and the lanes at work on it.
struct Slot {
  int target;
  int in_flight;
};

// One configuration's spheres, side by side in the lanes: the Team of core/collision.h.
class SphereTeam {
 public:
  using Real = hjcdik::HJCDIK_CORE::Real;
  static constexpr int width = kWidth;
  static_assert(kWidth <= core::kSpherePadding);

  // Frames of the base and of all joints, and room for whole packs of them.
  static constexpr int kFrames = kMaxDof + 1 + core::kSpherePadding - 1;

  SphereTeam(const SphereTable<float>& robot, int dof) : robot_(robot), last_frame_(dof) {
    for (int lane = 0; lane < kWidth; lane++) set_lane(index_, lane, float(lane));
    for (int g = 0; g < robot.groups + core::kSpherePadding; g++) {
      const SphereGroup& group = robot.group[g < robot.groups ? g : 0];
      bound_radius_[g] = group.radius;
      bound_joint_[g] = group.joint;
      for (int k = 0; k < 3; k++) bound_local_[k][g] = group.center[k];
    }
  }

  // frames: of one configuration; number k of frame j at frames[k][j], the columns of the rotation first.
  void place(const float (*frames)[kFrames]) {
    for (int first = 0; first < robot_.spheres; first += kWidth) {
      const Vec3<Real> p = carried(frames, load_int(robot_.joint + first), load(robot_.x + first),
                                   load(robot_.y + first), load(robot_.z + first));
      store(place_[0] + first, p.x);
      store(place_[1] + first, p.y);
      store(place_[2] + first, p.z);
    }
    for (int first = 0; first < robot_.groups; first += kWidth) {
      const Vec3<Real> p = carried(frames, load_int(bound_joint_ + first), load(bound_local_[0] + first),
                                   load(bound_local_[1] + first), load(bound_local_[2] + first));
      store(bound_[0] + first, p.x);
      store(bound_[1] + first, p.y);
      store(bound_[2] + first, p.z);
    }
  }

  Vec3<Real> position(int first) const {
    return {load(place_[0] + first), load(place_[1] + first), load(place_[2] + first)};
  }
  Real radius(int first) const { return load(robot_.radius + first); }
  auto counts(int first, int end) const { return index_ < Real(float(end - first)); }
  Vec3<float> place(int i) const { return {place_[0][i], place_[1][i], place_[2][i]}; }
  float radius_of(int i) const { return robot_.radius[i]; }
  // Pairs come in the order of their first group, which is held against all groups at once.
  u32 near_pairs(int first, float interest) const {
    u32 near = 0, close = 0;
    int of = -1;
    for (int k = first; k < robot_.pairs && k < first + 32; k++) {
      const int a = robot_.pair[k][0], b = robot_.pair[k][1];
      if (a != of) close = close_groups(of = a, interest);
      const bool hit = b < 32 ? (close >> b & 1) != 0
                              : are_near(robot_.group[a], robot_.group[b], bound(a), bound(b), interest);
      near |= u32(hit) << (k - first);
    }
    return near;
  }
  template <class Mask>
  u32 bits(Mask mask) const {
    return mask_bits(mask);
  }
  Vec3<float> bound(int g) const { return {bound_[0][g], bound_[1][g], bound_[2][g]}; }
  float smallest(Real x) const { return least(x); }

 private:
  // Points in the frames of their joints (-1: the base's), to the base's frame.
  Vec3<Real> carried(const float (*frames)[kFrames], Integers joint, Real x, Real y, Real z) const {
    Real f[12];
    for (int k = 0; k < 12; k++) f[k] = look_up(frames[k], joint);
    return {f[9] + (x * f[0] + (y * f[3] + z * f[6])), f[10] + (x * f[1] + (y * f[4] + z * f[7])),
            f[11] + (x * f[2] + (y * f[5] + z * f[8]))};
  }

  // Number joint + 1 of a row of frames, lane by lane.
  Real look_up(const float* row, Integers joint) const {
    const Integers index = joint + 1;
    Real value = shuffle(load(row), index);
    for (int block = kWidth; block <= last_frame_; block += kWidth)
      value = select(index >= block, shuffle(load(row + block), index), value);
    return value;
  }

  // Bit b: whether group b, of the first 32, is near group a.
  u32 close_groups(int a, float interest) const {
    u32 close = 0;
    const Vec3<float> at = bound(a);
    const Real reach_a(robot_.group[a].radius + interest);
    for (int first = 0; first < 32 && first < robot_.groups; first += kWidth) {
      const Real x = load(bound_[0] + first) - Real(at.x), y = load(bound_[1] + first) - Real(at.y),
                 z = load(bound_[2] + first) - Real(at.z), reach = load(bound_radius_ + first) + reach_a;
      close |= mask_bits(x * x + y * y + z * z < reach * reach) << first;
    }
    return close;
  }

  const SphereTable<float>& robot_;
  Real index_;
  alignas(64) float place_[3][kMaxSpheres + 2 * core::kSpherePadding];
  alignas(64) float bound_[3][kMaxSpheres + core::kSpherePadding];
  alignas(64) float bound_radius_[kMaxSpheres + core::kSpherePadding];
  alignas(64) float bound_local_[3][kMaxSpheres + core::kSpherePadding];
  alignas(64) int bound_joint_[kMaxSpheres + core::kSpherePadding];
  int last_frame_;
};

// What only searches that judge their finds need.
struct Judge {
  Judge(const CollisionTask& task, int dof) : task(task), team(task.robot, dof) {
    walking = stepping = Real(0.0f);
  }

  const CollisionTask& task;
  SphereTeam team;
  Frame<Real> frames[kMaxDof + 1];
  alignas(64) float lane_frames[12][SphereTeam::kFrames];
  // The lanes' walks: where they began, the step to make next, and whether it is made in this iteration.
  Real origin[kMaxDof], way[kMaxDof], along[kMaxDof], moved[kMaxDof];
  Real walking, stepping;
  int way_back[kWidth], points[kWidth], corrections[kWidth];
  bool walk_job[kWidth];
  // Of the lane judged last.
  float clearance = 0;
  bool hits_self = false, hits_world = false;
};
struct NoJudge {};
template <bool kJudged>
struct JudgeOf {
  using Type = Judge;
};
template <>
struct JudgeOf<false> {
  using Type = NoJudge;
};

template <bool kJudged>
class Search {
 public:
  explicit Search(SearchTask& task)
      : task_(task), chain_(*task.chain), dof_(task.chain->dof), judge_(make_judge(task)) {}

  void run() {
    for (int i = 0; i < dof_; i++) q_[i] = Real(chain_.joint[i].lower);
    for (int k = 0; k < 12; k++) start_[k] = Real(0.0f);
    start_[0] = start_[4] = start_[8] = Real(1.0f);
    iteration_ = stall_ratio_ = error_ = previous_error_ = Real(0.0f);
    for (int lane = 0; lane < kWidth; lane++) slots_[lane].target = -1;
    for (int lane = 0; lane < kWidth; lane++) assign(lane, -1);
    while (active_ != 0) iterate();
  }

 private:
  // Lanes a target gets at most: most targets are solved by their first few starts, and to begin one costs
  // too.
  static constexpr int kAhead = 8;

  void iterate() {
    if (fresh_ != 0) {
      if (task_.coarse_sweeps > 0) coarse_search();
      fresh_ = 0;
    }
    Real next[kMaxDof];
    const Weights<float> weights = {
        {1.0f, 1.0f, 1.0f, task_.orientation_weight, task_.orientation_weight, task_.orientation_weight},
        task_.damping_floor};
    StepReport<Real> report;
    if constexpr (kJudged) {
      // The lanes that make no step get the same from both.
      const auto stepping = judge_.stepping > Real(0.0f);
      if (any(stepping)) {
        for (int i = 0; i < dof_; i++) judge_.along[i] = select(stepping, judge_.way[i], Real(0.0f));
        report = levenberg_marquardt_step(chain_, load_frame(start_), weights, q_, next, axes_, judge_.along,
                                          judge_.moved);
      } else {
        report = levenberg_marquardt_step(chain_, load_frame(start_), weights, q_, next, axes_);
      }
    } else {
      report = levenberg_marquardt_step(chain_, load_frame(start_), weights, q_, next, axes_);
    }
    task_.lane_iterations += __builtin_popcount(active_);

    const auto done = (report.distance < Real(task_.position_tolerance)) &
                      (report.angle < Real(task_.orientation_tolerance));
    // A start ends by its own history alone: converged, out of iterations, or going nowhere. Where it then is
    // near enough for the polish it counts as converged too: singular targets are approached slowly.
    const auto near = (report.distance < Real(kNearEnough * task_.position_tolerance)) &
                      (report.angle < Real(kNearEnough * task_.orientation_tolerance));
    const auto over =
        (iteration_ >= Real(float(task_.iterations))) |
        ((iteration_ >= Real(float(kStallIteration))) & (report.error > stall_ratio_ * previous_error_));
    auto hold = done | over;
    unsigned walking = 0, left = 0;
    if constexpr (kJudged) {
      walking = mask_bits(judge_.walking > Real(0.0f)) & active_;
      if (walking != 0) {
        const auto is_walking = judge_.walking > Real(0.0f), stepping = judge_.stepping > Real(0.0f);
        left = mask_bits(stepping & leaves_limits());
        hold = ((!is_walking) & hold) | (is_walking & (!stepping) & near);
        turn_way(stepping);
      }
    }
    for (int i = 0; i < dof_; i++) q_[i] = select(hold, q_[i], next[i]);
    iteration_ = iteration_ + Real(1.0f);
    previous_error_ = error_;
    error_ = report.error;

    ended_ = (mask_bits(hold) | walking) & active_;
    if (ended_ == 0) return;
    distance_ = report.distance;
    angle_ = report.angle;
    const unsigned converged = mask_bits(near);
    if constexpr (kJudged) {
      if (needs_judging(converged, walking)) carrying_frames(chain_, q_, judge_.frames);
    }
    while (ended_ != 0) {
      const int lane = lowest(ended_);
      ended_ &= ended_ - 1;
      const bool at_target = (converged >> lane & 1) != 0;
      if constexpr (kJudged) {
        if ((walking >> lane & 1) != 0) {
          walk(lane, at_target, (left >> lane & 1) != 0);
        } else {
          end_judged(lane, at_target);
        }
      } else {
        end_job(lane, at_target);
      }
    }
  }

  static typename JudgeOf<kJudged>::Type make_judge(SearchTask& task) {
    if constexpr (kJudged) {
      return Judge(*task.collision, task.chain->dof);
    } else {
      return NoJudge{};
    }
  }

  // Whether the end of some lane's iteration is to be judged.
  bool needs_judging(unsigned converged, unsigned walking) {
    const unsigned stepping = mask_bits(judge_.stepping > Real(0.0f));
    const auto in_band = (distance_ < Real(kAccurateDistance)) & (angle_ < Real(kAccurateAngle));
    return (ended_ & ((converged & ~stepping) | (mask_bits(in_band) & ~walking))) != 0;
  }

  // The lane's clearances; whether it is free, as far as float32 can tell.
  bool is_free(int lane) {
    if (!judge_.task.judges) {
      judge_.clearance = -kCollides;
      return true;
    }
    for (int i = 0; i <= dof_; i++) {
      const Frame<Real>& f = judge_.frames[i];
      const Vec3<Real>* columns[4] = {&f.x, &f.y, &f.z, &f.p};
      for (int k = 0; k < 4; k++) {
        judge_.lane_frames[3 * k][i] = columns[k]->x[lane];
        judge_.lane_frames[3 * k + 1][i] = columns[k]->y[lane];
        judge_.lane_frames[3 * k + 2][i] = columns[k]->z[lane];
      }
    }
    judge_.team.place(judge_.lane_frames);
    const CollisionTask& c = judge_.task;
    const int world = state(slots_[lane_slot_[lane]]).world;
    const float slack = c.worlds.worlds[world].slack, interest = kInterest + slack;
    Real self(interest);
    if (c.self) self = self_clearance(judge_.team, c.robot, interest);
    const Real outside =
        world_clearance(judge_.team, c.robot, c.worlds, world, interest + c.margin) - Real(c.margin);
    judge_.clearance = least(min(self, outside));
    if (judge_.clearance >= -slack) return true;
    judge_.hits_self = least(self) < 0;
    judge_.hits_world = least(outside) < 0;
    return false;
  }

  // The end of a job that is not on a walk: a hit if it is free. What collides is kept among the near hits,
  // and where the job is a walk, it begins.
  void end_judged(int lane, bool at_target) {
    TargetState& t = state(slots_[lane_slot_[lane]]);
    const bool in_band = distance_[lane] < kAccurateDistance && angle_[lane] < kAccurateAngle;
    if (judge_.walk_job[lane]) {
      // A start that is free has been found by its own job. What touches may still be refused after the
      // polish.
      if (!at_target || is_free(lane)) return finish_job(lane, false);
      return begin_walk(lane);
    }
    if (!in_band) return finish_job(lane, false);
    const bool free = is_free(lane);
    if (!free) {
      t.self_rejected += judge_.hits_self;
      t.world_rejected += judge_.hits_world;
    }
    if (free && at_target) {
      add_hit(t, lane, lane_job_[lane]);
    } else {
      add_near_hit(t, lane, lane_job_[lane],
                   free ? end_score(distance_[lane], angle_[lane]) : kCollides - judge_.clearance);
    }
    finish_job(lane, free && at_target);
  }

  u32 lane_stream(int lane) const {
    const Start s = start_of_job(task_.plan, lane_job_[lane]);
    return start_stream(task_.seed, u32(s.candidate), u32(s.start));
  }

  void begin_walk(int lane) {
    for (int i = 0; i < dof_; i++) set_lane(judge_.origin[i], lane, q_[i][lane]);
    set_lane(judge_.walking, lane, 1.0f);
    begin_way(lane, 0);
  }

  void begin_way(int lane, int way) {
    const u32 stream = lane_stream(lane);
    judge_.way_back[lane] = way;
    judge_.points[lane] = kWalkPoints;
    judge_.corrections[lane] = 0;
    set_lane(judge_.stepping, lane, 1.0f);
    for (int i = 0; i < dof_; i++) {
      const float v = walk_direction(stream, i);
      set_lane(q_[i], lane, judge_.origin[i][lane]);
      set_lane(judge_.way[i], lane, way == 0 ? v : -v);
    }
  }

  // Lanes whose step leads beyond a limit: the self-motion ends there.
  auto leaves_limits() {
    auto out = Real(0.0f) > Real(0.0f);
    for (int i = 0; i < dof_; i++) {
      const auto& joint = chain_.joint[i];
      if (joint.wraps) continue;
      const Real value = q_[i] + judge_.moved[i];
      out = out | (value < Real(joint.lower)) | (value > Real(joint.upper));
    }
    return out;
  }

  // The next step goes the way that this one went.
  template <class Mask>
  void turn_way(Mask stepping) {
    Real square(0.0f);
    for (int i = 0; i < dof_; i++) square = square + judge_.moved[i] * judge_.moved[i];
    const Real scale = Real(kWalkStep) * inverse_length(sqrt(square));
    for (int i = 0; i < dof_; i++) judge_.way[i] = select(stepping, scale * judge_.moved[i], judge_.way[i]);
  }

  // A lane on a walk after an iteration: a step, a correction, or an arrival.
  void walk(int lane, bool at_target, bool left_limits) {
    const bool stepped = judge_.stepping[lane] > 0;
    set_lane(judge_.stepping, lane, 0.0f);
    if (stepped) {
      judge_.corrections[lane] = 0;
      if (left_limits) end_way(lane);
    } else if (at_target) {
      if (is_free(lane)) {
        add_hit(state(slots_[lane_slot_[lane]]), lane, lane_job_[lane]);
        return finish_job(lane, true);
      }
      if (--judge_.points[lane] == 0) return end_way(lane);
      set_lane(judge_.stepping, lane, 1.0f);
    } else if (++judge_.corrections[lane] > kWalkCorrections) {
      end_way(lane);
    }
  }

  void end_way(int lane) {
    if (judge_.way_back[lane] == 0) return begin_way(lane, 1);
    finish_job(lane, false);
  }

  void coarse_search() {
    Real q[kMaxDof];
    for (int i = 0; i < dof_; i++) q[i] = q_[i];
    const Frame<Real> start = load_frame(start_);
    const Real weight = Real(0.5f * task_.orientation_weight * task_.orientation_weight);
    for (int sweep = 0; sweep < task_.coarse_sweeps; sweep++) {
      if (task_.greedy) {
        for (int i = 0; i < dof_; i++) descent_greedy_step(chain_, start, weight, q, axes_);
      } else {
        descent_sweep(chain_, start, weight, q, axes_);
      }
    }
    for (unsigned rest = fresh_; rest != 0; rest &= rest - 1) {
      const int lane = lowest(rest);
      for (int i = 0; i < dof_; i++) set_lane(q_[i], lane, q[i][lane]);
    }
  }

  TargetState& state(const Slot& slot) { return task_.targets[slot.target]; }

  // Jobs from this one on can no longer matter to the target.
  int job_limit(const TargetState& t) const {
    if (t.need > 0 && t.hits == t.need) return task_.hit_job[hit_row(t, t.hits - 1)];
    return t.job_end;
  }
  std::int64_t hit_row(const TargetState& t, int r) const {
    return std::int64_t(&t - task_.targets) * task_.hit_capacity + r;
  }

  void end_job(int lane, bool converged) {
    TargetState& t = state(slots_[lane_slot_[lane]]);
    const int job = lane_job_[lane];
    if (task_.job_errors != nullptr) {
      task_.job_errors[2 * std::int64_t(job)] = distance_[lane];
      task_.job_errors[2 * std::int64_t(job) + 1] = angle_[lane];
      copy_lane(lane, task_.job_q + std::int64_t(job) * dof_);
    } else if (converged) {
      add_hit(t, lane, job);
    } else {
      add_near_hit(t, lane, job, end_score(distance_[lane], angle_[lane]));
    }
    finish_job(lane, converged);
  }

  // Takes the lane off its job, and gives it and those that it makes free others.
  void finish_job(int lane, bool converged) {
    const int slot_index = lane_slot_[lane];
    Slot& slot = slots_[slot_index];
    TargetState& t = state(slot);
    slot.in_flight--;
    active_ &= ~(1u << lane);
    const int limit = job_limit(t);
    // Lanes that run ahead on jobs that no longer matter are free for others.
    unsigned freed = 0;
    if (converged && slot.in_flight > 0) {
      for (int other = 0; other < kWidth; other++) {
        if ((active_ >> other & 1) != 0 && lane_slot_[other] == slot_index && lane_job_[other] > limit) {
          active_ &= ~(1u << other);
          ended_ &= ~(1u << other);
          slot.in_flight--;
          freed |= 1u << other;
        }
      }
    }
    if (slot.in_flight == 0 && t.next_job >= limit) {
      if (t.hits == t.need && t.need > 0) {
        t.next_job = limit + 1;
        t.near_hits = 0;
      }
      slot.target = -1;
    }
    assign(lane, slot_index);
    for (; freed != 0; freed &= freed - 1) assign(lowest(freed), slot_index);
  }

  // Gives a free lane its next job: its own target's if no other lane is at it, else a new target's,
  // else one ahead of time for the target that has the fewest lanes.
  void assign(int lane, int slot_index) {
    if (slot_index >= 0 && slots_[slot_index].target >= 0 && slots_[slot_index].in_flight == 0) {
      return start_job(lane, slot_index);
    }
    if (next_in_order_ < task_.count) {
      int free_slot = 0;
      while (slots_[free_slot].target >= 0) free_slot++;
      slots_[free_slot] = {task_.order[next_in_order_++], 0};
      TargetState& t = state(slots_[free_slot]);
      t.hits = 0;
      t.near_hits = 0;
      if (t.next_job < t.job_end) return start_job(lane, free_slot);
      slots_[free_slot].target = -1;
      return assign(lane, -1);
    }
    int best = -1;
    for (int s = 0; s < kWidth; s++) {
      if (slots_[s].target < 0) continue;
      const TargetState& t = state(slots_[s]);
      if (t.next_job >= job_limit(t) || slots_[s].in_flight >= kAhead) continue;
      if (best < 0 || slots_[s].in_flight < slots_[best].in_flight) best = s;
    }
    if (best >= 0) start_job(lane, best);
  }

  void start_job(int lane, int slot_index) {
    Slot& slot = slots_[slot_index];
    TargetState& t = state(slot);
    const int job = t.next_job++;
    slot.in_flight++;
    lane_slot_[lane] = slot_index;
    lane_job_[lane] = job;
    active_ |= 1u << lane;
    fresh_ |= 1u << lane;
    set_lane(iteration_, lane, 0.0f);
    set_lane(stall_ratio_, lane, 1e30f);
    for (int k = 0; k < 12; k++) set_lane(start_[k], lane, t.start[k]);
    const Start s = start_of_job(task_.plan, job);
    if constexpr (kJudged) {
      judge_.walk_job[lane] = s.walk;
      set_lane(judge_.walking, lane, 0.0f);
      set_lane(judge_.stepping, lane, 0.0f);
    }
    if (s.is_warm) {
      const float* warm =
          task_.warm + slot.target * task_.warm_target_stride + std::int64_t(s.candidate) * dof_;
      for (int i = 0; i < dof_; i++) set_lane(q_[i], lane, warm[i]);
      fresh_ &= ~(1u << lane);  // a warm start is where the user wants to begin
      return;
    }
    if (s.is_first) {
      const float* q = task_.seed_q + std::int64_t(nearest_seed(t.start)) * dof_;
      set_lane(stall_ratio_, lane, stall_ratio(0, 0));
      for (int i = 0; i < dof_; i++) set_lane(q_[i], lane, q[i]);
      return;
    }
    set_lane(stall_ratio_, lane, stall_ratio(s.candidate, s.start));
    const u32 stream = start_stream(task_.seed, u32(s.candidate), u32(s.start));
    const float spread = start_spread(u32(s.candidate), u32(s.start));
    for (int i = 0; i < dof_; i++) set_lane(q_[i], lane, start_value(chain_.joint[i], stream, spread, i));
  }

  // The table's entry whose tool is nearest to the target, the first of equals; entries side by side in the
  // lanes.
  int nearest_seed(const float* start) {
    const Vec3<float> offset = seed_offset(start);
    const Real weight = Real(0.5f * task_.orientation_weight * task_.orientation_weight);
    Real best(3e38f), best_entry(0.0f), entry;
    for (int lane = 0; lane < kWidth; lane++) set_lane(entry, lane, float(lane));
    for (int first = 0; first < kSeedTable; first += kWidth) {
      Real pose[12];
      for (int k = 0; k < 12; k++) pose[k] = load(task_.seed_pose + k * kSeedTable + first);
      const Real distance = seed_distance(offset, start, weight, pose);
      const auto nearer = distance < best;
      best = select(nearer, distance, best);
      best_entry = select(nearer, entry + Real(float(first)), best_entry);
    }
    int lane = 0;
    for (int other = 1; other < kWidth; other++) {
      if (best[other] < best[lane] || (best[other] == best[lane] && best_entry[other] < best_entry[lane]))
        lane = other;
    }
    return int(best_entry[lane]);
  }

  void copy_lane(int lane, float* q) {
    for (int i = 0; i < dof_; i++) q[i] = q_[i][lane];
  }

  // Keeps the first `need` hits in job order.
  void add_hit(TargetState& t, int lane, int job) {
    int place = t.hits;
    while (place > 0 && task_.hit_job[hit_row(t, place - 1)] > job) place--;
    if (place == t.need) return;
    if (t.hits < t.need) t.hits++;
    for (int r = t.hits - 1; r > place; r--) {
      if constexpr (kJudged)
        judge_.task.hit_clearance[hit_row(t, r)] = judge_.task.hit_clearance[hit_row(t, r - 1)];
      task_.hit_job[hit_row(t, r)] = task_.hit_job[hit_row(t, r - 1)];
      for (int i = 0; i < dof_; i++)
        task_.hit_q[hit_row(t, r) * dof_ + i] = task_.hit_q[hit_row(t, r - 1) * dof_ + i];
    }
    if constexpr (kJudged) judge_.task.hit_clearance[hit_row(t, place)] = judge_.clearance;
    task_.hit_job[hit_row(t, place)] = job;
    copy_lane(lane, task_.hit_q + hit_row(t, place) * dof_);
  }

  // Whether row a is worse than row b: the order of the heap of near hits.
  bool worse(std::int64_t a, std::int64_t b) const {
    if (task_.near_score[a] != task_.near_score[b]) return task_.near_score[a] > task_.near_score[b];
    return task_.near_job[a] > task_.near_job[b];
  }
  void swap_near(std::int64_t a, std::int64_t b) {
    const float score = task_.near_score[a];
    task_.near_score[a] = task_.near_score[b];
    task_.near_score[b] = score;
    const std::int32_t job = task_.near_job[a];
    task_.near_job[a] = task_.near_job[b];
    task_.near_job[b] = job;
    for (int i = 0; i < dof_; i++) {
      const float v = task_.near_q[a * dof_ + i];
      task_.near_q[a * dof_ + i] = task_.near_q[b * dof_ + i];
      task_.near_q[b * dof_ + i] = v;
    }
  }

  // Keeps the `near_capacity` best ends that did not converge: a heap with the worst on top.
  void add_near_hit(TargetState& t, int lane, int job, float score) {
    const std::int64_t top = std::int64_t(&t - task_.targets) * task_.near_capacity;
    int r;
    if (t.near_hits < task_.near_capacity) {
      r = t.near_hits++;
    } else {
      if (score > task_.near_score[top] || (score == task_.near_score[top] && job > task_.near_job[top]))
        return;
      r = 0;
    }
    task_.near_score[top + r] = score;
    task_.near_job[top + r] = job;
    copy_lane(lane, task_.near_q + (top + r) * dof_);
    while (r > 0 && worse(top + r, top + (r - 1) / 2)) {
      swap_near(top + r, top + (r - 1) / 2);
      r = (r - 1) / 2;
    }
    for (int child = 2 * r + 1; child < t.near_hits; child = 2 * r + 1) {
      if (child + 1 < t.near_hits && worse(top + child + 1, top + child)) child++;
      if (!worse(top + child, top + r)) break;
      swap_near(top + child, top + r);
      r = child;
    }
  }

  SearchTask& task_;
  const ChainConstants<float>& chain_;
  const int dof_;
  Real q_[kMaxDof];
  Real start_[12];
  Real iteration_, stall_ratio_, error_, previous_error_;
  Real distance_, angle_;
  JointAxes<Real> axes_;
  Slot slots_[kWidth];
  int lane_slot_[kWidth], lane_job_[kWidth];
  unsigned active_ = 0, fresh_ = 0, ended_ = 0;
  int next_in_order_ = 0;
  typename JudgeOf<kJudged>::Type judge_;
};

void search(SearchTask& task) {
  if (task.collision != nullptr) {
    Search<true>(task).run();
  } else {
    Search<false>(task).run();
  }
}

void polish(PolishTask& task) {
  const ChainConstants<double>& chain = *task.chain;
  const int dof = chain.dof;
  const double w = task.orientation_weight;
  const Weights<double> weights = {{1.0, 1.0, 1.0, w, w, w}, task.damping_floor};
  Real64 q[kMaxDof], next[kMaxDof], start[12];
  JointAxes<Real64> axes;
  Real64 iteration(0.0);
  int lane_row[kWidth64];
  int next_row = 0;
  unsigned active = 0;

  auto load = [&](int lane) {
    const bool more = next_row < task.count;
    // A lane without work repeats the first row's numbers.
    const int r = more ? next_row++ : 0;
    lane_row[lane] = r;
    active = more ? active | (1u << lane) : active & ~(1u << lane);
    set_lane(iteration, lane, 0.0);
    for (int k = 0; k < 12; k++) set_lane(start[k], lane, task.start[r][k]);
    for (int i = 0; i < dof; i++) set_lane(q[i], lane, task.q[std::int64_t(r) * dof + i]);
  };
  if (task.count == 0) return;
  for (int lane = 0; lane < kWidth64; lane++) load(lane);
  while (active != 0) {
    const StepReport<Real64> report =
        levenberg_marquardt_step(chain, load_frame(start), weights, q, next, axes);
    iteration = iteration + Real64(1.0);
    const auto close =
        (report.distance < Real64(task.last_step_below)) & (report.angle < Real64(task.last_step_below));
    const auto over = iteration >= Real64(double(task.iterations));
    for (int i = 0; i < dof; i++) q[i] = next[i];
    for (unsigned rest = mask_bits(close | over) & active; rest != 0; rest &= rest - 1) {
      const int lane = lowest(rest);
      for (int i = 0; i < dof; i++) task.q[std::int64_t(lane_row[lane]) * dof + i] = q[i][lane];
      load(lane);
    }
  }
}

void evaluate(EvaluateTask& task) {
  const ChainConstants<double>& chain = *task.chain;
  const int dof = chain.dof;
  for (int first = 0; first < task.count; first += kWidth64) {
    Real64 q[kMaxDof], start[12];
    for (int lane = 0; lane < kWidth64; lane++) {
      const int r = first + lane < task.count ? first + lane : first;
      for (int k = 0; k < 12; k++) set_lane(start[k], lane, task.start[r][k]);
      for (int i = 0; i < dof; i++) set_lane(q[i], lane, task.q[std::int64_t(r) * dof + i]);
    }
    const Frame<Real64> tool = forward_kinematics(chain, q, load_frame(start));
    const PoseError<Real64> e = pose_error(tool);
    const Real64 out[12] = {tool.x.x, tool.y.x, tool.z.x, tool.x.y, tool.y.y, tool.z.y,
                            tool.x.z, tool.y.z, tool.z.z, tool.p.x, tool.p.y, tool.p.z};
    for (int lane = 0; lane < kWidth64 && first + lane < task.count; lane++) {
      for (int k = 0; k < 12; k++) task.tool[std::int64_t(first + lane) * 12 + k] = out[k][lane];
      task.distance[first + lane] = e.distance[lane];
      task.angle[first + lane] = e.angle[lane];
    }
  }
}

struct AnyLane {
  bool operator()(MaskOf<Real> mask) const { return any(mask); }
};

void judge(JudgeTask& task) {
  const int dof = task.chain->dof;
  RowJudge<Real, kMaxSpheres, kMaxDof, AnyLane> judge(task.robot, task.worlds, task.margin, task.room,
                                                      task.self, AnyLane{});
  for (int first = 0; first < task.count; first += kWidth) {
    const int rows = task.count - first < kWidth ? task.count - first : kWidth;
    Real q[kMaxDof];
    for (int lane = 0; lane < kWidth; lane++) {
      const int r = lane < rows ? first + lane : first;
      for (int i = 0; i < dof; i++) set_lane(q[i], lane, task.q[std::int64_t(r) * dof + i]);
    }
    judge.place(*task.chain, q);
    // Lanes of one world at a time; mostly all are.
    for (unsigned left = rows < kWidth ? (1u << rows) - 1u : (2u << (kWidth - 1)) - 1u; left != 0;) {
      const std::int32_t world = task.world[first + lowest(left)];
      Real together(0.0f);
      unsigned same = 0;
      for (int lane = 0; lane < rows; lane++) {
        if (task.world[first + lane] != world) continue;
        same |= 1u << lane;
        set_lane(together, lane, 1.0f);
      }
      const unsigned free = mask_bits(judge.free_rows(world, together > Real(0.0f)));
      for (unsigned rest = same; rest != 0; rest &= rest - 1)
        task.free[first + lowest(rest)] = (free >> lowest(rest) & 1) != 0;
      left &= ~same;
    }
  }
}

}  // namespace
}  // namespace hjcdik::HJCDIK_CORE

#define HJCDIK_TEXT_(x) #x
#define HJCDIK_TEXT(x) HJCDIK_TEXT_(x)
#define HJCDIK_JOIN_(a, b) a##b
#define HJCDIK_JOIN(a, b) HJCDIK_JOIN_(a, b)

namespace hjcdik::cpu {
extern const Lanes HJCDIK_JOIN(lanes_, HJCDIK_ISA);
const Lanes HJCDIK_JOIN(lanes_, HJCDIK_ISA) = {HJCDIK_TEXT(HJCDIK_ISA),       hjcdik::HJCDIK_CORE::kWidth,
                                               hjcdik::HJCDIK_CORE::search,   hjcdik::HJCDIK_CORE::polish,
                                               hjcdik::HJCDIK_CORE::evaluate, hjcdik::HJCDIK_CORE::judge};
}  // namespace hjcdik::cpu
