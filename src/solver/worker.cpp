// What one thread does with a chunk of targets: rounds of search, polish and selection.
#include "solver/worker.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "core/collision.h"
#include "core/random.h"
#include "core/target.h"
#include "solver/select.hpp"

namespace hjcdik {
namespace {

// Two rows nearer than this in every joint are one, whatever distinct_rad says.
constexpr double kSameConfiguration = 1e-7;

// Ends deeper in collision than this are not pushed out of it, m: a tool that may move by millimetres does
// not get an arm out of more.
constexpr float kDeepestPushed = 0.03f;

// From so many targets on, their first hits are judged together.
constexpr std::int64_t kManyTargets = 32;

// Hits of one target polished in one go while it looks for several rows.
constexpr std::int64_t kRoundHits = 256;

// A configuration with its pose and errors, in one of the arrays of Rows.
struct Rows {
  std::vector<double> q;     // x dof
  std::vector<double> tool;  // x 12, in the target's frame
  std::vector<double> distance, angle;
  std::vector<std::int32_t> job;
  std::vector<const double*> start;

  void resize(std::int64_t n, int dof) {
    q.resize(std::size_t(n * dof));
    tool.resize(std::size_t(n * 12));
    distance.resize(std::size_t(n));
    angle.resize(std::size_t(n));
    job.resize(std::size_t(n));
    start.resize(std::size_t(n));
  }
};

// Rows that a target's search looks for.
std::int64_t rows_to_find(const SolveOptions& o) {
  const std::int64_t wanted = o.collision == Collision::soft
                                  ? std::max(kLeastSoftChoice, kSoftChoice * o.num_solutions)
                                  : o.num_solutions;
  return std::min(wanted, o.batch_size * budget(o.batch_size).starts_per_candidate);
}

}  // namespace

core::JobPlan Problem::plan() const {
  const Budget b = budget(options.batch_size);
  const bool redundant = chain->constants.dof > 6;
  return {int(b.candidates * b.starts_per_candidate), int(b.starts_per_candidate), int(options.q_init_rows),
          judged() && redundant && options.self_motion ? core::kWalks : 0};
}

std::int64_t hits_per_target(const SolveOptions& o) {
  const std::int64_t rows = rows_to_find(o);
  return std::max({rows, o.q_init_rows, rows > 1 ? kRoundHits : 1});
}

struct Worker::Impl {
  void solve(Engine& engine, const Problem& problem, std::int64_t first, std::int64_t count,
             const ResultView& out) {
    engine_ = &engine;
    problem_ = &problem;
    chain_ = problem.chain;
    options_ = &problem.options;
    dof_ = chain_->constants.dof;
    first_ = first;
    count_ = count;
    begin();
    warm_starts();
    if (judged_ && count_ >= kManyTargets && rows_wanted_ == 1 && plan_.warm_rows == 0) first_hits();
    search_and_polish();
    for (std::int64_t t = 0; t < count_; t++) {
      if (found_[t] == 0) approximate(t);
    }
    for (std::int64_t t = 0; t < count_; t++) write(t, out);
    if (options_->stats) {
      for (std::int64_t t = 0; t < count_; t++) count_candidates(t, out);
    }
  }

  void begin() {
    const auto& o = *options_;
    plan_ = problem_->plan();
    total_jobs_ = plan_.jobs();
    judged_ = problem_->judged();
    rows_wanted_ = std::int32_t(rows_to_find(o));
    rows_returned_ = std::int32_t(std::min<std::int64_t>(o.num_solutions, rows_wanted_));
    const std::int32_t warm = std::int32_t(o.q_init_rows);
    capacity_ = std::min(total_jobs_, std::int32_t(hits_per_target(o)));
    // The polish changes the order of near hits and makes some of them the same.
    near_capacity_ = std::int32_t(
        std::min<std::int64_t>(total_jobs_, std::max<std::int64_t>(8, 4 * std::int64_t{rows_wanted_})));
    pool_rows_ = rows_wanted_ + warm;
    fp32_ = o.precision == Precision::fp32;
    converged_ = fp32_ ? converged_fp32(*chain_) : kConverged;
    distinct_.reset(*chain_, distinct_rad());
    distinct_target_ = -1;

    starts_.resize(std::size_t(count_ * 12));
    states_.resize(std::size_t(count_));
    order_.resize(std::size_t(count_));
    found_.assign(std::size_t(count_), 0);
    distinct_found_.assign(std::size_t(count_), 0);
    job_end_.resize(std::size_t(count_));
    polished_.assign(std::size_t(count_), 0);
    hits_seen_.assign(std::size_t(count_), 0);
    near_found_.assign(std::size_t(count_), 0);
    reject_score_.assign(std::size_t(count_), std::numeric_limits<float>::infinity());
    reject_q_.resize(std::size_t(count_ * dof_));
    const std::size_t hits = std::size_t(count_ * capacity_), near = std::size_t(count_ * near_capacity_);
    hit_q_.resize(hits * dof_);
    hit_job_.resize(hits);
    hit_clearance_.resize(judged_ ? hits : 0);
    near_q_.resize(near * dof_);
    near_score_.resize(near);
    near_job_.resize(near);
    pool_.resize(count_ * pool_rows_, dof_);

    for (std::int64_t t = 0; t < count_; t++) {
      double* start = &starts_[t * 12];
      double r[9];
      core::rotation_of(core::normalised(target(t) + 3), r);
      core::target_start(target(t), r, chain_->constants.start, start);
      for (int k = 0; k < 12; k++) states_[t].start[k] = float(start[k]);
      const bool hopeless = !model::may_reach(*chain_, target(t), r);
      job_end_[t] = hopeless ? std::max(warm, std::min(total_jobs_, kStartsOutOfReach)) : total_jobs_;
      states_[t].next_job = 0;
      states_[t].world = problem_->world_of(first_ + t);
      states_[t].self_rejected = states_[t].world_rejected = 0;
    }
  }

