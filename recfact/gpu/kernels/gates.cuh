// Gates: what a Phalanx layer does to the inputs and to the states of its recurrence.
//
// With GATED, the inputs v of a line become k v, and what is written of its states x is q x + v. Heads next to each
// other share the gates k and q, of the type of the inputs. Otherwise both stay as they are, and nothing is loaded.
//
// Macros: those of lines.cuh, with TIME_CONTIGUOUS 0 for gates, and
//   GATED   1 or 0
#pragma once

#include "lines.cuh"

#if GATED

struct Gates {
    const char *k, *q;  // at the step of the sweep
    STRIDE k_step, q_step;
    Vector<INPUT, CHANNELS> keys[STEPS], queries[STEPS];

    // The gates of a step, counted from there.
    __device__ __forceinline__ void load(int step) {
        keys[step % STEPS] = load_vector<INPUT, CHANNELS>(at<INPUT>(k, step, k_step));
        queries[step % STEPS] = load_vector<INPUT, CHANNELS>(at<INPUT>(q, step, q_step));
    }
    __device__ __forceinline__ void pass(int count) {
        k += static_cast<long long>(k_step) * count;
        q += static_cast<long long>(q_step) * count;
    }
    __device__ __forceinline__ Number input(int step, int c, Number v) const { return multiply(keys[step][c], v); }
    __device__ __forceinline__ Number output(int step, int c, Number x, Number v) const {
        return multiply_add(queries[step][c], x, v);
    }
};

#else

struct Gates {
    __device__ __forceinline__ void load(int) {}
    __device__ __forceinline__ void pass(int) {}
    __device__ __forceinline__ Number input(int, int, Number v) const { return v; }
    __device__ __forceinline__ Number output(int, int, Number x, Number) const { return x; }
};

#endif
