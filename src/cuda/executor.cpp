#include "cuda/executor.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cpu/threads.hpp"
#include "cuda/device.hpp"
#include "cuda/kernels/params.h"

namespace hjcdik::cuda {
namespace {

// Lanes a target gets to itself cost the others: with many targets each lane has its own, and the few
// targets that are still unsolved after these starts go on with a whole warp each.
constexpr int kPauseJob = 8;
// Host arrays go through the GPU in pieces, several at a time, so that copies and kernels overlap.
constexpr std::int64_t kPieceTargets = 65536;
// Device arrays: bounded by memory alone.
constexpr std::int64_t kDeviceTargets = std::int64_t{1} << 22;
constexpr int kHostThreads = 8;
constexpr std::int64_t kFewTargets = 2048;
// Jobs of a target that a warp runs in one of the worker's rounds.
constexpr std::int32_t kRoundJobs = 32;
// Few targets look for a free configuration this far on one warp each. What is left is run by many.
constexpr std::int64_t kFewJudged = 64;
constexpr int kFewJobs = 2 * core::kWalks;
// Ends of jobs brought to the host at once.
constexpr std::int64_t kJobRows = std::int64_t{1} << 19;

// A stream and the memory of one solve at a time. Made, used and destroyed with the context current.
struct Session {
  Session(const std::shared_ptr<Device>& d)
      : device(d),
        targets(*d),
        search_state(*d),
        results(*d),
        rows(*d),
        jobs(*d),
        counters(*d),
        seeds(*d),
        worlds(*d),
        world_of(*d),
        staging(*d),
        mapped(*d) {
    device->check(device->driver().StreamCreate(&stream, kStreamNonBlocking), "cuStreamCreate");
  }
  ~Session() {
    if (stream != nullptr && device->usable_here()) device->driver().StreamDestroy(stream);
  }

  // After a failure: the memory may be used again only when nothing of the solve is on its way any more.
  void drain(CUstream where) noexcept {
    clean = false;
    device->driver().StreamSynchronize(where);
  }

  u32* counter(Counter c) const { return counters.as<u32>() + c; }
  Mailbox* mailbox() const { return static_cast<Mailbox*>(mapped.data()); }

  // Before the first launch of a solve. The kernels leave the counters at zero, unless something failed.
  void begin(std::size_t mapped_bytes) {
    const Driver& d = device->driver();
    if (mapped.reserve(mapped_bytes)) *mailbox() = {};
    if (!clean) {
      device->check(d.StreamSynchronize(stream), "cuStreamSynchronize");
      counters.reserve(sizeof(u32) * kCounters);
      device->check(d.MemsetD32Async(counters.address(), 0, kCounters, stream), "cuMemsetD32Async");
      device->check(d.StreamSynchronize(stream), "cuStreamSynchronize");
    }
    clean = false;
  }

  // Spins until the polish with this ticket is done; returns how many targets it left to try again. The
  // flag comes several microseconds before the driver would say so.
  u32 wait(u32 ticket, CUstream where) const {
    const volatile u32& seen = mailbox()->ticket;
    for (unsigned spins = 0; seen != ticket; spins++) {
      if (spins % 4096 != 4095) continue;
      const CUresult state = device->driver().StreamQuery(where);  // a kernel that failed sets no flag
      if (state == kErrorNotReady) continue;
      device->check(state, "solving");
      if (seen != ticket) throw DeviceError("the GPU finished without a result");
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    return mailbox()->retries;
  }

  std::shared_ptr<Device> device;
  CUstream stream = nullptr;
  DeviceBuffer targets, search_state, results, rows, jobs, counters, seeds, worlds, world_of;
  PinnedBuffer staging, mapped;
  bool clean = false;                      // nothing in the stream, counters zero
  u32 ticket = 0;                          // last one given
  const Program* searcher = nullptr;       // of the solve at hand
  const Program* open_searcher = nullptr;  // the same without judging
  bool has_seeds = false;
  std::uint32_t seed = 0;      // whose table `seeds` holds
  std::uint64_t world_id = 0;  // which set `worlds` holds; 0: none
};

constexpr std::size_t kMailboxBytes = 64;

// What the search and the polish alone can answer; the rest goes through the worker's rounds.
bool is_one_row(const SolveOptions& o) {
  return o.num_solutions == 1 && o.q_init_rows == 0 && o.collision != Collision::soft;
}

// From this many targets on their first hits are judged together where there are no obstacles, as in
// Worker::Impl::first_hits.
constexpr std::int64_t kManyJudged = 512;
bool judges_first_hits(const Problem& problem, std::int64_t count) {
  return problem.judged() && count >= kManyJudged && problem.options.precision != Precision::fp32 &&
         problem.options.world_index == nullptr && !problem.worlds->has_obstacles(problem.world_of(0));
}

// Targets in one of the worker's rounds: bounded by the memory of their hits.
std::int64_t round_targets(const SolveOptions& o) {
  return std::clamp<std::int64_t>(std::int64_t{65536} / hits_per_target(o), 1, 1024);
}

// Offsets of arrays that share a buffer, each aligned for its type: without gaps, which a copy of all would
// read before they are written.
class Layout {
 public:
  template <class T>
  std::size_t add(std::int64_t count) {
    const std::size_t at = (size_ + alignof(T) - 1) / alignof(T) * alignof(T);
    size_ = at + std::size_t(count) * sizeof(T);
    return at;
  }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

// The results of n targets, S = 1, behind each other in one buffer.
struct ResultArrays {
  ResultArrays(std::int64_t n, int dof)
      : q(layout.add<double>(n * dof)),
        pose(layout.add<double>(n * 7)),
        distance(layout.add<double>(n)),
        angle(layout.add<double>(n)),
        found(layout.add<long long>(n)),
        outcome(layout.add<unsigned char>(n)) {}
  Layout layout;
  std::size_t q, pose, distance, angle, found, outcome;
};

// What a search of n targets keeps on the device.
struct SearchArrays {
  SearchArrays(std::int64_t n, int dof)
      : hit_q(layout.add<float>(n * dof)),
        hit_job(layout.add<int>(n)),
        hit_clearance(layout.add<float>(n)),
        near_score(layout.add<float>(n)),
        near_job(layout.add<int>(n)),
        leftover(layout.add<u32>(n)),
        retry(layout.add<u32>(n)) {}
  Layout layout;
  std::size_t hit_q, hit_job, hit_clearance, near_score, near_job, leftover, retry;
};

}  // namespace

struct Executor::Impl {
  const model::Chain* chain;
  int dof, threads;
  std::shared_ptr<Device> device;
  std::shared_ptr<const Program> program;  // that does nothing besides

  std::mutex mutex;
  StoreAccess access;
  std::map<Variant, std::shared_ptr<const Program>> others;  // once they are asked for
  std::vector<std::unique_ptr<Session>> idle;