  bool is_free(std::int64_t t, const double* q) const {
    return hjcdik::is_free(*chain_, q, problem_->rule(), states_[t].world);
  }

  double moved_by_polish(std::int64_t hit, const double* q) const {
    return core::moved_by_polish(chain_->constants, chain_->sphere_tables.lever, q, &hit_q_[hit * dof_]);
  }

  // Most targets' first starts that converge are free. Where that can be told of many at once it is a
  // fraction of the price; what it can't be told of is left to the search that judges, which answers the
  // same.
  void first_hits() {
    // Among obstacles too many are not free for this to pay.
    std::int32_t active = 0;
    for (std::int32_t t = 0; t < count_; t++) {
      if (problem_->worlds->has_obstacles(states_[t].world)) continue;
      states_[t].job_end = std::min(job_end_[t], core::kWalkBlock);
      states_[t].need = 1;
      order_[active++] = t;
    }
    if (active < kManyTargets) return;
    search(active, nullptr, nullptr, false);
    scratch_.resize(active, dof_);
    std::int64_t rows = 0;
    row_hit_.resize(std::size_t(active));
    row_world_.resize(std::size_t(active));
    row_q_.resize(std::size_t(active * dof_));
    row_free_ = std::make_unique<bool[]>(std::size_t(active));
    for (std::int32_t a = 0; a < active; a++) {
      const std::int32_t t = order_[a];
      if (states_[t].hits == 0) continue;
      const std::int64_t hit = std::int64_t(t) * capacity_;
      load(scratch_, rows, t, &hit_q_[hit * dof_], hit_job_[hit]);
      row_world_[rows] = states_[t].world;
      std::memcpy(&row_q_[std::size_t(rows * dof_)], &hit_q_[hit * dof_], std::size_t(dof_) * sizeof(float));
      row_hit_[rows++] = hit;
    }
    finish_rows(scratch_, rows);
    const CollisionRule rule = problem_->rule();
    JudgeTask task{&chain_->constants_f32,   chain_->sphere_tables.f32.table(),
                   rule.worlds->table_f32(), float(rule.margin),
                   float(kLittleMoved),      rule.self,
                   std::int32_t(rows),       row_q_.data(),
                   row_world_.data(),        row_free_.get()};
    const bool judged = engine_->judge(task);
    for (std::int64_t r = 0; r < rows && judged; r++) {
      const std::int64_t t = row_hit_[r] / capacity_;
      if (row_free_[std::size_t(r)] && converged(scratch_, r, converged_) &&
          moved_by_polish(row_hit_[r], &scratch_.q[r * dof_]) < kLittleMoved) {
        add_to_pool(t, scratch_, r, scratch_.job[r]);
      }
    }
    for (std::int32_t a = 0; a < active; a++) states_[order_[a]].next_job = 0;
  }

  // Whether a polished hit is free: what the search saw decides where the polish cannot have changed it.
  bool hit_is_free(std::int64_t t, std::int64_t hit, const double* q) const {
    const double slack = problem_->worlds->ranges[std::size_t(states_[t].world)].slack;
    return double(hit_clearance_[hit]) > moved_by_polish(hit, q) + slack || is_free(t, q);
  }

  // What the search took for free, or for nearly free, and is not: it may be all there is to fall back on.
  void refuse(std::int64_t t, const double* q) {
    const CollisionRule rule = problem_->rule(), own{rule.worlds, 0, true},
                        outside{rule.worlds, rule.margin, false};
    const double to_itself = rule.self ? clearance(*chain_, q, own, rule.worlds->empty_world(), 0) : 0;
    const double to_world = clearance(*chain_, q, outside, states_[t].world, 0);
    states_[t].self_rejected += to_itself < 0;
    states_[t].world_rejected += to_world < 0;
    keep(t, q, kCollides - float(std::min(to_itself, to_world)));
  }

  const double* target(std::int64_t t) const {
    return problem_->targets.data + (first_ + t) * problem_->targets.stride;
  }

