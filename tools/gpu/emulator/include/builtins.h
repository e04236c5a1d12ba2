// CUDA's vocabulary for g++: qualifiers, indices, vector types, arithmetic intrinsics.
#pragma once
#include <algorithm>
#include <cmath>

#include "machine.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __shared__ thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __CUDA_ARCH__ 900

#define threadIdx (emulator::current->index)
#define blockIdx (emulator::current->block->index)
#define blockDim (emulator::block_size)
#define gridDim (emulator::grid_size)
constexpr int warpSize = 32;

#define EMULATOR_VECTORS(T, name)                                                       \
  struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                    \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { T x, y, z, w; };    \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                            \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATOR_VECTORS(float, float)
EMULATOR_VECTORS(int, int)
EMULATOR_VECTORS(unsigned, uint)
EMULATOR_VECTORS(short, short)
EMULATOR_VECTORS(unsigned short, ushort)
EMULATOR_VECTORS(double, double)
EMULATOR_VECTORS(long long, longlong)
EMULATOR_VECTORS(unsigned long long, ulonglong)
#undef EMULATOR_VECTORS

using std::max;
using std::min;
inline int min(int a, unsigned b) = delete;  // CUDA has overloads for mixed types that differ from C++'s

inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline float __int_as_float(int bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
inline int __float_as_int(float x) {
  int bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}
inline float __uint_as_float(unsigned bits) { return __int_as_float(static_cast<int>(bits)); }
inline unsigned __float_as_uint(float x) { return static_cast<unsigned>(__float_as_int(x)); }
inline double __longlong_as_double(long long bits) {
  double x;
  __builtin_memcpy(&x, &bits, 8);
  return x;
}
inline long long __double_as_longlong(double x) {
  long long bits;
  __builtin_memcpy(&bits, &x, 8);
  return bits;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = (static_cast<uint64_t>(b) << 32) | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned choice = (selector >> (4 * i)) & 0xf;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (choice & 7))) & 0xff;
    if (choice & 8) byte = (byte & 0x80) ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
