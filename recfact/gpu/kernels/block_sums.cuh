// What blocks add to each other, in passes over what a thread keeps of them: all that `backward_window` needs before
// and after its way back through a block. The letters are those of backward_window.cu.
//
// Macros: those of block_rows.cuh.
#pragma once

#include "block_rows.cuh"

// c^1 to c^TERMS, before each of `length` steps of a block that isn't the first.
__device__ __forceinline__ void carry_blocks(
    const Kept& kept, const Row<COEFFICIENTS>& factors, long long index, int length) {
    Number reached[TERMS + 1][CHANNELS];  // c^{j+1}
#pragma unroll
    for (int p = TERMS; p > 0; --p) {
        if (p > index) continue;
        const bool first = p == TERMS || p == index;
        if (!first) {
            const Row<COEFFICIENTS> passed = kept.factors(index - p);
#pragma unroll 4
            for (int step = 0; step < kept.block; ++step) {
                const Factors factor = passed.get(step);
#pragma unroll
                for (int j = p; j < TERMS; ++j) {
#pragma unroll
                    for (int c = 0; c < CHANNELS; ++c) reached[j][c] = multiply(of(factor, c), reached[j][c]);
                }
            }
        }
        const Values last = kept.held(index - p).get(kept.block - 1);
#pragma unroll
        for (int j = p - 1; j < TERMS; ++j) {
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c)
                reached[j][c] = first || j == p - 1 ? last[c] : add(last[c], reached[j][c]);
        }
    }
#pragma unroll 4
    for (int k = 0; k < length; ++k) {
        const Factors factor = factors.get(k);
#pragma unroll
        for (int j = 0; j < TERMS; ++j) {
            Values values;
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) {
                values.set(c, reached[j][c]);
                reached[j][c] = multiply(of(factor, c), reached[j][c]);
            }
            kept.carried(j).set(k, values);
        }
    }
}

// S of the block before, which is whole.
__device__ __forceinline__ void add_suffixes(const Kept& kept, long long before) {
    const Row<CHANNELS> inputs = kept.held(before);
    const Row<COEFFICIENTS> factors = kept.factors(before);
    Number sum[CHANNELS], product[COEFFICIENTS];
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) sum[c] = number<Number>(0);
#pragma unroll
    for (int c = 0; c < COEFFICIENTS; ++c) product[c] = number<Number>(1);
#pragma unroll 4
    for (int k = kept.block - 1; k >= 0; --k) {
        const Values input = inputs.get(k);
        const Factors factor = factors.get(k);
        Values values;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            sum[c] = multiply_add(of(product, c), input[c], sum[c]);
            values.set(c, sum[c]);
        }
        kept.carried(0).set(k, values);
#pragma unroll
        for (int c = 0; c < COEFFICIENTS; ++c) product[c] = multiply(product[c], factor[c]);
    }
}

// w, s and Q of a block. Q is 0 without a block after it.
__device__ __forceinline__ void solve_inside(
    const Kept& kept, const Row<CHANNELS>& own, const Row<COEFFICIENTS>& factors, int length, bool after) {
    Number state[CHANNELS], weighted[CHANNELS], product[COEFFICIENTS];
#pragma unroll 2
    for (int k = 0; k < length; ++k) {
        const Factors factor = factors.get(k);
        const Values input = own.get(k);
        Values weight, states, sums;
        Factors values;
        if (after) weight = kept.seen.get(k);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            const Number part = after ? multiply(input[c], weight[c]) : number<Number>(0);
            state[c] = k == 0 ? input[c] : multiply_add(of(factor, c), state[c], input[c]);
            weighted[c] = k == 0 ? part : multiply_add(of(factor, c), weighted[c], part);
            states.set(c, state[c]);
            sums.set(c, weighted[c]);
        }
#pragma unroll
        for (int c = 0; c < COEFFICIENTS; ++c) {
            product[c] = k == 0 ? factor[c] : multiply(product[c], factor[c]);
            values.set(c, product[c]);
        }
        kept.local.set(k, states);
        own.set(k, sums);
        kept.products.set(k, values);
    }
}

// A of the block before, from s g in the place of w. What it takes the place of isn't needed any more.
__device__ __forceinline__ void add_prefixes(Kept& kept, int length) {
    Number sum[CHANNELS];
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) sum[c] = number<Number>(0);
#pragma unroll 4
    for (int k = 0; k < kept.block; ++k) {
        Values values;
        if (k < length) values = kept.local.get(k);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            if (k < length) sum[c] = add(sum[c], values[c]);
            values.set(c, sum[c]);
        }
        kept.local.set(k, values);
    }
    const Row<CHANNELS> other = kept.seen;
    kept.seen = kept.local, kept.local = other;
}