  // A session of the executor's, and the context, for the life of the lease.
  class Lease {
   public:
    Lease(Impl& impl, const Problem& problem) : impl_(impl), scope_(*impl.device) {
      const Program& searcher = impl.search_program(problem.options, problem.judged());
      {
        std::lock_guard lock(impl.mutex);
        if (!impl.idle.empty()) {
          session_ = std::move(impl.idle.back());
          impl.idle.pop_back();
        }
      }
      if (!session_) session_ = std::make_unique<Session>(impl.device);
      session_->searcher = &searcher;
      session_->open_searcher = problem.judged() ? &impl.search_program(problem.options, false) : &searcher;
    }
    ~Lease() {
      std::lock_guard lock(impl_.mutex);
      impl_.idle.push_back(std::move(session_));
    }
    Session& operator*() { return *session_; }

   private:
    Impl& impl_;
    Device::Scope scope_;
    std::unique_ptr<Session> session_;
  };

  // The program that a solve's searches run; may compile.
  const Program& search_program(const SolveOptions& o, bool judged) {
    const Variant variant{o.coarse_sweeps > 0, judged};
    if (variant == Variant{}) return *program;
    std::lock_guard lock(mutex);
    auto& other = others[variant];
    if (!other) other = Program::get(device, *chain, variant, access);
    return *other;
  }

  const Driver& driver() const { return device->driver(); }
  void check(CUresult result, const char* what) const { device->check(result, what); }

  // early: may start before the launch ahead of it in the stream has ended (it waits on its own).
  template <class Params>
  void launch(CUfunction kernel, std::int64_t blocks, CUstream stream, const Params& params,
              bool early = false) const {
    void* arguments[] = {const_cast<Params*>(&params)};
    LaunchAttribute attribute{kAttributeProgrammaticStreamSerialization, 0, {}};
    attribute.value = 1;
    const LaunchConfig config{{unsigned(blocks), 1, 1}, {kBlock, 1, 1}, 0, stream, &attribute,
                              early ? 1u : 0u};
    check(driver().LaunchKernelEx(&config, kernel, arguments, nullptr), "cuLaunchKernelEx");
  }

  // The seed table goes to the device once a session and seed.
  void hold_seeds(Session& s, const SeedTable& table, CUstream stream) const {
    if (s.has_seeds && s.seed == table.seed) return;
    s.has_seeds = false;
    const std::size_t pose = sizeof table.pose, q = table.q.size() * sizeof(float);
    s.seeds.reserve(pose + q);
    check(driver().MemcpyHtoDAsync(s.seeds.address(), table.pose, pose, stream), "cuMemcpyHtoDAsync");
    check(driver().MemcpyHtoDAsync(s.seeds.address() + pose, table.q.data(), q, stream), "cuMemcpyHtoDAsync");
    check(driver().StreamSynchronize(stream), "cuStreamSynchronize");
    s.has_seeds = true;
    s.seed = table.seed;
  }

  // So do the worlds.
  core::WorldTable<float> hold_worlds(Session& s, const WorldSet& set, CUstream stream,
                                      core::WorldTable<double>* wide) const {
    Layout layout;
    const auto place = [&]<class T>(const std::vector<T>& v) {
      return layout.add<T>(std::int64_t(v.size()));
    };
    const std::size_t at[] = {place(set.f32.boxes), place(set.f32.capsules), place(set.f32.cylinders),
                              place(set.f64.boxes), place(set.f64.capsules), place(set.f64.cylinders),
                              place(set.nodes),     place(set.ranges)};
    if (s.world_id != set.id) {
      s.world_id = 0;
      s.worlds.reserve(layout.size());
      std::vector<char> packed(layout.size());
      const auto copy = [&]<class T>(const std::vector<T>& v, std::size_t to) {
        if (!v.empty()) std::memcpy(packed.data() + to, v.data(), v.size() * sizeof(T));
      };
      copy(set.f32.boxes, at[0]), copy(set.f32.capsules, at[1]), copy(set.f32.cylinders, at[2]);
      copy(set.f64.boxes, at[3]), copy(set.f64.capsules, at[4]), copy(set.f64.cylinders, at[5]);
      copy(set.nodes, at[6]), copy(set.ranges, at[7]);
      check(driver().MemcpyHtoDAsync(s.worlds.address(), packed.data(), packed.size(), stream),
            "cuMemcpyHtoDAsync");
      check(driver().StreamSynchronize(stream), "cuStreamSynchronize");
      s.world_id = set.id;
    }
    const CUdeviceptr base = s.worlds.address();
    const auto* nodes = reinterpret_cast<const core::BoundingNode*>(base + at[6]);
    const auto* ranges = reinterpret_cast<const core::WorldRange*>(base + at[7]);
    *wide = {reinterpret_cast<const core::Box<double>*>(base + at[3]),
             reinterpret_cast<const core::Capsule<double>*>(base + at[4]),
             reinterpret_cast<const core::Cylinder<double>*>(base + at[5]), nodes, ranges};
    return {reinterpret_cast<const core::Box<float>*>(base + at[0]),
            reinterpret_cast<const core::Capsule<float>*>(base + at[1]),
            reinterpret_cast<const core::Cylinder<float>*>(base + at[2]), nodes, ranges};
  }

  // Without the worlds of the targets.
  CollisionParams collision_params(Session& s, const Problem& problem, CUstream stream) const {
    CollisionParams c{};
    if (!problem.judged()) return c;
    c.worlds = hold_worlds(s, *problem.worlds, stream, &c.worlds_f64);
    c.margin = problem.options.collision_margin_m;
    c.self = problem.options.self_collision;
    c.lever = chain->sphere_tables.lever;
    return c;
  }

  // The worlds of targets first .. first + count - 1.
  void set_worlds(CollisionParams& c, Session& s, const Problem& problem, std::int64_t first,
                  std::int64_t count, CUstream stream) const {
    if (!problem.judged()) return;
    c.world = problem.world_of(first);
    if (problem.options.world_index == nullptr || count == 1) return;
    std::vector<std::int32_t> worlds(static_cast<std::size_t>(count));
    for (std::int64_t t = 0; t < count; t++) worlds[std::size_t(t)] = problem.world_of(first + t);
    s.world_of.reserve(worlds.size() * sizeof(std::int32_t));
    // From memory that is not pinned: it has been read when the call returns.
    check(driver().MemcpyHtoDAsync(s.world_of.address(), worlds.data(), worlds.size() * sizeof(std::int32_t),
                                   stream),
          "cuMemcpyHtoDAsync");
    c.world_of = s.world_of.as<int>();
  }

