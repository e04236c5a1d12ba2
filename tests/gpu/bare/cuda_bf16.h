// bfloat16: the high half of a float, rounded to nearest even.
#pragma once

struct __nv_bfloat16 { unsigned short bits; };

inline float __bfloat162float(__nv_bfloat16 value) { return __uint_as_float(static_cast<unsigned int>(value.bits) << 16); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
    if (value != value) return {0x7fff};
    const unsigned int bits = __float_as_uint(value);
    return {static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
