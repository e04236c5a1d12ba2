// chain: the exact recurrence where there are too few channels to keep the GPU busy: time is split, and each part waits
// only for one number per channel of the part before it.
//
// A thread block takes a tile: WARPS times STEPS steps of 32 lines, a warp for each STEPS steps. It holds the tile in
// registers, so memory is passed once. Each warp finds v, what its steps reach from zero, and G, the product of their
// coefficients; the first warp combines them and publishes the tile's. The state before the tile comes by decoupled
// look-back (Merrill and Garland 2016): back to the nearest tile whose last state is published, and from there FORWARD,
//
//   c <- G_k c + v_k,
//
// through the tiles in between. So a state has the same bits however far the look-back went: the order of operations
// doesn't depend on the timing of thread blocks. Then all warps step through their registers again with the true state.
// Tiles are handed out by a counter in the order of time, so that the tiles that one waits for have always started.
//
// Where a state overflows on its way, G c + v isn't what the plain steps give. Bounds rule that out: with the sums of
// |products| from the tile's start and of what |u| reaches by |a| both at most SAFE, and |c| at most SAFE too, no state
// of the tile is above SAFE^2 + SAFE. A tile that isn't within these bounds itself publishes no aggregate. One that a
// larger state enters isn't passed by its aggregate. In both, warps step one after another, and the tiles behind wait
// for the last state.
//
// Macros: those of lines.cuh, and
//   WARPS     of a thread block
//   INITIAL   1 if x0 holds the initial states
// `counters` holds the counter of tiles and then a flag for each tile, all 0 at the start. `aggregates` and `states`
// hold 32 * (CHANNELS + coefficients) and 32 * CHANNELS numbers for each tile.
#include "lines.cuh"

constexpr unsigned int EVERYONE = 0xffffffffu;
constexpr unsigned int AGGREGATE = 1, STATE = 2;  // what a flag says is published
constexpr int NUMBERS = CHANNELS + COEFFICIENTS;  // of an aggregate: v of each channel, then G of each coefficient

using Real = Magnitude<Number>::type;
constexpr Real SAFE = Magnitude<Number>::SAFE;

struct Aggregate {
    Number numbers[NUMBERS];

    __device__ __forceinline__ Number product(int c) const { return numbers[CHANNELS + (COEFFICIENTS == 1 ? 0 : c)]; }

    __device__ __forceinline__ Real largest_product() const {
        Real largest = magnitude(product(0));
#pragma unroll
        for (int c = 1; c < COEFFICIENTS; ++c) largest = fmax(largest, magnitude(product(c)));
        return largest;
    }

    // What this and then `next` give together.
    __device__ __forceinline__ void append(const Aggregate& next) {
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) numbers[c] = multiply_add(next.product(c), numbers[c], next.numbers[c]);
#pragma unroll
        for (int c = CHANNELS; c < NUMBERS; ++c) numbers[c] = multiply(next.numbers[c], numbers[c]);
    }
};

struct States {
    Number numbers[CHANNELS];

    __device__ __forceinline__ void pass(const Aggregate& part) {
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) numbers[c] = multiply_add(part.product(c), numbers[c], part.numbers[c]);
    }
    // Whether all that the warp holds are within the bound.
    __device__ __forceinline__ bool are_safe() const {
        bool all = true;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) all = all && magnitude(numbers[c]) <= SAFE;
        return __all_sync(EVERYONE, all);
    }
};

// Wait until everyone in the warp has seen `least` in a flag, and return whether it says STATE to all.
__device__ __forceinline__ bool wait_for(const unsigned int* flag, unsigned int least) {
    unsigned int seen;
    do {
        seen = load_acquire(flag);
    } while (!__all_sync(EVERYONE, seen >= least));
    return __all_sync(EVERYONE, seen == STATE);
}

