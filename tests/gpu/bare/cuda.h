// CUDA on the CPU, bare: threads are fibers that take turns, thread blocks run one after another, nothing is checked.
//
// All that doesn't depend on the kernel is compiled once, in fibers.cpp. Every kernel is compiled with this header, so
// it takes nothing of the library of C++: what is declared here of C's took as long to read there as most kernels.
#pragma once
#include <stdint.h>
#include <string.h>

extern "C" {
float fabsf(float) noexcept;
float fmaf(float, float, float) noexcept;
double fabs(double) noexcept;
double fma(double, double, double) noexcept;
double fmax(double, double) noexcept;
}

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __CUDA_ARCH__ 900

template <class T>
T max(T a, T b) {
    return a < b ? b : a;
}
template <class T>
T min(T a, T b) {
    return b < a ? b : a;
}

struct uint3 { unsigned int x, y, z; };
struct float2 { float x, y; };
struct alignas(16) double2 { double x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline float __uint_as_float(unsigned int bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
inline unsigned int __float_as_uint(float value) {
    unsigned int bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

extern uint3 threadIdx, blockIdx;

namespace bare {

// Threads that wait for each other: a warp or a thread block. A thread that has returned is waited for no more.
struct Meeting {
    int members = 0, arrived = 0;
    unsigned int round = 0, lanes = 0;  // bits of those of a warp that are still there
    uint64_t values[32];
};

extern long long misaligned;  // accesses that a GPU refuses
void pass_turn();
void meet(Meeting& meeting);
Meeting& warp();
Meeting& block();
long long launch(void (*kernel)(void**), void** values, int threads, long long grid);

// Show a value to the warp, and take what `choose` makes of everyone's.
template <class T, class Choose>
auto exchange(T value, Choose choose) {
    Meeting& meeting = warp();
    memcpy(&meeting.values[threadIdx.x % 32], &value, sizeof value);
    meet(meeting);
    const auto result = choose(meeting.values);
    meet(meeting);
    return result;
}

// What a lane has that isn't there is undefined on a GPU. Here all its bits are set: NaN, in every number type.
template <class T>
T shuffle(T value, int source) {
    return exchange(value, [source](const uint64_t* values) {
        T other;
        memset(&other, 255, sizeof other);
        if (warp().lanes >> source & 1) memcpy(&other, &values[source], sizeof other);
        return other;
    });
}

}  // namespace bare

inline void __syncwarp() { bare::meet(bare::warp()); }
inline void __syncthreads() { bare::meet(bare::block()); }
inline void block_barrier() { __syncthreads(); }
template <class T>
T __shfl_sync(unsigned int, T value, int source) {
    return bare::shuffle(value, source);
}
template <class T>
T __shfl_down_sync(unsigned int, T value, int delta) {
    const int lane = threadIdx.x % 32;
    return bare::shuffle(value, lane + delta < 32 ? lane + delta : lane);
}
inline bool __any_sync(unsigned int, bool mine) {
    return bare::exchange(uint64_t{mine}, [](const uint64_t* values) {
        uint64_t any = 0;
        for (int lane = 0; lane < 32; ++lane) any |= values[lane];
        return any != 0;
    });
}
inline unsigned int __ballot_sync(unsigned int, bool mine) {
    return bare::exchange(uint64_t{mine}, [](const uint64_t* values) {
        unsigned int votes = 0;
        for (int lane = 0; lane < 32; ++lane) votes |= static_cast<unsigned int>(values[lane]) << lane;
        return votes;
    });
}
inline int __ffs(unsigned int bits) { return __builtin_ffs(static_cast<int>(bits)); }
inline bool __all_sync(unsigned int mask, bool mine) { return !__any_sync(mask, !mine); }
inline unsigned int atomicAdd(unsigned int* at, unsigned int more) {
    const unsigned int before = *at;
    *at += more;
    return before;
}
