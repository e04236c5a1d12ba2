// Stands in for CUDA's cuda_bf16.h: bfloat16, rounded to nearest even, arithmetic as one correctly rounded operation.
#pragma once
#include "cuda_fp16.h"

namespace emulator {

inline float bfloat16_to_float(unsigned short bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }

inline unsigned short float_to_bfloat16(float value) {
  const unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

inline unsigned short double_to_bfloat16(double value) { return float_to_bfloat16(round_to_odd(value)); }

}  // namespace emulator

struct __nv_bfloat16 {
  unsigned short bits;
  __nv_bfloat16() = default;
  __nv_bfloat16(float value) : bits(emulator::float_to_bfloat16(value)) {}
  __nv_bfloat16(double value) : bits(emulator::double_to_bfloat16(value)) {}
  __nv_bfloat16(int value) : bits(emulator::double_to_bfloat16(value)) {}
  operator float() const { return emulator::bfloat16_to_float(bits); }
};
using nv_bfloat16 = __nv_bfloat16;
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
using nv_bfloat162 = __nv_bfloat162;

inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat16 __float2bfloat16(float value) { return value; }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return value; }
inline __nv_bfloat16 __double2bfloat16(double value) { return value; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline short __bfloat16_as_short(__nv_bfloat16 value) { return static_cast<short>(value.bits); }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 value;
  value.bits = bits;
  return value;
}
inline __nv_bfloat16 __short_as_bfloat16(short bits) { return __ushort_as_bfloat16(static_cast<unsigned short>(bits)); }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 value) { return {value.x, value.y}; }
inline __nv_bfloat162 __float2bfloat162_rn(float value) { return {value, value}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 value) { return {value, value}; }
inline float2 __bfloat1622float2(__nv_bfloat162 value) { return {value.x, value.y}; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 value) { return value.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 value) { return value.y; }
inline float __low2float(__nv_bfloat162 value) { return value.x; }
inline float __high2float(__nv_bfloat162 value) { return value.y; }
inline __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return static_cast<float>(a) + static_cast<float>(b); }
inline __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) { return static_cast<float>(a) - static_cast<float>(b); }
inline __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return static_cast<float>(a) * static_cast<float>(b); }
inline __nv_bfloat16 __hneg(__nv_bfloat16 a) { return __ushort_as_bfloat16(static_cast<unsigned short>(a.bits ^ 0x8000u)); }