// After the barrier of the warp the release of one lane is that of what all have stored.
__device__ __forceinline__ void publish(unsigned int* flag, unsigned int what, int lane) {
    __syncwarp();
    if (lane == 0) store_release(flag, what);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32, 1) chain(
    const char* a, const char* u, char* x, const char* x0, unsigned int* counters, char* aggregates, char* states,
    long long steps,    // of the recurrence
    long long columns,  // of tiles: their lines, 32 to a tile
    long long batch, long long heads, long long lines,  // extents; `lines` of a head are its channels / CHANNELS
    long long a_batch, long long a_head, long long a_channel, STRIDE a_step,
    long long u_batch, long long u_head, long long u_channel, STRIDE u_step,
    long long x_batch, long long x_head, long long x_channel, STRIDE x_step,
    long long x0_batch, long long x0_head, long long x0_channel) {
    // Of each warp: its aggregate, then the states before it; and the same of the tile.
    __shared__ Number parts[(WARPS + 1) * NUMBERS * 32];
    __shared__ Real bounds[WARPS * 2 * 32];  // of each warp: the sum of |products|, and of what |u| reaches
    __shared__ unsigned int ticket, wild;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) store_shared(&ticket, atomicAdd(counters, 1u));
    __syncthreads();
    const long long tile = load_shared(&ticket);
    const long long row_of_tiles = tile / columns, column = tile - row_of_tiles * columns;

    // A lane without a line follows the last one, and writes nothing to global memory.
    const long long all = batch * heads * lines;
    const bool owns = column * 32 + lane < all;
    const long long line = owns ? column * 32 + lane : all - 1;
    const long long row = line / lines, channel = (line - row * lines) * CHANNELS;
    const long long b = row / heads, h = row - b * heads;
    const long long position = (row_of_tiles * WARPS + warp) * STEPS;
    a += b * a_batch + h * a_head + channel * a_channel + position * a_step;
    u += b * u_batch + h * u_head + channel * u_channel + position * u_step;
    x += b * x_batch + h * x_head + channel * x_channel + position * x_step;

    Chunk chunk;
    const long long left = steps - position;
    const int here = left < STEPS ? static_cast<int>(left < 0 ? 0 : left) : STEPS;  // steps that the warp has
    const bool whole = here == STEPS && (INITIAL || position > 0);
    if (whole) {
#pragma unroll
        for (int k = 0; k < ACCESSES; ++k) chunk.load_inputs(k, u, u_step);
#pragma unroll
        for (int k = 0; k < STEPS / COEFFICIENT_STEPS; ++k) chunk.load_coefficients(k, a, a_step);
    } else {
#pragma unroll
        for (int s = 0; s < STEPS; ++s)
            chunk.load_step(s, a + static_cast<long long>(a_step) * s, u + static_cast<long long>(u_step) * s,
                            s < here, INITIAL || position + s > 0);
    }

    Aggregate part;
    Real reach[COEFFICIENTS], products = 0, reaches = 0;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int k = 0; k < COEFFICIENTS; ++k) {
            // Channels that share coefficients share a bound.
            Real sizes = 0;
#pragma unroll
            for (int c = k; c < CHANNELS; c += COEFFICIENTS) sizes += magnitude(chunk.input(s, c));
            reach[k] = s == 0 ? sizes : fma(magnitude(Number(chunk.coefficient(s, k))), reach[k], sizes);
            reaches += reach[k];
        }
    }
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) {
        Number v = chunk.input(0, c), product = chunk.coefficient(0, c);
        if (c < COEFFICIENTS) products += magnitude(product);
#pragma unroll
        for (int s = 1; s < STEPS; ++s) {
            v = multiply_add(chunk.coefficient(s, c), v, chunk.input(s, c));
            product = multiply(product, chunk.coefficient(s, c));
            if (c < COEFFICIENTS) products += magnitude(product);
        }
        part.numbers[c] = v;
        if (c < COEFFICIENTS) part.numbers[CHANNELS + c] = product;
    }
    auto put_part = [&](int w, const Aggregate& numbers) {
#pragma unroll
        for (int k = 0; k < NUMBERS; ++k) store_shared(&parts[(w * NUMBERS + k) * 32 + lane], numbers.numbers[k]);
    };
    put_part(warp, part);
    store_shared(&bounds[warp * 64 + lane], products);
    store_shared(&bounds[warp * 64 + 32 + lane], reaches);
    __syncthreads();

    const int slot = owns ? lane : static_cast<int>(line - column * 32);  // of the lane's line
    unsigned int* flags = counters + 1 + column;  // of this column, `columns` apart
    Number* tile_aggregates = reinterpret_cast<Number*>(aggregates) + column * NUMBERS * 32 + slot;
    Number* tile_states = reinterpret_cast<Number*>(states) + column * CHANNELS * 32 + slot;
    States state;
    if (warp == 0) {
        auto part_of = [&](int w) {
            Aggregate other;
#pragma unroll
            for (int k = 0; k < NUMBERS; ++k) other.numbers[k] = load_shared(&parts[(w * NUMBERS + k) * 32 + lane]);
            return other;
        };
        Aggregate together;
        Real before_w = 1, reach_w = 0;  // of the warps before: the product's and the states' bounds
        bool bounded = true;
#pragma unroll 1
        for (int w = 0; w < WARPS; ++w) {
            const Aggregate next = part_of(w);
            const Real in_products = load_shared(&bounds[w * 64 + lane]);
            const Real in_reach = load_shared(&bounds[w * 64 + 32 + lane]);
            bounded = bounded && in_products * before_w <= SAFE && fma(in_products, reach_w, in_reach) <= SAFE;
            const Real largest = next.largest_product();
            before_w *= largest;
            reach_w = fma(largest, reach_w, in_reach);
            if (w == 0) {
                together = next;
            } else {
                together.append(next);
            }
        }
        const bool calm = __all_sync(EVERYONE, bounded);
        if (calm && row_of_tiles > 0) {
#pragma unroll
            for (int k = 0; k < NUMBERS; ++k)
                if (owns) store(tile_aggregates + (row_of_tiles * columns * NUMBERS + k) * 32, together.numbers[k]);
            publish(flags + row_of_tiles * columns, AGGREGATE, lane);
        }
        put_part(WARPS, together);  // out of the way of what looking back takes

        auto read_state = [&](long long k) {
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) state.numbers[c] = load(tile_states + (k * columns * CHANNELS + c) * 32);
        };
        if (row_of_tiles == 0) {
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) {
                state.numbers[c] = number<Number>(0);
                if (INITIAL)
                    state.numbers[c] = load(reinterpret_cast<const Number*>(
                        x0 + b * x0_batch + h * x0_head + (channel + c) * x0_channel));
            }
        } else {
            long long k = row_of_tiles - 1;
            while (!wait_for(flags + k * columns, AGGREGATE)) --k;
            read_state(k);
#pragma unroll 1
            for (++k; k < row_of_tiles; ++k) {
                if (!state.are_safe()) {
                    wait_for(flags + k * columns, STATE);
                    read_state(k);
                    continue;
                }
                Aggregate other;
#pragma unroll
                for (int i = 0; i < NUMBERS; ++i)
                    other.numbers[i] = load(tile_aggregates + (k * columns * NUMBERS + i) * 32);
                state.pass(other);
            }
        }

        // The states before each warp; then the one after the tile.
        const bool plain = calm && state.are_safe();
