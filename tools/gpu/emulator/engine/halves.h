// float16 and bfloat16 as bits, and in float32: conversions round to nearest, ties to even.
#pragma once

#include <cstdint>
#include <cstring>

namespace emulator {

inline float of_bits(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}
inline uint32_t bits_of(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return bits;
}

constexpr auto bfloat16_to_float = [](uint16_t x) { return of_bits(uint32_t{x} << 16); };

constexpr auto float_to_bfloat16 = [](float x) -> uint16_t {
    const uint32_t bits = bits_of(x);
    if (x != x) return 0x7fff;
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
};

constexpr auto half_to_float = [](uint16_t x) {
    _Float16 value;
    std::memcpy(&value, &x, 2);
    return static_cast<float>(value);
};

constexpr auto float_to_half = [](float x) -> uint16_t {
    if (x != x) return 0x7fff;
    const _Float16 value = static_cast<_Float16>(x);
    uint16_t bits;
    std::memcpy(&bits, &value, 2);
    return bits;
};

}  // namespace emulator