  // Puts the given rows into the limits; those that are exact as they are go straight to the pool.
  void warm_starts() {
    const auto& o = *options_;
    const std::int64_t k = o.q_init_rows;
    if (k == 0) return;
    const std::int64_t sets = o.q_init_per_target ? count_ : 1;
    const double* given = o.q_init + (o.q_init_per_target ? first_ * k * dof_ : 0);
    warm_.assign(given, given + sets * k * dof_);
    warm_f32_.resize(warm_.size());
    for (std::int64_t r = 0; r < sets * k; r++) {
      for (int i = 0; i < dof_; i++) {
        double& v = warm_[r * dof_ + i];
        const auto& joint = chain_->joints[i].info;
        if (joint.type == JointType::continuous && (v < joint.lower || v > joint.upper)) {
          v = std::remainder(v, 2 * core::Constants<double>::pi);
        }
        v = std::clamp(v, joint.lower, joint.upper);
        const auto& limits = chain_->constants_f32.joint[i];
        warm_f32_[r * dof_ + i] = std::clamp(float(v), limits.lower, limits.upper);
      }
    }
    exact_.assign(std::size_t(count_ * k), false);
    scratch_.resize(count_ * k, dof_);
    for (std::int64_t t = 0; t < count_; t++) {
      std::memcpy(&scratch_.q[t * k * dof_], warm_of(t), std::size_t(k * dof_) * sizeof(double));
      for (std::int64_t r = 0; r < k; r++) scratch_.start[t * k + r] = &starts_[t * 12];
    }
    evaluate(scratch_, count_ * k);
    for (std::int64_t t = 0; t < count_; t++) {
      for (std::int64_t r = 0; r < k; r++) {
        exact_[t * k + r] = converged(scratch_, t * k + r, kConverged);
        exact_[t * k + r] = exact_[t * k + r] && (!judged_ || is_free(t, &scratch_.q[(t * k + r) * dof_]));
        if (exact_[t * k + r]) add_to_pool(t, scratch_, t * k + r, std::int32_t(r));
      }
    }
  }

  const double* warm_of(std::int64_t t) const {
    return warm_.data() + (options_->q_init_per_target ? t * options_->q_init_rows * dof_ : 0);
  }

  // Searches until every target has its rows or has used up its jobs. Warm starts come first and all
  // run to their end.
  void search_and_polish() {
    const std::int32_t warm = std::int32_t(options_->q_init_rows);
    std::int32_t active = 0;
    for (std::int32_t t = 0; t < count_; t++) {
      states_[t].job_end = warm > 0 ? warm : job_end_[t];
      states_[t].need = warm > 0 ? warm : rows_wanted_;
      if (found_[t] < rows_wanted_ || warm > 0) order_[active++] = t;
    }
    while (active > 0) {
      search(active, nullptr);
      std::int64_t rows = 0;
      for (std::int32_t a = 0; a < active; a++) rows += states_[order_[a]].hits;
      scratch_.resize(rows, dof_);
      row_hit_.resize(std::size_t(rows));
      rows = 0;
      for (std::int32_t a = 0; a < active; a++) {
        const std::int32_t t = order_[a];
        polished_[t] = 0;
        if (states_[t].hits > 0 && found_[t] > 0) hold_distinct(t);
        for (std::int32_t h = 0; h < states_[t].hits; h++) {
          const std::int64_t hit = std::int64_t(t) * capacity_ + h;
          const std::int32_t job = hit_job_[hit];
          if (job < warm && exact_[std::int64_t(t) * warm + job]) continue;  // is there already
          load(scratch_, rows, t, &hit_q_[hit * dof_], job);
          row_hit_[rows] = hit;
          // A hit well inside the neighbourhood of a row that is there would end as its duplicate.
          if (job >= warm && found_[t] > 0 &&
              !distinct_.differs(&scratch_.q[rows * dof_], 0.5 * distinct_rad())) {
            continue;
          }
          polished_[t]++;
          rows++;
        }
      }
      finish_rows(scratch_, rows);
      std::int32_t still = 0;
      rows = 0;
      for (std::int32_t a = 0; a < active; a++) {
        const std::int32_t t = order_[a];
        TargetState& state = states_[t];
        for (std::int32_t h = 0; h < polished_[t]; h++, rows++) {
          const std::int32_t job = scratch_.job[rows];
          if (converged(scratch_, rows, converged_)) {
            if (judged_ && !hit_is_free(t, row_hit_[rows], &scratch_.q[rows * dof_])) {
              refuse(t, &scratch_.q[rows * dof_]);
              continue;
            }
            if (state.job_end <= warm || distinct_found_[t] < rows_wanted_) {
              add_to_pool(t, scratch_, rows, job);
            }
          } else if (!judged_ || is_free(t, &scratch_.q[rows * dof_])) {
            reject(t, scratch_, rows);
          }
        }
        if (state.job_end == warm && warm > 0) {
          state.next_job = warm;
          state.job_end = job_end_[t];
        }
        // The rarer new rows become, the more hits a round asks for: it is the same rows in the same
        // order, in fewer rounds.
        hits_seen_[t] += state.hits;
        const std::int32_t missing = rows_wanted_ - distinct_found_[t];
        state.need = std::min(capacity_, std::max(missing, rows_wanted_ > 1 ? hits_seen_[t] : 1));
        if (missing > 0 && state.next_job < state.job_end) {
          if (found_[t] == 0) keep_near_hit(t);
          order_[still++] = t;
        }
      }
      active = still;
    }
  }