  SearchParams search_params(Session& s, const Problem& problem, CUstream stream) const {
    const SolveOptions& o = problem.options;
    SearchParams p{};
    hold_seeds(s, *problem.seeds, stream);
    p.seed_pose = s.seeds.as<float>();
    p.seed_q = p.seed_pose + 12 * core::kSeedTable;
    p.plan = problem.plan();
    p.job_end = p.plan.jobs();
    p.pause_job = p.job_end;
    p.job_end_out_of_reach = std::min(p.job_end, kStartsOutOfReach);
    p.seed = o.seed;
    p.iterations = kIterations;
    p.coarse_sweeps = o.coarse_sweeps;
    p.greedy = o.coarse_order == CoarseOrder::greedy;
    p.orientation_weight = float(orientation_weight(*chain));
    p.damping_floor = float(damping_floor(*chain));
    p.position_tolerance = search_position_tolerance(*chain);
    p.orientation_tolerance = kSearchOrientation;
    p.group = 32;
    p.fetch = 1;
    p.reach = chain->reach;
    return p;
  }

  // The same with targets given as poses, whose search state is kept in the session.
  SearchParams target_params(const SearchArrays& arrays, Session& s, const Problem& problem,
                             const double* targets, const double* one_target, std::int64_t stride,
                             CUstream stream) const {
    const CUdeviceptr base = s.search_state.address();
    SearchParams p = search_params(s, problem, stream);
    p.targets = targets;
    if (one_target != nullptr) std::copy_n(one_target, 7, p.target);
    p.target_stride = stride;
    p.hit_q = reinterpret_cast<float*>(base + arrays.hit_q);
    p.hit_job = reinterpret_cast<int*>(base + arrays.hit_job);
    p.hit_clearance = reinterpret_cast<float*>(base + arrays.hit_clearance);
    p.near_score = reinterpret_cast<float*>(base + arrays.near_score);
    p.near_job = reinterpret_cast<int*>(base + arrays.near_job);
    return p;
  }

  PolishParams polish_params(const SolveOptions& o) const {
    PolishParams p{};
    const bool fp32 = o.precision == Precision::fp32;
    p.iterations = fp32 ? 0 : kPolishIterations;
    p.last_step_below = kLastPolishStep;
    p.polished = kPolished;
    p.last_slow_step_below = kLastSlowPolishStep;
    p.confirmed = fp32 ? converged_fp32(*chain) : kConverged;
    p.converged = kConverged;
    p.orientation_weight = orientation_weight(*chain);
    p.damping_floor = damping_floor(*chain);
    return p;
  }

  // Which targets a search is for, and with which program.
  struct Selection {
    const u32* list = nullptr;  // null: all
    std::int64_t listed = 0;
    bool first_hits = false;  // in the open world, for `judge`
  };

  // Searches and polishes `count` targets, or the listed ones of them, one row each, into device memory
  // `outputs`. Leaves work in the stream.
  void enqueue(Session& s, const Problem& problem, const double* targets, const double* one_target,
               std::int64_t stride, std::int64_t count, const PolishParams& outputs, CUstream stream,
               const Selection& which) const {
    const Program& program = which.first_hits ? *s.open_searcher : *s.searcher;
    const std::int64_t lanes = std::int64_t(program.search_blocks) * kBlock;
    const std::int64_t n = which.list != nullptr ? which.listed : count;
    const SearchArrays arrays(count, dof);
    s.search_state.reserve(arrays.layout.size());
    SearchParams p = target_params(arrays, s, problem, targets, one_target, stride, stream);
    p.collision = outputs.collision;
    p.list = which.list;
    p.count = u32(n);
    if (which.first_hits) {
      p.plan.walks = 0;
      p.job_end = std::min(p.job_end, core::kWalkBlock);
      p.job_end_out_of_reach = std::min(p.job_end_out_of_reach, p.job_end);
    } else if (problem.judged() && n <= kFewJudged) {
      p.job_end = std::min(p.job_end, kFewJobs);
    }
    p.pause_job = p.job_end;
    while (p.group > 1 && n * p.group > lanes) p.group /= 2;
    const bool all_at_once = n * p.group <= lanes;
    const bool pause = p.group < 32 && p.job_end > kPauseJob;
    if (!all_at_once) {
      p.next = s.counter(kNext);
      p.fetch = int(std::clamp<std::int64_t>(n / (lanes / 32 * 4), 1, 32));
    }
    if (pause) {
      p.pause_job = kPauseJob;
      p.leftover = reinterpret_cast<u32*>(s.search_state.address() + arrays.leftover);
      p.leftover_count = s.counter(kLeftoverCount);
    }
    const std::int64_t blocks =
        std::min<std::int64_t>((n * p.group + kBlock - 1) / kBlock, program.search_blocks);
    launch(program.search, blocks, stream, p);
    if (pause) {
      SearchParams rest = p;
      rest.list = p.leftover;
      rest.list_count = p.leftover_count;
      rest.next = s.counter(kNextLeftover);
      rest.job_begin = kPauseJob;
      rest.pause_job = rest.job_end;
      rest.group = 32;
      rest.fetch = 1;
      launch(program.search, std::min<std::int64_t>((n + 3) / 4, program.search_blocks), stream, rest);
    }
    polish(program, arrays, s, targets, one_target, stride, which.list, n, outputs, stream,
           !which.first_hits);
    if (which.first_hits) judge(arrays, s, count, outputs, stream);
  }

  // Goes on with targets whose hit the polish did not confirm, from the list in device memory.
  void enqueue_again(Session& s, const Problem& problem, const double* targets, const double* one_target,
                     std::int64_t stride, std::int64_t count, CUdeviceptr list, std::int64_t listed,
                     const PolishParams& outputs, CUstream stream) const {
    const SearchArrays arrays(count, dof);
    SearchParams p = target_params(arrays, s, problem, targets, one_target, stride, stream);
    p.collision = outputs.collision;
    p.list = reinterpret_cast<u32*>(list);
    p.count = u32(listed);
    p.next = s.counter(kNext);
    p.resume = true;
    launch(s.searcher->search, std::min<std::int64_t>((listed + 3) / 4, s.searcher->search_blocks), stream,
           p);
    polish(*s.searcher, arrays, s, targets, one_target, stride, p.list, listed, outputs, stream);
  }

  // Lets stand, of the rows of an open-world search, what is free for sure. The rest is to try again.
  void judge(const SearchArrays& arrays, Session& s, std::int64_t count, const PolishParams& outputs,
             CUstream stream) const {
    JudgeParams p{};
    p.collision = outputs.collision;
    p.count = u32(count);
    p.q = outputs.q;
    p.outcome = outputs.outcome;
    p.hit_q = reinterpret_cast<float*>(s.search_state.address() + arrays.hit_q);
    p.hit_job = reinterpret_cast<int*>(s.search_state.address() + arrays.hit_job);
    p.little_moved = kLittleMoved;
    p.retry = outputs.retry;
    p.counters = s.counters.as<u32>();
    p.mailbox = outputs.mailbox;
    p.ticket = outputs.ticket;
    launch(s.searcher->judge, (count + kBlock - 1) / kBlock, stream, p);
  }

