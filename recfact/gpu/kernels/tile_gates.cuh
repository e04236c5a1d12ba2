// Gates of a tile of b2p: what a Phalanx layer does to the inputs and to the states of its recurrence.
//
// With GATED, the inputs v of a tile become k v, and what is written of its states x is q x + v. Heads next to each
// other share the gates k and q, of the type of the inputs. A lane has its 8 numbers of all three from memory to the
// result, so no other lane is waited for but where k v goes to tensor cores. It is exact in float32, and goes there as
// the sum of two half-precision matrices, its rounded value and the rest. The rest is exact, too, where it doesn't fall
// below the smallest numbers; float16 has few of these, so it is stored LIFTED times larger. That can't overflow,
// because the rest is at most as many times smaller than k v.
//
// Macros: those of b2p.cu
#pragma once

#include "tiles.cuh"

constexpr float LIFTED = same<INPUT, half> ? 2048.0f : 1.0f;

#if GATED

static_assert(ASYNCHRONOUS && SPLIT && !TIME_CONTIGUOUS && !REVERSE, "a tile without what gates are planned with");

struct Gates {
    const char *k, *q;  // of the next tile to set out, what the lane moves
    long long k_step, q_step;
    Inputs terms[2];                         // of k v
    Vector<INPUT, 4> queries[2], values[2];  // in the order in which the lane takes its results

    // With the inputs.
    __device__ __forceinline__ void set_out(const Work& work, int stage, bool here) {
        copy16_async(work.own(stage, 1), k, here ? 16 : 0);
        copy16_async(work.own(stage, 2), q, here ? 16 : 0);
        k += TILE * k_step;
        q += TILE * q_step;
    }
    // k v of a tile that has arrived.
    __device__ __forceinline__ Floats multiply(const Work& work, int stage) const {
        Inputs v, key;
        v.packets[0] = read16(work.own(stage, 0));
        key.packets[0] = read16(work.own(stage, 1));
        Floats products;
#pragma unroll
        for (int c = 0; c < HALF; ++c) products.items[c] = key[c] * v[c];
        return products;
    }
    __device__ __forceinline__ void build(const Work& work, int stage) {
        const Floats products = multiply(work, stage);
#pragma unroll
        for (int c = 0; c < HALF; ++c) {
            terms[0].set(c, products.items[c]);
            terms[1].set(c, (products.items[c] - terms[0][c]) * LIFTED);
        }
    }
    __device__ __forceinline__ void write(const Work& work, const Place& at) const {
#pragma unroll
        for (int term = 0; term < 2; ++term)
            write16(work.inputs(term) + at.row * ROW + at.half * HALF, terms[term].packets[0]);
    }
    // The same in float32 where L_t u_t was, for a tile that is repeated: all lanes have read that before they voted.
    __device__ __forceinline__ void write_products(const Work& work, const Place& at, int stage) const {
        const Floats products = multiply(work, stage);
#pragma unroll
        for (int k = 0; k < 2; ++k)
            write16(work.product() + at.row * ROW + at.half * HALF + 4 * k, products.packets[k]);
    }
    // What results need.
    __device__ __forceinline__ void take(const Work& work, const Place& at, int stage) {
        Inputs v, query;
        v.packets[0] = read16(work.own(stage, 0));
        query.packets[0] = read16(work.own(stage, 2));
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            queries[k] = four_of(query, at.second != (k == 1));
            values[k] = four_of(v, at.second != (k == 1));
        }
    }
    __device__ __forceinline__ float output(int k, int c, float x) const {
        return fmaf(queries[k][c], x, values[k][c]);
    }
};

#else

struct Gates {
    __device__ __forceinline__ void set_out(const Work&, int, bool) {}
    __device__ __forceinline__ void build(const Work&, int) {}
    __device__ __forceinline__ void write(const Work&, const Place&) const {}
    __device__ __forceinline__ void write_products(const Work&, const Place&, int) const {}
    __device__ __forceinline__ void take(const Work&, const Place&, int) {}
    __device__ __forceinline__ float output(int, int, float x) const { return x; }
};

#endif
