#include "solver/seed_table.hpp"

#include "core/kinematics.h"

namespace hjcdik {

SeedTable::SeedTable(const model::Chain& chain, std::uint32_t seed_value) : seed(seed_value) {
  const auto& c = chain.constants_f32;
  q.resize(std::size_t(core::kSeedTable * c.dof));
  for (int m = 0; m < core::kSeedTable; m++) {
    float* row = &q[std::size_t(m * c.dof)];
    const core::u32 stream = core::start_stream(seed, core::u32(m), core::kSeedTableStart);
    for (int i = 0; i < c.dof; i++) row[i] = core::start_value(c.joint[i], stream, core::kSeedTableSpread, i);
    const core::Frame<float> origin = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 0}};
    const core::Frame<float> f = core::forward_kinematics(c, row, origin);
    // The rotation as its transpose, row by row: what the trace of a product wants.
    const float values[12] = {f.p.x, f.p.y, f.p.z, f.x.x, f.x.y, f.x.z,
                              f.y.x, f.y.y, f.y.z, f.z.x, f.z.y, f.z.z};
    for (int k = 0; k < 12; k++) pose[k][m] = values[k];
  }
}

}  // namespace hjcdik