  void polish(const Program& program, const SearchArrays& arrays, Session& s, const double* targets,
              const double* one_target, std::int64_t stride, const u32* list, std::int64_t count,
              const PolishParams& outputs, CUstream stream, bool last = true) const {
    PolishParams out = outputs;
    if (!last) out.mailbox = nullptr, out.retry = nullptr;
    out.of_targets = true;
    out.targets = targets;
    if (one_target != nullptr) std::copy_n(one_target, 7, out.target);
    out.target_stride = stride;
    out.hit_q = reinterpret_cast<float*>(s.search_state.address() + arrays.hit_q);
    out.hit_job = reinterpret_cast<int*>(s.search_state.address() + arrays.hit_job);
    out.hit_clearance = reinterpret_cast<float*>(s.search_state.address() + arrays.hit_clearance);
    out.list = list;
    out.count = u32(count);
    out.counters = s.counters.as<u32>();
    // With few targets its blocks find room beside the search's.
    const bool early = count <= kFewTargets && device->major() >= 9;
    launch(program.polish, (count + kBlock - 1) / kBlock, stream, out, early);
  }

  void set_results(PolishParams& p, CUdeviceptr base, const ResultArrays& a) const {
    p.q = reinterpret_cast<double*>(base + a.q);
    p.pose = reinterpret_cast<double*>(base + a.pose);
    p.distance = reinterpret_cast<double*>(base + a.distance);
    p.angle = reinterpret_cast<double*>(base + a.angle);
    p.found = reinterpret_cast<long long*>(base + a.found);
    p.outcome = reinterpret_cast<unsigned char*>(base + a.outcome);
  }

  // One row for each of targets first .. first + count - 1 of host arrays.
  void solve_piece(Session& s, const Problem& problem, std::int64_t first, std::int64_t count,
                   const ResultView& out) {
    const ResultArrays arrays(count, dof);
    bool first_hits = judges_first_hits(problem, count);
    PolishParams p = polish_params(problem.options);
    p.collision = collision_params(s, problem, s.stream);
    set_worlds(p.collision, s, problem, first, count, s.stream);
    const double* given = problem.targets.data + first * problem.targets.stride;
    const char* host = nullptr;
    s.begin(kMailboxBytes + (count == 1 ? arrays.layout.size() : 0));
    if (count == 1) {
      // The target travels with the launch and the results come straight to the host: no copies.
      p.mailbox = reinterpret_cast<Mailbox*>(s.mapped.address());
      p.ticket = ++s.ticket;
      set_results(p, s.mapped.address() + kMailboxBytes, arrays);
      enqueue(s, problem, nullptr, given, 7, 1, p, s.stream, {});
      s.wait(p.ticket, s.stream);
      host = static_cast<const char*>(s.mapped.data()) + kMailboxBytes;
    } else {
      s.targets.reserve(std::size_t(count) * 7 * sizeof(double));
      s.results.reserve(arrays.layout.size());
      s.staging.reserve(std::max(std::size_t(count) * 7 * sizeof(double), arrays.layout.size()));
      auto* staged = static_cast<double*>(s.staging.data());
      if (problem.targets.stride == 7) {
        std::memcpy(staged, given, std::size_t(count) * 7 * sizeof(double));
      } else {
        for (std::int64_t t = 0; t < count; t++)
          std::copy_n(given + t * problem.targets.stride, 7, staged + 7 * t);
      }
      check(driver().MemcpyHtoDAsync(s.targets.address(), staged, std::size_t(count) * 7 * sizeof(double),
                                     s.stream),
            "cuMemcpyHtoDAsync");
      set_results(p, s.results.address(), arrays);
      enqueue(s, problem, s.targets.as<double>(), nullptr, 7, count, p, s.stream, {nullptr, 0, first_hits});
      check(driver().MemcpyDtoHAsync(staged, s.results.address(), arrays.layout.size(), s.stream),
            "cuMemcpyDtoHAsync");
      check(driver().StreamSynchronize(s.stream), "solving");
      host = static_cast<const char*>(s.staging.data());
    }
    copy_out(host, arrays, 0, first, count, out);

    // What the polish did not confirm: rare. The search goes on behind it.
    std::vector<u32> retries;
    for (std::int64_t t = 0; t < count; t++) {
      if (static_cast<unsigned char>(out.outcome[first + t]) == kRetry) retries.push_back(u32(t));
    }
    while (!retries.empty()) {
      const std::int64_t n = std::int64_t(retries.size());
      const ResultArrays few(n, dof);
      s.rows.reserve(retries.size() * sizeof(u32));
      s.results.reserve(few.layout.size());
      s.staging.reserve(std::max(retries.size() * sizeof(u32), few.layout.size()));
      std::memcpy(s.staging.data(), retries.data(), retries.size() * sizeof(u32));
      check(driver().MemcpyHtoDAsync(s.rows.address(), s.staging.data(), retries.size() * sizeof(u32),
                                     s.stream),
            "cuMemcpyHtoDAsync");
      PolishParams again = polish_params(problem.options);
      again.collision = p.collision;
      set_results(again, s.results.address(), few);
      again.compact = true;
      if (first_hits) {
        enqueue(s, problem, s.targets.as<double>(), nullptr, 7, count, again, s.stream,
                {s.rows.as<u32>(), n});
        first_hits = false;
      } else {
        enqueue_again(s, problem, count == 1 ? nullptr : s.targets.as<double>(), count == 1 ? given : nullptr,
                      7, count, s.rows.address(), n, again, s.stream);
      }
      check(driver().MemcpyDtoHAsync(s.staging.data(), s.results.address(), few.layout.size(), s.stream),
            "cuMemcpyDtoHAsync");
      check(driver().StreamSynchronize(s.stream), "solving");
      const char* rows = static_cast<const char*>(s.staging.data());
      std::vector<u32> still;
      for (std::int64_t k = 0; k < n; k++) {
        const std::int64_t t = first + retries[std::size_t(k)];
        copy_out(rows, few, k, t, 1, out);
        if (static_cast<unsigned char>(out.outcome[t]) == kRetry) still.push_back(retries[std::size_t(k)]);
      }
      retries.swap(still);
    }
    s.clean = true;
    if (problem.judged()) solve_unsolved(s, problem, first, count, out);
  }

  // What has no free row: the worker's rounds find out why, and what comes nearest.
  void solve_unsolved(Session& s, const Problem& problem, std::int64_t first, std::int64_t count,
                      const ResultView& out);