#pragma unroll 1
        for (int w = 0; w < WARPS; ++w) {
            const Aggregate other = part_of(w);
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) store_shared(&parts[(w * NUMBERS + c) * 32 + lane], state.numbers[c]);
            state.pass(other);
        }
        // The tile's aggregate passes the state on in one operation, as it does for those who look back.
        States before;
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) before.numbers[c] = load_shared(&parts[c * 32 + lane]);
        before.pass(part_of(WARPS));
        if (plain) {
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c)
                if (owns) store(tile_states + (row_of_tiles * columns * CHANNELS + c) * 32, before.numbers[c]);
            publish(flags + row_of_tiles * columns, STATE, lane);
        }
        if (lane == 0) store_shared(&wild, plain ? 0u : 1u);
    }
    __syncthreads();
    chunk.forget_widened();

    // All warps at once or, in a tile where something might overflow, one after another.
    const bool in_turn = load_shared(&wild) != 0;
#pragma unroll 1
    for (int turn = 0; turn < (in_turn ? WARPS : 1); ++turn) {
        if (!in_turn || turn == warp) {
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) state.numbers[c] = load_shared(&parts[(warp * NUMBERS + c) * 32 + lane]);
            Vector<OUTPUT, WIDTH> outputs;
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
#pragma unroll
                for (int c = 0; c < CHANNELS; ++c) {
                    const int k = TIME_CONTIGUOUS ? place(s % TIMES) : c;
                    // A step that isn't there leaves the state alone, also one that isn't finite.
                    if (s < here)
                        state.numbers[c] = multiply_add(chunk.coefficient(s, c), state.numbers[c], chunk.input(s, c));
                    outputs.set(k, state.numbers[c]);
                }
                if (whole) {
                    if (owns && s % TIMES == TIMES - 1)
                        store_vector(const_cast<OUTPUT*>(at<OUTPUT>(x, s + 1 - TIMES, x_step)) + LOWEST, outputs);
                } else if (owns && s < here) {
                    Vector<OUTPUT, CHANNELS> single;
#pragma unroll
                    for (int c = 0; c < CHANNELS; ++c) single.set(c, state.numbers[c]);
                    store_vector(const_cast<OUTPUT*>(at<OUTPUT>(x, s, x_step)), single);
                }
            }
            if (in_turn) {
#pragma unroll
                for (int c = 0; c < CHANNELS; ++c) {
                    if (warp + 1 < WARPS) {
                        store_shared(&parts[((warp + 1) * NUMBERS + c) * 32 + lane], state.numbers[c]);
                    } else if (owns) {
                        store(tile_states + (row_of_tiles * columns * CHANNELS + c) * 32, state.numbers[c]);
                    }
                }
                if (warp + 1 == WARPS) publish(flags + row_of_tiles * columns, STATE, lane);
            }
        }
        if (in_turn) __syncthreads();
    }
}
