// What the numerics need from the compiler. This folder includes nothing but itself: the same
// text is compiled for CPU lanes, once per instruction set, and by NVRTC for GPU threads.
#pragma once

// The lane objects set HJCDIK_CORE to a name of their own, so that no function compiled for one
// instruction set can be linked into the code of another. Plain data (chain.h) is core's for all.
#ifndef HJCDIK_CORE
#define HJCDIK_CORE core
#else
#define HJCDIK_CORE_IS_PRIVATE
#endif

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define HJCDIK_FN __host__ __device__ __forceinline__
#if defined(__CUDA_ARCH__)
#define HJCDIK_UNROLL _Pragma("unroll")
#else
#define HJCDIK_UNROLL
#endif
#define HJCDIK_CONSTANT static __constant__
#define HJCDIK_TABLE static __device__ const
#else
#define HJCDIK_FN inline __attribute__((always_inline))
#define HJCDIK_UNROLL
#define HJCDIK_CONSTANT static
#define HJCDIK_TABLE static const
#endif

namespace hjcdik::HJCDIK_CORE {

using u32 = unsigned int;
using u64 = unsigned long long;
static_assert(sizeof(u32) == 4 && sizeof(u64) == 8);

}  // namespace hjcdik::HJCDIK_CORE
