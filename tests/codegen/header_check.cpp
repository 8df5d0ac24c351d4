// Generated headers by themselves, without the library: g++, clang and nvcc compile this file, and what it
// computes on the host, and on a GPU where nvcc compiled it and there is one, must be as expected.h says.
#include "expected.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define BOTH __host__ __device__
#else
#define BOTH
#endif

namespace {

struct Obstacles {
  double boxes[12][10], capsules[12][7], cylinders[12][9], spheres[12][4];
  int counts[4];
};

// What a header says of one configuration.
template <class S>
struct Answer {
  S frames[32 * 12], pose[7], jacobian[6 * 32], clearance[2];
  bool free, clear_of_world;
};

int failures = 0;

void expect(bool good, const char* robot, const char* what, double by = 0) {
  if (good) return;
  failures++;
  std::printf("%s: %s is off by %g\n", robot, what, by);
}

template <int columns, class S>
BOTH void narrowed(const double (&from)[12][columns], S (&to)[12 * columns]) {
  for (int i = 0; i < 12 * columns; i++) to[i] = S(from[i / columns][i % columns]);
}

#define KINEMATICS(robot, S)                    \
  S q[robot::num_joints];                       \
  for (int i = 0; i < robot::num_joints; i++) { \
    q[i] = S(q_f64[i]);                         \
  }                                             \
  robot::joint_frames(q, out.frames);           \
  robot::tool_pose(q, out.pose);                \
  robot::jacobian(q, out.jacobian);

#define OPEN(robot)                                                                  \
  struct Of_##robot {                                                                \
    template <class S>                                                               \
    BOTH static void answer(const double* q_f64, const Obstacles&, Answer<S>& out) { \
      KINEMATICS(robot, S)                                                           \
      out.clearance[0] = out.clearance[1] = S(1e15);                                 \
      out.free = out.clear_of_world = true;                                          \
    }                                                                                \
  };
#define SPHERES(robot)                                                                 \
  struct Of_##robot {                                                                  \
    template <class S>                                                                 \
    BOTH static void answer(const double* q_f64, const Obstacles& o, Answer<S>& out) { \
      KINEMATICS(robot, S)                                                             \
      S boxes[120], capsules[84], cylinders[108], spheres[48];                         \
      narrowed(o.boxes, boxes), narrowed(o.capsules, capsules);                        \
      narrowed(o.cylinders, cylinders), narrowed(o.spheres, spheres);                  \
      const robot::World<S> world{boxes,     o.counts[0], capsules, o.counts[1],       \
                                  cylinders, o.counts[2], spheres,  o.counts[3]};      \
      const robot::Clearance<S> clearance = robot::clearance(q, world);                \
      out.clearance[0] = clearance.self, out.clearance[1] = clearance.world;           \
      out.free = robot::config_free(q, world);                                         \
      out.clear_of_world = robot::config_free(q, world, 0.02, false);                  \
    }                                                                                  \
  };
ROBOTS
#undef OPEN
#undef SPHERES

template <int columns>
void fill(double (&to)[12][columns], const double (*from)[10], int count) {
  std::memset(to, 0, sizeof to);
  for (int i = 0; i < count; i++) std::memcpy(to[i], from[i], sizeof to[i]);
}

template <class S>
void compare(const char* robot, const Answer<S>& got, const Case& want, int joints, double tolerance,
             bool& near) {
  const auto array = [&](const S* a, const double* b, int count, double scale, const char* what) {
    double worst = 0;
    for (int i = 0; i < count; i++) {
      const double difference = std::abs(double(a[i]) - b[i]);
      worst = difference >= 0 ? std::fmax(worst, difference) : HUGE_VAL;
    }
    expect(worst <= scale * tolerance, robot, what, worst);
  };
  array(got.frames, want.frames, 12 * joints, 1, "joint_frames");
  array(got.pose, want.pose, 3, 1, "position of tool_pose");
  double dot = 0, norm = 0;
  for (int k = 3; k < 7; k++)
    dot += double(got.pose[k]) * want.pose[k], norm += std::pow(double(got.pose[k]), 2);
  expect(std::abs(norm - 1) <= tolerance && got.pose[3] >= 0, robot, "norm of tool_pose", norm - 1);
  double angle = 0;
  for (int k = 3; k < 7; k++) angle += std::pow(double(got.pose[k]) - (dot < 0 ? -1 : 1) * want.pose[k], 2);
  expect(std::sqrt(angle) <= tolerance, robot, "quaternion of tool_pose", std::sqrt(angle));
  array(got.jacobian, want.jacobian, 6 * joints, 1, "jacobian");
  for (int k = 0; k < 2; k++) {
    if (want.clearance[k] > 1e14) {
      expect(got.clearance[k] > S(1e14), robot, "clearance without anything to compare",
             double(got.clearance[k]));
    } else {
      array(got.clearance + k, want.clearance + k, 1, 1, k == 0 ? "self clearance" : "world clearance");
    }
  }
  // Where a clearance is nearly 0 rounding may decide.
  near = false;
  for (const double gap : {want.clearance[0], want.clearance[1], want.clearance[1] - 0.02})
    near = near || std::abs(gap) <= tolerance;
  expect(near || got.free == want.free, robot, "config_free");
  expect(near || got.clear_of_world == want.clear_of_world, robot, "config_free with a margin");
}