  void search(std::int32_t active, float* job_errors, float* job_q = nullptr, bool judges = true) {
    const auto& o = *options_;
    SearchTask task{};
    CollisionTask collision{};
    if (judged_ && job_errors == nullptr) {
      collision = {chain_->sphere_tables.f32.table(),
                   problem_->worlds->table_f32(),
                   float(o.collision_margin_m),
                   o.self_collision,
                   judges,
                   hit_clearance_.data()};
      task.collision = &collision;
    }
    task.job_q = job_q;
    task.chain = &chain_->constants_f32;
    task.orientation_weight = float(weight());
    task.damping_floor = float(damping_floor());
    task.position_tolerance = search_position_tolerance(*chain_);
    task.orientation_tolerance = kSearchOrientation;
    task.seed = o.seed;
    task.plan = plan_;
    if (job_errors != nullptr) task.plan.walks = 0;
    task.iterations = kIterations;
    task.coarse_sweeps = o.coarse_sweeps;
    task.greedy = o.coarse_order == CoarseOrder::greedy;
    task.warm = warm_f32_.data();
    task.warm_target_stride = o.q_init_per_target ? o.q_init_rows * dof_ : 0;
    task.seed_pose = problem_->seeds->pose[0];
    task.seed_q = problem_->seeds->q.data();
    task.targets = states_.data();
    task.order = order_.data();
    task.count = active;
    task.hit_capacity = capacity_;
    task.hit_q = hit_q_.data();
    task.hit_job = hit_job_.data();
    task.near_capacity = near_capacity_;
    task.near_q = near_q_.data();
    task.near_score = near_score_.data();
    task.near_job = near_job_.data();
    task.job_errors = job_errors;
    engine_->search(task);
  }

  double weight() const { return orientation_weight(*chain_); }
  double damping_floor() const { return hjcdik::damping_floor(*chain_); }

  // A configuration of the search in float64, inside the float64 limits.
  void widen(const float* q, double* wide) const {
    for (int i = 0; i < dof_; i++) {
      const auto& limits = chain_->constants.joint[i];
      wide[i] = std::clamp(double(q[i]), limits.lower, limits.upper);
    }
  }

  void load(Rows& rows, std::int64_t r, std::int64_t t, const float* q, std::int32_t job) {
    widen(q, &rows.q[r * dof_]);
    rows.start[r] = &starts_[t * 12];
    rows.job[r] = job;
  }

  // From the search's configurations to rows with errors.
  void finish_rows(Rows& rows, std::int64_t n) {
    if (!fp32_) polish(rows, n, kLastPolishStep);
    canonicalise(rows, n);
    evaluate(rows, n);
    if (fp32_) return;
    again_.clear();
    for (std::int64_t r = 0; r < n; r++) {
      if (!converged(rows, r, kPolished)) again_.push_back(std::int32_t(r));
    }
    if (again_.empty()) return;
    const std::int64_t left = std::int64_t(again_.size());
    slow_.resize(left, dof_);
    for (std::int64_t r = 0; r < left; r++) copy_row(rows, again_[std::size_t(r)], slow_, r, dof_);
    polish(slow_, left, kLastSlowPolishStep);
    canonicalise(slow_, left);
    evaluate(slow_, left);
    for (std::int64_t r = 0; r < left; r++) copy_row(slow_, r, rows, again_[std::size_t(r)], dof_);
  }

  void polish(Rows& rows, std::int64_t n, double last_step_below) {
    PolishTask task{&chain_->constants, weight(),        damping_floor(),   kPolishIterations,
                    last_step_below,    std::int32_t(n), rows.start.data(), rows.q.data()};
    engine_->polish(task);
  }

  void evaluate(Rows& rows, std::int64_t n) {
    EvaluateTask task{&chain_->constants, std::int32_t(n),      rows.start.data(), rows.q.data(),
                      rows.tool.data(),   rows.distance.data(), rows.angle.data()};
    engine_->evaluate(task);
  }

  void canonicalise(Rows& rows, std::int64_t n) {
    for (std::int64_t r = 0; r < n; r++) nearest_equivalent(*chain_, nullptr, &rows.q[r * dof_]);
  }

  static bool converged(const Rows& rows, std::int64_t r, double tolerance) {
    return rows.distance[r] < tolerance && rows.angle[r] < tolerance;
  }

