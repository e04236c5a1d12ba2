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
// With SEQUENCES, time holds sequences of their own, one behind the other, and tiles take no notice of where they end.
// A warp in whose steps one starts finds the state after them, as the plain steps give it. The warps behind go on from
// there as if the tile began with them, so what one sequence holds changes no bit of another. And such a tile mostly
// knows its last state before it looks back.
//
// With KEPT, the states after so many steps each, of all time or of a sequence, go to `kept` as they are computed; or if
// it is negative, the last state of each. If nothing else is written, only warps that have one of them step again.
//
// Macros: those of lines.cuh, and
//   WARPS     of a thread block, besides the one that looks back
//   RESIDENT  warps for which a multiprocessor is to have registers
//   INITIAL   1 if x0 holds the initial states, and with SEQUENCES those of each sequence
//   SEQUENCES 1 if time holds sequences of their own
//   KEPT      from one state that is kept to the next; -1 if the last of a sequence is; 0 if none is
//   WRITES    1 if states go to `x`, 0 if only those that are kept are wanted
// `counters` holds the counter of tiles and then a flag for each tile, all 0 at the start. `aggregates` and `states`
// hold 32 * (CHANNELS + COEFFICIENTS) and 32 * CHANNELS numbers for each tile. In all three the tiles of a column are
// next to each other: those of the same lines.
#include "look_back.cuh"
#include "owners.cuh"
#include "sequences.cuh"

constexpr int TILE_STEPS = WARPS * STEPS;
constexpr unsigned int ALL_PARTS = (1u << WARPS) - 1;  // of a tile, the steps of a warp each: a bit for each

__device__ __forceinline__ State initial_state(const char* x0, long long x0_channel) {
    State state;
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c)
        state.items[c] =
            INITIAL ? load(reinterpret_cast<const Number*>(x0 + c * x0_channel)) : number<Number>(0);
    return state;
}

// Where sequences start in a warp's steps, and what enters them.
struct Entrances {
    Starts starts;
    const char* x0;  // of the lane's line
    long long x0_channel, x0_step;

    // Let the initial state of a sequence take the place of a state, if it starts at this step.
    __device__ __forceinline__ bool enter(int step, State& state) const {
        if (!SEQUENCES || !starts.at(step)) return false;
        state = initial_state(x0 + __shfl_sync(EVERYONE, starts.sequence, step) * x0_step, x0_channel);
        return true;
    }
};

// What the bounds are made of: the sum of |products| from the start, and of what |u| reaches by |a|.
using Bounds = Vector<Real, 2>;

struct Part {
    Aggregate aggregate;
    Bounds bounds;
};

// What a warp's steps give. Where a sequence starts in them, only v counts: the state behind them.
__device__ __forceinline__ Part fold(const Chunk& chunk, const Entrances& entrances) {
    Part part;
    State& v = part.aggregate.v;
    Products& product = part.aggregate.products;
    Real reach[COEFFICIENTS], products = 0, reaches = 0;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        Real sizes[COEFFICIENTS];  // channels that share coefficients share a bound
        const bool enters = entrances.enter(s, v);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            const Number coefficient = chunk.coefficient(s, c);
            Number input = chunk.input(s, c);
            if (enters && INITIAL) input = multiply_add(coefficient, v.items[c], input);
            v.items[c] = s == 0 || enters ? input : multiply_add(coefficient, v.items[c], input);
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
            const Real through = magnitude(Number(chunk.coefficient(s, k)));
            reach[k] = s == 0 ? sizes[k] : fma(through, reach[k], sizes[k]);
            reaches += reach[k];
        }
    }
    part.bounds.items[0] = products;
    part.bounds.items[1] = reaches;
    return part;
}

// One step from the true state. A coefficient that nothing goes through isn't asked.
__device__ __forceinline__ void advance(const Chunk& chunk, int step, State& state, const Entrances& entrances) {
    const bool enters = entrances.enter(step, state);
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) {
        const Number coefficient = enters && !INITIAL ? number<Number>(0) : Number(chunk.coefficient(step, c));
        state.items[c] = multiply_add(coefficient, state.items[c], chunk.input(step, c));
    }
}

// Step through a chunk from the true state, and write all of it. A lane that doesn't own its line is here only with
// SEQUENCES, because what enters one is asked for together. `keep` takes each step and its state.
template <class Keep>
__device__ __forceinline__ void write_whole(Chunk& chunk, State state, char* x, STRIDE x_step, bool owns,
                                            const Entrances& entrances, Keep keep) {
    chunk.forget_widened();
    Vector<OUTPUT, WIDTH> outputs;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        advance(chunk, s, state, entrances);
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) outputs.set(TIME_CONTIGUOUS ? in_access(s, TIMES) : c, state.items[c]);
        keep(s, state);
        if (WRITES && s % TIMES == TIMES - 1 && (!SEQUENCES || owns))
            store_vector(const_cast<OUTPUT*>(at<OUTPUT>(x, s + 1 - TIMES, x_step)) + access_start(TIMES), outputs);
    }
}