#ifdef __CUDACC__
template <class Of, class S>
__global__ void on_gpu(const Case* cases, const Obstacles* obstacles, Answer<S>* answers) {
  Of::answer(cases[blockIdx.x].q, *obstacles, answers[blockIdx.x]);
}

template <class S>
S* copied(const S* from, int count) {
  S* to = nullptr;
  cudaMalloc(&to, count * sizeof(S));
  if (from != nullptr) cudaMemcpy(to, from, count * sizeof(S), cudaMemcpyHostToDevice);
  return to;
}

template <class Of, class S>
void check_gpu(const char* robot, const Case* cases, int count, const Obstacles& obstacles, int joints,
               double tolerance) {
  const Case* cases_there = copied(cases, count);
  const Obstacles* obstacles_there = copied(&obstacles, 1);
  Answer<S>* there = copied<Answer<S>>(nullptr, count);
  on_gpu<Of><<<count, 1>>>(cases_there, obstacles_there, there);
  Answer<S>* answers = new Answer<S>[count];
  const cudaError_t error = cudaMemcpy(answers, there, count * sizeof(Answer<S>), cudaMemcpyDeviceToHost);
  expect(error == cudaSuccess, cudaGetErrorString(error), "the GPU", 0);
  bool near = false;
  for (int i = 0; i < count && error == cudaSuccess; i++)
    compare(robot, answers[i], cases[i], joints, tolerance, near);
  delete[] answers;
}
#endif

template <class Of>
void check(const char* robot, const Case* cases, int count, const Obstacles& obstacles, int joints,
           bool gpu) {
  int decided = 0;
  for (int i = 0; i < count; i++) {
    bool near = false;
    Answer<double> wide;
    Of::answer(cases[i].q, obstacles, wide);
    compare(robot, wide, cases[i], joints, 1e-12, near);
    decided += !near;
    Answer<float> narrow;
    Of::answer(cases[i].q, obstacles, narrow);
    compare(robot, narrow, cases[i], joints, 2e-6 * (4 + joints), near);
  }
  expect(decided == count, robot, "every case tells free from not", count - decided);
  (void)gpu;
#ifdef __CUDACC__
  if (gpu) {
    check_gpu<Of, double>(robot, cases, count, obstacles, joints, 1e-12);
    check_gpu<Of, float>(robot, cases, count, obstacles, joints, 1e-5 * (4 + joints));
  }
#endif
}

// Constants and names, of which the panda's are known.
void check_panda() {
  const auto expect_text = [](const char* got, const char* want) {
    expect(std::strcmp(got, want) == 0, "panda", want);
  };
  static_assert(panda::num_joints == 7 && panda::num_spheres == 58 && panda::num_base_links == 0, "");
  expect_text(panda::robot_name(), "panda");
  expect_text(panda::base_link(), "panda_link0");
  expect_text(panda::tool_link(), "panda_grasptarget");
  expect_text(panda::tool_frame(), "panda_grasptarget_hand");
  expect_text(panda::joint_name(0), "panda_joint1");
  expect_text(panda::joint_name(6), "panda_joint7");
  expect_text(panda::joint_type(3), "revolute");
  expect_text(panda::joint_name(7), "");
  expect(panda::lower_limit<double>(0) == -2.8973 && panda::upper_limit<double>(0) == 2.8973, "panda",
         "limits");
  for (int i = 0; i < 7; i++) {
    expect(double(panda::lower_limit<float>(i)) >= panda::lower_limit<double>(i), "panda", "limits in float");
    expect(double(panda::upper_limit<float>(i)) <= panda::upper_limit<double>(i), "panda", "limits in float");
    expect(!panda::is_prismatic(i), "panda", "is_prismatic");
  }
  for (int i = 0; i < panda::num_spheres; i++) {
    expect(panda::sphere_link(i) >= (i > 0 ? panda::sphere_link(i - 1) : 0) &&
               panda::sphere_link(i) < panda::num_links,
           "panda", "sphere_link");
  }
  expect_text(panda::link_name(panda::sphere_link(0)), "panda_link1");
  for (int k = 0; k < panda::num_self_pairs; k++) {
    int a = -1, b = -1;
    panda::self_pair(k, &a, &b);
    expect(a >= 0 && b >= 0 && a != b && a < panda::num_links && b < panda::num_links, "panda", "self_pair");
  }
  float q[7] = {0, 0, 0, -2, 0, 2, 0}, spheres[4 * panda::num_spheres];
  panda::spheres(q, spheres);
  for (int i = 0; i < panda::num_spheres; i++) {
    expect(std::hypot(spheres[4 * i], spheres[4 * i + 1]) < 1 && spheres[4 * i + 3] > 0.005f, "panda",
           "spheres");
  }
  expect(panda::config_free(q) && panda::config_free(q, {}, 0.1), "panda", "config_free without a world");

  // The documented functions may be passed on.
  double (*const limit)(int) = panda::lower_limit<double>;
  void (*const pose_of)(const float*, float*) = panda::tool_pose<float>;
  float pose[7];
  pose_of(q, pose);
  expect(limit(1) == -1.7628 && pose[2] > 0.1f, "panda", "a function by its pointer");
}