  // Rows from .. from + count - 1 of `host` to targets to .. to + count - 1.
  void copy_out(const char* host, const ResultArrays& a, std::int64_t from, std::int64_t to,
                std::int64_t count, const ResultView& out) const {
    const auto copy = [&](auto* array, std::size_t offset, std::int64_t width) {
      const std::size_t row = std::size_t(width) * sizeof *array;
      std::memcpy(array + to * width, host + offset + std::size_t(from) * row, std::size_t(count) * row);
    };
    copy(out.q, a.q, dof);
    copy(out.pose, a.pose, 7);
    copy(out.pos_err_m, a.distance, 1);
    copy(out.ori_err_rad, a.angle, 1);
    copy(out.count, a.found, 1);
    copy(out.outcome, a.outcome, 1);
  }

  void solve_rounds(Session& s, const Problem& problem, std::int64_t first, std::int64_t count,
                    const ResultView& out);
  void count_candidates(Session& s, const Problem& problem, const double* targets, std::int64_t first,
                        std::int64_t count, TargetStats* stats);
  void solve_rounds_device(Session& s, const Problem& problem, std::int64_t first, std::int64_t count,
                           const ResultView& out, CUstream stream);
  void solve_piece_device(Session& s, const Problem& problem, std::int64_t first, std::int64_t count,
                          const ResultView& out, CUstream stream);
  void solve_device(const Problem& problem, const ResultView& out, std::atomic<std::int64_t>& done);
};

namespace {

// The loops of a general solve, their arrays on the host.
class RoundsEngine final : public Engine {
 public:
  RoundsEngine(const Executor::Impl& impl, Session& session, const Problem& problem)
      : impl_(impl), s_(session), problem_(problem) {}

  void search(SearchTask& task) override {
    const std::int64_t dof = task.chain->dof;
    for (std::int32_t i = 0; i < task.count; i++) {
      TargetState& t = task.targets[task.order[i]];
      t.hits = 0;
      t.near_hits = 0;
    }
    near_.assign(std::size_t(task.count), {});
    active_.clear();
    for (std::int32_t i = 0; i < task.count; i++) {
      const TargetState& t = task.targets[task.order[i]];
      if (t.next_job < t.job_end) active_.push_back(i);
    }
    // More jobs a target in later rounds: those that are left are the hard ones.
    std::int32_t more = kRoundJobs;
    while (!active_.empty()) {
      still_.clear();
      std::int32_t jobs = 1;
      for (const std::int32_t i : active_) {
        const TargetState& t = task.targets[task.order[i]];
        const std::int64_t wanted = task.job_errors != nullptr || t.need == 0
                                        ? t.job_end
                                        : std::max<std::int64_t>(more, 2 * std::int64_t(t.need - t.hits));
        jobs = std::int32_t(
            std::max<std::int64_t>(jobs, std::min<std::int64_t>(wanted, t.job_end - t.next_job)));
      }
      jobs =
          std::int32_t(std::min<std::int64_t>((jobs + kRoundJobs - 1) / kRoundJobs * kRoundJobs, kJobRows));
      const std::size_t piece = std::size_t(std::max<std::int64_t>(1, kJobRows / jobs));
      for (std::size_t first = 0; first < active_.size(); first += piece) {
        run_jobs(task, first, std::min(piece, active_.size() - first), jobs, dof);
      }
      more = std::min(4 * more, std::int32_t(kJobRows / std::int64_t(active_.size())));
      std::swap(active_, still_);
    }
    for (std::int32_t i = 0; i < task.count; i++) keep_nearest(task, i, dof);
  }

  void polish(PolishTask& task) override {
    PolishParams p = impl_.polish_params(problem_.options);
    p.iterations = task.iterations;
    p.last_step_below = task.last_step_below;
    run_rows(p, task.count, task.start, task.q, nullptr, nullptr, nullptr);
  }

  void evaluate(EvaluateTask& task) override {
    PolishParams p = impl_.polish_params(problem_.options);
    p.iterations = 0;
    run_rows(p, task.count, task.start, const_cast<double*>(task.q), task.tool, task.distance, task.angle);
  }

 private:
  struct NearHit {
    float score;
    std::int32_t job;
    std::vector<float> q;
  };

  void check(CUresult result, const char* what) const { impl_.check(result, what); }

