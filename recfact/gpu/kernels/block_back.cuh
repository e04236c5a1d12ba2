// A step on the way back through a block: what reaches it from later steps, and the gradients of the coefficients that
// lead to it. The letters are those of backward_window.cu.
//
// Macros: those of block_rows.cuh.
#pragma once

#include "block_rows.cuh"

// What the way back through a block reads.
struct Block {
    const Kept& kept;
    Row<CHANNELS> own;  // w, or Q if SLIDES
    Row<COEFFICIENTS> factors;
    int following;  // how many blocks after it see it
    bool earlier;   // whether it sees steps before its start
};

#if SLIDES

struct Back {
    Number state[CHANNELS], weighted[CHANNELS];  // z, G
    Number product[COEFFICIENTS];                // R
    Factors factor, power;                       // a and s of the step

    // du of a step, `last` the first on the way. What the block before needs of it is kept, too.
    __device__ __forceinline__ void reach(
        const Block& block, int place, bool last, const Number (&cotangents)[CHANNELS], Number (&total)[CHANNELS]) {
        Values carries, weights, scaled;
        if (block.earlier) {
            if (last) power = block.kept.products.get(place);
            carries = block.kept.carried(0).get(place);
        }
        if (block.following) weights = block.kept.seen.get(place);
#pragma unroll
        for (int c = 0; c < COEFFICIENTS; ++c)
            product[c] = last ? number<Number>(1) : multiply(product[c], factor[c]);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            state[c] = last ? cotangents[c] : multiply_add(of(factor, c), state[c], cotangents[c]);
            total[c] = state[c];
            if (block.earlier) {
                const Number part = multiply(cotangents[c], carries[c]);
                weighted[c] = last ? part : multiply_add(of(factor, c), weighted[c], part);
                scaled.set(c, multiply(of(power, c), cotangents[c]));
            }
            if (block.following) total[c] = multiply_add(of(product, c), weights[c], state[c]);
        }
        if (block.earlier) block.kept.local.set(place, scaled);
    }

    // The products whose sum over channels is da of a step, `inside` if not the first of the block.
    __device__ __forceinline__ void lead(
        const Block& block, int place, bool inside, const Number (&)[CHANNELS], Number (&gradients)[CHANNELS]) {
        factor = block.factors.get(place);
        if (!inside) {
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) gradients[c] = block.earlier ? weighted[c] : number<Number>(0);
            return;
        }
        const Values states = block.kept.local.get(place - 1);
        Values sums;
        if (block.earlier) power = block.kept.products.get(place - 1);
        if (block.following) sums = block.own.get(place - 1);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            gradients[c] = multiply(state[c], states[c]);
            if (block.earlier) gradients[c] = multiply_add(of(power, c), weighted[c], gradients[c]);
            if (block.following) gradients[c] = multiply_add(of(product, c), sums[c], gradients[c]);
        }
    }
};

#else

struct Back {
    Number state[CHANNELS];                // z
    Number other[TERMS + 1][CHANNELS];     // y^{q+1}
    Number entering[TERMS + 1][CHANNELS];  // y^q of the last step, of what the next block on the way has
    Factors factor;                        // a of the step
    Values before;                         // x before the block, if CARRIED

    // du of a step, `last` the first on the way.
    __device__ __forceinline__ void reach(
        const Block& block, int, bool last, const Number (&cotangents)[CHANNELS], Number (&total)[CHANNELS]) {
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            state[c] = last ? cotangents[c] : multiply_add(of(factor, c), state[c], cotangents[c]);
            total[c] = state[c];
#pragma unroll
            for (int q = 0; q < TERMS; ++q) {
                if (q >= block.following) continue;
                other[q][c] = last ? entering[q][c] : multiply(of(factor, c), other[q][c]);
                total[c] = add(total[c], other[q][c]);
            }
        }
    }

    // The products whose sum over channels is da of a step, `inside` if not the first of the block.
    __device__ __forceinline__ void lead(
        const Block& block, int place, bool inside, const Number (&total)[CHANNELS], Number (&gradients)[CHANNELS]) {
        factor = block.factors.get(place);
        if (inside) {
            const Values states = block.own.get(place - 1);
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) gradients[c] = multiply(total[c], states[c]);
        } else {
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) {
                gradients[c] = CARRIED && block.earlier ? multiply(state[c], before[c]) : number<Number>(0);
#pragma unroll
                for (int q = 0; q < TERMS; ++q) {
                    if (q <= block.following)
                        entering[q][c] = multiply(of(factor, c), q == 0 ? state[c] : other[q - 1][c]);
                }
            }
        }
#pragma unroll
        for (int q = 0; q < TERMS; ++q) {
            if (!block.earlier || q > block.following) continue;
            const Values carries = block.kept.carried(TERMS - 1 - q).get(place);
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c)
                gradients[c] = multiply_add(q == 0 ? state[c] : other[q - 1][c], carries[c], gradients[c]);
        }
    }
};

#endif
