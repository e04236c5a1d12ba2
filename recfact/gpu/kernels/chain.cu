// chain: the exact recurrence where there are too few channels to keep the GPU busy: time is split, and each part waits
// only for one number per channel of the part before it.
//
// A thread block takes a tile: WARPS times STEPS steps of 32 lines, a warp for each STEPS steps, which it holds in
// registers, so that memory is passed once. Each warp finds v, what its steps reach from zero, and G, the product of
// their coefficients. One warp more owns no steps, and so has registers free: it joins what the others found, publishes
// it, and looks back for the state before the tile (look_back.cuh). Then the others step through their registers again
// with the true state and write, while it publishes the state after the tile.
// Tiles are handed out by a counter in the order of time, so that the tiles that one waits for have always started.
//
// In a tile that the bounds of look_back.cuh don't hold of, or that a state above SAFE enters, warps step one after
// another, and the tiles behind wait for the last state.
//
// Macros: those of lines.cuh, and
//   WARPS     of a thread block, besides the one that looks back
//   RESIDENT  warps for which a multiprocessor is to have registers
//   INITIAL   1 if x0 holds the initial states
// `counters` holds the counter of tiles and then a flag for each tile, all 0 at the start. `aggregates` and `states`
// hold 32 * (CHANNELS + COEFFICIENTS) and 32 * CHANNELS numbers for each tile. In all three the tiles of a column are
// next to each other: those of the same lines.
#include "look_back.cuh"
#include "owners.cuh"

constexpr int TILE_STEPS = WARPS * STEPS;

// What the bounds are made of: the sum of |products| from the start, and of what |u| reaches by |a|.
using Bounds = Vector<Real, 2>;

struct Part {
    Aggregate aggregate;
    Bounds bounds;
};

// What a warp's steps give.
__device__ __forceinline__ Part fold(const Chunk& chunk) {
    Part part;
    State& v = part.aggregate.v;
    Products& product = part.aggregate.products;
    Real reach[COEFFICIENTS], products = 0, reaches = 0;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        Real sizes[COEFFICIENTS];  // channels that share coefficients share a bound
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            const Number input = chunk.input(s, c), coefficient = chunk.coefficient(s, c);
            v.items[c] = s == 0 ? input : multiply_add(coefficient, v.items[c], input);
            if (c < COEFFICIENTS) {
                product.items[c] = s == 0 ? coefficient : multiply(product.items[c], coefficient);
                products += magnitude(product.items[c]);
                sizes[c] = magnitude(input);
            } else {
                sizes[0] += magnitude(input);
            }
        }
#pragma unroll
        for (int k = 0; k < COEFFICIENTS; ++k) {
            reach[k] = s == 0 ? sizes[k] : fma(magnitude(Number(chunk.coefficient(s, k))), reach[k], sizes[k]);
            reaches += reach[k];
        }
    }
    part.bounds.items[0] = products;
    part.bounds.items[1] = reaches;
    return part;
}

// Step through a chunk from the true state, and write all of it.
__device__ __forceinline__ void write_whole(Chunk& chunk, State state, char* x, STRIDE x_step) {
    chunk.forget_widened();
    Vector<OUTPUT, WIDTH> outputs;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            state.items[c] = multiply_add(chunk.coefficient(s, c), state.items[c], chunk.input(s, c));
            outputs.set(TIME_CONTIGUOUS ? in_access(s, TIMES) : c, state.items[c]);
        }
        if (s % TIMES == TIMES - 1)
            store_vector(const_cast<OUTPUT*>(at<OUTPUT>(x, s + 1 - TIMES, x_step)) + access_start(TIMES), outputs);
    }
}

// The same of a chunk with `here` steps, one by one, of which nothing is written without `owns`. Returns the last
// state; a step that isn't there leaves it alone, also one that isn't finite.
__device__ __forceinline__ State write_steps(Chunk& chunk, State state, char* x, STRIDE x_step, int here, bool owns) {
    chunk.forget_widened();
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        if (s < here) {
            Vector<OUTPUT, CHANNELS> outputs;
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) {
                state.items[c] = multiply_add(chunk.coefficient(s, c), state.items[c], chunk.input(s, c));
                outputs.set(c, state.items[c]);
            }
            if (owns) store_vector(reinterpret_cast<OUTPUT*>(x), outputs);
            x += x_step;
        }
    }
    return state;
}

// What the warps of a thread block tell each other, in shared memory.
struct Board {
    static constexpr int PART_BYTES = AGGREGATE_BYTES + 32 * Bounds::BYTES;
    static constexpr int BYTES = WARPS * PART_BYTES + STATE_BYTES;

    char* memory;
    int lane;

    __device__ __forceinline__ void put(int warp, const Aggregate& aggregate) const {
        store_lane_shared(place(warp), lane, aggregate.v);
        store_lane_shared(place(warp) + STATE_BYTES, lane, aggregate.products);
    }
    __device__ __forceinline__ void put(int warp, const Part& part) const {
        put(warp, part.aggregate);
        store_lane_shared(place(warp) + AGGREGATE_BYTES, lane, part.bounds);
    }
    __device__ __forceinline__ Aggregate aggregate(int warp) const {
        return {load_lane_shared<State>(place(warp), lane),
                load_lane_shared<Products>(place(warp) + STATE_BYTES, lane)};
    }
    // The state that enters: the tile, or in turn a warp.
    __device__ __forceinline__ void put(const State& state) const { store_lane_shared(place(WARPS), lane, state); }
    __device__ __forceinline__ State state() const { return load_lane_shared<State>(place(WARPS), lane); }