  // Runs the next `jobs` jobs of some targets to their ends and takes what they found in job order.
  void run_jobs(SearchTask& task, std::size_t first, std::size_t count, std::int32_t jobs, std::int64_t dof) {
    const Driver& d = impl_.driver();
    // An entry is a warp's: kRoundJobs jobs of a target.
    const std::int64_t each = jobs / kRoundJobs, n = std::int64_t(count) * each,
                       warm_rows = task.plan.warm_rows, warm_targets = task.warm_target_stride > 0 ? n : 1;
    Layout in;
    const auto starts = in.add<float>(n * 12);
    const auto ranges = in.add<int>(2 * n);
    const auto warm = in.add<float>(warm_targets * warm_rows * dof);
    const auto next = in.add<u32>(1);
    const auto worlds = in.add<int>(n);
    Layout out;
    const auto job_q = out.add<float>(n * kRoundJobs * dof);
    const auto job_errors = out.add<float>(2 * n * kRoundJobs);
    const auto job_clearance = out.add<float>(task.collision != nullptr ? 2 * n * kRoundJobs : 0);
    s_.rows.reserve(in.size());
    s_.jobs.reserve(out.size());
    s_.staging.reserve(std::max(in.size(), out.size()));
    char* host = static_cast<char*>(s_.staging.data());
    for (std::int64_t e = 0; e < n; e++) {
      const std::int32_t target = task.order[active_[first + std::size_t(e / each)]];
      const TargetState& t = task.targets[target];
      std::memcpy(host + starts + std::size_t(e) * 48, t.start, 48);
      const std::int64_t begin = t.next_job + e % each * kRoundJobs;
      const int range[2] = {int(std::min<std::int64_t>(begin, t.job_end)),
                            int(std::min<std::int64_t>(begin + kRoundJobs, t.job_end))};
      std::memcpy(host + ranges + std::size_t(e) * 8, range, 8);
      std::memcpy(host + worlds + std::size_t(e) * 4, &t.world, 4);
      if (warm_rows > 0 && (e == 0 || task.warm_target_stride > 0)) {
        std::memcpy(host + warm + std::size_t(e * warm_rows * dof) * 4,
                    task.warm + target * task.warm_target_stride, std::size_t(warm_rows * dof) * 4);
      }
    }
    std::memset(host + next, 0, sizeof(u32));
    check(d.MemcpyHtoDAsync(s_.rows.address(), host, in.size(), s_.stream), "cuMemcpyHtoDAsync");
    SearchParams p = impl_.search_params(s_, problem_, s_.stream);
    const CUdeviceptr base = s_.rows.address();
    p.starts = reinterpret_cast<float*>(base + starts);
    p.job_range = reinterpret_cast<int*>(base + ranges);
    p.warm = reinterpret_cast<float*>(base + warm);
    p.warm_target_stride = task.warm_target_stride > 0 ? task.plan.warm_rows * dof : 0;
    p.plan = task.plan;
    p.next = reinterpret_cast<u32*>(base + next);
    p.count = u32(n);
    p.jobs = kRoundJobs;
    p.job_q = reinterpret_cast<float*>(s_.jobs.address() + job_q);
    p.job_errors = reinterpret_cast<float*>(s_.jobs.address() + job_errors);
    if (task.collision != nullptr) {
      p.job_clearance = reinterpret_cast<float*>(s_.jobs.address() + job_clearance);
      p.collision = impl_.collision_params(s_, problem_, s_.stream);
      p.collision.world_of = reinterpret_cast<int*>(base + worlds);
    }
    const Program& searcher = task.collision != nullptr ? *s_.searcher : *s_.open_searcher;
    impl_.launch(searcher.search,
                 std::min<std::int64_t>((n * 32 + kBlock - 1) / kBlock, searcher.search_blocks), s_.stream,
                 p);
    check(d.MemcpyDtoHAsync(host, s_.jobs.address(), out.size(), s_.stream), "cuMemcpyDtoHAsync");
    check(d.StreamSynchronize(s_.stream), "solving");
    task.lane_iterations +=
        n * kRoundJobs;  // an upper bound of starts; iterations are not counted on the GPU

    const auto* all_q = reinterpret_cast<const float*>(host + job_q);
    const auto* errors = reinterpret_cast<const float*>(host + job_errors);
    const auto* clearances = reinterpret_cast<const float*>(host + job_clearance);
    for (std::int64_t k = 0; k < std::int64_t(count); k++) {
      const std::int32_t i = active_[first + std::size_t(k)], target = task.order[i];
      TargetState& t = task.targets[target];
      const std::int32_t begin = t.next_job, end = begin + std::min(jobs, t.job_end - begin);
      for (; t.next_job < end; t.next_job++) {
        const std::int64_t row = k * jobs + (t.next_job - begin);
        const float distance = errors[2 * row], angle = errors[2 * row + 1];
        const float* q = all_q + row * dof;
        if (task.job_errors != nullptr) {
          const std::int64_t job = t.next_job;
          task.job_errors[2 * job] = distance;
          task.job_errors[2 * job + 1] = angle;
          std::copy_n(q, dof, task.job_q + job * dof);
          continue;
        }
        bool hit = distance < core::kNearEnough * task.position_tolerance &&
                   angle < core::kNearEnough * task.orientation_tolerance;
        float score = core::end_score(distance, angle), clearance = 0;
        if (task.collision != nullptr) {
          // As the lanes do (cpu/lanes.cpp).
          const bool walk = core::start_of_job(task.plan, t.next_job).walk;
          if (walk ? !hit : distance >= core::kAccurateDistance || angle >= core::kAccurateAngle) continue;
          const float self = clearances[2 * row], outside = clearances[2 * row + 1],
                      slack = task.collision->worlds.worlds[t.world].slack;
          clearance = std::min(self, outside);
          if (clearance < -slack) {
            t.self_rejected += self < 0;
            t.world_rejected += outside < 0;
            hit = false;
            score = kCollides - clearance;
          }
        }
        if (hit) {
          const std::int64_t place = std::int64_t(target) * task.hit_capacity + t.hits;
          task.hit_job[place] = t.next_job;
          std::copy_n(q, dof, task.hit_q + place * dof);
          if (task.collision != nullptr) task.collision->hit_clearance[place] = clearance;
          if (++t.hits == t.need) {
            t.next_job++;
            break;
          }
        } else {
          near_[std::size_t(i)].push_back({score, t.next_job, std::vector<float>(q, q + dof)});
        }
      }
      if ((t.need == 0 || t.hits < t.need) && t.next_job < t.job_end) still_.push_back(i);
    }
  }

  void keep_nearest(SearchTask& task, std::int32_t i, std::int64_t dof) {
    const std::int32_t target = task.order[i];
    TargetState& t = task.targets[target];
    auto& near = near_[std::size_t(i)];
    if (t.need > 0 && t.hits == t.need) return;
    const std::size_t n = std::min(near.size(), std::size_t(task.near_capacity));
    std::partial_sort(near.begin(), near.begin() + std::ptrdiff_t(n), near.end(),
                      [](const NearHit& a, const NearHit& b) {
                        return a.score != b.score ? a.score < b.score : a.job < b.job;
                      });
    for (std::size_t r = 0; r < n; r++) {
      const std::int64_t row = std::int64_t(target) * task.near_capacity + std::int64_t(r);
      task.near_score[row] = near[r].score;
      task.near_job[row] = near[r].job;
      std::copy_n(near[r].q.data(), dof, task.near_q + row * dof);
    }
    t.near_hits = std::int32_t(n);
  }

  void run_rows(PolishParams p, std::int32_t count, const double* const* start, double* q, double* tool,
                double* distance, double* angle) {
    if (count == 0) return;
    const Driver& d = impl_.driver();
    const std::int64_t n = count, dof = impl_.dof;
    Layout layout;
    const auto starts = layout.add<double>(n * 12), row_q = layout.add<double>(n * dof);
    const std::size_t in_size = layout.size();
    const auto tools = layout.add<double>(n * 12), distances = layout.add<double>(n),
               angles = layout.add<double>(n);
    s_.rows.reserve(layout.size());
    s_.staging.reserve(layout.size());
    char* host = static_cast<char*>(s_.staging.data());
    for (std::int64_t r = 0; r < n; r++) std::memcpy(host + starts + std::size_t(r) * 96, start[r], 96);
    std::memcpy(host + row_q, q, std::size_t(n * dof) * sizeof(double));
    check(d.MemcpyHtoDAsync(s_.rows.address(), host, in_size, s_.stream), "cuMemcpyHtoDAsync");
    const CUdeviceptr base = s_.rows.address();
    p.of_targets = false;
    p.starts = reinterpret_cast<double*>(base + starts);
    p.row_q = reinterpret_cast<double*>(base + row_q);
    p.tool = reinterpret_cast<double*>(base + tools);
    p.distance = reinterpret_cast<double*>(base + distances);
    p.angle = reinterpret_cast<double*>(base + angles);
    p.count = u32(n);
    impl_.launch(impl_.program->polish, (n + kBlock - 1) / kBlock, s_.stream, p);
    check(d.MemcpyDtoHAsync(host, s_.rows.address(), layout.size(), s_.stream), "cuMemcpyDtoHAsync");
    check(d.StreamSynchronize(s_.stream), "solving");
    if (p.iterations > 0) std::memcpy(q, host + row_q, std::size_t(n * dof) * sizeof(double));
    if (tool != nullptr) {
      std::memcpy(tool, host + tools, std::size_t(n) * 96);
      std::memcpy(distance, host + distances, std::size_t(n) * sizeof(double));
      std::memcpy(angle, host + angles, std::size_t(n) * sizeof(double));
    }
  }

