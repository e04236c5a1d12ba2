// Decoupled look-back (Merrill and Garland 2016): how the tiles of `chain` get the state before them.
//
// The tiles of a column follow one another in time. Each publishes its aggregate, v, what its steps reach from zero,
// and G, the product of their coefficients; and later its state, the one after its last step. A tile goes back to the
// nearest tile whose state is published, and from there FORWARD through the aggregates in between,
//
//   c <- G_k c + v_k.
//
// So a state has the same bits however far the look-back went: the order of operations doesn't depend on the timing of
// thread blocks.
//
// Where a state overflows on its way, G c + v isn't what the plain steps give. Bounds rule that out: with the sums of
// |products| from the tile's start and of what |u| reaches by |a| both at most SAFE, and |c| at most SAFE too, no state
// of the tile is above SAFE^2 + SAFE. A tile that isn't within these bounds itself publishes no aggregate. One that a
// larger state enters isn't passed by its aggregate: whoever would have to waits for the state of the tile before it.
//
// A warp looks at the flags of 32 tiles at once and takes AHEAD aggregates at once, so that it waits for memory once
// for each of these, and not for each tile. Before it looks again it sleeps, so that others get the issue slots.
//
// What is assumed: a thread block that has started goes on some time, whatever others do. CUDA promises it of threads
// that wait for others which have started, and a tile waits for no other ones, because tiles are handed out in the
// order in which thread blocks ask for them. No number of thread blocks has to be on the GPU at once. Where the GPU is
// shared, a whole kernel may be put aside; its thread blocks are so together, and go on together.
#pragma once

#include "lines.cuh"

constexpr unsigned int EVERYONE = 0xffffffffu;
constexpr unsigned int AGGREGATE = 1, STATE = 2;  // what a flag says is published
constexpr int AHEAD = 4;

using Real = Magnitude<Number>::type;
constexpr Real SAFE = Magnitude<Number>::SAFE;

using State = Vector<Number, CHANNELS>;
using Products = Vector<Number, COEFFICIENTS>;

// Of each lane a vector, in memory such that an access of the warp is contiguous.
template <class V>
__device__ __forceinline__ V load_lane(const char* global, int lane) {
    V value;
#pragma unroll
    for (int k = 0; k < V::ACCESSES; ++k)
        value.packets[k] = load(reinterpret_cast<const Packet<V::ACCESS_BYTES>*>(global) + k * 32 + lane);
    return value;
}
template <class V>
__device__ __forceinline__ void store_lane(char* global, int lane, const V& value) {
#pragma unroll
    for (int k = 0; k < V::ACCESSES; ++k)
        store(reinterpret_cast<Packet<V::ACCESS_BYTES>*>(global) + k * 32 + lane, value.packets[k]);
}
template <class V>
__device__ __forceinline__ V load_lane_shared(const char* shared, int lane) {
    V value;
#pragma unroll
    for (int k = 0; k < V::ACCESSES; ++k)
        value.packets[k] = load_shared(reinterpret_cast<const Packet<V::ACCESS_BYTES>*>(shared) + k * 32 + lane);
    return value;
}
template <class V>
__device__ __forceinline__ void store_lane_shared(char* shared, int lane, const V& value) {
#pragma unroll
    for (int k = 0; k < V::ACCESSES; ++k)
        store_shared(reinterpret_cast<Packet<V::ACCESS_BYTES>*>(shared) + k * 32 + lane, value.packets[k]);
}

constexpr int STATE_BYTES = 32 * State::BYTES;  // of a warp
constexpr int AGGREGATE_BYTES = STATE_BYTES + 32 * Products::BYTES;

struct Aggregate {
    State v;
    Products products;

    __device__ __forceinline__ Number product(int c) const { return products.items[COEFFICIENTS == 1 ? 0 : c]; }

