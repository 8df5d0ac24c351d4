// The GPU programs of one robot: NVRTC compiles this text with the robot's chain in "robot.h". Defined ahead
// of it, HJCDIK_COARSE_SEARCH adds the coarse search, and HJCDIK_COLLISION makes the program that judges what
// it finds.
#include "core/collision.h"
#include "core/coordinate_descent.h"
#include "core/levenberg_marquardt.h"
#include "core/random.h"
#include "core/row_judge.h"
#include "core/self_motion.h"
#include "core/target.h"
#include "cuda/kernels/params.h"
#include "robot.h"

namespace hjcdik::cuda {

using namespace hjcdik::core;
using robot::chain_f32;
using robot::chain_f64;

constexpr int kDof = robot::dof;
constexpr int kWarps = kBlock / 32;
constexpr int kNone = 0x7fffffff;
constexpr u32 kAll = 0xffffffffu;

// A target waiting in shared memory for a group of its warp. The odd size keeps lanes that read
// neighbouring entries in different banks.
struct Waiting {
  float start[12];
  int target, index, job_end, seed;
};

__device__ int reduce_min(int value, int group) {
  for (int offset = group / 2; offset > 0; offset /= 2)
    value = ::min(value, __shfl_xor_sync(kAll, value, offset));
  return value;
}

#ifdef HJCDIK_COLLISION
constexpr int kPlaces = (robot::spheres + 2 * kSpherePadding - 1) / kSpherePadding * kSpherePadding;
// A block has 48 KB of shared memory. Where frames and spheres take more, spheres are placed when they are
// looked at.
constexpr bool kKeepsPlaces =
    kWarps * (sizeof(Frame<float>) * (kDof + 1) + 12 * kPlaces + 12 * robot::groups + 32 * sizeof(Waiting)) <=
    48 * 1024 - 256;

// One configuration's spheres, judged by a warp: the Team of core/collision.h.
class WarpTeam {
 public:
  using Real = float;
  static constexpr int width = 32;
  struct Memory {
    Frame<float> frames[kDof + 1];
    float place[3][kKeepsPlaces ? kPlaces : 1];
    float bound[robot::groups][3];
  };

  // The frames are in `memory`.
  __device__ WarpTeam(Memory& memory, const SphereTable<float>& table)
      : memory_(memory), table_(table), lane_(threadIdx.x & 31) {
    for (int i = lane_; kKeepsPlaces && i < kPlaces; i += 32) {
      Vec3<float> p = {kFarAway, kFarAway, kFarAway};
      if (i < table.spheres) p = placed(memory, table, i);
      memory.place[0][i] = p.x;
      memory.place[1][i] = p.y;
      memory.place[2][i] = p.z;
    }
    for (int g = lane_; g < table.groups; g += 32) {
      const SphereGroup& group = table.group[g];
      const Vec3<float> p = transform(memory.frames[group.joint + 1], vector_of<float>(group.center));
      memory.bound[g][0] = p.x;
      memory.bound[g][1] = p.y;
      memory.bound[g][2] = p.z;
    }
    __syncwarp();
  }
  __device__ Vec3<float> position(int first) const { return place(first + lane_); }
  __device__ float radius(int first) const { return table_.radius[first + lane_]; }
  __device__ bool counts(int first, int end) const { return first + lane_ < end; }
  __device__ Vec3<float> place(int i) const {
    if constexpr (!kKeepsPlaces)
      return i < table_.spheres ? placed(memory_, table_, i) : Vec3<float>{kFarAway, kFarAway, kFarAway};
    return {memory_.place[0][i], memory_.place[1][i], memory_.place[2][i]};
  }
  __device__ float radius_of(int i) const { return table_.radius[i]; }
  __device__ u32 near_pairs(int first, float interest) const {
    const int k = first + lane_;
    bool near = false;
    if (k < table_.pairs) {
      const int a = table_.pair[k][0], b = table_.pair[k][1];
      near = are_near(table_.group[a], table_.group[b], bound(a), bound(b), interest);
    }
    return __ballot_sync(kAll, near);
  }
  __device__ u32 bits(bool mask) const { return __ballot_sync(kAll, mask); }
  __device__ Vec3<float> bound(int g) const {
    return {memory_.bound[g][0], memory_.bound[g][1], memory_.bound[g][2]};
  }
  __device__ float smallest(float x) const {
    for (int offset = 16; offset > 0; offset /= 2) x = ::fminf(x, __shfl_xor_sync(kAll, x, offset));
    return x;
  }

