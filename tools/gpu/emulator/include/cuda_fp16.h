// Stands in for CUDA's cuda_fp16.h: half precision, rounded to nearest even, arithmetic as one correctly rounded operation.
#pragma once
#include <cstring>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "warp.h"

namespace emulator {

inline float half_to_float(unsigned short bits) {
#if defined(__F16C__)
  return _cvtsh_ss(bits);
#else
  const unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
  if (exponent) return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
#endif
}

inline unsigned short float_to_half(float value) {
  const unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
#if defined(__F16C__)
  return static_cast<unsigned short>(sign | (_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT) & 0x7fffu));
#else
  if (magnitude >= 0x477ff000u) return static_cast<unsigned short>(sign | 0x7c00u);
  unsigned shift = 13, significand = magnitude;
  unsigned base = 112u << 23;
  if (magnitude < 0x38800000u) {  // below the normal numbers
    if (magnitude < 0x33000000u) return static_cast<unsigned short>(sign);
    significand = (magnitude & 0x7fffffu) | 0x800000u;
    shift = 126 - (magnitude >> 23);
    base = 0;
  }
  const unsigned kept = (significand - base) >> shift, rest = (significand - base) & ((1u << shift) - 1), tie = 1u << (shift - 1);
  return static_cast<unsigned short>(sign | (kept + (rest > tie || (rest == tie && (kept & 1)))));
#endif
}

// Rounds to single precision and to odd: then a second rounding to a narrower type is as good as one.
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(nearest) || (__float_as_uint(nearest) & 1)) return nearest;
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  return __uint_as_float(__float_as_uint(nearest) + (away ? -1u : 1u));
}

inline unsigned short double_to_half(double value) { return float_to_half(round_to_odd(value)); }

}  // namespace emulator

struct __half {
  unsigned short bits;
  __half() = default;
  __half(float value) : bits(emulator::float_to_half(value)) {}
  __half(double value) : bits(emulator::double_to_half(value)) {}
  __half(int value) : bits(emulator::double_to_half(value)) {}
  operator float() const { return emulator::half_to_float(bits); }
};
using half = __half;
struct alignas(4) __half2 {
  __half x, y;
};
using half2 = __half2;

inline float __half2float(__half value) { return value; }
inline __half __float2half(float value) { return value; }
inline __half __float2half_rn(float value) { return value; }
inline __half __double2half(double value) { return value; }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline short __half_as_short(__half value) { return static_cast<short>(value.bits); }
inline __half __ushort_as_half(unsigned short bits) {
  __half value;
  value.bits = bits;
  return value;
}
inline __half __short_as_half(short bits) { return __ushort_as_half(static_cast<unsigned short>(bits)); }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline __half2 __float22half2_rn(float2 value) { return {value.x, value.y}; }
inline __half2 __float2half2_rn(float value) { return {value, value}; }
inline __half2 __half2half2(__half value) { return {value, value}; }
inline float2 __half22float2(__half2 value) { return {value.x, value.y}; }
inline __half __low2half(__half2 value) { return value.x; }
inline __half __high2half(__half2 value) { return value.y; }
inline float __low2float(__half2 value) { return value.x; }
inline float __high2float(__half2 value) { return value.y; }
inline __half __hadd(__half a, __half b) { return static_cast<float>(a) + static_cast<float>(b); }
inline __half __hsub(__half a, __half b) { return static_cast<float>(a) - static_cast<float>(b); }
inline __half __hmul(__half a, __half b) { return static_cast<float>(a) * static_cast<float>(b); }
inline __half __hneg(__half a) { return __ushort_as_half(static_cast<unsigned short>(a.bits ^ 0x8000u)); }
