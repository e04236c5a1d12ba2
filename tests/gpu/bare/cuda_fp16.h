// half, rounded to nearest even, with subnormals.
#pragma once

struct half { unsigned short bits; };

inline float __half2float(half value) {
    const unsigned int sign = (value.bits & 0x8000u) << 16, rest = value.bits & 0x7fffu;
    if (rest >= 0x7c00) return __uint_as_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    const float magnitude = __uint_as_float(rest << 13) * 0x1p112f;  // moves the exponent, subnormals included
    return __uint_as_float(sign | __float_as_uint(magnitude));
}
inline half __float2half_rn(float value) {
    const unsigned int bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    unsigned int result;
    if (rest > 0x7f800000u) {
        result = 0x7fff;
    } else if (rest >= 0x47800000u) {  // 2^16
        result = 0x7c00;
    } else if (rest < 0x38800000u) {  // 2^-14: an addition rounds to the spacing of subnormals
        result = __float_as_uint(__uint_as_float(rest) + 0.5f) - 0x3f000000u;
    } else {
        result = (rest - 0x38000000u + 0xfff + (rest >> 13 & 1)) >> 13;
    }
    return {static_cast<unsigned short>(sign | result)};
}
