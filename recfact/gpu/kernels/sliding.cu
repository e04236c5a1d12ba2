// sliding: windows of several blocks in O(steps), without subtraction.
//
// Row i of block k sees the inputs from the start of block k - terms on. Jagged(block, terms) says just that, and
// Uniform(lags) is the same with blocks of one step and terms = lags - 1. Blocks are taken in groups of `terms`. Each
// block leaves two numbers in a slot: v, what it reaches from zero, and G, the product of its coefficients. When a
// group is full they become suffix sums, S_r = v_r + ... = sum over q >= r of (G of the blocks after q) v_q, and block
// r of the next group starts from
//
//   state = p + g S_r
//
// where p is what its own group reached from zero so far and g the product of the group's coefficients so far. The slot
// is free then for what block r leaves. A segment starts one group early, without writing.
//
// A product may overflow where the recurrence itself doesn't, and a state on its way where p and g S_r don't show it.
// What |u| reaches by |a| from the start of the group before bounds the states of all windows on their way. From where
// that is large, and where a state isn't finite, states are repeated by their definition, a loop over their window.
//
// Lines and strides (in bytes, negative in reverse) are those of `sweep`. Macros
//   INPUT, COEFFICIENT, OUTPUT   number types stored
//   CHANNELS                 channels of a thread, which move in one access
//   STRIDE, INITIAL, SEQUENCES, THREADS, RESIDENT as in `sweep`
//   COEFFICIENTS             of one step: CHANNELS, or 1 that the channels share
//   SLOTS_SHARED             1: slots in shared memory, terms * (CHANNELS + coefficients) * THREADS numbers;
//                            0: in `slots`, terms * (CHANNELS + coefficients) numbers for each line of each segment
#include "numbers.cuh"
#include "owners.cuh"
#include "sequences.cuh"

using Number = Accumulator<INPUT>::type;
using Real = Magnitude<Number>::type;
constexpr Real LARGE = Magnitude<Number>::SAFE * Magnitude<Number>::SAFE;

// What |u| reaches by |a|, and whether it has been large. Channels that share coefficients share it.
struct Reach {
    Real reach[COEFFICIENTS];
    bool large;

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int c = 0; c < COEFFICIENTS; ++c) reach[c] = 0;
        large = false;
    }
    __device__ __forceinline__ void advance(int c, Real coefficient, Real input) {
        reach[c] = fma(coefficient, reach[c], input);
        large = large || !(reach[c] <= LARGE);
    }
};

// The numbers that a block leaves: one for each channel, then one for each coefficient.
struct Slots {
    Number* numbers;
    int owners;  // threads whose slots lie side by side

    __device__ __forceinline__ Number* slot(long long block, int index) const {
        return numbers + (block * (CHANNELS + COEFFICIENTS) + index) * owners;
    }
    __device__ __forceinline__ Number get(long long block, int index) const {
        return SLOTS_SHARED ? load_shared(slot(block, index)) : load(slot(block, index));
    }
    __device__ __forceinline__ void put(long long block, int index, Number value) const {
        if (SLOTS_SHARED) {
            store_shared(slot(block, index), value);
        } else {
            store(slot(block, index), value);
        }
    }

    // Turn what the blocks of a group left into suffix sums.
    __device__ __forceinline__ void close_group(long long terms) const {
        Number sums[CHANNELS], products[COEFFICIENTS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) sums[c] = number<Number>(0);
#pragma unroll
        for (int c = 0; c < COEFFICIENTS; ++c) products[c] = number<Number>(1);
#pragma unroll 1
        for (long long r = terms - 1; r >= 0; --r) {
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) {
                sums[c] = multiply_add(products[COEFFICIENTS == 1 ? 0 : c], get(r, c), sums[c]);
                put(r, c, sums[c]);
            }
#pragma unroll
            for (int c = 0; c < COEFFICIENTS; ++c) products[c] = multiply(products[c], get(r, CHANNELS + c));
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT * 32 / THREADS) sliding(
    const char* a, const char* u, char* x, const char* x0, char* slots,
    const long long* starts,  // of each sequence in the order of the sweep, and the end of the last one
    long long sequences,
    long long steps,     // of the recurrence
    long long first,     // of the first block in the order of the sweep; 0 if what is over at the end of a sequence is
    long long block,     // of every other block; the last may be shorter
    long long terms,     // blocks of a group
    long long groups,    // of a segment
    long long segments,  // of a line
    long long batch, long long heads, long long lines,  // extents; `lines` of a head are its channels / CHANNELS
    long long a_batch, long long a_head, long long a_channel, STRIDE a_step,
    long long u_batch, long long u_head, long long u_channel, STRIDE u_step,
    long long x_batch, long long x_head, long long x_channel, STRIDE x_step,
    long long x0_batch, long long x0_head, long long x0_channel, long long x0_step) {
    const long long all = batch * heads * lines;
    const Owner own(segments, all);
    if (!own.exists) return;
    const Line line(own.line, heads, lines);
#if SEQUENCES
    const Segment segment(own.segment, starts, sequences, groups * terms * block);
    if (first == 0) first = segment.steps == 0 ? block : (segment.steps - 1) % block + 1;
#else
    const Segment segment(own.segment, steps);
#endif
    steps = segment.steps;
#if SLOTS_SHARED
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    const Slots slot = {reinterpret_cast<Number*>(dynamic_shared) + threadIdx.x, THREADS};
#else
    const long long before = own.segment * all + own.line - threadIdx.x;  // threads of other thread blocks
    const long long rest = (SEQUENCES ? segments : own.segment + 1) * all - before;
    const int owners = rest < THREADS ? static_cast<int>(rest) : THREADS;
    const long long numbers = terms * (CHANNELS + COEFFICIENTS);
    const Slots slot = {reinterpret_cast<Number*>(slots) + before * numbers + threadIdx.x, owners};
#endif
    a += line.in(a_batch, a_head, a_channel) + segment.origin * a_step;
    u += line.in(u_batch, u_head, u_channel) + segment.origin * u_step;
    x += line.in(x_batch, x_head, x_channel) + segment.origin * x_step;
    x0 += line.in(x0_batch, x0_head, x0_channel) + segment.sequence * x0_step;

    auto start_of = [&](long long index) { return index <= 0 ? 0 : first + (index - 1) * block; };
    auto inputs_at = [&](long long i) {
        return load_vector<INPUT, CHANNELS>(reinterpret_cast<const INPUT*>(u + i * u_step));
    };
    auto coefficients_at = [&](long long i) {
        return load_vector<COEFFICIENT, COEFFICIENTS>(reinterpret_cast<const COEFFICIENT*>(a + i * a_step));
    };
    // The first input, with the initial state folded in.
    auto first_input = [&](int c) {
        Number value = inputs_at(0)[c];
        if (INITIAL)
            value = multiply_add(Number(coefficients_at(0)[COEFFICIENTS == 1 ? 0 : c]),
                                 load(reinterpret_cast<const Number*>(x0 + c * x0_channel)), value);
        return value;
    };

    const long long written = segment.index * groups * terms;  // the first block that is written
    const long long begin = start_of(written);
    long long end = start_of(written + groups * terms);
    if (end > steps || segment.index + 1 == segments) end = steps;
    if (SEQUENCES && begin >= end) return;
    long long index = written - (segment.index > 0 ? terms : 0);  // of the block
    bool follows = false;                                   // the group follows another one of this segment

    Reach of_group, of_both;  // from the start of the group, and of the one before
    of_group.clear();
    of_both.clear();
    Number state[CHANNELS], prefix[CHANNELS], local[CHANNELS], whole[COEFFICIENTS], product[COEFFICIENTS];
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) state[c] = prefix[c] = local[c] = number<Number>(0);
#pragma unroll
    for (int c = 0; c < COEFFICIENTS; ++c) whole[c] = product[c] = number<Number>(1);