// The same of a chunk with `here` steps, one by one, of which nothing is written without `owns`. Returns the last
// state; a step that isn't there leaves it alone, also one that isn't finite.
template <class Keep>
__device__ __forceinline__ State write_steps(Chunk& chunk, State state, char* x, STRIDE x_step, int here, bool owns,
                                             const Entrances& entrances, Keep keep) {
    chunk.forget_widened();
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        if (s < here) {
            advance(chunk, s, state, entrances);
            Vector<OUTPUT, CHANNELS> outputs;
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) outputs.set(c, state.items[c]);
            if (WRITES && owns) store_vector(reinterpret_cast<OUTPUT*>(x), outputs);
            keep(s, state);
            x += x_step;
        }
    }
    return state;
}

// What the warps of a thread block tell each other, in shared memory.
struct Board {
    static constexpr int PART_BYTES = AGGREGATE_BYTES + 32 * Bounds::BYTES;
    static constexpr int STATES = WARPS * PART_BYTES, TURN = STATES + SEQUENCES * STATE_BYTES;
    static constexpr int BYTES = TURN + STATE_BYTES;

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
    // The state that enters the tile, and the one that enters a warp in its turn.
    __device__ __forceinline__ void put(const State& state) const { store_lane_shared(memory + STATES, lane, state); }
    __device__ __forceinline__ State state() const { return load_lane_shared<State>(memory + STATES, lane); }
    __device__ __forceinline__ void put_turn(const State& state) const {
        store_lane_shared(memory + TURN, lane, state);
    }
    __device__ __forceinline__ State turn() const { return load_lane_shared<State>(memory + TURN, lane); }

    // Make each part's aggregate that of all up to it, from the tile's start or the last part on in which a sequence
    // starts (`begun`). Return which are within the bounds.
    __device__ __forceinline__ unsigned int join(unsigned int begun) const {
        Aggregate together;
        Real before = 1, reach = 0;  // of the parts before: the bounds of the product and of the states
        bool bounded = true;
        unsigned int all_bounded = 0;
#pragma unroll 4
        for (int w = 0; w < WARPS; ++w) {
            const Aggregate next = aggregate(w);
            const Bounds bounds = load_lane_shared<Bounds>(place(w) + AGGREGATE_BYTES, lane);
            const Real products = bounds.items[0], reaches = bounds.items[1], largest = next.largest_product();
            const bool begins = SEQUENCES && begun >> w & 1;
            bounded = bounded && products * before <= SAFE && fma(products, reach, reaches) <= SAFE;
            before *= largest;
            reach = fma(largest, reach, reaches);
            if (w == 0 || begins) {
                together = next;
            } else {
                together.append(next);
                put(w, together);
            }
            if (begins) {  // its v is the state behind it
                bounded = is_safe(next.v);
                before = 1, reach = 0;
            }
            if (SEQUENCES && __all_sync(EVERYONE, bounded)) all_bounded |= 1u << w;
        }
        if (SEQUENCES) return all_bounded;
        return __all_sync(EVERYONE, bounded) ? ALL_PARTS : 0;
    }

private:
    __device__ __forceinline__ char* place(int warp) const { return memory + warp * PART_BYTES; }
};

// In which parts of a tile sequences start.
__device__ __forceinline__ unsigned int parts_begun(const long long* starts, long long sequences, long long begin,
                                                    int lane) {
    begin += lane * STEPS;
    const long long end = begin + STEPS;
    const long long last = last_index(sequences, [&](long long k) { return load(starts + k) < end; });
    return __ballot_sync(EVERYONE, load(starts + last) >= begin) & ALL_PARTS;
}

// In a tile whose warps step one after another, each turn ends with a barrier.
__device__ __forceinline__ void wait_turns(int first, int end) {
#pragma unroll 1
    for (int turn = first; turn < end; ++turn) block_barrier();
}