 private:
  __device__ static Vec3<float> placed(const Memory& memory, const SphereTable<float>& table, int i) {
    return transform(memory.frames[table.joint[i] + 1], Vec3<float>{table.x[i], table.y[i], table.z[i]});
  }

  Memory& memory_;
  const SphereTable<float>& table_;
  const int lane_;
};

struct Clearances {
  float self, world;  // the world's less the margin
};

// carrying_frames of the configuration in lane `owner`, by the warp: a joint's sine and cosine in a lane
// each, and then a row of the frames in each of three lanes, since rows do not mix.
__device__ void carrying_frames_of(int owner, const float* q, Frame<float>* frames) {
  const int lane = threadIdx.x & 31, row = lane % 3;
  float angle = 0, slide = 0;
  HJCDIK_UNROLL
  for (int i = 0; i < kDof; i++) {
    const auto& joint = chain_f32.joint[i];
    const float value = __shfl_sync(kAll, q[i], owner);
    if (lane == i) angle = joint.prismatic ? joint.offset : value + joint.offset;
    if (lane == i) slide = value;
  }
  float sine, cosine;
  sincos(angle, sine, cosine);
  float x = row == 0 ? 1.0f : 0.0f, y = row == 1 ? 1.0f : 0.0f, z = row == 2 ? 1.0f : 0.0f, p = 0;
  const auto keep = [&](int i) {
    float* f = reinterpret_cast<float*>(frames + i) + row;
    if (lane < 3) f[0] = x, f[3] = y, f[6] = z, f[9] = p;
  };
  keep(0);
  x = chain_f32.start[3 * row];
  y = chain_f32.start[3 * row + 1];
  z = chain_f32.start[3 * row + 2];
  p = chain_f32.start[9 + row];
  HJCDIK_UNROLL
  for (int i = 0; i < kDof; i++) {
    const auto& joint = chain_f32.joint[i];
    const float s = __shfl_sync(kAll, sine, i), c = __shfl_sync(kAll, cosine, i);
    const float turned = c * x + s * y;
    y = c * y - s * x;
    x = turned;
    if (joint.prismatic) p += __shfl_sync(kAll, slide, i) * z;
    keep(i + 1);
    p += joint.translation[0] * x + (joint.translation[1] * y + joint.translation[2] * z);
    const float tilted = joint.cos_alpha * y + joint.sin_alpha * z;
    z = joint.cos_alpha * z - joint.sin_alpha * y;
    y = tilted;
  }
}

// Of the configuration whose frames are in `memory`, by the whole warp.
__device__ __noinline__ Clearances judge(WarpTeam::Memory& memory, const CollisionParams& c, int world) {
  const SphereTable<float> table = robot::spheres_f32();
  const WarpTeam team(memory, table);
  const float interest = kInterest + c.worlds.worlds[world].slack, margin = float(c.margin);
  float self = interest;
  if (c.self) self = team.smallest(self_clearance(team, table, interest));
  const float outside =
      team.smallest(world_clearance(team, table, c.worlds, world, interest + margin)) - margin;
  __syncwarp();
  return {self, outside};
}

// Whether a polished hit is free in float64, by one thread: rarely called.
__device__ __noinline__ bool is_free_f64(const double* q, const CollisionParams& c, int world) {
  const SphereTable<double> table = robot::spheres_f64();
  Frame<double> frames[kDof + 1];
  carrying_frames<kDof>(chain_f64, q, frames);
  const SerialTeam<double, robot::spheres> team(table, frames);
  const double interest = 1e-3;
  if (c.self && self_clearance(team, table, interest) < 0) return false;
  return world_clearance(team, table, c.worlds_f64, world, interest + c.margin) >= c.margin;
}
#endif

extern "C" __global__ void __launch_bounds__(kBlock) hjcdik_search(const SearchParams p) {
  __shared__ Waiting waiting[kWarps][32];
  Waiting* const queue = waiting[threadIdx.x / 32];
  const int lane = threadIdx.x & 31, member = lane & (p.group - 1);
  const u32 group_mask = p.group == 32 ? kAll : ((1u << p.group) - 1u) << (lane - member);
  const u32 below = (1u << lane) - 1u;
  const u32 count = p.list_count != nullptr ? *p.list_count : p.count;
  const Weights<float> weights = {
      {1.0f, 1.0f, 1.0f, p.orientation_weight, p.orientation_weight, p.orientation_weight}, p.damping_floor};

#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  int queue_head = 0, queue_size = 0;
  bool more = true;  // targets that no warp has taken yet

  // The same in all lanes of a group.
  int target = -1, index = 0, seed = 0, next_job = 0, limit = 0, job_end = 0, best = kNone;
  bool replay = false;
  // The lane's own.
  bool active = false, holder = false;
  int job = 0, iteration = 0;
  float q[kDof], stall = 0, error = 0, previous_error = 0, near_score = 0;
  int near_job = kNone;
  Frame<float> start = {};
#ifdef HJCDIK_COLLISION
  __shared__ WarpTeam::Memory team_memory[kWarps];
  WarpTeam::Memory& memory = team_memory[threadIdx.x / 32];
  // The lane's walk (core/self_motion.h): where it began, its next step, and how far it has come.
  bool walk_job = false, walking = false, stepping = false, back = false, begins = false, turn_back = false;
  bool at_target = false, pending = false;  // pending: waits to be judged
  int points = 0, corrections = 0;
  float origin[kDof], way[kDof], hit_clearance = 0;
#endif

  for (;;) {
    // Groups without a target take one from the warp's queue, which is filled 32 at a time.
    u32 need = __ballot_sync(kAll, target < 0 && member == 0);
    while (need != 0) {
      if (queue_head == queue_size) {
        if (!more) break;
        u32 first = 0;
        if (p.next != nullptr) {
          if (lane == 0) first = atomicAdd(p.next, u32(p.fetch));
          first = __shfl_sync(kAll, first, 0);
          queue_size = first < count ? ::min(u32(p.fetch), count - first) : 0;
        } else {
          const u32 groups = 32 / p.group;
          first = (blockIdx.x * kWarps + threadIdx.x / 32) * groups;
          queue_size = first < count ? ::min(groups, count - first) : 0;
          more = false;
        }
        queue_head = 0;
        if (queue_size == 0) {
          more = false;
          break;
        }
        if (lane < queue_size) {
          const u32 t = p.list != nullptr ? p.list[first + lane] : first + lane;
          Waiting& w = queue[lane];
          w.target = int(t);
          w.index = int(first) + lane;
          if (p.starts != nullptr) {
            for (int k = 0; k < 12; k++) w.start[k] = p.starts[t * 12ll + k];
            w.job_end = 0;
          } else {
            double pose[7], r[9], s[12];
            for (int k = 0; k < 7; k++)
              pose[k] = p.targets != nullptr ? p.targets[t * p.target_stride + k] : p.target[k];
            rotation_of(normalised(pose + 3), r);
            target_start(pose, r, chain_f64.start, s);
            for (int k = 0; k < 12; k++) w.start[k] = float(s[k]);
            w.job_end = may_reach(p.reach, pose, r, chain_f64.start) ? p.job_end : p.job_end_out_of_reach;
          }
        }
        __syncwarp();
        // The nearest entry of the seed table, found by the whole warp for one target after the other.
        const float seed_weight = 0.5f * p.orientation_weight * p.orientation_weight;
        for (int w = 0; w < queue_size; w++) {
          float nearest = 3e38f;
          int entry = 0;
          const Vec3<float> offset = seed_offset(queue[w].start);
          for (int m = lane; m < kSeedTable; m += 32) {
            float pose[12];
            for (int k = 0; k < 12; k++) pose[k] = p.seed_pose[k * kSeedTable + m];
            const float d = seed_distance(offset, queue[w].start, seed_weight, pose);
            if (d < nearest) {
              nearest = d;
              entry = m;
            }
          }
          for (int away = 16; away > 0; away /= 2) {
            const float d = __shfl_xor_sync(kAll, nearest, away);
            const int m = __shfl_xor_sync(kAll, entry, away);
            if (d < nearest || (d == nearest && m < entry)) {
              nearest = d;
              entry = m;
            }
          }
          if (lane == 0) queue[w].seed = entry;
        }
        __syncwarp();
      }
      const int ready = queue_size - queue_head;
      const int rank = __popc(need & ((1u << (lane - member)) - 1u));
      if (target < 0 && rank < ready) {
        const Waiting& w = queue[queue_head + rank];
        start = frame_of<float>(w.start);
        target = w.target;
        job_end = w.job_end;
        index = w.index;
        seed = w.seed;
        if (p.job_range != nullptr) {
          next_job = p.job_range[2 * index];
          limit = job_end = p.job_range[2 * index + 1];
          if (next_job >= limit) target = -1;
        } else {
          const int hit = p.resume ? p.hit_job[target] : 0;
          next_job = p.resume ? hit + 1 : p.job_begin;
          limit = ::min(job_end, p.pause_job);
          if (next_job >= limit) {  // only a resumed target: nothing is left to try
            __syncwarp(group_mask);
#ifdef HJCDIK_COLLISION
            if (member == 0) p.hit_job[target] = kNoHit;
#else
            if (member == 0) p.hit_job[target] = -1 - hit;
#endif
            target = -1;
          }
        }
        best = kNone;
        replay = false;
        near_score = 0;
        near_job = kNone;
        if (p.job_begin > 0 && member == 0 && target >= 0) {
          near_score = p.near_score[target];
          near_job = p.near_job[target];
        }
      }
      queue_head += ::min(ready, __popc(need));
      need = __ballot_sync(kAll, target < 0 && member == 0);
    }

    // Free lanes take the next jobs of their group's target.
    const u32 free = __ballot_sync(kAll, target >= 0 && !active && !holder) & group_mask;
    if (target >= 0) {
      const int mine = next_job + __popc(free & below);
      const int end = ::min(limit, best);
      // Half of the group at a time: the start of a job costs the whole warp a good part of an iteration.
      const bool enough = 2 * __popc(free) >= p.group;
      if (enough && !active && !holder && mine < end) {
        job = mine;
        active = true;
        iteration = 0;
        error = previous_error = 0;
        const core::Start s = start_of_job(p.plan, job);
#ifdef HJCDIK_COLLISION
        walk_job = s.walk;
        walking = stepping = pending = false;
#endif
        if (s.is_warm) {
          stall = 1e30f;
          const float* warm = p.warm + target * p.warm_target_stride + s.candidate * kDof;
          for (int i = 0; i < kDof; i++) q[i] = warm[i];
        } else if (s.is_first) {
          stall = stall_ratio(0, 0);
          for (int i = 0; i < kDof; i++) q[i] = p.seed_q[seed * kDof + i];
        } else {
          stall = stall_ratio(s.candidate, s.start);
          const u32 stream = start_stream(p.seed, u32(s.candidate), u32(s.start));
          const float spread = start_spread(u32(s.candidate), u32(s.start));
          HJCDIK_UNROLL
          for (int i = 0; i < kDof; i++) q[i] = start_value(chain_f32.joint[i], stream, spread, i);
        }
#ifdef HJCDIK_COARSE_SEARCH
        for (int sweep = 0; sweep < p.coarse_sweeps && !s.is_warm; sweep++) {
          JointAxes<float, kDof> axes;
          const float weight = 0.5f * p.orientation_weight * p.orientation_weight;
          if (p.greedy) {
            for (int i = 0; i < kDof; i++) descent_greedy_step<kDof>(chain_f32, start, weight, q, axes);
          } else {
            descent_sweep<kDof>(chain_f32, start, weight, q, axes);
          }
        }
#endif
      }
      if (enough) next_job = ::min(next_job + __popc(free), ::max(next_job, end));
    }
    if (__ballot_sync(kAll, active) == 0 && __ballot_sync(kAll, target >= 0) == 0) break;

    bool done = false, over = false;
    float distance = 0, angle = 0;
#ifdef HJCDIK_COLLISION
    float clearance[2] = {0, 0};
    if (active && !pending) {
      JointAxes<float, kDof> axes;
      float next[kDof], along[kDof], moved[kDof];
      HJCDIK_UNROLL
      for (int i = 0; i < kDof; i++) along[i] = stepping ? way[i] : 0.0f;
      const StepReport<float> report =
          levenberg_marquardt_step<kDof>(chain_f32, start, weights, q, next, axes, along, moved);
      distance = report.distance;
      angle = report.angle;
      at_target =
          distance < kNearEnough * p.position_tolerance && angle < kNearEnough * p.orientation_tolerance;
      bool hold = false, way_ends = false;
      if (!walking) {
        hold = (distance < p.position_tolerance && angle < p.orientation_tolerance) ||
               iteration >= p.iterations ||
               (iteration >= kStallIteration && report.error > stall * previous_error);
        pending = hold && (walk_job ? at_target : distance < kAccurateDistance && angle < kAccurateAngle);
        over = hold && !pending;
      } else if (stepping) {
        // A step: the next one goes the same way. Beyond a limit the self-motion ends.
        float square = 0;
        HJCDIK_UNROLL
        for (int i = 0; i < kDof; i++) {
          square += moved[i] * moved[i];
          const auto& joint = chain_f32.joint[i];
          if (!joint.wraps) way_ends |= q[i] + moved[i] < joint.lower || q[i] + moved[i] > joint.upper;
        }
        const float scale = kWalkStep * inverse_length(sqrt(square));
        HJCDIK_UNROLL
        for (int i = 0; i < kDof; i++) way[i] = scale * moved[i];
        stepping = false;
        corrections = 0;
      } else {
        hold = pending = at_target;
        way_ends = !at_target && ++corrections > kWalkCorrections;
      }
      if (!hold) {
        HJCDIK_UNROLL
        for (int i = 0; i < kDof; i++) q[i] = next[i];
      }
      iteration++;
      previous_error = error;
      error = report.error;
      over |= way_ends && back;
      turn_back = way_ends && !back;
    }
    // Configurations are judged in key order, by the whole warp: what comes behind one that is free need not
    // be judged at all. (With `job_q` every job counts.)
    while (__any_sync(kAll, pending)) {
      const bool open = active && !over && !done;
      const bool found = reduce_min(done ? job : kNone, p.group) != kNone;
      const int lowest = p.job_q != nullptr ? job : reduce_min(open ? job : kNone, p.group);
      u32 ready = __ballot_sync(kAll, open && pending && job == lowest && !found);
      if (ready == 0) break;
      for (; ready != 0; ready &= ready - 1) {
        const int owner = __ffs(int(ready)) - 1;
        carrying_frames_of(owner, q, memory.frames);
        const int world = __shfl_sync(kAll, lane == owner ? p.collision.world_at(target) : 0, owner);
        __syncwarp();
        const Clearances c = judge(memory, p.collision, world);
        if (lane != owner) continue;
        pending = false;
        clearance[0] = c.self;
        clearance[1] = c.world;
        const float slack = p.collision.worlds.worlds[world].slack;
        const bool free = ::fminf(c.self, c.world) >= -slack;
        if (walking) {
          done = free;
          stepping = !free && --points > 0;
          over = !free && !stepping && back;
          turn_back = !free && !stepping && !back;
        } else if (walk_job && !free) {
          begins = true;
        } else {
          done = free && at_target && !walk_job;
          over = !done;
        }
      }
    }
    if (begins || turn_back) {
      const core::Start s = start_of_job(p.plan, job);
      const u32 stream = start_stream(p.seed, u32(s.candidate), u32(s.start));
      HJCDIK_UNROLL
      for (int i = 0; i < kDof; i++) {
        if (begins) origin[i] = q[i];
        q[i] = origin[i];
        way[i] = begins ? walk_direction(stream, i) : -walk_direction(stream, i);
      }
      walking = stepping = true;
      back = turn_back;
      points = kWalkPoints;
      corrections = 0;
      begins = turn_back = false;
    }
    // A walk that found nothing counts for nothing.
    if (over && walk_job) distance = angle = 1e30f;
#else
    if (active) {
      JointAxes<float, kDof> axes;
      float next[kDof];
      const StepReport<float> report =
          levenberg_marquardt_step<kDof>(chain_f32, start, weights, q, next, axes);
      distance = report.distance;
      angle = report.angle;
      done = distance < p.position_tolerance && angle < p.orientation_tolerance;
      over = !done && (iteration >= p.iterations ||
                       (iteration >= kStallIteration && report.error > stall * previous_error));
      if (!done && !over) {
        HJCDIK_UNROLL
        for (int i = 0; i < kDof; i++) q[i] = next[i];
      }
      iteration++;
      previous_error = error;
      error = report.error;
    }
#endif
    if (__ballot_sync(kAll, done || over) != 0) {
      if (p.job_q != nullptr) {
        if (done || over) {
          const long long row = (long long)index * p.jobs + (job - p.job_range[2 * index]);
          for (int i = 0; i < kDof; i++) p.job_q[row * kDof + i] = q[i];
          p.job_errors[2 * row] = distance;
          p.job_errors[2 * row + 1] = angle;
#ifdef HJCDIK_COLLISION
          p.job_clearance[2 * row] = clearance[0];
          p.job_clearance[2 * row + 1] = clearance[1];
#endif
          active = false;
        }
        const u32 busy = __ballot_sync(kAll, active) & group_mask;
        if (busy == 0 && next_job >= limit) target = -1;
      } else {
#ifdef HJCDIK_COLLISION
        if (over) active = false;
#else
        if (over && distance < kNearEnough * p.position_tolerance &&
            angle < kNearEnough * p.orientation_tolerance) {
          done = true;
        } else if (over) {
          active = false;
          const float score = end_score(distance, angle);
          if (replay) {
            done = true;  // the end of this job is what is wanted
          } else if (near_job == kNone || score < near_score || (score == near_score && job < near_job)) {
            near_score = score;
            near_job = job;
          }
        }
#endif
        const int first_hit = reduce_min(done ? job : kNone, p.group);
        if (first_hit < best) {
          best = first_hit;
          holder = done && job == best;
#ifdef HJCDIK_COLLISION
          if (holder) hit_clearance = ::fminf(clearance[0], clearance[1]);
#endif
        }
        if (done || (active && job > best)) active = false;
#ifdef HJCDIK_COLLISION
        pending = pending && active;
#endif
        const u32 busy = __ballot_sync(kAll, active) & group_mask;
        const bool finished = target >= 0 && busy == 0 && next_job >= ::min(limit, best);
        if (__ballot_sync(kAll, finished) != 0) {
          // The nearest end of the group, in all its lanes.
          for (int offset = p.group / 2; offset > 0; offset /= 2) {
            const float score = __shfl_xor_sync(kAll, near_score, offset);
            const int other = __shfl_xor_sync(kAll, near_job, offset);
            if (other != kNone &&
                (near_job == kNone || score < near_score || (score == near_score && other < near_job))) {
              near_score = score;
              near_job = other;
            }
          }
          if (finished) {
            if (best != kNone) {
              if (holder) {
                for (int i = 0; i < kDof; i++) p.hit_q[(long long)target * kDof + i] = q[i];
                p.hit_job[target] = replay ? -1 - best : best;
#ifdef HJCDIK_COLLISION
                p.hit_clearance[target] = hit_clearance;
#endif
              }
              target = -1;
            } else if (limit < job_end) {
              if (member == 0) {
                p.near_score[target] = near_score;
                p.near_job[target] = near_job;
                p.leftover[atomicAdd(p.leftover_count, 1u)] = u32(target);
              }
              target = -1;
            } else {
#ifdef HJCDIK_COLLISION
              if (member == 0) p.hit_job[target] = kNoHit;
              target = -1;
#else
              // Nothing converged: run the nearest job again for its end.
              replay = true;
              next_job = near_job;
              limit = near_job + 1;
#endif
            }
            holder = false;
          }
        }
      }
    }
  }
}

// The last block of a solve's last kernel sets the counters back to zero, and tells the host.
__device__ void finish(u32* counters, Mailbox* mailbox, u32 ticket) {
  if (counters == nullptr) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (gridDim.x > 1) {
    __threadfence_system();
    if (atomicAdd(counters + kBlocksDone, 1u) + 1 != gridDim.x) return;
  }
  const u32 retries = *(volatile u32*)(counters + kRetryCount);
  for (int i = 0; i < kCounters; i++) counters[i] = 0;
  if (mailbox == nullptr) return;
  __threadfence_system();
  *(volatile unsigned long long*)mailbox = (unsigned long long)ticket << 32 | retries;
}

// Puts joints that may be a turn away at the equivalent nearest to mid-range (solver/select.cpp).
__device__ void nearest_to_middle(double* q) {
  HJCDIK_UNROLL
  for (int i = 0; i < kDof; i++) {
    const auto& joint = chain_f64.joint[i];
    if (!joint.wraps || joint.upper - joint.lower <= 6.2831853071795872) continue;
    q[i] = nearest_turn(q[i], 0.5 * (joint.lower + joint.upper), joint.lower, joint.upper);
  }
}

extern "C" __global__ void __launch_bounds__(kBlock) hjcdik_polish(const PolishParams p) {
  const u32 place = blockIdx.x * blockDim.x + threadIdx.x;
#if __CUDA_ARCH__ >= 900
  // Launched ahead of the search's end where targets are few: what does not need the search comes first.
  if (p.list != nullptr || !p.of_targets) asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  if (place < p.count) {
    const u32 r = p.list != nullptr ? p.list[place] : place;
    double q[kDof], s[12], pose[7];
    Quaternion unit = {};
    const bool of_target = p.of_targets;
    bool has_hit = true;
    if (of_target) {
      double rotation[9];
      for (int k = 0; k < 7; k++)
        pose[k] = p.targets != nullptr ? p.targets[r * p.target_stride + k] : p.target[k];
      unit = normalised(pose + 3);
      rotation_of(unit, rotation);
      target_start(pose, rotation, chain_f64.start, s);
#if __CUDA_ARCH__ >= 900
      asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
#ifdef HJCDIK_COLLISION
      has_hit = p.hit_job[r] != kNoHit;  // else nothing was written to hit_q
#endif
      HJCDIK_UNROLL
      for (int i = 0; i < kDof; i++) {
        const float hit = has_hit ? p.hit_q[(long long)r * kDof + i] : 0.0f;
        q[i] = clamp(double(hit), chain_f64.joint[i].lower, chain_f64.joint[i].upper);
      }
    } else {
      for (int k = 0; k < 12; k++) s[k] = p.starts[r * 12ll + k];
      for (int i = 0; i < kDof; i++) q[i] = p.row_q[(long long)r * kDof + i];
    }
    const Frame<double> start = frame_of<double>(s);
    const double w = p.orientation_weight;
    const Weights<double> weights = {{1.0, 1.0, 1.0, w, w, w}, p.damping_floor};
    const int iterations = has_hit ? p.iterations : 0;
    Frame<double> f;
    PoseError<double> e;
    // As the worker's finish_rows: a second pass where the first does not end at rounding.
    for (int pass = 0; pass < 2; pass++) {
      const double close = pass == 0 ? p.last_step_below : p.last_slow_step_below;
      for (int iteration = 0; iteration < iterations; iteration++) {
        JointAxes<double, kDof> axes;
        double next[kDof];
        const StepReport<double> report =
            levenberg_marquardt_step<kDof>(chain_f64, start, weights, q, next, axes);
        HJCDIK_UNROLL
        for (int i = 0; i < kDof; i++) q[i] = next[i];
        if (report.distance < close && report.angle < close) break;
      }
      if (of_target) nearest_to_middle(q);
      f = forward_kinematics<kDof>(chain_f64, q, start);
      e = pose_error(f);
      if (iterations == 0 || !of_target || (e.distance < p.polished && e.angle < p.polished)) break;
    }
    const double tool[12] = {f.x.x, f.y.x, f.z.x, f.x.y, f.y.y, f.z.y,
                             f.x.z, f.y.z, f.z.z, f.p.x, f.p.y, f.p.z};
    if (of_target) {
      double reached[7];
      reached_pose(pose, unit, tool, reached);
      const bool converged = e.distance < p.converged && e.angle < p.converged;
      bool confirmed = e.distance < p.confirmed && e.angle < p.confirmed;
      // Only a target that is no pose leads here: device memory is not validated.
      const bool valid = e.distance <= 1e300 && e.angle <= 4.0;
      const double nan = __longlong_as_double(0x7ff8000000000000ll);
      const long long at = p.compact ? place : r;
#ifdef HJCDIK_COLLISION
      const int world = p.collision.world_at(r);
      if (confirmed && has_hit) {
        // What the search saw stands, unless the polish may have changed it or float32 cannot tell.
        const double moved =
            moved_by_polish<kDof>(chain_f64, p.collision.lever, q, p.hit_q + (long long)r * kDof);
        if (!(p.hit_clearance[r] > moved + p.collision.worlds.worlds[world].slack))
          confirmed = is_free_f64(q, p.collision, world);
      }
#endif
      for (int i = 0; i < kDof; i++) p.q[at * kDof + i] = valid ? q[i] : nan;
      for (int k = 0; k < 7; k++) p.pose[at * 7 + k] = valid ? reached[k] : nan;
      p.distance[at] = valid ? e.distance : nan;
      p.angle[at] = valid ? e.angle : nan;
      p.found[at] = valid ? 1 : 0;
      const bool retry = valid && !confirmed && p.hit_job[r] >= 0;
      p.outcome[at] = retry ? kRetry : !valid ? 2 : converged ? 0 : 1;
#ifdef HJCDIK_COLLISION
      if (valid && !has_hit) p.outcome[at] = kUnsolved;
#endif
      if (retry && p.retry != nullptr) p.retry[atomicAdd(p.counters + kRetryCount, 1u)] = r;
    } else {
      for (int i = 0; i < kDof; i++) p.row_q[(long long)r * kDof + i] = q[i];
      for (int k = 0; k < 12; k++) p.tool[r * 12ll + k] = tool[k];
      p.distance[r] = e.distance;
      p.angle[r] = e.angle;
    }
  }
  finish(p.counters, p.mailbox, p.ticket);
}

#ifdef HJCDIK_COLLISION
struct AnyThread {
  __device__ bool operator()(bool mask) const { return __any_sync(kAll, mask); }
};

extern "C" __global__ void __launch_bounds__(kBlock) hjcdik_judge(const JudgeParams p) {
  const u32 r = blockIdx.x * blockDim.x + threadIdx.x;
  double wide[kDof];
  float q[kDof];
  bool wanted = r < p.count && p.outcome[r] != 2;  // 2: no pose at all
  bool sure = wanted && p.outcome[r] == 0 && p.hit_job[r] >= 0 && p.hit_job[r] < kWalkBlock;
  for (int i = 0; i < kDof; i++) {
    wide[i] = sure ? p.q[(long long)r * kDof + i] : 0.0;
    q[i] = sure ? p.hit_q[(long long)r * kDof + i] : 0.0f;
  }
  sure = sure && moved_by_polish<kDof>(chain_f64, p.collision.lever, wide, p.hit_q + (long long)r * kDof) <
                     p.little_moved;
  const SphereTable<float> table = robot::spheres_f32();
  RowJudge<float, robot::spheres, kDof, AnyThread> judge(table, p.collision.worlds, float(p.collision.margin),
                                                         float(p.little_moved), p.collision.self,
                                                         AnyThread{});
  judge.template place<kDof>(chain_f32, q);
  // The warp goes through its worlds together; mostly there is one.
  const int world = sure ? p.collision.world_at(r) : 0;
  for (u32 left = __ballot_sync(kAll, sure); left != 0;) {
    const int at = __shfl_sync(kAll, world, __ffs(int(left)) - 1);
    const bool mine = (left >> (threadIdx.x & 31) & 1) != 0 && world == at;
    const bool free = judge.free_rows(at, mine);
    if (mine) sure = free;
    left &= ~__ballot_sync(kAll, mine);
  }
  if (wanted && !sure) {
    p.outcome[r] = kRetry;
    if (p.retry != nullptr) p.retry[atomicAdd(p.counters + kRetryCount, 1u)] = r;
  }
  finish(p.counters, p.mailbox, p.ticket);
}
#endif

}  // namespace hjcdik::cuda