    // Make each part's aggregate that of all up to it, and return whether the tile is within the bounds.
    __device__ __forceinline__ bool join() const {
        Aggregate together;
        Real before = 1, reach = 0;  // of the parts before: the bounds of the product and of the states
        bool bounded = true;
#pragma unroll 4
        for (int w = 0; w < WARPS; ++w) {
            const Aggregate next = aggregate(w);
            const Bounds bounds = load_lane_shared<Bounds>(place(w) + AGGREGATE_BYTES, lane);
            const Real products = bounds.items[0], reaches = bounds.items[1], largest = next.largest_product();
            bounded = bounded && products * before <= SAFE && fma(products, reach, reaches) <= SAFE;
            before *= largest;
            reach = fma(largest, reach, reaches);
            if (w == 0) {
                together = next;
            } else {
                together.append(next);
                put(w, together);
            }
        }
        return __all_sync(EVERYONE, bounded);
    }

private:
    __device__ __forceinline__ char* place(int warp) const { return memory + warp * PART_BYTES; }
};

// In a tile whose warps step one after another, each turn ends with a barrier.
__device__ __forceinline__ void wait_turns(int first, int end) {
#pragma unroll 1
    for (int turn = first; turn < end; ++turn) block_barrier();
}

extern "C" __global__ void __launch_bounds__((WARPS + 1) * 32, RESIDENT / (WARPS + 1)) chain(
    const char* a, const char* u, char* x, const char* x0, unsigned int* counters, char* aggregates, char* states,
    long long steps,    // of the recurrence
    long long columns,  // of tiles: their lines, 32 to a tile
    long long batch, long long heads, long long lines,  // extents; `lines` of a head are its channels / CHANNELS
    long long a_batch, long long a_head, long long a_channel, STRIDE a_step,
    long long u_batch, long long u_head, long long u_channel, STRIDE u_step,
    long long x_batch, long long x_head, long long x_channel, STRIDE x_step,
    long long x0_batch, long long x0_head, long long x0_channel) {
    __shared__ __align__(16) char memory[Board::BYTES];
    __shared__ unsigned int ticket, in_turn;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) store_shared(&ticket, atomicAdd(counters, 1u));
    block_barrier();
    const unsigned int index = load_shared(&ticket), row_of_tiles = static_cast<unsigned int>(columns);
    const unsigned int tile = index / row_of_tiles, column = index - tile * row_of_tiles;

    // A lane without a line follows the last one, and writes nothing to global memory.
    const long long all = batch * heads * lines, own = column * 32ll + lane;
    const bool owns = own < all;
    const long long taken = owns ? own : all - 1;
    const Line line(taken, heads, lines);
    const Board board = {memory, lane};

    // Both kinds of warps meet at barriers of their own, so that none holds registers that only the other needs.
    if (warp == WARPS) {
        const long long first = column * ((steps + TILE_STEPS - 1) / TILE_STEPS);  // tile of the column
        const Column tiles = {counters + 1 + first, aggregates + first * AGGREGATE_BYTES, states + first * STATE_BYTES,
                              lane, lane - static_cast<int>(own - taken), owns};
        block_barrier();
        const bool bounded = board.join();
        State state;
        if (tile > 0) {
            if (bounded) tiles.publish(tile, board.aggregate(WARPS - 1));
            state = tiles.before(tile);
        } else {
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) {
                state.items[c] = number<Number>(0);
                if (INITIAL)
                    state.items[c] = load(reinterpret_cast<const Number*>(
                        x0 + line.in(x0_batch, x0_head, x0_channel) + c * x0_channel));
            }
        }
        board.put(state);
        const bool at_once = __all_sync(EVERYONE, bounded && is_safe(state));
        if (lane == 0) store_shared(&in_turn, at_once ? 0u : 1u);
        block_barrier();
        if (at_once) {
            state = board.aggregate(WARPS - 1).passes(state);
        } else {
            wait_turns(0, WARPS);
            state = board.state();
        }
        tiles.publish(tile, state);
        return;
    }

    const long long position = static_cast<long long>(tile) * TILE_STEPS + warp * STEPS;
    const long long left = steps - position;
    const int here = left < STEPS ? static_cast<int>(left < 0 ? 0 : left) : STEPS;  // steps that the warp has
    const bool whole = here == STEPS && (INITIAL || position > 0);
    a += line.in(a_batch, a_head, a_channel) + position * a_step;
    u += line.in(u_batch, u_head, u_channel) + position * u_step;
    x += line.in(x_batch, x_head, x_channel) + position * x_step;
    Chunk chunk;
    if (whole) {
        chunk.load(a, a_step, u, u_step);
    } else {
#pragma unroll
        for (int s = 0; s < STEPS; ++s)
            chunk.load_step(s, a + static_cast<long long>(a_step) * s, u + static_cast<long long>(u_step) * s,
                            s < here, INITIAL || position + s > 0);
    }
    board.put(warp, fold(chunk));
    block_barrier();
    block_barrier();  // in between the last warp looks back
    const bool waits = load_shared(&in_turn);
    if (whole && !waits && !owns) return;
    if (waits) wait_turns(0, warp);
    State state = board.state();
    if (!waits && warp > 0) state = board.aggregate(warp - 1).passes(state);
    if (whole && !waits) {
        write_whole(chunk, state, x, x_step);
    } else {
        state = write_steps(chunk, state, x, x_step, here, owns);
    }
    if (waits) {
        board.put(state);
        wait_turns(warp, WARPS);
    }
}