    __device__ __forceinline__ Real largest_product() const {
        Real largest = magnitude(product(0));
#pragma unroll
        for (int c = 1; c < COEFFICIENTS; ++c) largest = fmax(largest, magnitude(product(c)));
        return largest;
    }
    // The state behind it.
    __device__ __forceinline__ State passes(State state) const {
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) state.items[c] = multiply_add(product(c), state.items[c], v.items[c]);
        return state;
    }
    // What this and then `next` give together.
    __device__ __forceinline__ void append(const Aggregate& next) {
        v = next.passes(v);
#pragma unroll
        for (int c = 0; c < COEFFICIENTS; ++c) products.items[c] = multiply(next.products.items[c], products.items[c]);
    }
};

__device__ __forceinline__ bool is_safe(const State& state) {
    bool all = true;
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c) all = all && magnitude(state.items[c]) <= SAFE;
    return all;
}

// What the tiles of a column publish, in the order of time. All flags are 0 at the start.
struct Column {
    unsigned int* flags;
    char* aggregates;
    char* states;
    int lane;
    int slot;   // of the lane's line, which several lanes have where there are fewer lines than lanes
    bool owns;  // whether the lane is the first of these

    __device__ __forceinline__ void publish(int tile, const Aggregate& aggregate) const {
        char* place = aggregates + static_cast<long long>(tile) * AGGREGATE_BYTES;
        if (owns) {
            store_lane(place, slot, aggregate.v);
            store_lane(place + STATE_BYTES, slot, aggregate.products);
        }
        raise(tile, AGGREGATE);
    }
    __device__ __forceinline__ void publish(int tile, const State& state) const {
        if (owns) store_lane(states + static_cast<long long>(tile) * STATE_BYTES, slot, state);
        raise(tile, STATE);
    }

    // The state before a tile that isn't the first. Whether all states on the way were safe is asked at the end: what
    // came of one that wasn't is dropped.
    __device__ __forceinline__ State before(int tile) const {
        int k = nearest_state(tile);
        State state = state_of(k);
        bool safe = true;
#pragma unroll 1
        for (++k; k < tile; k += AHEAD) {
            Aggregate next[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; ++i)
                if (k + i < tile) next[i] = aggregate_of(k + i);
#pragma unroll
            for (int i = 0; i < AHEAD; ++i) {
                if (k + i < tile) {
                    safe = safe && is_safe(state);
                    state = next[i].passes(state);
                }
            }
        }
        if (__all_sync(EVERYONE, safe)) return state;
        while (!__all_sync(EVERYONE, load_acquire(flags + tile - 1) == STATE)) wait_briefly();
        return state_of(tile - 1);
    }

private:
    // After the barrier of the warp the release of one lane is that of what all have stored.
    __device__ __forceinline__ void raise(int tile, unsigned int flag) const {
        __syncwarp();
        if (lane == 0) store_release(flags + tile, flag);
    }
    __device__ __forceinline__ State state_of(int tile) const {
        return load_lane<State>(states + static_cast<long long>(tile) * STATE_BYTES, slot);
    }
    __device__ __forceinline__ Aggregate aggregate_of(int tile) const {
        const char* place = aggregates + static_cast<long long>(tile) * AGGREGATE_BYTES;
        return {load_lane<State>(place, slot), load_lane<Products>(place + STATE_BYTES, slot)};
    }

    // Wait until a state is published and all aggregates between it and `tile`, and return whose it is.
    __device__ __forceinline__ int nearest_state(int tile) const {
        for (int nearest = tile - 1;; nearest -= 32) {
            unsigned int known;
            for (;; wait_briefly()) {
                // Each lane looks at a tile. The first publishes nothing but its state, so none before it is taken.
                const int k = nearest - lane;
                const unsigned int flag = k >= 0 ? load_acquire(flags + k) : STATE;
                known = __ballot_sync(EVERYONE, flag == STATE);
                const unsigned int missing = __ballot_sync(EVERYONE, flag < AGGREGATE);
                if (!(missing & (known - 1) & ~known)) break;  // none is nearer than all states known
            }
            // After the barrier of the warp what one lane has acquired is seen by all.
            __syncwarp();
            if (known) return nearest - (__ffs(known) - 1);
        }
    }
};
