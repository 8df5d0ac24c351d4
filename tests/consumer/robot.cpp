// All that a program needs for hjcd_kernel.h to be about this robot.
#include "robot.cuh"
