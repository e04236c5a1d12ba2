// Lines: what a thread of `sweep` and `chain` owns, CHANNELS channels next to each other in memory (TIME_CONTIGUOUS 0),
// or one channel whose steps are next to each other (TIME_CONTIGUOUS 1), and a chunk of its steps in registers.
//
// Macros
//   INPUT, COEFFICIENT, OUTPUT   number types stored
//   CHANNELS                     channels of a thread; 1 if TIME_CONTIGUOUS
//   STEPS                        steps of a chunk
//   TIME_CONTIGUOUS, TIME_ACCESS TIME_ACCESS steps (of INPUT and OUTPUT) move at once in that layout, else CHANNELS
//                                channels
//   COEFFICIENTS                 of one step: CHANNELS, or 1 that the channels share
//   COEFFICIENT_STEPS            steps whose coefficients move in one access, more than 1 only if COEFFICIENTS is 1 and
//                                they are next to each other in memory
//   REVERSE                      only if TIME_CONTIGUOUS: the sweep runs towards lower addresses. In the other layout
//                                strides are negative instead. Pointers are at the first step of the sweep.
//   STRIDE                       type of the strides of time: int wherever they fit, which makes an address one
//                                instruction
#pragma once

#include "numbers.cuh"

using Number = Accumulator<INPUT>::type;

constexpr int TIMES = TIME_CONTIGUOUS ? TIME_ACCESS : 1;  // steps of one access
constexpr int WIDTH = TIME_CONTIGUOUS ? TIME_ACCESS : CHANNELS;  // numbers of one access
constexpr int ACCESSES = STEPS / TIMES;
static_assert(STEPS % TIMES == 0 && STEPS % COEFFICIENT_STEPS == 0, "a chunk is whole accesses");

// Where a vector of so many steps begins, and where in it a step of the sweep lies.
__device__ __forceinline__ constexpr int access_start(int steps) { return REVERSE ? 1 - steps : 0; }
__device__ __forceinline__ constexpr int in_access(int step, int steps) {
    return REVERSE ? steps - 1 - step % steps : step % steps;
}

// The element `count` strides behind a pointer.
template <class T>
__device__ __forceinline__ const T* at(const char* pointer, int count, STRIDE stride) {
    return reinterpret_cast<const T*>(pointer + static_cast<long long>(stride) * count);
}

using Coefficients = Vector<COEFFICIENT, COEFFICIENTS * COEFFICIENT_STEPS>;  // of one access

// STEPS steps of a line in registers.
struct Chunk {
    Vector<INPUT, WIDTH> inputs[ACCESSES];
    Coefficients coefficients[STEPS / COEFFICIENT_STEPS];

    // From the pointer to the first step of a chunk.
    __device__ __forceinline__ void load_inputs(int access, const char* u, STRIDE step) {
        inputs[access] = load_vector<INPUT, WIDTH>(at<INPUT>(u, access * TIMES, step) + access_start(TIMES));
    }
    __device__ __forceinline__ void load_coefficients(int index, const char* a, STRIDE step) {
        coefficients[index] = load_vector<COEFFICIENT, Coefficients::COUNT>(
            at<COEFFICIENT>(a, index * COEFFICIENT_STEPS, step) + access_start(COEFFICIENT_STEPS));
    }
    // All of it.
    __device__ __forceinline__ void load(const char* a, STRIDE a_step, const char* u, STRIDE u_step) {
#pragma unroll
        for (int k = 0; k < ACCESSES; ++k) load_inputs(k, u, u_step);
#pragma unroll
        for (int k = 0; k < STEPS / COEFFICIENT_STEPS; ++k) load_coefficients(k, a, a_step);
    }
    // One step by itself; without one (`here` false) x stays as it is, and without `reads` nothing leads into it.
    __device__ __forceinline__ void load_step(int step, const char* a, const char* u, bool here, bool reads) {
        Vector<INPUT, CHANNELS> u_step;
        Vector<COEFFICIENT, COEFFICIENTS> a_step;
        u_step.fill(0);
        a_step.fill(here ? 0 : 1);
        if (here) u_step = load_vector<INPUT, CHANNELS>(at<INPUT>(u, 0, 0));
        if (here && reads) a_step = load_vector<COEFFICIENT, COEFFICIENTS>(at<COEFFICIENT>(a, 0, 0));
#if TIME_CONTIGUOUS
        inputs[step / TIMES].items[in_access(step, TIMES)] = u_step.items[0];
#else
        inputs[step] = u_step;
#endif
#if COEFFICIENT_STEPS > 1
        coefficients[step / COEFFICIENT_STEPS].items[step % COEFFICIENT_STEPS] = a_step.items[0];
#else
        coefficients[step] = a_step;
#endif
    }
    // From here on numbers are taken out of their vectors anew: kept widened, halves would fill twice the registers.
    // The compilers see through an empty asm, but don't know that grids have no second dimension.
    __device__ __forceinline__ void forget_widened() {
        const unsigned int zero = blockIdx.y;
#pragma unroll
        for (int k = 0; k < ACCESSES; ++k) inputs[k].renew(zero);
#pragma unroll
        for (int k = 0; k < STEPS / COEFFICIENT_STEPS; ++k) coefficients[k].renew(zero);
    }

    __device__ __forceinline__ Number input(int step, int c) const {
        return inputs[step / TIMES][TIME_CONTIGUOUS ? in_access(step, TIMES) : c];
    }
    __device__ __forceinline__ auto coefficient(int step, int c) const {
        return coefficients[step / COEFFICIENT_STEPS][COEFFICIENTS == 1 ? in_access(step, COEFFICIENT_STEPS) : c];
    }
};