  static void copy_row(const Rows& from, std::int64_t a, Rows& to, std::int64_t b, int dof) {
    std::memcpy(&to.q[b * dof], &from.q[a * dof], std::size_t(dof) * sizeof(double));
    std::memcpy(&to.tool[b * 12], &from.tool[a * 12], 12 * sizeof(double));
    to.distance[b] = from.distance[a];
    to.angle[b] = from.angle[a];
    to.start[b] = from.start[a];
    to.job[b] = from.job[a];
  }

  // Without warm starts the pool holds distinct rows only. With them it holds every converged warm
  // start too, since nearness decides among near-duplicates in the end.
  void add_to_pool(std::int64_t t, const Rows& rows, std::int64_t r, std::int32_t job) {
    const std::int64_t place = t * pool_rows_ + found_[t];
    copy_row(rows, r, pool_, place, dof_);
    pool_.job[place] = job;
    pool_.start[place] = &starts_[t * 12];
    if (rows_wanted_ == 1) {
      distinct_found_[t] = 1;
      found_[t]++;
      return;
    }
    hold_distinct(t);
    const bool is_new = distinct_.insert(&pool_.q[place * dof_]);
    distinct_found_[t] += is_new;
    if (is_new || job < options_->q_init_rows) found_[t]++;
  }

  // distinct_ holds one target's rows at a time; targets come in runs.
  void hold_distinct(std::int64_t t) {
    if (distinct_target_ == t) return;
    distinct_.clear();
    for (std::int64_t r = 0; r < found_[t]; r++) distinct_.insert(&pool_.q[(t * pool_rows_ + r) * dof_]);
    distinct_target_ = t;
  }

  double distinct_rad() const { return std::max(options_->distinct_rad, kSameConfiguration); }

  // The best row that met the search's tolerance but not the polish's, for the approximate rows.
  void reject(std::int64_t t, const Rows& rows, std::int64_t r) {
    keep(t, &rows.q[r * dof_], float(score(rows, r)));
  }

  void keep(std::int64_t t, const double* q, float off) {
    if (!(off < reject_score_[t])) return;
    reject_score_[t] = off;
    std::memcpy(&reject_q_[t * dof_], q, std::size_t(dof_) * sizeof(double));
  }

  // The next search forgets the near hits of this one, a warm start's above all.
  void keep_near_hit(std::int64_t t) {
    const std::int64_t first = t * near_capacity_;
    for (std::int64_t row = first; row < first + states_[t].near_hits; row++) {
      if (!(near_score_[row] < reject_score_[t])) continue;
      reject_score_[t] = near_score_[row];
      widen(&near_q_[row * dof_], &reject_q_[t * dof_]);
    }
  }

  // No start of this target converged: its nearest ends are polished to their local optimum, which may
  // still converge, and returned in order of error.
  void approximate(std::int64_t t) {
    const std::int64_t near = states_[t].near_hits;
    // Ends deep in collision are far from any that is free.
    const auto counts = [&](float score) { return !judged_ || score < kCollides + kDeepestPushed; };
    scratch_.resize(near + 1, dof_);
    std::int64_t n = 0;
    for (std::int64_t row = t * near_capacity_; row < t * near_capacity_ + near; row++) {
      if (counts(near_score_[row])) load(scratch_, n++, t, &near_q_[row * dof_], near_job_[row]);
    }
    if (std::isfinite(reject_score_[t]) && counts(reject_score_[t])) {
      std::memcpy(&scratch_.q[n * dof_], &reject_q_[t * dof_], std::size_t(dof_) * sizeof(double));
      scratch_.start[n] = &starts_[t * 12];
      scratch_.job[n++] = 0;
    }
    if (judged_) return fall_back(t, n);
    finish_rows(scratch_, n);
    ranking_.resize(std::size_t(n));
    for (std::int64_t r = 0; r < n; r++) ranking_[r] = {score(scratch_, r), std::int32_t(r)};
    std::sort(ranking_.begin(), ranking_.end(), [&](const Ranked& a, const Ranked& b) {
      return a.score != b.score ? a.score < b.score : scratch_.job[a.row] < scratch_.job[b.row];
    });
    for (const Ranked& ranked : ranked_converged_first(scratch_)) {
      if (found_[t] == rows_wanted_) break;
      const bool ok = converged(scratch_, ranked.row, converged_);
      if (!ok && distinct_found_[t] > near_found_[t]) break;  // some converged after all: only those
      const std::int32_t before = distinct_found_[t];
      add_to_pool(t, scratch_, ranked.row, std::numeric_limits<std::int32_t>::max());
      near_found_[t] += !ok && distinct_found_[t] > before;
    }
  }

