// The loops of every instruction set: searches whose answers do not depend on which lanes ran what,
// polish and evaluation row by row.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>

#include "core/random.h"
#include "cpu/isa.hpp"
#include "plain_world.hpp"
#include "solver/rows.hpp"
#include "solver/seed_table.hpp"
#include "solver/world_set.hpp"

namespace hjcdik {
namespace {

using namespace test;
using cpu::available_lanes;

// One search with memory for its answers.
struct Search {
  const model::Chain& chain;
  SeedTable seeds;
  SearchTask task{};
  std::vector<TargetState> states;
  std::vector<std::int32_t> order, hit_job, near_job;
  std::vector<float> hit_q, near_q, near_score, warm, job_q, hit_clearance;
  CollisionTask collision{};

  Search(const Robot& robot, const std::vector<Pose>& targets, int jobs, int need, int capacity)
      : chain(robot.chain()), seeds(robot.chain(), 1337) {
    const std::size_t rows = targets.size() * std::size_t(capacity), dof = std::size_t(robot.dof());
    hit_job.resize(rows);
    near_job.resize(rows);
    near_score.resize(rows);
    hit_q.resize(rows * dof);
    near_q.resize(rows * dof);
    for (const Pose& target : targets) {
      TargetState state{};
      const core::Frame<double> start = start_frame<double>(robot, model::inverse(transform_of(target)));
      const core::Vec3<double>* columns[] = {&start.x, &start.y, &start.z};
      for (int c = 0; c < 3; c++) {
        state.start[c] = float(columns[c]->x);
        state.start[3 + c] = float(columns[c]->y);
        state.start[6 + c] = float(columns[c]->z);
      }
      state.start[9] = float(start.p.x);
      state.start[10] = float(start.p.y);
      state.start[11] = float(start.p.z);
      state.job_end = jobs;
      state.need = need;
      order.push_back(std::int32_t(states.size()));
      states.push_back(state);
    }
    task.chain = &chain.constants_f32;
    const float length = float(std::max(chain.length, 1e-3));
    task.orientation_weight = 0.28f * length;
    task.damping_floor = 1e-9f * length * length;
    task.position_tolerance = 3e-6f * std::max(1.0f, length);
    task.orientation_tolerance = 1e-5f;
    task.seed = 1337;
    task.plan = {jobs, 1, 0, 0};
    task.iterations = 20;
    task.hit_capacity = task.near_capacity = capacity;
  }

  // From now on it judges what it finds, every target in the next of the worlds.
  void judge(const WorldSet& worlds, float margin = 0, bool self = true, bool walks = true) {
    hit_clearance.assign(hit_job.size(), -9.0f);
    collision = {
        chain.sphere_tables.f32.table(), worlds.table_f32(), margin, self, true, hit_clearance.data()};
    task.collision = &collision;
    task.plan.walks = walks ? core::kWalks : 0;
    for (std::size_t t = 0; t < states.size(); t++) {
      states[t].world = std::int32_t(t % (worlds.worlds.size() + 1));
      states[t].job_end = task.plan.jobs();
    }
  }

  static model::Transform transform_of(const Pose& pose) {
    const double norm = std::sqrt(pose[4] * pose[4] + pose[5] * pose[5] + pose[6] * pose[6]);
    const double axis[3] = {norm > 0 ? pose[4] / norm : 0, norm > 0 ? pose[5] / norm : 0,
                            norm > 0 ? pose[6] / norm : 1};
    model::Transform t = model::rotation_about(axis, 2 * std::atan2(norm, pose[3]));
    std::copy_n(pose.begin(), 3, t.position);
    return t;
  }

  void run(const cpu::Lanes& lanes, float* job_errors = nullptr) {
    task.targets = states.data();
    task.order = order.data();
    task.count = std::int32_t(order.size());
    task.hit_q = hit_q.data();
    task.hit_job = hit_job.data();
    task.near_q = near_q.data();
    task.near_score = near_score.data();
    task.near_job = near_job.data();
    task.warm = warm.data();
    task.seed_pose = seeds.pose[0];
    task.seed_q = seeds.q.data();
    task.job_errors = job_errors;
    if (job_errors != nullptr) job_q.resize(std::size_t(task.plan.jobs()) * dof());
    task.job_q = job_q.data();
    lanes.search(task);
  }

