// How far a chain reaches.
#pragma once

#include "model/chain.hpp"

namespace hjcdik::model {

// Fills reach and length from joints and tool.
void set_reach(Chain& chain);

}  // namespace hjcdik::model