  // Without a free start that converged: of the ends in scratch_, each pushed out of what it touches, those
  // that are free and near enough, the nearest first.
  void fall_back(std::int64_t t, std::int64_t n) {
    for (std::int64_t r = 0; r < n; r++) {
      double* q = &scratch_.q[r * dof_];
      if (!push_out(*chain_, q, problem_->rule(), states_[t].world))
        q[0] = std::numeric_limits<double>::quiet_NaN();
    }
    ranking_.clear();
    std::int64_t kept = 0;
    for (std::int64_t r = 0; r < n; r++) {
      if (!std::isfinite(scratch_.q[r * dof_])) continue;
      if (kept != r) copy_row(scratch_, r, scratch_, kept, dof_);
      kept++;
    }
    canonicalise(scratch_, kept);
    evaluate(scratch_, kept);
    for (std::int64_t r = 0; r < kept; r++) {
      if (scratch_.distance[r] < kFallbackDistance && scratch_.angle[r] < kFallbackAngle)
        ranking_.push_back({score(scratch_, r), std::int32_t(r)});
    }
    std::sort(ranking_.begin(), ranking_.end(), [&](const Ranked& a, const Ranked& b) {
      return a.score != b.score ? a.score < b.score : scratch_.job[a.row] < scratch_.job[b.row];
    });
    for (const Ranked& ranked : ranking_) {
      if (found_[t] == rows_wanted_) break;
      const std::int32_t before = distinct_found_[t];
      add_to_pool(t, scratch_, ranked.row, std::numeric_limits<std::int32_t>::max());
      near_found_[t] += distinct_found_[t] > before;
    }
  }

  struct Ranked {
    double score;
    std::int32_t row;
  };

  // Scores are below tolerance for converged rows and above it for others, so the order by score
  // already has the converged rows first, but for ties of scale between distance and angle.
  const std::vector<Ranked>& ranked_converged_first(const Rows& rows) {
    std::stable_partition(ranking_.begin(), ranking_.end(),
                          [&](const Ranked& r) { return converged(rows, r.row, converged_); });
    return ranking_;
  }

  static double score(const Rows& rows, std::int64_t r) {
    return core::end_score(rows.distance[r], rows.angle[r]);
  }

  // Puts the pool's rows in their final order, nearest first with warm starts.
  void order_by_nearness(std::int64_t t) {
    const std::int64_t k = options_->q_init_rows, base = t * pool_rows_, n = found_[t];
    scratch_.resize(n, dof_);
    ranking_.resize(std::size_t(n));
    std::vector<double>& q = trial_;
    q.resize(std::size_t(dof_));
    for (std::int64_t r = 0; r < n; r++) {
      copy_row(pool_, base + r, scratch_, r, dof_);
      double best = std::numeric_limits<double>::infinity();
      for (std::int64_t w = 0; w < k; w++) {
        const double* reference = warm_of(t) + w * dof_;
        std::memcpy(q.data(), &pool_.q[(base + r) * dof_], std::size_t(dof_) * sizeof(double));
        nearest_equivalent(*chain_, reference, q.data());
        const double distance = joint_distance(*chain_, q.data(), reference);
        if (distance < best) {
          best = distance;
          std::memcpy(&scratch_.q[r * dof_], q.data(), std::size_t(dof_) * sizeof(double));
        }
      }
      ranking_[r] = {best, std::int32_t(r)};
    }
    std::sort(ranking_.begin(), ranking_.end(), [](const Ranked& a, const Ranked& b) {
      return a.score != b.score ? a.score < b.score : a.row < b.row;
    });
    evaluate(scratch_, n);
    found_[t] = 0;
    distinct_.clear();
    for (const Ranked& ranked : ranking_) {
      if (found_[t] == rows_wanted_) break;
      const std::int64_t place = base + found_[t];
      copy_row(scratch_, ranked.row, pool_, place, dof_);
      found_[t] += distinct_.insert(&pool_.q[place * dof_]);
    }
    distinct_target_ = -1;
  }

  // Puts a target's rows of the pool in the order of score_of(row), equal ones as they were.
  template <class ScoreOf>
  void order_by(std::int64_t t, ScoreOf score_of) {
    const std::int64_t base = t * pool_rows_, n = found_[t];
    scratch_.resize(n, dof_);
    ranking_.resize(std::size_t(n));
    for (std::int64_t r = 0; r < n; r++) {
      copy_row(pool_, base + r, scratch_, r, dof_);
      ranking_[r] = {score_of(base + r), std::int32_t(r)};
    }
    std::stable_sort(ranking_.begin(), ranking_.end(),
                     [](const Ranked& a, const Ranked& b) { return a.score < b.score; });
    for (std::int64_t r = 0; r < n; r++) copy_row(scratch_, ranking_[r].row, pool_, base + r, dof_);
  }

  // Without a polish some rows are within kConverged and others are not: the former first, in their order,
  // then the others by error.
  void order_unpolished(std::int64_t t) {
    order_by(t, [&](std::int64_t row) { return converged(pool_, row, kConverged) ? -1 : score(pool_, row); });
  }

  // With "soft": by penetration; then only as many as are wanted.
  void order_by_penetration(std::int64_t t) {
    order_by(t, [&](std::int64_t row) {
      return penetration(*chain_, &pool_.q[row * dof_], *problem_->worlds, states_[t].world);
    });
    found_[t] = std::min(found_[t], rows_returned_);
  }