extern "C" __global__ void __launch_bounds__((WARPS + 1) * 32, RESIDENT / (WARPS + 1)) chain(
    const char* a, const char* u, char* x, const char* x0,
#if KEPT
    char* kept,
#endif
    unsigned int* counters, char* aggregates, char* states,
    const long long* starts,  // of each sequence in the order of the sweep, and the end of the last one
    long long sequences,
    long long steps,    // of the recurrence
    long long columns,  // of tiles: their lines, 32 to a tile
    long long batch, long long heads, long long lines,  // extents; `lines` of a head are its channels / CHANNELS
    long long a_batch, long long a_head, long long a_channel, STRIDE a_step,
    long long u_batch, long long u_head, long long u_channel, STRIDE u_step,
    long long x_batch, long long x_head, long long x_channel, STRIDE x_step,
    long long x0_batch, long long x0_head, long long x0_channel, long long x0_step
#if KEPT
    , long long kept_batch, long long kept_head, long long kept_channel, STRIDE kept_step
#endif
) {
    __shared__ __align__(16) char memory[Board::BYTES];
    __shared__ unsigned int ticket, parts_passed, parts_begin;
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
    x0 += line.in(x0_batch, x0_head, x0_channel);

    // Both kinds of warps meet at barriers of their own, so that none holds registers that only the other needs.
    if (warp == WARPS) {
        const long long first = column * ((steps + TILE_STEPS - 1) / TILE_STEPS);  // tile of the column
        const Column tiles = {counters + 1 + first, aggregates + first * AGGREGATE_BYTES, states + first * STATE_BYTES,
                              lane, lane - static_cast<int>(own - taken), owns};
        block_barrier();
        unsigned int begun = 0;
#if SEQUENCES
        begun = parts_begun(starts, sequences, static_cast<long long>(tile) * TILE_STEPS, lane);
#endif
        const unsigned int bounded = board.join(begun);
        const bool passable = bounded >> (WARPS - 1) & 1, known = begun != 0 && passable;
        if (known) {
            tiles.publish(tile, board.aggregate(WARPS - 1).v);
        } else if (tile > 0 && passable) {
            tiles.publish(tile, board.aggregate(WARPS - 1));
        }
        State state = tile > 0 ? tiles.before(tile) : initial_state(x0, x0_channel);
        board.put(state);
        // Parts before the first in which a sequence starts go on from the tile's state.
        const unsigned int leading = begun == 0 ? ALL_PARTS : (begun & -begun) - 1;
        const unsigned int passed = bounded & ~(__all_sync(EVERYONE, is_safe(state)) ? 0u : leading);
        if (lane == 0) {
            store_shared(&parts_passed, passed);
            if (SEQUENCES) store_shared(&parts_begin, begun);
        }
        block_barrier();
        if (passed == ALL_PARTS) {
            state = board.aggregate(WARPS - 1).passes(state);
        } else {
            wait_turns(0, WARPS);
            state = board.turn();
        }
        if (!known) tiles.publish(tile, state);
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
    Entrances entrances = {{}, x0, x0_channel, x0_step};
    bool keeps_any = true;
#if SEQUENCES
    entrances.starts.find(starts, sequences, position, lane);
#if KEPT
    // Lane s asks for step s: how many steps of its sequence have passed, and where their last state goes.
    const long long sequence = entrances.starts.sequence, origin = load(starts + sequence);
    const long long passed_steps = position + lane + 1 - origin;
    const long long own_row = KEPT < 0 ? sequence : origin / KEPT + passed_steps / KEPT - 1;
    const bool ends = KEPT < 0 && load(starts + sequence + 1) - origin == passed_steps;
    const unsigned int keeps = __ballot_sync(EVERYONE, KEPT < 0 ? ends : passed_steps % KEPT == 0);
    keeps_any = keeps != 0;
#endif
#elif KEPT
    keeps_any = here > 0 && here == left;
#endif
    board.put(warp, fold(chunk, entrances));
    block_barrier();
    block_barrier();  // in between the last warp looks back
    const unsigned int passed = load_shared(&parts_passed);
    const bool waits = passed != ALL_PARTS;
    if (!SEQUENCES && whole && !waits && !owns) return;
    if (!WRITES && !waits && !keeps_any) return;
    if (waits) wait_turns(0, warp);
    State state = board.state();
    if (warp > 0) {
        if (!(passed >> (warp - 1) & 1)) {
            state = board.turn();
        } else if (SEQUENCES && load_shared(&parts_begin) & ((1u << warp) - 1)) {
            state = board.aggregate(warp - 1).v;
        } else {
            state = board.aggregate(warp - 1).passes(state);
        }
    }
#if KEPT
    kept += line.in(kept_batch, kept_head, kept_channel);
#endif
    // Keep the state that a step ended in. With SEQUENCES, all lanes ask in which row together.
    auto keep = [&](int s, const State& reached) {
#if KEPT
#if SEQUENCES
        if (!(keeps >> s & 1)) return;
        const long long row = __shfl_sync(EVERYONE, own_row, s);
#else
        static_assert(STEPS % KEPT == 0 || KEPT % STEPS == 0, "states are kept at the same steps of all chunks");
        constexpr int EVERY = KEPT < 0 ? 1 : STEPS < KEPT ? STEPS : KEPT;
        if ((s + 1) % EVERY != 0 || (KEPT < 0 ? s + 1 != left : (position + s + 1) % KEPT != 0)) return;
        const long long row = KEPT < 0 ? 0 : (position + s) / KEPT;
#endif
        if (owns) store_vector(reinterpret_cast<Number*>(kept + row * kept_step), reached);
#endif
    };
    if (whole && !waits) {
        write_whole(chunk, state, x, x_step, owns, entrances, keep);
    } else {
        state = write_steps(chunk, state, x, x_step, here, owns, entrances, keep);
    }
    if (waits) {
        board.put_turn(state);
        wait_turns(warp, WARPS);
    }
}
