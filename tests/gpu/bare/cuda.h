// CUDA on the CPU, bare: threads are fibers that take turns, thread blocks run one after another, nothing is checked.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __CUDA_ARCH__ 900

using std::max;
using std::min;

struct uint3 { unsigned int x, y, z; };
struct float2 { float x, y; };
struct alignas(16) double2 { double x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline float __uint_as_float(unsigned int bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline unsigned int __float_as_uint(float value) {
    unsigned int bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline uint3 threadIdx, blockIdx;

namespace bare {

// A context is entered once; from then on jumps are enough, which leave the signal mask alone and so need no kernel.
struct Fiber {
    ucontext_t start;
    jmp_buf place;
    std::unique_ptr<char[]> stack{new char[STACK_BYTES]};
    bool entered = false, done = false;
};

// Threads that wait for each other: a warp or a thread block. A thread that has returned is waited for no more.
struct Meeting {
    int members = 0, arrived = 0;
    unsigned int round = 0;
    uint64_t values[32];
};

inline jmp_buf scheduler;
inline std::vector<Fiber> fibers;
inline std::vector<Meeting> warps;
inline Meeting everyone;
inline int current;
inline std::function<void()> kernel;

inline void pass_turn() {
    const int self = current;
    if (!_setjmp(fibers[self].place)) _longjmp(scheduler, 1);
    threadIdx.x = self;
}

inline void open_if_complete(Meeting& meeting) {
    if (meeting.arrived == meeting.members && meeting.members > 0) {
        meeting.arrived = 0;
        ++meeting.round;
    }
}

inline void meet(Meeting& meeting) {
    const unsigned int round = meeting.round;
    ++meeting.arrived;
    open_if_complete(meeting);
    while (meeting.round == round) pass_turn();
}

inline Meeting& warp() { return warps[threadIdx.x / 32]; }

inline void enter() {
    kernel();
    fibers[current].done = true;
    for (Meeting* meeting : {&warps[current / 32], &everyone}) {
        --meeting->members;
        open_if_complete(*meeting);
    }
    _longjmp(scheduler, 1);
}

inline void resume(Fiber& fiber) {
    if (_setjmp(scheduler)) return;
    if (fiber.entered) _longjmp(fiber.place, 1);
    fiber.entered = true;
    setcontext(&fiber.start);
}

inline void launch(int threads, long long grid) {
    fibers.resize(threads);
    for (long long block = 0; block < grid; ++block) {
        blockIdx = {static_cast<unsigned int>(block), 0, 0};
        warps.assign((threads + 31) / 32, {});
        everyone = {};
        everyone.members = threads;
        for (int k = 0; k < threads; ++k) {
            Fiber& fiber = fibers[k];
            ++warps[k / 32].members;
            fiber.entered = fiber.done = false;
            getcontext(&fiber.start);
            fiber.start.uc_stack.ss_sp = fiber.stack.get();
            fiber.start.uc_stack.ss_size = STACK_BYTES;
            fiber.start.uc_link = nullptr;
            makecontext(&fiber.start, enter, 0);
        }
        for (int left = threads; left > 0;)
            for (current = 0; current < threads; ++current) {
                if (fibers[current].done) continue;
                threadIdx = {static_cast<unsigned int>(current), 0, 0};
                resume(fibers[current]);
                left -= fibers[current].done;
            }
    }
}

// Show a value to the warp, and take what `choose` makes of everyone's.
template <class T, class Choose>
auto exchange(T value, Choose choose) {
    Meeting& meeting = warp();
    std::memcpy(&meeting.values[threadIdx.x % 32], &value, sizeof value);
    meet(meeting);
    const auto result = choose(meeting.values);
    meet(meeting);
    return result;
}

template <class T>
T shuffle(T value, int source) {
    return exchange(value, [source](const uint64_t* values) {
        T other;
        std::memcpy(&other, &values[source], sizeof other);
        return other;
    });
}

}  // namespace bare

inline void __syncwarp() { bare::meet(bare::warp()); }
inline void __syncthreads() { bare::meet(bare::everyone); }
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
        return std::any_of(values, values + 32, [](uint64_t value) { return value != 0; });
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
