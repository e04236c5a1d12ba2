// backward_window: the gradients of a window from its inputs u and the cotangents g of its states, in one pass over
// memory, back in time, block by block.
//
// A thread owns a line as in `backward`, and what it knows of blocks is in shared memory. It goes forwards through the
// block TERMS before its own, and back through its own. Inside a block, let w be the states from zero, z those of the
// cotangents back in time, and k a step. A block sees the TERMS = m blocks before it, from their starts on:
//
//   du_k = z_k + sum over q of y^q_k,   da_k = du_k w_{k-1} + z_k c^m_{k-1} + sum over q < m of y^q_k c^{m-q}_{k-1}
//
// with q = 1 .. m, c^j what the last states of the j blocks before add to a step, and y^q what the first z of the q-th
// block after does. Where k starts the block, w_{k-1} is 0 and c^j_{k-1} the state in which these j blocks end.
//
// If SLIDES, step k sees the one block before from its own place on, so block + 1 lags are kept:
//
//   du_k = z_k + R_k A_k,   da_k = z_k w_{k-1} + s_{k-1} G_k + R_k Q_{k-1}, and G_k where k starts the block
//
// with s the product of the coefficients from the start of the block up to k, and R of those after k up to its end;
// S_k = sum over p >= k of R_p u_p in the block before; A_k = sum over p <= k of s_p g_p in the next one; G the states
// of g S back in time, and Q those of u A.
//
// If CARRIED, blocks are parts of the full recurrence, and TERMS is 0. `states` has the one after each block, from which
// w of the next one starts, and z goes on from block to block. So these are x and du themselves. The solve kept them
// (KEPT), or a first way forwards finds them.
//
// If INITIAL, a_0 times an initial state is added to the first input, da_0 is du_0 times this state, and the state has the
// gradient a_0 du_0.
//
// A segment of whole blocks starts TERMS blocks late, without writing, and looks into as many before its first. The
// next STEPS steps of a and u, and of g, are always on their way from memory.
//
// Macros: those of lines.cuh for g and du, which go back in time; those of sums.cuh, and
//   GIVEN     number type of u
//   TERMS     blocks that a block sees before its own; 1 if SLIDES
//   SLIDES, CARRIED, KEPT, INITIAL  1 or 0, as above
//   SEQUENCES 1 if time holds sequences of their own, one behind the other, and segments are parts of them
//   THREADS   of a thread block
//   RESIDENT  warps for which a multiprocessor is to have registers
#include "block_sums.cuh"
#include "sequences.cuh"
#include "sums.cuh"

