// Everything: inverse kinematics at the speed of the hardware.
#pragma once

#include <hjcdik/error.hpp>
#include <hjcdik/result.hpp>
#include <hjcdik/robot.hpp>
#include <hjcdik/solver.hpp>
#include <hjcdik/world.hpp>