  const Executor::Impl& impl_;
  Session& s_;
  const Problem& problem_;
  std::vector<std::int32_t> active_, still_;
  std::vector<std::vector<NearHit>> near_;
};

}  // namespace

// Everything but one row a target: the worker's rounds, their loops on the GPU.
void Executor::Impl::solve_rounds(Session& s, const Problem& problem, std::int64_t first, std::int64_t count,
                                  const ResultView& out) {
  thread_local Worker worker;
  RoundsEngine engine(*this, s, problem);
  worker.solve(engine, problem, first, count, out);
}

// Targets and results in device memory, one piece after the other. `done`: how many are solved.
void Executor::Impl::solve_device(const Problem& problem, const ResultView& out,
                                  std::atomic<std::int64_t>& done) {
  Lease lease(*this, problem);
  Session& s = *lease;
  const auto stream = static_cast<CUstream>(problem.targets.stream);
  const std::int64_t targets = problem.targets.rows;
  const bool one_row = is_one_row(problem.options);
  const std::int64_t piece = one_row ? kDeviceTargets : round_targets(problem.options);
  try {
    while (done < targets) {
      const std::int64_t count = std::min(piece, targets - done);
      if (one_row) {
        solve_piece_device(s, problem, done, count, out, stream);
        if (problem.options.stats) {
          const std::int64_t stride = problem.targets.stride;
          std::vector<double> targets(std::size_t((count - 1) * stride + 7));
          check(driver().MemcpyDtoHAsync(targets.data(),
                                         reinterpret_cast<CUdeviceptr>(problem.targets.data + done * stride),
                                         targets.size() * sizeof(double), stream),
                "cuMemcpyDtoHAsync");
          check(driver().StreamSynchronize(stream), "solving");
          count_candidates(s, problem, targets.data(), done, count, out.stats);
        }
      } else {
        solve_rounds_device(s, problem, done, count, out, stream);
      }
      done += count;
    }
  } catch (...) {
    s.drain(stream);
    s.drain(s.stream);
    throw;
  }
}

// One row a target.
void Executor::Impl::solve_piece_device(Session& s, const Problem& problem, std::int64_t first,
                                        std::int64_t count, const ResultView& out, CUstream stream) {
  PolishParams p = polish_params(problem.options);
  p.q = out.q + first * dof;
  p.pose = out.pose + first * 7;
  p.distance = out.pos_err_m + first;
  p.angle = out.ori_err_rad + first;
  p.found = reinterpret_cast<long long*>(out.count) + first;
  p.outcome = reinterpret_cast<unsigned char*>(out.outcome) + first;
  p.collision = collision_params(s, problem, stream);
  set_worlds(p.collision, s, problem, first, count, stream);
  const double* data = problem.targets.data + first * problem.targets.stride;
  // What the polish did not confirm is listed; the search goes on behind it. Two lists take turns.
  const SearchArrays arrays(count, dof);
  s.search_state.reserve(arrays.layout.size());
  s.begin(kMailboxBytes);
  CUdeviceptr list = s.search_state.address() + arrays.retry,
              other = s.search_state.address() + arrays.leftover;
  p.mailbox = reinterpret_cast<Mailbox*>(s.mapped.address());
  p.ticket = ++s.ticket;
  p.retry = reinterpret_cast<u32*>(list);
  bool first_hits = judges_first_hits(problem, count);
  enqueue(s, problem, data, nullptr, problem.targets.stride, count, p, stream, {nullptr, 0, first_hits});
  while (const u32 n = s.wait(p.ticket, stream)) {
    p.ticket = ++s.ticket;
    p.retry = reinterpret_cast<u32*>(other);
    if (first_hits) {
      // Its searches are done with the leftovers before its polish lists what is to try again in their place.
      enqueue(s, problem, data, nullptr, problem.targets.stride, count, p, stream,
              {reinterpret_cast<u32*>(list), n});
    } else {
      enqueue_again(s, problem, data, nullptr, problem.targets.stride, count, list, n, p, stream);
    }
    first_hits = false;
    std::swap(list, other);
  }
  s.clean = true;
  if (!problem.judged()) return;
  std::vector<Outcome> outcomes(static_cast<std::size_t>(count));
  check(driver().MemcpyDtoHAsync(outcomes.data(), reinterpret_cast<CUdeviceptr>(out.outcome + first),
                                 outcomes.size(), stream),
        "cuMemcpyDtoHAsync");
  check(driver().StreamSynchronize(stream), "solving");
  for (std::int64_t t = 0; t < count; t++) {
    if (static_cast<unsigned char>(outcomes[std::size_t(t)]) == kUnsolved)
      solve_rounds_device(s, problem, first + t, 1, out, stream);
  }
}

// The statistics of targets first .. first + count - 1, which are at `targets` on the host and have their
// rows.
void Executor::Impl::count_candidates(Session& s, const Problem& problem, const double* targets,
                                      std::int64_t first, std::int64_t count, TargetStats* stats) {
  if (!problem.options.stats) return;
  const std::int64_t most = round_targets(problem.options);
  const auto size = std::size_t(std::min(most, count));
  std::vector<double> q(size * std::size_t(dof)), pose(7 * size), distance(size), angle(size);
  std::vector<std::int64_t> found(size);
  std::vector<Outcome> outcome(size);
  for (std::int64_t begin = 0; begin < count; begin += most) {
    const std::int64_t n = std::min(most, count - begin);
    Problem some = problem;
    some.targets = {targets + begin * problem.targets.stride, n, problem.targets.stride};
    if (some.options.world_index != nullptr) some.options.world_index += first + begin;
    solve_rounds(s, some, 0, n,
                 {q.data(), pose.data(), distance.data(), angle.data(), found.data(), outcome.data(),
                  stats + first + begin});
  }
}

void Executor::Impl::solve_unsolved(Session& s, const Problem& problem, std::int64_t first,
                                    std::int64_t count, const ResultView& out) {
  std::vector<std::int64_t> unsolved;
  for (std::int64_t t = first; t < first + count; t++) {
    if (static_cast<unsigned char>(out.outcome[t]) == kUnsolved) unsolved.push_back(t);
  }
  const std::int64_t most = round_targets(problem.options);
  for (std::size_t begin = 0; begin < unsolved.size(); begin += std::size_t(most)) {
    const std::size_t n = std::min(unsolved.size() - begin, std::size_t(most));
    std::vector<double> poses(7 * n), q(n * std::size_t(dof)), pose(7 * n), distance(n), angle(n);
    std::vector<std::int32_t> worlds(n);
    std::vector<std::int64_t> found(n);
    std::vector<Outcome> outcome(n);
    for (std::size_t k = 0; k < n; k++) {
      const std::int64_t t = unsolved[begin + k];
      std::copy_n(problem.targets.data + t * problem.targets.stride, 7, &poses[7 * k]);
      worlds[k] = problem.world_of(t);
    }
    Problem few = problem;
    few.targets = {poses.data(), std::int64_t(n), 7};
    few.options.world_index = worlds.data();
    few.options.stats = false;
    solve_rounds(s, few, 0, std::int64_t(n),
                 {q.data(), pose.data(), distance.data(), angle.data(), found.data(), outcome.data()});
    for (std::size_t k = 0; k < n; k++) {
      const std::int64_t t = unsolved[begin + k];
      std::copy_n(&q[k * std::size_t(dof)], dof, out.q + t * dof);
      std::copy_n(&pose[7 * k], 7, out.pose + 7 * t);
      out.pos_err_m[t] = distance[k];
      out.ori_err_rad[t] = angle[k];
      out.count[t] = found[k];
      out.outcome[t] = outcome[k];
    }
  }
}

// The same with all options, through host memory.
void Executor::Impl::solve_rounds_device(Session& s, const Problem& problem, std::int64_t first,
                                         std::int64_t count, const ResultView& out, CUstream stream) {
  const std::int64_t rows = count * problem.options.num_solutions, stride = problem.targets.stride;
  std::vector<double> targets(std::size_t((count - 1) * stride + 7)), q(std::size_t(rows * dof)),
      pose(std::size_t(rows * 7)), distance(static_cast<std::size_t>(rows)),
      angle(static_cast<std::size_t>(rows));
  std::vector<std::int64_t> found(static_cast<std::size_t>(count));
  std::vector<Outcome> outcome(static_cast<std::size_t>(count));
  const auto down = [&](void* to, const void* from, std::size_t bytes) {
    check(driver().MemcpyDtoHAsync(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream),
          "cuMemcpyDtoHAsync");
  };
  const auto up = [&](void* to, const void* from, std::size_t bytes) {
    check(driver().MemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream),
          "cuMemcpyHtoDAsync");
  };
  down(targets.data(), problem.targets.data + first * stride, targets.size() * sizeof(double));
  check(driver().StreamSynchronize(stream), "solving");
  Problem on_host = problem;
  on_host.targets = {targets.data(), count, stride};
  if (on_host.options.q_init_per_target) on_host.options.q_init += first * on_host.options.q_init_rows * dof;
  if (on_host.options.world_index != nullptr) on_host.options.world_index += first;
  const ResultView view{q.data(),
                        pose.data(),
                        distance.data(),
                        angle.data(),
                        found.data(),
                        outcome.data(),
                        problem.options.stats ? out.stats + first : nullptr};
  solve_rounds(s, on_host, 0, count, view);
  const std::int64_t to = first * problem.options.num_solutions;
  up(out.q + to * dof, q.data(), q.size() * sizeof(double));
  up(out.pose + to * 7, pose.data(), pose.size() * sizeof(double));
  up(out.pos_err_m + to, distance.data(), distance.size() * sizeof(double));
  up(out.ori_err_rad + to, angle.data(), angle.size() * sizeof(double));
  up(out.count + first, found.data(), found.size() * sizeof(std::int64_t));
  up(out.outcome + first, outcome.data(), outcome.size());
  check(driver().StreamSynchronize(stream), "solving");
}

Executor::Executor(const model::Chain& chain, int index, int threads, const StoreAccess& access)
    : impl_(std::make_unique<Impl>()) {
  impl_->chain = &chain;
  impl_->dof = chain.constants.dof;
  impl_->threads = threads;
  impl_->device = Device::get(index);
  impl_->access = access;
  impl_->program = Program::get(impl_->device, chain, {}, access);
  if (access.allow_build || chain.spheres.links.empty()) return;
  const Variant collision{false, true};
  impl_->others[collision] = Program::get(impl_->device, chain, collision, access);
}

Executor::~Executor() {
  // Not with the context of a lost device or in a forked child: what the driver holds then stays there.
  std::optional<Device::Scope> scope;
  try {
    scope.emplace(*impl_->device);
  } catch (const DeviceError&) {
  }
  impl_->idle.clear();
}

int Executor::device_index() const { return impl_->device->index(); }
const std::string& Executor::compiler() const { return impl_->program->compiler; }
const std::string& Executor::program_path() const { return impl_->program->path; }

void Executor::solve(const Problem& problem, const ResultView& out,
                     const std::function<void(std::int64_t)>& progress) const {
  Impl& impl = *impl_;
  impl.device->check_usable_here();
  const SolveOptions& o = problem.options;
  std::atomic<std::int64_t> next{0}, done{0};
  const std::int64_t targets = problem.targets.rows;
  std::atomic<std::int64_t> failed{targets};  // the first target of a piece that did
  try {
    if (problem.targets.memory == MemoryKind::device) {
      impl.solve_device(problem, out, done);
      if (progress) progress(done.load());
      return;
    }
    const bool one_row = is_one_row(o);
    const std::int64_t piece = one_row ? kPieceTargets : round_targets(o);
    const auto caller = std::this_thread::get_id();
    const std::function<void()> work = [&] {
      std::optional<Impl::Lease> session;
      for (;;) {
        const std::int64_t first = next.fetch_add(piece, std::memory_order_relaxed);
        if (first >= targets) return;
        const std::int64_t count = std::min(piece, targets - first);
        try {
          if (!session) session.emplace(impl, problem);
          if (one_row) {
            impl.solve_piece(**session, problem, first, count, out);
            impl.count_candidates(**session, problem, problem.targets.data + first * problem.targets.stride,
                                  first, count, out.stats);
          } else {
            impl.solve_rounds(**session, problem, first, count, out);
          }
        } catch (...) {
          if (session) (**session).drain((**session).stream);
          next.store(targets, std::memory_order_relaxed);
          std::int64_t seen = failed.load();
          while (first < seen && !failed.compare_exchange_weak(seen, first)) {
          }
          throw;
        }
        done.fetch_add(count, std::memory_order_relaxed);
        if (!progress || std::this_thread::get_id() != caller) continue;
        try {
          progress(done.load(std::memory_order_relaxed));
        } catch (...) {
          next.store(targets, std::memory_order_relaxed);  // the others need not go on
          throw;
        }
      }
    };
    const std::int64_t pieces = (targets + piece - 1) / piece;
    cpu::run_parallel(int(std::min<std::int64_t>({impl.threads, kHostThreads, pieces})) - 1, work);
    if (progress) progress(done.load());
  } catch (const DeviceError& error) {
    throw SolveError(error.what(), failed < targets ? failed.load() : done.load(), done.load());
  }
}

}  // namespace hjcdik::cuda