  // Why a target has no rows.
  Outcome failure(std::int64_t t) const {
    const TargetState& state = states_[t];
    if (state.self_rejected == 0 && state.world_rejected == 0) return Outcome::no_accurate;
    return state.self_rejected > state.world_rejected ? Outcome::self_collision
                                                      : Outcome::environment_collision;
  }

  void write(std::int64_t t, const ResultView& out) {
    const bool solved = near_found_[t] == 0 && found_[t] > 0;  // as far as the precision goes
    if (solved && options_->q_init_rows > 0) order_by_nearness(t);
    if (solved && fp32_ && found_[t] > 1) order_unpolished(t);
    if (solved && options_->collision == Collision::soft) order_by_penetration(t);
    found_[t] = std::min(found_[t], rows_returned_);
    const std::int64_t s = options_->num_solutions, n = found_[t], base = t * pool_rows_,
                       to = (first_ + t) * s;
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    out.count[first_ + t] = n;
    out.outcome[first_ + t] = n == 0                                         ? failure(t)
                              : solved && converged(pool_, base, kConverged) ? Outcome::solved
                                                                             : Outcome::approximate;
    std::memcpy(out.q + to * dof_, &pool_.q[base * dof_], std::size_t(n * dof_) * sizeof(double));
    std::memcpy(out.pos_err_m + to, &pool_.distance[base], std::size_t(n) * sizeof(double));
    std::memcpy(out.ori_err_rad + to, &pool_.angle[base], std::size_t(n) * sizeof(double));
    const core::Quaternion unit = core::normalised(target(t) + 3);
    for (std::int64_t r = 0; r < n; r++)
      core::reached_pose(target(t), unit, &pool_.tool[(base + r) * 12], out.pose + (to + r) * 7);
    std::fill(out.q + (to + n) * dof_, out.q + (to + s) * dof_, nan);
    std::fill(out.pose + (to + n) * 7, out.pose + (to + s) * 7, nan);
    std::fill(out.pos_err_m + to + n, out.pos_err_m + to + s, nan);
    std::fill(out.ori_err_rad + to + n, out.ori_err_rad + to + s, nan);
  }

  // A second pass over the jobs up to the last returned row's: how every candidate ended. It changes no
  // row. A candidate of several starts is what its best one is: accurate and free, accurate, or neither.
  void count_candidates(std::int64_t t, const ResultView& out) {
    TargetStats stats;
    const std::int64_t s = options_->num_solutions, n = found_[t], base = t * pool_rows_;
    const std::int32_t all = plan_.starts;
    std::int32_t last = std::min(job_end_[t], all) - 1;
    if (near_found_[t] == 0 && n == rows_returned_ && n == s && options_->collision != Collision::soft) {
      std::int32_t last_job = 0;
      for (std::int64_t r = 0; r < n; r++) last_job = std::max(last_job, pool_.job[base + r]);
      last = std::min(last, starts_before(last_job + 1) - 1);
    }
    TargetState& state = states_[t];
    state.next_job = 0;
    state.job_end = last + 1;
    state.need = 0;
    job_errors_.resize(std::size_t(2 * (last + 1)));
    job_q_.resize(std::size_t(last + 1) * std::size_t(dof_));
    order_[0] = std::int32_t(t);
    search(1, job_errors_.data(), job_q_.data());

    const Collision mode = options_->collision;
    const bool judges = mode != Collision::none;
    const bool costs = mode == Collision::soft || mode == Collision::both;
    // "soft" looks at the world alone, where touching is penetrating.
    const CollisionRule rule =
        mode == Collision::soft ? CollisionRule{problem_->worlds, 0, false} : problem_->rule();
    const auto free = [&](const double* q) { return hjcdik::is_free(*chain_, q, rule, state.world); };
    core::JobPlan plan = plan_;
    plan.walks = 0;
    // The greatest of a candidate's starts counts.
    enum : char { unseen, off, off_in_collision, lost, feasible };
    candidate_.assign(std::size_t(options_->batch_size), unseen);
    std::vector<double> q(static_cast<std::size_t>(dof_)),
        cost(costs ? std::size_t(options_->batch_size) : 0);
    std::int64_t coarse = 0;
    for (std::int32_t job = 0; job <= last; job++) {
      const core::Start start = core::start_of_job(plan, job);
      const bool accurate = job_errors_[2 * job] < 5e-3f && job_errors_[2 * job + 1] < 1e-3f;
      widen(&job_q_[std::size_t(job) * std::size_t(dof_)], q.data());
      const bool is_ok = !judges || free(q.data());
      const char verdict = accurate ? (is_ok ? feasible : lost) : is_ok ? off : off_in_collision;
      char& candidate = candidate_[std::size_t(start.candidate)];
      const bool better = verdict > candidate;
      if (better) candidate = verdict;
      if (better && costs)
        cost[std::size_t(start.candidate)] =
            1e3 * penetration(*chain_, q.data(), *problem_->worlds, state.world);
      if (judges && start.start == 0) {
        start_configuration(t, start, q.data());
        coarse += !free(q.data());
      }
    }
    const auto count = [&](char verdict) {
      return std::count(candidate_.begin(), candidate_.end(), verdict);
    };
    stats.batch_size = options_->batch_size;
    stats.n_refined = options_->batch_size - count(unseen);
    stats.n_ik_accurate = count(lost) + count(feasible);
    stats.n_returned = n;
    stats.n_returned_ik_accurate = 0;
    const auto returned_accurate = [&](std::int64_t r) {
      return pool_.distance[base + r] < 5e-3 && pool_.angle[base + r] < 1e-3;
    };
    for (std::int64_t r = 0; r < n; r++) stats.n_returned_ik_accurate += returned_accurate(r);
    if (judges) {
      stats.n_feasible = count(feasible);
      stats.n_ik_lost = count(lost);
      stats.n_coll_free_refined = count(feasible) + count(off);
      stats.n_coll_in_refined = count(lost) + count(off_in_collision);
      stats.n_coll_in_coarse = coarse;
      stats.n_returned_coll_free = stats.n_returned_feasible = 0;
      for (std::int64_t r = 0; r < n; r++) {
        const bool is_ok = free(&pool_.q[(base + r) * dof_]);
        stats.n_returned_coll_free += is_ok;
        stats.n_returned_feasible += is_ok && returned_accurate(r);
      }
      stats.pct_returned_coll_free = n == 0 ? 0 : 100.0 * double(stats.n_returned_coll_free) / double(n);
    }
    if (costs) {
      double sum = 0, least = std::numeric_limits<double>::infinity(), most = 0;
      for (std::size_t c = 0; c < candidate_.size(); c++) {
        if (candidate_[c] == unseen) continue;
        sum += cost[c];
        least = std::min(least, cost[c]);
        most = std::max(most, cost[c]);
      }
      stats.env_cost_min_mm = least;
      stats.env_cost_max_mm = most;
      stats.env_cost_mean_mm = sum / double(stats.n_refined);
    }
    out.stats[first_ + t] = stats;
  }