// What is not finite is not free.
template <class S>
void check_nothing_is_free_of_nan() {
  const S nan = std::numeric_limits<S>::quiet_NaN(), far = S(9);
  for (const S bad : {nan, std::numeric_limits<S>::infinity()}) {
    for (int i = 0; i < panda::num_joints; i++) {
      S q[7] = {0, 0, 0, -2, 0, 2, 0};
      q[i] = bad;
      expect(!panda::config_free(q), "panda", "config_free of a joint that is not finite");
      expect(!(panda::clearance(q).self > 0), "panda", "clearance of a joint that is not finite");
    }
  }
  const S q[7] = {0, 0, 0, -2, 0, 2, 0};
  const S box[10] = {far, 0, 0, 1, 0, 0, 0, 1, 1, 1}, capsule[7] = {far, 0, 0, far, 0, 1, 1},
          cylinder[9] = {far, 0, 0, 1, 0, 0, 0, 1, 1}, sphere[4] = {far, 0, 0, 1};
  for (int i = -1; i < 10; i++) {
    S boxes[10], capsules[7], cylinders[9], spheres[4];
    for (int k = 0; k < 10; k++) boxes[k] = k == i ? nan : box[k];
    for (int k = 0; k < 7; k++) capsules[k] = k == i ? nan : capsule[k];
    for (int k = 0; k < 9; k++) cylinders[k] = k == i ? nan : cylinder[k];
    for (int k = 0; k < 4; k++) spheres[k] = k == i ? nan : sphere[k];
    panda::World<S> worlds[4];
    worlds[0].boxes = boxes, worlds[0].num_boxes = 1;
    worlds[1].capsules = capsules, worlds[1].num_capsules = 1;
    worlds[2].cylinders = cylinders, worlds[2].num_cylinders = 1;
    worlds[3].spheres = spheres, worlds[3].num_spheres = 1;
    const int columns[4] = {10, 7, 9, 4};
    for (int k = 0; k < 4; k++) {
      if (i >= columns[k]) continue;
      expect(panda::config_free(q, worlds[k]) == (i < 0), "panda", "config_free of an obstacle that is none");
      expect((panda::clearance(q, worlds[k]).world > 0) == (i < 0), "panda", "clearance of the same");
    }
  }
  const S far_ends[7] = {0, 0, -std::numeric_limits<S>::max() / 2, 0, 0, std::numeric_limits<S>::max() / 2,
                         1};
  panda::World<S> endless;
  endless.capsules = far_ends, endless.num_capsules = 1;
  expect(!panda::config_free(q, endless), "panda", "config_free of a length that overflows");
  const S without_turn[10] = {far, 0, 0, 0, 0, 0, 0, 1, 1, 1};
  panda::World<S> world;
  world.boxes = without_turn, world.num_boxes = 1;
  expect(!panda::config_free(q, world), "panda", "config_free of a zero quaternion");
}

}  // namespace

int main() {
  check_panda();
  check_nothing_is_free_of_nan<double>();
  check_nothing_is_free_of_nan<float>();
  bool gpu = false;
#ifdef __CUDACC__
  int gpus = 0;
  gpu = cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0;
#endif
  Obstacles obstacles;
#define OPEN(robot)                                                                                        \
  fill(obstacles.boxes, expected_##robot::boxes, obstacles.counts[0] = expected_##robot::num_boxes);       \
  fill(obstacles.capsules, expected_##robot::capsules,                                                     \
       obstacles.counts[1] = expected_##robot::num_capsules);                                              \
  fill(obstacles.cylinders, expected_##robot::cylinders,                                                   \
       obstacles.counts[2] = expected_##robot::num_cylinders);                                             \
  fill(obstacles.spheres, expected_##robot::spheres, obstacles.counts[3] = expected_##robot::num_spheres); \
  check<Of_##robot>(#robot, expected_##robot::cases, int(sizeof expected_##robot::cases / sizeof(Case)),   \
                    obstacles, robot::num_joints, gpu);
#define SPHERES(robot) OPEN(robot)
  ROBOTS
  std::printf("%d failures%s\n", failures, gpu ? "; a GPU took part" : "");
  return failures == 0 ? 0 : 1;
}