// Whether a chunk and the one after it have all their STEPS steps. Most have, and need not ask for each.
struct Whole {
    static constexpr bool ALL = true;
};
struct Partial {
    static constexpr bool ALL = false;
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT * 32 / THREADS) backward_window(
    const char* a, const char* u, const char* g,
    const char* x0,  // INITIAL: as it is computed, and with SEQUENCES that of each
    char* du, char* da,
    char* states,  // CARRIED: states after blocks, as they are computed; those of a sequence from where its first step is
    char* d0,  // INITIAL: laid out as x0
    const long long* starts,  // SEQUENCES: of each, and the end of the last one
    long long sequences,
    long long steps,
    int block,           // steps of a block; the last may be shorter
    long long blocks,    // of a segment
    long long segments,  // of a line
    long long sharing, long long da_part,  // lines that share coefficients; from the sums of one group to the next
    long long batch, long long heads, long long lines,  // extents; strides of channels are those of `lines`
    long long a_batch, long long a_head, long long a_channel, STRIDE a_step,
    long long u_batch, long long u_head, long long u_channel, STRIDE u_step,
    long long g_batch, long long g_head, long long g_channel, STRIDE g_step,
    long long x0_batch, long long x0_head, long long x0_channel, long long x0_step,
    long long du_batch, long long du_head, long long du_channel, STRIDE du_step,
    long long da_batch, long long da_head, long long da_channel, STRIDE da_step,
    long long states_batch, long long states_head, long long states_channel, STRIDE states_step) {
    const Member part(segments, batch * heads * lines, sharing);
    if (!part.exists) return;
#if SEQUENCES
    const Segment segment(part.segment, starts, sequences, blocks * block);
#else
    const Segment segment(part.segment, steps);
#endif
    steps = segment.steps;
    const long long origin = segment.origin;
    // Blocks of time: all of them, and those that are written.
    const long long begin = segment.index * blocks, whole = (steps + block - 1) / block;
    const long long end = begin + blocks < whole ? begin + blocks : whole;
    if (SEQUENCES && begin >= end) return;
    const Line line(part.line, heads, lines, 1);
    a += line.in(a_batch, a_head, a_channel) + origin * a_step;
    u += line.in(u_batch, u_head, u_channel) + origin * u_step;
    g += line.in(g_batch, g_head, g_channel) + origin * g_step;
    du += line.in(du_batch, du_head, du_channel) + origin * du_step;
    da += line.in(da_batch, da_head, da_channel) + part.group * da_part + origin * da_step;

    Kept kept(block);
    auto length_of = [&](long long index) {
        const long long rest = steps - index * block;
        return rest < block ? static_cast<int>(rest) : block;
    };

    // What is on its way: a and u forwards from a step on, g from a step back. An access moves TIMES steps of u or g,
    // and begins with a step that is a multiple of these.
    Vector<GIVEN, WIDTH> inputs[ACCESSES];
    Vector<INPUT, WIDTH> cotangents[ACCESSES];
    Coefficients coefficients[STEPS / COEFFICIENT_STEPS];
    auto fetch = [&](int s, const char* a_from, const char* u_from, bool first) {
        inputs[s / TIMES] = load_vector<GIVEN, WIDTH>(at<GIVEN>(u_from, s, u_step));
#pragma unroll
        for (int k = s; k < s + TIMES; k += COEFFICIENT_STEPS)
            coefficients[k / COEFFICIENT_STEPS] =
                load_vector<COEFFICIENT, Coefficients::COUNT>(at<COEFFICIENT>(a_from, k, a_step));
        if (first && s == 0) {  // nothing leads to the first step
#pragma unroll
            for (int c = 0; c < COEFFICIENTS; ++c) coefficients[0].set(c, number<Number>(0));
        }
    };
    auto coefficient = [&](int s, int c) -> Number {
        return coefficients[s / COEFFICIENT_STEPS][COEFFICIENTS == 1 ? s % COEFFICIENT_STEPS : c];
    };
    auto input = [&](int s, int c) -> Number { return inputs[s / TIMES][TIME_CONTIGUOUS ? s % TIMES : c]; };
    auto fetch_cotangents = [&](int s, const char* from) {
        cotangents[s / TIMES] = load_vector<INPUT, WIDTH>(at<INPUT>(from, s, -g_step) + access_start(TIMES));
    };

    const long long entering_at = line.in(x0_batch, x0_head, x0_channel) + segment.sequence * x0_step;
    auto initial = [&](int c) { return load(reinterpret_cast<const Number*>(x0 + entering_at) + c); };
    auto first_coefficient = [&](int c) -> Number {
        return load_vector<COEFFICIENT, COEFFICIENTS>(at<COEFFICIENT>(a, 0, 0))[COEFFICIENTS == 1 ? 0 : c];
    };
    // The input of a step of what is on its way, which is the first of all or not.
    auto input_of = [&](int s, int c, bool first) -> Number {
        return INITIAL && s == 0 && first ? multiply_add(first_coefficient(c), initial(c), input(s, c)) : input(s, c);
    };

    auto fetch_forwards = [&](int s, long long step) { fetch(s, a + step * a_step, u + step * u_step, step == 0); };

    // The state in which a block ends.
    states += line.in(states_batch, states_head, states_channel) + origin / block * states_step;
    auto passed = [&](long long index) { return reinterpret_cast<Number*>(states + index * states_step); };
    Values before, ahead;  // the state before a block, and the one before the next block on the way back
    before.fill(0);
    if (KEPT && whole > 1) before = load_vector<Number, CHANNELS>(passed(whole - 2));
    if (CARRIED && !KEPT) {
        const long long last = (whole - 1) * block;
#pragma unroll
        for (int s = 0; s < STEPS; s += TIMES) {
            if (last > 0) fetch_forwards(s, 0);
        }
        for (long long step = 0; step < last; step += STEPS) {
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
#pragma unroll
                for (int c = 0; c < CHANNELS; ++c)
                    before.set(c, multiply_add(coefficient(s, c), before[c], input_of(s, c, step == 0)));
                if (s % TIMES == TIMES - 1 && step + STEPS < last) fetch_forwards(s + 1 - TIMES, step + STEPS);
            }
            // The last one is still there when it is needed.
            if ((step + STEPS) % block == 0 && step + STEPS < last) store_vector(passed(step / block), before);
        }
    }

    const long long lowest = begin > TERMS ? begin - TERMS : 0;
    const long long top = end + TERMS < whole ? end + TERMS - 1 : whole - 1;
