// Many configurations judged at once, one a lane: of a Pack, or a thread's of a warp that stays together.
// Where most are free this is a fraction of the price of judging one at a time (collision.h), but what it
// finds is only which are free for sure.
#pragma once

#include "core/collision.h"

namespace hjcdik::HJCDIK_CORE {

// Any: whether a mask holds in any lane.
template <class Real, int Capacity, int Joints, class Any>
class RowJudge {
 public:
  using Mask = decltype(Real() < Real());

  HJCDIK_FN RowJudge(const SphereTable<float>& robot, const WorldTable<float>& worlds, float margin,
                     float room, bool self, Any any)
      : robot_(robot), worlds_(worlds), margin_(margin), least_room_(room), self_(self), any_(any) {}

  template <int N = 0, class Chain>
  HJCDIK_FN void place(const Chain& chain, const Real* q) {
    carrying_frames<N>(chain, q, frames_);
    for (int i = 0; i < robot_.spheres; i++) {
      place_[i] = transform(frames_[robot_.joint[i] + 1],
                            Vec3<Real>{Real(robot_.x[i]), Real(robot_.y[i]), Real(robot_.z[i])});
    }
  }

  // Of `rows`, which are in this world, those that are free by more than the room and what float32 may be
  // off.
  HJCDIK_FN Mask free_rows(int world, Mask rows) {
    free_ = rows;
    room_ = least_room_ + 2 * worlds_.worlds[world].slack;
    if (self_) judge_self();
    judge_world(world);
    return free_;
  }

 private:
  HJCDIK_FN void judge_self() {
    for (int k = 0; k < robot_.pairs; k++) {
      const SphereGroup &a = robot_.group[robot_.pair[k][0]], &b = robot_.group[robot_.pair[k][1]];
      const Vec3<Real> at_b = bound(b);
      if (!any_(near(bound(a) - at_b, a.radius + b.radius))) continue;
      for (int i = a.begin; i < a.end; i++) {
        if (!any_(near(place_[i] - at_b, robot_.radius[i] + b.radius))) continue;
        for (int j = b.begin; j < b.end; j++)
          free_ = free_ & !near(place_[i] - place_[j], robot_.radius[i] + robot_.radius[j]);
      }
    }
  }

  HJCDIK_FN void judge_world(int world) {
    const WorldRange range = worlds_.worlds[world];
    for (int i = 0; i < robot_.world_spheres; i++) {
      const Vec3<Real> p = place_[i];
      const float reach = robot_.radius[i] + margin_;
      for (int n = range.begin; n < range.end;) {
        const BoundingNode& node = worlds_.nodes[n];
        if (!any_(near(p - vector_of<Real>(node.center), node.radius + reach))) {
          n = node.skip;
          continue;
        }
        n++;
        for (int o = node.begin; o < node.end; o++) {
          const Real distance = node.shape == core::kBoxes      ? distance_to(worlds_.boxes[o], p).value
                                : node.shape == core::kCapsules ? distance_to(worlds_.capsules[o], p).value
                                                                : distance_to(worlds_.cylinders[o], p).value;
          free_ = free_ & !(distance < Real(reach + room_));
        }
      }
    }
  }

  // Of the lanes that are free so far those that are nearer than `reach` or may be.
  HJCDIK_FN Mask near(const Vec3<Real>& d, float reach) const {
    const float within = max(reach + room_, 0.0f);
    return (dot(d, d) < Real(within * within)) & free_;
  }
  HJCDIK_FN Vec3<Real> bound(const SphereGroup& g) const {
    return transform(frames_[g.joint + 1], vector_of<Real>(g.center));
  }

  const SphereTable<float>& robot_;
  const WorldTable<float>& worlds_;
  float margin_, least_room_, room_ = 0;
  bool self_;
  Any any_;
  Mask free_;
  Frame<Real> frames_[Joints + 1];
  Vec3<Real> place_[Capacity];
};

}  // namespace hjcdik::HJCDIK_CORE