  // Starts as they are among the first `jobs` jobs.
  std::int32_t starts_before(std::int32_t jobs) const {
    std::int32_t starts = 0;
    for (std::int32_t job = 0; job < jobs; job++) starts += !core::start_of_job(plan_, job).walk;
    return starts;
  }

  // Where a start begins, as the search does it but for the first, which is the nearest of the seed table.
  void start_configuration(std::int64_t t, const core::Start& start, double* q) const {
    if (start.is_warm) {
      std::memcpy(q, warm_of(t) + std::int64_t(start.candidate) * dof_, std::size_t(dof_) * sizeof(double));
      return;
    }
    const core::u32 stream =
        core::start_stream(options_->seed, core::u32(start.candidate), core::u32(start.start));
    const double spread = double(core::start_spread(core::u32(start.candidate), core::u32(start.start)));
    for (int i = 0; i < dof_; i++) q[i] = core::start_value(chain_->constants.joint[i], stream, spread, i);
  }

  Engine* engine_ = nullptr;
  const Problem* problem_ = nullptr;
  const model::Chain* chain_ = nullptr;
  const SolveOptions* options_ = nullptr;
  int dof_ = 0;
  bool fp32_ = false;
  double converged_ = kConverged;
  std::int64_t first_ = 0, count_ = 0;
  core::JobPlan plan_{};
  bool judged_ = false;
  // rows_wanted_: looked for; rows_returned_: of these, more than which is not returned.
  std::int32_t total_jobs_ = 0, rows_wanted_ = 0, rows_returned_ = 0, capacity_ = 0, near_capacity_ = 0;
  std::int64_t pool_rows_ = 0;

  std::vector<double> starts_;
  std::vector<TargetState> states_;
  std::vector<std::int32_t> order_, job_end_, polished_, hits_seen_;
  std::vector<std::int32_t> found_, distinct_found_,
      near_found_;  // rows in the pool; of these distinct; not converged
  std::vector<float> hit_q_, hit_clearance_, near_q_, near_score_;
  std::vector<std::int64_t> row_hit_;
  std::vector<std::int32_t> row_world_;
  std::vector<float> row_q_;
  std::unique_ptr<bool[]> row_free_;
  std::vector<std::int32_t> hit_job_, near_job_;
  std::vector<float> reject_score_;
  std::vector<double> reject_q_;
  std::vector<double> warm_;
  std::vector<float> warm_f32_, job_errors_, job_q_;
  std::vector<char> candidate_, exact_;
  Rows pool_, scratch_, slow_;
  std::vector<std::int32_t> again_;
  std::vector<Ranked> ranking_;
  std::vector<double> trial_;
  DistinctSet distinct_;
  std::int64_t distinct_target_ = -1;  // whose rows it holds
};

Worker::Worker() : impl_(std::make_unique<Impl>()) {}
Worker::~Worker() = default;

void Worker::solve(Engine& engine, const Problem& problem, std::int64_t first, std::int64_t count,
                   const ResultView& out) {
  impl_->solve(engine, problem, first, count, out);
}

}  // namespace hjcdik