#pragma unroll
    for (int s = 0; s < STEPS; s += TIMES) {
        const long long first = top * block;
        if (s < length_of(top)) {
            fetch(s, a + first * a_step, u + first * u_step, first == 0);
            fetch_cotangents(s, g + (first + length_of(top) - 1) * g_step);
        }
    }

    // Read a block of inputs.
    auto ascend = [&](long long index) {
        const Row<CHANNELS> row = kept.held(index);
        const Row<COEFFICIENTS> factors = kept.factors(index);
        const int length = length_of(index);
        Number state[CHANNELS];
        if (CARRIED) {
            if (index < top) before = ahead;
            ahead.fill(0);
            if (index > 1) ahead = load_vector<Number, CHANNELS>(passed(index - 2));
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) state[c] = before[c];
        }
        for (int k = 0; k < length; k += STEPS) {
            const bool more = k + STEPS < length;
            const int here = length - k, count = more ? here - STEPS : index > lowest ? block : 0;
            const long long next = more ? index * block + k + STEPS : (index - 1) * block;
            const char *a_next = a + next * a_step, *u_next = u + next * u_step;
            auto chunk = [&](auto size) {
#pragma unroll
                for (int s = 0; s < STEPS; ++s) {
                    if (size.ALL || s < here) {
                        Values values;
                        Factors factor;
#pragma unroll
                        for (int c = 0; c < COEFFICIENTS; ++c)
                            factor.set(c, coefficient(s, c));
#pragma unroll
                        for (int c = 0; c < CHANNELS; ++c) {
                            const bool alone = SLIDES || (!CARRIED && s == 0 && k == 0);
                            const Number added = input_of(s, c, index == 0 && k == 0);
                            state[c] = alone ? added : multiply_add(of(factor, c), state[c], added);
                            values.set(c, state[c]);
                        }
                        row.set(k + s, values);
                        factors.set(k + s, factor);
                    }
                    if (s % TIMES == TIMES - 1 && (size.ALL || s < count))
                        fetch(s + 1 - TIMES, a_next, u_next, next == 0);
                }
            };
            if (here >= STEPS && count >= STEPS) {
                chunk(Whole{});
            } else {
                chunk(Partial{});
            }
        }
    };

    Number entering[TERMS + 1][CHANNELS];  // y^q of the last step, of what the next block has
    Number state[CHANNELS];                // z
    Factors factor;                        // a of the step
    for (long long index = top + TERMS; index >= begin; --index) {
        if (index - TERMS >= lowest) ascend(index - TERMS);
        if (index > top) continue;
        const int length = length_of(index);
        const int following = top - index < TERMS ? static_cast<int>(top - index) : TERMS;  // blocks that see it
        const bool after = following > 0, earlier = TERMS > 0 && index > 0;
        const Row<CHANNELS> own = kept.held(index);
        const Row<COEFFICIENTS> factors = kept.factors(index);

        if (!SLIDES && earlier) carry_blocks(kept, factors, index, length);
        if (SLIDES && earlier) add_suffixes(kept, index - 1);
        if (SLIDES) solve_inside(kept, own, factors, length, after);

        // Back through the block.
        // y^{q+1}, or G; R
        Number other[TERMS + 1][CHANNELS], product[COEFFICIENTS];
        Factors power;  // s of the step
        const long long first = index * block;
        for (int k = length - 1; k >= 0; k -= STEPS) {
            const bool more = k >= STEPS;
            const int count = more ? k + 1 - STEPS : index > begin ? block : 0;
            const char* next = g + (more ? first + k - STEPS : first - 1) * g_step;
            char *du_here = du + (first + k) * du_step, *da_here = da + (first + k) * da_step;
            Vector<OUTPUT, WIDTH> found;
            Sums found_sums;
            auto chunk = [&](auto size) {
#pragma unroll
                for (int s = 0; s < STEPS; ++s) {
                    const int place = k - s;
                    if (size.ALL || place >= 0) {
                        const bool last = s == 0 && k == length - 1 && (!CARRIED || index == top);
                        Values states, carries, weights, sums, scaled;
                        if (SLIDES && earlier) {
                            if (last) power = kept.products.get(place);
                            carries = kept.carried(0).get(place);
                        }
                        if (SLIDES && after) weights = kept.seen.get(place);
                        if (SLIDES) {
#pragma unroll
                            for (int c = 0; c < COEFFICIENTS; ++c)
                                product[c] = last ? number<Number>(1) : multiply(product[c], factor[c]);
                        }
                        Number total[CHANNELS];
#pragma unroll
                        for (int c = 0; c < CHANNELS; ++c) {
                            const Number cotangent =
                                cotangents[s / TIMES][TIME_CONTIGUOUS ? in_access(s, TIMES) : c];
                            state[c] = last ? cotangent : multiply_add(of(factor, c), state[c], cotangent);
                            total[c] = state[c];
#pragma unroll
                            for (int q = 0; q < (SLIDES ? 0 : TERMS); ++q) {
                                if (q >= following) continue;
                                other[q][c] = last ? entering[q][c] : multiply(of(factor, c), other[q][c]);
                                total[c] = add(total[c], other[q][c]);
                            }
                            if (SLIDES && earlier) {
                                const Number part = multiply(cotangent, carries[c]);
                                other[0][c] = last ? part : multiply_add(of(factor, c), other[0][c], part);
                                scaled.set(c, multiply(of(power, c), cotangent));
                            }
                            if (SLIDES && after) total[c] = multiply_add(of(product, c), weights[c], state[c]);
                            found.set(TIME_CONTIGUOUS ? in_access(s, TIMES) : c, total[c]);
                        }
                        if (SLIDES && earlier) kept.local.set(place, scaled);
                        Number gradients[CHANNELS];
                        factor = factors.get(place);
                        if ((size.ALL && s < STEPS - 1) || place > 0) {
                            states = (SLIDES ? kept.local : own).get(place - 1);
                            if (SLIDES && earlier) power = kept.products.get(place - 1);
                            if (SLIDES && after) sums = own.get(place - 1);
#pragma unroll
                            for (int c = 0; c < CHANNELS; ++c) {
                                gradients[c] = multiply((SLIDES ? state : total)[c], states[c]);
                                if (SLIDES && earlier)
                                    gradients[c] = multiply_add(of(power, c), other[0][c], gradients[c]);
                                if (SLIDES && after)
                                    gradients[c] = multiply_add(of(product, c), sums[c], gradients[c]);
                            }
                        } else {
#pragma unroll
                            for (int c = 0; c < CHANNELS; ++c) {
                                gradients[c] = SLIDES && earlier ? other[0][c] : number<Number>(0);
                                if (CARRIED && index > 0) gradients[c] = multiply(state[c], before[c]);
                                if (INITIAL && index == 0) {
                                    gradients[c] = multiply(total[c], initial(c));
                                    store(reinterpret_cast<Number*>(d0 + entering_at) + c,
                                          multiply(first_coefficient(c), total[c]));
                                }
#pragma unroll
                                for (int q = 0; q < (SLIDES ? 0 : TERMS); ++q) {
                                    if (q <= following)
                                        entering[q][c] = multiply(of(factor, c), q == 0 ? state[c] : other[q - 1][c]);
                                }
                            }
                        }
#pragma unroll
                        for (int q = 0; q < (SLIDES ? 0 : TERMS); ++q) {
                            if (!earlier || q > following) continue;
                            carries = kept.carried(TERMS - 1 - q).get(place);
#pragma unroll
                            for (int c = 0; c < CHANNELS; ++c)
                                gradients[c] =
                                    multiply_add(q == 0 ? state[c] : other[q - 1][c], carries[c], gradients[c]);
                        }
                        found_sums.take(s, gradients, part.lanes);
                        if (index < end && s % TIMES == TIMES - 1)
                            store_vector(const_cast<OUTPUT*>(at<OUTPUT>(du_here, s + 1 - TIMES, -du_step)) +
                                             access_start(TIMES),
                                         found);
                        if (index < end && s % COEFFICIENT_STEPS == COEFFICIENT_STEPS - 1)
                            found_sums.store(at<SUM>(da_here, s + 1 - COEFFICIENT_STEPS, -da_step));
                    }
                    if (s % TIMES == TIMES - 1 && (size.ALL || s < count)) fetch_cotangents(s + 1 - TIMES, next);
                }
            };
            if (k >= STEPS - 1 && count >= STEPS) {
                chunk(Whole{});
            } else {
                chunk(Partial{});
            }
        }
        if (SLIDES && earlier) add_prefixes(kept, length);
    }
}