  std::size_t row(std::size_t t, int r) const { return t * std::size_t(task.hit_capacity) + std::size_t(r); }
  std::size_t dof() const { return std::size_t(chain.constants.dof); }
  std::vector<std::int32_t> hits(std::size_t t) const {
    return {hit_job.begin() + std::ptrdiff_t(row(t, 0)),
            hit_job.begin() + std::ptrdiff_t(row(t, states[t].hits))};
  }
  std::vector<float> hit_rows(std::size_t t) const {
    return {hit_q.begin() + std::ptrdiff_t(row(t, 0) * dof()),
            hit_q.begin() + std::ptrdiff_t(row(t, states[t].hits) * dof())};
  }
  // Jobs in order, each with its row: the heap's own order is nobody's business.
  std::vector<std::pair<std::int32_t, std::vector<float>>> near(std::size_t t) const {
    std::vector<std::pair<std::int32_t, std::vector<float>>> result;
    for (int r = 0; r < states[t].near_hits; r++) {
      const auto begin = near_q.begin() + std::ptrdiff_t(row(t, r) * dof());
      result.emplace_back(near_job[row(t, r)], std::vector<float>(begin, begin + std::ptrdiff_t(dof())));
    }
    std::sort(result.begin(), result.end());
    return result;
  }
};

// The part of the answer a worker uses.
void expect_same_answer(const Search& a, std::size_t ta, const Search& b, std::size_t tb,
                        const std::string& what) {
  ASSERT_EQ(a.hits(ta), b.hits(tb)) << what;
  ASSERT_TRUE(same_bits(a.hit_rows(ta), b.hit_rows(tb))) << what;
  ASSERT_EQ(a.states[ta].near_hits, b.states[tb].near_hits) << what;
  ASSERT_EQ(a.near(ta), b.near(tb)) << what;
  ASSERT_EQ(a.states[ta].next_job, b.states[tb].next_job) << what;
  if (a.task.collision == nullptr) return;
  for (int r = 0; r < a.states[ta].hits; r++)
    ASSERT_EQ(a.hit_clearance[a.row(ta, r)], b.hit_clearance[b.row(tb, r)]) << what;
  // With a hit, lanes that ran ahead have counted too.
  if (a.states[ta].hits > 0) return;
  ASSERT_EQ(a.states[ta].self_rejected, b.states[tb].self_rejected) << what;
  ASSERT_EQ(a.states[ta].world_rejected, b.states[tb].world_rejected) << what;
}

// A third of the targets a little or far out of reach.
std::vector<Pose> mixed_targets(const Robot& robot, int count) {
  std::vector<Pose> targets = Solver(robot).sample_targets(count, 5);
  for (std::size_t t = 0; t < targets.size(); t += 3) targets[t][2] += t % 2 ? 0.3 : 3.0;
  return targets;
}

class EveryIsa : public testing::TestWithParam<std::string> {
 protected:
  const cpu::Lanes& lanes() const { return cpu::choose_lanes(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Isas, EveryIsa, testing::ValuesIn(available_isas()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// The oracle: every job run to its end (job_errors), then picked by hand.
TEST_P(EveryIsa, SearchFindsTheFirstJobsThatConverge) {
  for (const char* name : {"panda", "ur5e"}) {
    const Robot robot = Robot::preset(name);
    constexpr int jobs = 60, capacity = 60;
    const std::vector<Pose> targets = mixed_targets(robot, few(60));
    for (std::size_t t = 0; t < targets.size(); t++) {
      Search all(robot, {targets[t]}, jobs, 0, capacity);
      std::vector<float> errors(2 * jobs, -1.0f);
      all.run(lanes(), errors.data());
      std::vector<std::int32_t> converged, others;
      for (std::int32_t job = 0; job < jobs; job++) {
        const float distance = errors[std::size_t(2 * job)], angle = errors[std::size_t(2 * job + 1)];
        ASSERT_GE(distance, 0.0f);
        ASSERT_GE(angle, 0.0f);
        // Near enough for the polish; a start that goes on is nearer still when it ends.
        const bool ok = distance < core::kNearEnough * all.task.position_tolerance &&
                        angle < core::kNearEnough * all.task.orientation_tolerance;
        (ok ? converged : others).push_back(job);
      }
      for (const int need : {1, 2, 5, 17, 60}) {
        Search search(robot, {targets[t]}, jobs, need, capacity);
        search.run(lanes());
        const std::size_t expected = std::min<std::size_t>(converged.size(), std::size_t(need));
        ASSERT_EQ(search.hits(0),
                  std::vector<std::int32_t>(converged.begin(), converged.begin() + std::ptrdiff_t(expected)))
            << name << " target " << t << " need " << need;
        if (int(converged.size()) >= need) {
          ASSERT_EQ(search.states[0].next_job, converged[std::size_t(need - 1)] + 1);
        } else {
          ASSERT_EQ(search.states[0].next_job, jobs);
          ASSERT_EQ(search.states[0].near_hits, int(others.size()));
        }
      }
    }
  }
}

// With no iterations a job ends where it starts: warm rows as given, then the nearest entry of the seed
// table, then random starts by their counters.
TEST_P(EveryIsa, JobsStartWhereTheyShould) {
  for (const char* name : {"panda", "ur5e"}) {
    const Robot robot = Robot::preset(name);
    const std::size_t dof = std::size_t(robot.dof());
    constexpr int jobs = 30, starts = 3;
    for (const int warm_rows : {0, 2}) {
      const std::vector<Pose> targets = Solver(robot).sample_targets(few(100), 12);
      Search search(robot, targets, jobs, 1, jobs);
      const auto& chain = search.chain.constants_f32;
      for (int i = 0; i < warm_rows * robot.dof(); i++) search.warm.push_back(0.01f * float(i) - 0.5f);
      search.task.plan = {jobs, starts, warm_rows, 0};
      search.task.iterations = 0;
      search.run(lanes());
      for (std::size_t t = 0; t < targets.size(); t++) {
        const auto ends = search.near(t);
        ASSERT_EQ(ends.size(), std::size_t(jobs));
        for (std::int32_t job = 0; job < jobs; job++) {
          ASSERT_EQ(ends[std::size_t(job)].first, job);
          const std::vector<float>& q = ends[std::size_t(job)].second;
          if (job == warm_rows) continue;
          const core::Start s = core::start_of_job(search.task.plan, job);
          const core::u32 stream = core::start_stream(1337, core::u32(s.candidate), core::u32(s.start));
          const float spread = core::start_spread(core::u32(s.candidate), core::u32(s.start));
          for (std::size_t i = 0; i < dof; i++) {
            const float expected = job < warm_rows
                                       ? search.warm[std::size_t(job) * dof + i]
                                       : core::start_value(chain.joint[i], stream, spread, int(i));
            ASSERT_NEAR(q[i], expected, 1e-6f) << "job " << job << " joint " << i;
          }
        }

        const double w = 0.5 * search.task.orientation_weight * search.task.orientation_weight;
        const model::Transform base = model::inverse(Search::transform_of(targets[t]));
        const auto far = [&](const float* q) {
          const model::Transform tool = PlainChain(robot, {q, q + dof}, base).tool;
          const double *p = tool.position, *r = tool.rotation;
          return p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + w * (3 - r[0] - r[4] - r[8]);
        };
        double nearest = 1e9;
        for (std::size_t m = 0; m < core::kSeedTable; m++)
          nearest = std::min(nearest, far(&search.seeds.q[m * dof]));
        const std::vector<float>& first = ends[std::size_t(warm_rows)].second;
        ASSERT_NEAR(far(first.data()), nearest, 1e-5) << name << " target " << t;
        bool in_table = false;
        for (std::size_t m = 0; m < core::kSeedTable; m++) {
          in_table = in_table || std::equal(first.begin(), first.end(), &search.seeds.q[m * dof]);
        }
        ASSERT_TRUE(in_table);
      }
    }
  }
}

// Near hits: the best by distance + 0.3 angle, the earlier job of equals.
TEST_P(EveryIsa, NearHitsAreTheBestOfTheRest) {
  const Robot robot = Robot::preset("panda");
  constexpr int jobs = 100, capacity = 7;
  std::vector<Pose> targets = Solver(robot).sample_targets(few(40), 6);
  for (std::size_t t = 0; t < targets.size(); t++) {
    targets[t][0] += 2;  // out of reach
    Search all(robot, {targets[t]}, jobs, 0, 1);
    std::vector<float> errors(2 * jobs);
    all.run(lanes(), errors.data());
    std::vector<std::int32_t> best(jobs);
    std::iota(best.begin(), best.end(), 0);
    const auto score = [&](std::int32_t job) {
      return errors[std::size_t(2 * job)] + 0.3f * errors[std::size_t(2 * job + 1)];
    };
    std::stable_sort(best.begin(), best.end(), [&](auto a, auto b) { return score(a) < score(b); });
    Search search(robot, {targets[t]}, jobs, 1, capacity);
    search.run(lanes());
    ASSERT_EQ(search.states[0].hits, 0);
    ASSERT_EQ(search.states[0].near_hits, capacity);
    // Equal up to rounding of the score itself: compare scores, not jobs.
    std::vector<float> scores;
    for (const auto& [job, q] : search.near(0)) scores.push_back(score(job));
    std::sort(scores.begin(), scores.end());
    for (int r = 0; r < capacity; r++)
      ASSERT_NEAR(scores[std::size_t(r)], score(best[std::size_t(r)]), 1e-6f);
  }
}

TEST_P(EveryIsa, AnswersDoNotDependOnTheCrowd) {
  for (const char* name : {"panda", "fetch"}) {
    const Robot robot = Robot::preset(name);
    for (const int need : {1, 4}) {
      constexpr int jobs = 40, capacity = 6;
      const std::vector<Pose> targets = mixed_targets(robot, few(150));
      Search together(robot, targets, jobs, need, capacity);
      together.run(lanes());

      // Alone: all lanes run ahead on one target.
      for (std::size_t t = 0; t < targets.size(); t++) {
        Search alone(robot, {targets[t]}, jobs, need, capacity);
        alone.run(lanes());
        expect_same_answer(alone, 0, together, t, std::string(name) + " alone, target " + std::to_string(t));
        if (HasFatalFailure()) return;
      }
      // In another order, and only some of them.
      Random random(3);
      for (int repeat = 0; repeat < 5; repeat++) {
        Search shuffled(robot, targets, jobs, need, capacity);
        for (std::size_t k = shuffled.order.size(); k > 1; k--) {
          std::swap(shuffled.order[k - 1], shuffled.order[std::size_t(random.below(int(k)))]);
        }
        shuffled.order.resize(std::size_t(1 + random.below(int(targets.size()))));
        shuffled.run(lanes());
        for (const std::int32_t t : shuffled.order) {
          expect_same_answer(shuffled, std::size_t(t), together, std::size_t(t),
                             std::string(name) + " shuffled");
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Worlds in which some of the targets cannot be reached, and many starts end in collision.
struct Cluttered {
  explicit Cluttered(const Robot& robot, std::uint64_t seed = 80) {
    Random random(seed);
    for (const int count : {3, 12, 40}) plain.push_back(random_world(random, count, 0.9, -1.5, -0.5));
    std::vector<World> given;
    for (const PlainWorld& w : plain) given.push_back(w.world());
    set.emplace(robot.chain(), given);
    plain.push_back({});  // the empty one
  }
  std::vector<PlainWorld> plain;
  std::optional<WorldSet> set;
};

TEST_P(EveryIsa, JudgedAnswersDoNotDependOnTheCrowd) {
  for (const char* name : {"panda", "iiwa14", "ur5e"}) {
    const Robot robot = Robot::preset(name);
    const Cluttered worlds(robot);
    for (const int need : {1, 4}) {
      constexpr int jobs = 70, capacity = 6;
      const std::vector<Pose> targets = Solver(robot).sample_targets(few(120), 81);
      Search together(robot, targets, jobs, need, capacity);
      together.judge(*worlds.set, 0.005f, true, robot.dof() > 6);
      together.run(lanes());
      int hits = 0, rejected = 0;
      for (std::size_t t = 0; t < targets.size(); t++) {
        hits += together.states[t].hits > 0;
        rejected += together.states[t].self_rejected + together.states[t].world_rejected > 0;
        Search alone(robot, {targets[t]}, jobs, need, capacity);
        alone.judge(*worlds.set, 0.005f, true, robot.dof() > 6);
        alone.states[0].world = together.states[t].world;
        alone.run(lanes());
        expect_same_answer(alone, 0, together, t, std::string(name) + " alone, target " + std::to_string(t));
        if (HasFatalFailure()) return;
      }
      EXPECT_GT(hits, few(120) / 2);
      EXPECT_GT(rejected, few(120) / 8);
    }
  }
}

// The oracle: all starts run to their ends in open space, judged by plain loops in double. Walks are judged
// by what they must be.
TEST_P(EveryIsa, JudgedSearchFindsWhatIsFree) {
  int walked = 0, told_apart = 0;
  for (const char* name : {"panda", "iiwa14", "ur5e"}) {
    const Robot robot = Robot::preset(name);
    const bool walks = robot.dof() > 6;
    const Cluttered worlds(robot);
    constexpr int starts = 80, capacity = starts + core::kWalks;
    const std::vector<Pose> targets = Solver(robot).sample_targets(few(40), 82);
    Random random(83);
    for (std::size_t t = 0; t < targets.size(); t++) {
      SCOPED_TRACE(std::string(name) + " target " + std::to_string(t));
      Search all(robot, {targets[t]}, starts, 0, capacity);
      std::vector<float> errors(2 * starts);
      all.run(lanes(), errors.data());

      const float margin = t % 3 == 0 ? 0.02f : 0;
      const bool self = t % 4 != 0;
      Search search(robot, {targets[t]}, starts, capacity, capacity);
      search.judge(*worlds.set, margin, self, walks);
      const std::int32_t world = search.states[0].world = std::int32_t(t % worlds.plain.size());
      search.run(lanes());
      const double slack = worlds.set->ranges[std::size_t(world)].slack;
      const auto clearance = [&](const float* q) {
        const std::vector<double> wide(q, q + robot.dof());
        const PlainVerdict v = hjcdik::test::judge(robot, worlds.plain[std::size_t(world)], wide);
        return std::min(self ? v.self : kNoObstacle, v.world - double(margin));
      };
      const auto row_of = [&](int job) {
        for (int r = 0; r < search.states[0].hits; r++) {
          if (search.hit_job[search.row(0, r)] == job) return r;
        }
        return -1;
      };
      std::map<std::pair<int, int>, bool> collides;  // starts that reach the target
      for (int job = 0, start = 0; job < search.task.plan.jobs(); job++) {
        const core::Start s = core::start_of_job(search.task.plan, job);
        const int row = row_of(job);
        if (row >= 0) {
          const float* q = &search.hit_q[search.row(0, row) * search.dof()];
          const double exact = clearance(q);
          ASSERT_GE(exact, -2 * slack) << "job " << job;
          const double known = core::kInterest + slack;
          ASSERT_NEAR(search.hit_clearance[search.row(0, row)], std::min(exact, known), slack)
              << "job " << job;
        }
        if (s.walk) {
          if (row < 0) continue;
          walked++;
          ASSERT_TRUE(collides.at({s.candidate, s.start})) << "a walk begins in collision";
          std::vector<double> q;
          for (std::size_t i = 0; i < search.dof(); i++) {
            q.push_back(search.hit_q[search.row(0, row) * search.dof() + i]);
            ASSERT_GE(q[i], search.chain.constants_f32.joint[i].lower);
            ASSERT_LE(q[i], search.chain.constants_f32.joint[i].upper);
          }
          const Error off = error_between(robot.forward_kinematics(q), targets[t]);
          ASSERT_LT(off.distance, 1.1 * core::kNearEnough * search.task.position_tolerance);
          ASSERT_LT(off.angle, 1.1 * core::kNearEnough * search.task.orientation_tolerance);
          continue;
        }
        const std::size_t e = std::size_t(start++);
        const bool reaches = errors[2 * e] < core::kNearEnough * search.task.position_tolerance &&
                             errors[2 * e + 1] < core::kNearEnough * search.task.orientation_tolerance;
        if (!reaches) {
          ASSERT_LT(row, 0) << "job " << job;
          continue;
        }
        const double exact = clearance(&all.job_q[e * all.dof()]);
        collides[{s.candidate, s.start}] = exact < 2 * slack;
        if (std::abs(exact) < 2 * slack) continue;
        told_apart++;
        ASSERT_EQ(row >= 0, exact > 0) << "job " << job << " with a clearance of " << exact;
      }
    }
  }
  EXPECT_GT(told_apart, few(700));
  EXPECT_GT(walked, few(60));
}

// Of starts that end in collision the shallowest are kept, behind those that are free and off target.
TEST_P(EveryIsa, NearHitsOfAJudgedSearch) {
  const Robot robot = Robot::preset("panda");
  const std::vector<Pose> targets = Solver(robot).sample_targets(few(40), 84);
  for (const Pose& target : targets) {
    PlainWorld world{.spheres = {{target[0], target[1], target[2], 0.15}}};  // about the goal itself
    const WorldSet set(robot.chain(), {world.world()});
    constexpr int jobs = 70, capacity = 5;
    Search search(robot, {target}, jobs, 1, capacity);
    search.judge(set);
    search.run(lanes());
    ASSERT_EQ(search.states[0].hits, 0);
    ASSERT_GT(search.states[0].world_rejected, 0);
    Search more(robot, {target}, jobs, 1, jobs);
    more.judge(set);
    more.run(lanes());
    std::vector<float> kept, all;
    for (int r = 0; r < search.states[0].near_hits; r++) kept.push_back(search.near_score[search.row(0, r)]);
    for (int r = 0; r < more.states[0].near_hits; r++) {
      const std::size_t row = more.row(0, r);
      all.push_back(more.near_score[row]);
      const std::vector<double> q(&more.near_q[row * 7], &more.near_q[row * 7] + 7);
      const PlainVerdict v = hjcdik::test::judge(robot, world, q);
      const Error off = error_between(robot.forward_kinematics(q), target);
      EXPECT_LT(off.distance, 1.001 * core::kAccurateDistance);
      EXPECT_LT(off.angle, 1.001 * core::kAccurateAngle);
      // The scale of kCollides leaves some hundredths of a millimetre.
      ASSERT_NEAR(all.back() - kCollides, -std::min(v.self, v.world), 1e-4);
      ASSERT_FALSE(core::start_of_job(more.task.plan, more.near_job[row]).walk);
    }
    std::sort(kept.begin(), kept.end());
    std::sort(all.begin(), all.end());
    ASSERT_EQ(kept.size(), std::min<std::size_t>(all.size(), capacity));
    ASSERT_TRUE(std::equal(kept.begin(), kept.end(), all.begin()));
  }
}

// Rows judged together: what is called free is, and only what float cannot tell is not.
TEST_P(EveryIsa, RowsAreJudgedTogether) {
  Random random(86);
  std::vector<Robot> robots;
  for (const char* name : {"panda", "iiwa14", "ur5e"}) robots.push_back(Robot::preset(name));
  robots.push_back(Robot::preset("panda", {.check_base = true}));
  for (const int joints : {1, 9, 20}) robots.push_back(random_sphere_robot(random, joints, 9));
  for (const Robot& robot : robots) {
    const bool with_base = robot.collision_links()[0] == "panda_link0";
    Cluttered worlds(robot, 87);
    worlds.plain[0].exact_cylinders = worlds.plain[1].exact_cylinders = true;
    worlds.set.emplace(robot.chain(), std::vector{worlds.plain[0].world(), worlds.plain[1].world(),
                                                  worlds.plain[2].world()});
    for (const int rows : {0, 1, 3, 17, few(200)}) {
      const float margin = rows == 17 ? 0.03f : 0, room = rows == 1 ? 0 : 5e-4f;
      const bool self = rows != 3;
      std::vector<float> q;
      std::vector<std::int32_t> world;
      for (int r = 0; r < rows; r++) {
        const std::vector<double> one = random_configuration(robot, random.engine);
        q.insert(q.end(), one.begin(), one.end());
        world.push_back(random.below(int(worlds.plain.size())));
      }
      const auto free = std::make_unique<bool[]>(std::size_t(rows));
      const model::Chain& chain = robot.chain();
      JudgeTask task{&chain.constants_f32,
                     chain.sphere_tables.f32.table(),
                     worlds.set->table_f32(),
                     margin,
                     room,
                     self,
                     rows,
                     q.data(),
                     world.data(),
                     free.get()};
      lanes().judge(task);
      for (int r = 0; r < rows; r++) {
        const auto w = std::size_t(world[std::size_t(r)]);
        const std::vector<double> one(q.begin() + r * robot.dof(), q.begin() + (r + 1) * robot.dof());
        const PlainVerdict v = hjcdik::test::judge(
            robot, worlds.plain[w], one,
            with_base ? std::vector<std::string>{"panda_link0"} : std::vector<std::string>{});
        const double exact = std::min(self ? v.self : kNoObstacle, v.world - double(margin));
        const double slack = worlds.set->ranges[w].slack;
        if (free[std::size_t(r)]) {
          ASSERT_GT(exact, double(room)) << "row " << r;
        } else {
          ASSERT_LT(exact, double(room) + 4 * slack) << "row " << r;
        }
      }
    }
  }
}

// Where the next function's locals will be.
__attribute__((noinline)) void leave_zeros() {
  volatile char used[512 * 1024];
  for (volatile char& byte : used) byte = 0;
}

// Vectors reach beyond the last sphere: what lies there, the base's spheres or nothing, meets no obstacle.
TEST_P(EveryIsa, LanesBehindTheLastSphereDoNotCount) {
  const auto hits = [&](const Robot& robot, const PlainWorld& world) {
    const std::vector<Pose> targets = Solver(robot).sample_targets(few(100), 85);
    const WorldSet set(robot.chain(), {world.world()});
    Search search(robot, targets, 64, 1, 1);
    search.judge(set);
    for (TargetState& state : search.states) state.world = 0;
    leave_zeros();
    search.run(lanes());
    int count = 0;
    for (const TargetState& state : search.states) count += state.hits;
    return count;
  };
  const PlainWorld floor{.boxes = {{0, 0, -0.24, 1, 0, 0, 0, 2, 2, 0.5}}};
  EXPECT_EQ(hits(Robot::preset("panda", {.check_base = true}), floor), hits(Robot::preset("panda"), floor));
  // Groups that end with a whole vector, and an obstacle where zeros would be.
  std::string spheres;
  for (int k = 0; k < 16; k++) spheres += std::string(k > 0 ? ", " : "") + "[0, 0, 0.3, 0.01]";
  for (const char* first : {"[0, 0, 0.3, 0.01]", "[0, 0, 0.3, 0.01], [0, 0, 0.3, 0.01], [0, 0, 0.3, 0.01]"}) {
    RobotOptions options;
    options.ee_link = "tool0";
    options.spheres = std::string("{\"spheres\": {\"upper_arm_link\": [") + first + "], \"wrist_3_link\": [" +
                      spheres + "]}}";
    const Robot robot = Robot::from_urdf_text(preset_urdf("ur5e"), options);
    EXPECT_EQ(hits(robot, {.spheres = {{0, 0, 0, 0.001}}}), hits(robot, {}));
  }
}

// A search that goes on where the last one stopped finds what one search finds.
TEST_P(EveryIsa, SearchesContinue) {
  const Robot robot = Robot::preset("ur5e");
  constexpr int jobs = 50, capacity = 50;
  const std::vector<Pose> targets = Solver(robot).sample_targets(few(50), 7);
  Search once(robot, targets, jobs, jobs, capacity);
  once.run(lanes());
  Search parts(robot, targets, jobs, 3, capacity);
  std::vector<std::vector<std::int32_t>> found(targets.size());
  while (!parts.order.empty()) {
    parts.run(lanes());
    std::vector<std::int32_t> rest;
    for (const std::int32_t t : parts.order) {
      const auto hits = parts.hits(std::size_t(t));
      found[std::size_t(t)].insert(found[std::size_t(t)].end(), hits.begin(), hits.end());
      if (parts.states[std::size_t(t)].next_job < jobs) rest.push_back(t);
    }
    parts.order = rest;
  }
  for (std::size_t t = 0; t < targets.size(); t++) EXPECT_EQ(found[t], once.hits(t)) << "target " << t;
}

TEST_P(EveryIsa, WarmStartsAreJobsOfTheirOwn) {
  const Robot robot = Robot::preset("ur5e");
  const Solver solver(robot);
  const std::vector<Pose> targets = solver.sample_targets(20, 8);
  const std::vector<double> solutions = solver.sample_configurations(20, 8);
  Search search(robot, targets, 30, 1, 1);
  // Each target's own solution, nudged, is its only warm start.
  for (std::size_t k = 0; k < solutions.size(); k++) {
    const auto& limits = search.chain.constants_f32.joint[k % 6];
    search.warm.push_back(std::clamp(float(solutions[k]) + 0.01f, limits.lower, limits.upper));
  }
  search.task.plan.warm_rows = 1;
  search.task.warm_target_stride = 6;
  search.run(lanes());
  for (std::size_t t = 0; t < targets.size(); t++) {
    ASSERT_EQ(search.hits(t), std::vector<std::int32_t>{0}) << "target " << t;
    for (std::size_t i = 0; i < 6; i++) {
      EXPECT_NEAR(search.hit_rows(t)[i], solutions[6 * t + i], 0.2) << "target " << t;
    }
  }
}

TEST_P(EveryIsa, PolishAndEvaluateRowByRow) {
  Random random(9);
  for (const Robot& robot : sample_robots(8)) {
    const model::Chain& chain = robot.chain();
    const std::size_t dof = std::size_t(robot.dof());
    for (const std::size_t rows : {std::size_t(0), std::size_t(1), std::size_t(3), std::size_t(17)}) {
      std::vector<double> q, given;
      std::vector<std::vector<double>> starts;
      std::vector<const double*> start;
      std::vector<model::Transform> bases;
      for (std::size_t r = 0; r < rows; r++) {
        const std::vector<double> goal = random_configuration(robot, random.engine);
        bases.push_back(model::inverse(PlainChain(robot, goal).tool));
        const core::Frame<double> f = start_frame<double>(robot, bases.back());
        starts.push_back(
            {f.x.x, f.y.x, f.z.x, f.x.y, f.y.y, f.z.y, f.x.z, f.y.z, f.z.z, f.p.x, f.p.y, f.p.z});
        for (std::size_t i = 0; i < dof; i++) {
          const auto& joint = chain.constants.joint[i];
          given.push_back(std::clamp(goal[i] + random.uniform(-1e-5, 1e-5), joint.lower, joint.upper));
        }
      }
      for (const auto& s : starts) start.push_back(s.data());
      const double length = std::max(chain.length, 1e-3);
      const auto polish = [&](std::int32_t count, const double* const* from, double* rows_q) {
        PolishTask task{
            &chain.constants, 0.28 * length, 1e-9 * length * length, 20, 1e-8, count, from, rows_q};
        lanes().polish(task);
      };
      q = given;
      polish(std::int32_t(rows), start.data(), q.data());
      std::vector<double> tool(12 * rows), distance(rows), angle(rows);
      EvaluateTask task{&chain.constants, std::int32_t(rows), start.data(), q.data(),
                        tool.data(),      distance.data(),    angle.data()};
      lanes().evaluate(task);
      for (std::size_t r = 0; r < rows; r++) {
        // The same alone.
        std::vector<double> one(given.begin() + std::ptrdiff_t(r * dof),
                                given.begin() + std::ptrdiff_t((r + 1) * dof));
        polish(1, &start[r], one.data());
        ASSERT_TRUE(same_bits(one, std::vector<double>(q.begin() + std::ptrdiff_t(r * dof),
                                                       q.begin() + std::ptrdiff_t((r + 1) * dof))));
        // Against the plain chain.
        const PlainChain plain(robot, one, bases[r]);
        const double* p = plain.tool.position;
        const double size = std::max(1.0, length);
        ASSERT_NEAR(distance[r], std::sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]), 1e-13 * size);
        for (std::size_t k = 0; k < 9; k++)
          ASSERT_NEAR(tool[12 * r + k], plain.tool.rotation[k], 1e-13 * size);
        for (std::size_t k = 0; k < 3; k++) ASSERT_NEAR(tool[12 * r + 9 + k], p[k], 1e-13 * size);
        ASSERT_LT(distance[r], 1e-6);
        ASSERT_LT(angle[r], 1e-6);
      }
    }
  }
}

// The instruction sets round differently, and may take different starts, but what they solve is the same.
TEST(Isa, AllSolveAndAgree) {
  for (const std::string& name : preset_names()) {
    std::vector<Result> results;
    std::vector<Pose> targets;
    for (const std::string& isa : available_isas()) {
      const Solver solver(Robot::preset(name), {.threads = 1, .isa = isa});
      EXPECT_EQ(solver.isa(), isa);
      targets = solver.sample_targets(few(500), 4);
      results.push_back(solver.solve(TargetView{targets[0].data(), std::int64_t(targets.size())}, open()));
    }
    std::size_t same = 0;
    for (const Result& result : results) {
      for (std::size_t t = 0; t < targets.size(); t++) {
        ASSERT_EQ(result.outcome[t], Outcome::solved) << name << " target " << t;
        double difference = 0;
        for (std::size_t i = 0; i < std::size_t(result.dof); i++) {
          difference = std::max(difference, std::abs(result.q[t * std::size_t(result.dof) + i] -
                                                     results[0].q[t * std::size_t(result.dof) + i]));
        }
        same += difference < 1e-6;
        for (std::size_t k = 0; k < 3; k++)
          EXPECT_NEAR(result.pose[7 * t + k], results[0].pose[7 * t + k], 2e-6);
      }
    }
    if (results[0].dof == 6) {
      // Without redundancy almost all rows are the same; a start may end otherwise after a rounding.
      EXPECT_GT(double(same), 0.95 * double(targets.size() * results.size())) << name;
    }
  }
}

// No flushing of subnormal numbers to zero, neither by linking the library nor by a solve.
TEST(Isa, SubnormalsSurvive) {
  for (const std::string& isa : available_isas()) {
    const Solver solver(Robot::preset("ur5e"), {.isa = isa});
    solver.solve(solver.sample_targets(1)[0], open());
    volatile float small = 1e-39f;
    volatile double smaller = 1e-310;
    EXPECT_GT(small * 0.5f, 0.0f);
    EXPECT_GT(smaller * 0.5, 0.0);
  }
}

TEST(Isa, NamesAndChoice) {
  const std::vector<std::string> names = available_isas();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.size(), available_lanes().size());
#if defined(__x86_64__)
  EXPECT_EQ(names[0], "x86-64");
#endif
  for (std::size_t k = 0; k < names.size(); k++) {
    EXPECT_EQ(cpu::isa_name(cpu::choose_lanes(names[k])), names[k]);
    const int width = available_lanes()[k]->width;
    EXPECT_TRUE(width == 4 || width == 8 || width == 16) << width;
    if (k > 0) {
      EXPECT_GT(width, available_lanes()[k - 1]->width) << "best last";
    }
  }
  const char* old = std::getenv("HJCDIK_ISA");
  const std::string kept = old != nullptr ? old : "";
  setenv("HJCDIK_ISA", names[0].c_str(), 1);
  EXPECT_EQ(Solver(Robot::preset("ur5e")).isa(), names[0]);
  EXPECT_EQ(Solver(Robot::preset("ur5e"), {.isa = names.back()}).isa(), names.back());
  setenv("HJCDIK_ISA", "mmx", 1);
  try {
    cpu::choose_lanes("");
    ADD_FAILURE();
  } catch (const InvalidArgument& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("'mmx' (HJCDIK_ISA)"), std::string::npos) << text;
    for (const std::string& name : names) EXPECT_NE(text.find(name), std::string::npos) << text;
  }
  old != nullptr ? setenv("HJCDIK_ISA", kept.c_str(), 1) : unsetenv("HJCDIK_ISA");
  EXPECT_THROW(Solver(Robot::preset("ur5e"), {.isa = "sse9"}), InvalidArgument);
}

}  // namespace
}  // namespace hjcdik