    for (long long i = start_of(index), r = 0; i < end; ++index) {
        // Enter block r of a group.
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            state[c] = prefix[c];
            if (follows) state[c] = multiply_add(whole[COEFFICIENTS == 1 ? 0 : c], slot.get(r, c), prefix[c]);
            local[c] = number<Number>(0);
        }
        long long last = start_of(index + 1);
        if (last > end) last = end;
#pragma unroll 1
        for (const long long start = i; i < last; ++i) {
            const Vector<INPUT, CHANNELS> inputs = inputs_at(i);
            Vector<COEFFICIENT, COEFFICIENTS> coefficients;
            if (i > 0) coefficients = coefficients_at(i);
#pragma unroll
            for (int c = 0; c < COEFFICIENTS; ++c) {
                const Real coefficient = i == 0 ? Real(0) : magnitude(Number(coefficients[c]));
                Real sizes = 0;
#pragma unroll
                for (int k = c; k < CHANNELS; k += COEFFICIENTS)
                    sizes += magnitude(i == 0 ? first_input(k) : Number(inputs[k]));
                of_group.advance(c, coefficient, sizes);
                of_both.advance(c, coefficient, sizes);
            }
            Vector<OUTPUT, CHANNELS> outputs;
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) {
                if (i == 0) {
                    state[c] = prefix[c] = local[c] = first_input(c);
                } else {
                    const Number coefficient = coefficients[COEFFICIENTS == 1 ? 0 : c], zero = number<Number>(0);
                    const bool fresh = i == start;
                    state[c] = multiply_add(fresh && r == 0 && !follows ? zero : coefficient, state[c], inputs[c]);
                    prefix[c] = multiply_add(fresh && r == 0 ? zero : coefficient, prefix[c], inputs[c]);
                    local[c] = multiply_add(fresh ? zero : coefficient, local[c], inputs[c]);
                }
                Number result = state[c];
                if ((of_both.large || !finite_number(result)) && i >= begin) {
                    // By the definition: from the first step of the window on.
                    long long j = start_of(index - terms);
                    result = j == 0 ? first_input(c) : inputs_at(j)[c];
#pragma unroll 1
                    for (++j; j <= i; ++j)
                        result = multiply_add(Number(coefficients_at(j)[COEFFICIENTS == 1 ? 0 : c]), result,
                                              inputs_at(j)[c]);
                }
                outputs.set(c, result);
            }
#pragma unroll
            for (int c = 0; c < COEFFICIENTS; ++c) {
                const Number coefficient = i == 0 ? number<Number>(1) : Number(coefficients[c]);
                whole[c] = multiply(whole[c], coefficient);
                product[c] = i == start ? coefficient : multiply(product[c], coefficient);
            }
            if (i >= begin) store_vector(reinterpret_cast<OUTPUT*>(x + i * x_step), outputs);
        }
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) slot.put(r, c, local[c]);
#pragma unroll
        for (int c = 0; c < COEFFICIENTS; ++c) slot.put(r, CHANNELS + c, product[c]);
        if (++r == terms && i < end) {
            slot.close_group(terms);
            r = 0;
            follows = true;
            of_both = of_group;
            of_group.clear();
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) prefix[c] = number<Number>(0);
#pragma unroll
            for (int c = 0; c < COEFFICIENTS; ++c) whole[c] = number<Number>(1);
        }
    }
}
